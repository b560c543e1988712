//! What a table costs beside its data: the three amplifications.
//!
//! - **Write**: bytes that flushes and compactions wrote over bytes of user data, which is what flushes wrote. 1.0: nothing
//!   was rewritten.
//! - **Space**: bytes on disk over live bytes. Live is an **estimate**: each SSTable has a sketch of its partitions
//!   (HyperLogLog); the union of the sketches tells how many distinct partitions there are, and the sum of the SSTables'
//!   own numbers how many copies of them lie on disk. So the part `distinct / sum` of the bytes is live, less what
//!   is tombstones past their time. It takes a partition that is in two SSTables for overwritten where it may have grown:
//!   for partitions of many rows the amplification comes out too high; rows deleted or expired within a partition are
//!   not seen: there too low. Without sketches the SSTables of a level or run, which share nothing, and the largest of
//!   them are what tells: live is at least the largest run.
//! - **Read**: SSTables, and bytes, that a read touches.

use base::hyperloglog::HyperLogLog;

use crate::tiers::runs;
use crate::view::SSTableView;

/// What was counted since the table exists or the node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub flushed_bytes: u64,
    pub compacted_bytes: u64,
    pub reads: u64,
    /// SSTables that reads opened, all together.
    pub sstables_read: u64,
    /// Bytes that reads took from the disk.
    pub bytes_read: u64,
}

fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

impl Counts {
    /// `None` before the first flush.
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

/// How many bytes on disk are live, about: see the head of this file. O(n) and one union of sketches each.
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

/// How many partitions there are in all of them together, about; `None` if one has no sketch.
pub fn distinct_partitions(sstables: &[SSTableView]) -> Option<u64> {
    let mut union = HyperLogLog::new();
    for sstable in sstables {
        union.merge(sstable.keys.as_ref()?).ok()?;
    }
    Some(union.cardinality())
}

/// Bytes on disk over live bytes; 1.0 for an empty table.
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
    fn live_is_what_the_sketches_say_is_distinct() {
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
