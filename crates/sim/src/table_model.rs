//! The model of one table: its writes and the state of each.
//!
//! A write is *certain* when it was acknowledged and no later event can have removed it. It is *uncertain*
//! when it may or may not be present: it was in flight when the node died, or acknowledged only in the memory
//! of a machine that lost power, or raced with a truncate. The mark of a write (see [`content`]) settles it:
//!
//! - after a restart, every uncertain write is present for good or absent for good;
//! - while the node runs, this holds for acknowledged writes that raced with a truncate; a write that failed
//!   with its commit log stays uncertain until the restart.
//!
//! A failed truncate has emptied the table or not: of the writes acknowledged before it began, all or none
//! are present.

use std::sync::Arc;

use base::HashSet;
use engine::{PartitionPage, ReadCommand};
use model::{Mutation, PartitionKey, PartitionRange, TableSchema};
use reader::MemorySource;

use crate::content;

/// One write. A stamp is the number of an event: a start or an end, counted by the client.
#[derive(Clone, Debug)]
pub struct Write {
    pub seq: i32,
    pub mutation: Mutation,
    /// The stamp of its answer.
    pub ended: Option<u64>,
    pub is_acknowledged: bool,
    /// A later operation has made it durable against power failures.
    pub is_synced: bool,
    pub is_uncertain: bool,
}

/// See the head of this file.
pub struct TableModel {
    pub schema: Arc<TableSchema>,
    /// Writes that are present for good, merged.
    settled: MemorySource,
    settled_seqs: HashSet<i32>,
    writes: Vec<Write>,
    /// The stamp of a truncate that began and whose result is unknown.
    pub truncating: Option<u64>,
    /// Whether that truncate has failed.
    truncate_failed: bool,
    /// Stamp of the last start or end of a truncate or schema change; reads that span it are not compared.
    pub disturbed: u64,
    /// A schema change of this table is in progress, or has failed.
    pub is_changing: bool,
    /// The content at the last comparison of the whole table.
    present: MemorySource,
}

impl TableModel {
    pub fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            schema,
            settled: MemorySource::default(),
            settled_seqs: HashSet::default(),
            writes: vec![],
            truncating: None,
            truncate_failed: false,
            disturbed: 0,
            is_changing: false,
            present: MemorySource::default(),
        }
    }

    pub fn began(&mut self, seq: i32, mutation: Mutation) {
        self.writes.push(Write {
            seq,
            mutation,
            ended: None,
            is_acknowledged: false,
            is_synced: false,
            is_uncertain: false,
        });
    }

    /// Records an acknowledgement. `is_synced`: it promised durability against power failures.
    pub fn acknowledged(&mut self, seq: i32, stamp: u64, is_synced: bool) {
        if let Some(write) = self.writes.iter_mut().find(|write| write.seq == seq) {
            write.ended = Some(stamp);
            write.is_acknowledged = true;
            write.is_synced = is_synced;
        }
    }

    /// Records that the node refused the write: it did not happen.
    pub fn refused(&mut self, seq: i32) {
        self.writes.retain(|write| write.seq != seq);
    }

    /// Records that the write failed: it may have happened.
    pub fn failed(&mut self, seq: i32, stamp: u64) {
        if let Some(write) = self.writes.iter_mut().find(|write| write.seq == seq) {
            write.ended = Some(stamp);
            write.is_uncertain = true;
        }
    }

    /// Records that all writes acknowledged before `stamp` are durable.
    pub fn synced(&mut self, stamp: u64) {
        for write in self.writes.iter_mut().filter(|write| write.ended.is_some_and(|ended| ended < stamp)) {
            write.is_synced |= write.is_acknowledged;
        }
    }

    /// Records that a truncate that began at `begun` succeeded.
    pub fn truncated(&mut self, begun: u64) {
        self.forget_before(begun);
        self.writes.iter_mut().for_each(|write| write.is_uncertain = true);
        self.truncating = None;
    }

    /// Records that a truncate that began at `begun` failed. Writes that raced with it are uncertain; of all
    /// earlier writes, all or none are present.
    pub fn truncate_failed(&mut self, begun: u64) {
        self.truncate_failed = true;
        let raced = |write: &&mut Write| write.ended.is_none_or(|ended| ended >= begun);
        self.writes.iter_mut().filter(raced).for_each(|write| write.is_uncertain = true);
    }

    /// Whether the write may be present: it was neither refused nor removed by a truncate.
    pub fn knows(&self, seq: i32) -> bool {
        self.settled_seqs.contains(&seq) || self.writes.iter().any(|write| write.seq == seq)
    }

    /// After a restart and a comparison of the whole table: whether the write is present.
    pub fn has(&self, seq: i32) -> bool {
        self.settled_seqs.contains(&seq)
    }

    fn forget_before(&mut self, stamp: u64) {
        self.settled = MemorySource::default();
        self.settled_seqs.clear();
        self.writes.retain(|write| write.ended.is_none_or(|ended| ended >= stamp));
    }

    /// Records that the node died. `loses_unsynced`: unsynced writes may be lost.
    pub fn crashed(&mut self, loses_unsynced: bool) {
        if let Some(begun) = self.truncating.filter(|_| !self.truncate_failed) {
            self.truncate_failed(begun);
        }
        for write in &mut self.writes {
            write.is_uncertain |= !write.is_acknowledged || (loses_unsynced && !write.is_synced);
        }
    }

    /// Compares the whole table, as a read at `now_s` returns it, with the model, and settles uncertain
    /// writes.
    pub fn compare_whole(
        &mut self,
        found: &[PartitionPage],
        command: &ReadCommand,
        is_restarted: bool,
    ) -> Result<(), String> {
        let seen = content::marks(&self.schema, found);
        let mut is_emptied = false;
        let begun = self.truncating.unwrap_or(0);
        let is_before = |write: &Write| write.ended.is_some_and(|ended| ended < begun);
        if self.truncating.is_some() {
            is_emptied = !self.settled_seqs.iter().any(|seq| seen.contains(seq))
                && !self.writes.iter().any(|write| is_before(write) && seen.contains(&write.seq));
        }
        if is_restarted {
            self.truncating = None;
            self.truncate_failed = false;
            if is_emptied {
                self.forget_before(begun);
            }
        }
        let nothing = MemorySource::default();
        let settled = if is_emptied { &nothing } else { &self.settled };
        self.present = self.with(settled, None, |write| {
            let is_gone = is_emptied && is_before(write);
            seen.contains(&write.seq) || !(write.is_uncertain || is_gone)
        });
        let expected = content::expected(&self.present, &self.schema, command);
        if let Some(difference) = content::difference(&self.schema, &expected, found) {
            let wanted = content::marks(&self.schema, &expected);
            let mut lost: Vec<i32> = wanted.difference(&seen).copied().collect();
            lost.sort_unstable();
            let described: Vec<String> = lost.iter().map(|seq| self.describe(*seq)).collect();
            return Err(format!("{difference}\n  {}", described.join("\n  ")));
        }
        // The restart has settled a failed truncate.
        if self.truncating.is_none() {
            self.settle(&seen, is_restarted);
        }
        Ok(())
    }

    /// Describes the state of a missing write.
    fn describe(&self, seq: i32) -> String {
        match self.writes.iter().find(|write| write.seq == seq) {
            Some(write) => format!(
                "write {seq} to {}: answered at {:?}, acknowledged {}, synced {}",
                String::from_utf8_lossy(write.mutation.key.bytes()),
                write.ended,
                write.is_acknowledged,
                write.is_synced
            ),
            None => format!("write {seq}: seen before, and there for good"),
        }
    }

    fn settle(&mut self, seen: &HashSet<i32>, is_restarted: bool) {
        let mut kept = vec![];
        for mut write in std::mem::take(&mut self.writes) {
            let is_over = is_restarted || write.is_acknowledged;
            if write.is_uncertain && is_over && !seen.contains(&write.seq) {
                continue;
            }
            if is_over {
                write.is_uncertain = false;
            }
            if is_restarted || (is_over && write.is_synced) {
                self.settled_seqs.insert(write.seq);
                self.settled.apply(&write.mutation);
            } else {
                kept.push(write);
            }
        }
        self.writes = kept;
    }

    /// Compares any read of a table. Nothing may have been written since the last [`Self::compare_whole`].
    pub fn compare(&self, found: &[PartitionPage], command: &ReadCommand) -> Result<(), String> {
        let expected = content::expected(&self.present, &self.schema, command);
        match content::difference(&self.schema, &expected, found) {
            Some(difference) => Err(format!("{command:?}\n{difference}")),
            None => Ok(()),
        }
    }

    /// Compares a partition that was read whole in one page during writes: writes acknowledged before the
    /// read began must be present; later ones may be, each whole.
    pub fn compare_during_writes(
        &self,
        key: &PartitionKey,
        found: &[PartitionPage],
        command: &ReadCommand,
        begun: u64,
    ) -> Result<(), String> {
        let seen = content::marks(&self.schema, found);
        let mut settled = MemorySource::default();
        if let Some(partition) = self.settled.partitions().get(key) {
            settled.partitions_mut().insert(key.clone(), partition.clone());
        }
        let there = |write: &Write| {
            let before = write.is_acknowledged && write.ended.is_some_and(|ended| ended < begun);
            (before && !write.is_uncertain) || seen.contains(&write.seq)
        };
        let expected = content::expected(&self.with(&settled, Some(key), there), &self.schema, command);
        match content::difference(&self.schema, &expected, found) {
            Some(difference) => Err(format!("read while others wrote: {difference}")),
            None => Ok(()),
        }
    }

    fn with(
        &self,
        settled: &MemorySource,
        key: Option<&PartitionKey>,
        there: impl Fn(&Write) -> bool,
    ) -> MemorySource {
        let mut source = settled.clone();
        let wanted = |write: &&Write| key.is_none_or(|key| *key == write.mutation.key) && there(write);
        self.writes.iter().filter(wanted).for_each(|write| source.apply(&write.mutation));
        source
    }

    /// A read of the whole table.
    pub fn whole(&self, now_s: u32) -> ReadCommand {
        ReadCommand { now_s: Some(now_s), ..ReadCommand::new(self.schema.id, PartitionRange::all()) }
    }

    /// The number of uncertain writes.
    pub fn uncertain(&self) -> usize {
        self.writes.iter().filter(|write| write.is_uncertain).count()
    }
}
