//! The results of the simulated shard, and their recording over time.

use super::{PhaseLoad, World};
use crate::job::Job;
use crate::outcome::{SimulationResult, TimelinePoint};
use crate::reads;

/// Rows read to estimate the cost of reads.
const PICKS: usize = 128;

impl World<'_> {
    pub(super) fn note_peak(&mut self) {
        let disk_bytes = self.disk_bytes();
        let temporary_bytes: f64 = self.jobs.iter().map(Job::temporary_bytes).sum();
        self.disk_peak_bytes = self.disk_peak_bytes.max(disk_bytes);
        let outcome = &mut self.outcome;
        outcome.peak_disk_bytes = outcome.peak_disk_bytes.max(disk_bytes);
        outcome.peak_temporary_bytes = outcome.peak_temporary_bytes.max(temporary_bytes);
    }

    pub(super) fn measure_reads(&mut self, load: &PhaseLoad<'_>) {
        let now_s = self.wall_s();
        let picks = self.writer.picks(&load.plan, PICKS, now_s, &mut self.rng);
        let span = load.phase.read_span.map(|span| self.wall_us() - (span.0 * 1e6) as i64);
        if !picks.is_empty() {
            self.read_cost = reads::cost(&self.store, &self.workload.table, &picks, span);
        }
    }

    pub(super) fn record(&mut self) {
        self.live_bytes = self.writer.live_bytes(self.wall_s()) * self.workload.table.disk_ratio;
        let outcome = &mut self.outcome;
        outcome.peak_live_bytes = outcome.peak_live_bytes.max(self.live_bytes);
        let moment = TimelinePoint {
            at_s: self.now_s - self.begun_s,
            disk_bytes: self.disk_bytes(),
            disk_peak_bytes: self.disk_peak_bytes.max(self.disk_bytes()),
            live_bytes: self.live_bytes,
            temporary_bytes: self.jobs.iter().map(Job::temporary_bytes).sum(),
            backlog_bytes: self.backlog_bytes,
            sstables: self.store.views().len() as f64,
            sstables_per_read: self.read_cost.sstables,
            bytes_per_read: self.read_cost.bytes,
            writes: self.outcome.writes,
            reads: self.outcome.reads,
            log_bytes: self.outcome.log_bytes,
            flushed_bytes: self.outcome.flushed_bytes,
            compacted_bytes: self.outcome.compacted_bytes,
            compaction_read_bytes: self.outcome.compaction_read_bytes,
        };
        self.disk_peak_bytes = 0.0;
        self.recorder.add(self.now_s, moment);
    }

    /// The results of the node: those of the shard times the number of shards.
    pub(crate) fn finish(mut self) -> SimulationResult {
        if let Some(phase) = self.workload.phases.last() {
            let node = &self.workload.node;
            let plan = self.writer.plan(phase, node.flushed_bytes(), node.shard_commitlog());
            let load =
                PhaseLoad { phase, plan, writes_per_s: 0.0, reads_per_s: 0.0, end_s: 0.0, writes_left: 0.0 };
            self.measure_reads(&load);
        }
        self.record();
        let shards = self.workload.node.shards;
        let mut outcome = self.outcome;
        let load_s = outcome.load_s.max(1e-9);
        outcome.total_s = self.now_s - self.begun_s;
        outcome.mean_disk_bytes = self.means.disk_byte_s / load_s;
        outcome.mean_live_bytes = self.means.live_byte_s / load_s;
        outcome.end_disk_bytes = self.store.disk_bytes() as f64;
        outcome.end_live_bytes = self.live_bytes;
        outcome.end_sstables = self.store.views().len() as f64;
        outcome.sstables_per_read = self.means.sstables_read_s / self.means.read_s.max(1e-9);
        outcome.bytes_per_read = self.means.bytes_read_s / self.means.read_s.max(1e-9);
        outcome.end_sstables_per_read = self.read_cost.sstables;
        outcome.end_bytes_per_read = self.read_cost.bytes;
        outcome.end_single_reads = self.read_cost.single;
        outcome.writes_waited = self.means.writes_waited_s / load_s;
        outcome.flushes_waited = self.means.flushes_waited_s / load_s;
        outcome.moments = self.recorder.moments;
        outcome.times(shards)
    }

    /// # Panics
    /// If a row that was written and not deleted is missing from the SSTables, or a deleted one is in them.
    #[cfg(test)]
    pub(crate) fn check_content(&self) {
        let all = crate::sketch::merge(self.store.iter().map(|(_, content)| content.entries.as_slice()));
        let now_s = self.wall_s();
        let found: base::HashSet<crate::sketch::RowId> =
            all.iter().filter(|entry| !entry.is_dead(now_s)).map(|entry| entry.place).collect();
        let population = &self.writer.population;
        for index in 0..population.len() {
            for row in 0..population.rows_each() {
                let place = population.place(index, row);
                assert_eq!(found.contains(&place), self.writer.is_live(place, now_s), "{place:?}");
            }
        }
    }
}
