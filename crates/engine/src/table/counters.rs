//! Counters of a table on a shard: requests and their latencies, flushes, and SSTables opened by reads.
//!
//! Counters belong to one shard and are plain cells, so counting costs a few nanoseconds and no lock. They
//! are zero at each start.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::histogram::EstimatedHistogram;
use reports::LatencyReport;
use sstable::write::Written;

use super::hot_keys::KeySamplers;
use super::slices::Slices;

/// Buckets of the latency histograms: up to 25 seconds.
const LATENCY_OFFSETS: usize = 90;

/// Number and latencies of an operation.
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

    pub fn report(&self) -> LatencyReport {
        LatencyReport {
            count: self.count(),
            total_us: self.total_us,
            p50_us: self.histogram.percentile(0.5),
            p99_us: self.histogram.percentile(0.99),
            max_us: self.histogram.max(),
        }
    }
}

/// Latencies of one kind of request on a shard.
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

/// Number of single-partition reads, by the number of SSTables that they opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SSTablesPerRead {
    /// By the number of SSTables; the last element counts all reads that opened more.
    reads: [u64; Self::MAX + 1],
}

impl Default for SSTablesPerRead {
    fn default() -> Self {
        Self { reads: [0; Self::MAX + 1] }
    }
}

impl SSTablesPerRead {
    /// Larger numbers of SSTables are counted as this one.
    pub const MAX: usize = 64;

    #[inline]
    pub fn add(&mut self, sstables: usize) {
        self.reads[sstables.min(Self::MAX)] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        self.reads.iter_mut().zip(other.reads).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The least number of SSTables that this fraction of the reads (0.0 to 1.0) did not exceed; 0 without
    /// reads.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = (self.reads.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut reads = 0;
        let is_it = |count: &u64| {
            reads += count;
            reads >= wanted
        };
        self.reads.iter().position(is_it).unwrap_or(Self::MAX) as u64
    }

    /// The largest number of SSTables that a read opened.
    pub fn max(&self) -> u64 {
        self.reads.iter().rposition(|reads| *reads > 0).unwrap_or(0) as u64
    }

    /// The number of reads.
    pub fn count(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// The smallest number of SSTables that a read opened.
    pub fn min(&self) -> u64 {
        self.reads.iter().position(|reads| *reads > 0).unwrap_or(0) as u64
    }
}

/// SSTables that reads of a table opened, and those that were skipped, by reason.
#[derive(Default)]
pub struct SSTableCounters {
    pub opened: Cell<u64>,
    /// Of `opened`, those opened by single-partition reads.
    pub opened_for_points: Cell<u64>,
    /// Ruled out by the bloom filter or the token range.
    pub skipped_by_partition: Cell<u64>,
    /// Single-partition reads for which the bloom filter ruled out an SSTable whose token range has the
    /// partition.
    pub filter_negatives: Cell<u64>,
    /// Ruled out by the least and greatest clustering key.
    pub skipped_by_clustering: Cell<u64>,
    /// Single-partition reads that have ended.
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
    /// Rows and tombstones of the pages that clients read.
    pub slices: RefCell<Slices>,
    /// The keys that clients use most, while a sampling runs.
    pub hot_keys: RefCell<Option<KeySamplers>>,
    /// Reads of a partition for which a bloom filter did not rule out an SSTable without it.
    pub false_positives: Rc<Cell<u64>>,
    /// Pages read.
    pub reads: LatencyCounter,
    /// Mutations written, until they were durable.
    pub writes: LatencyCounter,
    /// Memtables that became SSTables.
    pub flushes: Cell<u64>,
    /// Uncompressed bytes of user data written by flushes: the reference of write amplification.
    pub flushed_plain_bytes: Cell<u64>,
    /// Bytes of Data.db and Index.db written by flushes and compactions.
    pub flushed_bytes: Cell<u64>,
    pub compacted_bytes: Cell<u64>,
    last_flush_bytes: Cell<u64>,
    /// Reads of one partition.
    pub point_reads: Cell<u64>,
    /// Bytes that clients' requests fetched from disk.
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
