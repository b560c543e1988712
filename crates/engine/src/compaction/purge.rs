//! What a job may drop for good: tombstones past their time that nothing outside the job may need.
//!
//! What a tombstone deletes may be in an SSTable that is not an input, in a memtable, or in the commit log: a
//! segment that is not put aside yet is replayed after a crash, also what of it is in SSTables since. So a tombstone
//! goes if it is older than everything that any of them has of its partition, as far as is known.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{HashSet, broken};
use compaction::SSTableId;
use compaction::purge::{Blocker as HorizonBlocker, Outside, PurgeHorizon};
use model::{PartitionKey, Purge};
use reader::PurgePolicy;
use sstable::name::SSTableName;
use sstable::read::SSTable;

use crate::table::Table;

/// What kept a tombstone from being dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// `gc_grace_seconds` is not over.
    Young,
    /// The table has `tombstone_gc = {'mode': 'disabled'}`.
    Disabled,
    /// The table has `only_purge_repaired_tombstones`, and an input is not repaired.
    NotRepaired,
    /// This SSTable may hold something that is deleted by it.
    SSTable(String),
    Memtable,
    /// A segment of the commit log that is still there.
    CommitLog,
}

/// Tombstones and expired cells that were kept, by cause.
pub type KeptTombstones = BTreeMap<Blocker, u64>;

/// The SSTables a job works on: its inputs, and what it has put into the table itself.
pub(super) type OwnSSTables = Rc<RefCell<HashSet<SSTableName>>>;

/// Answers for one job.
pub(super) struct JobPurge {
    table: Rc<Table>,
    now_s: u32,
    gc_before_s: u32,
    /// What it is called when a tombstone's time is not over.
    young: Blocker,
    own: OwnSSTables,
    /// There may be something to drop in the inputs.
    has_tombstones: bool,
    /// The newest write of the inputs.
    max_timestamp_us: i64,
    kept: Rc<RefCell<KeptTombstones>>,
    /// The table's SSTables when `horizon` was made of them.
    seen: Option<Rc<Vec<Rc<SSTable>>>>,
    horizon: PurgeHorizon<Other>,
    replayable_since_us: Option<i64>,
    /// What is in the way for the partition at hand.
    blocker: Blocked,
}

/// As [`Blocker`], without an allocation per partition.
#[derive(Clone, Copy)]
enum Blocked {
    SSTable(SSTableId),
    Memtable,
    CommitLog,
}

/// An SSTable outside, numbered by its place in the table.
struct Other {
    place: u64,
    sstable: Rc<SSTable>,
}

impl Outside for Other {
    fn id(&self) -> SSTableId {
        SSTableId(self.place)
    }

    fn first(&self) -> &PartitionKey {
        self.sstable.first_key()
    }

    fn last(&self) -> &PartitionKey {
        self.sstable.last_key()
    }

    fn min_live_timestamp_us(&self) -> i64 {
        self.sstable.min_timestamp_us()
    }

    fn may_contain(&self, key: &PartitionKey) -> bool {
        self.sstable.may_contain(key)
    }
}

impl JobPurge {
    pub(super) fn new(
        table: Rc<Table>,
        now_s: u32,
        (gc_before_s, young): (u32, Blocker),
        inputs: &[Rc<SSTable>],
        own: OwnSSTables,
        kept: Rc<RefCell<KeptTombstones>>,
    ) -> Self {
        let max_timestamp_us = inputs.iter().map(|input| input.max_timestamp_us()).max().unwrap_or(i64::MIN);
        Self {
            table,
            now_s,
            gc_before_s,
            young,
            own,
            has_tombstones: inputs.iter().any(|input| input.may_have_tombstones()),
            max_timestamp_us,
            kept,
            seen: None,
            horizon: PurgeHorizon::new([], max_timestamp_us),
            replayable_since_us: None,
            blocker: Blocked::Memtable,
        }
    }

    /// Another look at the table, if it has other SSTables now.
    fn look(&mut self) {
        let now = self.table.sstables();
        if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &now)) {
            return;
        }
        let own = self.own.borrow();
        let others = (0..).zip(now.iter()).filter(|(_, sstable)| !own.contains(&sstable.name()));
        let others = others.map(|(place, sstable)| Other { place, sstable: sstable.clone() });
        self.horizon = PurgeHorizon::new(others, self.max_timestamp_us);
        // What is flushed from now on changes the SSTables too.
        self.replayable_since_us = self.table.replayable_since_us();
        drop(own);
        self.seen = Some(now);
    }

    /// Everything of the partition outside the job was written at this time or later.
    fn max_purgeable_us(&mut self, key: &PartitionKey) -> i64 {
        self.look();
        if broken::is("tombstone_purge") {
            return i64::MAX;
        }
        let table = &self.table;
        let memtables_since_us = table.memtables.min_timestamp_us();
        let (mut max_us, blocker) =
            self.horizon.max_purgeable(key, memtables_since_us, |key| table.memtables.since_us_of(key));
        self.blocker = match blocker {
            Some(HorizonBlocker::SSTable(id)) => Blocked::SSTable(id),
            Some(HorizonBlocker::Memtable) | None => Blocked::Memtable,
        };
        if let Some(since_us) = self.replayable_since_us
            && since_us < max_us
        {
            (max_us, self.blocker) = (since_us, Blocked::CommitLog);
        }
        max_us
    }

    fn blocker(&self) -> Blocker {
        match self.blocker {
            Blocked::Memtable => Blocker::Memtable,
            Blocked::CommitLog => Blocker::CommitLog,
            Blocked::SSTable(SSTableId(place)) => {
                let sstable = self.seen.as_ref().and_then(|seen| seen.get(place as usize));
                Blocker::SSTable(sstable.map(|it| it.name().to_string()).unwrap_or_default())
            }
        }
    }
}

impl PurgePolicy for JobPurge {
    fn purge(&mut self, key: &PartitionKey) -> Purge {
        if !self.has_tombstones || self.gc_before_s == 0 {
            return Purge::nothing(self.now_s);
        }
        let max_purgeable_us = self.max_purgeable_us(key);
        Purge { now_s: self.now_s, gc_before_s: self.gc_before_s, max_purgeable_us }
    }

    fn kept(&mut self, young: u64, blocked: u64) {
        let mut kept = self.kept.borrow_mut();
        if young > 0 {
            *kept.entry(self.young.clone()).or_default() += young;
        }
        if blocked > 0 {
            *kept.entry(self.blocker()).or_default() += blocked;
        }
    }
}
