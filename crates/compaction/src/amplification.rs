//! The write, space and read amplification of a table.
//!
//! - **Write**: bytes written by flushes and compactions, divided by bytes of user data (the bytes written by
//!   flushes). 1.0: nothing was rewritten.
//! - **Space**: bytes on disk divided by live bytes. The live bytes are an **estimate** from the HyperLogLog
//!   sketches of the SSTables' partitions. The union of the sketches gives the number of distinct partitions;
//!   the sum of the SSTables' own numbers gives the number of their copies on disk. The fraction `distinct /
//!   sum` of the bytes counts as live, minus the droppable tombstones. The estimate treats a partition in two
//!   SSTables as overwritten, although it may have grown, so the amplification is too high for partitions of
//!   many rows. Rows that were deleted or expired within a partition are not seen; there the amplification is
//!   too low. Without sketches, the largest run is taken as the live data: the SSTables of a run or level
//!   share no keys, so at least the largest run is live.
//! - **Read**: the number of SSTables, and the bytes, that a read accesses.

use base::hyperloglog::HyperLogLog;

use crate::tiers::runs;
use crate::view::SSTableView;

/// Counters since the table was created or the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes of SSTables that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes of SSTables that compactions wrote.
    pub compacted_bytes: u64,
    /// Reads of single partitions.
    pub reads: u64,
    /// SSTables opened by reads, in total.
    pub sstables_read: u64,
    /// Bytes that reads read from disk.
    pub bytes_read: u64,
}

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

impl Counts {
    /// Write amplification; `None` before the first flush.
    pub fn write(&self) -> Option<f64> {
        ratio(self.flushed_bytes.saturating_add(self.compacted_bytes), self.flushed_bytes)
    }

    /// SSTables per read; `None` before the first read.
    pub fn read_sstables(&self) -> Option<f64> {
        ratio(self.sstables_read, self.reads)
    }

    /// Bytes from disk per read; `None` before the first read.
    pub fn read_bytes(&self) -> Option<f64> {
        ratio(self.bytes_read, self.reads)
    }
}

/// Estimate of the live bytes on disk; see the head of this file. O(n), with one union of sketches per
/// SSTable.
pub fn live_disk_bytes(sstables: &[SSTableView]) -> u64 {
    let bytes: u64 = sstables.iter().map(|sstable| sstable.disk_bytes).sum();
    let dead: f64 = sstables.iter().map(|s| s.disk_bytes as f64 * s.droppable_ratio.clamp(0.0, 1.0)).sum();
    let largest_run = runs(sstables)
        .iter()
        .map(|run| run.sstables.iter().map(|sstable| sstable.disk_bytes).sum::<u64>())
        .max()
        .unwrap_or(0);
    let Some(distinct) = distinct_partitions(sstables) else {
        return largest_run.min(bytes);
    };
    let copies: u64 = sstables.iter().map(|sstable| sstable.partitions).sum();
    let part = if copies == 0 { 1.0 } else { (distinct as f64 / copies as f64).min(1.0) };
    (part * (bytes as f64 - dead)) as u64
}

/// Estimate of the number of distinct partitions in all SSTables; `None` if one has no sketch.
pub fn distinct_partitions(sstables: &[SSTableView]) -> Option<u64> {
    let mut union = HyperLogLog::new();
    for sstable in sstables {
        union.merge(sstable.keys.as_ref()?).ok()?;
    }
    Some(union.cardinality())
}

/// Space amplification: bytes on disk divided by live bytes; 1.0 for an empty table.
pub fn space(sstables: &[SSTableView]) -> f64 {
    let bytes: u64 = sstables.iter().map(|sstable| sstable.disk_bytes).sum();
    ratio(bytes, live_disk_bytes(sstables)).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SizeTiered;
    use crate::testing::{Cell, Table, World};

    #[test]
    fn write_and_read() {
        let counts = Counts {
            flushed_bytes: 100,
            compacted_bytes: 250,
            reads: 10,
            sstables_read: 15,
            bytes_read: 4096,
        };
        assert_eq!(counts.write(), Some(3.5));
        assert_eq!((counts.read_sstables(), counts.read_bytes()), (Some(1.5), Some(409.6)));
        assert_eq!((Counts::default().write(), Counts::default().read_bytes()), (None, None));
    }

    #[test]
    fn live_bytes_follow_the_distinct_keys_of_the_sketches() {
        let mut world = World::default();
        world.has_sketches = true;
        let strategy = SizeTiered::default();
        assert_eq!(space(&world.sstables()), 1.0);
        for flush in 0..5 {
            world.flush(&strategy, (0..1000).map(|n| ((n, 0), Cell::write(flush, 1))));
        }
        let overwritten = space(&world.sstables());
        assert!((4.8..5.2).contains(&overwritten), "{overwritten}");
        let mut distinct = World::default();
        distinct.has_sketches = true;
        for flush in 0..5u32 {
            distinct.flush(&strategy, (0..1000).map(|n| ((n * 5 + flush, 0), Cell::write(1, 1))));
        }
        let once = space(&distinct.sstables());
        assert!((0.95..1.05).contains(&once), "{once}");
    }

    #[test]
    fn without_sketches_live_is_at_least_the_largest_run() {
        let table = Table::new("10 run1 0-9, 10 run1 10-19, 15, 5 disk1");
        assert_eq!(live_disk_bytes(&table.sstables), 20 << 20);
        assert_eq!(space(&table.sstables), 1.8);
    }
}
