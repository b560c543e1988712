//! Requests about statements and clients: distributions, pools, connections, timeouts, tracing, and the
//! partitions that are used most.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use base::histogram::EstimatedHistogram;
use engine::node::sampling;
use engine::report::TableReport;
use engine::table::counters::Latencies;
use serde::Deserialize;

use super::error::ApiError;
use super::tables::{names, select};
use super::{Answer, OfNode};
use crate::api::answers::CommandResult;
use crate::api::request_answers::{
    ClientConnection, Dropped, LargeData, Percentiles, Pool, Pools, RequestHistograms, SlowStatement,
    SlowStatements, TableHistograms, TimeoutSetting, TopPartition, TopPartitions, TraceProbability,
};
use crate::cql_server::{self, Operation, StatementReport, TimeoutKind};
use crate::managed_node::ManagedNode;

/// Limits of a sampling of keys.
const SAMPLING_MS_MAX: u64 = 3_600_000;
/// The most large partitions, rows and cells of an answer.
const LARGE_MAX: usize = 200;

#[derive(Deserialize)]
pub struct TableQuery {
    keyspace: Option<String>,
    table: Option<String>,
}

pub async fn table_histograms(
    State(node): OfNode,
    Query(query): Query<TableQuery>,
) -> Answer<Vec<TableHistograms>> {
    let catalog = node.catalog().await?;
    let wanted = select(
        &catalog,
        query.keyspace.as_deref(),
        query.table.as_deref().map_or(vec![], |table| vec![table]).as_slice(),
    )?;
    let reports = TableReport::of_all_shards(node.table_reports().await?);
    let of = |table: &std::sync::Arc<catalog::Table>| {
        let report = reports.iter().find(|report| report.id == table.schema.id)?;
        let mut bytes = EstimatedHistogram::new(150);
        let mut cells = EstimatedHistogram::new(118);
        for sstable in &report.sstables {
            bytes.merge(&sstable.partition_bytes);
            cells.merge(&sstable.partition_cells);
        }
        let opened = &report.sstables_per_read;
        let at = |share| opened.percentile(share);
        Some(TableHistograms {
            keyspace: report.keyspace.clone(),
            table: report.name.clone(),
            sstable_count: report.sstables.len() as u64,
            read_latency_us: Percentiles::of(&report.reads.histogram),
            write_latency_us: Percentiles::of(&report.writes.histogram),
            sstables_per_read: Percentiles {
                count: opened.count(),
                p50: at(0.5),
                p75: at(0.75),
                p95: at(0.95),
                p98: at(0.98),
                p99: at(0.99),
                min: opened.min(),
                max: opened.max(),
                is_overflowed: false,
            },
            partition_bytes: Percentiles::of(&bytes),
            partition_cells: Percentiles::of(&cells),
            live_rows: Percentiles::of(&report.slices.live),
            tombstones: Percentiles::of(&report.slices.dead),
        })
    };
    Ok(Json(wanted.iter().filter_map(of).collect()))
}

/// The latencies of an operation on all shards.
fn latency_of(shards: &[StatementReport], operation: Operation) -> Latencies {
    let mut all = Latencies::default();
    shards.iter().filter_map(|shard| shard.of(operation)).for_each(|report| all.merge(&report.latency));
    all
}

pub async fn request_histograms(State(node): OfNode) -> Answer<RequestHistograms> {
    let shards = node.statement_reports().await?;
    let of = |operation| Percentiles::of(&latency_of(&shards, operation).histogram);
    Ok(Json(RequestHistograms {
        read: of(Operation::Read),
        write: of(Operation::Write),
        range: of(Operation::Range),
        cas_read: of(Operation::CasRead),
        cas_write: of(Operation::CasWrite),
    }))
}

pub async fn pools(State(node): OfNode) -> Answer<Pools> {
    let shards = node.shard_reports().await?;
    let tables = node.table_reports().await?;
    let levels = node.level_reports().await?;
    let statements = node.statement_reports().await?;
    let compactions =
        node.engine.ask(0, |shard| async move { engine::node::compaction::report(&shard).await });
    let compactions = compactions.get().await?;
    let mut pools = vec![];
    let levels = || levels.iter().flatten();
    let under_way: u64 = levels().map(|level| u64::from(level.under_way)).sum();
    pools.push(Pool {
        name: "Native-Transport-Requests".into(),
        active: under_way,
        completed: levels().map(|level| level.requests).sum::<u64>().saturating_sub(under_way),
        all_time_blocked: levels().map(|level| level.delayed).sum(),
        ..Pool::default()
    });
    let mut reads = Pool { name: "ReadStage".into(), limit: Some(0), ..Pool::default() };
    for (_, limits, stats) in shards.iter().flat_map(|shard| &shard.reads) {
        reads.active += stats.used_count;
        reads.pending += stats.queued;
        reads.completed += stats.reads_admitted.saturating_sub(stats.used_count);
        reads.blocked += stats.queued;
        reads.all_time_blocked += stats.reads_enqueued_for_admission + stats.reads_enqueued_for_memory;
        reads.limit = reads.limit.map(|limit| limit.saturating_add(limits.count));
    }
    pools.push(reads);
    let tables = || tables.iter().flatten();
    pools.push(Pool {
        name: "MemtableFlushWriter".into(),
        pending: tables().map(|table| table.pending_flushes as u64).sum(),
        completed: tables().map(|table| table.flushes).sum(),
        all_time_blocked: shards.iter().map(|shard| shard.compactions.flush_waits).sum(),
        ..Pool::default()
    });
    pools.push(Pool {
        name: "CompactionExecutor".into(),
        active: compactions.iter().map(|shard| shard.running.len() as u64).sum(),
        pending: compactions.iter().flat_map(|shard| &shard.pending).map(|(_, jobs)| jobs).sum(),
        completed: compactions.iter().map(|shard| shard.stats.completed).sum(),
        limit: Some(compactions.iter().map(|shard| u64::from(shard.jobs_max)).sum()).filter(|jobs| *jobs > 0),
        ..Pool::default()
    });
    // A shard runs one task at a time, which is the one that makes this report.
    for group in shards.iter().flat_map(|shard| &shard.groups) {
        let name = format!("cpu:{}", group.name);
        let at = pools.iter().position(|pool| pool.name == name).unwrap_or_else(|| {
            pools.push(Pool { name, limit: Some(shards.len() as u64), ..Pool::default() });
            pools.len() - 1
        });
        pools[at].pending += group.ready_tasks;
        pools[at].completed += group.counters.polls;
    }
    let dropped = [
        ("READ_REQ", Operation::Read),
        ("RANGE_REQ", Operation::Range),
        ("MUTATION_REQ", Operation::Write),
        ("PAXOS_PREPARE_REQ", Operation::CasRead),
        ("PAXOS_COMMIT_REQ", Operation::CasWrite),
    ];
    let dropped = dropped.map(|(kind, operation)| Dropped {
        kind: kind.to_string(),
        count: statements.iter().filter_map(|shard| shard.of(operation)).map(|report| report.timeouts).sum(),
    });
    Ok(Json(Pools { pools, dropped: dropped.to_vec() }))
}

pub async fn clients(State(node): OfNode) -> Answer<Vec<ClientConnection>> {
    let found = node.engine.ask(0, |shard| async move { cql_server::clients(&shard).await }).get().await?;
    let of = |client: cql::system::ClientInfo| ClientConnection {
        address: client.address.to_string(),
        port: client.port,
        tls: client.tls,
        protocol_version: client.protocol_version,
        user: client.username,
        keyspace: client.keyspace,
        requests: client.requests,
        driver_name: client.driver_name,
        driver_version: client.driver_version,
        shard: client.shard,
        options: client.options,
    };
    let mut all: Vec<ClientConnection> = found.into_iter().map(of).collect();
    all.sort_by(|a, b| (&a.address, a.port).cmp(&(&b.address, b.port)));
    Ok(Json(all))
}

pub async fn slow(State(node): OfNode) -> Answer<SlowStatements> {
    let asked = node.engine.ask(0, |shard| async move { cql_server::slow_statements(&shard).await });
    let found = asked.get().await?;
    let of = |slow: cql_server::SlowStatement| SlowStatement {
        mean_us: slow.total_us / slow.count.max(1),
        text: slow.text,
        shard: slow.shard,
        count: slow.count,
        last_ms: slow.last_ms,
        last_us: slow.last_us,
        max_us: slow.max_us,
    };
    let mut statements: Vec<SlowStatement> = found.statements.into_iter().map(of).collect();
    statements.sort_by(|a, b| (b.last_ms, &a.text, a.shard).cmp(&(a.last_ms, &b.text, b.shard)));
    Ok(Json(SlowStatements { limit_us: found.limit_us, count: found.count, statements }))
}

pub async fn large_data(State(node): OfNode) -> Answer<Vec<LargeData>> {
    let asked = node.engine.ask(0, |shard| async move { engine::node::large_data(&shard).await });
    let of = |item: reports::LargeItem| {
        let mut large = LargeData {
            keyspace: item.keyspace,
            table: item.table,
            sstable: item.sstable,
            written_ms: item.written_ms,
            partition: item.partition_key,
            bytes: item.bytes,
            ..LargeData::default()
        };
        match item.kind {
            reports::LargeKind::Partition { rows, dead_rows, range_tombstones } => {
                large.kind = "partition".to_string();
                large.rows = Some(rows);
                large.tombstones = Some(dead_rows + range_tombstones);
            }
            reports::LargeKind::Row { clustering_key } => {
                large.kind = "row".to_string();
                large.clustering = clustering_key;
            }
            reports::LargeKind::Cell { clustering_key, column, elements } => {
                large.kind = "cell".to_string();
                large.clustering = clustering_key;
                large.column = Some(column);
                large.elements = elements;
            }
        }
        large
    };
    let mut items: Vec<LargeData> = asked.get().await?.into_iter().map(of).collect();
    let order = |item: &LargeData| {
        let LargeData { bytes, keyspace, table, sstable, partition, clustering, column, kind, .. } = item;
        let place = [keyspace, table, sstable, kind, partition, clustering].map(String::clone);
        (std::cmp::Reverse(*bytes), place, column.clone())
    };
    items.sort_by_cached_key(order);
    // An SSTable that several shards read is listed by each.
    items.dedup();
    items.truncate(LARGE_MAX);
    Ok(Json(items))
}

pub async fn timeouts(State(node): OfNode) -> Answer<Vec<TimeoutSetting>> {
    let timeouts = node.engine.ask(0, |shard| async move { cql_server::timeouts(&shard) }).get().await?;
    let of = |(name, kind): (&str, TimeoutKind)| TimeoutSetting {
        kind: name.to_string(),
        ms: timeouts.get(kind) as f64 / 1000.0,
    };
    Ok(Json(TimeoutKind::ALL.map(of).to_vec()))
}

#[derive(Deserialize)]
pub struct TimeoutQuery {
    kind: String,
    ms: u64,
}

pub async fn set_timeout(State(node): OfNode, Query(query): Query<TimeoutQuery>) -> Answer<CommandResult> {
    let kind = TimeoutKind::of_name(&query.kind).map_err(ApiError::bad_request)?;
    if query.ms == 0 && kind != TimeoutKind::CasContention {
        return Err(ApiError::bad_request("a timeout of 0 ms would refuse every request"));
    }
    let us = query.ms.saturating_mul(1000);
    let set = node.engine.ask(0, move |shard| async move {
        cql_server::set_timeout(&shard, kind, us).await;
        Ok(())
    });
    set.get().await?;
    log::info!(target: "admin", "timeout {}: {} ms, set by the admin API", query.kind, query.ms);
    Ok(Json(CommandResult { count: 1 }))
}

pub async fn trace_probability(State(node): OfNode) -> Answer<TraceProbability> {
    let asked = node.engine.ask(0, |shard| async move { cql_server::trace_probability(&shard) });
    Ok(Json(TraceProbability { probability: asked.get().await? }))
}

#[derive(Deserialize)]
pub struct TraceQuery {
    probability: f64,
}

pub async fn set_trace_probability(
    State(node): OfNode,
    Query(query): Query<TraceQuery>,
) -> Answer<CommandResult> {
    let probability = query.probability;
    if !(0.0..=1.0).contains(&probability) {
        return Err(ApiError::bad_request("Trace probability must be between 0 and 1"));
    }
    let set = node.engine.ask(0, move |shard| async move {
        cql_server::set_trace_probability(&shard, probability).await;
        Ok(())
    });
    set.get().await?;
    log::info!(target: "admin", "trace probability {probability}, set by the admin API");
    Ok(Json(CommandResult { count: 1 }))
}

#[derive(Deserialize)]
pub struct SamplingQuery {
    keyspace: Option<String>,
    /// Table names, separated by commas.
    tables: Option<String>,
    duration_ms: u64,
    capacity: usize,
    count: usize,
}

pub async fn top_partitions(
    State(node): OfNode,
    Query(query): Query<SamplingQuery>,
) -> Answer<TopPartitions> {
    let SamplingQuery { duration_ms, capacity, count, .. } = query;
    let limit = engine::table::hot_keys::CAPACITY_MAX;
    if !(1..=SAMPLING_MS_MAX).contains(&duration_ms) {
        return Err(ApiError::bad_request(format!("the duration must be 1 to {SAMPLING_MS_MAX} ms")));
    }
    if !(1..=limit).contains(&capacity) || !(1..=capacity).contains(&count) {
        return Err(ApiError::bad_request(format!(
            "the capacity must be 1 to {limit}, and the number of partitions at most the capacity"
        )));
    }
    let catalog = node.catalog().await?;
    let tables = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let ids: Vec<model::TableId> = tables.iter().map(|table| table.schema.id).collect();
    // The sampling ends even if the client goes away.
    let sampled = tokio::spawn(sample(node, ids, duration_ms, capacity, count));
    let hot = sampled
        .await
        .map_err(|panic| ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()))??;
    let of = |hot: Vec<sampling::HotPartition>| {
        let of = |hot: sampling::HotPartition| TopPartition {
            keyspace: hot.keyspace,
            table: hot.table,
            partition: hot.key,
            count: hot.count,
            error: hot.error,
        };
        hot.into_iter().map(of).collect()
    };
    Ok(Json(TopPartitions {
        duration_ms,
        reads_counted: hot.reads_counted,
        writes_counted: hot.writes_counted,
        reads: of(hot.reads),
        writes: of(hot.writes),
    }))
}

async fn sample(
    node: std::sync::Arc<ManagedNode>,
    ids: Vec<model::TableId>,
    duration_ms: u64,
    capacity: usize,
    count: usize,
) -> Result<sampling::HotPartitions, ApiError> {
    let asked = ids.clone();
    let begun = node
        .engine
        .ask(0, move |shard| async move { sampling::begin_sampling(&shard, &asked, capacity).await });
    begun.get().await?;
    tokio::time::sleep(Duration::from_millis(duration_ms)).await;
    let ended =
        node.engine.ask(0, move |shard| async move { sampling::end_sampling(&shard, &ids, count).await });
    Ok(ended.get().await?)
}
