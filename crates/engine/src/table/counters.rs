//! What a shard counts of each table: requests and how long they took, flushes, SSTables that reads opened.
//!
//! Counters belong to one shard and are plain cells, so counting costs a few nanoseconds and no lock. They begin
//! at zero with each start.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::histogram::EstimatedHistogram;
use sstable::write::Written;

/// Offsets of the latency histograms: up to 25 seconds.
const LATENCY_OFFSETS: usize = 90;

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

/// Reads that named secondary indexes.
#[derive(Default)]
pub struct IndexCounters {
    /// Reads that used an index, and those that read in order instead.
    pub reads: Cell<u64>,
    pub scans: Cell<u64>,
    /// Rows and partitions that the indexes named.
    pub candidates: Cell<u64>,
}

/// What a table's part on one shard counts.
#[derive(Default)]
pub struct TableCounters {
    pub sstables: Rc<SSTableCounters>,
    pub index: IndexCounters,
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
