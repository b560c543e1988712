//! Simulates a table over time: writes arrive at a rate, and jobs take time and run concurrently.
//!
//! [`super::World`] runs jobs instantly; here they take time. This shows the space that a strategy needs
//! while it works, and the effect of a strategy that is too slow. A partition is one row of fixed size,
//! written or overwritten, so an SSTable is a set of partitions and a merge is their union. Time is measured
//! in bytes: while clients write one byte, all jobs together may write [`WriteLoad::speed`] bytes.
//!
//! As in the engine, at most one job of each weight (log4 of its bytes) runs at a time, and flushes wait
//! while less than [`Strategy::reserve_bytes`] is free.

use std::collections::VecDeque;
use std::rc::Rc;

use base::hyperloglog::{HyperLogLog, key_hash};
use base::rng::Rng;
use model::NO_DELETION_TIME_S;

use super::keys::{KEYS, key};
use crate::plan::{Finished, Layout, Plan, RunPiece, Split};
use crate::sstable_id::{RunId, SSTableId};
use crate::strategy::Strategy;
use crate::view::{DiskView, SSTableView, TableView};

/// Number of steps per flush in which jobs get work.
const TURNS_PER_FLUSH: u64 = 8;

/// The simulated writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteLoad {
    /// At most [`KEYS`].
    pub partitions: u32,
    /// Number of times that all partitions are written, each time in the same order, which differs from ring
    /// order.
    pub times: u32,
    /// Bytes of a partition.
    pub partition_bytes: u64,
    /// Bytes of a flush.
    pub flush_bytes: u64,
    /// Bytes that jobs write while clients write one byte.
    pub speed: f64,
    /// Size of the disk.
    pub capacity_bytes: u64,
}

impl WriteLoad {
    /// Example 1 of the talk "How to ruin your workload's performance by choosing the wrong compaction
    /// strategy": 30 million partitions, 8.8 GB, written once, at a rate that compaction can sustain. Scaled
    /// down to 256 flushes, with all other sizes in proportion.
    pub fn write_once() -> Self {
        Self {
            partitions: KEYS,
            times: 1,
            partition_bytes: 300,
            flush_bytes: u64::from(KEYS) * 300 / 256,
            speed: 20.0,
            capacity_bytes: 1 << 50,
        }
    }

    /// Example 2: the same 4 million partitions, 1.2 GB, written 15 times at maximum speed. 36 flushes each
    /// time.
    pub fn overwrite() -> Self {
        Self { times: 15, flush_bytes: u64::from(KEYS) * 300 / 36, speed: 4.0, ..Self::write_once() }
    }

    /// Bytes of the table if each partition is stored once.
    pub fn live_bytes(&self) -> u64 {
        u64::from(self.partitions) * self.partition_bytes
    }
}

/// The results of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulatedRun {
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes that jobs wrote.
    pub compacted_bytes: u64,
    /// The largest space used at any time.
    pub peak_bytes: u64,
    /// The space used when the last job was done.
    pub end_bytes: u64,
    /// The number of jobs.
    pub jobs: u64,
    /// The time that flushes waited for space, as a fraction of the time of all writes.
    pub waited: f64,
    /// The space used, sampled at equal intervals.
    pub space_bytes: Vec<u64>,
}

impl SimulatedRun {
    /// Bytes written per byte written by clients.
    pub fn write_amplification(&self) -> f64 {
        (self.flushed_bytes + self.compacted_bytes) as f64 / self.flushed_bytes.max(1) as f64
    }
}

type Partitions = Rc<Vec<u32>>;

struct Job {
    plan: Plan,
    weight: u32,
    /// The outputs that are not sealed yet, each with its run.
    outputs: VecDeque<(Partitions, RunId)>,
    /// Bytes written of the first of these outputs.
    written_bytes: u64,
    /// Sealed outputs that are not in the table yet, because the job releases nothing early.
    hidden: Vec<(SSTableView, Partitions)>,
    /// Sealed outputs that are in the table.
    shown: Vec<SSTableId>,
    input_level: u32,
    input_bytes: u64,
    needs_bytes: u64,
    output_bytes: u64,
}

/// A simulation of a strategy.
pub struct Timeline<'s> {
    load: WriteLoad,
    strategy: &'s mut dyn Strategy,
    table: Vec<(SSTableView, Partitions)>,
    jobs: Vec<Job>,
    outcome: SimulatedRun,
    next_id: u64,
    now_s: u32,
}

impl<'s> Timeline<'s> {
    /// Runs the load until everything is written and all jobs are done.
    pub fn run(load: WriteLoad, strategy: &'s mut dyn Strategy, seed: u64) -> SimulatedRun {
        let mut timeline = Self {
            load,
            strategy,
            table: vec![],
            jobs: vec![],
            outcome: SimulatedRun::default(),
            next_id: 1,
            now_s: 1_000_000,
        };
        timeline.write(seed);
        timeline.outcome
    }

    fn write(&mut self, seed: u64) {
        let mut order: Vec<u32> =
            (0..self.load.partitions).map(|n| n * (KEYS / self.load.partitions)).collect();
        let mut rng = Rng::new(seed);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.index(at + 1));
        }
        let portion = ((self.load.flush_bytes / TURNS_PER_FLUSH) as f64 * self.load.speed) as u64;
        let mut waited = 0u64;
        let mut turns = 0u64;
        for _ in 0..self.load.times {
            for memtable in order.chunks((self.load.flush_bytes / self.load.partition_bytes) as usize) {
                for _ in 0..TURNS_PER_FLUSH {
                    self.turn(portion);
                }
                turns += TURNS_PER_FLUSH;
                while self.must_wait() {
                    self.turn(portion);
                    waited += 1;
                    assert!(waited < 1_000_000, "there will never be enough space");
                }
                self.flush(memtable);
            }
        }
        self.outcome.waited = waited as f64 / (turns + waited) as f64;
        while self.start_jobs() || !self.jobs.is_empty() {
            self.turn(portion);
        }
        self.outcome.end_bytes = self.space_bytes();
        let mut all: Vec<u32> =
            self.table.iter().flat_map(|(_, partitions)| partitions.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), self.load.partitions as usize, "partitions were lost");
    }

    fn space_bytes(&self) -> u64 {
        let table: u64 = self.table.iter().map(|(view, _)| view.disk_bytes).sum();
        let of_job =
            |job: &Job| job.written_bytes + job.hidden.iter().map(|(view, _)| view.disk_bytes).sum::<u64>();
        table + self.jobs.iter().map(of_job).sum::<u64>()
    }

    /// Bytes that running jobs may still take in addition to their current SSTables.
    fn promised_bytes(&self) -> u64 {
        let of_job = |job: &Job| {
            let is_part = |id: &SSTableId| job.plan.inputs.contains(id) || job.shown.contains(id);
            let table = self.table.iter().filter(|(view, _)| is_part(&view.id));
            let hidden = job.hidden.iter();
            let has_bytes: u64 =
                job.written_bytes + table.chain(hidden).map(|(view, _)| view.disk_bytes).sum::<u64>();
            (job.input_bytes + job.needs_bytes).saturating_sub(has_bytes)
        };
        self.jobs.iter().map(of_job).sum()
    }

    fn sstables(&self) -> Vec<SSTableView> {
        self.table.iter().map(|(view, _)| view.clone()).collect()
    }

    fn view<'a>(&self, sstables: &'a [SSTableView], promised_bytes: u64) -> TableView<'a> {
        let capacity_bytes = self.load.capacity_bytes;
        let free_bytes = capacity_bytes.saturating_sub(self.space_bytes() + promised_bytes);
        TableView {
            now_us: i64::from(self.now_s) * 1_000_000,
            sstables,
            outside: &[],
            gc_before_s: 0,
            memtable_min_timestamp_us: None,
            jobs_running: self.jobs.len() as u32,
            flush_bytes: self.load.flush_bytes,
            ring_share: 1.0,
            enforce_min_threshold: true,
            disk: DiskView::new(capacity_bytes, free_bytes),
            sampled: None,
            seed: self.next_id,
        }
    }

    fn must_wait(&self) -> bool {
        let sstables = self.sstables();
        let view = self.view(&sstables, self.promised_bytes());
        view.disk.free_bytes < self.strategy.reserve_bytes(&view)
    }

    /// Advances time: jobs write `portion_bytes`.
    fn turn(&mut self, portion_bytes: u64) {
        self.start_jobs();
        let mut left = portion_bytes;
        while left > 0 && !self.jobs.is_empty() {
            let share = (left / self.jobs.len() as u64).max(1);
            for at in (0..self.jobs.len()).rev() {
                left -= self.advance(at, share.min(left));
            }
            self.start_jobs();
        }
        self.note_space();
        self.outcome.space_bytes.push(self.space_bytes());
    }

    fn note_space(&mut self) {
        self.outcome.peak_bytes = self.outcome.peak_bytes.max(self.space_bytes());
    }

    fn start_jobs(&mut self) -> bool {
        let mut any = false;
        while self.jobs.is_empty() || self.strategy.runs_in_parallel() {
            let sstables = self.sstables();
            let view = self.view(&sstables, self.promised_bytes());
            let Some(plan) = self.strategy.next(&view) else { break };
            let bytes: u64 = plan.inputs.iter().filter_map(|id| view.find(*id)).map(|s| s.disk_bytes).sum();
            let weight = (bytes / self.load.flush_bytes).max(1).ilog2() / 2;
            if self.jobs.iter().any(|job| job.weight == weight) {
                break;
            }
            let needs_bytes = plan.needs_bytes(&view).expect("the plan's inputs are there");
            self.start(plan, weight, bytes, needs_bytes);
            any = true;
        }
        any
    }

    fn start(&mut self, plan: Plan, weight: u32, input_bytes: u64, needs_bytes: u64) {
        let mut merged: Vec<u32> = vec![];
        let mut input_level = u32::MAX;
        for (view, partitions) in &mut self.table {
            if plan.inputs.contains(&view.id) {
                assert!(view.is_free(), "{:?} is not free: {plan:?}", view.id);
                view.compacting = true;
                input_level = input_level.min(view.level);
                merged.extend(partitions.iter());
            }
        }
        merged.sort_unstable();
        merged.dedup();
        let output_bytes = merged.len() as u64 * self.load.partition_bytes;
        let outputs = self.cut(&merged, &plan.layout);
        let job = Job {
            plan,
            weight,
            outputs,
            written_bytes: 0,
            hidden: vec![],
            shown: vec![],
            input_level,
            input_bytes,
            needs_bytes,
            output_bytes,
        };
        self.jobs.push(job);
    }

    fn cut(&mut self, partitions: &[u32], layout: &Layout) -> VecDeque<(Partitions, RunId)> {
        let run = RunId(u128::from(self.next_id) << 64);
        self.next_id += 1;
        let most =
            layout.max_bytes.map_or(usize::MAX, |max| max.div_ceil(self.load.partition_bytes) as usize);
        let pieces = match &layout.split {
            Split::Runs(pieces) => pieces.as_slice(),
            _ => &[],
        };
        let piece_of = |partition: u32| RunPiece::of(pieces, key(partition));
        let of_piece = partitions.chunk_by(|a, b| pieces.is_empty() || piece_of(*a) == piece_of(*b));
        let mut outputs = VecDeque::new();
        for piece in of_piece {
            let run = piece_of(piece[0]).map_or(run, |at| pieces[at].run);
            for chunk in piece.chunks(most) {
                let own = RunId((u128::from(self.next_id) << 64) + outputs.len() as u128 + 1);
                outputs.push_back((Rc::new(chunk.to_vec()), if layout.is_run { run } else { own }));
            }
        }
        outputs
    }

    fn stored(&mut self, partitions: Partitions, run: RunId, level: u32) -> (SSTableView, Partitions) {
        let id = SSTableId(self.next_id);
        self.next_id += 1;
        let bytes = partitions.len() as u64 * self.load.partition_bytes;
        let mut keys = HyperLogLog::new();
        partitions.iter().for_each(|partition| keys.offer(key_hash(key(*partition).bytes())));
        let view = SSTableView {
            id,
            run,
            data_bytes: bytes,
            disk_bytes: bytes,
            first: key(partitions[0]).clone(),
            last: key(partitions[partitions.len() - 1]).clone(),
            level,
            min_timestamp_us: id.0 as i64,
            max_timestamp_us: id.0 as i64,
            max_deletion_time_s: NO_DELETION_TIME_S,
            written_s: self.now_s,
            may_delete: true,
            droppable_ratio: 0.0,
            partitions: partitions.len() as u64,
            keys: Some(Rc::new(keys)),
            compacting: false,
            frozen: false,
            is_repaired: false,
            reads_per_s: None,
        };
        (view, partitions)
    }

    fn flush(&mut self, memtable: &[u32]) {
        let mut partitions = memtable.to_vec();
        partitions.sort_unstable();
        self.outcome.flushed_bytes += partitions.len() as u64 * self.load.partition_bytes;
        self.now_s += 10;
        let layout = self.strategy.layout(0);
        for (partitions, run) in self.cut(&partitions, &layout) {
            let stored = self.stored(partitions, run, 0);
            self.table.push(stored);
        }
        self.note_space();
    }

    /// Lets a job write at most `bytes` bytes, and returns the number written.
    fn advance(&mut self, at: usize, bytes: u64) -> u64 {
        let job = &mut self.jobs[at];
        let Some((partitions, _)) = job.outputs.front() else {
            self.finish(at);
            return 0;
        };
        let output_bytes = partitions.len() as u64 * self.load.partition_bytes;
        let written = bytes.min(output_bytes - job.written_bytes);
        job.written_bytes += written;
        self.outcome.compacted_bytes += written;
        if job.written_bytes == output_bytes {
            self.note_space();
            self.seal(at);
        }
        written
    }

    fn seal(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        let (partitions, run) = job.outputs.pop_front().expect("one is written");
        job.written_bytes = 0;
        let level = job.plan.layout.level;
        let (mut view, partitions) = self.stored(partitions, run, level);
        let job = &mut self.jobs[at];
        if job.plan.release_early {
            let last = view.last.clone();
            view.compacting = true;
            job.shown.push(view.id);
            self.table.retain(|(input, _)| !(job.plan.inputs.contains(&input.id) && input.last <= last));
            self.table.push((view, partitions));
        } else {
            job.hidden.push((view, partitions));
        }
        if self.jobs[at].outputs.is_empty() {
            self.finish(at);
        }
    }

    fn finish(&mut self, at: usize) {
        let job = self.jobs.remove(at);
        self.table.retain(|(view, _)| !job.plan.inputs.contains(&view.id));
        let mut last_key = None;
        for (view, _) in self.table.iter_mut().filter(|(view, _)| job.shown.contains(&view.id)) {
            view.compacting = false;
            last_key = last_key.max(Some(view.last.clone()));
        }
        last_key = last_key.max(job.hidden.last().map(|(view, _)| view.last.clone()));
        self.table.extend(job.hidden);
        self.outcome.jobs += 1;
        let (input_bytes, output_bytes, input_level) = (job.input_bytes, job.output_bytes, job.input_level);
        self.strategy.finished(&Finished {
            plan: &job.plan,
            input_level,
            last_key,
            input_bytes,
            output_bytes,
        });
    }
}
