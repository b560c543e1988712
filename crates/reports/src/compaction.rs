//! Running and ended compactions.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A running job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCompaction {
    /// Counted from 1 on its shard.
    pub id: u64,
    pub shard: u32,
    pub keyspace: String,
    pub table: String,
    pub kind: Cow<'static, str>,
    /// Why the job was started.
    pub reason: String,
    /// Uncompressed bytes of its inputs, in total and already read.
    pub total_bytes: u64,
    #[serde(rename = "completed_bytes")]
    pub read_bytes: u64,
    /// Bytes on disk of completed outputs.
    pub written_bytes: u64,
    pub running_us: u64,
}

impl RunningCompaction {
    /// The id in which a user names the job: shard and number, `0-17`.
    pub fn task_id(&self) -> String {
        format!("{}-{}", self.shard, self.id)
    }

    /// Mean read rate of the job.
    pub fn bytes_per_s(&self) -> f64 {
        self.read_bytes as f64 * 1e6 / self.running_us.max(1) as f64
    }

    /// Remaining time at the mean rate so far; `None` before the first read.
    pub fn remaining_us(&self) -> Option<u64> {
        let left = self.total_bytes.saturating_sub(self.read_bytes);
        (self.read_bytes > 0).then(|| (left as f64 * 1e6 / self.bytes_per_s()) as u64)
    }
}

/// A job that ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedCompaction {
    /// A UUID of version 1; its time is the end of the job.
    pub id: Uuid,
    pub shard: u32,
    pub keyspace: String,
    pub table: String,
    pub kind: Cow<'static, str>,
    pub reason: String,
    /// Milliseconds since 1970.
    #[serde(rename = "compacted_at_ms")]
    pub ended_ms: i64,
    pub took_us: u64,
    /// Bytes on disk.
    #[serde(rename = "bytes_in")]
    pub input_bytes: u64,
    #[serde(rename = "bytes_out")]
    pub output_bytes: u64,
    #[serde(rename = "sstables_in")]
    pub input_sstables: u64,
    /// The sum over the inputs: a partition in two inputs counts twice.
    #[serde(rename = "partitions_in")]
    pub input_partitions: u64,
    #[serde(rename = "partitions_out")]
    pub output_partitions: u64,
    /// Number of partitions by the number of inputs that had them: `(inputs, partitions)`.
    #[serde(default, rename = "rows_merged")]
    pub merged: Vec<(u32, u64)>,
}

impl EndedCompaction {
    /// The order of the history, the same before and after a restart: by end time, oldest first, then by id.
    pub fn order(&self) -> (i64, Uuid) {
        (self.ended_ms, self.id)
    }
}

/// The log line, with the facts of Cassandra's: inputs and outputs, rate, and reason.
impl fmt::Display for EndedCompaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took_s = self.took_us.max(1) as f64 / 1e6;
        let rate = self.input_bytes as f64 / took_s / f64::from(1 << 20);
        let percent = match self.input_bytes {
            0 => 0.0,
            input_bytes => self.output_bytes as f64 * 100.0 / input_bytes as f64,
        };
        write!(
            f,
            "{} of {}.{}: {} SSTables, {} bytes to {} bytes ({percent:.0}% of them) in {took_s:.3} s ({rate:.1} MiB/s); \
             {} partitions to {}; {}",
            self.kind,
            self.keyspace,
            self.table,
            self.input_sstables,
            self.input_bytes,
            self.output_bytes,
            self.input_partitions,
            self.output_partitions,
            self.reason
        )
    }
}
