//! What is kept of a read between two of its pages: its readers, and how far they are.

use std::sync::Arc;

use model::{PartitionKey, Purge, TableSchema};
use reader::{CompactReader, FilterReader, PartitionPage, Reader};

/// A table's sources as one, without the partitions of other shards.
pub type OwnedReader = FilterReader<Box<dyn Reader>, Box<dyn FnMut(&PartitionKey) -> bool>>;

/// See the head of this file.
pub struct OpenRead {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) reader: CompactReader<OwnedReader, Purge>,
    /// The partition that the page ended in, without its rows.
    pub(crate) partition: Option<PartitionPage>,
    /// It reads the rest of one partition, and what is wanted behind that is read by others.
    pub(crate) is_rest: bool,
}
