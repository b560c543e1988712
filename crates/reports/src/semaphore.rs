//! Reads that run and wait.

/// A semaphore that limits concurrent reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SemaphoreReport {
    pub name: String,
    pub admitted: u64,
    pub admitted_limit: u64,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    pub queued: u64,
    /// Counters by ScyllaDB's names.
    pub stats: Vec<(String, u64)>,
    pub permits: Vec<PermitReport>,
}

/// Permits of reads with the same table, operation and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitReport {
    pub keyspace: String,
    pub table: String,
    pub operation: String,
    pub state: String,
    pub permits: u64,
    /// The number of them that are admitted.
    pub admitted: u64,
    pub memory_bytes: u64,
}
