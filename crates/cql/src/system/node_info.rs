//! Description of a node, as its system tables show it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::TableId;
use reports::{CacheReport, LargeItem, LatencyReport, MemoryClass, SemaphoreReport, SnapshotReport};
use uuid::Uuid;

use super::traces::Trace;

/// The version of Cassandra whose behaviour drivers may expect. This file has every version that clients see;
/// docs/versions.md gives the reasons for their values. `nodetool version` prints the version of the program
/// instead (Cargo.toml).
const RELEASE_VERSION: &str = "4.1.8";
const CQL_VERSION: &str = "3.4.6";
const NATIVE_PROTOCOL_VERSION: &str = "5";
const STORAGE_PORT: u16 = 7000;

/// See the head of this file. Addresses are those at which clients reach the node, never `0.0.0.0`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    pub cluster_name: String,
    pub host_id: Uuid,
    pub data_center: String,
    pub rack: String,
    /// Address and port for other nodes.
    pub broadcast_address: IpAddr,
    pub broadcast_port: u16,
    pub listen_address: IpAddr,
    pub listen_port: u16,
    /// Address and port for clients.
    pub rpc_address: IpAddr,
    pub rpc_port: u16,
    pub release_version: String,
    /// Version of the Messina program.
    pub program_version: String,
    pub cql_version: String,
    pub native_protocol_version: String,
    /// Full name of a Java class, as `snitch`.
    pub partitioner: String,
    pub snitch: String,
    /// Sorted in ascending order.
    pub tokens: Vec<i64>,
    /// Start time of the node, in seconds since the Unix epoch.
    pub generation_s: i32,
    /// Settings by their name in the configuration file.
    pub settings: BTreeMap<String, SettingInfo>,
    pub clients: Vec<ClientInfo>,
    pub estimates: BTreeMap<TableId, TableEstimate>,
    /// Large partitions, rows and cells of SSTables; filled only for queries that read them.
    pub large_data: Vec<LargeItem>,
    /// Reads and memory of each shard; filled only for queries that read them.
    pub shards: Vec<ShardInside>,
    /// Time since the start of the node.
    pub uptime_s: u64,
    /// Sizes and latencies of the tables. This field and those below are filled only for queries that read
    /// them.
    pub tables: Vec<TableInfo>,
    /// Compactions that are running.
    pub sstable_tasks: Vec<SSTableTask>,
    pub caches: Vec<CacheReport>,
    /// Scheduling groups.
    pub groups: Vec<GroupInfo>,
    pub snapshots: Vec<SnapshotReport>,
    /// Secondary indexes that are not built yet.
    pub unbuilt_indexes: Vec<Uuid>,
    /// Materialized views that are not built yet.
    pub view_builds: Vec<ViewBuildInfo>,
    pub prepared: Vec<PreparedInfo>,
    /// The latest traces, oldest first.
    pub traces: Vec<Arc<Trace>>,
}

/// An option of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// The value in the syntax of the configuration file.
    pub value: String,
    /// The type, as a description for users.
    pub kind: String,
}

/// A client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    pub address: IpAddr,
    pub port: u16,
    pub protocol_version: u8,
    pub requests: u64,
    pub username: String,
    pub driver_name: Option<String>,
    pub driver_version: Option<String>,
    /// The shard that serves the connection.
    pub shard: u32,
    /// State of the connection, by Cassandra's names.
    pub stage: &'static str,
    /// Options that the client sent in STARTUP.
    pub options: BTreeMap<String, String>,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// TLS version and cipher suite; `None` without TLS.
    pub tls: Option<(String, String)>,
}

/// Statistics of a table, over all shards. An SSTable that several shards read is counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableInfo {
    pub keyspace: String,
    pub table: String,
    pub disk_bytes: u64,
    pub largest_partition_bytes: u64,
    pub largest_sstable_bytes: u64,
    pub reads: LatencyReport,
    pub writes: LatencyReport,
}

/// A running compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SSTableTask {
    /// UUID of version 1.
    pub id: Uuid,
    pub keyspace: String,
    pub table: String,
    /// Name of the operation in nodetool, such as `Compaction`.
    pub kind: String,
    /// Uncompressed bytes of the inputs that have been read so far.
    pub read_bytes: u64,
    /// Uncompressed bytes of all inputs.
    pub total_bytes: u64,
}

/// A materialized view that is being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewBuildInfo {
    pub view: Uuid,
    /// Partitions of the base table up to this token are in the view.
    pub last_token: i64,
    /// Partitions of the base table that have been read.
    pub keys_built: u64,
}

/// Statistics of a scheduling group, over all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo {
    pub name: String,
    pub shards: u64,
    /// Tasks that are ready and wait for the CPU.
    pub ready_tasks: u64,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedInfo {
    pub id: [u8; 16],
    /// The keyspace in use when the statement was prepared.
    pub keyspace: Option<Arc<str>>,
    pub text: Arc<str>,
}

/// Reads and memory of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInside {
    pub semaphores: Vec<SemaphoreReport>,
    pub memory: Vec<MemoryClass>,
}

/// Estimated size of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableEstimate {
    pub partitions: u64,
    pub mean_partition_bytes: u64,
}

impl NodeInfo {
    /// Describes a cluster of one node that owns the whole ring.
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
            unbuilt_indexes: vec![],
            view_builds: vec![],
            prepared: vec![],
            traces: vec![],
        }
    }
}
