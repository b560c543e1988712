//! The disk space that compaction keeps in reserve, and its rules when less is free.
//!
//! F is the size of a fragment on disk: the configured size, or the size of the largest SSTable or flush if
//! that is larger. Two runs of fragments can be merged within 3·F ([`crate::needs_bytes`]). The **reserve**
//! is therefore one flush plus 3·F. If flushes wait while less is free, there is always space to merge some
//! two runs. Pair by pair, the table can be merged into one run, which contains only live data and tombstones
//! that must be kept.
//!
//! **Guarantee.** Assume that every SSTable was laid out by this strategy. Assume further that the capacity
//! is sufficient for the live data, the tombstones that must be kept, one flush (at most
//! [`TableView::flush_bytes`]) and 3·F. Then no plan lets the table exceed the capacity, and while less than
//! the reserve is free there is a plan. After a finite number of plans the reserve is free.
//!
//! While less than the reserve is free, jobs are chosen by the bytes freed per byte written. Jobs for bytes
//! that are known to be dead (by sketches, samples or tombstones) come first: whole runs with much common
//! data, or fragments ([`super::fragments`]). If no bytes are known to be dead, two runs of similar size are
//! merged, because their merge may still free space; each such merge removes a run. If a budget is set, even
//! this merge does not fit, and no other job of the table is running, then the smallest pair is merged beyond
//! the budget, within the free space of the file system. Runs that stay would exceed the budget permanently,
//! but the job exceeds it only while it runs.

use super::options::IncrementalOptions;
use crate::view::{SSTableView, TableView};

/// Minimum number of fragments per disk. Fragments are smaller on small disks, so that the reserve is a small
/// part of the disk.
const FRAGMENTS_PER_DISK: u64 = 64;
/// Lower limit of this reduction: minimum size of a fragment in bytes.
const FRAGMENT_BYTES_MIN: u64 = 1 << 20;
/// Minimum gain of a job for known dead bytes: bytes freed per byte written.
pub const SHORT_GAIN: f64 = 0.1;

/// Sizes derived from the table and its disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    /// Size of a fragment before compression.
    pub fragment_bytes: u64,
    /// Flushes wait while less is free.
    pub reserve_bytes: u64,
    /// `None` if jobs are not limited by disk space.
    pub free_bytes: Option<u64>,
}

impl Space {
    pub fn new(options: &IncrementalOptions, view: &TableView<'_>) -> Self {
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
        // SSTables from elsewhere may be far larger. They are merged when they fit, and are not included in
        // the reserve.
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

    /// Whether a job may temporarily take this space.
    pub fn has(&self, needs_bytes: u64) -> bool {
        self.free_bytes.is_none_or(|free| needs_bytes <= free)
    }
}
