//! What a strategy sees of a table on one shard: values, made anew for each decision.

use std::rc::Rc;

use base::hyperloglog::HyperLogLog;
use model::PartitionKey;

use crate::sample::SampledOverlap;

/// Names an SSTable within its table and shard, as its generation does; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SSTableId(pub u64);

/// Names a run: SSTables whose partitions lie one after the other, so that together they are like one. An SSTable of
/// no run is a run of its own; whoever makes the view gives it a `RunId` that no other has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u128);

/// One SSTable.
#[derive(Clone, Debug)]
pub struct SSTableView {
    pub id: SSTableId,
    pub run: RunId,
    /// Bytes of Data.db before compression.
    pub data_bytes: u64,
    /// Bytes of all components on disk.
    pub disk_bytes: u64,
    /// The smallest and the largest partition key.
    pub first: PartitionKey,
    pub last: PartitionKey,
    /// The level of leveled compaction; 0 otherwise.
    pub level: u32,
    /// The least and the greatest timestamp of a write in it, microseconds since 1970 by convention.
    pub min_timestamp_us: i64,
    pub max_timestamp_us: i64,
    /// The latest time at which something in it dies or died, in seconds since 1970;
    /// [`model::NO_DELETION_TIME_S`] if it holds something that never does.
    pub max_deletion_time_s: u32,
    /// There may be deletions or data that expire in it.
    pub may_delete: bool,
    /// When the file was written, in seconds since 1970.
    pub written_s: u32,
    /// Of its cells, the part that is tombstones old enough to be dropped, from its histograms: from 0.0 on.
    pub droppable_ratio: f64,
    /// About how many partitions it has.
    pub partitions: u64,
    /// About which partitions it has, to tell how many it shares with others; `None` if unknown.
    pub keys: Option<Rc<HyperLogLog>>,
    /// A job reads it, or a job that still runs wrote it: no other job may take it.
    pub compacting: bool,
    /// It may be read and not replaced: it is of a read-only table, or in quarantine.
    pub frozen: bool,
}

impl SSTableView {
    /// Whether a job may take it.
    pub fn is_free(&self) -> bool {
        !self.compacting && !self.frozen
    }

    /// Whether the ranges of the ring from first to last key have something in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The disk, as far as this shard's compactions may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// What may be used altogether: the disk, or the budget if one is set.
    pub capacity_bytes: u64,
    /// What jobs may still write before nothing is free, what running jobs will need taken off.
    pub free_bytes: u64,
}

/// A table on one shard.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// Wall clock.
    pub now_us: i64,
    /// Every SSTable, in no order; those a job has are marked.
    pub sstables: &'a [SSTableView],
    /// Tombstones of before may be dropped, as the table's `gc_grace_seconds` or `tombstone_gc` says; 0: none may.
    pub gc_before_s: u32,
    /// The least timestamp in memtables, and of what is in SSTables and a crash would replay nevertheless; `None` if there is
    /// neither.
    pub memtable_min_timestamp_us: Option<i64>,
    /// Jobs of this table that run.
    pub jobs_running: u32,
    /// Bytes of an SSTable that a flush makes, about; 0 if there was none yet.
    pub flush_bytes: u64,
    /// The part of the ring that is this shard's: 1.0 is all.
    pub ring_share: f64,
    /// Fewer than `min_threshold` are never merged, even if there is nothing else to do.
    pub enforce_min_threshold: bool,
    pub disk: DiskView,
    /// What a merge of samples showed, if one was made of runs that have not changed since.
    pub sampled: Option<&'a SampledOverlap>,
    /// For strategies that choose among equals: another number for each decision.
    pub seed: u64,
}

impl<'a> TableView<'a> {
    pub fn now_s(&self) -> u32 {
        u32::try_from(self.now_us / 1_000_000).unwrap_or(0)
    }

    /// The SSTables that a job may take.
    pub fn free(&self) -> impl Iterator<Item = &'a SSTableView> + use<'a> {
        self.sstables.iter().filter(|sstable| sstable.is_free())
    }

    pub fn find(&self, id: SSTableId) -> Option<&'a SSTableView> {
        self.sstables.iter().find(|sstable| sstable.id == id)
    }
}
