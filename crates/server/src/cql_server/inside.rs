//! What some system tables and tools say of the inside of all shards: asked for when somebody wants to know, and only
//! then.

use catalog::system::SYSTEM;
use cql::system::{LargeItem, LargeKind, NodeInfo, PermitInfo, SemaphoreInfo, ShardInside};
use engine::EngineError;
use engine::large_data;
use engine::node;
use engine::read::admission::SemaphoreReport;
use engine::report::MemoryUse;
use engine::shard::EngineShard;
use model::TableSchema;
use runtime::{CpuGroup, Shard};

use super::CqlShard;

/// Adds to `info` what `table` tells of it.
pub(super) async fn look(shard: &Shard, table: &TableSchema, info: &mut NodeInfo) -> Result<(), EngineError> {
    if table.keyspace != SYSTEM {
        return Ok(());
    }
    match table.name.as_str() {
        "large_partitions" | "large_rows" | "large_cells" => {
            info.large_data = node::large_data(shard).await?.into_iter().map(large_item).collect();
        }
        "reader_semaphores" | "reader_permits" => {
            let of_shard = |semaphores: Vec<SemaphoreReport>| {
                let semaphores = semaphores.into_iter().map(semaphore).collect();
                ShardInside { semaphores, ..ShardInside::default() }
            };
            info.shards = node::read_semaphores(shard).await?.into_iter().map(of_shard).collect();
        }
        "memory" => {
            let of_class = |it: MemoryUse| (it.class.to_string(), it.bytes, it.limit_bytes);
            let of_shard = |uses: Vec<MemoryUse>| {
                let memory = uses.into_iter().map(of_class).collect();
                ShardInside { memory, ..ShardInside::default() }
            };
            info.shards = memory(shard).await?.into_iter().map(of_shard).collect();
        }
        _ => {}
    }
    Ok(())
}

/// Where the memory of each shard is, by class.
pub async fn memory(shard: &Shard) -> Result<Vec<Vec<MemoryUse>>, EngineError> {
    let ask = |shard: Shard| async move { memory_of(&*CqlShard::of(&shard)?) };
    node::on_all(shard, CpuGroup::Maintenance, ask).await
}

/// Where this shard's memory is: what the engine has, and what clients take.
pub(super) fn memory_of(cql: &CqlShard) -> Result<Vec<MemoryUse>, EngineError> {
    let mut uses = EngineShard::of(&cql.shard)?.memory();
    let options = &cql.options;
    let of_clients = [
        ("requests", cql.request_bytes.get(), options.limits.request_bytes_max),
        ("unfinished_requests", cql.unfinished_bytes.get(), options.unfinished_bytes_max),
        ("answers", cql.answer_bytes.get(), options.answer_bytes_max),
        ("prepared_statements", cql.statements.bytes(), options.prepared_bytes_max),
    ];
    uses.extend(of_clients.map(|(class, bytes, max)| MemoryUse::new(class, bytes as u64, Some(max as u64))));
    let results = &cql.result_memory;
    uses.push(MemoryUse::new("results", results.used_bytes(), Some(results.limit_bytes())));
    Ok(uses)
}

fn semaphore(report: SemaphoreReport) -> SemaphoreInfo {
    let SemaphoreReport { name, limits, stats, counters, permits } = report;
    SemaphoreInfo {
        name,
        admitted: stats.used_count,
        admitted_limit: limits.count,
        memory_bytes: stats.used_bytes,
        memory_limit_bytes: limits.memory_bytes,
        queued: stats.queued,
        stats: counters.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        permits: permits
            .into_iter()
            .map(|alike| {
                let (keyspace, table) = alike.table.split_once('.').unwrap_or(("", &alike.table));
                PermitInfo {
                    keyspace: keyspace.to_string(),
                    table: table.to_string(),
                    operation: alike.operation.to_string(),
                    state: alike.state.map_or("", |state| state.name()).to_string(),
                    permits: alike.permits,
                    admitted: alike.count,
                    memory_bytes: alike.bytes,
                }
            })
            .collect(),
    }
}

fn large_item(item: large_data::LargeItem) -> LargeItem {
    use large_data::LargeKind as Found;
    let large_data::LargeItem { keyspace, table, sstable, written_ms, partition_key, bytes, kind } = item;
    let kind = match kind {
        Found::Partition { rows, dead_rows, range_tombstones } => {
            LargeKind::Partition { rows, dead_rows, range_tombstones }
        }
        Found::Row { clustering_key } => LargeKind::Row { clustering_key },
        Found::Cell { clustering_key, column, elements } => {
            LargeKind::Cell { clustering_key, column, elements }
        }
    };
    LargeItem { keyspace, table, sstable, written_ms, partition_key, bytes, kind }
}
