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
    /// Whether clients are served.
    pub native_transport: bool,
    /// Client connections.
    pub connections: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cache {
    pub entries: u64,
    pub size_bytes: u64,
    pub capacity_bytes: u64,
    pub hits: u64,
    pub misses: u64,
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
    pub max_sstable_bytes: u64,
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

/// What a command has done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// Tables, or snapshots, it was done to.
    pub count: u64,
}
