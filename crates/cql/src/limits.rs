//! Size limits of results and of batches.

/// Limits of the result of a SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// A page of a paged read ends when its cells reach this size.
    pub page_bytes: u64,
    /// A page also ends after this number of tombstones, even if it has no rows.
    pub page_tombstones: u64,
    /// An unpaged result larger than this is logged.
    pub unpaged_soft_bytes: u64,
    /// An unpaged result larger than this is refused.
    pub unpaged_hard_bytes: u64,
}

impl Default for ResultLimits {
    /// ScyllaDB's defaults.
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            page_tombstones: 10_000,
            unpaged_soft_bytes: 1 << 20,
            unpaged_hard_bytes: 100 << 20,
        }
    }
}

/// Batch sizes above which a warning is given or the batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// A batch of several partitions larger than this is answered with a warning.
    pub warn_bytes: u64,
    /// A batch of several partitions larger than this is refused.
    pub fail_bytes: u64,
    /// An unlogged batch with more partitions than this is answered with a warning.
    pub unlogged_partitions: u64,
}

impl BatchLimits {
    /// Cassandra's defaults.
    pub const DEFAULT: Self = Self { warn_bytes: 5 << 10, fail_bytes: 50 << 10, unlogged_partitions: 10 };
}

/// Reason for logging a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSeverity {
    /// The batch is larger than `fail_bytes` and is refused.
    TooLarge,
    /// The batch is larger than `warn_bytes`.
    Large,
    /// The batch is unlogged and has more than `unlogged_partitions` partitions.
    Spread,
}
