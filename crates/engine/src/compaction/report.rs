//! Running jobs and counters of compactions, as values for metrics and tools.

use std::collections::BTreeMap;
use std::rc::Rc;

use compaction::amplification::live_disk_bytes;
use model::TableId;
use reports::RunningCompaction;

use super::compaction_log::CompactionLog;
use super::history::History;
use super::manager::Manager;
use super::purge::Blocker;
use super::running::Running;
use super::table_state::TableState;

impl Running {
    pub(super) fn report(&self, shard: u32, now_us: u64) -> RunningCompaction {
        let schema = self.table.schema();
        RunningCompaction {
            id: self.control.id,
            shard,
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            kind: self.job.kind.into(),
            reason: self.job.reason.clone(),
            total_bytes: self.control.total_bytes,
            read_bytes: self.control.read_bytes.get().min(self.control.total_bytes),
            written_bytes: self.control.written_bytes.get(),
            running_us: now_us - self.control.started_us,
        }
    }
}

/// Numbers of tombstones that could not be dropped since the start, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptCounts {
    pub young: u64,
    /// Kept by `tombstone_gc`.
    pub disabled: u64,
    /// Kept by `only_purge_repaired_tombstones`.
    pub not_repaired: u64,
    pub memtable: u64,
    pub commit_log: u64,
    pub sstable: u64,
    /// SSTables that blocked purges, with the number of tombstones that each one kept; recent jobs only.
    pub sstables: BTreeMap<String, u64>,
}

/// Maximum number of SSTables in `sstables`. When it is reached, the map starts again.
const BLOCKING_MAX: usize = 100;

impl KeptCounts {
    pub(super) fn add(&mut self, blocker: &Blocker, count: u64) {
        match blocker {
            Blocker::Young => self.young += count,
            Blocker::Disabled => self.disabled += count,
            Blocker::NotRepaired => self.not_repaired += count,
            Blocker::Memtable => self.memtable += count,
            Blocker::CommitLog => self.commit_log += count,
            Blocker::SSTable(name) => {
                self.sstable += count;
                if self.sstables.len() >= BLOCKING_MAX && !self.sstables.contains_key(name) {
                    self.sstables.clear();
                }
                *self.sstables.entry(name.clone()).or_default() += count;
            }
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.young += other.young;
        self.disabled += other.disabled;
        self.not_repaired += other.not_repaired;
        self.memtable += other.memtable;
        self.commit_log += other.commit_log;
        self.sstable += other.sstable;
        for (name, count) in &other.sstables {
            *self.sstables.entry(name.clone()).or_default() += count;
        }
    }
}

/// Counters of a shard's compactions since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagerStats {
    pub completed: u64,
    pub failed: u64,
    pub stopped: u64,
    /// Bytes on disk.
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub last_error: Option<String>,
    /// Jobs that took more of the disk than `disk_budget` had left, since no smaller one could free anything.
    pub beyond_budget: u64,
    /// Flushes that were kept back since a table had too many runs or the disk too little room, and for how
    /// long.
    pub flush_waits: u64,
    pub flush_waited_us: u64,
    /// Bytes that must still be rewritten, and the CPU shares derived from them.
    pub backlog_bytes: u64,
    pub shares: u32,
    pub kept_tombstones: KeptCounts,
    /// Samples of merges that strategies requested.
    pub samples: u64,
}

/// Compactions of a shard.
#[derive(Clone, Debug)]
pub struct CompactionReport {
    pub running: Vec<RunningCompaction>,
    /// Estimated number of jobs that each table needs, by keyspace and name. Tables that need none are
    /// absent.
    pub pending: Vec<((String, String), u64)>,
    pub stats: ManagerStats,
    /// 0: no limit.
    pub throughput_bytes_per_s: u64,
    pub jobs_max: u32,
}

/// State of a table's part on a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNeeds {
    /// Estimated number of jobs.
    pub pending: u64,
    /// Bytes on disk of its SSTables, as strategies count them.
    pub disk_bytes: u64,
    /// Estimated live part of `disk_bytes`. `None` where partitions have several rows and there are several
    /// SSTables: the sketches count partitions and not rows, and cannot distinguish a partition that was
    /// overwritten from one that has grown.
    pub live_bytes: Option<u64>,
    /// Tombstones from before this time are droppable.
    pub gc_before_s: u32,
    /// Name of the strategy, and how many SSTables each of its levels may have.
    pub strategy: &'static str,
    pub level_limits: Vec<u64>,
}

impl Manager {
    /// Running jobs, pending jobs, and counters.
    pub fn report(&self) -> CompactionReport {
        let now_us = self.shard().now_us();
        let mut tables: Vec<Rc<TableState>> = self.tables.borrow().values().cloned().collect();
        tables.sort_by_cached_key(|managed| managed.table.schema().full_name());
        let pending = tables.iter().map(|managed| {
            let schema = managed.table.schema();
            let pending = self.with_view(managed, |strategy, view| strategy.pending(view));
            ((schema.keyspace.clone(), schema.name.clone()), pending)
        });
        CompactionReport {
            pending: pending.filter(|(_, pending)| *pending > 0).collect(),
            running: self
                .running
                .all()
                .iter()
                .map(|running| running.report(self.shard().id(), now_us))
                .collect(),
            stats: self.stats.borrow().clone(),
            throughput_bytes_per_s: self.throughput(),
            jobs_max: self.jobs_max(),
        }
    }

    /// Counters since the start, and the number of running jobs.
    pub fn stats(&self) -> (ManagerStats, usize) {
        (self.stats.borrow().clone(), self.running.len())
    }

    /// The state of the table; zeros if it was dropped.
    pub fn table_needs(&self, id: TableId) -> TableNeeds {
        let Ok(managed) = self.managed(id) else { return TableNeeds::default() };
        let has_rows = !managed.table.schema().clustering.is_empty();
        self.with_view(&managed, |strategy, view| TableNeeds {
            pending: strategy.pending(view),
            disk_bytes: view.sstables.iter().map(|sstable| sstable.disk_bytes).sum(),
            gc_before_s: view.gc_before_s,
            strategy: strategy.name(),
            level_limits: strategy.level_limits(),
            live_bytes: (!has_rows || view.sstables.len() <= 1).then(|| live_disk_bytes(view.sstables)),
        })
    }

    /// Ended jobs of all shards.
    pub fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn log(&self) -> &CompactionLog {
        &self.log
    }
}
