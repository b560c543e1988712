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

/// Where a read goes on after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    pub place: PagePlace,
    /// What is left of `limit_rows`.
    pub remaining_rows: u64,
    /// The read's [`ReadCommand::read_id`].
    pub read_id: u64,
}

/// How far the pages of a read have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// The pages so far have all that is wanted of this partition.
    AfterPartition(PartitionKey),
    /// The last page ended inside a partition: because it was full, or because it met too many dead rows.
    Inside(UnfinishedPartition),
}

/// A partition in which a page ended. Its absence from that page says nothing about its content: a page may end in front
/// of the first live row. `shown_rows` says what earlier pages have of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedPartition {
    pub key: PartitionKey,
    /// The last row that was read, live or dead.
    pub last_row: ClusteringKey,
    /// Live rows of the partition on all pages so far, for `partition_limit_rows`. 0: no page has had the partition, so
    /// its static row is still to come, also if no live row follows.
    pub shown_rows: u64,
}

impl PagePlace {
    pub fn key(&self) -> &PartitionKey {
        match self {
            Self::AfterPartition(key) => key,
            Self::Inside(unfinished) => &unfinished.key,
        }
    }

    pub fn unfinished(&self) -> Option<&UnfinishedPartition> {
        match self {
            Self::AfterPartition(_) => None,
            Self::Inside(unfinished) => Some(unfinished),
        }
    }

    /// Both are at the same row, or after the same partition.
    pub fn is_same(&self, other: &Self) -> bool {
        let last_row = |place: &Self| place.unfinished().map(|unfinished| unfinished.last_row.clone());
        self.key() == other.key() && last_row(self) == last_row(other)
    }
}

impl PagingState {
    /// The partition in which the page ended, unless it ended between two partitions.
    pub fn unfinished(&self) -> Option<&UnfinishedPartition> {
        self.place.unfinished()
    }
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
        match (&self.partitions, &paging.place) {
            (PartitionRange::Key(_), PagePlace::AfterPartition(_)) => None,
            (PartitionRange::Key(key), PagePlace::Inside(_)) => Some(PartitionRange::Key(key.clone())),
            (PartitionRange::Between { end, .. }, place) => {
                let start = match place {
                    PagePlace::Inside(unfinished) => RingPosition::BeforeKey(unfinished.key.clone()),
                    PagePlace::AfterPartition(key) => RingPosition::AfterKey(key.clone()),
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
