//! What a node tells of itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::TableId;
use uuid::Uuid;

use super::traces::Trace;

/// The version of Cassandra whose behaviour drivers may expect. All versions that clients are shown are here, and docs/versions.md
/// says why they are what they are. `nodetool version` shows the program's own version instead (Cargo.toml).
const RELEASE_VERSION: &str = "4.1.8";
const CQL_VERSION: &str = "3.4.6";
const NATIVE_PROTOCOL_VERSION: &str = "5";
const STORAGE_PORT: u16 = 7000;

/// See the head of this file. Addresses are those that clients reach the node by, never `0.0.0.0`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    pub cluster_name: String,
    pub host_id: Uuid,
    pub data_center: String,
    pub rack: String,
    /// Where other nodes would find it.
    pub broadcast_address: IpAddr,
    pub broadcast_port: u16,
    pub listen_address: IpAddr,
    pub listen_port: u16,
    /// Where clients find it.
    pub rpc_address: IpAddr,
    pub rpc_port: u16,
    pub release_version: String,
    /// Our own.
    pub program_version: String,
    pub cql_version: String,
    pub native_protocol_version: String,
    /// Full names of Java classes.
    pub partitioner: String,
    pub snitch: String,
    /// Rising.
    pub tokens: Vec<i64>,
    /// When the node started, in seconds since the Unix epoch.
    pub generation_s: i32,
    /// By the names of the configuration file.
    pub settings: BTreeMap<String, SettingInfo>,
    pub clients: Vec<ClientInfo>,
    pub estimates: BTreeMap<TableId, TableEstimate>,
    /// What is large in SSTables; filled where it is read.
    pub large_data: Vec<LargeItem>,
    /// What reads and memory are on each shard; filled where it is read.
    pub shards: Vec<ShardInside>,
    /// How long the node has run.
    pub uptime_s: u64,
    /// How large tables are, and how long they take; filled where it is read, as are those that follow.
    pub tables: Vec<TableInfo>,
    /// Compactions that run.
    pub sstable_tasks: Vec<SSTableTask>,
    pub caches: Vec<CacheInfo>,
    /// Scheduling groups.
    pub groups: Vec<GroupInfo>,
    pub snapshots: Vec<SnapshotInfo>,
    pub prepared: Vec<PreparedInfo>,
    /// The latest, oldest first.
    pub traces: Vec<Arc<Trace>>,
}

/// An option of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// As it would be written.
    pub value: String,
    /// Its type in words.
    pub kind: String,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    pub address: IpAddr,
    pub port: u16,
    pub protocol_version: u8,
    pub requests: u64,
    pub username: String,
    pub driver_name: Option<String>,
    pub driver_version: Option<String>,
    /// Which serves it.
    pub shard: u32,
    /// How far it has come: Cassandra's names.
    pub stage: &'static str,
    /// What it said in STARTUP.
    pub options: BTreeMap<String, String>,
    /// The one in use.
    pub keyspace: Option<String>,
    /// Protocol and cipher suite.
    pub tls: Option<(String, String)>,
}

/// Something that is larger than a threshold, in one SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeItem {
    pub keyspace: String,
    pub table: String,
    /// `me-7-big-Data.db`
    pub sstable: String,
    /// Milliseconds since 1970.
    pub written_ms: i64,
    /// For people.
    pub partition_key: String,
    pub bytes: u64,
    pub kind: LargeKind,
}

/// What it is. Clustering keys are for people, and empty for static rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargeKind {
    Partition { rows: u64, dead_rows: u64, range_tombstones: u64 },
    Row { clustering_key: String },
    Cell { clustering_key: String, column: String, elements: Option<u64> },
}

/// A table on all shards. An SSTable that several read is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableInfo {
    pub keyspace: String,
    pub table: String,
    pub disk_bytes: u64,
    pub largest_partition_bytes: u64,
    pub largest_sstable_bytes: u64,
    pub reads: LatencyInfo,
    pub writes: LatencyInfo,
}

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyInfo {
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// A compaction that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SSTableTask {
    /// Version 1.
    pub id: Uuid,
    pub keyspace: String,
    pub table: String,
    /// As nodetool calls it: `Compaction`.
    pub kind: String,
    /// Uncompressed bytes of its inputs, those it has read and all.
    pub read_bytes: u64,
    pub total_bytes: u64,
}

/// A cache on all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheInfo {
    /// Cassandra's: `chunks`, `keys`, `rows`.
    pub name: String,
    pub bytes: u64,
    pub capacity_bytes: u64,
    pub entries: u64,
    pub hits: u64,
    pub requests: u64,
}

/// A scheduling group on all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo {
    pub name: String,
    pub shards: u64,
    /// Tasks that wait for the CPU.
    pub ready_tasks: u64,
}

/// A snapshot of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotInfo {
    pub tag: String,
    pub keyspace: String,
    pub table: String,
    pub disk_bytes: u64,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedInfo {
    pub id: [u8; 16],
    /// The one in use when it was prepared.
    pub keyspace: Option<Arc<str>>,
    pub text: Arc<str>,
}

/// What is going on inside a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInside {
    pub semaphores: Vec<SemaphoreInfo>,
    /// By class: bytes, and what it may take.
    pub memory: Vec<(String, u64, Option<u64>)>,
}

/// Which reads may run at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SemaphoreInfo {
    pub name: String,
    pub admitted: u64,
    pub admitted_limit: u64,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub queued: u64,
    pub stats: Vec<(String, u64)>,
    pub permits: Vec<PermitInfo>,
}

/// Reads that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitInfo {
    pub keyspace: String,
    pub table: String,
    pub operation: String,
    pub state: String,
    pub permits: u64,
    pub admitted: u64,
    pub memory_bytes: u64,
}

/// About how much is in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEstimate {
    pub partitions: u64,
    pub mean_partition_bytes: u64,
}

impl NodeInfo {
    /// A cluster of one node that has the whole ring.
    pub fn new(host_id: Uuid, address: IpAddr, port: u16) -> Self {
        Self {
            cluster_name: "Messina Cluster".to_string(),
            host_id,
            data_center: "datacenter1".to_string(),
            rack: "rack1".to_string(),
            broadcast_address: address,
            broadcast_port: STORAGE_PORT,
            listen_address: address,
            listen_port: STORAGE_PORT,
            rpc_address: address,
            rpc_port: port,
            release_version: RELEASE_VERSION.to_string(),
            program_version: env!("CARGO_PKG_VERSION").to_string(),
            cql_version: CQL_VERSION.to_string(),
            native_protocol_version: NATIVE_PROTOCOL_VERSION.to_string(),
            partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".to_string(),
            snitch: "org.apache.cassandra.locator.SimpleSnitch".to_string(),
            tokens: vec![0],
            generation_s: 0,
            settings: BTreeMap::new(),
            clients: vec![],
            estimates: BTreeMap::new(),
            large_data: vec![],
            shards: vec![],
            uptime_s: 0,
            tables: vec![],
            sstable_tasks: vec![],
            caches: vec![],
            groups: vec![],
            snapshots: vec![],
            prepared: vec![],
            traces: vec![],
        }
    }
}
