//! What a job may drop for good: tombstones past their time that nothing outside the job may need.
//!
//! What a tombstone deletes may be in an SSTable that is not an input, in a memtable, or in the commit log: a
//! segment that is not put aside yet is replayed after a crash, also what of it is in SSTables since. So a tombstone
//! goes if it is older than everything that any of them has of its partition, as far as is known.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::HashSet;
use base::murmur3;
use model::{NO_DELETION_TIME_S, PartitionKey, Purge};
use reader::PurgePolicy;
use sstable::name::SstableName;
use sstable::read::SSTable;

use crate::table::Table;

/// What kept a tombstone from being dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// `gc_grace_seconds` is not over.
    Young,
    /// This SSTable may hold something that is deleted by it.
    SSTable(String),
    Memtable,
    /// A segment of the commit log that is still there.
    CommitLog,
}

/// Tombstones and expired cells that were kept, by cause.
pub type KeptTombstones = BTreeMap<Blocker, u64>;

/// The SSTables a job works on: its inputs, and what it has put into the table itself.
pub(super) type OwnSSTables = Rc<RefCell<HashSet<SstableName>>>;

/// Answers for one job.
pub(super) struct JobPurge {
    pub(super) table: Rc<Table>,
    pub(super) now_s: u32,
    pub(super) gc_before_s: u32,
    pub(super) own: OwnSSTables,
    /// There may be something to drop in the inputs.
    pub(super) has_tombstones: bool,
    pub(super) kept: Rc<RefCell<KeptTombstones>>,
    /// The table's SSTables when `others` was made of them.
    seen: Option<Rc<Vec<Rc<SSTable>>>>,
    others: Vec<Rc<SSTable>>,
    replayable_since_us: Option<i64>,
    blocker: Blocker,
}

impl JobPurge {
    pub(super) fn new(
        table: Rc<Table>,
        now_s: u32,
        gc_before_s: u32,
        inputs: &[Rc<SSTable>],
        own: OwnSSTables,
        kept: Rc<RefCell<KeptTombstones>>,
    ) -> Self {
        let has_tombstones = inputs.iter().any(|input| input.may_have_tombstones());
        Self {
            table,
            now_s,
            gc_before_s,
            own,
            has_tombstones,
            kept,
            seen: None,
            others: vec![],
            replayable_since_us: None,
            blocker: Blocker::Young,
        }
    }

    fn look_at_others(&mut self) {
        let now = self.table.sstables();
        if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &now)) {
            return;
        }
        let own = self.own.borrow();
        self.others = now.iter().filter(|sstable| !own.contains(&sstable.name())).cloned().collect();
        self.seen = Some(now);
        // What is flushed from now on changes the SSTables too.
        self.replayable_since_us = self.table.replayable_since_us();
    }

    /// Everything of the partition outside the job was written at this time or later.
    fn max_purgeable_us(&mut self, key: &PartitionKey) -> i64 {
        self.look_at_others();
        let mut least_us = i64::MAX;
        let mut blocker = Blocker::Young;
        if let Some(timestamp_us) = self.replayable_since_us
            && timestamp_us < least_us
        {
            (least_us, blocker) = (timestamp_us, Blocker::CommitLog);
        }
        if let Some(timestamp_us) = self.table.memtables_since_us(key)
            && timestamp_us < least_us
        {
            (least_us, blocker) = (timestamp_us, Blocker::Memtable);
        }
        let hash = murmur3::hash128(key.bytes());
        let mut blocking: Option<&Rc<SSTable>> = None;
        for other in &self.others {
            if other.min_timestamp_us() < least_us && other.may_contain_hashed(key, hash) {
                least_us = other.min_timestamp_us();
                blocking = Some(other);
            }
        }
        if let Some(sstable) = blocking {
            match &self.blocker {
                Blocker::SSTable(name) if *name == sstable.name().to_string() => return least_us,
                _ => blocker = Blocker::SSTable(sstable.name().to_string()),
            }
        }
        self.blocker = blocker;
        least_us
    }
}

impl PurgePolicy for JobPurge {
    fn purge(&mut self, key: &PartitionKey) -> Purge {
        if !self.has_tombstones {
            return Purge::nothing(self.now_s);
        }
        let max_purgeable_us = if self.gc_before_s == 0 { i64::MIN } else { self.max_purgeable_us(key) };
        Purge { now_s: self.now_s, gc_before_s: self.gc_before_s.min(NO_DELETION_TIME_S), max_purgeable_us }
    }

    fn kept(&mut self, young: u64, blocked: u64) {
        let mut kept = self.kept.borrow_mut();
        if young > 0 {
            *kept.entry(Blocker::Young).or_default() += young;
        }
        if blocked > 0 {
            *kept.entry(self.blocker.clone()).or_default() += blocked;
        }
    }
}
