//! The state of a read between two pages: its readers and their positions.

use std::sync::Arc;

use model::{PartitionKey, Purge, TableSchema};
use reader::{CompactReader, FilterReader, PartitionPage, Reader};

/// A table's merged sources, without the partitions of other shards.
pub type OwnedReader = FilterReader<Box<dyn Reader>, Box<dyn FnMut(&PartitionKey) -> bool>>;

/// See the head of this file.
pub struct OpenRead {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) reader: CompactReader<OwnedReader, Purge>,
    /// The partition in which the page ended, without its rows.
    pub(crate) partition: Option<PartitionPage>,
    /// It reads only the rest of one partition; later partitions need other readers.
    pub(crate) is_rest: bool,
}
