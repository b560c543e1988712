//! Decides which tombstones a job may purge: droppable ones that no data outside the job may need.
//!
//! Data deleted by a tombstone may be in an SSTable that is not an input, in a memtable, or in the commit
//! log: a segment that is not recycled yet is replayed after a crash, even the entries that SSTables already
//! contain. A tombstone is therefore purged only if it is older than all known data of its partition in these
//! places.

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

/// The reason why a tombstone was kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// `gc_grace_seconds` is not over.
    Young,
    /// The table has `tombstone_gc = {'mode': 'disabled'}`.
    Disabled,
    /// The table has `only_purge_repaired_tombstones`, and an input is not repaired.
    NotRepaired,
    /// This SSTable may hold data that the tombstone deletes.
    SSTable(String),
    Memtable,
    /// A segment of the commit log still exists.
    CommitLog,
}

/// Numbers of tombstones and expired cells that were kept, by reason.
pub type KeptTombstones = BTreeMap<Blocker, u64>;

/// The SSTables of a job: its inputs, and the SSTables that it has added to the table.
pub(super) type OwnSSTables = Rc<RefCell<HashSet<SSTableName>>>;

/// The purge policy of one job.
pub(super) struct JobPurge {
    table: Rc<Table>,
    now_s: u32,
    gc_before_s: u32,
    /// The reason reported for tombstones that are not droppable yet.
    young: Blocker,
    own: OwnSSTables,
    /// The inputs may contain tombstones.
    has_tombstones: bool,
    /// The newest write in the inputs.
    max_timestamp_us: i64,
    kept: Rc<RefCell<KeptTombstones>>,
    /// The table's SSTables from which `horizon` was made.
    seen: Option<Rc<Vec<Rc<SSTable>>>>,
    horizon: PurgeHorizon<Other>,
    replayable_since_us: Option<i64>,
    /// The blocker of the current partition.
    blocker: Blocked,
}

/// Like [`Blocker`], without an allocation per partition.
#[derive(Clone, Copy)]
enum Blocked {
    SSTable(SSTableId),
    Memtable,
    CommitLog,
}

/// An SSTable outside the job, identified by its index in the table.
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

    /// Rebuilds the horizon if the table's SSTables have changed.
    fn refresh(&mut self) {
        let now = self.table.sstables();
        if self.seen.as_ref().is_some_and(|seen| Rc::ptr_eq(seen, &now)) {
            return;
        }
        let own = self.own.borrow();
        let others = (0..).zip(now.iter()).filter(|(_, sstable)| !own.contains(&sstable.name()));
        let others = others.map(|(place, sstable)| Other { place, sstable: sstable.clone() });
        self.horizon = PurgeHorizon::new(others, self.max_timestamp_us);
        // A later flush changes the SSTables too, and so leads here again.
        self.replayable_since_us = self.table.replayable_since_us();
        drop(own);
        self.seen = Some(now);
    }

    /// A lower bound for the timestamps of all data of the partition outside the job.
    fn max_purgeable_us(&mut self, key: &PartitionKey) -> i64 {
        self.refresh();
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
