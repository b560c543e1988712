//! The compactions of the simulated shard: what the strategy sees, and when its jobs start and end.

use compaction::controller::Controller;
use compaction::weight::Weight;
use compaction::{DiskView, Null, Plan, RunId, Strategy, TableView};

use super::{Flush, World};
use crate::job::{Job, PurgeRules};
use crate::writer::Memtable;

impl World<'_> {
    /// Calls `f` with the strategy and its view of the table.
    fn with_view<R>(&mut self, f: impl FnOnce(&mut dyn Strategy, &TableView<'_>) -> R) -> R {
        let mut strategy: Box<dyn Strategy> = std::mem::replace(&mut self.strategy, Box::new(Null::new()));
        let gc_before_s = self.gc().before_s;
        // Ratios change within days; in the engine they are computed for each decision.
        self.store.refresh(gc_before_s, self.ask_interval_s as u32);
        let node = &self.workload.node;
        let capacity_bytes = (node.disk.capacity.0 / self.shards()) as u64;
        let promised_bytes: f64 = self.jobs.iter().map(Job::promised_bytes).sum();
        let free_bytes = capacity_bytes.saturating_sub((self.disk_bytes() + promised_bytes) as u64);
        let view = TableView {
            now_us: self.wall_us(),
            sstables: self.store.views(),
            outside: &[],
            gc_before_s,
            memtable_min_timestamp_us: Some(self.active_since_us()),
            jobs_running: self.jobs.len() as u32,
            flush_bytes: self.last_flush_bytes,
            ring_share: 1.0 / self.shards(),
            enforce_min_threshold: node.compaction_enforce_min_threshold,
            disk: DiskView::new(capacity_bytes, free_bytes),
            sampled: self.sampled.as_ref(),
            seed: self.decisions,
        };
        let result = f(&mut *strategy, &view);
        self.strategy = strategy;
        result
    }

    /// Starts the jobs that the strategy wants and that are admitted.
    pub(super) fn start_jobs(&mut self) {
        if !self.wants {
            return;
        }
        self.asked_s = self.now_s;
        let most = self.workload.node.concurrent_compactors as usize;
        loop {
            let has_room = most == 0 || self.jobs.len() < most;
            if !has_room || !(self.jobs.is_empty() || self.strategy.runs_in_parallel()) {
                return;
            }
            let Some(next) = self.next_plan() else {
                self.runs_to_merge = 0;
                self.wants = false;
                return;
            };
            self.runs_to_merge = next.runs;
            let weight = Weight::new(next.bytes, next.runs);
            if self.admission.begin(weight).is_err() {
                return;
            }
            self.begin(next.plan, Some(weight), next.needs_bytes);
        }
    }

    fn next_plan(&mut self) -> Option<NextPlan> {
        self.decisions += 1;
        let wanted = self.with_view(|strategy, view| strategy.wants_sample(view));
        if let Some(wanted) = wanted.filter(|wanted| wanted.runs != self.sampled_runs) {
            self.sampled = Some(self.store.sampled(&wanted));
            self.sampled_runs = wanted.runs;
        }
        self.with_view(|strategy, view| {
            let plan = strategy.next(view)?;
            let inputs = || plan.inputs.iter().filter_map(|id| view.find(*id));
            let mut runs: Vec<RunId> = inputs().map(|sstable| sstable.run).collect();
            runs.sort_unstable();
            runs.dedup();
            let bytes = inputs().map(|sstable| sstable.data_bytes).sum();
            let needs_bytes = plan.needs_bytes(view).unwrap_or(0);
            Some(NextPlan { runs: runs.len(), bytes, needs_bytes, plan })
        })
    }

    /// Compacts everything once, as `nodetool compact`.
    pub(super) fn major(&mut self) {
        let plans = self.with_view(|strategy, view| strategy.major(view, false));
        for plan in plans {
            let needs_bytes = self.with_view(|_, view| plan.needs_bytes(view)).unwrap_or(0);
            self.begin(plan, None, needs_bytes);
            self.wants = false;
            while self.jobs.iter().any(|job| job.weight.is_none()) {
                self.step(None);
            }
        }
    }

    pub(super) fn begin(&mut self, plan: compaction::Plan, weight: Option<Weight>, needs_bytes: u64) {
        let table = &self.workload.table;
        let rules = PurgeRules {
            now_s: self.wall_s(),
            gc: self.gc(),
            tombstone_bytes_ratio: (table.tombstone_bytes.0 / table.row_bytes.0).min(1.0),
        };
        let job = Job::start(plan, weight, needs_bytes, &mut self.store, &rules, &self.writer.population);
        self.jobs.push(job);
        self.end_jobs();
    }

    /// Ends the jobs that are done; one that only drops SSTables is done at once.
    pub(super) fn end_jobs(&mut self) {
        let mut has_changed = false;
        for at in (0..self.jobs.len()).rev() {
            has_changed |= self.jobs[at].seal(&mut self.store);
            if !self.jobs[at].is_done() {
                continue;
            }
            self.note_peak();
            let mut job = self.jobs.remove(at);
            job.end(&mut self.store);
            if let Some(weight) = job.weight {
                self.admission.end(weight);
            }
            self.strategy.finished(&job.finished());
            self.outcome.jobs += 1;
            (self.sampled, self.wants, has_changed) = (None, true, true);
            self.sampled_runs.clear();
        }
        if has_changed {
            self.changed();
        }
    }

    /// The SSTables have changed.
    pub(super) fn changed(&mut self) {
        self.note_peak();
        self.backlog_bytes = self.with_view(|strategy, view| strategy.backlog_bytes(view));
        let node = &self.workload.node;
        let controller = Controller::new(
            f64::from(node.compaction_static_shares),
            f64::from(node.compaction_max_shares),
            node.shard_memory() as u64,
        );
        self.shares = controller.shares(self.backlog_bytes);
        let peak = &mut self.outcome.peak_backlog_bytes;
        *peak = peak.max(self.backlog_bytes);
    }

    pub(super) fn keeps_flush_back(&mut self) -> bool {
        let is_short = self.with_view(|strategy, view| view.disk.free_bytes < strategy.reserve_bytes(view));
        if self.jobs.is_empty() {
            return is_short && self.next_plan().is_some();
        }
        let most = self.max_threshold.max(self.workload.node.runs_to_merge_max as usize);
        is_short || self.runs_to_merge > most
    }

    /// Delays a flush that begins, or ends the delay when its reason is over.
    pub(super) fn hold_flush(&mut self, begins: bool) {
        let until_s = self.now_s + self.workload.node.flush_wait.0;
        let is_delayed = self.flush.as_ref().is_some_and(|flush| begins || flush.held_until_s.is_some());
        if !is_delayed {
            return;
        }
        let is_held = self.keeps_flush_back();
        let now_s = self.now_s;
        if let Some(flush) = &mut self.flush {
            flush.held_until_s = flush
                .held_until_s
                .or(begins.then_some(until_s))
                .filter(|until_s| is_held && *until_s > now_s);
        }
    }

    /// Begins the next flush if none is in progress.
    pub(super) fn next_flush(&mut self) {
        if self.flush.is_none()
            && let Some(memtable) = self.sealed.pop_front()
        {
            self.flush = Some(Flush { left_bytes: memtable.bytes, memtable, held_until_s: None });
            self.hold_flush(true);
        }
    }

    pub(super) fn flushed(&mut self, memtable: Memtable) {
        self.last_flush_bytes = memtable.bytes as u64;
        let layout = self.strategy.layout(0);
        let now_s = self.wall_s();
        let made = self.store.make(memtable.entries, &layout, now_s, &self.writer.population);
        for made in made {
            self.outcome.flushed_bytes += made.view.disk_bytes as f64;
            self.store.add(made);
        }
        self.outcome.flushes += 1;
        self.wants = true;
        self.changed();
    }
}

/// A plan of the strategy, with the figures of its admission.
struct NextPlan {
    plan: Plan,
    runs: usize,
    bytes: u64,
    needs_bytes: u64,
}
