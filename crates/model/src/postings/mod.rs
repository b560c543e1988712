//! Postings of secondary indexes, and the terms of data.
//!
//! A posting names a row, or a whole partition if the indexed column is static or part of the partition key.
//! [`IndexTerms`] returns the terms of data; it is used by the writer of an SSTable, by the memtable and by
//! the planner of reads, which therefore agree.
//!
//! Postings are *candidates*: data of one source is indexed without reading the other sources, so a posting
//! may name a row whose value was overwritten, deleted or has expired. A reader of an index reads the row and
//! compares. The opposite never occurs: a row that a read returns with a value is under its term in the
//! source that holds the value.

#[cfg(test)]
mod laws;
mod posting;
mod terms;

pub use posting::{Posting, TERM_BYTES_MAX, stored_term};
pub use terms::{IndexTarget, IndexTerms};
