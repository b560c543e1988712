//! The row index of a large partition, promoted index or trie: finds the block of rows in which a read
//! begins.

use std::rc::Rc;

use model::{CqlType, Position, TableSchema, Tombstone};
use reader::{Permit, ReadError};
use runtime::IoClass;

use super::partition_index::{Entry, PartitionIndex};
use super::promoted::{Block, BlockEnd, Promoted};
use super::trie::{RowTrie, TrieBlock};
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::Fetch;
use crate::read::decode::unfiltered::tombstone_of;
use crate::read::sstable::SSTable;

/// See the head of this file.
pub(in crate::read) enum RowIndex {
    Promoted(Promoted),
    Trie(RowTrie),
}

/// A block of rows.
#[derive(Debug)]
pub(in crate::read) enum RowBlock {
    /// A block of the promoted index, with its number.
    Promoted(usize, Block),
    Trie(TrieBlock),
}

impl RowBlock {
    /// Distance in bytes from the partition's start to the block's start.
    pub(in crate::read) fn offset(&self) -> u64 {
        match self {
            Self::Promoted(_, block) => block.offset,
            Self::Trie(block) => block.offset,
        }
    }

    /// Distance in bytes from the partition's start to the block's end.
    pub(in crate::read) fn end(&self) -> u64 {
        match self {
            Self::Promoted(_, block) => block.offset.saturating_add(block.width),
            Self::Trie(block) => block.end,
        }
    }

    /// The position of the block's first row or marker, if it is known.
    pub(in crate::read) fn first(&self) -> Option<&Position> {
        match self {
            Self::Promoted(_, block) => Some(&block.first),
            Self::Trie(_) => None,
        }
    }

    /// Whether the block contains no position that a seek to `target` looks for: forward, a position at or
    /// after `target`; in reverse, a position before it.
    pub(in crate::read) fn is_past(
        &self,
        schema: &TableSchema,
        types: &[CqlType],
        target: &Position,
        reversed: bool,
    ) -> bool {
        match self {
            Self::Promoted(_, block) if reversed => schema.compare_positions(target, &block.first).is_le(),
            Self::Promoted(_, block) => schema.compare_positions(target, &block.last).is_gt(),
            Self::Trie(block) => block.is_past(types, target, reversed),
        }
    }
}

impl RowIndex {
    /// The row index of the entry's partition, whose rows start `header_bytes` after its start. `None` if the
    /// partition has no row index.
    pub(in crate::read) async fn open(
        sstable: &SSTable,
        entry: &Entry,
        header_bytes: u64,
        fetch: Fetch,
        class: IoClass,
    ) -> Result<Option<Self>, ReadError> {
        let Some(mut opened) = Self::open_unchecked(sstable, entry, fetch, class).await? else {
            return Ok(None);
        };
        let found_bytes = match (&mut opened, &sstable.index) {
            (Self::Promoted(promoted), _) => promoted.head().header_bytes,
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                rows.first(file).await?.offset
            }
            _ => unreachable!("a row index is of its own SSTable"),
        };
        if found_bytes != header_bytes {
            let detail = format!(
                "length of a partition's header: expected {header_bytes} as in Data.db, found {found_bytes}"
            );
            return Err(opened.corrupt(sstable, &detail));
        }
        Ok(Some(opened))
    }

    /// Charges the held memory to the read. A trie is read page by page and is not charged.
    #[must_use]
    pub(in crate::read) fn charged_to(self, permit: &Option<Rc<Permit>>) -> Self {
        match self {
            Self::Promoted(promoted) => Self::Promoted(promoted.charged_to(permit)),
            Self::Trie(rows) => Self::Trie(rows),
        }
    }

    /// As `Self::open`, without comparing the length of the partition's header.
    pub(in crate::read) async fn open_unchecked(
        sstable: &SSTable,
        entry: &Entry,
        fetch: Fetch,
        class: IoClass,
    ) -> Result<Option<Self>, ReadError> {
        match (&sstable.index, entry) {
            (PartitionIndex::Big { file, .. }, Entry::Big(entry)) => {
                let opened = Promoted::open(file, entry, sstable.name.version, fetch, class).await?;
                Ok(opened.map(Self::Promoted))
            }
            (PartitionIndex::Trie(trie), Entry::Trie(entry)) => {
                Ok(entry.rows.map(|rows| Self::Trie(RowTrie::new(trie, rows, fetch, class))))
            }
            _ => unreachable!("an entry is of its own index"),
        }
    }

    /// The partition's deletion.
    pub(in crate::read) fn deletion(&self) -> Tombstone {
        tombstone_of(match self {
            Self::Promoted(promoted) => promoted.head().deletion,
            Self::Trie(rows) => rows.deletion(),
        })
    }

    /// The number of blocks that the row index states.
    pub(in crate::read) fn block_count(&self) -> u64 {
        match self {
            Self::Promoted(promoted) => promoted.block_count() as u64,
            Self::Trie(rows) => rows.block_count(),
        }
    }

    /// An error about the content of the row index.
    pub(in crate::read) fn corrupt(&self, sstable: &SSTable, detail: &str) -> ReadError {
        match (self, &sstable.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                file.corrupt(promoted.position(), detail)
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => match &trie.rows {
                Some(file) => file.corrupt(rows.entry_at(), detail),
                None => unreachable!("a row index is in Rows.db"),
            },
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// Whether the first row of each block is known, so that a block found for a reversed read must contain a
    /// row before the target. In a trie only an upper bound of the block before is known.
    pub(in crate::read) fn knows_first_rows(&self) -> bool {
        matches!(self, Self::Promoted(_))
    }

    /// The block at which the search for the first row or marker at or after `target` begins. `None` if the
    /// partition has no such row or marker.
    pub(in crate::read) async fn block_to_start(
        &mut self,
        sstable: &SSTable,
        schema: &TableSchema,
        target: &Position,
    ) -> Result<Option<RowBlock>, ReadError> {
        let columns = &sstable.columns;
        match (self, &sstable.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                let fixed = &columns.clustering_lengths;
                let number = promoted.blocks_before(file, fixed, schema, BlockEnd::Last, target).await?;
                if number == promoted.block_count() {
                    return Ok(None);
                }
                Ok(Some(RowBlock::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_to_start(file, &columns.clustering, target).await?.map(RowBlock::Trie))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The last block that contains (in a trie: may contain) a position before `target`; without a target,
    /// the last block. `None` if there is none.
    pub(in crate::read) async fn last_block_before(
        &mut self,
        sstable: &SSTable,
        schema: &TableSchema,
        target: Option<&Position>,
    ) -> Result<Option<RowBlock>, ReadError> {
        let columns = &sstable.columns;
        match (self, &sstable.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                let fixed = &columns.clustering_lengths;
                let behind = match target {
                    Some(target) => {
                        promoted.blocks_before(file, fixed, schema, BlockEnd::First, target).await?
                    }
                    None => promoted.block_count(),
                };
                let Some(number) = behind.checked_sub(1) else { return Ok(None) };
                Ok(Some(RowBlock::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.last_block_before(file, &columns.clustering, target).await?.map(RowBlock::Trie))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The first block.
    pub(in crate::read) async fn first_block(
        &mut self,
        sstable: &SSTable,
    ) -> Result<Option<RowBlock>, ReadError> {
        match (self, &sstable.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                promoted_block(promoted, file, sstable, 0).await
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                rows.first(file).await.map(|block| Some(RowBlock::Trie(block)))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The block after `place`; `None` after the last.
    pub(in crate::read) async fn block_after(
        &mut self,
        sstable: &SSTable,
        place: &RowBlock,
    ) -> Result<Option<RowBlock>, ReadError> {
        match (self, &sstable.index, place) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }, RowBlock::Promoted(number, _)) => {
                promoted_block(promoted, file, sstable, number + 1).await
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie), RowBlock::Trie(block)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_after(file, block).await?.map(RowBlock::Trie))
            }
            _ => unreachable!("a place is of its own row index"),
        }
    }

    /// The block before `place`; `None` before the first.
    pub(in crate::read) async fn block_before(
        &mut self,
        sstable: &SSTable,
        place: &RowBlock,
    ) -> Result<Option<RowBlock>, ReadError> {
        match (self, &sstable.index, place) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }, RowBlock::Promoted(number, _)) => {
                let Some(number) = number.checked_sub(1) else { return Ok(None) };
                let fixed = &sstable.columns.clustering_lengths;
                Ok(Some(RowBlock::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie), RowBlock::Trie(block)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_before(file, block).await?.map(RowBlock::Trie))
            }
            _ => unreachable!("a place is of its own row index"),
        }
    }

    /// The range deletion in force at the start of `place`.
    pub(in crate::read) async fn in_force_at(
        &mut self,
        sstable: &SSTable,
        place: &RowBlock,
    ) -> Result<Tombstone, ReadError> {
        match place {
            RowBlock::Trie(block) => Ok(block.in_force),
            RowBlock::Promoted(..) => Ok(match self.block_before(sstable, place).await? {
                Some(RowBlock::Promoted(_, before)) => before.open,
                _ => Tombstone::LIVE,
            }),
        }
    }
}

/// Block `number`; `None` if the number is past the last block.
async fn promoted_block(
    promoted: &mut Promoted,
    file: &ChunkedFile,
    sstable: &SSTable,
    number: usize,
) -> Result<Option<RowBlock>, ReadError> {
    if number >= promoted.block_count() {
        return Ok(None);
    }
    let block = promoted.block(file, &sstable.columns.clustering_lengths, number).await?;
    Ok(Some(RowBlock::Promoted(number, block)))
}
