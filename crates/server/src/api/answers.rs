//! Answers of the admin API, as JSON. `nodetool` parses the same types. Answers that are facts of the engine
//! have the types of [`reports`]: `POST /v1/scrub` answers `Scrubbed`, `POST /v1/verify` `Verified`,
//! `POST /v1/refresh` and `/v1/import` `LoadedSSTables`, `GET /v1/compactions/history` a list of
//! `EndedCompaction`, ordered by time, the oldest first.
//!
//! Sizes are bytes; the names of times contain their unit.

use reports::{CacheReport, LatencyReport, MemoryClass, RunningCompaction, SnapshotReport};
use serde::{Deserialize, Serialize};

/// The text of an error.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    pub error: String,
}

/// `GET /v1/version`
#[derive(Debug, Serialize, Deserialize)]
pub struct Version {
    pub release_version: String,
}

/// `GET /v1/info`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Info {
    pub cluster_name: String,
    pub release_version: String,
    pub host_id: String,
    /// The address reported to clients.
    pub address: String,
    pub data_center: String,
    pub rack: String,
    pub tokens: u64,
    /// `NORMAL`, `DRAINING` or `DRAINED`.
    pub mode: String,
    pub shards: u32,
    pub io_backend: String,
    pub data_dir: String,
    /// Seconds since 1970 at the start.
    pub generation: u64,
    pub uptime_s: u64,
    /// Bytes of the live SSTables of all tables.
    pub load_bytes: u64,
    /// Physical memory of the process.
    pub resident_bytes: u64,
    /// Limit for memtables and caches.
    pub memory_budget_bytes: u64,
    pub memtable_bytes: u64,
    pub commitlog_bytes: u64,
    pub chunk_cache: CacheReport,
    /// Hits and misses count reads of partitions.
    #[serde(default)]
    pub row_cache: CacheReport,
    /// Whether CQL clients are served.
    pub native_transport: bool,
    /// Number of client connections.
    pub connections: u64,
}

/// `GET /v1/memory`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Physical memory of the process.
    pub resident_bytes: u64,
    /// The option `memory`.
    pub budget_bytes: u64,
    pub shards: Vec<Vec<MemoryClass>>,
}

/// `GET /v1/iomodel`: rates of the data directory's disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IoModel {
    pub data_dir: String,
    /// The rates in `io_properties_file`.
    pub configured: Option<DiskRates>,
    /// Minimal length of a window.
    pub window_ms: u64,
    pub windows: u64,
    /// Windows in which the disk was busy. The model is fitted to these.
    pub busy_windows: u64,
    pub read_iops: LearnedRate,
    /// Bytes per second, as is `write_bandwidth`.
    pub read_bandwidth: LearnedRate,
    pub write_iops: LearnedRate,
    pub write_bandwidth: LearnedRate,
    /// Size of a cell of the plane: reads per second of a row, bytes written per second of a column.
    pub reads_s_step: f64,
    pub write_bytes_s_step: f64,
    pub rows: usize,
    pub columns: usize,
    /// The cells with observations.
    pub cells: Vec<PlaneCell>,
}

/// Rates per second; bandwidths in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskRates {
    pub read_iops: u64,
    pub read_bandwidth: u64,
    pub write_iops: u64,
    pub write_bandwidth: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LearnedRate {
    /// The greatest rate observed, per second.
    pub greatest_s: f64,
    /// The fitted rate of the disk with no other load, per second; `None` if unknown.
    pub fitted_s: Option<f64>,
}

/// Latency of reads up to 64 KiB in one cell of the plane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlaneCell {
    /// Index of the row; rows ascend by reads per second.
    pub row: usize,
    /// Index of the column; columns ascend by bytes written per second.
    pub column: usize,
    pub windows: u64,
    pub reads: u64,
    /// Average number of requests in flight when a read started.
    pub in_flight: f64,
    pub p50_us: f64,
    pub p95_us: f64,
}

/// `GET /v1/tables`: a table, added up over all shards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableStats {
    pub keyspace: String,
    pub table: String,
    pub id: String,
    pub sstable_count: u64,
    /// SSTables that could not be opened. Reads of the table fail while there are any.
    pub unreadable_sstables: u64,
    /// SSTables that were missing at the start.
    #[serde(default)]
    pub missing_sstables: u64,
    pub max_sstable_bytes: u64,
    /// Name of the compaction strategy.
    #[serde(default)]
    pub compaction_strategy: String,
    /// Number of SSTables in each level, level 0 first; empty if the strategy has no levels, and all are in
    /// level 0.
    #[serde(default)]
    pub sstables_in_levels: Vec<u64>,
    /// The number that each of these levels may have; empty if the strategy has no levels.
    #[serde(default)]
    pub level_limits: Vec<u64>,
    /// Estimated number of pending compactions.
    #[serde(default)]
    pub pending_compactions: u64,
    /// Bytes that flushes and compactions wrote to disk, divided by the bytes that flushes wrote, since the
    /// start; 0 before the first flush.
    #[serde(default)]
    pub write_amplification: f64,
    /// Bytes on disk divided by the estimated live bytes; 0 without SSTables. `None`: unknown, because
    /// partitions have several rows and lie in several SSTables.
    #[serde(default)]
    pub space_amplification: Option<f64>,
    /// Average number of SSTables that a read of one partition opens, since the start; 0 before the first
    /// read.
    #[serde(default)]
    pub sstables_per_read: f64,
    /// SSTables that reads skipped because the bloom filter or the tokens ruled out the partition.
    #[serde(default)]
    pub sstables_skipped_by_partition: u64,
    /// SSTables that reads skipped because their least and greatest clustering keys ruled out the rows.
    #[serde(default)]
    pub sstables_skipped_by_clustering: u64,
    /// The number of SSTables that 99 % of these reads did not exceed, and the greatest; 64 stands for 64 or
    /// more.
    #[serde(default)]
    pub sstables_per_read_p99: u64,
    #[serde(default)]
    pub sstables_per_read_max: u64,
    /// Bytes that clients' reads fetched from disk, divided by the number of reads; 0 before the first read.
    #[serde(default)]
    pub disk_bytes_per_read: f64,
    /// Bytes that clients' reads fetched from disk since the start.
    #[serde(default)]
    pub disk_read_bytes: u64,
    /// All files of live SSTables.
    pub space_used_live: u64,
    /// All files of the table except snapshots.
    pub space_used_total: u64,
    pub space_used_by_snapshots: u64,
    /// Compressed length divided by uncompressed length; -1 without SSTables.
    pub compression_ratio: f64,
    /// Sum over SSTables and memtables: a partition in several of them counts several times.
    pub partitions_estimate: u64,
    pub partition_min_bytes: u64,
    pub partition_max_bytes: u64,
    pub partition_mean_bytes: u64,
    pub memtable_partitions: u64,
    pub memtable_bytes: u64,
    pub memtable_switch_count: u64,
    pub pending_flushes: u64,
    pub bloom_filter_bytes: u64,
    /// Reads of a partition for which a bloom filter did not rule out an SSTable without it, since the start.
    #[serde(default)]
    pub bloom_filter_false_positives: u64,
    /// These, divided by all lookups of partitions that the SSTable did not have; 0 without any.
    #[serde(default)]
    pub bloom_filter_false_ratio: f64,
    /// Live rows and tombstones of a page in the last five minutes; the mean is `None` without pages.
    #[serde(default)]
    pub live_per_slice_mean: Option<f64>,
    #[serde(default)]
    pub live_per_slice_max: u64,
    #[serde(default)]
    pub tombstones_per_slice_mean: Option<f64>,
    #[serde(default)]
    pub tombstones_per_slice_max: u64,
    /// Tombstones older than the grace period, divided by all cells and tombstones in SSTables: 0 to 1.
    #[serde(default)]
    pub droppable_tombstone_ratio: f64,
    /// Uncompressed bytes in SSTables that a repair has marked, and in all others.
    #[serde(default)]
    pub repaired_bytes: u64,
    #[serde(default)]
    pub unrepaired_bytes: u64,
    /// Memory of the positions of compressed chunks.
    #[serde(default)]
    pub compression_metadata_bytes: u64,
    /// Memory of bloom filters, summaries and chunk positions.
    pub sstable_memory_bytes: u64,
    pub reads: LatencyReport,
    pub writes: LatencyReport,
}

/// `GET /v1/sstables?keyspace=&table=&key=`
#[derive(Debug, Serialize, Deserialize)]
pub struct SSTables {
    pub files: Vec<String>,
}

/// `GET /v1/snapshots`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    #[serde(flatten)]
    pub snapshot: SnapshotReport,
    /// Bytes of files that nothing else holds.
    pub true_bytes: u64,
}

/// `GET /v1/binary`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Binary {
    /// Whether clients are served.
    pub running: bool,
}

/// Result of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct CommandResult {
    /// Number of tables, or snapshots, that were processed.
    pub count: u64,
}

/// `GET /v1/loggers`: the level of all loggers together, and the one that applies to each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Logger {
    pub name: String,
    pub level: String,
}

/// `GET /v1/compactions`: of all shards together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Compactions {
    /// Estimated number of jobs for each table that needs any.
    pub pending: Vec<PendingCompactions>,
    pub running: Vec<RunningCompaction>,
    /// Materialized views that are being built.
    #[serde(default)]
    pub view_builds: Vec<RunningViewBuild>,
    /// Number of jobs completed since the start.
    pub completed: u64,
    pub failed: u64,
    pub stopped: u64,
    pub last_error: Option<String>,
    /// 0: no limit.
    pub throughput_bytes_per_s: u64,
    /// Concurrent jobs on a shard; 0: one of each size class.
    pub concurrent: u32,
}

/// A materialized view that is being built.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunningViewBuild {
    pub keyspace: String,
    pub view: String,
    /// Partitions of the base table that have been read since the start.
    pub keys: u64,
    /// The part of the ring that is done, 0 to 1.
    pub progress: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PendingCompactions {
    pub keyspace: String,
    pub table: String,
    pub jobs: u64,
}

/// `GET /v1/compactions/throughput`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// 0: no limit.
    pub bytes_per_s: u64,
}

/// `GET /v1/compactions/concurrent`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ConcurrentCompactors {
    pub jobs: u32,
}

/// `GET` and `POST /v1/compactions/auto`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AutoCompaction {
    pub keyspace: String,
    pub table: String,
    pub running: bool,
}
