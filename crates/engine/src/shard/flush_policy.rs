//! Decides when memtables are flushed: when they use too much memory, when they hold old segments of the
//! commit log, or when a table's `memtable_flush_period_in_ms` is over. Users flush with
//! [`EngineShard::flush`].
//!
//! A flush begins with sealing a memtable ([`FlushQueue::seal`](crate::flush::FlushQueue::seal)); this file
//! decides which one is sealed.

use std::rc::Rc;

use super::EngineShard;

/// Divisor of a shard's memory: above this part, writes wait for a flush.
const MAX_PART: usize = 2;
/// Divisor of a shard's memory: above this part, the largest memtable is sealed, so that it is flushed before
/// writes have to wait.
const SOFT_PART: usize = 4;

/// Memory limits of memtables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirtyLimits {
    /// Above this the largest memtable is sealed.
    pub(super) soft_bytes: usize,
    /// Above this writes wait.
    pub(super) max_bytes: usize,
}

impl DirtyLimits {
    pub(super) fn of(memory_bytes: usize) -> Self {
        Self { soft_bytes: memory_bytes / SOFT_PART, max_bytes: memory_bytes / MAX_PART }
    }

    /// Whether the memory that is not being flushed already exceeds the soft limit.
    fn wants_flush(self, dirty_bytes: usize, queued_bytes: usize) -> bool {
        dirty_bytes.saturating_sub(queued_bytes) > self.soft_bytes
    }
}

/// Whether a memtable with its first write at `since_us` has been in memory for the table's period; 0 means
/// no period.
fn is_period_over(period_ms: u32, since_us: Option<u64>, now_us: u64) -> bool {
    let period_us = u64::from(period_ms) * 1000;
    period_us > 0 && since_us.is_some_and(|since_us| now_us >= since_us + period_us)
}

impl EngineShard {
    /// Seals memtables when memory or log require it.
    pub(super) async fn watch(self: Rc<Self>) {
        while !self.stopping.get() {
            let pressure = self.pressure.next();
            self.recount_dirty();
            let sealed_one = self.relieve_memory();
            self.relieve_log();
            if !sealed_one {
                pressure.await;
            }
            // Writes of this turn go first.
            self.shard.yield_now().await;
        }
    }

    /// Seals the largest memtable if too much memory is not being flushed already.
    fn relieve_memory(&self) -> bool {
        if !self.memory.limits.wants_flush(self.memory.dirty_bytes(), self.flushes.queued_bytes()) {
            return false;
        }
        let tables = self.tables();
        let largest = tables.iter().max_by_key(|table| table.memtables.active().memtable.charged_bytes());
        let Some(largest) = largest.filter(|table| !table.memtables.active().memtable.is_empty()) else {
            return false;
        };
        drop(self.flushes.seal(largest));
        true
    }

    /// Seals the memtables that hold old log segments.
    fn relieve_log(&self) {
        for table in self.tables() {
            let Some(boundary) = table.log.flush_boundary() else { continue };
            let oldest = table.memtables.active().segments.borrow().oldest_of(self.shard.id());
            if oldest.is_some_and(|oldest| oldest < boundary) {
                drop(self.flushes.seal(&table));
            }
        }
        if let Some(boundary) = self.log.flush_boundary() {
            self.log.ask_others_to_flush(boundary);
        }
    }

    /// Seals the memtables that have been in memory for their table's period.
    pub(super) fn relieve_periods(&self, now_us: u64) {
        for table in self.tables() {
            let period_ms = table.schema().options.memtable_flush_period_ms;
            if is_period_over(period_ms, table.memtables.active().first_write_us.get(), now_us) {
                drop(self.flushes.seal(&table));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_memory_triggers_a_flush_and_half_of_it_stops_writes() {
        let limits = DirtyLimits::of(1000);
        assert_eq!(limits, DirtyLimits { soft_bytes: 250, max_bytes: 500 });
        assert!(!limits.wants_flush(250, 0) && limits.wants_flush(251, 0));
        // Memory that is being flushed does not count.
        assert!(!limits.wants_flush(400, 150) && limits.wants_flush(401, 150));
    }

    #[test]
    fn a_period_begins_with_the_first_write() {
        assert!(!is_period_over(5, Some(1000), 5999) && is_period_over(5, Some(1000), 6000));
        assert!(!is_period_over(5, None, 6000) && !is_period_over(0, Some(0), 6000));
    }
}
