//! Decides which compactions of a shard run when.
//!
//! A table's strategy is asked for a job after a flush, after a compaction, after a change of options, and
//! once per minute. A job that cannot start now is asked for again when a job ends.
//!
//! The manager connects its parts: the times at which strategies are asked (`schedule`), the running jobs
//! (`running`), the state of each table (`table_state`: its `pause` after a failure, its `sample`), and the
//! disk (`pressure`). `lifecycle` starts jobs and handles their results. Requests of users (`nodetool
//! compact`, …) ignore weights and pauses; see `operations`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{HashMap, HashSet, LogThrottle};
use catalog::{TableSettings, TombstoneGcMode};
use compaction::purge::{GcBefore, TombstoneGc};
use compaction::weight::Weight;
use compaction::{RunId, SSTableId, Strategy, TableView};
use model::TableId;
use runtime::{CpuGroup, JoinHandle, Shard};
use sstable::read::{ChunkCache, SSTable};
use sstable::version::Version;

use super::back_pressure::DiskSpace;
use super::compaction_log::CompactionLog;
use super::error::JobError;
use super::history::History;
use super::host::CompactionHost;
use super::job::JobContext;
use super::report::ManagerStats;
use super::running::RunningJobs;
use super::schedule::Schedule;
use super::table_state::TableState;
use super::table_strategy;
use super::throttle::Throttle;
use crate::error::EngineError;
use crate::options::{CompactionOptions, SSTableForm};
use crate::table::Table;
use crate::table::large_data_log::LargeDataLog;

/// The options and lists that the managers of all shards share.
#[derive(Clone, Debug)]
pub struct CompactionSetup {
    pub options: CompactionOptions,
    pub history: History,
    pub log: CompactionLog,
}

/// See the head of this file.
pub struct Manager {
    pub(super) around: JobContext,
    pub(super) options: CompactionOptions,
    pub(super) tables: RefCell<HashMap<TableId, Rc<TableState>>>,
    pub(super) schedule: Schedule,
    pub(super) running: RunningJobs,
    pub(super) disk: DiskSpace,
    pub(super) history: History,
    pub(super) log: CompactionLog,
    pub(super) failed_lines: LogThrottle,
    pub(super) beyond_budget_lines: LogThrottle,
    /// The table in which the history is stored.
    pub(super) history_table: TableId,
    pub(super) stats: RefCell<ManagerStats>,
    task: RefCell<Option<JoinHandle<()>>>,
}

impl Manager {
    pub fn new(
        shard: &Shard,
        cache: Rc<ChunkCache>,
        host_id: [u8; 16],
        form: SSTableForm,
        large_data: Rc<LargeDataLog>,
        setup: CompactionSetup,
    ) -> Rc<Self> {
        let CompactionSetup { options, history, log } = setup;
        let throttle = Rc::new(Throttle::default());
        throttle.set_bytes_per_s(options.throughput_bytes_per_s / u64::from(shard.shard_count()));
        let around = JobContext { shard: shard.clone(), cache, host_id, form, large_data, throttle };
        let this = Rc::new(Self {
            around,
            schedule: Schedule::new(options.concurrent_jobs),
            disk: DiskSpace::new(options.disk_budget_bytes, shard.shard_count()),
            options,
            tables: RefCell::default(),
            running: RunningJobs::default(),
            history,
            log,
            failed_lines: LogThrottle::default(),
            beyond_budget_lines: LogThrottle::default(),
            history_table: catalog::compaction_history().id,
            stats: RefCell::default(),
            task: RefCell::default(),
        });
        CompactionHost::offer(shard, &this);
        let working = this.clone();
        let task = shard.spawn(CpuGroup::Compaction, async move { working.work().await });
        *this.task.borrow_mut() = Some(task);
        this
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.around.shard
    }

    /// Allows jobs to start. Called when the start of the shard is complete.
    pub fn start(&self) {
        self.schedule.start();
        self.reshape_all();
        self.ask_all();
    }

    /// Adds a table, or applies its changed options; changed compaction options create a new strategy.
    pub fn set_table(&self, table: &Rc<Table>, settings: &TableSettings) {
        let options = &settings.compaction;
        let id = table.schema().id;
        let known = self.tables.borrow().get(&id).cloned();
        match known {
            Some(known) => {
                if *known.options.borrow() != *options {
                    *known.strategy.borrow_mut() = self.strategy_of(table, options);
                    let before = known.rules.replace(table_strategy::rules_of(options));
                    self.log_switched(&known, before.log_all);
                    known.options.borrow_mut().clone_from(options);
                }
                known.tombstone_gc.set(settings.tombstone_gc());
                known.wants.set(true);
            }
            None => {
                let strategy = self.strategy_of(table, options);
                let managed = TableState::new(table, settings, strategy);
                self.log_switched(&managed, false);
                self.tables.borrow_mut().insert(id, managed);
            }
        }
        self.schedule.wake();
    }

    /// Writes a change of `log_all` to the compaction log, once for all shards.
    fn log_switched(&self, managed: &TableState, was_on: bool) {
        let is_on = managed.rules.get().log_all;
        if is_on != was_on && self.shard().id() == 0 {
            let schema = managed.table.schema();
            let strategy = managed.strategy.borrow().name();
            let time_ms = self.shard().wall_us() / 1000;
            self.log.switched((&schema.keyspace, &schema.name), strategy, time_ms, is_on);
        }
    }

    /// The strategy named by the options; if they are invalid, the null strategy, and the error is reported.
    fn strategy_of(&self, table: &Table, options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
        let (strategy, refused) = table_strategy::of(options);
        if let Some(error) = refused {
            let text =
                format!("{error}; the table is not compacted until ALTER TABLE gives it valid options");
            self.log_failed(table, &JobError::Refused(text));
        }
        strategy
    }

    /// Removes a dropped table. Its jobs have ended ([`Self::block`]).
    pub fn forget_table(&self, id: TableId) {
        self.tables.borrow_mut().remove(&id);
    }

    pub(super) fn managed(&self, id: TableId) -> Result<Rc<TableState>, EngineError> {
        self.tables.borrow().get(&id).cloned().ok_or(EngineError::UnknownTable(id))
    }

    /// The table has a new SSTable.
    pub fn nudge(&self, table: &Rc<Table>) {
        if let Some(managed) = self.tables.borrow().get(&table.schema().id) {
            managed.wants.set(true);
            self.schedule.wake();
        }
    }

    /// Asks the strategy of every table.
    pub fn ask_all(&self) {
        self.tables.borrow().values().for_each(|managed| managed.wants.set(true));
        self.schedule.asks_all(self.shard().now_us());
    }

    /// Wakes the manager for tables whose pause is over, and asks all tables periodically.
    pub fn tick(&self) {
        let now_us = self.shard().now_us();
        if self.schedule.is_poll_due(now_us) {
            self.ask_all();
        }
        if self.tables.borrow().values().any(|managed| managed.pause.is_over(now_us)) {
            self.schedule.wake();
        }
    }

    /// The format version of outputs.
    pub fn sstable_version(&self) -> Version {
        self.around.form.version
    }

    pub fn options(&self) -> &CompactionOptions {
        &self.options
    }

    /// `nodetool enableautocompaction` and `disableautocompaction`.
    pub fn set_auto(&self, id: TableId, auto: bool) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        managed.auto.set(auto);
        managed.wants.set(true);
        self.schedule.wake();
        Ok(())
    }

    pub fn is_auto(&self, id: TableId) -> Result<bool, EngineError> {
        Ok(self.managed(id)?.auto.get())
    }

    /// Sets the bytes per second that this shard's jobs may read; 0: no limit.
    pub fn set_throughput(&self, bytes_per_s: u64) {
        self.around.throttle.set_bytes_per_s(bytes_per_s);
    }

    pub fn throughput(&self) -> u64 {
        self.around.throttle.bytes_per_s()
    }

    pub fn set_jobs_max(&self, jobs: u32) {
        self.schedule.set_jobs_max(jobs);
    }

    pub fn jobs_max(&self) -> u32 {
        self.schedule.jobs_max()
    }

    /// Prevents jobs of the table from starting until [`Self::allow`], stops its running jobs, and waits for
    /// their end.
    pub async fn block(&self, id: TableId) {
        let Ok(managed) = self.managed(id) else { return };
        managed.blocks.set(managed.blocks.get() + 1);
        self.running.of_table(id).iter().for_each(|running| running.control.leave());
        self.running.until(|| self.running.of_table(id).is_empty()).await;
    }

    pub fn allow(&self, id: TableId) {
        if let Ok(managed) = self.managed(id) {
            managed.blocks.set(managed.blocks.get().saturating_sub(1));
            managed.wants.set(true);
            self.schedule.wake();
        }
    }

    /// Waits until no other operation has the table. From then until [`Self::release`], only the caller
    /// starts jobs of the table. The jobs of the strategy are stopped, and have ended when this returns.
    pub(super) async fn acquire(&self, managed: &TableState) {
        let id = managed.table.schema().id;
        managed.operation.hold().await;
        self.running.of_table(id).iter().for_each(|running| running.control.stop());
        self.running.until(|| self.running.of_table(id).is_empty()).await;
    }

    pub(super) fn release(&self, managed: &TableState) {
        managed.operation.release();
        managed.wants.set(true);
        self.schedule.wake();
    }

    /// `nodetool stop`: see `RunningJobs::stop`.
    pub fn stop_jobs(&self, kind: Option<&str>) -> usize {
        self.running.stop(kind)
    }

    /// Stops the job of this number, as reports give it; false if there is none.
    pub fn stop_job(&self, id: u64) -> bool {
        self.running.stop_one(id)
    }

    /// Stops all jobs; none starts afterwards.
    pub async fn stop(&self) {
        self.schedule.stop();
        self.running.leave();
        let is_sampling = || self.tables.borrow().values().any(|managed| managed.sampling.is_running());
        self.running.until(|| self.running.len() == 0 && !is_sampling()).await;
        let task = self.task.take();
        if let Some(task) = task {
            task.await;
        }
    }

    async fn work(self: Rc<Self>) {
        while !self.schedule.is_stopping() {
            let wake = self.schedule.next_wake();
            if self.schedule.has_started() {
                self.start_jobs();
            }
            wake.await;
        }
    }

    fn start_jobs(self: &Rc<Self>) {
        let mut tables: Vec<Rc<TableState>> =
            self.tables.borrow().values().filter(|managed| managed.wants.get()).cloned().collect();
        tables.sort_by_key(|managed| managed.table.schema().id);
        for managed in tables {
            self.start_reshard(&managed);
            self.start_reshape(&managed);
            self.start_index_build(&managed);
            while self.may_ask(&managed) && self.start_next(&managed) {}
        }
    }

    /// Whether an automatic job of the table may start, apart from conditions of the strategy.
    pub(super) fn may_begin(&self, managed: &TableState) -> bool {
        self.schedule.has_room(self.running.len())
            && managed.auto.get()
            && managed.blocks.get() == 0
            && !managed.operation.is_held()
            && !managed.pause.is_on(self.shard().now_us())
    }

    fn may_ask(&self, managed: &TableState) -> bool {
        managed.wants.get()
            && self.may_begin(managed)
            && (managed.strategy.borrow().runs_in_parallel()
                || self.running.of_table(managed.table.schema().id).is_empty())
    }

    /// Starts the strategy's next job; false if there is none or it cannot start now.
    fn start_next(self: &Rc<Self>, managed: &Rc<TableState>) -> bool {
        if managed.sampling.is_running() || self.start_sample(managed) {
            return false;
        }
        let planned = self.with_view(managed, |strategy, view| {
            let plan = strategy.next(view)?;
            let runs: HashSet<RunId> =
                plan.inputs.iter().filter_map(|id| Some(view.find(*id)?.run)).collect();
            Some((view_bytes(view, &plan.inputs), runs.len(), plan))
        });
        let Some((bytes, runs, plan)) = planned else {
            managed.table.set_runs_to_merge(0);
            managed.wants.set(false);
            return false;
        };
        managed.table.set_runs_to_merge(runs);
        let weight = Weight::new(bytes, runs);
        if !self.schedule.admit(weight) {
            return false;
        }
        match self.begin(managed, plan, "Compaction", Some(weight)) {
            Ok(job) => {
                job.detach();
                true
            }
            Err(error) => {
                self.schedule.release(weight);
                self.failed(managed, &error);
                false
            }
        }
    }

    /// Calls `f` with the strategy and the view of the table.
    pub(super) fn with_view<R>(
        &self,
        managed: &TableState,
        f: impl FnOnce(&mut dyn Strategy, &TableView<'_>) -> R,
    ) -> R {
        let shard = self.shard();
        let table = &managed.table;
        let gc_before_s = self.gc_before_s(managed);
        let busy = self.running.sstables(table.schema().id);
        let mut views = managed.views.borrow_mut();
        let (shards, is_busy) = (shard.shard_count(), |name| busy.contains(&name));
        let sstables =
            views.of(table, shards, shard.wall_s(), gc_before_s, is_busy, &managed.futile.borrow());
        let sampled = managed.sampling.overlap();
        let view = TableView {
            now_us: shard.wall_us(),
            sstables,
            outside: &[],
            gc_before_s,
            memtable_min_timestamp_us: least_of(
                table.memtables.min_timestamp_us(),
                table.replayable_since_us(),
            ),
            jobs_running: self.running.of_table(table.schema().id).len() as u32,
            flush_bytes: table.counters.last_flush_bytes(),
            ring_share: if table.is_system() { 1.0 } else { 1.0 / f64::from(shard.shard_count()) },
            enforce_min_threshold: self.options.enforce_min_threshold,
            disk: self.disk_view(),
            sampled: sampled.as_ref(),
            seed: shard.random_u64(),
        };
        f(&mut **managed.strategy.borrow_mut(), &view)
    }

    /// Tombstones from before this time may be dropped. The commit log is checked partition by partition.
    ///
    /// 0 while the table has SSTables that cannot be opened: it is unknown which of their data a tombstone
    /// deletes, and the data returns when the files have been repaired.
    pub(super) fn gc_before_s(&self, managed: &TableState) -> u32 {
        if managed.table.check_readable().is_err() {
            return 0;
        }
        let gc_grace_s = managed.table.schema().options.gc_grace_s;
        let gc = match managed.tombstone_gc.get() {
            TombstoneGcMode::Timeout => TombstoneGc::Timeout { gc_grace_s },
            TombstoneGcMode::Disabled => TombstoneGc::Disabled,
            TombstoneGcMode::Immediate => TombstoneGc::Immediate,
            TombstoneGcMode::Repair => {
                TombstoneGc::Repair { repaired_s: None, propagation_delay_s: 0, has_one_replica: true }
            }
        };
        GcBefore::new(gc, self.shard().wall_s(), None).before_s
    }

    pub(super) fn sstables(
        &self,
        managed: &TableState,
        ids: &[SSTableId],
    ) -> Result<Vec<Rc<SSTable>>, JobError> {
        let views = managed.views.borrow();
        let find = |id: &SSTableId| {
            let gone = || JobError::Refused(format!("an SSTable was removed meanwhile: {id:?}"));
            views.find(&managed.table, *id).ok_or_else(gone)
        };
        ids.iter().map(find).collect()
    }
}

/// The lesser of the values that are present.
fn least_of(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}

fn view_bytes(view: &TableView<'_>, ids: &[SSTableId]) -> u64 {
    ids.iter().filter_map(|id| view.find(*id)).map(|sstable| sstable.data_bytes).sum()
}
