//! Decides which writes a shard's thread copies into the page cache itself, instead of the I/O back end.
//!
//! Such a write is a system call of a few microseconds. It may block the thread for long, though: while the
//! kernel slows down a process that has dirtied too many pages, or while the file system's journal commits. A
//! file system that can refuse such a write (`RWF_NOWAIT`: XFS, btrfs) is asked to. For the others (ext4),
//! this is estimated: a write that did block is followed by a pause, in which writes take the way through the
//! back end.
//!
//! Guarantee: pauses are [`PAUSE_FACTOR`] times as long as the block before them, so blocked writes take at
//! most a hundredth of a shard's time.

use std::cell::Cell;

/// Longer writes do not pay: copying them takes longer than a round of the back end.
const BYTES_MAX: usize = 256 << 10;
/// A write of at least this duration in which the thread slept has blocked the shard.
const BLOCKED_NS: u64 = 500_000;
/// The duration of the pause after a write that blocked, relative to that write.
const PAUSE_FACTOR: u64 = 100;

/// The state of one shard.
#[derive(Debug, Default)]
pub(crate) struct CachedWrites {
    paused_until_ns: Cell<u64>,
    /// A file system of this shard cannot refuse a write that would block.
    cannot_refuse: Cell<bool>,
}

impl CachedWrites {
    pub(crate) fn may_begin(&self, bytes: usize, now_ns: u64) -> bool {
        bytes <= BYTES_MAX && now_ns >= self.paused_until_ns.get()
    }

    pub(crate) fn can_refuse(&self) -> bool {
        !self.cannot_refuse.get()
    }

    pub(crate) fn cannot_refuse(&self) {
        self.cannot_refuse.set(true);
    }

    /// Whether a write of this duration counts as blocked if the thread slept in it. Otherwise other
    /// processes had the core.
    pub(crate) fn is_slow(took_ns: u64) -> bool {
        took_ns >= BLOCKED_NS
    }

    /// Records a write that took `took_ns`, and blocked the thread.
    pub(crate) fn blocked(&self, now_ns: u64, took_ns: u64) {
        self.paused_until_ns.set(now_ns.saturating_add(took_ns.saturating_mul(PAUSE_FACTOR)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_blocked_is_followed_by_a_pause_in_proportion() {
        let writes = CachedWrites::default();
        assert!(writes.may_begin(BYTES_MAX, 0) && !writes.may_begin(BYTES_MAX + 1, 0));
        assert!(CachedWrites::is_slow(2_000_000) && !CachedWrites::is_slow(100_000));
        writes.blocked(5_000_000, 2_000_000);
        assert!(!writes.may_begin(100, 204_999_999));
        assert!(writes.may_begin(100, 205_000_000));
        writes.blocked(u64::MAX - 1, u64::MAX);
        assert!(!writes.may_begin(100, u64::MAX - 1));
    }
}
