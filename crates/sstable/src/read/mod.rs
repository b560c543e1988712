//! Reading SSTables: from the files of one SSTable to a stream of fragments.
//!
//! ```text
//! table            an open SSTable; selects the reader of a read        open, error
//! scan             whole partitions one after the other                 ┐
//! partitions       single partitions and slices, either way; seek       ├ parse, unfiltered, row, columns
//! check            verification of all components                       │
//! salvage          the readable part of a damaged SSTable               ┘
//! walk             for the tools: index entries, positions of fragments, the encoding
//! partition_index  from keys to partitions, by index or trie
//! row_index        from rows to blocks, by promoted index or trie
//! index            entries of Index.db
//! promoted         the blocks of a large partition
//! trie             Partitions.db, Rows.db
//! secondary        postings of a secondary index
//! entries          parsed pages of Index.db
//! window           the bytes that a reader parses; room: their buffer
//! chunked          chunks of a file, verified and decompressed
//! cache            the shard's cache; loading_cache: its single-flight map
//! ```

mod cache;
mod check;
mod chunked;
mod columns;
mod damaged;
mod entries;
pub(crate) mod error;
mod index;
mod loading_cache;
mod open;
mod parse;
mod partition_index;
mod partitions;
mod promoted;
mod room;
mod row;
mod row_index;
mod salvage;
mod scan;
mod secondary;
mod seek;
mod sstable;
#[cfg(test)]
mod tests;
mod trie;
mod unfiltered;
mod values;
mod walk;
mod window;

pub use cache::{ChunkCache, DiskReads};
pub use check::{CheckReport, CheckWatcher, Depth};
pub use error::SSTableError;
pub use salvage::{Salvage, SalvageLosses, Salvaged};
pub use secondary::{PostingCursor, SecondaryIndex};
pub use sstable::{SSTable, SSTableSource};
pub use walk::{BlockBounds, IndexBlockEntry, IndexPartition, IndexWalk, IndexedRows, PositionedScan};
