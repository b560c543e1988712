//! Requests about compactions: running and ended ones, stop, limits, and jobs that users request.

use axum::Json;
use axum::extract::{Query, State};
use engine::compaction::Granularity;
use engine::node::compaction as compactions;
use engine::node::compaction::Rewrite;
use engine::node::scrub::{self, ScrubOptions};
use engine::node::verify;
use reports::{EndedCompaction, Scrubbed, Verified};
use serde::Deserialize;

use super::error::ApiError;
use super::tables::{names, select};
use super::{Answer, OfNode, check_serving};
use crate::api::answers::{
    AutoCompaction, CommandResult, Compactions, ConcurrentCompactors, PendingCompactions, RunningViewBuild,
    Throughput,
};
use crate::managed_node::ManagedNode;

#[derive(Deserialize)]
pub struct CompactQuery {
    keyspace: Option<String>,
    /// Table names, separated by commas.
    tables: Option<String>,
    /// Whether the output is split into SSTables of a half, a quarter, … of the data.
    #[serde(default)]
    split: bool,
    /// Data.db files of one table, separated by commas: only these are merged.
    files: Option<String>,
    /// `upgradesstables`: SSTables of the current version, too. `verify`: every row, too.
    #[serde(default)]
    all: bool,
    /// `garbagecollect`: ROW or CELL.
    granularity: Option<String>,
}

impl CompactQuery {
    async fn tables(&self, node: &ManagedNode) -> Result<Vec<model::TableId>, ApiError> {
        let catalog = node.catalog().await?;
        let tables = select(&catalog, self.keyspace.as_deref(), &names(self.tables.as_deref()))?;
        Ok(tables.iter().map(|table| table.schema.id).collect())
    }
}

pub async fn compact(State(node): OfNode, Query(query): Query<CompactQuery>) -> Answer<CommandResult> {
    check_serving(&node)?;
    if let Some(files) = &query.files {
        return merge_files(&node, files).await;
    }
    let tables = query.tables(&node).await?;
    let split = query.split;
    for id in &tables {
        let id = *id;
        let major =
            node.engine.ask(0, move |shard| async move { compactions::major(&shard, id, split).await });
        major.get().await?;
    }
    Ok(Json(CommandResult { count: tables.len() as u64 }))
}

async fn merge_files(node: &ManagedNode, files: &str) -> Answer<CommandResult> {
    let files: Vec<std::path::PathBuf> = names(Some(files)).into_iter().map(Into::into).collect();
    let catalog = node.catalog().await?;
    let mut by_table: Vec<(model::TableId, Vec<std::path::PathBuf>)> = vec![];
    for file in &files {
        // A name without a directory could belong to any table.
        let dir = file.parent().and_then(|dir| dir.file_name()).and_then(|dir| dir.to_str());
        let of = |table: &&std::sync::Arc<catalog::Table>| {
            let schema = &table.schema;
            dir.is_some_and(|dir| dir == format!("{}-{}", schema.name, schema.id.simple()))
        };
        let tables = ManagedNode::tables_of(&catalog, None);
        let Some(table) = tables.iter().find(of) else {
            let text =
                format!("{} is not in the directory of a table; give its absolute path", file.display());
            return Err(ApiError::not_found(text));
        };
        let id = table.schema.id;
        match by_table.iter_mut().find(|(other, _)| *other == id) {
            Some((_, of_table)) => of_table.push(file.clone()),
            None => by_table.push((id, vec![file.clone()])),
        }
    }
    let count = by_table.len() as u64;
    for (id, files) in by_table {
        let merge =
            node.engine.ask(0, move |shard| async move { compactions::merge_files(&shard, id, files).await });
        merge.get().await?;
    }
    Ok(Json(CommandResult { count }))
}

async fn rewrite(node: &ManagedNode, query: &CompactQuery, what: Rewrite) -> Answer<CommandResult> {
    check_serving(node)?;
    let tables = query.tables(node).await?;
    for id in &tables {
        let id = *id;
        let rewritten =
            node.engine.ask(0, move |shard| async move { compactions::rewrite(&shard, id, what).await });
        rewritten.get().await?;
    }
    Ok(Json(CommandResult { count: tables.len() as u64 }))
}

pub async fn upgrade(State(node): OfNode, Query(query): Query<CompactQuery>) -> Answer<CommandResult> {
    rewrite(&node, &query, Rewrite::Upgrade { all: query.all }).await
}

pub async fn garbage_collect(
    State(node): OfNode,
    Query(query): Query<CompactQuery>,
) -> Answer<CommandResult> {
    check_serving(&node)?;
    let granularity = match query.granularity.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None | Some("ROW") => Granularity::Row,
        Some("CELL") => Granularity::Cell,
        Some(other) => {
            return Err(ApiError::bad_request(format!("granularity must be ROW or CELL, not {other}")));
        }
    };
    let tables = query.tables(&node).await?;
    for id in &tables {
        let id = *id;
        let collected = node
            .engine
            .ask(0, move |shard| async move { compactions::garbage_collect(&shard, id, granularity).await });
        collected.get().await?;
    }
    Ok(Json(CommandResult { count: tables.len() as u64 }))
}

pub async fn cleanup(State(node): OfNode, Query(query): Query<CompactQuery>) -> Answer<CommandResult> {
    rewrite(&node, &query, Rewrite::Cleanup).await
}

pub async fn verify(State(node): OfNode, Query(query): Query<CompactQuery>) -> Answer<Verified> {
    check_serving(&node)?;
    let rows = query.all;
    let mut all = Verified::default();
    for id in query.tables(&node).await? {
        let asked = node.engine.ask(0, move |shard| async move { verify::verify(&shard, id, rows).await });
        all.merge(asked.get().await?);
    }
    Ok(Json(all))
}

#[derive(Deserialize)]
pub struct ScrubQuery {
    keyspace: Option<String>,
    /// Table names, separated by commas.
    tables: Option<String>,
    #[serde(default)]
    skip_corrupted: bool,
    #[serde(default)]
    no_snapshot: bool,
    #[serde(default)]
    no_validate: bool,
    /// SSTables at the same time on each shard; 0: as many as the limit of concurrent compactions.
    jobs: Option<u32>,
}

pub async fn scrub(State(node): OfNode, Query(query): Query<ScrubQuery>) -> Answer<Scrubbed> {
    check_serving(&node)?;
    let catalog = node.catalog().await?;
    let tables = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let ScrubQuery { skip_corrupted, no_snapshot, no_validate, jobs, .. } = query;
    let options = ScrubOptions { skip_corrupted, no_snapshot, no_validate, jobs };
    let mut all = Scrubbed::default();
    for table in tables {
        let (id, name) = (table.schema.id, table.schema.full_name());
        let asked = node.engine.ask(0, move |shard| async move { scrub::scrub(&shard, id, options).await });
        let of_table = asked.get().await?;
        if of_table.sstables > 0 {
            let (kept, lost) = (of_table.partitions, of_table.lost_partitions + of_table.damaged_partitions);
            log::info!(target: "admin", "scrubbed {name}: {kept} partitions kept, {lost} damaged or lost");
        }
        all.merge(of_table);
    }
    Ok(Json(all))
}

pub async fn list(State(node): OfNode) -> Answer<Compactions> {
    let reports = node.engine.ask(0, |shard| async move { compactions::report(&shard).await }).get().await?;
    let mut answer = Compactions::default();
    for report in &reports {
        for ((keyspace, table), jobs) in &report.pending {
            match answer.pending.iter_mut().find(|it| it.keyspace == *keyspace && it.table == *table) {
                Some(pending) => pending.jobs += jobs,
                None => answer.pending.push(PendingCompactions {
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                    jobs: *jobs,
                }),
            }
        }
        answer.running.extend(report.running.iter().cloned());
        let stats = &report.stats;
        answer.completed += stats.completed;
        answer.failed += stats.failed;
        answer.stopped += stats.stopped;
        answer.last_error = answer.last_error.or_else(|| stats.last_error.clone());
        answer.throughput_bytes_per_s += report.throughput_bytes_per_s;
        answer.concurrent = report.jobs_max;
    }
    answer.pending.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
    answer.view_builds = view_builds(&node).await?;
    Ok(Json(answer))
}

async fn view_builds(node: &ManagedNode) -> Result<Vec<RunningViewBuild>, ApiError> {
    let builds = node.engine.ask(0, |shard| async move { engine::node::view_builds(&shard).await });
    let builds = builds.get().await?;
    if builds.is_empty() {
        return Ok(vec![]);
    }
    let catalog = node.catalog().await?;
    let of = |build: &engine::node::ViewBuild| {
        // A view that was dropped meanwhile is not in the catalog.
        let schema = &catalog.table_by_id(build.view)?.schema;
        let done = (i128::from(build.last_token) - i128::from(i64::MIN)) as f64;
        Some(RunningViewBuild {
            keyspace: schema.keyspace.clone(),
            view: schema.name.clone(),
            keys: build.keys_built,
            progress: done / u64::MAX as f64,
        })
    };
    Ok(builds.iter().filter_map(of).collect())
}

pub async fn history(State(node): OfNode) -> Answer<Vec<EndedCompaction>> {
    Ok(Json(node.engine.ask(0, |shard| async move { compactions::history(&shard) }).get().await?))
}

#[derive(Deserialize)]
pub struct StopQuery {
    /// A kind as `compactionstats` shows it; `None`: all kinds.
    kind: Option<String>,
    /// Only this job, as `compactionstats` shows it: shard and number.
    id: Option<String>,
}

pub async fn stop(State(node): OfNode, Query(query): Query<StopQuery>) -> Answer<CommandResult> {
    if let Some(id) = &query.id {
        let parts =
            id.split_once('-').and_then(|(shard, job)| Some((shard.parse().ok()?, job.parse().ok()?)));
        let none = || ApiError::not_found(format!("there is no job {id}"));
        let (of_shard, job) = parts.ok_or_else(none)?;
        let stopped = node
            .engine
            .ask(0, move |shard| async move { compactions::stop_job(&shard, of_shard, job).await });
        return if stopped.get().await? { Ok(Json(CommandResult { count: 1 })) } else { Err(none()) };
    }
    let stopped = node.engine.ask(0, move |shard| async move { compactions::stop(&shard, query.kind).await });
    Ok(Json(CommandResult { count: stopped.get().await? as u64 }))
}

#[derive(Deserialize)]
pub struct ThroughputQuery {
    mib_per_s: f64,
}

pub async fn throughput(State(node): OfNode) -> Answer<Throughput> {
    let Json(all) = list(State(node)).await?;
    Ok(Json(Throughput { bytes_per_s: all.throughput_bytes_per_s }))
}

pub async fn set_throughput(
    State(node): OfNode,
    Query(query): Query<ThroughputQuery>,
) -> Answer<CommandResult> {
    if !(0.0..1e9).contains(&query.mib_per_s) {
        return Err(ApiError::bad_request("the throughput must be a number of MiB per second; 0: no limit"));
    }
    let bytes_per_s = (query.mib_per_s * f64::from(1 << 20)) as u64;
    let set = node
        .engine
        .ask(0, move |shard| async move { compactions::set_throughput(&shard, bytes_per_s).await });
    set.get().await?;
    Ok(Json(CommandResult { count: 0 }))
}

#[derive(Deserialize)]
pub struct ConcurrentQuery {
    jobs: u32,
}

pub async fn concurrent(State(node): OfNode) -> Answer<ConcurrentCompactors> {
    let Json(all) = list(State(node)).await?;
    Ok(Json(ConcurrentCompactors { jobs: all.concurrent }))
}

pub async fn set_concurrent(
    State(node): OfNode,
    Query(query): Query<ConcurrentQuery>,
) -> Answer<CommandResult> {
    let set =
        node.engine.ask(0, move |shard| async move { compactions::set_jobs_max(&shard, query.jobs).await });
    set.get().await?;
    Ok(Json(CommandResult { count: 0 }))
}

#[derive(Deserialize)]
pub struct AutoQuery {
    keyspace: Option<String>,
    tables: Option<String>,
    /// `None`: only report.
    enabled: Option<bool>,
}

/// Reports the tables' automatic compaction without changing it.
pub async fn show_auto(state: OfNode, Query(query): Query<AutoQuery>) -> Answer<Vec<AutoCompaction>> {
    if query.enabled.is_some() {
        return Err(ApiError::bad_request("use POST to set enabled"));
    }
    auto(state, Query(query)).await
}

pub async fn auto(State(node): OfNode, Query(query): Query<AutoQuery>) -> Answer<Vec<AutoCompaction>> {
    let catalog = node.catalog().await?;
    let tables = select(&catalog, query.keyspace.as_deref(), &names(query.tables.as_deref()))?;
    let mut answer = vec![];
    for table in tables {
        let id = table.schema.id;
        if let Some(enabled) = query.enabled {
            let set = node
                .engine
                .ask(0, move |shard| async move { compactions::set_auto(&shard, id, enabled).await });
            set.get().await?;
        }
        let is_auto = node.engine.ask(0, move |shard| async move { compactions::is_auto(&shard, id).await });
        answer.push(AutoCompaction {
            keyspace: table.schema.keyspace.clone(),
            table: table.schema.name.clone(),
            running: is_auto.get().await?,
        });
    }
    Ok(Json(answer))
}
