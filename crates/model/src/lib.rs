//! Data model: CQL types and values, keys and tokens, table schemas, cells, rows, tombstones, mutations, and
//! the laws by which two versions of the same data are merged.
//!
//! **Invariant:** the crate uses no clock, disk or thread. The current time is an argument.

#![warn(missing_docs)]

pub mod cell;
pub mod change_log;
pub mod clustering;
pub mod codec;
mod compact;
pub mod counter;
pub mod index_definition;
pub mod key;
#[cfg(test)]
mod laws;
pub mod options;
pub mod partition;
pub mod postings;
pub mod purge;
pub mod range_tombstone;
pub mod row;
pub mod sample;
pub mod schema;
pub mod small_bytes;
pub mod timestamps;
pub mod tombstone;
pub mod types;
pub mod view;
pub mod view_definition;

pub use cell::Cell;
pub use change_log::{ChangeLog, ChangeLogOptions};
pub use clustering::{ClusteringKey, ClusteringPrefix, ClusteringRange, Position, Side};
pub use index_definition::{IndexDefinition, IndexKind, IndexPart, TermAnalysis};
pub use key::{PartitionKey, PartitionRange, RingPosition};
pub use options::{Codec, Compression, TableOptions};
pub use partition::{Mutation, Partition};
pub use postings::IndexTerms;
pub use purge::Purge;
pub use range_tombstone::{RangeTombstone, RangeTombstoneChange, RangeTombstones};
pub use row::{ClusteringRow, ColumnData, ComplexCells, Liveness, PathCell, Row};
pub use schema::{Column, ColumnId, ColumnKind, CompactStorage, KeyColumn, TableId, TableSchema};
pub use small_bytes::SmallBytes;
pub use tombstone::{NO_DELETION_TIME_S, NO_TIMESTAMP_US, Tombstone};
pub use types::CqlType;
pub use view::{ViewError, ViewPlan};
pub use view_definition::{ViewCondition, ViewDefinition, ViewTest};

/// Secondary indexes: definitions, terms and postings.
pub mod index {
    pub use crate::index_definition::*;
    pub use crate::postings::*;
}
