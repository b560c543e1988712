//! The start of a job, and the handling of its result.
//!
//! A job that ended well is reported to the strategy, counted, and added to the history. A job that failed is
//! retried after a `pause`, and a corrupt input is put into quarantine.

use std::rc::Rc;

use catalog::TombstoneGcMode;
use compaction::garbage::shadows_of_plan;
use compaction::weight::Weight;
use compaction::{Finished, Plan, Reason};
use log::{debug, error, info, warn};
use reports::EndedCompaction;
use runtime::{CpuGroup, JoinHandle};
use sstable::read::SSTable;

use super::compaction_log::LoggedJob;
use super::error::JobError;
use super::history::time_uuid;
use super::job::{self, Control, JobInput, JobStats, Shadow};
use super::manager::Manager;
use super::purge::Blocker;
use super::running::{NewJob, Running};
use super::table_state::TableState;
use crate::table::Table;

/// Pause between two log lines about failed compactions.
const FAILED_PAUSE_US: u64 = 1_000_000;
/// Pause between two log lines about a `disk_budget` that is too small.
const BUDGET_PAUSE_US: u64 = 600_000_000;

fn is_repaired(input: &Rc<SSTable>) -> bool {
    input.stats().repaired_at_ms > 0
}

impl Manager {
    /// Starts a job; the handle returns its result.
    pub(super) fn begin(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        plan: Plan,
        kind: &'static str,
        weight: Option<Weight>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        let shadow = self.shadow_of(managed, &plan)?;
        self.begin_with(managed, plan, kind, weight, shadow)
    }

    /// The shadow that `provide_overlapping_tombstones` adds to a job.
    ///
    /// A concurrent job keeps the tombstones that are shadows here: the inputs of this job are in the table
    /// until it has ended, and hold the data that those tombstones delete.
    fn shadow_of(&self, managed: &TableState, plan: &Plan) -> Result<Option<Shadow>, JobError> {
        let rules = managed.rules.get();
        let Some(granularity) = rules.overlapping else { return Ok(None) };
        if matches!(plan.reason, Reason::Reshape { .. }) {
            return Ok(None);
        }
        if rules.only_purge_repaired && !self.sstables(managed, &plan.inputs)?.iter().all(is_repaired) {
            return Ok(None);
        }
        let shadows = self.with_view(managed, |_, view| shadows_of_plan(view, plan, granularity));
        let mut by = self.sstables(managed, &shadows)?;
        by.retain(|sstable| !managed.table.sstables.is_quarantined(sstable.name()));
        Ok((!by.is_empty()).then_some(Shadow { by, granularity }))
    }

    /// Like [`Self::begin`], without the data that `shadow` deletes.
    pub(super) fn begin_with(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        plan: Plan,
        kind: &'static str,
        weight: Option<Weight>,
        shadow: Option<Shadow>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        let inputs = self.sstables(managed, &plan.inputs)?;
        let expired = self.sstables(managed, &plan.expired)?;
        let needs_bytes = self.with_view(managed, |_, view| plan.needs_bytes(view)).unwrap_or(0);
        let mut work = JobInput::of(&plan, &managed.table, inputs, expired);
        work.shadow = shadow;
        work.now_s = self.shard().wall_s();
        work.gc_before_s = self.gc_before_s(managed);
        if managed.tombstone_gc.get() == TombstoneGcMode::Disabled {
            work.young = Blocker::Disabled;
        }
        if managed.rules.get().only_purge_repaired && !work.inputs.iter().all(is_repaired) {
            work.gc_before_s = 0;
            work.young = Blocker::NotRepaired;
        }
        if matches!(plan.reason, Reason::Reshape { .. }) {
            // A reshape does not take the other SSTables of the table into account.
            work.gc_before_s = 0;
        }
        if matches!(plan.reason, Reason::BudgetTooSmall { .. }) {
            self.stats.borrow_mut().beyond_budget += 1;
            if let Some(more) = self.beyond_budget_lines.admit_text(self.shard().now_us(), BUDGET_PAUSE_US) {
                let (table, reason) = (managed.table.schema().full_name(), &plan.reason);
                warn!(target: "compaction", "{table}: {reason}; raise disk_budget, or remove data{more}");
            }
        }
        let total_bytes = work.inputs.iter().map(|input| input.uncompressed_bytes()).sum();
        let input_level = work.inputs.iter().map(|input| input.level()).min().unwrap_or(0);
        debug!(
            target: "compaction",
            "{kind} of {} begins with {} SSTables: {}",
            managed.table.schema().full_name(),
            plan.inputs.len() + plan.expired.len(),
            plan.reason
        );
        let new = NewJob {
            kind,
            reason: plan.reason.to_string(),
            total_bytes,
            input_sstables: (plan.inputs.len() + plan.expired.len()) as u64,
            weight,
            needs_bytes,
            own: work.own.clone(),
        };
        let around = self.around.clone();
        let logged = managed.rules.get().log_all.then(|| self.to_log(managed, &work, kind, &plan.reason));
        let run = async move |control: Rc<Control>| {
            let done = Box::pin(job::run(&around, &control, work)).await?;
            logged.into_iter().for_each(|log| log(&done));
            Ok(done)
        };
        self.begin_job(managed, new, Some((plan, input_level)), run)
    }

    /// Logs the job as `log_all` asks for, when it has ended.
    fn to_log(
        self: &Rc<Self>,
        managed: &TableState,
        work: &JobInput,
        kind: &'static str,
        reason: &Reason,
    ) -> impl FnOnce(&JobStats) + use<> {
        let (this, schema, reason) = (self.clone(), managed.table.schema(), reason.to_string());
        let (strategy, started_ms) = (managed.strategy.borrow().name(), self.shard().wall_us() / 1000);
        let sized = |it: &Rc<SSTable>| (it.name(), it.data_bytes() + it.index_bytes());
        let inputs: Vec<_> = work.inputs.iter().chain(&work.expired).map(sized).collect();
        move |done: &JobStats| {
            let outputs: Vec<_> =
                done.outputs.iter().copied().zip(done.output_sizes.iter().copied()).collect();
            this.log.ended(&LoggedJob {
                keyspace: &schema.keyspace,
                table: &schema.name,
                shard: this.shard().id(),
                kind,
                strategy,
                reason: &reason,
                started_ms,
                ended_ms: this.shard().wall_us() / 1000,
                inputs: &inputs,
                outputs: &outputs,
            });
        }
    }

    /// Starts `run` as a job. `planned`: the strategy is notified of the end of this plan; the number is the
    /// least level of its inputs.
    ///
    /// # Errors
    /// No job of the table may start: the table is being truncated ([`Self::block`]) or was dropped, or the
    /// shard stops. Or another job has one of the SSTables. Every job passes this check, whatever its origin:
    /// an output that is added to the table after a truncate would bring truncated data back.
    pub(super) fn begin_job(
        self: &Rc<Self>,
        managed: &Rc<TableState>,
        new: NewJob,
        planned: Option<(Plan, u32)>,
        run: impl AsyncFnOnce(Rc<Control>) -> Result<JobStats, JobError> + 'static,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        if managed.blocks.get() > 0 || managed.table.is_dropped() || self.schedule.is_stopping() {
            return Err(JobError::Stopped);
        }
        let input_sstables = new.input_sstables;
        let running = self.running.begin(&managed.table, new, self.shard().now_us())?;
        let control = running.control.clone();
        let (this, managed) = (self.clone(), managed.clone());
        Ok(self.shard().spawn(CpuGroup::Compaction, async move {
            let result = run(control.clone()).await;
            this.running.end(&running);
            if let Some(weight) = running.job.weight {
                this.schedule.release(weight);
            }
            this.around.throttle.forget(control.id);
            let ended = match &result {
                Ok(done) => {
                    if let Some((plan, input_level)) = &planned {
                        this.notify_strategy(&managed, plan, *input_level, done);
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
                // Another table may have waited for the end of this job.
                this.tables.borrow().values().for_each(|managed| managed.wants.set(true));
            }
            this.schedule.wake();
            this.running.signal_ended();
            result
        }))
    }

    fn notify_strategy(&self, managed: &TableState, plan: &Plan, input_level: u32, done: &JobStats) {
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
        // The job has changed the table's runs.
        managed.sampling.forget();
    }

    fn succeeded(&self, managed: &TableState, input_sstables: u64, running: &Running, done: &JobStats) {
        managed.pause.end();
        let counters = &managed.table.counters;
        counters.compacted_bytes.set(counters.compacted_bytes.get() + done.output_bytes);
        let schema = managed.table.schema();
        // To store what happened to the table of it would make it happen again.
        let is_stored = schema.id != self.history_table;
        let ended = EndedCompaction {
            id: time_uuid(self.shard().wall_us(), self.shard().random_u64()),
            shard: self.shard().id(),
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            kind: running.job.kind.into(),
            reason: running.job.reason.clone(),
            ended_ms: self.shard().wall_us() / 1000,
            took_us: self.shard().now_us() - running.control.started_us,
            input_bytes: done.input_bytes,
            output_bytes: done.output_bytes,
            input_sstables,
            input_partitions: done.input_partitions,
            output_partitions: done.output_partitions,
            merged: done.merged.clone(),
        };
        info!(target: "compaction", "{ended}");
        self.history.push(ended, is_stored);
        let mut stats = self.stats.borrow_mut();
        stats.completed += 1;
        stats.input_bytes += done.input_bytes;
        stats.output_bytes += done.output_bytes;
        for (blocker, count) in &done.kept_tombstones {
            stats.kept_tombstones.add(blocker, *count);
        }
    }

    /// Logs and counts an error, and keeps it for reports.
    pub(super) fn log_failed(&self, table: &Table, error: &JobError) {
        let left_out = match error.corrupt_file() {
            Some(_) => "; compactions leave this SSTable out until a scrub of the table or a restart",
            None => "",
        };
        let text = format!("{}: {error}{left_out}", table.schema().full_name());
        if let Some(more) = self.failed_lines.admit_text(self.shard().now_us(), FAILED_PAUSE_US) {
            error!(target: "compaction", "a compaction failed{more}: {text}");
        }
        let mut stats = self.stats.borrow_mut();
        stats.failed += 1;
        stats.last_error = Some(text);
    }

    pub(super) fn failed(&self, managed: &TableState, error: &JobError) {
        if matches!(error, JobError::Stopped) {
            self.stats.borrow_mut().stopped += 1;
            return;
        }
        self.log_failed(&managed.table, error);
        if let Some(file) = error.corrupt_file() {
            managed.table.sstables.quarantine(file);
        }
        let short_at_bytes = error.is_no_space().then(|| self.disk.free_bytes());
        managed.pause.begin(self.shard().now_us(), short_at_bytes);
    }
}
