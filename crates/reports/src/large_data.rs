//! Partitions, rows and cells that are larger than a threshold.

/// A partition, row or cell in one SSTable that is larger than a threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeItem {
    pub keyspace: String,
    pub table: String,
    /// File name of the SSTable's data, such as `me-7-big-Data.db`.
    pub sstable: String,
    /// When the SSTable was written, in milliseconds since the Unix epoch.
    pub written_ms: i64,
    /// Formatted for display: values with `:` between.
    pub partition_key: String,
    pub bytes: u64,
    pub kind: LargeKind,
}

/// Kind of a large item. Clustering keys are formatted for display; they are empty for static rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargeKind {
    Partition { rows: u64, dead_rows: u64, range_tombstones: u64 },
    Row { clustering_key: String },
    Cell { clustering_key: String, column: String, elements: Option<u64> },
}
