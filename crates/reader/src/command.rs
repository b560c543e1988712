//! What a read asks for.

use std::sync::Arc;

use model::{
    ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, Position, RingPosition, TableId,
    TableSchema,
};

use crate::trace::ReadTrace;

/// A read of one table.
#[derive(Clone, Debug)]
pub struct ReadCommand {
    pub table: TableId,
    pub partitions: PartitionRange,
    /// Which rows of each partition; disjoint, rising in the table's order.
    pub ranges: Arc<[ClusteringRange]>,
    /// Rows of each partition from the last to the first.
    pub reversed: bool,
    /// What has expired by then is not there. Seconds since the Unix epoch; `None`: when the read runs.
    pub now_s: Option<u32>,
    /// At most so many rows over all pages of the read.
    pub limit_rows: u64,
    pub partition_limit_rows: u64,
    /// A page ends after so many rows.
    pub page_rows: u64,
    /// Or when its rows take about so many bytes.
    pub page_bytes: u64,
    /// Or behind so many tombstones, also if there is nothing live on it.
    pub page_tombstones: u64,
    /// Go on behind the page that gave this.
    pub paging: Option<PagingState>,
    /// Tells this read from others, so that its next page finds what this one leaves open; 0: it gets a number.
    pub read_id: u64,
    /// Neither look into the cache nor fill it.
    pub bypass_cache: bool,
    /// If `reversed`: not by walking backwards but by the old method, `ReversingReader`, with so many bytes at most. To be
    /// compared with.
    pub buffered_reverse_bytes_max: Option<u64>,
    /// The read is given up so long after it came; `None`: as the engine's options say.
    pub timeout_us: Option<u64>,
    /// Where to note what is done; `None`: nobody asked.
    pub trace: Option<Arc<ReadTrace>>,
}

/// Where a read goes on: behind the last row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    pub key: PartitionKey,
    /// The last row of the partition that was returned; `None`: nothing more is wanted of this partition.
    pub row: Option<ClusteringKey>,
    /// Rows of the partition that were returned, for `partition_limit_rows`.
    pub partition_rows: u64,
    /// What is left of `limit_rows`.
    pub remaining_rows: u64,
    /// The read's [`ReadCommand::read_id`].
    pub read_id: u64,
}

impl ReadCommand {
    /// It asks for the same rows in the same order as `other`, be it for another page of them.
    pub fn wants_same(&self, other: &Self) -> bool {
        (self.table, self.reversed, self.bypass_cache) == (other.table, other.reversed, other.bypass_cache)
            && self.partition_limit_rows == other.partition_limit_rows
            && self.partitions == other.partitions
            && self.ranges == other.ranges
    }

    /// Everything in `partitions`, in pages of 10,000 rows or 1 MiB.
    pub fn new(table: TableId, partitions: PartitionRange) -> Self {
        Self {
            table,
            partitions,
            ranges: Arc::new([ClusteringRange::all()]),
            reversed: false,
            now_s: None,
            limit_rows: u64::MAX,
            partition_limit_rows: u64::MAX,
            page_rows: 10_000,
            page_bytes: 1 << 20,
            page_tombstones: u64::MAX,
            paging: None,
            read_id: 0,
            bypass_cache: false,
            buffered_reverse_bytes_max: None,
            timeout_us: None,
            trace: None,
        }
    }

    /// Which partitions are still wanted; `None` if none.
    pub fn remaining_partitions(&self) -> Option<PartitionRange> {
        let Some(paging) = &self.paging else { return Some(self.partitions.clone()) };
        match (&self.partitions, &paging.row) {
            (PartitionRange::Key(_), None) => None,
            (PartitionRange::Key(key), Some(_)) => Some(PartitionRange::Key(key.clone())),
            (PartitionRange::Between { end, .. }, row) => {
                let start = match row {
                    Some(_) => RingPosition::BeforeKey(paging.key.clone()),
                    None => RingPosition::AfterKey(paging.key.clone()),
                };
                Some(PartitionRange::Between { start, end: end.clone() })
            }
        }
    }

    /// The wanted rows that are behind `row`, in the direction of the read.
    pub fn ranges_behind(&self, schema: &TableSchema, row: &ClusteringKey) -> Vec<ClusteringRange> {
        let behind = |range: &ClusteringRange| {
            let mut range = range.clone();
            if self.reversed {
                let end = Position::before(row.clone());
                if schema.compare_positions(&end, &range.end).is_lt() {
                    range.end = end;
                }
            } else {
                let start = Position::after(row.clone());
                if schema.compare_positions(&start, &range.start).is_gt() {
                    range.start = start;
                }
            }
            schema.compare_positions(&range.start, &range.end).is_lt().then_some(range)
        };
        self.ranges.iter().filter_map(behind).collect()
    }
}
