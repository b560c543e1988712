//! Answers of the admin API about requests and their clients: distributions, pools, connections, settings,
//! samples.

use base::histogram::EstimatedHistogram;
use serde::{Deserialize, Serialize};

/// A distribution. Percentiles are upper bounds of buckets, at most a fifth too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    pub count: u64,
    pub p50: u64,
    pub p75: u64,
    pub p95: u64,
    pub p98: u64,
    pub p99: u64,
    pub min: u64,
    pub max: u64,
    /// A value was larger than the largest bucket, so that the percentiles may be unknown.
    #[serde(default)]
    pub is_overflowed: bool,
}

impl Percentiles {
    pub fn of(histogram: &EstimatedHistogram) -> Self {
        let at = |share| histogram.percentile(share);
        Self {
            count: histogram.count(),
            p50: at(0.5),
            p75: at(0.75),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            min: histogram.min(),
            max: histogram.max(),
            is_overflowed: histogram.is_overflowed(),
        }
    }

    /// In the order of Cassandra's tables: 50 %, 75 %, 95 %, 98 %, 99 %, least and greatest.
    pub fn rows(&self) -> [u64; 7] {
        [self.p50, self.p75, self.p95, self.p98, self.p99, self.min, self.max]
    }
}

/// `GET /v1/histograms/tables?keyspace=&table=`: since the start of the node; partitions: of all SSTables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableHistograms {
    pub keyspace: String,
    pub table: String,
    pub sstable_count: u64,
    pub read_latency_us: Percentiles,
    pub write_latency_us: Percentiles,
    /// SSTables that a read of one partition opened.
    pub sstables_per_read: Percentiles,
    pub partition_bytes: Percentiles,
    pub partition_cells: Percentiles,
    /// Of a page.
    pub live_rows: Percentiles,
    pub tombstones: Percentiles,
}

/// `GET /v1/histograms/requests`: microseconds from the arrival of a statement to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestHistograms {
    pub read: Percentiles,
    pub write: Percentiles,
    pub range: Percentiles,
    pub cas_read: Percentiles,
    pub cas_write: Percentiles,
}

/// `GET /v1/pools`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pools {
    pub pools: Vec<Pool>,
    pub dropped: Vec<Dropped>,
}

/// Work of one kind on all shards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    pub name: String,
    pub active: u64,
    pub pending: u64,
    pub completed: u64,
    pub blocked: u64,
    pub all_time_blocked: u64,
    /// The most that may be active; `None`: memory or the requests themselves limit it.
    pub limit: Option<u64>,
}

/// Requests that timed out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Dropped {
    pub kind: String,
    pub count: u64,
}

/// `GET /v1/clients`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClientConnection {
    pub address: String,
    pub port: u16,
    /// TLS version and cipher suite.
    pub tls: Option<(String, String)>,
    pub protocol_version: u8,
    pub user: String,
    pub keyspace: Option<String>,
    pub requests: u64,
    pub driver_name: Option<String>,
    pub driver_version: Option<String>,
    pub shard: u32,
    pub options: std::collections::BTreeMap<String, String>,
}

/// `GET /v1/slow`: statements that took longer than the limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SlowStatements {
    /// `slow_query_log_timeout`; 0: no statement is recorded.
    pub limit_us: u64,
    /// Slow executions since the start of the node; those of statements that are no longer listed too.
    pub count: u64,
    /// The last ones of each shard; the one that was slow last comes first.
    pub statements: Vec<SlowStatement>,
}

/// The slow executions of a text on a shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SlowStatement {
    /// Its first 1000 bytes.
    pub text: String,
    pub shard: u32,
    pub count: u64,
    /// End of the last one, in milliseconds since the Unix epoch.
    pub last_ms: i64,
    pub last_us: u64,
    pub mean_us: u64,
    pub max_us: u64,
}

/// `GET /v1/largedata`: a partition, row or cell of one SSTable that is above the threshold of its kind; the
/// largest come first, at most 200.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeData {
    /// `partition`, `row` or `cell`.
    pub kind: String,
    pub keyspace: String,
    pub table: String,
    pub sstable: String,
    /// When the SSTable was written, in milliseconds since the Unix epoch.
    pub written_ms: i64,
    pub partition: String,
    /// Empty for partitions and static rows.
    pub clustering: String,
    /// Of a cell.
    pub column: Option<String>,
    pub bytes: u64,
    /// Of a partition.
    pub rows: Option<u64>,
    /// Deleted rows and range tombstones of a partition.
    pub tombstones: Option<u64>,
    /// Of a cell that is a collection.
    pub elements: Option<u64>,
}

/// `GET /v1/timeouts`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimeoutSetting {
    pub kind: String,
    pub ms: f64,
}

/// `GET /v1/tracing`
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TraceProbability {
    pub probability: f64,
}

/// `POST /v1/toppartitions?keyspace=&tables=&duration_ms=&capacity=&count=`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TopPartitions {
    pub duration_ms: u64,
    /// Requests that were counted.
    pub reads_counted: u64,
    pub writes_counted: u64,
    pub reads: Vec<TopPartition>,
    pub writes: Vec<TopPartition>,
}

/// The count is at most `error` too large.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TopPartition {
    pub keyspace: String,
    pub table: String,
    pub partition: String,
    pub count: u64,
    pub error: u64,
}
