//! Reading SSTables: from the files of one to a stream of fragments.
//!
//! ```text
//! table      what an open SSTable is, and which reader a read gets          open, error
//! scan       whole partitions one after the other                          ┐
//! partitions single partitions and slices, forward and reverse; seek       ├ parse, unfiltered, row, columns
//! check      everything compared with everything                           │
//! salvage    what can still be read, from a damaged one                     ┘
//! walk       what the tools ask: entries of the index, places of fragments, the encoding
//! partition_index   from keys to partitions, by index or trie      row_index   from rows to blocks, by promoted or trie
//! index      entries of Index.db        promoted   the blocks of a large partition        trie   Partitions.db, Rows.db
//! entries    parsed pages of Index.db
//! window     the bytes a reader looks at, and room for them
//! chunked    chunks of a file, checked and decompressed
//! cache      what is kept of all that, and keyed: how, and how what is being read is waited for
//! ```

mod cache;
mod check;
mod chunked;
mod columns;
mod damaged;
mod entries;
mod error;
mod index;
mod keyed;
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
mod seek;
mod table;
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
pub use table::{SSTable, SSTableSource};
pub use walk::{BlockBounds, IndexBlockEntry, IndexPartition, IndexWalk, IndexedRows, PositionedScan};
