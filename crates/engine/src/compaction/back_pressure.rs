//! Back-pressure of compaction on a shard: delayed flushes, reserved disk space, and CPU shares derived from
//! the backlog.

use std::cell::Cell;
use std::rc::Rc;

use compaction::DiskView;
use compaction::controller::Controller;
use runtime::{CpuGroup, Shard};
use sstable::read::SSTable;

use super::manager::Manager;
use super::table_state::TableState;
use crate::table::Table;

/// Longest delay of a flush, and the interval of the checks.
const FLUSH_WAIT_US_MAX: u64 = 10_000_000;
const FLUSH_WAIT_STEP_US: u64 = 20_000;
/// A table whose next job has more runs than this and than `max_threshold` delays flushes.
const RUNS_TO_MERGE_MAX: usize = 32;

/// A shard's part of the disk, or of the disk budget of compactions.
pub(super) struct DiskSpace {
    /// The last measurement; `None` in the first seconds.
    measured: Cell<Option<DiskView>>,
    budget_bytes: Option<u64>,
}

impl DiskSpace {
    /// `budget_bytes` is for all shards together.
    pub(super) fn new(budget_bytes: Option<u64>, shards: u32) -> Self {
        Self { measured: Cell::new(None), budget_bytes: budget_bytes.map(|all| all / u64::from(shards)) }
    }

    /// `used_bytes` returns the bytes of the shard's SSTables.
    fn set_free_bytes(&self, free_bytes: u64, used_bytes: impl FnOnce() -> u64) {
        let all = || free_bytes.saturating_add(used_bytes());
        let capacity_bytes = self.budget_bytes.unwrap_or_else(all);
        self.measured.set(Some(DiskView::new(capacity_bytes, free_bytes)));
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.measured.get().map_or(u64::MAX, |disk| disk.free_bytes)
    }

    /// The space left when the running jobs have used `needed_bytes` more.
    fn view(&self, needed_bytes: u64, used_bytes: impl FnOnce() -> u64) -> DiskView {
        // The disk is first measured some seconds after the start; the budget is known from the beginning.
        let unmeasured = DiskView::new(self.budget_bytes.unwrap_or(u64::MAX), u64::MAX);
        let disk = self.measured.get().unwrap_or(unmeasured);
        if disk.free_bytes == u64::MAX && self.budget_bytes.is_none() {
            return disk;
        }
        let used = if self.budget_bytes.is_some() { used_bytes() } else { 0 };
        let left = disk.capacity_bytes.saturating_sub(used);
        DiskView {
            capacity_bytes: disk.capacity_bytes,
            free_bytes: disk.free_bytes.min(left).saturating_sub(needed_bytes),
            file_system_free_bytes: disk.free_bytes.saturating_sub(needed_bytes),
        }
    }
}

impl Manager {
    /// Sets the free bytes of the disk, for all shards together.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        let shards = u64::from(self.shard().shard_count());
        let free_bytes = free_bytes / shards;
        self.disk.set_free_bytes(free_bytes, || self.used_bytes());
        // Jobs that failed for lack of space are retried when there is more.
        for managed in
            self.tables.borrow().values().filter(|managed| managed.pause.end_with_space(free_bytes))
        {
            managed.wants.set(true);
            self.schedule.wake();
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

    /// Delays a flush while the table has too many runs, or the disk too little space for the job that would
    /// free some. The delay is bounded, and ends if no job runs that could change the situation.
    pub async fn wait_before_flush(&self, table: &Rc<Table>) {
        let until_us = self.shard().now_us() + FLUSH_WAIT_US_MAX;
        let mut waited_from = None;
        while !self.schedule.is_stopping() && self.shard().now_us() < until_us && self.delays_flush(table) {
            waited_from.get_or_insert(self.shard().now_us());
            self.shard().sleep_us(FLUSH_WAIT_STEP_US).await;
        }
        if let Some(from_us) = waited_from {
            let mut stats = self.stats.borrow_mut();
            stats.flush_waits += 1;
            stats.flush_waited_us += self.shard().now_us() - from_us;
        }
    }

    fn delays_flush(&self, table: &Rc<Table>) -> bool {
        let Ok(managed) = self.managed(table.schema().id) else { return false };
        let disk = self.disk_view();
        let is_short = disk.free_bytes < u64::MAX
            && disk.free_bytes < self.with_view(&managed, |strategy, view| strategy.reserve_bytes(view));
        if self.running.of_table(table.schema().id).is_empty() {
            // A job that is about to start may free space; without one, waiting is useless.
            return is_short
                && self.may_begin(&managed)
                && self.with_view(&managed, |strategy, view| strategy.next(view).is_some());
        }
        let max_threshold = managed.options.borrow().get("max_threshold").and_then(|it| it.parse().ok());
        is_short || table.runs_to_merge() > max_threshold.unwrap_or(0).max(RUNS_TO_MERGE_MAX)
    }

    pub(super) fn disk_view(&self) -> DiskView {
        self.disk.view(self.running.needs_bytes(), || self.used_bytes())
    }

    /// Sets the CPU shares of compactions from the backlog.
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
            apply_shares(self.shard(), shares);
        }
    }

    /// The table's backlog, computed again when its SSTables have changed.
    fn backlog_bytes(&self, managed: &TableState) -> f64 {
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

/// Sets the CPU shares of the shard's compactions.
fn apply_shares(shard: &Shard, shares: u32) {
    shard.set_shares(CpuGroup::Compaction, shares);
}
