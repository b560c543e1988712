//! Requests about snapshots.

use axum::Json;
use axum::extract::{Query, State};
use engine::node;
use serde::Deserialize;

use super::answers::{Done, Snapshot};
use super::error::ApiError;
use super::tables::select;
use super::{Answer, OfNode, check_serving, disk};

#[derive(Deserialize)]
pub struct SnapshotQuery {
    tag: Option<String>,
    keyspace: Option<String>,
    table: Option<String>,
}

/// By keyspace, table and tag.
pub async fn list(State(node): OfNode) -> Answer<Vec<Snapshot>> {
    let catalog = node.catalog().await?;
    let mut found = vec![];
    for table in select(&catalog, None, &[])? {
        let dir = node::table_dir(&node.config.data_dir, &table.schema);
        found.extend(disk::snapshots(&dir).into_iter().map(|snapshot| Snapshot {
            tag: snapshot.tag,
            keyspace: table.schema.keyspace.clone(),
            table: table.schema.name.clone(),
            true_bytes: snapshot.true_bytes,
            disk_bytes: snapshot.disk_bytes,
        }));
    }
    Ok(Json(found))
}

pub async fn take(State(node): OfNode, Query(query): Query<SnapshotQuery>) -> Answer<Done> {
    check_serving(&node)?;
    let Some(tag) = query.tag else { return Err(ApiError::bad_request("name the snapshot: ?tag=…")) };
    let catalog = node.catalog().await?;
    let tables =
        select(&catalog, query.keyspace.as_deref(), &query.table.as_deref().into_iter().collect::<Vec<_>>())?;
    // All or none: a tag that some table has is refused before the first is made.
    for table in &tables {
        let dir = node::table_dir(&node.config.data_dir, &table.schema);
        if disk::snapshots(&dir).iter().any(|snapshot| snapshot.tag == tag) {
            let name = table.schema.full_name();
            return Err(ApiError::bad_request(format!("{name} has a snapshot {tag} already")));
        }
    }
    for table in &tables {
        let (id, tag) = (table.schema.id, tag.clone());
        node.engine.ask(0, move |shard| async move { node::snapshot(&shard, id, tag).await }).get().await?;
    }
    Ok(Json(Done { count: tables.len() as u64 }))
}

pub async fn clear(State(node): OfNode, Query(query): Query<SnapshotQuery>) -> Answer<Done> {
    let catalog = node.catalog().await?;
    let mut count = 0;
    for table in
        select(&catalog, query.keyspace.as_deref(), &query.table.as_deref().into_iter().collect::<Vec<_>>())?
    {
        let dir = node::table_dir(&node.config.data_dir, &table.schema);
        let cleared = disk::clear_snapshots(&dir, query.tag.as_deref());
        count += cleared.map_err(|error| {
            let text = format!("cannot remove a snapshot in {}: {error}", dir.display());
            ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, text)
        })?;
    }
    Ok(Json(Done { count }))
}
