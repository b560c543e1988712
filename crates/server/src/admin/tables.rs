//! Requests about tables: statistics, flush, compact, the SSTables of a partition, loading SSTables from
//! outside.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use base::histogram::EstimatedHistogram;
use catalog::Table;
use engine::node;
use engine::node::upload;
use engine::report::{SSTableReport, TableReport};
use model::key::composite_key;
use model::{PartitionKey, TableSchema};
use reports::LoadedSSTables;
use serde::Deserialize;
use sstable::name::SSTableName;

use super::disk;
use super::error::ApiError;
use super::{Answer, OfNode, check_serving};
use crate::api::answers::{CommandResult, SSTables, TableStats};
use crate::managed_node::ManagedNode;

#[derive(Deserialize)]
pub struct TableQuery {
    keyspace: Option<String>,
    table: Option<String>,
}

pub async fn stats(State(node): OfNode, Query(query): Query<TableQuery>) -> Answer<Vec<TableStats>> {
    Ok(Json(gather(&node, query.keyspace.as_deref(), query.table.as_deref()).await?))
}

/// Statistics of the tables, added up over all shards, by keyspace and name.
pub async fn gather(
    node: &ManagedNode,
    keyspace: Option<&str>,
    table: Option<&str>,
) -> Result<Vec<TableStats>, ApiError> {
    let catalog = node.catalog().await?;
    let wanted = select(&catalog, keyspace, table.map_or(vec![], |table| vec![table]).as_slice())?;
    let reports = TableReport::of_all_shards(node.table_reports().await?);
    // A table that was dropped meanwhile has nothing.
    let nothing = TableReport { live_bytes: Some(0), ..TableReport::default() };
    let stats = wanted.iter().map(|table| {
        let report = reports.iter().find(|report| report.id == table.schema.id);
        table_stats(node, &table.schema, report.unwrap_or(&nothing))
    });
    Ok(stats.collect())
}

/// The named tables; without names, all tables of the keyspace or of all keyspaces.
pub fn select(
    catalog: &catalog::Catalog,
    keyspace: Option<&str>,
    tables: &[&str],
) -> Result<Vec<Arc<Table>>, ApiError> {
    if let Some(keyspace) = keyspace
        && catalog.keyspace(keyspace).is_none()
    {
        return Err(ApiError::not_found(format!("there is no keyspace {keyspace}")));
    }
    let all = ManagedNode::tables_of(catalog, keyspace);
    if tables.is_empty() {
        return Ok(all);
    }
    let Some(keyspace) = keyspace else {
        return Err(ApiError::bad_request("name the keyspace of the table"));
    };
    let find = |name: &&str| {
        let found = all.iter().find(|table| table.schema.name == *name).cloned();
        found.ok_or_else(|| ApiError::not_found(format!("there is no table {keyspace}.{name}")))
    };
    tables.iter().map(find).collect()
}

/// The directory of a table's SSTables. An attached table has it elsewhere; a table that no shard has yet has
/// none.
pub fn dir_of(node: &ManagedNode, schema: &TableSchema, report: Option<&TableReport>) -> PathBuf {
    match report.filter(|report| !report.dir.as_os_str().is_empty()) {
        None => node::table_dir(&node.config.data_dir, schema),
        Some(report) => report.dir.clone(),
    }
}

fn table_stats(node: &ManagedNode, schema: &TableSchema, report: &TableReport) -> TableStats {
    let sstables = &report.sstables;
    let live: Vec<SSTableName> = sstables.iter().map(|sstable| sstable.name).collect();
    let dir = dir_of(node, schema, Some(report));
    let space = disk::table_space(&dir, &live);
    let sum = |of: fn(&SSTableReport) -> u64| sstables.iter().map(of).sum::<u64>();
    let mut partition_bytes = EstimatedHistogram::new(150);
    sstables.iter().for_each(|sstable| partition_bytes.merge(&sstable.partition_bytes));
    let uncompressed_bytes = sum(|sstable| sstable.uncompressed_bytes);
    let memtable_partitions = report.memtable_partitions as u64;
    TableStats {
        keyspace: schema.keyspace.clone(),
        table: schema.name.clone(),
        id: schema.id.to_string(),
        sstable_count: sstables.len() as u64,
        unreadable_sstables: report.unreadable as u64,
        missing_sstables: report.missing as u64,
        max_sstable_bytes: sstables.iter().map(|sstable| sstable.disk_bytes).max().unwrap_or(0),
        compaction_strategy: report.strategy.to_string(),
        level_limits: {
            let top = sstables.iter().map(|sstable| sstable.level).max().unwrap_or(0) as usize;
            report.level_limits.iter().copied().take(top + 1).collect()
        },
        sstables_in_levels: levels(sstables, !report.level_limits.is_empty()),
        pending_compactions: report.pending_compactions,
        write_amplification: ratio(report.flushed_bytes + report.compacted_bytes, report.flushed_bytes),
        space_amplification: report.live_bytes.map(|live_bytes| ratio(report.disk_bytes, live_bytes)),
        sstables_per_read: ratio(report.point_read_sstables, report.point_reads),
        sstables_per_read_p99: report.sstables_per_read.percentile(0.99),
        sstables_per_read_max: report.sstables_per_read.max(),
        sstables_skipped_by_partition: report.skipped_by_partition,
        sstables_skipped_by_clustering: report.skipped_by_clustering,
        disk_bytes_per_read: ratio(report.fetched_bytes, report.reads.count()),
        disk_read_bytes: report.fetched_bytes,
        space_used_live: space.live_bytes,
        space_used_total: space.total_bytes,
        space_used_by_snapshots: space.snapshot_bytes,
        compression_ratio: if uncompressed_bytes == 0 {
            -1.0
        } else {
            sum(|sstable| sstable.data_bytes) as f64 / uncompressed_bytes as f64
        },
        partitions_estimate: sum(|sstable| sstable.partitions) + memtable_partitions,
        partition_min_bytes: partition_bytes.min(),
        partition_max_bytes: partition_bytes.max(),
        partition_mean_bytes: partition_bytes.mean().unwrap_or(0),
        memtable_partitions,
        memtable_bytes: report.memtable_bytes as u64,
        memtable_switch_count: report.flushes,
        pending_flushes: report.pending_flushes as u64,
        bloom_filter_false_positives: report.false_positives,
        bloom_filter_false_ratio: ratio(
            report.false_positives,
            report.false_positives + report.filter_negatives,
        ),
        live_per_slice_mean: report.live_recently.mean(),
        live_per_slice_max: report.live_recently.max,
        tombstones_per_slice_mean: report.dead_recently.mean(),
        tombstones_per_slice_max: report.dead_recently.max,
        droppable_tombstone_ratio: droppable_ratio(sstables),
        repaired_bytes: sum(|sstable| if sstable.is_repaired { sstable.uncompressed_bytes } else { 0 }),
        unrepaired_bytes: sum(|sstable| if sstable.is_repaired { 0 } else { sstable.uncompressed_bytes }),
        bloom_filter_bytes: sum(|sstable| sstable.filter_bytes as u64),
        compression_metadata_bytes: sum(|sstable| sstable.compression_bytes as u64),
        sstable_memory_bytes: sum(|sstable| sstable.memory_bytes as u64),
        reads: report.reads.report(),
        writes: report.writes.report(),
    }
}

fn ratio(of: u64, to: u64) -> f64 {
    if to == 0 { 0.0 } else { of as f64 / to as f64 }
}

/// The part of the cells and tombstones that are tombstones older than the grace period.
fn droppable_ratio(sstables: &[SSTableReport]) -> f64 {
    let sum = |of: fn(&SSTableReport) -> f64| sstables.iter().map(of).sum::<f64>();
    let droppable = sum(|sstable| sstable.droppable_tombstones);
    // Tombstones of rows and partitions are not among the cells.
    let all = sum(|sstable| sstable.cells.max(sstable.tombstones as f64));
    if all > 0.0 { (droppable / all).min(1.0) } else { 0.0 }
}

fn levels(sstables: &[SSTableReport], is_leveled: bool) -> Vec<u64> {
    let top = sstables.iter().map(|sstable| sstable.level).max().unwrap_or(0);
    let count = |level: u32| sstables.iter().filter(|sstable| sstable.level == level).count() as u64;
    if top == 0 && !is_leveled { vec![] } else { (0..=top).map(count).collect() }
}

#[derive(Deserialize)]
pub struct FlushQuery {
    keyspace: Option<String>,
    /// Table names, separated by commas.
    tables: Option<String>,
}

pub fn names(list: Option<&str>) -> Vec<&str> {
    list.unwrap_or_default().split(',').filter(|name| !name.is_empty()).collect()
}

pub async fn flush(State(node): OfNode, Query(query): Query<FlushQuery>) -> Answer<CommandResult> {
    check_serving(&node)?;
    let catalog = node.catalog().await?;
    let tables = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let ids: Vec<_> = tables.iter().map(|table| table.schema.id).collect();
    let count = ids.len() as u64;
    // An empty list means all tables to the engine.
    if count > 0 {
        node.engine.ask(0, |shard| async move { node::flush(&shard, ids).await }).get().await?;
    }
    Ok(Json(CommandResult { count }))
}

#[derive(Deserialize)]
pub struct KeyQuery {
    keyspace: String,
    table: String,
    /// The values of the partition key, separated by colons, as Cassandra's nodetool takes them.
    key: String,
}

pub async fn sstables(State(node): OfNode, Query(query): Query<KeyQuery>) -> Answer<SSTables> {
    let catalog = node.catalog().await?;
    let table = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0);
    let key = parse_key(&table.schema, &query.key).map_err(ApiError::bad_request)?;
    let id = table.schema.id;
    let found = node.engine.ask(0, move |shard| async move { node::sstables_of_key(&shard, id, key).await });
    let files = found.get().await?.iter().map(|path| path.display().to_string()).collect();
    Ok(Json(SSTables { files }))
}

#[derive(Deserialize)]
pub struct LoadQuery {
    keyspace: String,
    table: String,
    /// For import: an absolute path on the node's machine.
    dir: Option<PathBuf>,
}

pub async fn refresh(State(node): OfNode, Query(query): Query<LoadQuery>) -> Answer<LoadedSSTables> {
    load(&node, &query, None).await
}

pub async fn import(State(node): OfNode, Query(query): Query<LoadQuery>) -> Answer<LoadedSSTables> {
    let Some(dir) = query.dir.clone() else {
        return Err(ApiError::bad_request("name the directory: ?dir=…"));
    };
    if !dir.is_absolute() {
        let text =
            format!("{}: give an absolute path; the node may have another working directory", dir.display());
        return Err(ApiError::bad_request(text));
    }
    load(&node, &query, Some(dir)).await
}

async fn load(node: &Arc<ManagedNode>, query: &LoadQuery, dir: Option<PathBuf>) -> Answer<LoadedSSTables> {
    check_serving(node)?;
    let catalog = node.catalog().await?;
    let table = select(&catalog, Some(&query.keyspace), &[&query.table])?.remove(0);
    let (id, name) = (table.schema.id, table.schema.full_name());
    let asked = node.clone();
    // The load runs to its end even if the client disconnects.
    let loading = tokio::spawn(async move {
        let answer = asked.engine.ask(0, move |shard| async move {
            match dir {
                Some(dir) => upload::import(&shard, id, dir).await,
                None => upload::refresh(&shard, id).await,
            }
        });
        answer.get().await
    });
    let report = loading
        .await
        .map_err(|panic| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()))??;
    let (count, dir) = (report.sstables.len(), &report.dir);
    log::info!(target: "admin", "loaded {count} SSTables ({} bytes) from {dir} into {name}", report.data_bytes);
    Ok(Json(report))
}

/// Parses a partition key: values separated by colons, texts without quotes.
pub fn parse_key(schema: &TableSchema, text: &str) -> Result<PartitionKey, String> {
    let columns = &schema.partition_key;
    let parts: Vec<&str> = if columns.len() == 1 { vec![text] } else { text.split(':').collect() };
    if parts.len() != columns.len() {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        return Err(format!("{text:?} has {} values; the key is {}", parts.len(), names.join(":")));
    }
    let mut values = vec![];
    for (column, part) in columns.iter().zip(parts) {
        let bytes = column.ty.bytes_of(part).or_else(|error| {
            // The text is no literal; a string or a date becomes one with quotes around it.
            column.ty.bytes_of(&format!("'{}'", part.replace('\'', "''"))).map_err(|_| error)
        });
        values.push(bytes.map_err(|error| format!("{}: {error}", column.name))?);
    }
    let bytes = match &values[..] {
        [only] => only.clone(),
        values => composite_key(values.iter().map(Vec::as_slice)),
    };
    Ok(PartitionKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;

    #[test]
    fn keys_as_people_type_them() {
        let table = TableSchema::builder("ks", "t").partition_key("a", CqlType::Text);
        let one = table.clone().regular("v", CqlType::Int).build().unwrap();
        let two = table.partition_key("b", CqlType::Int).regular("v", CqlType::Int).build().unwrap();
        let check = |schema: &TableSchema, text: &str, bytes: &[u8]| {
            assert_eq!(parse_key(schema, text).unwrap().bytes(), bytes, "{text}");
        };
        check(&one, "it's a:b", b"it's a:b");
        check(&one, "'quoted'", b"quoted");
        check(&two, "ab:7", &[0, 2, b'a', b'b', 0, 0, 4, 0, 0, 0, 7, 0]);
        assert_eq!(parse_key(&two, "ab").unwrap_err(), "\"ab\" has 1 values; the key is a:b");
        assert!(parse_key(&two, "ab:x").unwrap_err().starts_with("b: "));
    }
}
