//! The result of a read.

use model::{ClusteringRow, PartitionKey, Row};

use crate::command::PagingState;

/// One page of the result, and the position of the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Ordered by token and key. A partition that began on an earlier page appears again with its further
    /// rows. A partition without rows is complete: it has only its static row. If `next` is inside a
    /// partition that is absent from this page, the partition is not necessarily empty.
    pub partitions: Vec<PartitionPage>,
    /// `None`: this was the last page.
    pub next: Option<PagingState>,
    /// The number of deleted and expired rows that were read.
    pub tombstones: u64,
    /// The newest timestamp of a deletion that was read, which shadows older writes to what it covers.
    pub newest_deletion_us: Option<i64>,
}

/// The rows of one partition on one page. They contain only live data; tombstones have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPage {
    /// The partition's key.
    pub key: PartitionKey,
    /// Empty if it has no live cell. The same on every page of the partition.
    pub static_row: Row,
    /// In the direction of the read. If empty, the static row alone is the result.
    pub rows: Vec<ClusteringRow>,
}

impl PartitionPage {
    /// The number of rows as a client counts them: a partition with only a static row counts as one.
    pub fn row_count(&self) -> u64 {
        (self.rows.len() as u64).max(1)
    }
}

impl Page {
    /// The number of rows of all partitions, as a client counts them.
    pub fn row_count(&self) -> u64 {
        self.partitions.iter().map(PartitionPage::row_count).sum()
    }
}
