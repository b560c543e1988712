//! The row cache: the part of a table's SSTables that reads have asked for.
//!
//! - [`content`]: the content of a partition: rows, and gaps between them that are known to be empty or
//!   unknown;
//! - [`table`]: the partitions of a table, and the rule when data that was read may be added;
//! - [`space`]: the items of all tables of a shard in the memory pool, entry by entry;
//! - [`reader`]: reads of single partitions from the cache, with its gaps read from SSTables;
//! - [`populate`]: adds data read from SSTables to the cache;
//! - [`update`]: merges flushed data into the cached partitions.
//!
//! Range scans bypass the cache: they need partitions in token order, and the cache does not know which
//! partitions lie between those that it has.
//!
//! **Invariants:** a reader works on a snapshot and on the SSTables that the table had when the read began.
//! The cached data equals the data of those SSTables, except that tombstones purged since may remain.

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
