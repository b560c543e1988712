//! `nodetool scrub` on all shards; `compaction::scrub` is the part of one shard.

use model::TableId;
use reports::Scrubbed;
use runtime::{CpuGroup, Shard};
use sstable::name::SSTableName;

use super::{catalog, flush, of_all, on_all, snapshot};
use crate::error::EngineError;
use crate::shard::EngineShard;

pub use crate::compaction::scrub::ScrubOptions;

/// Scrubs every SSTable of the table on all shards, with the concurrency of the options. May be called on any
/// shard.
///
/// # Errors
/// The snapshot cannot be made; then no SSTable was changed. An SSTable that cannot be scrubbed is not an
/// error: see [`Scrubbed::left`].
pub async fn scrub(shard: &Shard, table: TableId, options: ScrubOptions) -> Result<Scrubbed, EngineError> {
    flush(shard, vec![table]).await?;
    let count = move |engine: &EngineShard| {
        let table = engine.table(table).ok().filter(|table| !table.is_read_only());
        Ok(table.map_or((0, vec![]), |table| (table.sstables().len(), table.sstables.unreadable_names())))
    };
    let mut sstables = 0;
    let mut all = Scrubbed::default();
    let mut unreadable: Vec<SSTableName> = vec![];
    for (count, names) in of_all(shard, count).await? {
        sstables += count;
        unreadable.extend(names);
    }
    // An SSTable that several shards read is unreadable on each of them.
    unreadable.sort();
    unreadable.dedup();
    if sstables == 0 && unreadable.is_empty() {
        return Ok(all);
    }
    if !options.no_snapshot {
        let tag = format!("pre-scrub-{}", shard.wall_us() / 1000);
        snapshot(shard, table, tag.clone()).await?;
        let name = catalog(shard)?.table_by_id(table).map(|table| table.schema.full_name());
        all.snapshots.push(format!("{}: {tag}", name.unwrap_or_default()));
    }
    let scrub = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        match engine.table(table) {
            Ok(_) => engine.compactions().scrub(table, options).await,
            // A system table lives on shard 0.
            Err(_) => Ok(Scrubbed::default()),
        }
    };
    on_all(shard, CpuGroup::Maintenance, scrub).await?.into_iter().for_each(|part| all.merge(part));
    for name in unreadable {
        let salvage = move |shard: Shard| async move {
            EngineShard::of(&shard)?.compactions().scrub_unreadable(table, name, options).await
        };
        let salvaged = shard.call(0, CpuGroup::Maintenance, salvage).await??;
        if salvaged.left.is_empty() {
            let is_readable = move |engine: &EngineShard| {
                engine.table(table).iter().for_each(|table| table.has_salvaged(name));
                Ok(())
            };
            of_all(shard, is_readable).await?;
        }
        all.merge(salvaged);
    }
    if !all.damaged.is_empty() || all.out_of_order > 0 {
        // The row cache mirrors the SSTables, whose content has changed.
        let clear = move |engine: &EngineShard| {
            engine.table(table).iter().for_each(|table| table.clear_cache());
            Ok(())
        };
        of_all(shard, clear).await?;
    }
    Ok(all)
}
