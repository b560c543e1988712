//! Requests about snapshots.

use axum::Json;
use axum::extract::{Query, State};
use engine::node::{self, Clear};
use reports::SnapshotReport;
use serde::Deserialize;

use super::error::ApiError;
use super::tables::select;
use super::{Answer, OfNode, check_serving, disk};
use crate::api::answers::{CommandResult, Snapshot};

#[derive(Deserialize)]
pub struct SnapshotQuery {
    tag: Option<String>,
    keyspace: Option<String>,
    table: Option<String>,
}

/// Snapshots by keyspace, table and tag; of dropped tables too.
pub async fn list(State(node): OfNode) -> Answer<Vec<Snapshot>> {
    let found = node.engine.ask(0, |shard| async move { node::snapshots(&shard).await }).get().await?;
    let snapshot = |report: SnapshotReport| {
        let space = disk::snapshot_space(&report.dir);
        let snapshot = SnapshotReport { disk_bytes: space.disk_bytes, ..report };
        Snapshot { snapshot, true_bytes: space.true_bytes }
    };
    Ok(Json(found.into_iter().map(snapshot).collect()))
}

pub async fn take(State(node): OfNode, Query(query): Query<SnapshotQuery>) -> Answer<CommandResult> {
    check_serving(&node)?;
    let Some(tag) = query.tag else { return Err(ApiError::bad_request("name the snapshot: ?tag=…")) };
    let catalog = node.catalog().await?;
    let tables =
        select(&catalog, query.keyspace.as_deref(), &query.table.as_deref().into_iter().collect::<Vec<_>>())?;
    // All or none: a tag that exists for any table is refused before the first snapshot is made.
    for table in &tables {
        let dir = node::table_dir(&node.config.data_dir, &table.schema);
        if disk::snapshot_tags(&dir).contains(&tag) {
            let name = table.schema.full_name();
            return Err(ApiError::bad_request(format!("{name} has a snapshot {tag} already")));
        }
    }
    for table in &tables {
        let (id, tag) = (table.schema.id, tag.clone());
        node.engine.ask(0, move |shard| async move { node::snapshot(&shard, id, tag).await }).get().await?;
    }
    Ok(Json(CommandResult { count: tables.len() as u64 }))
}

/// Clears snapshots of dropped tables and keyspaces, too.
pub async fn clear(State(node): OfNode, Query(query): Query<SnapshotQuery>) -> Answer<CommandResult> {
    let SnapshotQuery { tag, keyspace, table } = query;
    let found = node.engine.ask(0, |shard| async move { node::snapshots(&shard).await }).get().await?;
    let is_asked = |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|asked| asked == name);
    if !found.iter().any(|it| is_asked(&keyspace, &it.keyspace) && is_asked(&table, &it.table)) {
        // An unknown keyspace or table is an error; a table without snapshots is not.
        let catalog = node.catalog().await?;
        select(&catalog, keyspace.as_deref(), &table.as_deref().into_iter().collect::<Vec<_>>())?;
    }
    let which = Clear { keyspace, table, tag };
    let clear = move |shard| async move { node::clear_snapshots(&shard, which).await };
    Ok(Json(CommandResult { count: node.engine.ask(0, clear).get().await? }))
}
