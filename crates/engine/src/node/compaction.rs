//! Compactions of all shards together, for `nodetool`. May be called on any shard.

use std::path::PathBuf;
use std::rc::Rc;

use compaction::garbage::Granularity;
use model::TableId;
use reports::EndedCompaction;
use runtime::{CpuGroup, Shard};
use sstable::name::{Component, SSTableName};

use super::{flush, of_all, on_all};
use crate::compaction::explain::{CompactionExplanation, TombstonesReport};
use crate::compaction::report::CompactionReport;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::Table;

/// The reason for rewriting SSTables one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// `nodetool upgradesstables`: those of older versions, or all.
    Upgrade { all: bool },
    /// `nodetool cleanup`: those with partitions of other shards.
    Cleanup,
}

/// The table, if this shard compacts it. Other shards do not compact a system table, which lives on shard 0,
/// and no shard compacts an attached table.
fn compacted(engine: &EngineShard, table: TableId) -> Option<Rc<Table>> {
    engine.table(table).ok().filter(|table| !table.is_read_only())
}

/// Allows compactions to start on all shards.
pub async fn start(shard: &Shard) -> Result<(), EngineError> {
    of_all(shard, |engine| {
        engine.compactions().start();
        Ok(())
    })
    .await
    .map(drop)
}

/// `nodetool compact`: flushes the table and compacts all of it, on each shard in the way of its strategy.
pub async fn major(shard: &Shard, table: TableId, split: bool) -> Result<(), EngineError> {
    flush(shard, vec![table]).await?;
    let compact = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        match compacted(&engine, table) {
            Some(_) => engine.compactions().major(table, split).await,
            None => Ok(()),
        }
    };
    on_all(shard, CpuGroup::Compaction, compact).await.map(drop)
}

/// Rewrites the SSTables of a table one by one.
pub async fn rewrite(shard: &Shard, table: TableId, what: Rewrite) -> Result<(), EngineError> {
    let (kind, asked) = match what {
        Rewrite::Upgrade { .. } => ("Upgrade sstables", "upgradesstables"),
        Rewrite::Cleanup => ("Cleanup", "cleanup"),
    };
    flush(shard, vec![table]).await?;
    let rewrite = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let Some(known) = compacted(&engine, table) else { return Ok(()) };
        let (shards, version) = (shard.shard_count(), engine.compactions().sstable_version());
        let wants = move |sstable: &sstable::read::SSTable| match what {
            Rewrite::Upgrade { all } => all || sstable.name().version != version,
            Rewrite::Cleanup => !known.is_written_here(sstable, shards),
        };
        engine.compactions().rewrite(table, kind, asked, wants).await
    };
    on_all(shard, CpuGroup::Maintenance, rewrite).await.map(drop)
}

/// `nodetool garbagecollect`: rewrites the SSTables of a table one by one, without droppable tombstones and
/// without data that the other SSTables delete or, with granularity `Cell`, overwrite.
pub async fn garbage_collect(
    shard: &Shard,
    table: TableId,
    granularity: Granularity,
) -> Result<(), EngineError> {
    flush(shard, vec![table]).await?;
    let collect = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        match compacted(&engine, table) {
            Some(_) => engine.compactions().garbage_collect(table, granularity).await,
            None => Ok(()),
        }
    };
    on_all(shard, CpuGroup::Maintenance, collect).await.map(drop)
}

/// `nodetool compact --user-defined`: merges these Data.db files into one, on each shard those that it has.
///
/// # Errors
/// No shard has a file, or a job has one of them.
pub async fn merge_files(shard: &Shard, table: TableId, files: Vec<PathBuf>) -> Result<(), EngineError> {
    let name_of = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match SSTableName::parse_file_name(name) {
            Ok((name, Component::Data)) => Ok(name),
            _ => Err(EngineError::Invalid(format!("{} is not the Data.db of an SSTable", file.display()))),
        }
    };
    let names: Vec<SSTableName> = files.iter().map(name_of).collect::<Result<_, _>>()?;
    let asked = names.clone();
    let merge = move |shard: Shard| {
        let names = asked.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            let Some(known) = compacted(&engine, table) else { return Ok(vec![]) };
            let sstables = known.sstables();
            let mine: Vec<SSTableName> =
                sstables.iter().map(|sstable| sstable.name()).filter(|name| names.contains(name)).collect();
            if !mine.is_empty() {
                engine.compactions().merge(table, &mine).await?;
            }
            Ok(mine)
        }
    };
    let found = on_all(shard, CpuGroup::Maintenance, merge).await?.concat();
    match names.iter().find(|name| !found.contains(name)) {
        Some(missing) => Err(EngineError::Invalid(format!("the table has no SSTable {missing}"))),
        None => Ok(()),
    }
}

/// `nodetool stop`: stops the jobs of a kind, or all if none is given. Returns their number.
pub async fn stop(shard: &Shard, kind: Option<String>) -> Result<usize, EngineError> {
    let stop = move |engine: &EngineShard| Ok(engine.compactions().stop_jobs(kind.as_deref()));
    Ok(of_all(shard, stop).await?.into_iter().sum())
}

/// Stops one job of a shard; false if there is no such job.
pub async fn stop_job(shard: &Shard, of_shard: u32, id: u64) -> Result<bool, EngineError> {
    let stop =
        move |engine: &EngineShard| Ok(engine.shard().id() == of_shard && engine.compactions().stop_job(id));
    Ok(of_all(shard, stop).await?.contains(&true))
}

/// Limit for the bytes per second that the jobs of all shards together may read; 0: no limit.
pub async fn set_throughput(shard: &Shard, bytes_per_s: u64) -> Result<(), EngineError> {
    let shards = u64::from(shard.shard_count());
    let each = if bytes_per_s == 0 { 0 } else { (bytes_per_s / shards).max(1) };
    of_all(shard, move |engine| {
        engine.compactions().set_throughput(each);
        Ok(())
    })
    .await
    .map(drop)
}

/// Limit of concurrent jobs on each shard; 0: one of each weight.
pub async fn set_jobs_max(shard: &Shard, jobs: u32) -> Result<(), EngineError> {
    of_all(shard, move |engine| {
        engine.compactions().set_jobs_max(jobs);
        Ok(())
    })
    .await
    .map(drop)
}

/// Sets whether the table's strategy may start jobs.
pub async fn set_auto(shard: &Shard, table: TableId, auto: bool) -> Result<(), EngineError> {
    let set = move |engine: &EngineShard| match compacted(engine, table) {
        Some(_) => engine.compactions().set_auto(table, auto),
        None => Ok(()),
    };
    of_all(shard, set).await.map(drop)
}

/// See [`set_auto`].
pub async fn is_auto(shard: &Shard, table: TableId) -> Result<bool, EngineError> {
    let ask = move |engine: &EngineShard| {
        Ok(compacted(engine, table).is_none() || engine.compactions().is_auto(table)?)
    };
    Ok(of_all(shard, ask).await?.into_iter().all(|auto| auto))
}

/// The compactions of each shard.
pub async fn report(shard: &Shard) -> Result<Vec<CompactionReport>, EngineError> {
    of_all(shard, |engine| Ok(engine.compactions().report())).await
}

/// Why compactions of the table run or wait, on each shard.
///
/// # Errors
/// The table was dropped, or is only read.
pub async fn explain(shard: &Shard, table: TableId) -> Result<Vec<CompactionExplanation>, EngineError> {
    let ask = move |engine: &EngineShard| match compacted(engine, table) {
        Some(_) => engine.compactions().explain(table).map(Some),
        None => Ok(None),
    };
    Ok(of_all(shard, ask).await?.into_iter().flatten().collect())
}

/// The tombstones of the table, on each shard.
///
/// # Errors
/// The table was dropped, or is only read.
pub async fn tombstones(shard: &Shard, table: TableId) -> Result<Vec<TombstonesReport>, EngineError> {
    let ask = move |engine: &EngineShard| match compacted(engine, table) {
        Some(_) => engine.compactions().tombstones(table).map(Some),
        None => Ok(None),
    };
    Ok(of_all(shard, ask).await?.into_iter().flatten().collect())
}

/// Compactions of all shards that ended well, oldest first.
pub fn history(shard: &Shard) -> Result<Vec<EndedCompaction>, EngineError> {
    Ok(EngineShard::of(shard)?.compactions().history().all())
}
