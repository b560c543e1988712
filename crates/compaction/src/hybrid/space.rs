//! How much disk space compaction needs to have at hand, and what to do when it has less.
//!
//! F is the size of a fragment on disk: what the options say, or the largest SSTable or flush there is, if that is
//! more. Two runs of fragments can be merged in 3·F ([`crate::needs_bytes`]). So the **reserve** is a flush and 3·F: if
//! flushes wait while less is free, there is always room for a merge of some two runs, and the table can be brought,
//! two by two, to one run, which is nothing but live data and tombstones that must be kept.
//!
//! **Guarantee.** Let every SSTable be one that this strategy laid out, and let live data, tombstones that must be kept,
//! a flush (no larger than [`TableView::flush_bytes`]) and 3·F fit into the capacity. Then no plan takes the table over
//! the capacity, and as long as less than the reserve is free, there is a plan; after finitely many plans the reserve
//! is free.
//!
//! When less than the reserve is free, jobs are chosen by what they free for what they write, dead bytes that are known
//! by sketches, samples or tombstones first: whole runs that share much, or fragments ([`super::fragments`]). If
//! nothing is known to be dead, two runs of like size are merged, for what may turn out to be: that
//! leaves one run less each time.

use super::options::HybridOptions;
use crate::view::{SSTableView, TableView};

/// Fragments are made smaller on small disks, so that the reserve is a small part of it.
const FRAGMENTS_PER_DISK: u64 = 64;
/// But not smaller than this.
const FRAGMENT_BYTES_MIN: u64 = 1 << 20;
/// What a job for known dead bytes must free for each byte it writes.
pub const SHORT_GAIN: f64 = 0.1;

/// Sizes that follow from the table and its disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// Of a fragment, before compression.
    pub fragment_bytes: u64,
    /// Flushes wait while less is free.
    pub reserve_bytes: u64,
    /// `None` if any job fits, since nobody asks.
    pub free_bytes: Option<u64>,
}

impl Space {
    pub fn new(options: &HybridOptions, view: &TableView<'_>) -> Self {
        if !options.disk_aware {
            return Self { fragment_bytes: options.fragment_bytes, reserve_bytes: 0, free_bytes: None };
        }
        let (data, disk) = view.sstables.iter().fold((0u64, 0u64), |(data, disk), sstable| {
            (data + sstable.data_bytes, disk + sstable.disk_bytes)
        });
        let on_disk = |bytes: u64| {
            if data == 0 { bytes } else { (bytes as f64 * disk as f64 / data as f64).ceil() as u64 }
        };
        let smallest = (view.disk.capacity_bytes / FRAGMENTS_PER_DISK).max(FRAGMENT_BYTES_MIN);
        let fragment_bytes = options.fragment_bytes.min(smallest);
        // What came from elsewhere may be far larger. It is merged when it fits, and not reckoned with.
        let ours = |sstable: &&SSTableView| sstable.data_bytes <= options.fragment_bytes.saturating_mul(2);
        let largest = view.sstables.iter().filter(ours).map(|sstable| sstable.disk_bytes).max().unwrap_or(0);
        let flush = on_disk(view.flush_bytes);
        let fragment = on_disk(fragment_bytes).max(largest).max(flush.min(on_disk(options.fragment_bytes)));
        Self {
            fragment_bytes,
            reserve_bytes: flush.saturating_add(fragment.saturating_mul(3)),
            free_bytes: Some(view.disk.free_bytes),
        }
    }

    pub fn is_short(&self) -> bool {
        self.free_bytes.is_some_and(|free| free < self.reserve_bytes)
    }

    /// Whether so much may be taken for a time.
    pub fn has(&self, needs_bytes: u64) -> bool {
        self.free_bytes.is_none_or(|free| needs_bytes <= free)
    }
}
