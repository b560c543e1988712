//! What a read answers.

use model::{ClusteringRow, PartitionKey, Row};

use crate::command::PagingState;

/// A part of the answer, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// By token and key. A partition that began on an earlier page appears again with its further rows. A partition
    /// without rows is complete: it has nothing but its static row. That a partition is absent says nothing if `next` is inside it.
    pub partitions: Vec<PartitionPage>,
    /// `None`: this was the last page.
    pub next: Option<PagingState>,
    /// Deleted and expired rows that had to be read past.
    pub tombstones: u64,
}

/// The rows of one partition on one page. Only what is live; deletions have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPage {
    pub key: PartitionKey,
    /// Empty if there is nothing in it. The same on every page of the partition.
    pub static_row: Row,
    /// In the direction of the read. Without rows, the static row is the answer.
    pub rows: Vec<ClusteringRow>,
}

impl PartitionPage {
    /// Rows as a client counts them: a partition with nothing but a static row is one.
    pub fn row_count(&self) -> u64 {
        (self.rows.len() as u64).max(1)
    }
}

impl Page {
    pub fn row_count(&self) -> u64 {
        self.partitions.iter().map(PartitionPage::row_count).sum()
    }
}
