//! Answers of the admin API about why compactions run or wait, and why tombstones are still there.

use serde::{Deserialize, Serialize};

/// `GET /v1/compactions/explain?keyspace=&table=`: for each shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExplainedCompactions {
    pub shard: u32,
    /// What the strategy considered and decided.
    pub explanation: String,
    /// The job that the strategy wants next.
    pub next: Option<ExplainedJob>,
    /// What it waits for; empty: nothing.
    pub waits: Vec<String>,
    pub pending: u64,
    /// Bytes that must still be rewritten.
    pub backlog_bytes: u64,
    pub running: Vec<ExplainedRunning>,
    /// When the backlog ends at the rate of the running jobs; `None`: unknown, because none runs.
    pub backlog_ends_s: Option<u64>,
    /// Limit of the rate of all jobs of the shard; 0: none.
    pub throughput_bytes_per_s: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExplainedJob {
    pub sstables: u64,
    pub bytes: u64,
    /// Disk space that it takes in addition to its inputs.
    pub needs_bytes: u64,
    pub reason: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExplainedRunning {
    pub id: String,
    pub kind: String,
    pub reason: String,
    pub completed_bytes: u64,
    pub total_bytes: u64,
    pub bytes_per_s: u64,
}

/// `GET /v1/tombstones?keyspace=&table=`: of all shards.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tombstones {
    pub gc_grace_s: u32,
    /// `timeout`, `disabled`, `immediate` or `repair`.
    pub mode: String,
    /// The node's clock, in seconds since 1970.
    pub now_s: u32,
    /// Tombstones from before this time are droppable; 0: none.
    pub gc_before_s: u32,
    /// SSTables with tombstones; those with the most droppable ones come first.
    pub sstables: Vec<TombstonesOfSSTable>,
    /// Tombstones that compactions of any table kept since the start, by reason.
    pub kept_since_start: Vec<KeptTombstones>,
}

/// Tombstones and expiring cells of an SSTable.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TombstonesOfSSTable {
    pub shard: u32,
    pub sstable: String,
    pub tombstones: u64,
    /// Older than the grace period, by an estimate.
    pub droppable: u64,
    /// Seconds since 1970.
    pub oldest_s: u32,
    pub newest_s: u32,
    /// Why they are still there, and until when.
    pub kept_because: Vec<String>,
    /// What would free them.
    pub freed_by: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeptTombstones {
    pub reason: String,
    pub count: u64,
}
