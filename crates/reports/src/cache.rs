//! Caches, over all shards.

use serde::{Deserialize, Serialize};

/// Memory and hits of a cache since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Cassandra's name: `chunks`, `keys` or `rows`.
    #[serde(default)]
    pub name: String,
    pub entries: u64,
    #[serde(rename = "size_bytes")]
    pub bytes: u64,
    /// The memory that all caches share.
    pub capacity_bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

impl CacheReport {
    pub fn requests(&self) -> u64 {
        self.hits + self.misses
    }

    /// The part of the requests that were hits; NaN without requests.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests() as f64
    }
}
