//! Which compactions of a shard run when.
//!
//! After a flush, a compaction, a change of options, and once in a while, a table's strategy is asked for a job. Of
//! each **weight** (a power of four of the bytes to merge) one job runs at a time on a shard, so that large jobs do
//! not pile up and small ones need not wait for them. What cannot start now is asked again when a job ends.
//!
//! A table is in `managed`, what becomes of a job in `lifecycle`, what flushes and disk have to do with it in `pressure`.
//! What users ask for (`nodetool compact`, …) goes past weights and pauses; see `operations`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use base::{HashMap, HashSet};
use catalog::{TableSettings, TombstoneGcMode};
use compaction::purge::{GcBefore, TombstoneGc};
use compaction::weight::{Admission, Weight};
use compaction::{DiskView, RunId, SSTableId, Strategy, TableView};
use model::TableId;
use runtime::{CpuGroup, Event, JoinHandle, Shard};
use sstable::name::SstableName;
use sstable::read::{ChunkCache, SSTable};
use sstable::version::Version;

use super::error::JobError;
use super::history::History;
use super::job::Surroundings;
use super::managed::{Managed, Running};
use super::report::ManagerStats;
use super::strategies;
use super::throttle::Throttle;
use crate::error::EngineError;
use crate::large_data::LargeDataLog;
use crate::options::CompactionOptions;
use crate::read::run::now_s;
use crate::table::Table;

/// So often every table is asked, whether something happened to it or not.
const ASK_ALL_US: u64 = 60_000_000;

/// What the shards' managers have in common.
#[derive(Clone, Debug)]
pub struct CompactionSetup {
    pub options: CompactionOptions,
    pub history: History,
}

/// See the head of this file.
pub struct Manager {
    pub(super) around: Surroundings,
    pub(super) options: CompactionOptions,
    pub(super) tables: RefCell<HashMap<TableId, Rc<Managed>>>,
    pub(super) running: RefCell<Vec<Rc<Running>>>,
    /// The weights of jobs that strategies began.
    pub(super) admission: RefCell<Admission>,
    /// Something is to be asked, or a job ended.
    pub(super) work: Event,
    pub(super) ended: Event,
    has_started: Cell<bool>,
    pub(super) stopping: Cell<bool>,
    /// At most so many jobs at a time, whatever their weights; 0: as many as there are weights.
    jobs_max: Cell<u32>,
    pub(super) next_job: Cell<u64>,
    last_ask_us: Cell<u64>,
    pub(super) disk: Cell<Option<DiskView>>,
    pub(super) history: History,
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
            history_table: catalog::compaction_history().id,
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
                    *known.strategy.borrow_mut() = self.strategy_of(table, options);
                    known.options.borrow_mut().clone_from(options);
                }
                known.tombstone_gc.set(settings.tombstone_gc());
                known.wants.set(true);
            }
            None => {
                let strategy = self.strategy_of(table, options);
                self.tables.borrow_mut().insert(id, Managed::new(table, settings, strategy));
            }
        }
        self.work.signal();
    }

    /// The strategy that the options name, or none, and then a line in the log.
    fn strategy_of(&self, table: &Table, options: &BTreeMap<String, String>) -> Box<dyn Strategy> {
        let (strategy, refused) = strategies::of(options);
        if let Some(error) = refused {
            let text =
                format!("{error}; the table is not compacted until ALTER TABLE gives it valid options");
            self.tell(table, &JobError::Refused(text));
        }
        strategy
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

    pub(super) fn jobs_of(&self, id: TableId) -> Vec<Rc<Running>> {
        let running = self.running.borrow();
        running.iter().filter(|running| running.table.schema().id == id).cloned().collect()
    }

    /// Stops the jobs of a kind, all if none is named. Gives how many. "Compaction" names merges whoever began them: those of
    /// the strategy, major ones and those of named files.
    pub fn stop_jobs(&self, kind: Option<&str>) -> usize {
        const MERGES: [&str; 3] = ["Compaction", "Major compaction", "User defined compaction"];
        let is_asked =
            |kind: &str, of_job: &str| of_job == kind || kind == MERGES[0] && MERGES.contains(&of_job);
        let running = self.running.borrow();
        let stopped = running.iter().filter(|running| kind.is_none_or(|kind| is_asked(kind, running.kind)));
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
        let (shards, is_busy) = (shard.shard_count(), |name| busy.contains(&name));
        let sstables = views.of(table, shards, now_s(shard), gc_before_s, is_busy, &managed.futile.borrow());
        let sampled = managed.sampled.borrow();
        let view = TableView {
            now_us: shard.wall_us(),
            sstables,
            gc_before_s,
            memtable_min_timestamp_us: least_of(
                table.memtable_min_timestamp_us(),
                table.replayable_since_us(),
            ),
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

    /// Tombstones of before may be dropped. What the commit log would bring back is looked at partition by partition.
    ///
    /// 0 while the table has SSTables that cannot be opened: nobody knows what of them a tombstone deletes, and they come back
    /// when their files have been put right.
    pub(super) fn gc_before_s(&self, managed: &Managed) -> u32 {
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
        GcBefore::new(gc, now_s(self.shard()), None).before_s
    }

    pub(super) fn sstables(
        &self,
        managed: &Managed,
        ids: &[SSTableId],
    ) -> Result<Vec<Rc<SSTable>>, JobError> {
        let views = managed.views.borrow();
        let find = |id: &SSTableId| {
            let gone = || JobError::Refused(format!("an SSTable is gone: {id:?}"));
            views.find(&managed.table, *id).ok_or_else(gone)
        };
        ids.iter().map(find).collect()
    }
}

/// The lesser of those that there are.
fn least_of(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}

fn view_bytes(view: &TableView<'_>, ids: &[SSTableId]) -> u64 {
    ids.iter().filter_map(|id| view.find(*id)).map(|sstable| sstable.data_bytes).sum()
}
