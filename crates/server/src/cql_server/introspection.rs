//! State of all shards for system tables and tools. It is collected only when a query needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::is_system_keyspace;
use catalog::virtual_tables::{Content, content_of};
use cql::Prepared;
use cql::system::{
    ClientInfo, GroupInfo, NodeInfo, PreparedInfo, SSTableTask, ShardInside, TableEstimate, TableInfo, Trace,
    ViewBuildInfo,
};
use engine::EngineError;
use engine::node;
use engine::report::{Caches, SSTableReport, ShardReport, TableReport};
use engine::shard::EngineShard;
use model::{TableId, TableSchema};
use reports::{MemoryClass, RunningCompaction};
use runtime::{CpuGroup, Shard};
use uuid::Uuid;

use super::CqlShard;

/// Adds to `info` the state of the shards that `table` shows. Other tables need no state of other shards.
pub(super) async fn fill_node_info(
    shard: &Shard,
    table: &TableSchema,
    info: &mut NodeInfo,
) -> Result<(), EngineError> {
    let Some(content) = content_of(&table.keyspace, &table.name) else { return Ok(()) };
    match content {
        Content::Nothing
        | Content::Schema
        | Content::Local
        | Content::Versions
        | Content::TokenRing
        | Content::Config
        | Content::TraceSessions
        | Content::TraceEvents
        | Content::SystemProperties
        | Content::Settings
        | Content::VirtualKeyspaces
        | Content::VirtualTables
        | Content::VirtualColumns => {}
        Content::SizeEstimates | Content::TableEstimates => {
            info.estimates = estimates(node::table_reports(shard).await?);
        }
        Content::Clients | Content::ClientsOfViews => info.clients = clients(shard).await?,
        Content::PreparedStatements | Content::CqlMetrics => info.prepared = prepared(shard)?,
        Content::LargePartitions | Content::LargeRows | Content::LargeCells => {
            info.large_data = node::large_data(shard).await?;
        }
        Content::ReaderSemaphores | Content::ReaderPermits => {
            let of_shard = |semaphores| ShardInside { semaphores, ..ShardInside::default() };
            info.shards = node::read_semaphores(shard).await?.into_iter().map(of_shard).collect();
        }
        Content::Memory => info.shards = memory(shard).await?.into_iter().map(memory_inside).collect(),
        Content::RuntimeInfo => {
            info.uptime_s = uptime_s(shard, info);
            info.tables = tables(node::table_reports(shard).await?);
            info.caches = Caches::of(&node::report(shard).await?).into_list();
            info.shards = memory(shard).await?.into_iter().map(memory_inside).collect();
        }
        Content::DiskUsage
        | Content::MaxPartitionSize
        | Content::MaxSSTableSize
        | Content::LocalReadLatency
        | Content::LocalWriteLatency => {
            info.uptime_s = uptime_s(shard, info);
            info.tables = tables(node::table_reports(shard).await?);
        }
        Content::SSTableTasks => {
            let reports = node::compaction::report(shard).await?;
            let since_us = i64::from(info.generation_s) * 1_000_000;
            let running = reports.iter().flat_map(|report| &report.running);
            info.sstable_tasks = running.map(|running| task(running, since_us)).collect();
        }
        Content::BuiltIndexes | Content::AttachedIndexes => {
            info.unbuilt_indexes = unbuilt_indexes(shard).await?;
        }
        Content::BuiltViews | Content::ViewBuilds => {
            let builds = node::view_builds(shard).await?.into_iter();
            info.view_builds = builds
                .map(|build| ViewBuildInfo {
                    view: build.view,
                    last_token: build.last_token,
                    keys_built: build.keys_built,
                })
                .collect();
        }
        Content::Caches => info.caches = Caches::of(&node::report(shard).await?).into_list(),
        Content::ThreadPools => info.groups = groups(&node::report(shard).await?),
        Content::Snapshots => info.snapshots = node::snapshots(shard).await?,
    }
    Ok(())
}

/// The description of the node, with the traces that it keeps and the clients of this shard.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub fn node_info(shard: &Shard) -> Result<NodeInfo, EngineError> {
    Ok(CqlShard::of(shard)?.node_info())
}

fn uptime_s(shard: &Shard, info: &NodeInfo) -> u64 {
    u64::try_from(shard.wall_us() / 1_000_000 - i64::from(info.generation_s)).unwrap_or(0)
}

fn memory_inside(memory: Vec<MemoryClass>) -> ShardInside {
    ShardInside { memory, ..ShardInside::default() }
}

/// The secondary indexes that some memtable or SSTable does not have yet.
async fn unbuilt_indexes(shard: &Shard) -> Result<Vec<Uuid>, EngineError> {
    let catalog = node::catalog(shard)?;
    let mut unbuilt = vec![];
    for schema in catalog.all_tables().map(|table| &table.schema).filter(|it| !it.indexes.is_empty()) {
        let states = node::index_states(shard, schema.id).await?;
        let is_unbuilt = |name: &str| states.iter().any(|state| state.name == name && !state.is_queryable());
        unbuilt.extend(schema.indexes.iter().filter(|it| is_unbuilt(&it.name)).map(|it| it.id));
    }
    Ok(unbuilt)
}

/// The connections of all shards.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub async fn clients(shard: &Shard) -> Result<Vec<ClientInfo>, EngineError> {
    let ask = |shard: Shard| async move { Ok(CqlShard::of(&shard)?.clients()) };
    Ok(node::on_all(shard, CpuGroup::Maintenance, ask).await?.concat())
}

/// Every shard has every prepared statement.
fn prepared(shard: &Shard) -> Result<Vec<PreparedInfo>, EngineError> {
    let of = |prepared: Arc<Prepared>| PreparedInfo {
        id: prepared.id,
        keyspace: prepared.keyspace.clone(),
        text: prepared.text.clone(),
    };
    Ok(CqlShard::of(shard)?.statements.all().into_iter().map(of).collect())
}

fn tables(shards: Vec<Vec<TableReport>>) -> Vec<TableInfo> {
    let of = |report: TableReport| {
        let disk_bytes = |sstable: &SSTableReport| sstable.disk_bytes;
        let partition_bytes = |sstable: &SSTableReport| sstable.partition_bytes.max();
        TableInfo {
            disk_bytes: report.sstables.iter().map(disk_bytes).sum(),
            largest_partition_bytes: report.sstables.iter().map(partition_bytes).max().unwrap_or(0),
            largest_sstable_bytes: report.sstables.iter().map(disk_bytes).max().unwrap_or(0),
            reads: report.reads.report(),
            writes: report.writes.report(),
            keyspace: report.keyspace,
            table: report.name,
        }
    };
    TableReport::of_all_shards(shards).into_iter().map(of).collect()
}

/// Partitions of SSTables and memtables; one that is in several is counted several times, as in Cassandra.
/// Tables of the system are left out.
fn estimates(shards: Vec<Vec<TableReport>>) -> BTreeMap<TableId, TableEstimate> {
    let tables = TableReport::of_all_shards(shards);
    let of = |table: &TableReport| {
        let in_sstables: u64 = table.sstables.iter().map(|it| it.partitions).sum();
        let bytes: u64 = table.sstables.iter().map(|it| it.uncompressed_bytes).sum();
        let estimate = TableEstimate {
            partitions: in_sstables + table.memtable_partitions as u64,
            mean_partition_bytes: bytes.checked_div(in_sstables).unwrap_or(0),
        };
        (table.id, estimate)
    };
    tables.iter().filter(|table| !is_system_keyspace(&table.keyspace)).map(of).collect()
}

/// Each start of the node numbers a shard's jobs anew, so the id also contains the start time `since_us`.
fn task(running: &RunningCompaction, since_us: i64) -> SSTableTask {
    SSTableTask {
        id: Trace::id_of(since_us, u64::from(running.shard) << 40 | running.id),
        keyspace: running.keyspace.clone(),
        table: running.table.clone(),
        kind: running.kind.to_string(),
        read_bytes: running.read_bytes,
        total_bytes: running.total_bytes,
    }
}

fn groups(shards: &[ShardReport]) -> Vec<GroupInfo> {
    let mut by_name: BTreeMap<&str, GroupInfo> = BTreeMap::new();
    for group in shards.iter().flat_map(|shard| &shard.groups) {
        let of_all = by_name.entry(&group.name).or_default();
        of_all.name.clone_from(&group.name);
        of_all.shards += 1;
        of_all.ready_tasks += group.ready_tasks;
    }
    by_name.into_values().collect()
}

/// Where the memory of each shard is, by class.
pub async fn memory(shard: &Shard) -> Result<Vec<Vec<MemoryClass>>, EngineError> {
    let ask = |shard: Shard| async move { memory_of(&*CqlShard::of(&shard)?) };
    node::on_all(shard, CpuGroup::Maintenance, ask).await
}

/// Clients' work in progress on a shard. All fields are zero when no client is connected and no request runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    pub connections: usize,
    pub requests: u32,
    pub request_bytes: usize,
    pub unfinished_bytes: usize,
    pub answer_bytes: usize,
    pub expected_answer_bytes: usize,
    pub result_bytes: u64,
}

/// Clients' work in progress on each shard.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub async fn requests_in_flight(shard: &Shard) -> Result<Vec<UnderWay>, EngineError> {
    let ask = |shard: Shard| async move {
        let cql = CqlShard::of(&shard)?;
        let connections = cql.connections.borrow().len();
        Ok(UnderWay {
            connections,
            requests: cql.requests.get(),
            request_bytes: cql.request_bytes.get(),
            unfinished_bytes: cql.unfinished_bytes.get(),
            answer_bytes: cql.answer_bytes.get(),
            expected_answer_bytes: cql.expected_answer_bytes.get(),
            result_bytes: cql.result_memory.used_bytes(),
        })
    };
    node::on_all(shard, CpuGroup::Maintenance, ask).await
}

/// Where this shard's memory is: what the engine has, and what clients take.
pub(super) fn memory_of(cql: &CqlShard) -> Result<Vec<MemoryClass>, EngineError> {
    let mut uses = EngineShard::of(&cql.shard)?.memory();
    let options = &cql.options;
    let of_clients = [
        ("requests", cql.request_bytes.get(), options.limits.request_bytes_max),
        ("unfinished_requests", cql.unfinished_bytes.get(), options.unfinished_bytes_max),
        ("answers", cql.answer_bytes.get(), options.answer_bytes_max),
        ("prepared_statements", cql.statements.bytes(), options.prepared_bytes_max),
    ];
    uses.extend(
        of_clients.map(|(class, bytes, max)| MemoryClass::new(class, bytes as u64, Some(max as u64))),
    );
    let results = &cql.result_memory;
    uses.push(MemoryClass::new("results", results.used_bytes(), Some(results.limit_bytes())));
    uses.push(MemoryClass::new("large_results", results.large_bytes(), Some(results.limit_bytes())));
    Ok(uses)
}
