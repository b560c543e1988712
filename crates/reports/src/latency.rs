//! Number and latencies of the requests of one kind.

use serde::{Deserialize, Serialize};

/// See the head of this file. Percentiles are the upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    pub count: u64,
    pub total_us: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}
