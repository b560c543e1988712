//! Answers of the admin API about the cluster of one node: its ring, its keyspaces, its directories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `GET /v1/cluster`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cluster {
    pub cluster_name: String,
    /// Full names of Java classes.
    pub snitch: String,
    pub partitioner: String,
    pub schema_version: String,
    /// The version that clients see.
    pub release_version: String,
    pub host_id: String,
    pub address: String,
    pub port: u16,
    pub storage_port: u16,
    pub data_center: String,
    pub rack: String,
    pub tokens: Vec<i64>,
    /// Seconds since 1970 at the start.
    pub generation: u64,
    pub uptime_s: u64,
    pub load_bytes: u64,
    /// `NORMAL`, `DRAINING` or `DRAINED`.
    pub mode: String,
    pub keyspaces: Vec<KeyspaceReplication>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeyspaceReplication {
    pub name: String,
    /// `class` and its options.
    pub replication: BTreeMap<String, String>,
}

/// `GET /v1/endpoints?keyspace=&table=&key=`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Endpoints {
    pub endpoints: Vec<String>,
    pub token: i64,
}

/// `GET /v1/datapaths?keyspace=&tables=`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataPaths {
    pub keyspace: String,
    pub table: String,
    pub paths: Vec<String>,
}

/// `GET /v1/rangekeysample`: tokens of a sample of the keys in SSTables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeySample {
    pub keyspace: String,
    pub table: String,
    pub tokens: Vec<i64>,
}

/// `GET /v1/sstableinfo?keyspace=&tables=`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableSSTables {
    pub keyspace: String,
    pub table: String,
    pub sstables: Vec<SSTableInfo>,
}

/// An SSTable. Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SSTableInfo {
    pub generation: String,
    pub version: String,
    pub level: u32,
    /// Data.db.
    pub data_size: u64,
    pub uncompressed_size: u64,
    pub filter_size: u64,
    pub index_size: u64,
    /// Data and index.
    pub size: u64,
    pub partitions: u64,
    pub tombstones: u64,
    pub droppable_tombstones: f64,
    /// The newest write, in milliseconds since 1970.
    pub max_timestamp_ms: i64,
}

/// `GET /v1/compactions/thresholds?keyspace=&table=`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactionThresholds {
    pub min: u32,
    pub max: u32,
}

/// `GET /v1/viewbuildstatus?keyspace=&view=`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ViewBuild {
    pub host: String,
    /// `SUCCESS` or `STARTED`.
    pub status: String,
}
