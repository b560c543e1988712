//! Finds blocks of rows of a large partition through its trie in Rows.db.
//!
//! A key of the trie is a separator between two blocks: greater than every row of the block before, and at
//! most the first row of its own block. So the first row at or after a position is in the block of the
//! greatest key up to this position, or is the first row of the next block. The last row before a position is
//! in that block, or is the last row of the block before.

use std::cell::RefCell;

use model::{CqlType, Position, Tombstone};
use reader::ReadError;
use runtime::IoClass;

use super::FilePages;
use super::byte_comparable;
use super::partitions::{PartitionTrie, RowsRoot};
use super::walk::Walk;
use crate::component::deletion_time::DeletionTime;
use crate::component::rows_db::RowsPayload;
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::{Fetch, Window};
use crate::read::decode::unfiltered::tombstone_of;
use crate::version::Version;

/// A block of rows.
#[derive(Debug)]
pub(in crate::read) struct TrieBlock {
    /// At most the encoding of the first row or marker.
    pub(in crate::read) lower: Vec<u8>,
    /// Greater than the encoding of the last row or marker.
    pub(in crate::read) upper: Vec<u8>,
    /// Distance in bytes from the start of the partition.
    pub(in crate::read) offset: u64,
    /// Distance in bytes from the partition's start to the next block, or to the partition's end byte.
    pub(in crate::read) end: u64,
    /// The range deletion in force at the block's start.
    pub(in crate::read) in_force: Tombstone,
    /// The last position that was compared by `is_past`, and the result.
    compared: RefCell<Option<(Position, bool)>>,
}

impl TrieBlock {
    /// Whether the block contains no position that a seek to `target` looks for: forward, a position at or
    /// after `target`; in reverse, a position before it. Remembers the result for the last target.
    pub(in crate::read) fn is_past(&self, types: &[CqlType], target: &Position, reversed: bool) -> bool {
        if let Some((compared, past)) = &*self.compared.borrow()
            && compared == target
        {
            return *past;
        }
        let past = byte_comparable::clustering(types, target)
            .is_ok_and(|key| if reversed { key <= self.lower } else { key >= self.upper });
        *self.compared.borrow_mut() = Some((target.clone(), past));
        past
    }
}

/// The row index of one partition.
pub(in crate::read) struct RowTrie {
    window: Window,
    walk: Walk,
    root: RowsRoot,
    version: Version,
}

impl RowTrie {
    pub(in crate::read) fn new(trie: &PartitionTrie, root: RowsRoot, fetch: Fetch, class: IoClass) -> Self {
        // Lookups access distant positions, so read-ahead would be wasted.
        let fetch = if fetch == Fetch::Cached { Fetch::Cached } else { Fetch::Bypass };
        let (window, walk) = (Window::new(fetch, class), Walk::new(root.root));
        Self { window, walk, root, version: trie.version }
    }

    /// Position of the partition's entry in Rows.db.
    pub(in crate::read) fn entry_at(&self) -> u64 {
        self.root.entry_at
    }

    /// The partition's deletion.
    pub(in crate::read) fn deletion(&self) -> DeletionTime {
        self.root.deletion
    }

    /// The number of blocks that the entry in Rows.db states.
    pub(in crate::read) fn block_count(&self) -> u64 {
        self.root.block_count
    }

    /// The first block.
    pub(in crate::read) async fn first(&mut self, file: &ChunkedFile) -> Result<TrieBlock, ReadError> {
        self.walk.first(&mut FilePages { window: &mut self.window, file }).await?;
        match self.block(file).await? {
            Some(block) => Ok(block),
            None => Err(file.corrupt(self.root.entry_at, "a row index without a block")),
        }
    }

    /// The block in which the search for the first row or marker at or after `target` begins; `None` if the
    /// partition has no such row or marker.
    pub(in crate::read) async fn block_to_start(
        &mut self,
        file: &ChunkedFile,
        types: &[CqlType],
        target: &Position,
    ) -> Result<Option<TrieBlock>, ReadError> {
        let pages = &mut FilePages { window: &mut self.window, file };
        match byte_comparable::clustering(types, target) {
            Ok(key) if self.walk.floor(pages, &key).await? => self.block(file).await,
            _ => self.first(file).await.map(Some),
        }
    }

    /// The last block that may contain a position before `target`; without a target, the last block. `None`
    /// if there is none.
    pub(in crate::read) async fn last_block_before(
        &mut self,
        file: &ChunkedFile,
        types: &[CqlType],
        target: Option<&Position>,
    ) -> Result<Option<TrieBlock>, ReadError> {
        let key = target.and_then(|target| byte_comparable::clustering(types, target).ok());
        let pages = &mut FilePages { window: &mut self.window, file };
        let found = match key {
            Some(key) => self.walk.floor(pages, &key).await?,
            None => {
                self.walk.last(pages).await?;
                true
            }
        };
        if !found {
            return Ok(None);
        }
        let at = self.walk.key().to_vec();
        match self.block(file).await? {
            Some(block) => Ok(Some(block)),
            // The walk stood at the key after the last block.
            None => self.before(file, &at).await,
        }
    }

    /// The block before `block`.
    pub(in crate::read) async fn block_before(
        &mut self,
        file: &ChunkedFile,
        block: &TrieBlock,
    ) -> Result<Option<TrieBlock>, ReadError> {
        self.before(file, &block.lower).await
    }

    /// The block after `block`.
    pub(in crate::read) async fn block_after(
        &mut self,
        file: &ChunkedFile,
        block: &TrieBlock,
    ) -> Result<Option<TrieBlock>, ReadError> {
        self.walk.floor(&mut FilePages { window: &mut self.window, file }, &block.upper).await?;
        self.block(file).await
    }

    /// The block before the one that begins with `key`.
    async fn before(&mut self, file: &ChunkedFile, key: &[u8]) -> Result<Option<TrieBlock>, ReadError> {
        let pages = &mut FilePages { window: &mut self.window, file };
        if self.walk.floor(pages, key).await? && self.walk.previous(pages).await? {
            self.block(file).await
        } else {
            Ok(None)
        }
    }

    /// The block whose key is the current one; `None` if this is the key after the last block. Moves to the
    /// next key.
    async fn block(&mut self, file: &ChunkedFile) -> Result<Option<TrieBlock>, ReadError> {
        let lower = self.walk.key().to_vec();
        let Some(start) = self.payload(file)? else { return Ok(None) };
        let at = self.walk.position();
        self.walk.next(&mut FilePages { window: &mut self.window, file }).await?;
        let Some(next) = self.payload(file)? else { return Ok(None) };
        if next.offset <= start.offset {
            let detail =
                format!("blocks that do not ascend: one at {}, the next at {}", start.offset, next.offset);
            return Err(file.corrupt(at, &detail));
        }
        Ok(Some(TrieBlock {
            lower,
            upper: self.walk.key().to_vec(),
            offset: start.offset,
            end: next.offset,
            in_force: tombstone_of(start.open),
            compared: RefCell::new(None),
        }))
    }

    fn payload(&self, file: &ChunkedFile) -> Result<Option<RowsPayload>, ReadError> {
        let Some(payload) = self.walk.payload() else { return Ok(None) };
        let decoded = RowsPayload::decode(payload.bits, payload.bytes(), self.version);
        let at = self.walk.position();
        decoded.map(Some).map_err(|error| file.corrupt(at, &error.to_string()))
    }
}

/// Compares the row index of a partition with its rows, front to back, while the rows are read.
pub(in crate::read) struct RowTrieCheck {
    trie: RowTrie,
    current: TrieBlock,
    next: Option<TrieBlock>,
    blocks: u64,
}

impl RowTrieCheck {
    pub(in crate::read) async fn new(file: &ChunkedFile, mut trie: RowTrie) -> Result<Self, ReadError> {
        let current = trie.first(file).await?;
        let next = trie.block_after(file, &current).await?;
        Ok(Self { trie, current, next, blocks: 1 })
    }

    /// Distance in bytes from the partition's start to the first block.
    pub(in crate::read) fn first_offset(&self) -> u64 {
        self.current.offset
    }

    /// Compares a row or marker `offset` bytes after the partition's start with the index. Returns the
    /// contradiction, if there is one.
    pub(in crate::read) async fn piece(
        &mut self,
        file: &ChunkedFile,
        types: &[CqlType],
        offset: u64,
        position: &Position,
        in_force: Tombstone,
    ) -> Result<Option<&'static str>, ReadError> {
        if self.next.as_ref().is_some_and(|next| offset >= next.offset) {
            let next = self.next.take().expect("it is there");
            if offset != next.offset {
                return Ok(Some(
                    "Rows.db has a block start before this position, where no row or marker starts",
                ));
            }
            self.next = self.trie.block_after(file, &next).await?;
            self.current = next;
            self.blocks += 1;
        }
        if offset == self.current.offset && in_force != self.current.in_force {
            return Ok(Some("Rows.db has a block start here with another deletion in force"));
        }
        let is_boundary = offset < self.current.offset || offset >= self.current.end;
        let key = byte_comparable::clustering(types, position);
        let is_between = key.is_ok_and(|key| self.current.lower <= key && key < self.current.upper);
        Ok((is_boundary || !is_between).then_some("Rows.db has this row or marker in another block"))
    }

    /// Compares the end of the partition, `offset` bytes after its start, with the index.
    pub(in crate::read) fn end(&self, offset: u64) -> Option<&'static str> {
        let is_end = self.next.is_none() && self.current.end == offset;
        let counted = self.blocks == self.trie.root.block_count;
        (!is_end || !counted)
            .then_some("Rows.db has the partition end elsewhere, or another number of blocks")
    }
}
