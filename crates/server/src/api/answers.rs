//! What the admin API answers, as JSON; `nodetool` reads the same types back.
//!
//! Sizes are bytes, times as their names say.

use serde::{Deserialize, Serialize};

/// Whatever went wrong.
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
    /// The address that clients are told.
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
    /// Live SSTables of all tables.
    pub load_bytes: u64,
    /// Physical memory that the process has.
    pub resident_bytes: u64,
    /// Limit for memtables and caches.
    pub memory_budget_bytes: u64,
    pub memtable_bytes: u64,
    pub commitlog_bytes: u64,
    pub chunk_cache: Cache,
    /// Hits and misses are reads of partitions.
    #[serde(default)]
    pub row_cache: Cache,
    /// Whether clients are served.
    pub native_transport: bool,
    /// Client connections.
    pub connections: u64,
}

/// `GET /v1/memory`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Physical memory that the process has.
    pub resident_bytes: u64,
    /// The option `memory`.
    pub budget_bytes: u64,
    pub shards: Vec<Vec<MemoryClass>>,
}

/// What one kind of memory takes on a shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryClass {
    pub class: String,
    pub bytes: u64,
    /// Caches share theirs.
    pub limit_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cache {
    pub entries: u64,
    pub size_bytes: u64,
    pub capacity_bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

/// `GET /v1/iomodel`: what the disk of the data can do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IoModel {
    pub data_dir: String,
    /// What `io_properties_file` says.
    pub configured: Option<DiskRates>,
    /// How long a stretch of time is at least that counts as one.
    pub window_ms: u64,
    pub windows: u64,
    /// Of them, those in which the disk was busy: from these the model is fitted.
    pub busy_windows: u64,
    pub read_iops: LearnedRate,
    /// Bytes per second, as is `write_bandwidth`.
    pub read_bandwidth: LearnedRate,
    pub write_iops: LearnedRate,
    pub write_bandwidth: LearnedRate,
    /// Of the plane: reads a second of a row, bytes written a second of a column.
    pub reads_s_step: f64,
    pub write_bytes_s_step: f64,
    pub rows: usize,
    pub columns: usize,
    /// Those that were seen.
    pub cells: Vec<PlaneCell>,
}

/// Per second; bandwidths in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskRates {
    pub read_iops: u64,
    pub read_bandwidth: u64,
    pub write_iops: u64,
    pub write_bandwidth: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LearnedRate {
    /// The most that was seen.
    pub greatest_s: f64,
    /// What the disk can do of it alone; none if it is not known.
    pub fitted_s: Option<f64>,
}

/// Reads of up to 64 KiB at a place of the plane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlaneCell {
    /// By rising reads a second.
    pub row: usize,
    /// By rising bytes written a second.
    pub column: usize,
    pub windows: u64,
    pub reads: u64,
    /// Requests under way when one began, on average.
    pub in_flight: f64,
    pub p50_us: f64,
    pub p95_us: f64,
}

/// `GET /v1/tables`: a table of all shards together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableStats {
    pub keyspace: String,
    pub table: String,
    pub id: String,
    pub sstable_count: u64,
    /// SSTables that could not be opened; reads of the table fail as long as there are any.
    pub unreadable_sstables: u64,
    /// SSTables that were missing at the start.
    #[serde(default)]
    pub missing_sstables: u64,
    pub max_sstable_bytes: u64,
    /// How many each level of leveled compaction has, level 0 first; empty if all are in level 0.
    #[serde(default)]
    pub sstables_in_levels: Vec<u64>,
    /// About how many compactions are to be done.
    #[serde(default)]
    pub pending_compactions: u64,
    /// Bytes on disk that flushes and compactions have written by bytes that flushes have, since the start; 0 before
    /// anything was flushed.
    #[serde(default)]
    pub write_amplification: f64,
    /// Bytes on disk by about how many are live; 0 without SSTables. `None`: not known, since partitions have several rows and
    /// lie in several SSTables.
    #[serde(default)]
    pub space_amplification: Option<f64>,
    /// SSTables that a read of one partition opens, on average since the start; 0 before there was one.
    #[serde(default)]
    pub sstables_per_read: f64,
    /// SSTables that reads did not open, since the filter or the tokens ruled out the partition.
    #[serde(default)]
    pub sstables_skipped_by_partition: u64,
    /// Or since their least and greatest clustering keys ruled out the rows.
    #[serde(default)]
    pub sstables_skipped_by_clustering: u64,
    /// The number that 99 % of those reads did not exceed, and the greatest; 64 stands for more too.
    #[serde(default)]
    pub sstables_per_read_p99: u64,
    #[serde(default)]
    pub sstables_per_read_max: u64,
    /// Bytes that clients' reads fetched from disk, by how many there were; 0 before there was one.
    #[serde(default)]
    pub disk_bytes_per_read: f64,
    /// All of them, since the start.
    #[serde(default)]
    pub disk_read_bytes: u64,
    /// All files of live SSTables.
    pub space_used_live: u64,
    /// All files of the table but snapshots.
    pub space_used_total: u64,
    pub space_used_by_snapshots: u64,
    /// Compressed by uncompressed length; -1 without SSTables.
    pub compression_ratio: f64,
    /// The sum over SSTables and memtables: a partition in several counts several times.
    pub partitions_estimate: u64,
    pub partition_min_bytes: u64,
    pub partition_max_bytes: u64,
    pub partition_mean_bytes: u64,
    pub memtable_partitions: u64,
    pub memtable_bytes: u64,
    pub memtable_switch_count: u64,
    pub pending_flushes: u64,
    pub bloom_filter_bytes: u64,
    /// Memory of the places of compressed chunks.
    #[serde(default)]
    pub compression_metadata_bytes: u64,
    /// Filters, summaries and chunk places.
    pub sstable_memory_bytes: u64,
    pub reads: RequestStats,
    pub writes: RequestStats,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestStats {
    pub count: u64,
    pub total_us: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// `GET /v1/sstables?keyspace=&table=&key=`
#[derive(Debug, Serialize, Deserialize)]
pub struct SSTables {
    pub files: Vec<String>,
}

/// `GET /v1/snapshots`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub tag: String,
    pub keyspace: String,
    pub table: String,
    /// Bytes of files that nothing else holds.
    pub true_bytes: u64,
    pub disk_bytes: u64,
}

/// `GET /v1/binary`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Binary {
    /// Whether clients are served.
    pub running: bool,
}

/// What a command has done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// Tables, or snapshots, it was done to.
    pub count: u64,
}

/// `POST /v1/verify`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Checked.
    pub sstables: u64,
    /// Those that are damaged, with what is wrong; no compaction takes them until a restart.
    pub damaged: Vec<String>,
}

/// `POST /v1/scrub`: of all tables that were asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Scrubbed {
    /// Written anew.
    pub sstables: u64,
    pub partitions: u64,
    /// Static rows among them.
    pub rows: u64,
    /// Partitions that stood out of order, and were kept.
    pub out_of_order: u64,
    /// Partitions of which nothing, and of which not everything, could be read.
    pub lost_partitions: u64,
    pub damaged_partitions: u64,
    /// Rows that were seen and could not be kept, and places where nobody knows how many are missing.
    pub lost_rows: u64,
    pub gaps: u64,
    /// SSTables that were damaged, with what was wrong first.
    pub damaged: Vec<String>,
    /// SSTables that were left as they are, with the reason.
    pub left: Vec<String>,
    /// `keyspace.table: tag` of the snapshots that were made before.
    pub snapshots: Vec<String>,
}

/// `GET /v1/compactions`: of all shards together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Compactions {
    /// About how many jobs tables need, of those that need any.
    pub pending: Vec<PendingCompactions>,
    pub running: Vec<RunningCompaction>,
    /// Since the start.
    pub completed: u64,
    pub failed: u64,
    pub stopped: u64,
    pub last_error: Option<String>,
    /// 0: no limit.
    pub throughput_bytes_per_s: u64,
    /// Jobs on a shard; 0: one of each size class.
    pub concurrent: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PendingCompactions {
    pub keyspace: String,
    pub table: String,
    pub jobs: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunningCompaction {
    pub id: String,
    pub shard: u32,
    pub kind: String,
    pub keyspace: String,
    pub table: String,
    /// Why it was begun.
    pub reason: String,
    /// Uncompressed bytes of its inputs.
    pub completed_bytes: u64,
    pub total_bytes: u64,
    /// Bytes on disk that it has completed.
    pub written_bytes: u64,
    pub bytes_per_s: u64,
    pub remaining_s: Option<u64>,
}

/// `GET /v1/compactions/history`: the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndedCompaction {
    pub id: String,
    pub shard: u32,
    pub keyspace: String,
    pub table: String,
    pub kind: String,
    pub reason: String,
    /// Milliseconds since 1970.
    pub compacted_at_ms: i64,
    pub took_us: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub sstables_in: u64,
    pub partitions_in: u64,
    pub partitions_out: u64,
    /// How many partitions came from one input, from two, …
    #[serde(default)]
    pub rows_merged: Vec<(u32, u64)>,
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

/// SSTables that were taken into a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Where they were.
    pub dir: String,
    /// How each was called there, and how it is called in the table's directory.
    pub sstables: Vec<(String, String)>,
    pub data_bytes: u64,
}
