//! Which compactions of a shard run when.
//!
//! After a flush, a compaction, a change of options, and once in a while, a table's strategy is asked for a job. Of
//! each **weight** (a power of four of the bytes to merge) one job runs at a time on a shard, so that large jobs do
//! not pile up and small ones need not wait for them. What cannot start now is asked again when a job ends.
//!
//! A job that fails is tried again after a pause that doubles from 5 s to 300 s. An input that says what it cannot say
//! is put into quarantine: reads still try it, no job takes it again before a restart.
//!
//! What users ask for (`nodetool compact`, …) goes past weights and pauses; see `operations`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{HashMap, HashSet};
use catalog::{TableSettings, TombstoneGcMode};
use compaction::amplification::live_disk_bytes;
use compaction::controller::Controller;
use compaction::purge::{GcBefore, TombstoneGc};
use compaction::weight::{Admission, Weight};
use compaction::{
    DiskView, Finished, Plan, Reason, RunId, SSTableId, SamplePlan, SampledOverlap, Strategy, TableView,
};
use model::TableId;
use runtime::{CpuGroup, Event, JoinHandle, Shard};
use sstable::name::SstableName;
use sstable::read::{ChunkCache, SSTable};
use sstable::version::Version;

use super::error::JobError;
use super::history::{Ended, History, time_uuid};
use super::job::{self, Control, Done, Surroundings, Work};
use super::purge::{Blocker, OwnSSTables};
use super::report::{CompactionReport, ManagerStats, TableState};
use super::reshape::Reshaping;
use super::sample;
use super::strategies;
use super::throttle::Throttle;
use super::view::Views;
use crate::error::EngineError;
use crate::large_data::LargeDataLog;
use crate::options::CompactionOptions;
use crate::read::run::now_s;
use crate::table::Table;

/// The pause after a failed job, and the longest.
const RETRY_US_MIN: u64 = 5_000_000;
const RETRY_US_MAX: u64 = 300_000_000;
/// So often every table is asked, whether something happened to it or not.
const ASK_ALL_US: u64 = 60_000_000;
/// A flush is kept back for so long at most, and looks again so often.
const FLUSH_WAIT_US_MAX: u64 = 10_000_000;
const FLUSH_WAIT_STEP_US: u64 = 20_000;
/// A table whose next job has more runs than this, or than `max_threshold`, keeps flushes back.
const RUNS_TO_MERGE_MAX: usize = 32;

/// What the shards' managers have in common.
#[derive(Clone, Debug)]
pub struct CompactionSetup {
    pub options: CompactionOptions,
    pub history: History,
}

/// A table as the manager knows it.
pub(super) struct Managed {
    pub(super) table: Rc<Table>,
    options: RefCell<BTreeMap<String, String>>,
    tombstone_gc: Cell<TombstoneGcMode>,
    /// SSTables that are to be brought into the strategy's form.
    pub(super) reshaping: RefCell<Option<Reshaping>>,
    /// What a merge of samples showed; forgotten when a job has ended.
    sampled: RefCell<Option<SampledOverlap>>,
    /// What is being sampled, or was last and said nothing.
    sampled_runs: RefCell<Vec<RunId>>,
    is_sampling: Cell<bool>,
    pub(super) strategy: RefCell<Box<dyn Strategy>>,
    pub(super) views: RefCell<Views>,
    /// `nodetool disableautocompaction` has not been called.
    auto: Cell<bool>,
    /// So many need the table to be left alone: truncates, the end of the table.
    blocks: Cell<u32>,
    /// So many want all SSTables for jobs of their own: a major compaction.
    holds: Cell<u32>,
    /// The strategy may have a job.
    pub(super) wants: Cell<bool>,
    /// The backlog of these SSTables.
    backlog: Cell<Option<Backlog>>,
    pause_us: Cell<u64>,
    /// No job begins before, since the last one failed.
    paused_until_us: Cell<u64>,
}

/// SSTables, and how many bytes must still be rewritten of them.
type Backlog = (Rc<Vec<Rc<SSTable>>>, f64);

/// A job that is to begin.
pub(super) struct Starting {
    pub(super) kind: &'static str,
    pub(super) reason: String,
    /// Of its inputs, before compression.
    pub(super) total_bytes: u64,
    pub(super) input_sstables: u64,
    pub(super) weight: Option<Weight>,
    pub(super) needs_bytes: u64,
    pub(super) own: OwnSSTables,
}

/// A job that runs.
pub(super) struct Running {
    pub(super) control: Rc<Control>,
    pub(super) table: Rc<Table>,
    /// What users know it as: "Compaction", "Cleanup", …
    pub(super) kind: &'static str,
    pub(super) reason: String,
    weight: Option<Weight>,
    /// The most disk space it may still take.
    needs_bytes: u64,
    pub(super) own: OwnSSTables,
}

/// See the head of this file.
pub struct Manager {
    pub(super) around: Surroundings,
    options: CompactionOptions,
    pub(super) tables: RefCell<HashMap<TableId, Rc<Managed>>>,
    pub(super) running: RefCell<Vec<Rc<Running>>>,
    /// The weights of jobs that strategies began.
    admission: RefCell<Admission>,
    /// Something is to be asked, or a job ended.
    pub(super) work: Event,
    pub(super) ended: Event,
    has_started: Cell<bool>,
    stopping: Cell<bool>,
    /// At most so many jobs at a time, whatever their weights; 0: as many as there are weights.
    jobs_max: Cell<u32>,
    next_job: Cell<u64>,
    last_ask_us: Cell<u64>,
    disk: Cell<Option<DiskView>>,
    history: History,
    pub(super) stats: RefCell<ManagerStats>,
    task: RefCell<Option<JoinHandle<()>>>,
}

impl Manager {
    pub fn new(
        shard: &Shard,
        cache: Rc<ChunkCache>,
        host_id: [u8; 16],
        sstable_version: Version,
        large_data: Rc<LargeDataLog>,
        setup: CompactionSetup,
    ) -> Rc<Self> {
        let CompactionSetup { options, history } = setup;
        let throttle = Rc::new(Throttle::default());
        throttle.set_bytes_per_s(options.throughput_bytes_per_s / u64::from(shard.shard_count()));
        let around =
            Surroundings { shard: shard.clone(), cache, host_id, sstable_version, large_data, throttle };
        let this = Rc::new(Self {
            around,
            jobs_max: Cell::new(options.concurrent_jobs),
            options,
            tables: RefCell::default(),
            running: RefCell::default(),
            admission: RefCell::default(),
            work: Event::new(),
            ended: Event::new(),
            has_started: Cell::new(false),
            stopping: Cell::new(false),
            next_job: Cell::new(1),
            last_ask_us: Cell::new(0),
            disk: Cell::new(None),
            history,
            stats: RefCell::default(),
            task: RefCell::default(),
        });
        let working = this.clone();
        let task = shard.spawn(CpuGroup::Compaction, async move { working.work().await });
        *this.task.borrow_mut() = Some(task);
        this
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.around.shard
    }

    /// From now on jobs begin: what a start does is done.
    pub fn start(&self) {
        self.has_started.set(true);
        self.reshape_all();
        self.ask_all();
    }

    /// Knows the table from now on, or that its options are others: the strategy is another one then.
    pub fn set_table(&self, table: &Rc<Table>, settings: &TableSettings) {
        let options = &settings.compaction;
        let id = table.schema().id;
        let known = self.tables.borrow().get(&id).cloned();
        match known {
            Some(known) => {
                if *known.options.borrow() != *options {
                    *known.strategy.borrow_mut() = strategies::of(options);
                    known.options.borrow_mut().clone_from(options);
                }
                known.tombstone_gc.set(settings.tombstone_gc());
                known.wants.set(true);
            }
            None => {
                let managed = Managed {
                    table: table.clone(),
                    options: RefCell::new(options.clone()),
                    tombstone_gc: Cell::new(settings.tombstone_gc()),
                    reshaping: RefCell::default(),
                    sampled: RefCell::default(),
                    sampled_runs: RefCell::default(),
                    is_sampling: Cell::new(false),
                    strategy: RefCell::new(strategies::of(options)),
                    views: RefCell::default(),
                    auto: Cell::new(true),
                    blocks: Cell::new(0),
                    holds: Cell::new(0),
                    wants: Cell::new(true),
                    backlog: Cell::new(None),
                    pause_us: Cell::new(0),
                    paused_until_us: Cell::new(0),
                };
                self.tables.borrow_mut().insert(id, Rc::new(managed));
            }
        }
        self.work.signal();
    }

    /// The table is gone; its jobs have ended ([`Self::block`]).
    pub fn forget_table(&self, id: TableId) {
        self.tables.borrow_mut().remove(&id);
    }

    pub(super) fn managed(&self, id: TableId) -> Result<Rc<Managed>, EngineError> {
        self.tables.borrow().get(&id).cloned().ok_or(EngineError::UnknownTable(id))
    }

    /// The table has another SSTable.
    pub fn nudge(&self, table: &Rc<Table>) {
        if let Some(managed) = self.tables.borrow().get(&table.schema().id) {
            managed.wants.set(true);
            self.work.signal();
        }
    }

    /// Every table's strategy is asked.
    pub fn ask_all(&self) {
        self.last_ask_us.set(self.shard().now_us());
        self.tables.borrow().values().for_each(|managed| managed.wants.set(true));
        self.work.signal();
    }

    /// Looks at pauses that are over, and asks all tables once in a while.
    pub fn tick(&self) {
        let now_us = self.shard().now_us();
        if now_us >= self.last_ask_us.get() + ASK_ALL_US {
            self.ask_all();
        }
        let over = |managed: &Rc<Managed>| {
            let until_us = managed.paused_until_us.get();
            until_us > 0 && now_us >= until_us
        };
        if self.tables.borrow().values().any(over) {
            self.work.signal();
        }
    }

    /// So much is free on the disk for all shards together.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        let shards = u64::from(self.shard().shard_count());
        let free_bytes = free_bytes / shards;
        let capacity_bytes = match self.options.disk_budget_bytes {
            Some(budget_bytes) => budget_bytes / shards,
            None => free_bytes.saturating_add(self.used_bytes()),
        };
        self.disk.set(Some(DiskView { capacity_bytes, free_bytes }));
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

    /// What outputs are written as.
    pub fn sstable_version(&self) -> Version {
        self.around.sstable_version
    }

    pub fn options(&self) -> &CompactionOptions {
        &self.options
    }

    /// `nodetool enableautocompaction` and `disableautocompaction`.
    pub fn set_auto(&self, id: TableId, auto: bool) -> Result<(), EngineError> {
        let managed = self.managed(id)?;
        managed.auto.set(auto);
        managed.wants.set(true);
        self.work.signal();
        Ok(())
    }

    pub fn is_auto(&self, id: TableId) -> Result<bool, EngineError> {
        Ok(self.managed(id)?.auto.get())
    }

    /// Bytes per second that this shard's jobs may read; 0: no limit.
    pub fn set_throughput(&self, bytes_per_s: u64) {
        self.around.throttle.set_bytes_per_s(bytes_per_s);
    }

    pub fn throughput(&self) -> u64 {
        self.around.throttle.bytes_per_s()
    }

    pub fn set_jobs_max(&self, jobs: u32) {
        self.jobs_max.set(jobs);
        self.work.signal();
    }

    pub fn jobs_max(&self) -> u32 {
        self.jobs_max.get()
    }

    /// No job of the table begins until [`Self::allow`]; those that run are stopped, and have ended when this does.
    pub async fn block(&self, id: TableId) {
        let Ok(managed) = self.managed(id) else { return };
        managed.blocks.set(managed.blocks.get() + 1);
        self.jobs_of(id).iter().for_each(|running| running.control.leave());
        self.ended.until(|| self.jobs_of(id).is_empty()).await;
    }

    pub fn allow(&self, id: TableId) {
        if let Ok(managed) = self.managed(id) {
            managed.blocks.set(managed.blocks.get().saturating_sub(1));
            managed.wants.set(true);
            self.work.signal();
        }
    }

    /// The strategy begins no job of the table until [`Self::let_go`]; those that run are stopped, and have ended when
    /// this does.
    pub(super) async fn hold(&self, managed: &Managed) {
        let id = managed.table.schema().id;
        managed.holds.set(managed.holds.get() + 1);
        self.jobs_of(id).iter().for_each(|running| running.control.stop());
        self.ended.until(|| self.jobs_of(id).is_empty()).await;
    }

    pub(super) fn let_go(&self, managed: &Managed) {
        managed.holds.set(managed.holds.get() - 1);
        managed.wants.set(true);
        self.work.signal();
    }

    fn jobs_of(&self, id: TableId) -> Vec<Rc<Running>> {
        let running = self.running.borrow();
        running.iter().filter(|running| running.table.schema().id == id).cloned().collect()
    }

    /// Stops the jobs of a kind, all if none is named. Gives how many.
    pub fn stop_jobs(&self, kind: Option<&str>) -> usize {
        let running = self.running.borrow();
        let stopped = running.iter().filter(|running| kind.is_none_or(|kind| running.kind == kind));
        stopped.map(|running| running.control.stop()).count()
    }

    /// Stops all jobs and begins none any more.
    pub async fn stop(&self) {
        self.stopping.set(true);
        self.running.borrow().iter().for_each(|running| running.control.leave());
        self.work.signal();
        let is_sampling = || self.tables.borrow().values().any(|managed| managed.is_sampling.get());
        self.ended.until(|| self.running.borrow().is_empty() && !is_sampling()).await;
        let task = self.task.take();
        if let Some(task) = task {
            task.await;
        }
    }

    async fn work(self: Rc<Self>) {
        while !self.stopping.get() {
            let work = self.work.next();
            if self.has_started.get() {
                self.start_jobs();
            }
            work.await;
        }
    }

    fn start_jobs(self: &Rc<Self>) {
        let mut tables: Vec<Rc<Managed>> =
            self.tables.borrow().values().filter(|managed| managed.wants.get()).cloned().collect();
        tables.sort_by_key(|managed| managed.table.schema().id);
        for managed in tables {
            self.start_reshard(&managed);
            self.start_reshape(&managed);
            while self.may_ask(&managed) && self.start_next(&managed) {}
        }
    }

    /// Whether a job of the table may begin by itself, as far as the strategy does not matter.
    pub(super) fn may_begin(&self, managed: &Managed) -> bool {
        let jobs = self.running.borrow().len();
        !self.stopping.get()
            && managed.auto.get()
            && managed.blocks.get() == 0
            && managed.holds.get() == 0
            && managed.paused_until_us.get() <= self.shard().now_us()
            && (self.jobs_max.get() == 0 || jobs < self.jobs_max.get() as usize)
    }

    fn may_ask(&self, managed: &Managed) -> bool {
        managed.wants.get()
            && self.may_begin(managed)
            && (managed.strategy.borrow().runs_in_parallel()
                || self.jobs_of(managed.table.schema().id).is_empty())
    }

    /// Starts the strategy's next job; false if there is none or it cannot start now.
    fn start_next(self: &Rc<Self>, managed: &Rc<Managed>) -> bool {
        if managed.is_sampling.get() || self.start_sample(managed) {
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
        if self.admission.borrow_mut().begin(weight).is_err() {
            return false;
        }
        match self.begin(managed, plan, "Compaction", Some(weight)) {
            Ok(job) => {
                job.detach();
                true
            }
            Err(error) => {
                self.admission.borrow_mut().end(weight);
                self.failed(managed, &error);
                false
            }
        }
    }

    /// Begins to take a sample if the strategy wants one to decide by.
    fn start_sample(self: &Rc<Self>, managed: &Rc<Managed>) -> bool {
        let wanted = self.with_view(managed, |strategy, view| {
            let plan = strategy.wants_sample(view)?;
            let of_run = |run: &RunId| {
                let ids = view.sstables.iter().filter(|sstable| sstable.run == *run);
                ids.map(|sstable| sstable.id).collect::<Vec<_>>()
            };
            Some((plan.runs.iter().map(of_run).collect::<Vec<_>>(), plan))
        });
        let Some((ids, plan)) = wanted else { return false };
        if *managed.sampled_runs.borrow() == plan.runs {
            return false;
        }
        managed.sampled_runs.borrow_mut().clone_from(&plan.runs);
        let runs: Result<Vec<_>, JobError> = ids.iter().map(|ids| self.sstables(managed, ids)).collect();
        let Ok(runs) = runs else { return false };
        managed.is_sampling.set(true);
        let (this, managed) = (self.clone(), managed.clone());
        let sampling = async move { this.take_sample(&managed, plan, runs).await };
        self.shard().spawn(CpuGroup::Compaction, sampling).detach();
        true
    }

    async fn take_sample(&self, managed: &Managed, plan: SamplePlan, runs: Vec<Vec<Rc<SSTable>>>) {
        let (shard, schema) = (self.shard(), managed.table.schema());
        // Without a sample the strategy goes by what it knows.
        let taken = Box::pin(sample::take(shard, &schema, plan, runs, now_s(shard))).await;
        managed.sampled.replace(taken.ok());
        managed.is_sampling.set(false);
        self.stats.borrow_mut().samples += 1;
        managed.wants.set(true);
        self.work.signal();
        self.ended.signal();
    }

    /// Lets `f` see the table with its strategy.
    pub(super) fn with_view<R>(
        &self,
        managed: &Managed,
        f: impl FnOnce(&mut dyn Strategy, &TableView<'_>) -> R,
    ) -> R {
        let shard = self.shard();
        let table = &managed.table;
        let gc_before_s = self.gc_before_s(managed);
        let busy: HashSet<SstableName> =
            self.running.borrow().iter().flat_map(|running| running.own.borrow().clone()).collect();
        let mut views = managed.views.borrow_mut();
        let sstables =
            views.of(table, shard.shard_count(), now_s(shard), gc_before_s, |name| busy.contains(&name));
        let sampled = managed.sampled.borrow();
        let view = TableView {
            now_us: shard.wall_us(),
            sstables,
            gc_before_s,
            memtable_min_timestamp_us: table.memtable_min_timestamp_us(),
            jobs_running: self.jobs_of(table.schema().id).len() as u32,
            flush_bytes: table.counters.last_flush_bytes(),
            ring_share: if table.is_system() { 1.0 } else { 1.0 / f64::from(shard.shard_count()) },
            enforce_min_threshold: self.options.enforce_min_threshold,
            disk: self.disk_view(),
            sampled: sampled.as_ref(),
            seed: shard.random_u64(),
        };
        f(&mut **managed.strategy.borrow_mut(), &view)
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

    /// Tombstones of before may be dropped. What the commit log would bring back is looked at partition by partition.
    pub(super) fn gc_before_s(&self, managed: &Managed) -> u32 {
        let gc_grace_s = managed.table.schema().options.gc_grace_s;
        let gc = match managed.tombstone_gc.get() {
            TombstoneGcMode::Timeout => TombstoneGc::Timeout { gc_grace_s },
            TombstoneGcMode::Disabled => TombstoneGc::Disabled,
            TombstoneGcMode::Immediate => TombstoneGc::Immediate,
            TombstoneGcMode::Repair => {
                TombstoneGc::Repair { repaired_s: None, propagation_delay_s: 0, has_one_replica: true }
            }
        };
        GcBefore::new(gc, now_s(self.shard()), None).before_s
    }

    fn sstables(&self, managed: &Managed, ids: &[SSTableId]) -> Result<Vec<Rc<SSTable>>, JobError> {
        let views = managed.views.borrow();
        let find = |id: &SSTableId| {
            let gone = || JobError::Refused(format!("an SSTable is gone: {id:?}"));
            views.find(&managed.table, *id).ok_or_else(gone)
        };
        ids.iter().map(find).collect()
    }

    /// Begins a job; gives what waits for its end.
    pub(super) fn begin(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        plan: Plan,
        kind: &'static str,
        weight: Option<Weight>,
    ) -> Result<JoinHandle<Result<(), JobError>>, JobError> {
        if managed.blocks.get() > 0 || managed.table.is_dropped() || self.stopping.get() {
            return Err(JobError::Stopped);
        }
        let inputs = self.sstables(managed, &plan.inputs)?;
        let expired = self.sstables(managed, &plan.expired)?;
        let needs_bytes = self.with_view(managed, |_, view| plan.needs_bytes(view)).unwrap_or(0);
        let mut work = Work::of(&plan, &managed.table, inputs, expired);
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
        Ok(self.begin_job(managed, starting, Some((plan, input_level)), run))
    }

    /// Runs what gives what it has done. `planned`: the strategy is told of it, with the inputs' least level.
    pub(super) fn begin_job(
        self: &Rc<Self>,
        managed: &Rc<Managed>,
        starting: Starting,
        planned: Option<(Plan, u32)>,
        run: impl AsyncFnOnce(Rc<Control>) -> Result<Done, JobError> + 'static,
    ) -> JoinHandle<Result<(), JobError>> {
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
        self.shard().spawn(CpuGroup::Compaction, async move {
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
        })
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
        self.history.push(Ended {
            id: time_uuid(self.shard().wall_us(), self.shard().random_u64()),
            shard: self.shard().id(),
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            kind: running.kind,
            reason: running.reason.clone(),
            ended_ms: self.shard().wall_us() / 1000,
            took_us: self.shard().now_us() - running.control.started_us,
            input_bytes: done.input_bytes,
            output_bytes: done.output_bytes,
            input_sstables,
            input_partitions: done.input_partitions,
            output_partitions: done.output_partitions,
        });
        let mut stats = self.stats.borrow_mut();
        stats.completed += 1;
        stats.input_bytes += done.input_bytes;
        stats.output_bytes += done.output_bytes;
        for (blocker, count) in &done.kept_tombstones {
            stats.kept_tombstones.add(blocker, *count);
        }
    }

    pub(super) fn failed(&self, managed: &Managed, error: &JobError) {
        if matches!(error, JobError::Stopped) {
            self.stats.borrow_mut().stopped += 1;
            return;
        }
        {
            let mut stats = self.stats.borrow_mut();
            stats.failed += 1;
            stats.last_error = Some(format!("{}: {error}", managed.table.schema().full_name()));
        }
        if let Some(file) = error.corrupt_file() {
            managed.table.quarantine(file);
        }
        let pause_us = (managed.pause_us.get() * 2).clamp(RETRY_US_MIN, RETRY_US_MAX);
        managed.pause_us.set(pause_us);
        managed.paused_until_us.set(self.shard().now_us() + pause_us);
    }

    /// Jobs that run, those that ended lately, and what was counted.
    pub fn report(&self) -> CompactionReport {
        let now_us = self.shard().now_us();
        let running = self.running.borrow();
        let mut tables: Vec<Rc<Managed>> = self.tables.borrow().values().cloned().collect();
        tables.sort_by_cached_key(|managed| managed.table.schema().full_name());
        let pending = tables.iter().map(|managed| {
            let schema = managed.table.schema();
            let pending = self.with_view(managed, |strategy, view| strategy.pending(view));
            ((schema.keyspace.clone(), schema.name.clone()), pending)
        });
        CompactionReport {
            pending: pending.filter(|(_, pending)| *pending > 0).collect(),
            running: running.iter().map(|running| running.report(now_us)).collect(),
            stats: self.stats.borrow().clone(),
            throughput_bytes_per_s: self.throughput(),
            jobs_max: self.jobs_max(),
        }
    }

    /// What was counted since the start, and how many jobs run.
    pub fn stats(&self) -> (ManagerStats, usize) {
        (self.stats.borrow().clone(), self.running.borrow().len())
    }

    /// What the table needs; nothing if it is gone.
    pub fn table_state(&self, id: TableId) -> TableState {
        let Ok(managed) = self.managed(id) else { return TableState::default() };
        self.with_view(&managed, |strategy, view| TableState {
            pending: strategy.pending(view),
            disk_bytes: view.sstables.iter().map(|sstable| sstable.disk_bytes).sum(),
            live_bytes: live_disk_bytes(view.sstables),
        })
    }

    /// Jobs that ended on any shard.
    pub fn history(&self) -> &History {
        &self.history
    }
}

/// Compactions of the shard get so many CPU shares from now on.
fn hand_over_shares(shard: &Shard, shares: u32) {
    shard.set_shares(CpuGroup::Compaction, shares);
}

fn view_bytes(view: &TableView<'_>, ids: &[SSTableId]) -> u64 {
    ids.iter().filter_map(|id| view.find(*id)).map(|sstable| sstable.data_bytes).sum()
}
