//! The flow of time: how fast each activity of the simulated shard runs, and what happens next.

use iosched::Direction;

use super::{PhaseLoad, SHARES, World};
use crate::capacity::{Activity, divide};
use crate::job::Job;
use crate::reads;

/// Size of the disk requests of writes and merges.
const REQUEST_BYTES: u64 = 128 << 10;

impl World<'_> {
    /// Proceeds to the next event.
    pub(super) fn step(&mut self, mut load: Option<&mut PhaseLoad<'_>>) {
        let activities = self.activities(load.as_deref());
        let rates = divide(&activities);
        let dt = self.until_event(load.as_deref(), &rates);
        self.advance(load.as_deref_mut(), &rates, dt);
        self.events(load.as_deref());
    }

    /// The activities in the order: writes, reads, flush, jobs.
    pub(super) fn activities(&self, load: Option<&PhaseLoad<'_>>) -> Vec<Activity> {
        let cpu = &self.workload.node.cpu;
        let ratio = self.workload.table.disk_ratio;
        let each =
            |direction| self.disk.cost_ns(direction, REQUEST_BYTES) as f64 * 1e-9 / REQUEST_BYTES as f64;
        let (read_byte_s, write_byte_s) = (each(Direction::Read), each(Direction::Write));
        let idle = Activity { shares: 0.0, costs_s: [0.0, 0.0], wanted_per_s: 0.0 };
        let (mut writes, mut reads, mut flush) = (idle, idle, idle);
        if let Some(load) = load {
            let both = load.writes_per_s > 0.0 && load.reads_per_s > 0.0;
            let shares = if both { SHARES / 2.0 } else { SHARES };
            writes = Activity {
                shares,
                costs_s: [cpu.write_us * 1e-6, load.plan.log_bytes_per_write * write_byte_s],
                wanted_per_s: if self.writes_wait() { 0.0 } else { load.writes_per_s },
            };
            let opened = self.read_cost.sstables * (1.0 - load.phase.cache_hits);
            let data_bytes = reads::chunk_bytes(&self.workload.table, self.workload.table.row_bytes.0);
            let requests_s = (self.disk.cost_ns(Direction::Read, data_bytes as u64)
                + self.disk.cost_ns(Direction::Read, reads::INDEX_BYTES as u64))
                as f64
                * 1e-9;
            reads = Activity {
                shares,
                costs_s: [cpu.read_us * 1e-6 + opened * cpu.read_sstable_us * 1e-6, opened * requests_s],
                wanted_per_s: load.reads_per_s,
            };
        }
        if self.flush.as_ref().is_some_and(|flush| flush.held_until_s.is_none()) {
            flush = Activity {
                shares: SHARES,
                costs_s: [cpu.flush_ms_per_mb * 1e-9, ratio * write_byte_s],
                wanted_per_s: f64::INFINITY,
            };
        }
        let cap = self.workload.node.compaction_throughput.0 / self.shards();
        let jobs = self.jobs.len() as f64;
        let of_job = |job: &Job| {
            let written = job.output_bytes / job.input_bytes.max(1.0);
            let read = job.input_disk_bytes / job.input_bytes.max(1.0);
            Activity {
                shares: self.shares / jobs,
                costs_s: [
                    (cpu.merge_in_ms_per_mb + cpu.merge_out_ms_per_mb * written) * 1e-9,
                    read * read_byte_s + written * ratio * write_byte_s,
                ],
                wanted_per_s: if cap > 0.0 { cap / jobs / read.max(1e-9) } else { f64::INFINITY },
            }
        };
        [writes, reads, flush].into_iter().chain(self.jobs.iter().map(of_job)).collect()
    }

    pub(super) fn writes_wait(&self) -> bool {
        self.sealed.len() + usize::from(self.flush.is_some()) >= 2
    }

    pub(super) fn until_event(&self, load: Option<&PhaseLoad<'_>>, rates: &[f64]) -> f64 {
        let mut dt = f64::INFINITY;
        let mut at_most = |left: f64, rate: f64| {
            if rate > 0.0 {
                dt = dt.min(left.max(0.0) / rate);
            }
        };
        at_most(self.recorder.next_s() - self.now_s, 1.0);
        at_most(self.asked_s + self.ask_interval_s - self.now_s, 1.0);
        if let Some(load) = load {
            at_most(load.plan.writes_per_flush - self.active_writes, rates[0]);
            if load.writes_left.is_finite() {
                at_most(load.writes_left, rates[0]);
            }
            if load.end_s.is_finite() {
                at_most(load.end_s - self.now_s, 1.0);
            }
        }
        if let Some(flush) = &self.flush {
            match flush.held_until_s {
                Some(until_s) => at_most(until_s - self.now_s, 1.0),
                None => at_most(flush.left_bytes, rates[2]),
            }
        }
        for (job, rate) in self.jobs.iter().zip(&rates[3..]) {
            at_most(job.until_event(), *rate);
        }
        // Rounding must not stop the clock.
        dt.max(1e-6)
    }

    pub(super) fn advance(&mut self, load: Option<&mut PhaseLoad<'_>>, rates: &[f64], dt: f64) {
        let shown_bytes = self.disk_bytes();
        let (mut writes, mut reads) = (0.0, 0.0);
        if let Some(load) = load {
            writes = (rates[0] * dt).min(load.writes_left);
            reads = rates[1] * dt;
            load.writes_left -= writes;
            self.outcome.log_bytes += writes * load.plan.log_bytes_per_write;
            self.means.disk_byte_s += shown_bytes * dt;
            self.means.live_byte_s += self.live_bytes * dt;
            if load.writes_per_s > 0.0 && self.writes_wait() {
                self.means.writes_waited_s += dt;
            }
            let has_reads = load.reads_per_s > 0.0;
            let has_no_reads = self.workload.phases.iter().all(|phase| phase.reads_per_s.0 == 0.0);
            let weight = if has_reads || has_no_reads { dt } else { 0.0 };
            self.means.read_s += weight;
            self.means.sstables_read_s += weight * self.read_cost.sstables;
            self.means.bytes_read_s += weight * self.read_cost.bytes;
        }
        self.active_writes += writes;
        self.outcome.writes += writes;
        self.outcome.reads += reads;
        if let Some(flush) = &mut self.flush {
            match flush.held_until_s {
                Some(_) => self.means.flushes_waited_s += dt,
                None => flush.left_bytes -= rates[2] * dt,
            }
        }
        for (job, rate) in self.jobs.iter_mut().zip(&rates[3..]) {
            let (written, read) = (job.written_bytes(), job.read_bytes);
            job.read_bytes = (job.read_bytes + rate * dt).min(job.input_bytes);
            self.outcome.compacted_bytes += job.written_bytes() - written;
            self.outcome.compaction_read_bytes +=
                (job.read_bytes - read) / job.input_bytes.max(1.0) * job.input_disk_bytes;
        }
        self.now_s += dt;
    }

    pub(super) fn events(&mut self, load: Option<&PhaseLoad<'_>>) {
        self.note_peak();
        if let Some(load) = load
            && self.active_writes >= load.plan.writes_per_flush - 0.5
        {
            self.seal(load);
        }
        if self.flush.as_ref().is_some_and(|flush| flush.held_until_s.is_none() && flush.left_bytes <= 0.5) {
            let flush = self.flush.take().expect("it is there");
            self.flushed(flush.memtable);
        }
        self.end_jobs();
        if self.now_s >= self.asked_s + self.ask_interval_s - 1e-9 {
            self.wants = true;
            self.asked_s = self.now_s;
        }
        self.start_jobs();
        self.hold_flush(false);
        self.next_flush();
        if self.now_s >= self.recorder.next_s() - 1e-9 {
            if let Some(load) = load {
                self.measure_reads(load);
            }
            self.record();
        }
    }
}
