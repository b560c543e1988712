//! What a shard and its tables have and do, as values: for metrics, tools and tests.
//!
//! Counters belong to one shard and are plain cells, so counting costs a few nanoseconds and no lock. They begin
//! at zero with each start.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use base::histogram::EstimatedHistogram;
use model::TableId;
use reader::{SemaphoreLimits, SemaphoreStats};
use runtime::{GroupStats, IoStats, ShardStats};
use sstable::name::SstableName;
use sstable::pool::PoolStats;
use sstable::read::DiskReads;
use sstable::read::SSTable;
use sstable::write::Written;

use crate::cache::RowCacheStats;
use crate::compaction::report::{ManagerStats, TableState};
use crate::table::Table;
use crate::table::flush::FlushStats;

/// Offsets of the latency histograms: up to 25 seconds.
const LATENCY_OFFSETS: usize = 90;

/// What one shard has and does.
#[derive(Clone, Debug, Default)]
pub struct ShardReport {
    pub dirty_bytes: usize,
    pub log_bytes: u64,
    pub log_appended_bytes: u64,
    pub sstables: usize,
    pub flushes: FlushStats,
    pub compactions: ManagerStats,
    pub compactions_running: usize,
    pub cache: PoolStats,
    pub row_cache: RowCacheStats,
    pub disk_reads: DiskReads,
    /// Each semaphore of reads: its name, limits and counters.
    pub reads: Vec<(String, SemaphoreLimits, SemaphoreStats)>,
    pub runtime: ShardStats,
    /// By scheduling group.
    pub groups: Vec<GroupStats>,
    /// By I/O class.
    pub io: Vec<IoStats>,
    /// What the disk has to do, for all shards: nanoseconds of it, by its model.
    pub disk_under_way_ns: u64,
}

/// What one kind of memory takes on a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub class: &'static str,
    pub bytes: u64,
    /// What it may take; caches share theirs. `None`: it is bounded by something else, or by what there is.
    pub limit_bytes: Option<u64>,
}

impl MemoryUse {
    pub fn new(class: &'static str, bytes: u64, limit_bytes: Option<u64>) -> Self {
        Self { class, bytes, limit_bytes }
    }
}

/// A table for people: what takes most comes first.
pub fn memory_text(uses: &[MemoryUse]) -> String {
    let mut uses: Vec<&MemoryUse> = uses.iter().collect();
    uses.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    let mut text = format!("{:<22}{:>14}{:>14}\n", "memory", "bytes", "limit");
    for MemoryUse { class, bytes, limit_bytes } in &uses {
        let limit = limit_bytes.map_or("-".to_string(), |limit| limit.to_string());
        text.push_str(&format!("{class:<22}{bytes:>14}{limit:>14}\n"));
    }
    let total: u64 = uses.iter().map(|it| it.bytes).sum();
    text + &format!("{:<22}{total:>14}{:>14}\n", "total", "-")
}

/// How often something was done, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    pub total_us: u64,
    /// In microseconds.
    pub histogram: EstimatedHistogram,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { total_us: 0, histogram: EstimatedHistogram::new(LATENCY_OFFSETS) }
    }
}

impl Latencies {
    pub fn merge(&mut self, other: &Self) {
        self.total_us += other.total_us;
        self.histogram.merge(&other.histogram);
    }

    pub fn count(&self) -> u64 {
        self.histogram.count()
    }
}

/// A shard's count of one kind of request.
#[derive(Default)]
pub struct LatencyCounter(RefCell<Latencies>);

impl LatencyCounter {
    #[inline]
    pub fn add_us(&self, us: u64) {
        let mut latencies = self.0.borrow_mut();
        latencies.total_us += us;
        latencies.histogram.add(us);
    }

    pub fn get(&self) -> Latencies {
        self.0.borrow().clone()
    }
}

/// How many reads of a single partition opened so many SSTables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SSTablesPerRead {
    /// By the number of SSTables; the last place has all that opened more.
    reads: [u64; Self::MAX + 1],
}

impl Default for SSTablesPerRead {
    fn default() -> Self {
        Self { reads: [0; Self::MAX + 1] }
    }
}

impl SSTablesPerRead {
    /// More than this many are counted as so many.
    pub const MAX: usize = 64;

    #[inline]
    pub fn add(&mut self, sstables: usize) {
        self.reads[sstables.min(Self::MAX)] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.reads.iter_mut().zip(other.reads).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The least number that this share of the reads, from 0.0 to 1.0, did not exceed; 0 without reads.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = (self.reads.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut reads = 0;
        let is_it = |count: &u64| {
            reads += count;
            reads >= wanted
        };
        self.reads.iter().position(is_it).unwrap_or(Self::MAX) as u64
    }

    /// The most that a read opened.
    pub fn max(&self) -> u64 {
        self.reads.iter().rposition(|reads| *reads > 0).unwrap_or(0) as u64
    }
}

/// Of reads of a table, which SSTables they opened, and why not the others.
#[derive(Default)]
pub struct SSTableCounters {
    pub opened: Cell<u64>,
    /// Of them, by reads of single partitions.
    pub opened_for_points: Cell<u64>,
    /// The bloom filter or the tokens said that nothing of the partitions is there.
    pub skipped_by_partition: Cell<u64>,
    /// Least and greatest clustering key said that nothing of the rows is there.
    pub skipped_by_clustering: Cell<u64>,
    /// Of reads of single partitions that have ended.
    pub per_read: RefCell<SSTablesPerRead>,
}

impl SSTableCounters {
    #[inline]
    pub fn count(counter: &Cell<u64>) {
        counter.set(counter.get() + 1);
    }
}

/// What a table's part on one shard counts.
#[derive(Default)]
pub struct TableCounters {
    pub sstables: Rc<SSTableCounters>,
    /// Pages read.
    pub reads: LatencyCounter,
    /// Mutations written, until they were durable.
    pub writes: LatencyCounter,
    /// Memtables that became SSTables.
    pub flushes: Cell<u64>,
    /// Bytes of user data that flushes wrote, before compression: what amplification is relative to.
    pub flushed_plain_bytes: Cell<u64>,
    /// Bytes of Data.db and Index.db that flushes and compactions wrote.
    pub flushed_bytes: Cell<u64>,
    pub compacted_bytes: Cell<u64>,
    last_flush_bytes: Cell<u64>,
    /// Reads of one partition.
    pub point_reads: Cell<u64>,
    /// Bytes that requests of clients fetched from disk.
    pub fetched_bytes: Rc<Cell<u64>>,
}

impl TableCounters {
    pub fn flushed(&self, written: &Written) {
        let add = |cell: &Cell<u64>, bytes: u64| cell.set(cell.get() + bytes);
        add(&self.flushed_plain_bytes, written.uncompressed_bytes);
        add(&self.flushed_bytes, written.data_bytes + written.index_bytes);
        self.last_flush_bytes.set(written.data_bytes);
    }

    /// Bytes on disk of the last flush; 0 if there was none since the start.
    pub fn last_flush_bytes(&self) -> u64 {
        self.last_flush_bytes.get()
    }
}

/// An SSTable of a table.
#[derive(Clone, Debug)]
pub struct SSTableReport {
    /// Two shards have the same one if it was written when there were other shards.
    pub name: SstableName,
    /// Bytes of Data.db and Index.db.
    pub disk_bytes: u64,
    /// Bytes of Data.db, and of what it holds.
    pub data_bytes: u64,
    pub uncompressed_bytes: u64,
    pub partitions: u64,
    /// Of leveled compaction.
    pub level: u32,
    pub partition_bytes: EstimatedHistogram,
    /// Memory of its bloom filter, of the places of compressed chunks, and of all that stays in memory while it is
    /// open.
    pub filter_bytes: usize,
    pub compression_bytes: usize,
    pub memory_bytes: usize,
}

/// A table's part on one shard.
#[derive(Clone, Debug)]
pub struct TableReport {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    /// Where its SSTables are.
    pub dir: PathBuf,
    pub sstables: Vec<SSTableReport>,
    /// SSTables that could not be opened.
    pub unreadable: usize,
    /// SSTables that were missing at the start.
    pub missing: usize,
    /// Of all memtables, sealed ones included.
    pub memtable_bytes: usize,
    pub memtable_partitions: usize,
    /// Sealed memtables that are not yet SSTables.
    pub pending_flushes: usize,
    pub flushes: u64,
    /// Bytes on disk that flushes and compactions wrote since the start.
    pub flushed_bytes: u64,
    pub compacted_bytes: u64,
    /// Bytes on disk that are live, about; `None` where this is not known. See [`TableState`].
    pub live_bytes: Option<u64>,
    /// Bytes on disk that the live ones are a part of.
    pub disk_bytes: u64,
    /// About how many compactions are to be done.
    pub pending_compactions: u64,
    pub reads: Latencies,
    pub writes: Latencies,
    /// Reads of one partition, and the SSTables they opened.
    pub point_reads: u64,
    pub point_read_sstables: u64,
    pub sstables_per_read: SSTablesPerRead,
    /// SSTables that reads did not open: their filter or tokens, or their clustering keys, ruled them out.
    pub skipped_by_partition: u64,
    pub skipped_by_clustering: u64,
    /// Bytes that requests of clients fetched from disk.
    pub fetched_bytes: u64,
}

impl SSTableReport {
    pub fn of(sstable: &SSTable) -> Self {
        Self {
            name: sstable.name(),
            disk_bytes: sstable.data_bytes() + sstable.index_bytes(),
            data_bytes: sstable.data_bytes(),
            uncompressed_bytes: sstable.uncompressed_bytes(),
            partitions: sstable.partition_count(),
            level: sstable.level(),
            partition_bytes: sstable.stats().partition_bytes.clone(),
            filter_bytes: sstable.filter_bytes(),
            compression_bytes: sstable.compression_bytes(),
            memory_bytes: sstable.memory_bytes(),
        }
    }
}

impl TableReport {
    pub fn of(table: &Table, state: TableState) -> Self {
        let schema = table.schema();
        let sealed = table.sealed();
        let partitions = sealed.iter().map(|sealed| sealed.memtable.partition_count()).sum::<usize>();
        Self {
            id: schema.id,
            keyspace: schema.keyspace.clone(),
            name: schema.name.clone(),
            dir: table.dir.clone(),
            sstables: table.sstables().iter().map(|sstable| SSTableReport::of(sstable)).collect(),
            unreadable: table.unreadable().len(),
            missing: table.missing_count(),
            memtable_bytes: table.memtable_bytes(),
            memtable_partitions: table.active().memtable.partition_count() + partitions,
            pending_flushes: sealed.len(),
            flushes: table.counters.flushes.get(),
            flushed_bytes: table.counters.flushed_bytes.get(),
            compacted_bytes: table.counters.compacted_bytes.get(),
            disk_bytes: state.disk_bytes,
            live_bytes: state.live_bytes,
            pending_compactions: state.pending,
            reads: table.counters.reads.get(),
            writes: table.counters.writes.get(),
            point_reads: table.counters.point_reads.get(),
            point_read_sstables: table.counters.sstables.opened_for_points.get(),
            sstables_per_read: table.counters.sstables.per_read.borrow().clone(),
            skipped_by_partition: table.counters.sstables.skipped_by_partition.get(),
            skipped_by_clustering: table.counters.sstables.skipped_by_clustering.get(),
            fetched_bytes: table.counters.fetched_bytes.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_reads() {
        let mut reads = SSTablesPerRead::default();
        assert_eq!((reads.percentile(0.99), reads.max()), (0, 0));
        (0..98).for_each(|_| reads.add(1));
        reads.add(3);
        reads.add(1000);
        assert_eq!([0.5, 0.98, 0.99, 1.0].map(|share| reads.percentile(share)), [1, 1, 3, 64]);
        assert_eq!(reads.max(), 64);
        let mut twice = reads.clone();
        twice.merge(&reads);
        assert_eq!((twice.percentile(0.98), twice.percentile(0.985)), (1, 3));
    }
}
