//! Requests about the levels of loggers.

use axum::Json;
use axum::extract::Query;
use serde::Deserialize;

use super::Answer;
use super::error::ApiError;
use crate::api::answers::{CommandResult, Logger};
use crate::logging;

#[derive(Deserialize)]
pub struct LevelQuery {
    logger: Option<String>,
    level: Option<String>,
}

/// The level of all loggers together and of each.
pub async fn list() -> Json<Vec<Logger>> {
    let levels = logging::levels().list();
    Json(
        levels
            .into_iter()
            .map(|(name, level)| Logger { name: name.into(), level: level.to_string() })
            .collect(),
    )
}

/// Sets the level of a logger. Without a level it gets the one of the configuration; without a logger, all
/// get theirs.
pub async fn set_level(Query(query): Query<LevelQuery>) -> Answer<CommandResult> {
    let given = |value: Option<String>| value.filter(|value| !value.is_empty());
    let (logger, level) = (given(query.logger), given(query.level));
    if let (None, Some(_)) = (&logger, &level) {
        return Err(ApiError::bad_request("name the logger whose level is to change: ?logger=ROOT&level=…"));
    }
    logging::set_level(logger.as_deref(), level.as_deref()).map_err(ApiError::bad_request)?;
    let logger = logger.as_deref().unwrap_or("all loggers");
    let level = level.as_deref().unwrap_or("as configured");
    log::info!(target: "admin", "log level of {logger}: {level}, set by the admin API");
    Ok(Json(CommandResult { count: 1 }))
}
