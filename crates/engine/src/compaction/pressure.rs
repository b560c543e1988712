//! What a shard's tables need, and what that does to others: flushes that wait, disk space that is spoken for, CPU
//! shares by the backlog.

use std::rc::Rc;

use compaction::DiskView;
use compaction::controller::Controller;
use runtime::{CpuGroup, Shard};
use sstable::read::SSTable;

use super::managed::Managed;
use super::manager::Manager;
use crate::table::Table;

/// A flush is kept back for so long at most, and looks again so often.
const FLUSH_WAIT_US_MAX: u64 = 10_000_000;
const FLUSH_WAIT_STEP_US: u64 = 20_000;
/// So much more is free than when a job found no room: it is tried again at once.
const ROOM_AGAIN_BYTES: u64 = 1 << 20;
/// A table whose next job has more runs than this, or than `max_threshold`, keeps flushes back.
const RUNS_TO_MERGE_MAX: usize = 32;

impl Manager {
    /// So much is free on the disk for all shards together.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        let shards = u64::from(self.shard().shard_count());
        let free_bytes = free_bytes / shards;
        let capacity_bytes = match self.options.disk_budget_bytes {
            Some(budget_bytes) => budget_bytes / shards,
            None => free_bytes.saturating_add(self.used_bytes()),
        };
        self.disk.set(Some(DiskView { capacity_bytes, free_bytes }));
        // Jobs that found no room begin again when there is more.
        for managed in self.tables.borrow().values() {
            let short_at_bytes = managed.short_at_bytes.get();
            if short_at_bytes.is_some_and(|short| free_bytes > short.saturating_add(ROOM_AGAIN_BYTES)) {
                managed.short_at_bytes.set(None);
                managed.pause_us.set(0);
                managed.paused_until_us.set(0);
                managed.wants.set(true);
                self.work.signal();
            }
        }
    }

    /// Bytes of this shard's SSTables.
    fn used_bytes(&self) -> u64 {
        let tables = self.tables.borrow();
        let bytes = |sstable: &Rc<SSTable>| sstable.data_bytes() + sstable.index_bytes();
        tables
            .values()
            .flat_map(|managed| managed.table.sstables().iter().map(bytes).collect::<Vec<_>>())
            .sum()
    }

    /// Waits before a flush while the table has too many runs, or the disk too little room for the job that would free
    /// some; not for long, and not if no job runs that could change that.
    pub async fn wait_before_flush(&self, table: &Rc<Table>) {
        let until_us = self.shard().now_us() + FLUSH_WAIT_US_MAX;
        let mut waited_from = None;
        while !self.stopping.get() && self.shard().now_us() < until_us && self.keeps_flush_back(table) {
            waited_from.get_or_insert(self.shard().now_us());
            self.shard().sleep_us(FLUSH_WAIT_STEP_US).await;
        }
        if let Some(from_us) = waited_from {
            let mut stats = self.stats.borrow_mut();
            stats.flush_waits += 1;
            stats.flush_waited_us += self.shard().now_us() - from_us;
        }
    }

    fn keeps_flush_back(&self, table: &Rc<Table>) -> bool {
        let Ok(managed) = self.managed(table.schema().id) else { return false };
        let disk = self.disk_view();
        let is_short = disk.free_bytes < u64::MAX
            && disk.free_bytes < self.with_view(&managed, |strategy, view| strategy.reserve_bytes(view));
        if self.jobs_of(table.schema().id).is_empty() {
            // A job that is about to begin may free some room; if there is none, waiting is in vain.
            return is_short
                && self.may_begin(&managed)
                && self.with_view(&managed, |strategy, view| strategy.next(view).is_some());
        }
        let max_threshold = managed.options.borrow().get("max_threshold").and_then(|it| it.parse().ok());
        is_short || table.runs_to_merge() > max_threshold.unwrap_or(0).max(RUNS_TO_MERGE_MAX)
    }

    pub(super) fn disk_view(&self) -> DiskView {
        let Some(disk) = self.disk.get() else {
            return DiskView { capacity_bytes: u64::MAX, free_bytes: u64::MAX };
        };
        let needed: u64 = self.running.borrow().iter().map(|running| running.needs_bytes).sum();
        let used = if self.options.disk_budget_bytes.is_some() { self.used_bytes() } else { 0 };
        let left = disk.capacity_bytes.saturating_sub(used);
        let disk = DiskView { free_bytes: disk.free_bytes.min(left), ..disk };
        DiskView { free_bytes: disk.free_bytes.saturating_sub(needed), ..disk }
    }

    /// Looks at the backlog and says how many CPU shares compactions get.
    pub fn control(&self, memory_bytes: u64) {
        let backlog_bytes: f64 =
            self.tables.borrow().values().map(|managed| self.backlog_bytes(managed)).sum();
        let options = &self.options;
        let controller =
            Controller::new(f64::from(options.static_shares), f64::from(options.max_shares), memory_bytes);
        let shares = controller.shares(backlog_bytes) as u32;
        let mut stats = self.stats.borrow_mut();
        stats.backlog_bytes = backlog_bytes as u64;
        if stats.shares != shares {
            stats.shares = shares;
            hand_over_shares(self.shard(), shares);
        }
    }

    /// The table's backlog, found out anew when its SSTables are others.
    fn backlog_bytes(&self, managed: &Managed) -> f64 {
        let sstables = managed.table.sstables();
        let (known_of, known) = managed.backlog.take().unwrap_or_else(|| (Rc::default(), 0.0));
        let backlog = if Rc::ptr_eq(&known_of, &sstables) {
            known
        } else {
            self.with_view(managed, |strategy, view| strategy.backlog_bytes(view))
        };
        managed.backlog.replace(Some((sstables, backlog)));
        backlog
    }
}

/// Compactions of the shard get so many CPU shares from now on.
fn hand_over_shares(shard: &Shard, shares: u32) {
    shard.set_shares(CpuGroup::Compaction, shares);
}
