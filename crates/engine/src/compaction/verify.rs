//! `nodetool verify`: the SSTables of a table are read and checked where they are; what is damaged goes into quarantine.
//!
//! An SSTable that several shards read is checked by the one whose turn it is. Nothing is written.

use model::TableId;
use runtime::{CpuGroup, IoClass, Shard};
use sstable::name::Component;
use sstable::read::Depth;
use sstable::tools::{Finding, Findings};

use super::reshard::is_turn;
use crate::error::EngineError;
use crate::node::on_all;
use crate::shard::EngineShard;

/// So many findings of each SSTable are told; the rest is a number.
const FINDINGS_MAX: usize = 10;

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
    Ok(all)
}

async fn verify_here(shard: &Shard, id: TableId, depth: Depth) -> Result<Verified, EngineError> {
    let engine = EngineShard::of(shard)?;
    let mut verified = Verified::default();
    // A system table lives on shard 0.
    let Ok(table) = engine.table(id) else { return Ok(verified) };
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
        let ended = sstable.verify(depth, IoClass::Maintenance, &mut findings).await;
        let count = findings.count;
        drop(findings);
        if let Err(error) = &ended {
            told.push(Finding::from(error).to_string());
        }
        if count > 0 || ended.is_err() {
            let data = table.dir.join(sstable.name().file_name(&Component::Data));
            table.quarantine(&data);
            verified.damaged.push(format!("{}: {}", data.display(), told.join("; ")));
        }
    }
    Ok(verified)
}
