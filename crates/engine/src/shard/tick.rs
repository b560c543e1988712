//! Periodic work of a shard: expires parked reads and flush periods, measures the disk, and sets the CPU
//! shares of compactions.

use std::rc::Rc;

use runtime::CpuGroup;

use super::EngineShard;

/// Interval for periods and ages.
const TICK_US: u64 = 1_000_000;
/// Interval for the CPU shares of compactions.
const CONTROL_US: u64 = 250_000;

impl EngineShard {
    /// Ends expired reads and flush periods, stores the compaction history, and wakes the flush policy.
    pub(super) async fn tick(self: Rc<Self>) {
        let mut ran = (self.shard.now_us(), self.ran_ns());
        while !self.stopping.get() {
            self.shard.sleep_us(TICK_US).await;
            let now_us = self.shard.now_us();
            let ran_now = (now_us, self.ran_ns());
            let passed_ns = now_us.saturating_sub(ran.0).max(1) as f64 * 1e3;
            self.utilization.set((ran_now.1.saturating_sub(ran.1) as f64 / passed_ns).min(1.0));
            ran = ran_now;
            self.tables.borrow().values().for_each(|table| table.parked.sweep(now_us));
            self.relieve_periods(now_us);
            self.pressure.signal();
            self.compactions.tick();
            self.measure_disk().await;
            if self.shard.id() == 0 && self.compactions.history().has_unsaved() {
                let this = self.clone();
                let save = async move { this.save_compaction_history().await };
                self.shard.spawn(CpuGroup::Maintenance, save).detach();
            }
            if self.shard.id() == 0 && self.compactions.log().has_unsaved() {
                let this = self.clone();
                let save = async move { this.save_compaction_log().await };
                self.shard.spawn(CpuGroup::Maintenance, save).detach();
            }
        }
    }

    /// Time in which tasks ran since the start.
    fn ran_ns(&self) -> u64 {
        self.shard.group_stats().iter().map(|group| group.counters.ran_ns).sum()
    }

    /// Measures the free bytes of the disk for compactions, the log and flushes.
    async fn measure_disk(&self) {
        let dir = self.tables.borrow().values().next().map(|table| table.dir.clone());
        // Without an answer the last measurement counts.
        if let Some(dir) = dir
            && let Ok(free_bytes) = self.shard.files().free_bytes(&dir).await
        {
            self.compactions.set_free_bytes(free_bytes);
            self.log.set_free_bytes(free_bytes / u64::from(self.shard.shard_count()));
            self.flushes.set_free_bytes(free_bytes);
        }
    }

    /// Sets the CPU shares of compactions from their backlog.
    pub(super) async fn control_compactions(self: Rc<Self>) {
        while !self.stopping.get() {
            self.shard.sleep_us(CONTROL_US).await;
            self.compactions.control(2 * self.memory.limits.max_bytes as u64);
        }
    }
}
