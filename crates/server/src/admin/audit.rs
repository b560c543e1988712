//! Requests about the audit log.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;

use super::error::ApiError;
use super::{Answer, OfNode};
use crate::api::answers::CommandResult;
use crate::api::audit_answers::AuditState;
use crate::audit;
use crate::config::audit::AuditConfig;
use crate::config::options::EnumOption;

/// Options that differ from the configuration. Names are separated by commas; an empty text is no name.
#[derive(Default, Deserialize)]
pub struct AuditQuery {
    included_keyspaces: Option<String>,
    excluded_keyspaces: Option<String>,
    included_categories: Option<String>,
    excluded_categories: Option<String>,
    included_users: Option<String>,
    excluded_users: Option<String>,
    roll_cycle: Option<String>,
    block: Option<bool>,
    max_queue_weight: Option<u64>,
    max_log_size: Option<u64>,
}

impl AuditQuery {
    fn over(self, configured: &AuditConfig) -> Result<AuditConfig, String> {
        let names = |given: Option<String>, configured: &[String]| match given {
            Some(names) => {
                names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_string).collect()
            }
            None => configured.to_vec(),
        };
        let mut roll_cycle = configured.roll_cycle;
        if let Some(name) = &self.roll_cycle
            && !roll_cycle.set_by_name(name)
        {
            return Err(format!("{name} is no roll cycle; there are: {}", roll_cycle.names().join(", ")));
        }
        Ok(AuditConfig {
            enabled: true,
            dir: configured.dir.clone(),
            included_keyspaces: names(self.included_keyspaces, &configured.included_keyspaces),
            excluded_keyspaces: names(self.excluded_keyspaces, &configured.excluded_keyspaces),
            included_categories: names(self.included_categories, &configured.included_categories),
            excluded_categories: names(self.excluded_categories, &configured.excluded_categories),
            included_users: names(self.included_users, &configured.included_users),
            excluded_users: names(self.excluded_users, &configured.excluded_users),
            roll_cycle,
            block: self.block.unwrap_or(configured.block),
            queue_bytes_max: self.max_queue_weight.unwrap_or(configured.queue_bytes_max),
            log_bytes_max: self.max_log_size.unwrap_or(configured.log_bytes_max),
        })
    }
}

/// The options that apply, or those of the configuration if the log is off.
pub async fn show(State(node): OfNode) -> Answer<AuditState> {
    let asked = node.engine.ask(0, |shard| async move {
        Ok::<_, engine::EngineError>((audit::options(&shard)?, audit::all_counts(&shard).await?))
    });
    let (options, counts) = asked.get().await?;
    let enabled = options.is_some();
    let shards = u64::from(node.engine.remote().shard_count());
    let options = match options {
        Some(options) => audit::AuditOptions {
            queue_bytes_max: options.queue_bytes_max.saturating_mul(shards),
            ..(*options).clone()
        },
        None => node.config.audit.options(&node.config.data_dir).map_err(ApiError::bad_request)?,
    };
    let audit::AuditOptions { rules, dir, roll_cycle, block, queue_bytes_max, log_bytes_max } = options;
    let audit::AuditRules { keyspaces, categories, users } = rules;
    Ok(Json(AuditState {
        enabled,
        logger: "FileAuditLogger".to_string(),
        audit_logs_dir: dir.display().to_string(),
        roll_cycle: roll_cycle.name().to_string(),
        block,
        max_log_size: log_bytes_max,
        max_queue_weight: queue_bytes_max,
        included_keyspaces: keyspaces.included,
        excluded_keyspaces: keyspaces.excluded,
        included_categories: categories.included,
        excluded_categories: categories.excluded,
        included_users: users.included,
        excluded_users: users.excluded,
        entries: counts.entries,
        dropped: counts.dropped,
    }))
}

pub async fn enable(State(node): OfNode, Query(query): Query<AuditQuery>) -> Answer<CommandResult> {
    let config = query.over(&node.config.audit).map_err(ApiError::bad_request)?;
    let mut options = config.options(&node.config.data_dir).map_err(ApiError::bad_request)?;
    options.queue_bytes_max /= u64::from(node.engine.remote().shard_count());
    let set = node.engine.ask(0, move |shard| async move { audit::enable(&shard, options).await });
    set.get().await?;
    log::info!(target: "admin", "the audit log was switched on by the admin API");
    Ok(Json(CommandResult { count: 1 }))
}

pub async fn disable(State(node): OfNode) -> Answer<CommandResult> {
    let set = node.engine.ask(0, |shard| async move { audit::disable(&shard).await });
    set.get().await?;
    log::info!(target: "admin", "the audit log was switched off by the admin API");
    Ok(Json(CommandResult { count: 1 }))
}
