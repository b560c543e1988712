//! The parameters of a read, and the position at which its next page continues.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use model::{
    ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, Position, RingPosition, TableId,
    TableSchema,
};
use uuid::Uuid;

use crate::trace::ReadTrace;

/// A read of one table.
#[derive(Clone, Debug)]
pub struct ReadCommand {
    /// The table to read. Errors: the shard has no such table.
    pub table: TableId,
    /// The partitions to read: a key, or a range of the ring.
    pub partitions: PartitionRange,
    /// Wanted rows of each partition; disjoint, rising in the table's order.
    pub ranges: Arc<[ClusteringRange]>,
    /// Whether rows of each partition are returned from the last to the first.
    pub reversed: bool,
    /// Time by which data has expired, in seconds since the Unix epoch; `None`: the time at which the read
    /// runs.
    pub now_s: Option<u32>,
    /// The most rows over all pages of the read.
    pub limit_rows: u64,
    /// The most rows of each partition over all pages of the read.
    pub partition_limit_rows: u64,
    /// A page ends after this number of rows.
    pub page_rows: u64,
    /// A page also ends when its rows take approximately this number of bytes.
    pub page_bytes: u64,
    /// A page also ends after this number of tombstones, even if it has no live row.
    pub page_tombstones: u64,
    /// Continue after the page that returned this state.
    pub paging: Option<PagingState>,
    /// Identifies the read, so that its next page finds the readers that this one leaves open; 0: assign a
    /// number.
    pub read_id: u64,
    /// Neither use the cache nor fill it.
    pub bypass_cache: bool,
    /// If `reversed`: use the old method, `ReversingReader`, with at most this number of bytes, instead of
    /// walking backwards. For comparisons.
    pub buffered_reverse_bytes_max: Option<u64>,
    /// The read is abandoned this time after its arrival; `None`: the timeout of the engine's options.
    pub timeout_us: Option<u64>,
    /// Receives a trace of the read; `None`: not traced.
    pub trace: Option<Arc<ReadTrace>>,
    /// Only rows that may match this query of secondary indexes. See [`IndexQuery`]; `None`: all rows.
    pub index: Option<Arc<IndexQuery>>,
}

/// Conditions that the secondary indexes of the table answer; a row must satisfy all.
///
/// The pages of the read contain at least every row that matches, in the order and with the limits of a read
/// without the query. Rows that do not match may be among them: the caller filters, and it must not limit the
/// number of rows by [`ReadCommand::limit_rows`] before it has filtered. A static column or a column of the
/// partition key matches all rows of the partition and its static row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexQuery {
    /// At least one.
    pub clauses: Vec<IndexClause>,
}

/// The terms from `lower` to `upper` of one index ([`model::IndexTerms::term`]). Equality: both bounds are
/// `Included` with the same term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexClause {
    /// [`model::IndexDefinition::id`].
    pub index: Uuid,
    /// The least indexed term, in the byte-comparable form of [`model::TermAnalysis`]'s terms.
    pub lower: Bound<Vec<u8>>,
    /// The greatest indexed term, in the same form.
    pub upper: Bound<Vec<u8>>,
}

impl IndexClause {
    /// The clause of one term.
    pub fn equal(index: Uuid, term: Vec<u8>) -> Self {
        Self { index, lower: Bound::Included(term.clone()), upper: Bound::Included(term) }
    }

    /// The only term that satisfies the clause, if the bounds show that there is at most one.
    pub fn only_term(&self) -> Option<&[u8]> {
        match (&self.lower, &self.upper) {
            (Bound::Included(lower), Bound::Included(upper)) if lower == upper => Some(lower),
            _ => None,
        }
    }

    /// Whether the term satisfies the clause.
    pub fn contains(&self, term: &[u8]) -> bool {
        (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice)).contains(term)
    }
}

/// Position at which a read continues after a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    /// Where the page ended: the next one begins after it.
    pub place: PagePlace,
    /// The part of `limit_rows` that remains.
    pub remaining_rows: u64,
    /// The read's [`ReadCommand::read_id`].
    pub read_id: u64,
}

/// Progress of the pages of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePlace {
    /// The pages so far contain all wanted rows of this partition.
    AfterPartition(PartitionKey),
    /// The last page ended inside a partition, because it was full or met too many dead rows.
    Inside(UnfinishedPartition),
}

/// A partition in which a page ended. The page may have ended before the first live row, so the absence of
/// the partition from it does not mean that the partition is empty. `shown_rows` is the number of its rows on
/// earlier pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedPartition {
    /// The partition in which the page ended.
    pub key: PartitionKey,
    /// The last row that was read, live or dead.
    pub last_row: ClusteringKey,
    /// Live rows of the partition on all pages so far, for `partition_limit_rows`. 0: no page has contained
    /// the partition, so its static row is still to be returned, even if no live row follows.
    pub shown_rows: u64,
}

impl PagePlace {
    /// The partition in which or after which the page ended.
    pub fn key(&self) -> &PartitionKey {
        match self {
            Self::AfterPartition(key) => key,
            Self::Inside(unfinished) => &unfinished.key,
        }
    }

    /// The partition in which the page ended; `None` if it ended after a partition.
    pub fn unfinished(&self) -> Option<&UnfinishedPartition> {
        match self {
            Self::AfterPartition(_) => None,
            Self::Inside(unfinished) => Some(unfinished),
        }
    }

    /// Whether both are at the same row, or after the same partition.
    pub fn is_same(&self, other: &Self) -> bool {
        let last_row = |place: &Self| place.unfinished().map(|unfinished| unfinished.last_row.clone());
        self.key() == other.key() && last_row(self) == last_row(other)
    }
}

impl PagingState {
    /// The partition in which the page ended; `None` if it ended between two partitions.
    pub fn unfinished(&self) -> Option<&UnfinishedPartition> {
        self.place.unfinished()
    }
}

impl ReadCommand {
    /// Whether it reads the same rows in the same order as `other`, possibly for another page.
    pub fn wants_same(&self, other: &Self) -> bool {
        (self.table, self.reversed, self.bypass_cache) == (other.table, other.reversed, other.bypass_cache)
            && self.partition_limit_rows == other.partition_limit_rows
            && self.partitions == other.partitions
            && self.ranges == other.ranges
            && self.index == other.index
    }

    /// A read of everything in `partitions`, in pages of 10,000 rows or 1 MiB.
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
            index: None,
        }
    }

    /// The partitions that are still wanted; `None` if none.
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

    /// The wanted rows after `row`, in the direction of the read.
    pub fn ranges_after(&self, schema: &TableSchema, row: &ClusteringKey) -> Vec<ClusteringRange> {
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
