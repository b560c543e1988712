//! Exponential backoff after a failed job of a table: no job starts for 5 s, doubled with each further
//! failure up to 300 s.
//!
//! A job that failed for lack of disk space is retried as soon as more is free.

use std::cell::Cell;

const PAUSE_US_MIN: u64 = 5_000_000;
const PAUSE_US_MAX: u64 = 300_000_000;
/// The pause ends at once when the free space has grown by more than this since the failed job.
const ROOM_AGAIN_BYTES: u64 = 1 << 20;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Pause {
    /// Length of the last pause; 0 after a job that ended well.
    length_us: Cell<u64>,
    until_us: Cell<u64>,
    /// Free bytes at the failure of the last job, if it failed for lack of space.
    short_at_bytes: Cell<Option<u64>>,
}

impl Pause {
    /// Begins a pause after a failure. `short_at_bytes`: the free bytes, if the job failed for lack of space.
    pub(super) fn begin(&self, now_us: u64, short_at_bytes: Option<u64>) {
        let length_us = (self.length_us.get() * 2).clamp(PAUSE_US_MIN, PAUSE_US_MAX);
        self.length_us.set(length_us);
        self.until_us.set(now_us + length_us);
        self.short_at_bytes.set(short_at_bytes);
    }

    /// Ends the pause after a job that ended well.
    pub(super) fn end(&self) {
        self.length_us.set(0);
        self.until_us.set(0);
    }

    /// Ends the pause if it began for lack of space and more is free now. Returns whether it ended.
    pub(super) fn end_with_space(&self, free_bytes: u64) -> bool {
        let short_at_bytes = self.short_at_bytes.get();
        let has_more =
            short_at_bytes.is_some_and(|short| free_bytes > short.saturating_add(ROOM_AGAIN_BYTES));
        if has_more {
            self.short_at_bytes.set(None);
            self.end();
        }
        has_more
    }

    pub(super) fn is_on(&self, now_us: u64) -> bool {
        self.until_us.get() > now_us
    }

    /// Whether there was a pause and it is over.
    pub(super) fn is_over(&self, now_us: u64) -> bool {
        self.until_us.get() > 0 && !self.is_on(now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_failures_and_ends_with_success_or_space() {
        let pause = Pause::default();
        assert!(!pause.is_on(0) && !pause.is_over(0));
        pause.begin(0, None);
        assert!(pause.is_on(PAUSE_US_MIN - 1) && pause.is_over(PAUSE_US_MIN));
        pause.begin(0, None);
        assert!(pause.is_on(2 * PAUSE_US_MIN - 1) && !pause.is_on(2 * PAUSE_US_MIN));
        (0..20).for_each(|_| pause.begin(0, Some(500)));
        assert!(pause.is_on(PAUSE_US_MAX - 1) && !pause.is_on(PAUSE_US_MAX));
        assert!(!pause.end_with_space(500 + ROOM_AGAIN_BYTES) && pause.is_on(1));
        assert!(pause.end_with_space(501 + ROOM_AGAIN_BYTES) && !pause.is_on(1));
        pause.begin(0, None);
        assert!(!pause.is_on(PAUSE_US_MIN) && !pause.end_with_space(u64::MAX));
        pause.end();
        assert!(!pause.is_on(0) && !pause.is_over(PAUSE_US_MAX));
    }
}
