//! What a shard and its tables have and do, as values: for metrics, tools and tests.

use std::path::PathBuf;

use base::histogram::EstimatedHistogram;
use model::TableId;
use reader::{SemaphoreLimits, SemaphoreStats};
use runtime::{GroupStats, IoStats, ShardStats};
use sstable::name::SSTableName;
use sstable::pool::PoolStats;
use sstable::read::DiskReads;
use sstable::read::SSTable;

use crate::cache::RowCacheStats;
use crate::compaction::report::{ManagerStats, TableNeeds};
use crate::flush::FlushStats;
use crate::table::Table;
use crate::table::counters::{Latencies, SSTablesPerRead};

/// What one shard has and does.
#[derive(Clone, Debug, Default)]
pub struct ShardReport {
    pub dirty_bytes: usize,
    pub log_bytes: u64,
    pub log_appended_bytes: u64,
    /// How often the commit log was synced to disk.
    pub log_syncs: u64,
    pub sstables: usize,
    pub flushes: FlushStats,
    pub compactions: ManagerStats,
    pub compactions_running: usize,
    pub cache: PoolStats,
    pub row_cache: RowCacheStats,
    pub disk_reads: DiskReads,
    /// Each semaphore of reads: its name, limits and counters.
    pub reads: Vec<(String, SemaphoreLimits, SemaphoreStats)>,
    pub runtime: ShardStats,
    /// By scheduling group.
    pub groups: Vec<GroupStats>,
    /// By I/O class.
    pub io: Vec<IoStats>,
    /// What the disk has to do, for all shards: nanoseconds of it, by its model.
    pub disk_under_way_ns: u64,
}

/// What one kind of memory takes on a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub class: &'static str,
    pub bytes: u64,
    /// What it may take; caches share theirs. `None`: it is bounded by something else, or by what there is.
    pub limit_bytes: Option<u64>,
}

impl MemoryUse {
    pub fn new(class: &'static str, bytes: u64, limit_bytes: Option<u64>) -> Self {
        Self { class, bytes, limit_bytes }
    }
}

/// A table for people: what takes most comes first.
pub fn memory_text(uses: &[MemoryUse]) -> String {
    let mut uses: Vec<&MemoryUse> = uses.iter().collect();
    uses.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    let mut text = format!("{:<22}{:>14}{:>14}\n", "memory", "bytes", "limit");
    for MemoryUse { class, bytes, limit_bytes } in &uses {
        let limit = limit_bytes.map_or("-".to_string(), |limit| limit.to_string());
        text.push_str(&format!("{class:<22}{bytes:>14}{limit:>14}\n"));
    }
    let total: u64 = uses.iter().map(|it| it.bytes).sum();
    text + &format!("{:<22}{total:>14}{:>14}\n", "total", "-")
}

/// An SSTable of a table.
#[derive(Clone, Debug)]
pub struct SSTableReport {
    /// Two shards have the same one if it was written when there were other shards.
    pub name: SSTableName,
    /// Bytes of Data.db and Index.db.
    pub disk_bytes: u64,
    /// Bytes of Data.db, and of what it holds.
    pub data_bytes: u64,
    pub uncompressed_bytes: u64,
    pub partitions: u64,
    /// Of leveled compaction.
    pub level: u32,
    pub partition_bytes: EstimatedHistogram,
    /// Memory of its bloom filter, of the places of compressed chunks, and of all that stays in memory while it is
    /// open.
    pub filter_bytes: usize,
    pub compression_bytes: usize,
    pub memory_bytes: usize,
}

/// A table's part on one shard.
#[derive(Clone, Debug)]
pub struct TableReport {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    /// Where its SSTables are.
    pub dir: PathBuf,
    pub sstables: Vec<SSTableReport>,
    /// SSTables that could not be opened.
    pub unreadable: usize,
    /// SSTables that were missing at the start.
    pub missing: usize,
    /// Of all memtables, sealed ones included.
    pub memtable_bytes: usize,
    pub memtable_partitions: usize,
    /// Sealed memtables that are not yet SSTables.
    pub pending_flushes: usize,
    pub flushes: u64,
    /// Bytes on disk that flushes and compactions wrote since the start.
    pub flushed_bytes: u64,
    pub compacted_bytes: u64,
    /// Bytes on disk that are live, about; `None` where this is not known. See [`TableNeeds`].
    pub live_bytes: Option<u64>,
    /// Bytes on disk that the live ones are a part of.
    pub disk_bytes: u64,
    /// About how many compactions are to be done.
    pub pending_compactions: u64,
    pub reads: Latencies,
    pub writes: Latencies,
    /// Reads of one partition, and the SSTables they opened.
    pub point_reads: u64,
    pub point_read_sstables: u64,
    pub sstables_per_read: SSTablesPerRead,
    /// SSTables that reads did not open: their filter or tokens, or their clustering keys, ruled them out.
    pub skipped_by_partition: u64,
    pub skipped_by_clustering: u64,
    /// Reads that used a secondary index, and those that named one and read in order instead.
    pub index_reads: u64,
    pub index_scans: u64,
    /// Rows and partitions that the indexes named.
    pub index_candidates: u64,
    /// Bytes that requests of clients fetched from disk.
    pub fetched_bytes: u64,
}

impl SSTableReport {
    pub fn of(sstable: &SSTable) -> Self {
        Self {
            name: sstable.name(),
            disk_bytes: sstable.data_bytes() + sstable.index_bytes(),
            data_bytes: sstable.data_bytes(),
            uncompressed_bytes: sstable.uncompressed_bytes(),
            partitions: sstable.partition_count(),
            level: sstable.level(),
            partition_bytes: sstable.stats().partition_bytes.clone(),
            filter_bytes: sstable.filter_bytes(),
            compression_bytes: sstable.compression_bytes(),
            memory_bytes: sstable.memory_bytes(),
        }
    }
}

impl TableReport {
    pub fn of(table: &Table, state: TableNeeds) -> Self {
        let schema = table.schema();
        let sealed = table.memtables.sealed();
        let partitions = sealed.iter().map(|sealed| sealed.memtable.partition_count()).sum::<usize>();
        Self {
            id: schema.id,
            keyspace: schema.keyspace.clone(),
            name: schema.name.clone(),
            dir: table.dir.clone(),
            sstables: table.sstables().iter().map(|sstable| SSTableReport::of(sstable)).collect(),
            unreadable: table.sstables.unreadable().len(),
            missing: table.missing_count(),
            memtable_bytes: table.memtables.bytes(),
            memtable_partitions: table.memtables.active().memtable.partition_count() + partitions,
            pending_flushes: sealed.len(),
            flushes: table.counters.flushes.get(),
            flushed_bytes: table.counters.flushed_bytes.get(),
            compacted_bytes: table.counters.compacted_bytes.get(),
            disk_bytes: state.disk_bytes,
            live_bytes: state.live_bytes,
            pending_compactions: state.pending,
            reads: table.counters.reads.get(),
            writes: table.counters.writes.get(),
            point_reads: table.counters.point_reads.get(),
            point_read_sstables: table.counters.sstables.opened_for_points.get(),
            sstables_per_read: table.counters.sstables.per_read.borrow().clone(),
            skipped_by_partition: table.counters.sstables.skipped_by_partition.get(),
            skipped_by_clustering: table.counters.sstables.skipped_by_clustering.get(),
            index_reads: table.counters.index.reads.get(),
            index_scans: table.counters.index.scans.get(),
            index_candidates: table.counters.index.candidates.get(),
            fetched_bytes: table.counters.fetched_bytes.get(),
        }
    }
}
