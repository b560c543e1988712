//! Reading SSTables: from the files of one SSTable to a stream of fragments.
//!
//! ```text
//! sstable          an open SSTable; selects the reader of a read        open, error
//! scan             whole partitions one after the other
//! partitions       single partitions and slices, either way; seek
//! decode/          bytes as fragments                                   parse, unfiltered, row, columns
//! index/           from keys to partitions, by index or trie            partition_index
//!                  from rows to blocks, by promoted index or trie       row_index
//!                  entries of Index.db, and its parsed pages            index_db, entries
//!                  the blocks of a large partition                      promoted
//!                  Partitions.db, Rows.db                               trie
//!                  postings of a secondary index                        secondary
//! data/            the bytes that a reader parses; their buffer         window, room
//!                  chunks of a file, verified and decompressed          chunked
//!                  the shard's cache; its single-flight map             cache, loading_cache
//! integrity/       verification of all components                       check
//!                  the readable part of a damaged SSTable               salvage, damaged, values
//!                  for the tools: index entries, fragments' positions   walk
//! ```

mod data;
mod decode;
pub(crate) mod error;
mod index;
mod integrity;
mod open;
mod partitions;
mod scan;
mod seek;
mod sstable;
#[cfg(test)]
mod tests;

pub use data::cache::{ChunkCache, DiskReads};
pub use error::SSTableError;
pub use index::secondary::{PostingCursor, SecondaryIndex};
pub use integrity::check::{CheckReport, CheckWatcher, Depth};
pub use integrity::salvage::{Salvage, SalvageLosses, Salvaged};
pub use integrity::walk::{
    BlockBounds, IndexBlockEntry, IndexPartition, IndexWalk, IndexedRows, PositionedScan,
};
pub use sstable::{SSTable, SSTableSource};
