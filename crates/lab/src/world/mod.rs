//! The simulation of one shard: clients write and read, memtables are flushed, and the production strategy
//! decides on compactions that take their time.
//!
//! It is a discrete-event simulation with continuous flows. Between two events every activity (writes, reads,
//! the flush, each job) proceeds at a constant rate, which [`crate::capacity`] computes from CPU, disk and
//! shares. Events are: a memtable is full, a flush ends, a job seals an output or ends, a delay of a flush is
//! over, a strategy is asked again, a phase ends, a moment is recorded.
//!
//! The rules are those of the engine:
//! - one job of each weight runs at a time, and none that merges fewer runs than a running one
//!   ([`compaction::weight`]); a strategy may forbid parallel jobs;
//! - compaction gets shares by its backlog ([`compaction::controller`]), and everything else 1000;
//! - a flush is delayed, up to a limit, while the next merge has too many runs or less than the strategy's
//!   reserve is free;
//! - one memtable is flushed at a time, and writes wait while two are sealed.
//!
//! - this file: the phases of the load, and memtables;
//! - `compactions`: the strategy and its jobs;
//! - `flow`: rates and events;
//! - `result`: the figures that a run records.

mod compactions;
mod flow;
mod result;

use std::collections::VecDeque;

use base::rng::Rng;
use compaction::purge::{GcBefore, TombstoneGc};
use compaction::weight::Admission;
use compaction::{JobRules, RunId, SampledOverlap, Strategy};
use iosched::DiskModel;

use crate::job::Job;
use crate::outcome::{Recorder, SimulationResult};
use crate::reads::ReadCost;
use crate::store::Store;
use crate::workload::{NamedStrategy, Pattern, Phase, Workload, WorkloadError};
use crate::writer::{Memtable, PhasePlan, Writer};

/// The simulation begins at a midnight.
pub const START_S: u32 = 1_699_920_000;
/// Shares of the groups other than compaction.
const SHARES: f64 = 1000.0;
/// Sampled rows of a table, and of all flushes, at most about.
const SAMPLE: f64 = 400_000.0;
const FLUSHED_SAMPLE: f64 = 4_000_000.0;
/// A strategy is asked at least this often, in seconds, as in the engine.
const ASK_S: f64 = 60.0;
/// The number of times that a strategy is asked without an event, at most, in a long simulation.
const ASKS: f64 = 4000.0;
/// Events after which compaction is considered to go on forever.
const SETTLE_EVENTS: u64 = 2_000_000;

/// A flush in progress or delayed.
struct Flush {
    memtable: Memtable,
    left_bytes: f64,
    held_until_s: Option<f64>,
}

/// The load of the current phase.
struct PhaseLoad<'p> {
    phase: &'p Phase,
    plan: PhasePlan,
    writes_per_s: f64,
    reads_per_s: f64,
    end_s: f64,
    writes_left: f64,
}

/// Options of a run that are not part of the workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Factor of the default number of sampled rows; 0: 1.
    pub precision: f64,
    /// Replaces the seed of the workload.
    pub seed: Option<u64>,
}

/// See the head of this file.
pub struct World<'w> {
    workload: &'w Workload,
    strategy: Box<dyn Strategy>,
    max_threshold: usize,
    disk: DiskModel,
    writer: Writer,
    pub(crate) store: Store,
    rng: Rng,
    now_s: f64,
    /// The end of the warm-up.
    begun_s: f64,
    active_writes: f64,
    active_since_s: f64,
    sealed: VecDeque<Memtable>,
    flush: Option<Flush>,
    jobs: Vec<Job>,
    admission: Admission,
    wants: bool,
    asked_s: f64,
    ask_interval_s: f64,
    runs_to_merge: usize,
    sampled: Option<SampledOverlap>,
    sampled_runs: Vec<RunId>,
    decisions: u64,
    last_flush_bytes: u64,
    shares: f64,
    backlog_bytes: f64,
    read_cost: ReadCost,
    recorder: Recorder,
    outcome: SimulationResult,
    live_bytes: f64,
    /// The largest space since the last moment.
    disk_peak_bytes: f64,
    means: Means,
}

/// Integrals over the time of the load.
#[derive(Default)]
struct Means {
    disk_byte_s: f64,
    live_byte_s: f64,
    /// The time that counts for the cost of reads.
    read_s: f64,
    sstables_read_s: f64,
    bytes_read_s: f64,
    writes_waited_s: f64,
    flushes_waited_s: f64,
}

/// Runs a workload with a strategy.
pub fn run(
    workload: &Workload,
    named: &NamedStrategy,
    options: RunOptions,
) -> Result<SimulationResult, WorkloadError> {
    let mut world = World::new(workload, named, options)?;
    world.run_phases();
    Ok(world.finish())
}

impl<'w> World<'w> {
    pub(crate) fn new(
        workload: &'w Workload,
        named: &NamedStrategy,
        options: RunOptions,
    ) -> Result<Self, WorkloadError> {
        let failed = |reason: String| WorkloadError(reason);
        crate::workload::parse::check_strategy(named).map_err(failed)?;
        let strategy = compaction::strategy_from(&named.options)
            .map_err(|error| WorkloadError(format!("strategies.{}: {error}", named.name)))?;
        let rules = JobRules::new(&named.options).unwrap_or_default();
        if rules.only_purge_repaired || rules.overlapping.is_some() || rules.log_all {
            return Err(WorkloadError(format!(
                "strategies.{}: the lab does not simulate only_purge_repaired_tombstones, \
                 provide_overlapping_tombstones and log_all; leave them out",
                named.name
            )));
        }
        let node = &workload.node;
        let shards = f64::from(node.shards);
        let mut table = workload.table.clone();
        table.partitions.0 /= shards;
        let precision = if options.precision > 0.0 { options.precision } else { 1.0 };
        let is_append = workload.phases[0].pattern == Pattern::Append;
        let (writes, duration_s) = extent(workload);
        let append_weight = (writes / shards / (FLUSHED_SAMPLE / 4.0 * precision)).max(1.0);
        // Rows of the sample times the number of times that they are flushed are bounded.
        let rows = table.partitions.0 * table.rows_per_partition.0;
        let rounds = (writes / shards / rows).max(1.0);
        let sample = (SAMPLE.min(FLUSHED_SAMPLE / rounds) * precision).max(1000.0);
        let seed = options.seed.unwrap_or(workload.seed);
        let mut rng = Rng::new(seed);
        let writer = Writer::new(table, sample, append_weight, is_append, rng.fork());
        let sampled_rows = if is_append {
            writes / shards / append_weight
        } else {
            writer.population.len() as f64 * f64::from(writer.population.rows_each())
        };
        let has_sketches = strategy.name().starts_with("Incremental");
        let store = Store::new(has_sketches, workload.table.disk_ratio);
        let max_threshold =
            named.options.get("max_threshold").and_then(|value| value.parse().ok()).unwrap_or(0);
        let outcome = SimulationResult {
            strategy: named.clone(),
            seed,
            sampled_rows: sampled_rows as u64,
            is_settled: true,
            rows_per_sampled_row: if is_append { append_weight } else { rows / sampled_rows },
            ..SimulationResult::default()
        };
        Ok(Self {
            workload,
            strategy,
            max_threshold,
            disk: node.disk_model(),
            writer,
            store,
            rng,
            now_s: 0.0,
            begun_s: 0.0,
            active_writes: 0.0,
            active_since_s: 0.0,
            sealed: VecDeque::new(),
            flush: None,
            jobs: vec![],
            admission: Admission::default(),
            wants: false,
            asked_s: 0.0,
            ask_interval_s: ASK_S.max(duration_s / ASKS),
            runs_to_merge: 0,
            sampled: None,
            sampled_runs: vec![],
            decisions: 0,
            last_flush_bytes: 0,
            shares: 0.0,
            backlog_bytes: 0.0,
            read_cost: ReadCost::default(),
            recorder: Recorder::new(0.0),
            outcome,
            live_bytes: 0.0,
            disk_peak_bytes: 0.0,
            means: Means::default(),
        })
    }

    fn wall_us(&self) -> i64 {
        i64::from(START_S) * 1_000_000 + (self.now_s * 1e6) as i64
    }

    fn wall_s(&self) -> u32 {
        START_S + self.now_s as u32
    }

    fn active_since_us(&self) -> i64 {
        i64::from(START_S) * 1_000_000 + (self.active_since_s * 1e6) as i64
    }

    fn shards(&self) -> f64 {
        f64::from(self.workload.node.shards)
    }

    fn gc(&self) -> GcBefore {
        let gc_grace_s = self.workload.table.gc_grace.0 as u32;
        GcBefore::new(TombstoneGc::Timeout { gc_grace_s }, self.wall_s(), None)
    }

    fn disk_bytes(&self) -> f64 {
        self.store.disk_bytes() as f64 + self.jobs.iter().map(Job::hidden_bytes).sum::<f64>()
    }

    pub(crate) fn run_phases(&mut self) {
        for phase in &self.workload.phases {
            self.run_phase(phase);
        }
        self.outcome.load_s = self.now_s - self.begun_s;
        self.settle();
    }

    fn run_phase(&mut self, phase: &Phase) {
        let (node, shards) = (&self.workload.node, self.shards());
        let plan = self.writer.plan(phase, node.flushed_bytes(), node.shard_commitlog());
        let mut load = PhaseLoad {
            phase,
            plan,
            writes_per_s: phase.writes_per_s.per_s() / shards,
            reads_per_s: phase.reads_per_s.0 / shards,
            end_s: phase.duration.map_or(f64::INFINITY, |duration| self.now_s + duration.0),
            writes_left: phase.writes.map_or(f64::INFINITY, |writes| writes.0 / shards),
        };
        let begun = (self.now_s, self.outcome.writes, self.outcome.reads);
        self.measure_reads(&load);
        self.active_since_s = self.now_s;
        while self.now_s < load.end_s && load.writes_left > 0.5 {
            self.step(Some(&mut load));
        }
        let took_s = self.now_s - begun.0;
        let done = |wanted_per_s: f64, done: f64| {
            if wanted_per_s.is_finite() { wanted_per_s * took_s } else { done }
        };
        self.outcome.writes_wanted += done(load.writes_per_s, self.outcome.writes - begun.1);
        self.outcome.reads_wanted += done(load.reads_per_s, self.outcome.reads - begun.2);
        self.seal(&load);
        while self.flush.is_some() || !self.sealed.is_empty() {
            self.step(None);
        }
        if phase.major {
            self.settle();
            self.major();
        }
        self.measure_reads(&load);
        if phase.warmup {
            self.settle();
            self.forget();
        }
    }

    /// Ends the warm-up: figures begin now.
    fn forget(&mut self) {
        let outcome = std::mem::take(&mut self.outcome);
        self.outcome = SimulationResult {
            strategy: outcome.strategy,
            seed: outcome.seed,
            sampled_rows: outcome.sampled_rows,
            rows_per_sampled_row: outcome.rows_per_sampled_row,
            is_settled: outcome.is_settled,
            ..SimulationResult::default()
        };
        self.begun_s = self.now_s;
        self.recorder = Recorder::new(self.now_s);
        self.disk_peak_bytes = 0.0;
        self.means = Means::default();
    }

    /// Runs until the strategy has nothing to do.
    fn settle(&mut self) {
        for _ in 0..SETTLE_EVENTS {
            self.wants = true;
            self.start_jobs();
            if self.jobs.is_empty() {
                return;
            }
            self.step(None);
        }
        self.outcome.is_settled = false;
    }

    /// Seals the active memtable.
    fn seal(&mut self, load: &PhaseLoad<'_>) {
        if self.active_writes >= 0.5 {
            let (from_us, to_us, writes) = (self.active_since_us(), self.wall_us(), self.active_writes);
            let memtable = self.writer.fill(load.phase, &load.plan, writes, from_us, to_us);
            if !memtable.entries.is_empty() {
                self.sealed.push_back(memtable);
            }
        }
        (self.active_writes, self.active_since_s) = (0.0, self.now_s);
        self.next_flush();
    }
}

/// Writes and seconds of all phases together, as far as they are known before.
fn extent(workload: &Workload) -> (f64, f64) {
    let (mut writes, mut duration_s) = (0.0, 0.0);
    for phase in &workload.phases {
        let per_s = phase.writes_per_s.per_s();
        // A core writes about 10^5 rows/s.
        let bounded = if per_s.is_finite() { per_s } else { 1e5 * f64::from(workload.node.shards) };
        match (phase.writes, phase.duration) {
            (Some(count), _) => {
                writes += count.0;
                duration_s += count.0 / bounded.max(1e-9);
            }
            (None, Some(duration)) => {
                writes += bounded * duration.0;
                duration_s += duration.0;
            }
            (None, None) => {}
        }
    }
    (writes, duration_s)
}
