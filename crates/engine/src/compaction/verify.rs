//! `nodetool verify`: the SSTables of a table are read and checked where they are; what is damaged goes into quarantine.
//!
//! An SSTable that several shards read is checked by the one whose turn it is. Nothing is written. One of which only a filter, a
//! summary or Messina.db is damaged is told, and not put into quarantine: whatever is made of it is sound.

use std::rc::Rc;

use model::TableId;
use runtime::{CpuGroup, IoClass, Shard};
use sstable::name::Component;
use sstable::read::{ChunkCache, Depth, SSTable};
use sstable::tools::{Finding, Findings};

use super::reshard::is_turn;
use crate::error::EngineError;
use crate::node::on_all;
use crate::shard::EngineShard;

/// So many findings of each SSTable are told; the rest is a number.
const FINDINGS_MAX: usize = 10;

/// For opening an SSTable anew; nothing of it is read twice.
const CACHE_BYTES: usize = 1 << 20;

/// What a verify has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub sstables: u64,
    /// Those that are damaged, each with what is wrong with it, in a sentence.
    pub damaged: Vec<String>,
}

/// Checks every SSTable of the table on all shards, one after the other on each: checksums, and whether its files agree; with
/// `rows` every row too. May be called on any shard.
pub async fn verify(shard: &Shard, table: TableId, rows: bool) -> Result<Verified, EngineError> {
    let depth = if rows { Depth::Rows } else { Depth::Components };
    let check = move |shard: Shard| async move { verify_here(&shard, table, depth).await };
    let mut all = Verified::default();
    for of_shard in on_all(shard, CpuGroup::Maintenance, check).await? {
        all.sstables += of_shard.sstables;
        all.damaged.extend(of_shard.damaged);
    }
    // Each shard has tried to open what cannot be opened.
    all.damaged.sort();
    all.damaged.dedup();
    Ok(all)
}

async fn verify_here(shard: &Shard, id: TableId, depth: Depth) -> Result<Verified, EngineError> {
    let engine = EngineShard::of(shard)?;
    let mut verified = Verified::default();
    // A system table lives on shard 0.
    let Ok(table) = engine.table(id) else { return Ok(verified) };
    verified.damaged.extend(table.unreadable());
    for sstable in table.sstables().iter() {
        if table.is_shared(sstable, shard.shard_count()) && !is_turn(shard, sstable.name()) {
            continue;
        }
        verified.sstables += 1;
        let mut told = vec![];
        let mut findings = Findings::new(
            |finding: &Finding| {
                if told.len() < FINDINGS_MAX {
                    told.push(finding.to_string());
                }
            },
            |_, _| {},
        );
        // Opened anew: what was read at the start may have changed on the disk since.
        let cache = ChunkCache::new(CACHE_BYTES);
        let opened =
            SSTable::open(shard.files(), &table.dir, sstable.name(), &cache, IoClass::Maintenance).await;
        let is_there = || table.sstables().iter().any(|other| Rc::ptr_eq(other, sstable));
        let ended = match &opened {
            Ok(opened) => {
                let ended = opened.verify(depth, IoClass::Maintenance, &mut findings).await;
                ended.err().as_ref().map(Finding::from)
            }
            Err(error) => Some(Finding::from(error)),
        };
        let count = findings.count;
        drop(findings);
        told.extend(ended.as_ref().map(Finding::to_string));
        let rebuilt = opened.iter().flat_map(|opened| opened.rebuilt());
        told.extend(rebuilt.map(|(component, why)| format!("{component} is damaged: {why}")));
        if !told.is_empty() && !is_there() {
            // A compaction has replaced it meanwhile, or a truncate removed it, and some of its files were gone already.
            verified.sstables -= 1;
            continue;
        }
        let data = table.dir.join(sstable.name().file_name(&Component::Data));
        if count > 0 || ended.is_some() {
            table.quarantine(&data);
        }
        if !told.is_empty() {
            verified.damaged.push(format!("{}: {}", data.display(), told.join("; ")));
        }
    }
    Ok(verified)
}
