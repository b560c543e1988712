//! The index of a BTI SSTable: Partitions.db and Rows.db, which are tries.
//!
//! ```text
//! partitions       from a key or a point in the ring to partitions
//! rows             from a position to a block of rows
//! walk             from node to node
//! byte_comparable  keys as bytes
//! ```
//! Neither file has checksums. Data.db confirms their content: the key of a partition is compared with the
//! key in Data.db, a block with the rows that are read from its start.

mod byte_comparable;
mod partitions;
mod rows;
mod walk;

use reader::ReadError;

pub(in crate::read) use partitions::{Entry, PartitionTrie, PartitionTrieCursor};
pub(in crate::read) use rows::{RowTrie, RowTrieCheck, TrieBlock};

use crate::component::trie::PAGE_BYTES;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::Window;

/// The pages of a file, for a walk.
struct FilePages<'a> {
    window: &'a mut Window,
    file: &'a ChunkedFile,
}

impl walk::Pages for FilePages<'_> {
    async fn page_from(&mut self, position: u64) -> Result<&[u8], ReadError> {
        let page_end = (position - position % PAGE_BYTES + PAGE_BYTES).min(self.file.data_bytes());
        if position >= page_end {
            return Err(self.file.corrupt(position, "a node of a trie after the end of the file"));
        }
        let len = page_end - position;
        self.window.fill(self.file, position, len, 0).await?;
        Ok(&self.window.rest(position)[..len as usize])
    }

    fn corrupt(&self, position: u64, detail: &str) -> ReadError {
        self.file.corrupt(position, detail)
    }
}
