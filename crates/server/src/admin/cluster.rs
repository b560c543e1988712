//! Requests about the cluster of one node: its ring, its keyspaces, its directories and SSTables.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use engine::node::{self, sampling};
use engine::report::TableReport;
use serde::Deserialize;
use sstable::name::SSTableName;

use super::error::ApiError;
use super::tables::{self, gather, names, parse_key, select};
use super::{Answer, OfNode};
use crate::api::answers::CommandResult;
use crate::api::cluster_answers::{
    Cluster, CompactionThresholds, DataPaths, Endpoints, KeySample, KeyspaceReplication, SSTableInfo,
    TableSSTables, ViewBuild,
};
use crate::cql_server;

pub async fn cluster(State(node): OfNode) -> Answer<Cluster> {
    let info = node.engine.ask(0, |shard| async move { cql_server::node_info(&shard) }).get().await?;
    let catalog = node.catalog().await?;
    let tables = gather(&node, None, None).await?;
    let keyspace = |keyspace: &catalog::Keyspace| KeyspaceReplication {
        name: keyspace.name.clone(),
        replication: keyspace.replication.clone(),
    };
    Ok(Json(Cluster {
        cluster_name: info.cluster_name,
        snitch: info.snitch,
        partitioner: info.partitioner,
        schema_version: catalog.schema_version().to_string(),
        release_version: info.release_version,
        host_id: info.host_id.to_string(),
        address: info.rpc_address.to_string(),
        port: info.rpc_port,
        storage_port: info.broadcast_port,
        data_center: info.data_center,
        rack: info.rack,
        tokens: info.tokens,
        generation: node.started.unix_s(),
        uptime_s: node.started.uptime().as_secs(),
        load_bytes: tables.iter().map(|table| table.space_used_live).sum(),
        mode: node.mode().name().to_string(),
        keyspaces: catalog.keyspaces().map(keyspace).collect(),
    }))
}

#[derive(Deserialize)]
pub struct KeyQuery {
    keyspace: String,
    table: String,
    key: String,
}

/// The replicas of a partition: this node.
pub async fn endpoints(State(node): OfNode, Query(query): Query<KeyQuery>) -> Answer<Endpoints> {
    let catalog = node.catalog().await?;
    let table = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0);
    let key = parse_key(&table.schema, &query.key).map_err(ApiError::bad_request)?;
    Ok(Json(Endpoints { endpoints: vec![node.config.address.clone()], token: key.token() }))
}

#[derive(Deserialize)]
pub struct TablesQuery {
    keyspace: Option<String>,
    /// Table names, separated by commas.
    tables: Option<String>,
}

pub async fn data_paths(State(node): OfNode, Query(query): Query<TablesQuery>) -> Answer<Vec<DataPaths>> {
    let catalog = node.catalog().await?;
    let wanted = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let reports = TableReport::of_all_shards(node.table_reports().await?);
    let of = |table: &std::sync::Arc<catalog::Table>| {
        let report = reports.iter().find(|report| report.id == table.schema.id);
        DataPaths {
            keyspace: table.schema.keyspace.clone(),
            table: table.schema.name.clone(),
            paths: vec![tables::dir_of(&node, &table.schema, report).display().to_string()],
        }
    };
    Ok(Json(wanted.iter().map(of).collect()))
}

pub async fn range_key_sample(State(node): OfNode) -> Answer<Vec<KeySample>> {
    let found = node.engine.ask(0, |shard| async move { sampling::sampled_tokens(&shard).await });
    let of = |((keyspace, table), tokens)| KeySample { keyspace, table, tokens };
    Ok(Json(found.get().await?.into_iter().map(of).collect()))
}

pub async fn sstable_info(
    State(node): OfNode,
    Query(query): Query<TablesQuery>,
) -> Answer<Vec<TableSSTables>> {
    let catalog = node.catalog().await?;
    let wanted = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let reports = TableReport::of_all_shards(node.table_reports().await?);
    let mut answer = vec![];
    for table in wanted {
        let Some(report) = reports.iter().find(|report| report.id == table.schema.id) else { continue };
        let of = |sstable: &engine::report::SSTableReport| {
            let SSTableName { version, generation, .. } = sstable.name;
            SSTableInfo {
                generation: generation.to_string(),
                version: version.to_string(),
                level: sstable.level,
                data_size: sstable.data_bytes,
                uncompressed_size: sstable.uncompressed_bytes,
                filter_size: sstable.filter_bytes as u64,
                index_size: sstable.index_bytes,
                size: sstable.disk_bytes,
                partitions: sstable.partitions,
                tombstones: sstable.tombstones,
                droppable_tombstones: sstable.droppable_tombstones,
                max_timestamp_ms: sstable.max_timestamp_us / 1000,
            }
        };
        let mut sstables: Vec<_> = report.sstables.iter().collect();
        sstables.sort_by_key(|sstable| sstable.name);
        answer.push(TableSSTables {
            keyspace: report.keyspace.clone(),
            table: report.name.clone(),
            sstables: sstables.into_iter().map(of).collect(),
        });
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
pub struct TableQuery {
    keyspace: String,
    table: String,
}

/// `min_threshold` and `max_threshold` of the table's compaction.
pub async fn thresholds(
    State(node): OfNode,
    Query(query): Query<TableQuery>,
) -> Answer<CompactionThresholds> {
    let catalog = node.catalog().await?;
    let table = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0);
    let of = |name: &str, default: u32| {
        let given = table.settings.compaction.get(name).and_then(|value| value.parse().ok());
        given.unwrap_or(default)
    };
    Ok(Json(CompactionThresholds { min: of("min_threshold", 4), max: of("max_threshold", 32) }))
}

#[derive(Deserialize)]
pub struct ViewQuery {
    keyspace: String,
    view: String,
}

pub async fn view_build_status(
    State(node): OfNode,
    Query(query): Query<ViewQuery>,
) -> Answer<Vec<ViewBuild>> {
    let catalog = node.catalog().await?;
    if catalog.keyspace(&query.keyspace).is_none() {
        return Err(ApiError::not_found(format!("there is no keyspace {}", query.keyspace)));
    }
    let view = catalog.table(&query.keyspace, &query.view).filter(|table| table.schema.view.is_some());
    let Some(id) = view.map(|view| view.schema.id) else {
        return Err(ApiError::not_found(format!("there is no view {}.{}", query.keyspace, query.view)));
    };
    let builds = node.engine.ask(0, |shard| async move { node::view_builds(&shard).await }).get().await?;
    let is_building = builds.iter().any(|build| build.view == id);
    let status = if is_building { "STARTED" } else { "SUCCESS" };
    Ok(Json(vec![ViewBuild { host: node.config.address.clone(), status: status.to_string() }]))
}

#[derive(Deserialize)]
pub struct IndexQuery {
    keyspace: String,
    table: String,
    /// Names, separated by commas.
    indexes: String,
}

/// Builds secondary indexes again; ends when they can be used.
pub async fn rebuild_indexes(State(node): OfNode, Query(query): Query<IndexQuery>) -> Answer<CommandResult> {
    super::check_serving(&node)?;
    let catalog = node.catalog().await?;
    let table = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0);
    // Cassandra writes table.index, too.
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
    let wanted: Vec<String> = names(Some(&query.indexes)).into_iter().map(short).collect();
    for name in &wanted {
        if !table.schema.indexes.iter().any(|index| index.name == *name) {
            let text = format!("the table {}.{} has no index {name}", query.keyspace, query.table);
            return Err(ApiError::not_found(text));
        }
    }
    let (id, count) = (table.schema.id, wanted.len() as u64);
    let rebuilt = node
        .engine
        .ask(0, move |shard| async move { engine::node::rebuild_indexes(&shard, id, wanted).await });
    rebuilt.get().await?;
    Ok(Json(CommandResult { count }))
}

/// Ends the process, as SIGTERM does.
pub async fn stop(State(node): OfNode) -> Answer<CommandResult> {
    log::info!(target: "admin", "stopping, asked by the admin API");
    node.stop();
    Ok(Json(CommandResult { count: 0 }))
}

/// Certificates that have changed are used for connections from now on.
pub async fn reload_certificates(State(node): OfNode) -> Answer<CommandResult> {
    node.listeners.reload_certificates();
    Ok(Json(CommandResult { count: 0 }))
}

#[derive(Deserialize)]
pub struct CacheQuery {
    /// `rows` or `keys`.
    cache: String,
}

/// Empties a cache.
pub async fn invalidate(State(node): OfNode, Query(query): Query<CacheQuery>) -> Answer<CommandResult> {
    let asked = match &query.cache[..] {
        "rows" => node.engine.ask(0, |shard| async move { engine::node::cache::clear_rows(&shard).await }),
        "keys" => {
            node.engine.ask(0, |shard| async move { engine::node::cache::clear_index_pages(&shard).await })
        }
        other => {
            let text = format!("there is no cache {other}: rows or keys");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, text));
        }
    };
    asked.get().await?;
    Ok(Json(CommandResult { count: 1 }))
}
