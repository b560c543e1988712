//! A job from its beginning to what is made of its end.
//!
//! A job that ended well is told to the strategy, counted, and remembered. One that failed is tried again after a pause
//! that doubles from 5 s to 300 s, and an input that says what it cannot say is put into quarantine.

use std::rc::Rc;

use catalog::TombstoneGcMode;
use compaction::weight::Weight;
use compaction::{Finished, Plan, Reason};
use runtime::{CpuGroup, JoinHandle};

use super::error::JobError;
use super::history::{Ended, time_uuid};
use super::job::{self, Control, Done, Shadow, Work};
use super::managed::{Managed, Running, Starting};
use super::manager::Manager;
use super::purge::Blocker;
use crate::read::run::now_s;
use crate::table::Table;

/// The pause after a failed job, and the longest.
const RETRY_US_MIN: u64 = 5_000_000;
const RETRY_US_MAX: u64 = 300_000_000;

impl Manager {
    /// Begins a job; gives what waits for its end.
    pub(super) fn begin(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        plan: Plan,
        kind: &'static str,
        weight: Option<Weight>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        self.begin_with(managed, plan, kind, weight, None)
    }

    /// As [`Self::begin`], without what `shadow` deletes.
    pub(super) fn begin_with(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        plan: Plan,
        kind: &'static str,
        weight: Option<Weight>,
        shadow: Option<Shadow>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        let inputs = self.sstables(managed, &plan.inputs)?;
        let expired = self.sstables(managed, &plan.expired)?;
        let needs_bytes = self.with_view(managed, |_, view| plan.needs_bytes(view)).unwrap_or(0);
        let mut work = Work::of(&plan, &managed.table, inputs, expired);
        work.shadow = shadow;
        work.now_s = now_s(self.shard());
        work.gc_before_s = self.gc_before_s(managed);
        if managed.tombstone_gc.get() == TombstoneGcMode::Disabled {
            work.young = Blocker::Disabled;
        }
        if matches!(plan.reason, Reason::Reshape { .. }) {
            // The rest of the table is not looked at.
            work.gc_before_s = 0;
        }
        let total_bytes = work.inputs.iter().map(|input| input.uncompressed_bytes()).sum();
        let input_level = work.inputs.iter().map(|input| input.level()).min().unwrap_or(0);
        let starting = Starting {
            kind,
            reason: plan.reason.to_string(),
            total_bytes,
            input_sstables: (plan.inputs.len() + plan.expired.len()) as u64,
            weight,
            needs_bytes,
            own: work.own.clone(),
        };
        let around = self.around.clone();
        let run = async move |control: Rc<Control>| Box::pin(job::run(&around, &control, work)).await;
        self.begin_job(managed, starting, Some((plan, input_level)), run)
    }

    /// Runs what gives what it has done. `planned`: the strategy is told of it, with the inputs' least level.
    ///
    /// # Errors
    /// No job of the table may begin: it is being truncated ([`Self::block`]) or gone, or the shard stops. Every job
    /// passes here, whoever asked for it: an output that came into the table after a truncate would bring back what
    /// was truncated.
    pub(super) fn begin_job(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        starting: Starting,
        planned: Option<(Plan, u32)>,
        run: impl AsyncFnOnce(Rc<Control>) -> Result<Done, JobError> + 'static,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        if managed.blocks.get() > 0 || managed.table.is_dropped() || self.stopping.get() {
            return Err(JobError::Stopped);
        }
        let id = self.next_job.replace(self.next_job.get() + 1);
        let control = Control::new(id, starting.total_bytes, self.shard().now_us());
        let input_sstables = starting.input_sstables;
        let running = Rc::new(Running {
            control: control.clone(),
            table: managed.table.clone(),
            kind: starting.kind,
            reason: starting.reason,
            weight: starting.weight,
            needs_bytes: starting.needs_bytes,
            own: starting.own,
        });
        self.running.borrow_mut().push(running.clone());
        let (this, managed) = (self.clone(), managed.clone());
        Ok(self.shard().spawn(CpuGroup::Compaction, async move {
            let result = run(control.clone()).await;
            this.running.borrow_mut().retain(|other| !Rc::ptr_eq(other, &running));
            if let Some(weight) = running.weight {
                this.admission.borrow_mut().end(weight);
            }
            this.around.throttle.forget(control.id);
            let ended = match &result {
                Ok(done) => {
                    if let Some((plan, input_level)) = &planned {
                        this.tell_strategy(&managed, plan, *input_level, done);
                    }
                    this.succeeded(&managed, input_sstables, &running, done);
                    Ok(())
                }
                Err(_) => Err(()),
            };
            let result = match (ended, result) {
                (Err(()), Err(error)) => {
                    this.failed(&managed, &error);
                    Err(error)
                }
                _ => Ok(()),
            };
            managed.wants.set(true);
            if planned.is_none() {
                // Another table may have waited for its turn.
                this.tables.borrow().values().for_each(|managed| managed.wants.set(true));
            }
            this.work.signal();
            this.ended.signal();
            result
        }))
    }

    fn tell_strategy(&self, managed: &Managed, plan: &Plan, input_level: u32, done: &Done) {
        if matches!(plan.reason, Reason::Reshape { .. }) {
            self.reshaped(managed, &done.outputs);
        }
        let finished = Finished {
            plan,
            input_level,
            last_key: done.last_key.clone(),
            input_bytes: done.plain_input_bytes,
            output_bytes: done.plain_output_bytes,
        };
        managed.strategy.borrow_mut().finished(&finished);
        managed.futile.borrow_mut().ended(&managed.table, done);
        // Its runs are others now.
        managed.sampled.replace(None);
        managed.sampled_runs.borrow_mut().clear();
    }

    fn succeeded(&self, managed: &Managed, input_sstables: u64, running: &Running, done: &Done) {
        managed.pause_us.set(0);
        managed.paused_until_us.set(0);
        let counters = &managed.table.counters;
        counters.compacted_bytes.set(counters.compacted_bytes.get() + done.output_bytes);
        let schema = managed.table.schema();
        // To store what happened to the table of it would make it happen again.
        let is_stored = schema.id != self.history_table;
        let ended = Ended {
            id: time_uuid(self.shard().wall_us(), self.shard().random_u64()),
            shard: self.shard().id(),
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            kind: running.kind.into(),
            reason: running.reason.clone(),
            ended_ms: self.shard().wall_us() / 1000,
            took_us: self.shard().now_us() - running.control.started_us,
            input_bytes: done.input_bytes,
            output_bytes: done.output_bytes,
            input_sstables,
            input_partitions: done.input_partitions,
            output_partitions: done.output_partitions,
            merged: done.merged.clone(),
        };
        self.history.push(ended, is_stored);
        let mut stats = self.stats.borrow_mut();
        stats.completed += 1;
        stats.input_bytes += done.input_bytes;
        stats.output_bytes += done.output_bytes;
        for (blocker, count) in &done.kept_tombstones {
            stats.kept_tombstones.add(blocker, *count);
        }
    }

    /// Counts an error, and keeps it for reports.
    pub(super) fn tell(&self, table: &Table, error: &JobError) {
        let left_out = match error.corrupt_file() {
            Some(_) => "; compactions leave this SSTable out until a scrub of the table or a restart",
            None => "",
        };
        let mut stats = self.stats.borrow_mut();
        stats.failed += 1;
        stats.last_error = Some(format!("{}: {error}{left_out}", table.schema().full_name()));
    }

    pub(super) fn failed(&self, managed: &Managed, error: &JobError) {
        if matches!(error, JobError::Stopped) {
            self.stats.borrow_mut().stopped += 1;
            return;
        }
        self.tell(&managed.table, error);
        if let Some(file) = error.corrupt_file() {
            managed.table.quarantine(file);
        }
        let pause_us = (managed.pause_us.get() * 2).clamp(RETRY_US_MIN, RETRY_US_MAX);
        managed.pause_us.set(pause_us);
        managed.paused_until_us.set(self.shard().now_us() + pause_us);
        let free_bytes = self.disk.get().map_or(u64::MAX, |disk| disk.free_bytes);
        managed.short_at_bytes.set(error.is_no_space().then_some(free_bytes));
    }
}
