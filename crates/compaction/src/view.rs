//! A strategy's view of a table on one shard: plain values, made for each decision.

use std::rc::Rc;

use base::hyperloglog::HyperLogLog;
use model::PartitionKey;

use crate::sample::SampledOverlap;
use crate::sstable_id::{RunId, SSTableId};

/// One SSTable.
#[derive(Clone, Debug)]
pub struct SSTableView {
    /// The SSTable's id.
    pub id: SSTableId,
    /// The run that it belongs to; alone, it is a run of its own.
    pub run: RunId,
    /// Bytes of Data.db before compression.
    pub data_bytes: u64,
    /// Bytes of all components on disk.
    pub disk_bytes: u64,
    /// The smallest and the largest partition key.
    pub first: PartitionKey,
    /// See `first`.
    pub last: PartitionKey,
    /// The level of leveled compaction; 0 otherwise.
    pub level: u32,
    /// The smallest and the largest timestamp of a write, by convention in microseconds since 1970.
    pub min_timestamp_us: i64,
    /// See `min_timestamp_us`.
    pub max_timestamp_us: i64,
    /// The latest time at which some of its data expires or was deleted, in seconds since 1970.
    /// [`model::NO_DELETION_TIME_S`] if it contains data that never expires.
    pub max_deletion_time_s: u32,
    /// Whether it may contain deletions or expiring data.
    pub may_delete: bool,
    /// When the file was written, in seconds since 1970.
    pub written_s: u32,
    /// The fraction of its cells that is droppable tombstones, estimated from its histograms; at least 0.0.
    pub droppable_ratio: f64,
    /// Estimated number of partitions.
    pub partitions: u64,
    /// Sketch of its partition keys, to estimate the partitions shared with other SSTables; `None` if
    /// unknown.
    pub keys: Option<Rc<HyperLogLog>>,
    /// Whether a job reads it, or a job that still runs has written it. No other job may take it.
    pub compacting: bool,
    /// Whether it must not be replaced: its table is read-only, or the SSTable is in quarantine.
    pub frozen: bool,
    /// Single-partition reads per second that open it; `None` if they were not counted for long enough.
    pub reads_per_s: Option<f64>,
    /// Whether a repair has compared its data with all replicas.
    pub is_repaired: bool,
}

impl SSTableView {
    /// Whether a job may take it.
    pub fn is_free(&self) -> bool {
        !self.compacting && !self.frozen
    }

    /// Whether the ring ranges from first to last key overlap.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The disk space that this shard's compactions may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// Total usable bytes: of the disk, or the budget if one is set.
    pub capacity_bytes: u64,
    /// Bytes that jobs can still write before no space is free, minus the future needs of running jobs.
    pub free_bytes: u64,
    /// The same by the file system alone; more than `free_bytes` if a budget allows less.
    pub file_system_free_bytes: u64,
}

impl DiskView {
    /// A disk without a budget.
    pub fn new(capacity_bytes: u64, free_bytes: u64) -> Self {
        Self { capacity_bytes, free_bytes, file_system_free_bytes: free_bytes }
    }
}

/// A table on one shard.
#[derive(Clone, Copy, Debug)]
pub struct TableView<'a> {
    /// The wall clock, in microseconds since 1970.
    pub now_us: i64,
    /// All SSTables, in no particular order. Those used by a job are marked.
    pub sstables: &'a [SSTableView],
    /// SSTables outside the strategy's decision, for which tombstones in `sstables` may still be needed.
    pub outside: &'a [SSTableView],
    /// Tombstones from before this time are droppable, by the table's `gc_grace_seconds` or `tombstone_gc`;
    /// 0: none are.
    pub gc_before_s: u32,
    /// The smallest timestamp of the memtables, and of data in SSTables that would be replayed after a crash
    /// nevertheless; `None` if there is neither.
    pub memtable_min_timestamp_us: Option<i64>,
    /// Number of running jobs of this table.
    pub jobs_running: u32,
    /// Approximate size of a flushed SSTable in bytes; 0 before the first flush.
    pub flush_bytes: u64,
    /// The fraction of the ring owned by this shard; 1.0 is the whole ring.
    pub ring_share: f64,
    /// Whether merges of fewer than `min_threshold` runs are forbidden, even if there is no other job.
    pub enforce_min_threshold: bool,
    /// Free and total space of the disk.
    pub disk: DiskView,
    /// The result of a sampling merge, if the sampled runs have not changed since.
    pub sampled: Option<&'a SampledOverlap>,
    /// A different number for each decision, for strategies that choose among equals.
    pub seed: u64,
}

impl<'a> TableView<'a> {
    /// The present time in seconds since 1970.
    pub fn now_s(&self) -> u32 {
        u32::try_from(self.now_us / 1_000_000).unwrap_or(0)
    }

    /// All SSTables that reads of the table use, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = &'a SSTableView> + use<'a> {
        self.sstables.iter().chain(self.outside)
    }

    /// The SSTables that a job may take.
    pub fn free(&self) -> impl Iterator<Item = &'a SSTableView> + use<'a> {
        self.sstables.iter().filter(|sstable| sstable.is_free())
    }

    /// The SSTable with this id; `None`: the table has none.
    pub fn find(&self, id: SSTableId) -> Option<&'a SSTableView> {
        self.sstables.iter().find(|sstable| sstable.id == id)
    }
}
