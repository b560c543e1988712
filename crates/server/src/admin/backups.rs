//! Requests about backups. Each runs on a thread of its own, because reading and writing a target blocks.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use backup::{BackupError, BackupSummary, Created, Pruned, Restored, Retention, Verified};
use serde::Deserialize;

use super::error::ApiError;
use super::{Answer, OfNode, check_serving};
use crate::api::backup_answers::BackupStatus;
use crate::managed_node::ManagedNode;
use crate::table_restore::TableRestore;

#[derive(Clone, Debug, Deserialize)]
pub struct BackupQuery {
    target: Option<String>,
    backup: Option<String>,
    keep: Option<usize>,
    older_than_ms: Option<u64>,
    #[serde(default)]
    dry_run: bool,
}

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.0)
    }
}

/// Runs `f` on a thread that may block.
async fn blocking<T: Send + 'static>(
    node: &Arc<ManagedNode>,
    f: impl FnOnce(&ManagedNode) -> Result<T, BackupError> + Send + 'static,
) -> Answer<T> {
    let node = node.clone();
    match tokio::task::spawn_blocking(move || f(&node)).await {
        Ok(done) => Ok(Json(done?)),
        Err(panic) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())),
    }
}

pub async fn create(State(node): OfNode, Query(query): Query<BackupQuery>) -> Answer<Created> {
    check_serving(&node)?;
    blocking(&node, move |node| {
        node.backups.create(&node.engine, &node.config.data_dir, query.target.as_deref())
    })
    .await
}

pub async fn list(State(node): OfNode, Query(query): Query<BackupQuery>) -> Answer<Vec<BackupSummary>> {
    blocking(&node, move |node| backup::list(&*node.backups.target(query.target.as_deref())?)).await
}

pub async fn verify(State(node): OfNode, Query(query): Query<BackupQuery>) -> Answer<Verified> {
    blocking(&node, move |node| {
        let target = node.backups.target(query.target.as_deref())?;
        backup::verify(&*target, query.backup.as_deref(), node.backups.options.io_bytes_per_s)
    })
    .await
}

pub async fn prune(State(node): OfNode, Query(query): Query<BackupQuery>) -> Answer<Pruned> {
    if query.keep.is_none() && query.older_than_ms.is_none() {
        return Err(ApiError::bad_request("name what to remove: ?keep=N or ?older_than_ms=MS"));
    }
    blocking(&node, move |node| {
        let older_than_us = query.older_than_ms.map(|ms| (ms as i64).saturating_mul(1000));
        let retention = Retention { keep: query.keep, older_than_us };
        backup::prune(&*node.backups.target(query.target.as_deref())?, &retention, query.dry_run)
    })
    .await
}

#[derive(Clone, Debug, Deserialize)]
pub struct RestoreQuery {
    target: Option<String>,
    backup: Option<String>,
    keyspace: Option<String>,
    table: Option<String>,
    #[serde(rename = "as")]
    new_name: Option<String>,
    #[serde(default)]
    merge: bool,
}

pub async fn restore(State(node): OfNode, Query(query): Query<RestoreQuery>) -> Answer<Restored> {
    check_serving(&node)?;
    let RestoreQuery { target, backup, keyspace, table, new_name, merge } = query;
    let Some(keyspace) = keyspace else {
        return Err(ApiError::bad_request(
            "name the keyspace: ?keyspace=…; a whole backup is restored while the node is stopped",
        ));
    };
    let asked = TableRestore { keyspace, table, new_name, merge };
    blocking(&node, move |node| {
        node.backups.restore(
            &node.engine,
            &node.config.data_dir,
            (target.as_deref(), backup.as_deref()),
            &asked,
        )
    })
    .await
}

pub async fn status(State(node): OfNode) -> Answer<BackupStatus> {
    Ok(Json(node.backups.status()))
}
