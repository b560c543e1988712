//! The state of a shard and its tables, as values for metrics, tools and tests.

#![warn(missing_docs)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::histogram::EstimatedHistogram;
use model::TableId;
use reader::{SemaphoreLimits, SemaphoreStats};
use reports::CacheReport;
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
use crate::table::slices::{Recent, Slices};

/// The state of one shard.
#[derive(Clone, Debug, Default)]
pub struct ShardReport {
    /// Memory of memtables that are not flushed yet.
    pub dirty_bytes: usize,
    /// The part of the last second in which tasks ran, 0 to 1.
    pub utilization: f64,
    /// Bytes of the shard's commit log segments on disk.
    pub log_bytes: u64,
    /// Bytes of entries appended to the commit log since the start.
    pub log_appended_bytes: u64,
    /// Number of syncs of the commit log.
    pub log_syncs: u64,
    /// Number of live SSTables of all tables.
    pub sstables: usize,
    /// Counters of flushes since the start.
    pub flushes: FlushStats,
    /// Counters of compactions since the start.
    pub compactions: ManagerStats,
    /// Number of compactions that run now.
    pub compactions_running: usize,
    /// Memory and hits of the pool of all caches.
    pub cache: PoolStats,
    /// Memory and hits of the row cache.
    pub row_cache: RowCacheStats,
    /// Reads of SSTables from disk since the start.
    pub disk_reads: DiskReads,
    /// Name, limits and counters of each semaphore of reads.
    pub reads: Vec<(String, SemaphoreLimits, SemaphoreStats)>,
    /// Counters of the shard's tasks and requests.
    pub runtime: ShardStats,
    /// By scheduling group.
    pub groups: Vec<GroupStats>,
    /// By I/O class.
    pub io: Vec<IoStats>,
    /// Cost of the disk requests in flight of all shards, in nanoseconds of the disk's time according to its
    /// model.
    pub disk_under_way_ns: u64,
}

/// The caches of all shards together, by Cassandra's names.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    /// Chunks of Data.db.
    pub chunks: CacheReport,
    /// Pages and entries of partition indexes.
    pub keys: CacheReport,
    /// Partitions of the row cache; a partition is an entry.
    pub rows: CacheReport,
}

impl Caches {
    /// Adds up the caches of the shards.
    pub fn of(shards: &[ShardReport]) -> Self {
        let sum = |of: fn(&ShardReport) -> u64| shards.iter().map(of).sum::<u64>();
        let capacity_bytes = sum(|shard| shard.cache.budget_bytes as u64);
        let cache = |name: &str| CacheReport { name: name.into(), capacity_bytes, ..CacheReport::default() };
        Self {
            chunks: CacheReport {
                bytes: sum(|shard| shard.cache.chunks.bytes as u64),
                entries: sum(|shard| shard.cache.chunks.entries),
                hits: sum(|shard| shard.cache.chunks.hits),
                misses: sum(|shard| shard.cache.chunks.misses),
                ..cache("chunks")
            },
            keys: CacheReport {
                bytes: sum(|shard| (shard.cache.index_pages.bytes + shard.cache.index_entries.bytes) as u64),
                entries: sum(|shard| shard.cache.index_pages.entries + shard.cache.index_entries.entries),
                hits: sum(|shard| shard.cache.index_pages.hits + shard.cache.index_entries.hits),
                misses: sum(|shard| shard.cache.index_pages.misses + shard.cache.index_entries.misses),
                ..cache("keys")
            },
            rows: CacheReport {
                bytes: sum(|shard| shard.row_cache.bytes as u64),
                entries: sum(|shard| shard.row_cache.partitions),
                hits: sum(|shard| shard.row_cache.reads - shard.row_cache.misses),
                misses: sum(|shard| shard.row_cache.misses),
                ..cache("rows")
            },
        }
    }

    /// All caches, in the order of their names.
    pub fn into_list(self) -> Vec<CacheReport> {
        vec![self.chunks, self.keys, self.rows]
    }
}

/// An SSTable of a table.
#[derive(Clone, Debug)]
pub struct SSTableReport {
    /// Several shards have the same one if it was written with another number of shards.
    pub name: SSTableName,
    /// Bytes of Data.db and Index.db.
    pub disk_bytes: u64,
    /// Bytes of Data.db, and of its uncompressed content.
    pub data_bytes: u64,
    /// See `data_bytes`.
    pub uncompressed_bytes: u64,
    /// Number of partitions.
    pub partitions: u64,
    /// Level of leveled compaction.
    pub level: u32,
    /// Sizes of the partitions in bytes, as Statistics.db has them.
    pub partition_bytes: EstimatedHistogram,
    /// Cells of each partition.
    pub partition_cells: EstimatedHistogram,
    /// Bytes of Index.db or of Partitions.db and Rows.db.
    pub index_bytes: u64,
    /// The newest write, in microseconds since 1970.
    pub max_timestamp_us: i64,
    /// Tombstones and expiring cells.
    pub tombstones: u64,
    /// Of these, older than the grace period of the table; an estimate from a histogram.
    pub droppable_tombstones: f64,
    /// Cells of all partitions, estimated from their histogram.
    pub cells: f64,
    /// Whether a repair has marked it.
    pub is_repaired: bool,
    /// Memory of its bloom filter, of the offsets of compressed chunks, and of all its data that stays in
    /// memory while it is open.
    pub filter_bytes: usize,
    /// See `filter_bytes`.
    pub compression_bytes: usize,
    /// See `filter_bytes`.
    pub memory_bytes: usize,
}

/// A table's part on one shard, or its parts on several shards together ([`TableReport::of_all_shards`]).
#[derive(Clone, Debug, Default)]
pub struct TableReport {
    /// The table's id.
    pub id: TableId,
    /// The table's keyspace.
    pub keyspace: String,
    /// The table's name.
    pub name: String,
    /// Directory of its SSTables.
    pub dir: PathBuf,
    /// The live SSTables.
    pub sstables: Vec<SSTableReport>,
    /// SSTables that could not be opened.
    pub unreadable: usize,
    /// SSTables that were missing at the start.
    pub missing: usize,
    /// Of all memtables, including sealed ones.
    pub memtable_bytes: usize,
    /// Partitions of all memtables; a partition of several counts several times.
    pub memtable_partitions: usize,
    /// Sealed memtables that are not yet SSTables.
    pub pending_flushes: usize,
    /// Number of flushes since the start.
    pub flushes: u64,
    /// Bytes on disk written by flushes and compactions since the start.
    pub flushed_bytes: u64,
    /// See `flushed_bytes`.
    pub compacted_bytes: u64,
    /// Estimated live bytes on disk; `None` where this is unknown. See [`TableNeeds`].
    pub live_bytes: Option<u64>,
    /// The bytes on disk to which `live_bytes` refers.
    pub disk_bytes: u64,
    /// Estimated number of pending compactions.
    pub pending_compactions: u64,
    /// Number and latencies of the reads since the start.
    pub reads: Latencies,
    /// Number and latencies of the writes since the start.
    pub writes: Latencies,
    /// Reads of one partition, and the number of SSTables they opened.
    pub point_reads: u64,
    /// See `point_reads`.
    pub point_read_sstables: u64,
    /// How many reads of one partition opened how many SSTables.
    pub sstables_per_read: SSTablesPerRead,
    /// Reads of a partition that opened an SSTable without it, because its bloom filter did not rule it out.
    pub false_positives: u64,
    /// Reads of a partition for which a bloom filter ruled out an SSTable.
    pub filter_negatives: u64,
    /// Live rows and tombstones of the pages read since the start.
    pub slices: Slices,
    /// Live rows of the pages read in the last five minutes.
    pub live_recently: Recent,
    /// Tombstones of the pages read in the last five minutes.
    pub dead_recently: Recent,
    /// Name of the compaction strategy.
    pub strategy: &'static str,
    /// The number of SSTables that each level of the strategy may have; empty if it has no levels.
    pub level_limits: Vec<u64>,
    /// SSTables that reads did not open, ruled out by bloom filter or tokens, or by their clustering keys.
    pub skipped_by_partition: u64,
    /// See `skipped_by_partition`.
    pub skipped_by_clustering: u64,
    /// Reads that used a secondary index, and those that named one and read in order instead.
    pub index_reads: u64,
    /// See `index_reads`.
    pub index_scans: u64,
    /// Rows and partitions that the indexes named.
    pub index_candidates: u64,
    /// Bytes that requests of clients fetched from disk.
    pub fetched_bytes: u64,
}

impl SSTableReport {
    /// The report of an open SSTable. Tombstones from before `gc_before_s` are droppable.
    pub fn of(sstable: &SSTable, gc_before_s: u32) -> Self {
        let tombstones = &sstable.stats().tombstone_drop_times;
        Self {
            tombstones: tombstones.bins().iter().map(|bin| bin.count).sum(),
            droppable_tombstones: tombstones.count_until(gc_before_s),
            cells: {
                let cells = &sstable.stats().partition_cells;
                cells.mean().unwrap_or(0) as f64 * cells.count() as f64
            },
            is_repaired: sstable.stats().repaired_at_ms > 0,
            name: sstable.name(),
            disk_bytes: sstable.data_bytes() + sstable.index_bytes(),
            data_bytes: sstable.data_bytes(),
            uncompressed_bytes: sstable.uncompressed_bytes(),
            partitions: sstable.partition_count(),
            level: sstable.level(),
            partition_bytes: sstable.stats().partition_bytes.clone(),
            partition_cells: sstable.stats().partition_cells.clone(),
            index_bytes: sstable.index_bytes(),
            max_timestamp_us: sstable.max_timestamp_us(),
            filter_bytes: sstable.filter_bytes(),
            compression_bytes: sstable.compression_bytes(),
            memory_bytes: sstable.memory_bytes(),
        }
    }
}

impl TableReport {
    /// The tables of all shards, each once, in the order of their keyspaces and names. A table that is
    /// dropped and created again meanwhile may be there twice, with both ids. `shards`: the tables of each
    /// shard.
    pub fn of_all_shards(shards: Vec<Vec<Self>>) -> Vec<Self> {
        let mut tables: BTreeMap<(String, String, TableId), Self> = BTreeMap::new();
        for part in shards.into_iter().flatten() {
            match tables.entry((part.keyspace.clone(), part.name.clone(), part.id)) {
                Entry::Vacant(entry) => drop(entry.insert(part)),
                Entry::Occupied(mut entry) => entry.get_mut().merge(part),
            }
        }
        tables.into_values().collect()
    }

    /// Adds the part of another shard.
    fn merge(&mut self, other: Self) {
        // An SSTable that was written when there were other shards is open on several of them.
        let known: BTreeSet<SSTableName> = self.sstables.iter().map(|sstable| sstable.name).collect();
        self.sstables.extend(other.sstables.into_iter().filter(|sstable| !known.contains(&sstable.name)));
        // Each shard tries to open all that cannot be opened.
        self.unreadable = self.unreadable.max(other.unreadable);
        self.missing += other.missing;
        self.memtable_bytes += other.memtable_bytes;
        self.memtable_partitions += other.memtable_partitions;
        self.pending_flushes += other.pending_flushes;
        self.flushes += other.flushes;
        self.flushed_bytes += other.flushed_bytes;
        self.compacted_bytes += other.compacted_bytes;
        self.live_bytes = self.live_bytes.zip(other.live_bytes).map(|(one, two)| one + two);
        self.disk_bytes += other.disk_bytes;
        self.pending_compactions += other.pending_compactions;
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.point_reads += other.point_reads;
        self.point_read_sstables += other.point_read_sstables;
        self.sstables_per_read.merge(&other.sstables_per_read);
        self.skipped_by_partition += other.skipped_by_partition;
        self.skipped_by_clustering += other.skipped_by_clustering;
        self.index_reads += other.index_reads;
        self.index_scans += other.index_scans;
        self.index_candidates += other.index_candidates;
        self.fetched_bytes += other.fetched_bytes;
        self.false_positives += other.false_positives;
        self.filter_negatives += other.filter_negatives;
        // Each shard has levels of its own.
        self.level_limits.resize(self.level_limits.len().max(other.level_limits.len()), 0);
        for (limit, more) in self.level_limits.iter_mut().zip(other.level_limits) {
            *limit = limit.saturating_add(more);
        }
        self.slices.live.merge(&other.slices.live);
        self.slices.dead.merge(&other.slices.dead);
        self.live_recently.merge(&other.live_recently);
        self.dead_recently.merge(&other.dead_recently);
    }

    /// The report of `table` on this shard at `now_us` of the shard's clock. `state` is what only the
    /// compaction manager knows.
    pub fn of(table: &Table, state: TableNeeds, now_us: u64) -> Self {
        let schema = table.schema();
        let (live_recently, dead_recently) = table.counters.slices.borrow().recent(now_us);
        let sealed = table.memtables.sealed();
        let partitions = sealed.iter().map(|sealed| sealed.memtable.partition_count()).sum::<usize>();
        Self {
            id: schema.id,
            keyspace: schema.keyspace.clone(),
            name: schema.name.clone(),
            dir: table.dir.clone(),
            sstables: table
                .sstables()
                .iter()
                .map(|sstable| SSTableReport::of(sstable, state.gc_before_s))
                .collect(),
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
            false_positives: table.counters.false_positives.get(),
            filter_negatives: table.counters.sstables.filter_negatives.get(),
            slices: table.counters.slices.borrow().clone(),
            live_recently,
            dead_recently,
            strategy: state.strategy,
            level_limits: state.level_limits,
            skipped_by_partition: table.counters.sstables.skipped_by_partition.get(),
            skipped_by_clustering: table.counters.sstables.skipped_by_clustering.get(),
            index_reads: table.counters.index.reads.get(),
            index_scans: table.counters.index.scans.get(),
            index_candidates: table.counters.index.candidates.get(),
            fetched_bytes: table.counters.fetched_bytes.get(),
        }
    }
}
