//! `nodetool verify`: reads and checks the SSTables of a table in place; damaged ones go into quarantine.
//!
//! An SSTable that several shards read is checked by one of them, chosen round robin. Verify writes nothing.
//! If only a filter, a summary or Messina.db is damaged, the SSTable is reported but not put into quarantine,
//! since its rows are sound and these components can be made again from them. A damaged component of a
//! secondary index is reported and built again.

use std::rc::Rc;

use reports::Verified;
use runtime::{IoClass, Shard};
use sstable::name::Component;
use sstable::read::{ChunkCache, Depth, SSTable};
use sstable::tools::{Finding, Findings};

use super::reshard::is_owner;
use crate::table::Table;

/// Maximum number of findings reported for each SSTable.
const FINDINGS_MAX: usize = 10;

/// Cache for reopening an SSTable; nothing of it is read twice.
const CACHE_BYTES: usize = 1 << 20;

/// Checks the SSTables that this shard has of the table, one after the other.
pub(crate) async fn verify_table(shard: &Shard, table: &Table, depth: Depth) -> Verified {
    let mut verified = Verified::default();
    verified.damaged.extend(table.sstables.unreadable());
    for sstable in table.sstables().iter() {
        if table.is_shared(sstable, shard.shard_count()) && !is_owner(shard, sstable.name()) {
            continue;
        }
        // A replacement that is under way seals its outputs while it holds the lock. Outputs of an unfinished
        // one are frozen, and have no seal yet.
        drop(table.files_lock.lock().await);
        if table.sstables.is_frozen(sstable.name()) {
            continue;
        }
        verified.sstables += 1;
        let mut reported = vec![];
        let mut damaged_indexes = 0;
        let mut findings = Findings::new(
            |finding: &Finding| {
                // It is built again; the data are sound.
                damaged_indexes += u64::from(table.forget_damaged_index(&finding.file));
                if reported.len() < FINDINGS_MAX {
                    reported.push(finding.to_string());
                }
            },
            |_, _| {},
        );
        // Reopened, because the files may have changed on disk since the start.
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
        let count = count - damaged_indexes;
        reported.extend(ended.as_ref().map(Finding::to_string));
        let rebuilt = opened.iter().flat_map(|opened| opened.rebuilt());
        reported.extend(rebuilt.map(|(component, why)| format!("{component} is damaged: {why}")));
        if !reported.is_empty() && !is_there() {
            // A compaction has replaced it or a truncate has removed it meanwhile, and some of its files were
            // already missing.
            verified.sstables -= 1;
            continue;
        }
        let data = table.dir.join(sstable.name().file_name(&Component::Data));
        if count > 0 || ended.is_some() {
            table.sstables.quarantine(&data);
        }
        if !reported.is_empty() {
            verified.damaged.push(format!("{}: {}", data.display(), reported.join("; ")));
        }
    }
    verified
}
