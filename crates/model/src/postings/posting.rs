//! A posting: the row, or the whole partition, that an index has under a term.

use std::cmp::Ordering;

use crate::clustering::ClusteringKey;
use crate::key::PartitionKey;
use crate::schema::TableSchema;

/// Longest term in bytes that is stored. Longer terms are cut off, and so are the bounds of queries: more
/// rows become candidates, none is lost.
pub const TERM_BYTES_MAX: usize = 1024;

/// The part of a term that is stored.
pub fn stored_term(term: &[u8]) -> &[u8] {
    &term[..term.len().min(TERM_BYTES_MAX)]
}

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Posting {
    /// The partition that has the term.
    pub key: PartitionKey,
    /// `None`: the whole partition, its static row included.
    pub row: Option<ClusteringKey>,
}

impl Posting {
    /// The order of postings: by partition, the whole partition before its rows, rows in the table's order.
    pub fn compare(&self, other: &Self, schema: &TableSchema) -> Ordering {
        self.key.cmp(&other.key).then_with(|| match (&self.row, &other.row) {
            (Some(a), Some(b)) => schema.compare_keys(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }

    /// Heap memory of this value in bytes, excluding the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.row.as_ref().map_or(0, ClusteringKey::heap_bytes)
    }
}
