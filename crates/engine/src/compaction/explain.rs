//! Why the compactions of a table run or wait, and why its tombstones are still there: values for tools.
//!
//! The candidates come from the strategy ([`compaction::Strategy::explain`]); this file adds what keeps a
//! planned job from starting. The blockers of tombstones are those that a job would meet, decided for whole
//! SSTables by their token ranges and timestamps; a job decides for each partition, so it may purge more than
//! is shown here, never less.

use std::rc::Rc;

use catalog::TombstoneGcMode;
use compaction::weight::{JobRefusal, Weight};
use compaction::{RunId, TableView};
use model::TableId;
use reports::RunningCompaction;
use sstable::read::SSTable;

use super::manager::Manager;
use super::report::KeptCounts;
use crate::error::EngineError;

/// Limit of the overlapping SSTables that are named for one SSTable.
const NAMED_MAX: usize = 8;

/// The compactions of a table on a shard.
#[derive(Clone, Debug)]
pub struct CompactionExplanation {
    /// The strategy's candidates and its decision, as lines.
    pub text: String,
    /// The next job; `None`: the strategy wants none.
    pub next: Option<NextJob>,
    /// What a job waits for, each as a sentence; empty if nothing does.
    pub waits: Vec<String>,
    pub pending: u64,
    pub backlog_bytes: u64,
    pub running: Vec<RunningCompaction>,
    /// 0: no limit.
    pub throughput_bytes_per_s: u64,
}

/// A job that the strategy wants.
#[derive(Clone, Debug)]
pub struct NextJob {
    pub sstables: usize,
    /// Uncompressed.
    pub bytes: u64,
    /// Disk space that it takes in addition to its inputs.
    pub needs_bytes: u64,
    pub reason: String,
}

/// Tombstones and expiring cells of an SSTable.
#[derive(Clone, Debug)]
pub struct SSTableTombstones {
    pub sstable: String,
    pub tombstones: u64,
    /// Of these, older than the grace period; an estimate from a histogram.
    pub droppable: f64,
    /// Deletion times of the oldest and the newest one, in seconds since 1970.
    pub oldest_s: u32,
    pub newest_s: u32,
    /// What may still need a droppable tombstone here.
    pub overlapping: Vec<String>,
    pub more_overlapping: usize,
    pub memtable: bool,
    pub commit_log: bool,
    /// A job has rewritten it and freed nothing, and the reason is still there.
    pub is_futile: bool,
    /// A job reads or writes it, or none may take it.
    pub is_taken: bool,
}

/// Tombstones of a table on a shard.
#[derive(Clone, Debug)]
pub struct TombstonesReport {
    pub gc_grace_s: u32,
    /// `timeout`, `disabled`, `immediate` or `repair`.
    pub mode: &'static str,
    /// Tombstones from before this time are droppable; 0: none.
    pub gc_before_s: u32,
    pub sstables: Vec<SSTableTombstones>,
    /// Of all tables of the shard, by reason.
    pub kept_on_shard: KeptCounts,
}

impl Manager {
    /// What the table's strategy considers, and what its jobs wait for.
    ///
    /// # Errors
    /// The table was dropped, or is only read.
    pub fn explain(&self, id: TableId) -> Result<CompactionExplanation, EngineError> {
        let managed = self.managed(id)?;
        let now_us = self.shard().now_us();
        let asked = |strategy: &mut dyn compaction::Strategy, view: &TableView<'_>| {
            let explained = strategy.explain(view);
            let next = explained.plan.as_ref().map(|plan| {
                let inputs = plan.inputs.iter().filter_map(|id| view.find(*id));
                let runs: base::HashSet<RunId> = inputs.clone().map(|sstable| sstable.run).collect();
                let bytes = inputs.map(|sstable| sstable.data_bytes).sum();
                let next = NextJob {
                    sstables: plan.inputs.len() + plan.expired.len(),
                    bytes,
                    needs_bytes: plan.needs_bytes(view).unwrap_or(0),
                    reason: plan.reason.to_string(),
                };
                (next, Weight::new(bytes, runs.len()))
            });
            let (reserve_bytes, free_bytes) = (strategy.reserve_bytes(view), view.disk.free_bytes);
            let state = (strategy.pending(view), strategy.backlog_bytes(view), strategy.runs_in_parallel());
            (explained.to_string(), next, reserve_bytes, free_bytes, state)
        };
        let (text, next, reserve_bytes, free_bytes, (pending, backlog, runs_in_parallel)) =
            self.with_view(&managed, asked);
        let jobs = self.running.of_table(id).len();
        let mut waits = vec![];
        if !managed.auto.get() {
            waits.push("automatic compaction is off: nodetool enableautocompaction".to_string());
        }
        if managed.blocks.get() > 0 {
            waits.push("a truncate or a drop of the table runs".to_string());
        }
        if managed.operation.is_held() {
            waits
                .push("a user's operation, such as a major compaction or a scrub, has the table".to_string());
        }
        if managed.pause.is_on(now_us) {
            waits.push("the last job failed, and is tried again after a pause".to_string());
        }
        if managed.sampling.is_running() {
            waits.push("the overlap of runs is being sampled".to_string());
        }
        if let Some((next, weight)) = &next {
            if !self.schedule.has_room(self.running.len()) {
                waits.push(format!("{} jobs run, the limit of a shard", self.running.len()));
            }
            if jobs > 0 && !runs_in_parallel {
                waits.push("a job of the table runs, and this strategy runs one at a time".to_string());
            }
            match self.schedule.check(*weight) {
                Ok(()) => {}
                Err(JobRefusal::SameWeight) => waits.push("a job of about the same size runs".to_string()),
                Err(JobRefusal::LargerFanIn) => waits.push("a job that merges more runs runs".to_string()),
            }
            if next.needs_bytes > free_bytes {
                let needs_bytes = next.needs_bytes;
                waits.push(format!(
                    "the job needs {needs_bytes} bytes of disk space, and {free_bytes} are free for it"
                ));
            }
        }
        if reserve_bytes > free_bytes {
            waits.push(format!(
                "{free_bytes} bytes are free, less than the space reserve of {reserve_bytes}: flushes wait for jobs"
            ));
        }
        let running = self
            .running
            .of_table(id)
            .iter()
            .map(|running| running.report(self.shard().id(), now_us))
            .collect();
        Ok(CompactionExplanation {
            text,
            next: next.map(|(next, _)| next),
            waits,
            pending,
            backlog_bytes: backlog.max(0.0) as u64,
            running,
            throughput_bytes_per_s: self.throughput(),
        })
    }

    /// The tombstones of the table's SSTables, and what may still need them.
    ///
    /// # Errors
    /// The table was dropped, or is only read.
    pub fn tombstones(&self, id: TableId) -> Result<TombstonesReport, EngineError> {
        let managed = self.managed(id)?;
        let table = &managed.table;
        let gc_before_s = self.gc_before_s(&managed);
        let sstables = table.sstables();
        let busy = self.running.sstables(id);
        let (in_memory_us, in_log_us) = (table.memtables.min_timestamp_us(), table.replayable_since_us());
        let of = |sstable: &Rc<SSTable>| {
            let stats = sstable.stats();
            let bins = stats.tombstone_drop_times.bins();
            let newest_us = sstable.max_timestamp_us();
            let may_need = |other: &&Rc<SSTable>| {
                other.name() != sstable.name()
                    && other.min_timestamp_us() <= newest_us
                    && other.first_key() <= sstable.last_key()
                    && sstable.first_key() <= other.last_key()
            };
            let mut overlapping: Vec<String> =
                sstables.iter().filter(may_need).map(|other| other.name().to_string()).collect();
            overlapping.sort();
            let more_overlapping = overlapping.len().saturating_sub(NAMED_MAX);
            overlapping.truncate(NAMED_MAX);
            let is_older = |since_us: Option<i64>| since_us.is_some_and(|since_us| since_us <= newest_us);
            SSTableTombstones {
                sstable: sstable.name().to_string(),
                tombstones: bins.iter().map(|bin| bin.count).sum(),
                droppable: stats.tombstone_drop_times.count_until(gc_before_s),
                oldest_s: bins.first().map_or(0, |bin| bin.time_s),
                newest_s: bins.last().map_or(0, |bin| bin.time_s),
                overlapping,
                more_overlapping,
                memtable: is_older(in_memory_us),
                commit_log: is_older(in_log_us),
                is_futile: managed.futile.borrow().has(table, sstable.name()),
                is_taken: busy.contains(&sstable.name())
                    || table.sstables.is_frozen(sstable.name())
                    || table.sstables.is_quarantined(sstable.name()),
            }
        };
        let mut found: Vec<SSTableTombstones> =
            sstables.iter().map(of).filter(|sstable| sstable.tombstones > 0).collect();
        found.sort_by(|a, b| b.droppable.total_cmp(&a.droppable).then_with(|| a.sstable.cmp(&b.sstable)));
        Ok(TombstonesReport {
            gc_grace_s: table.schema().options.gc_grace_s,
            mode: match managed.tombstone_gc.get() {
                TombstoneGcMode::Timeout => "timeout",
                TombstoneGcMode::Disabled => "disabled",
                TombstoneGcMode::Immediate => "immediate",
                TombstoneGcMode::Repair => "repair",
            },
            gc_before_s,
            sstables: found,
            kept_on_shard: self.stats.borrow().kept_tombstones.clone(),
        })
    }
}
