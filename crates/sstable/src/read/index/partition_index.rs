//! The index of an SSTable in either format: maps keys to partitions, and partitions to blocks of rows.
//!
//! The modules above use this interface and do not depend on the format. The implementations are `index` and
//! `promoted` for Index.db, and `trie` for Partitions.db and Rows.db.

use std::cell::Cell;
use std::rc::Rc;

use model::{PartitionKey, RingPosition};
use reader::{Permit, ReadError};
use runtime::IoClass;

use super::entries::EntryPages;
use super::index_db::{self, IndexCursor};
use super::trie::{self, PartitionTrie, PartitionTrieCursor};
use crate::component::summary::Summary;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::Fetch;
use crate::read::sstable::SSTable;

/// See the head of this file.
#[expect(clippy::large_enum_variant, reason = "an SSTable has one, and the large one is the common one")]
pub(in crate::read) enum PartitionIndex {
    Big { file: ChunkedFile, summary: Summary, pages: EntryPages },
    Trie(Box<PartitionTrie>),
}

impl PartitionIndex {
    /// Whether reads may use the shard's cached parts of the index and add to them (`cache_index_pages`).
    pub(in crate::read) fn is_kept(&self) -> bool {
        match self {
            Self::Big { pages, .. } => pages.are_kept(),
            Self::Trie(trie) => trie.partitions.is_index_kept(),
        }
    }

    /// See [`ChunkedFile::count_fetched_in`].
    pub(in crate::read) fn count_fetched_in(&self, bytes: &Rc<Cell<u64>>) {
        match self {
            Self::Big { file, .. } => file.count_fetched_in(bytes),
            Self::Trie(trie) => {
                trie.partitions.count_fetched_in(bytes);
                trie.rows.iter().for_each(|rows| rows.count_fetched_in(bytes));
            }
        }
    }

    /// Total length of its files.
    pub(in crate::read) fn file_bytes(&self) -> u64 {
        match self {
            Self::Big { file, .. } => file.file_bytes(),
            Self::Trie(trie) => {
                trie.partitions.file_bytes() + trie.rows.as_ref().map_or(0, ChunkedFile::file_bytes)
            }
        }
    }

    /// Bytes of memory that it holds.
    pub(in crate::read) fn memory_bytes(&self) -> usize {
        match self {
            Self::Big { summary, .. } => summary.memory_bytes(),
            Self::Trie(trie) => trie.footer.first_key.capacity() + trie.footer.last_key.capacity(),
        }
    }

    /// Tokens of the keys that the summary has; none without a summary.
    pub(in crate::read) fn sampled_tokens(&self) -> Vec<i64> {
        match self {
            Self::Big { summary, .. } => (0..summary.len()).map(|at| summary.sample(at).0).collect(),
            Self::Trie(_) => vec![],
        }
    }

    /// Number of partitions, if the index stores it.
    pub(in crate::read) fn partition_count(&self) -> Option<u64> {
        match self {
            Self::Big { .. } => None,
            Self::Trie(trie) => Some(trie.footer.key_count),
        }
    }

    /// An error about the index entry of a partition.
    pub(in crate::read) fn corrupt(&self, entry: &Entry, detail: &str) -> ReadError {
        match (self, entry) {
            (Self::Big { file, .. }, Entry::Big(entry)) => file.corrupt(entry.promoted_at, detail),
            (Self::Trie(trie), Entry::Trie(entry)) => trie.partitions.corrupt(entry.node_at, detail),
            _ => unreachable!("an entry is of its own index"),
        }
    }
}

/// Location of a partition and of its row index.
#[derive(Clone, Debug)]
pub(in crate::read) enum Entry {
    Big(index_db::Entry),
    Trie(trie::Entry),
}

impl Entry {
    pub(in crate::read) fn key(&self) -> &PartitionKey {
        match self {
            Self::Big(entry) => &entry.key,
            Self::Trie(entry) => &entry.key,
        }
    }

    /// Position in the data.
    pub(in crate::read) fn position(&self) -> u64 {
        match self {
            Self::Big(entry) => entry.position,
            Self::Trie(entry) => entry.position,
        }
    }

    /// Start of the next partition, if it was known without a further read.
    pub(in crate::read) fn next_position(&self) -> Option<u64> {
        match self {
            Self::Big(entry) => entry.next_position,
            Self::Trie(entry) => entry.next_position,
        }
    }

    /// Whether the partition has a row index.
    pub(in crate::read) fn has_row_index(&self) -> bool {
        match self {
            Self::Big(entry) => entry.promoted_bytes > 0,
            Self::Trie(entry) => entry.rows.is_some(),
        }
    }
}

/// A cursor over the partitions of one SSTable. Every call must pass the same SSTable.
pub(in crate::read) enum PartitionCursor {
    Big(IndexCursor),
    Trie(Box<PartitionTrieCursor>),
}

impl PartitionCursor {
    pub(in crate::read) fn new(sstable: &SSTable, fetch: Fetch, class: IoClass) -> Self {
        match &sstable.index {
            PartitionIndex::Big { .. } => Self::Big(IndexCursor::new(fetch, class)),
            PartitionIndex::Trie(trie) => Self::Trie(Box::new(PartitionTrieCursor::new(trie, fetch, class))),
        }
    }

    /// Charges the window of the cursor to the read.
    #[must_use]
    pub(in crate::read) fn charged_to(self, permit: &Option<Rc<Permit>>) -> Self {
        match self {
            Self::Big(cursor) => Self::Big(cursor.charged_to(permit)),
            // A trie is read page by page and is not charged.
            Self::Trie(cursor) => Self::Trie(cursor),
        }
    }

    /// The entry of `key`. The position of the cursor afterwards is unspecified.
    pub(in crate::read) async fn find(
        &mut self,
        sstable: &SSTable,
        key: &PartitionKey,
    ) -> Result<Option<Entry>, ReadError> {
        match (self, &sstable.index) {
            (Self::Big(cursor), PartitionIndex::Big { file, summary, pages }) => {
                let found = match cursor.fetch() {
                    Fetch::Cached => pages.find(file, summary, key, cursor.class()).await?,
                    Fetch::Bypass | Fetch::Scan => cursor.find(file, summary, key).await?,
                };
                Ok(found.map(Entry::Big))
            }
            (Self::Trie(cursor), PartitionIndex::Trie(trie)) => {
                Ok(cursor.find(trie, &sstable.data, key).await?.map(Entry::Trie))
            }
            _ => unreachable!("a cursor is of its own index"),
        }
    }

    /// Moves to the first entry after `point`.
    pub(in crate::read) async fn seek(
        &mut self,
        sstable: &SSTable,
        point: &RingPosition,
    ) -> Result<(), ReadError> {
        match (self, &sstable.index) {
            (Self::Big(cursor), PartitionIndex::Big { file, summary, .. }) => {
                cursor.seek(file, summary, point).await
            }
            (Self::Trie(cursor), PartitionIndex::Trie(trie)) => cursor.seek(trie, &sstable.data, point).await,
            _ => unreachable!("a cursor is of its own index"),
        }
    }

    /// The next entry, or `None` after the last.
    pub(in crate::read) async fn next(&mut self, sstable: &SSTable) -> Result<Option<Entry>, ReadError> {
        match (self, &sstable.index) {
            (Self::Big(cursor), PartitionIndex::Big { file, .. }) => {
                Ok(cursor.next(file).await?.map(Entry::Big))
            }
            (Self::Trie(cursor), PartitionIndex::Trie(trie)) => {
                Ok(cursor.next(trie, &sstable.data).await?.map(Entry::Trie))
            }
            _ => unreachable!("a cursor is of its own index"),
        }
    }

    /// Position of the cursor: in Index.db the start of the next entry, in Partitions.db the next node.
    pub(in crate::read) fn place(&self) -> u64 {
        match self {
            Self::Big(cursor) => cursor.position(),
            Self::Trie(cursor) => cursor.position(),
        }
    }

    /// Skips the entry at `place`, for which [`Self::next`] has returned an error. False if the position of
    /// the next entry is unknown.
    pub(in crate::read) async fn pass(&mut self, sstable: &SSTable, place: u64) -> bool {
        match (self, &sstable.index) {
            (Self::Big(cursor), _) => cursor.position() != place,
            (Self::Trie(cursor), PartitionIndex::Trie(trie)) => cursor.pass(trie, place).await,
            _ => unreachable!("a cursor is of its own index"),
        }
    }
}
