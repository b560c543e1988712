//! The row cache: what the SSTables of a table hold, as far as reads have asked for it.
//!
//! - [`content`]: what is known of a partition: rows, and between them gaps of which all or nothing is known;
//! - [`table`]: the partitions of a table, and when what was read may be taken in;
//! - [`space`]: what all of a shard's tables take of the memory pool, entry by entry;
//! - [`reader`]: reads of single partitions, out of the cache and through its gaps;
//! - [`populate`]: what is read through a gap is known afterwards;
//! - [`update`]: what is flushed is merged into what is known.
//!
//! Ranges of the ring are read past it: they ask for partitions in the order of their tokens, and the cache does not
//! know which ones lie between those it has.
//!
//! **Invariants:** a reader works on a snapshot and on the SSTables that were the table's when it began. What is known
//! is what those SSTables say, apart from deletions that have been purged since.

mod content;
mod populate;
mod reader;
mod space;
mod table;
mod update;

pub use reader::{CacheReader, UnderlyingSource};
pub use space::{RowCache, RowCacheStats};
pub use table::TableCache;
pub use update::MergeFlushed;

#[cfg(test)]
mod tests;
