//! The blocks of rows of a large partition, by its promoted index or its trie: where a walk to a row begins.

use std::rc::Rc;

use model::{CqlType, Position, TableSchema, Tombstone};
use reader::{Permit, ReadError};
use runtime::IoClass;

use super::chunked::ChunkedFile;
use super::partition_index::{Entry, PartitionIndex};
use super::promoted::{Block, BlockEnd, Promoted};
use super::table::SSTable;
use super::trie::{RowTrie, TrieBlock};
use super::unfiltered::tombstone_of;
use super::window::Fetch;

/// See the head of this file.
pub(super) enum RowIndex {
    Promoted(Promoted),
    Trie(RowTrie),
}

/// A block of rows.
#[derive(Debug)]
pub(super) enum Place {
    /// With its number.
    Promoted(usize, Block),
    Trie(TrieBlock),
}

impl Place {
    /// From the partition's start to the block's.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Self::Promoted(_, block) => block.offset,
            Self::Trie(block) => block.offset,
        }
    }

    /// From the partition's start to the block's end.
    pub(super) fn end(&self) -> u64 {
        match self {
            Self::Promoted(_, block) => block.offset.saturating_add(block.width),
            Self::Trie(block) => block.end,
        }
    }

    /// What its first row or marker is, if that is known.
    pub(super) fn first(&self) -> Option<&Position> {
        match self {
            Self::Promoted(_, block) => Some(&block.first),
            Self::Trie(_) => None,
        }
    }

    /// Whether nothing that is sought for `target` is in this block: forward, what is at or behind it; in
    /// reverse, what is in front of it.
    pub(super) fn is_past(
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
    /// The row index of the entry's partition, whose rows start `header_bytes` behind its start; `None` if it
    /// has none.
    pub(super) async fn open(
        table: &SSTable,
        entry: &Entry,
        header_bytes: u64,
        fetch: Fetch,
        class: IoClass,
    ) -> Result<Option<Self>, ReadError> {
        let Some(mut opened) = Self::open_unchecked(table, entry, fetch, class).await? else {
            return Ok(None);
        };
        let found_bytes = match (&mut opened, &table.index) {
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
            return Err(opened.corrupt(table, &detail));
        }
        Ok(Some(opened))
    }

    /// What it holds is charged to the read. A trie is looked at page by page.
    #[must_use]
    pub(super) fn charged_to(self, permit: &Option<Rc<Permit>>) -> Self {
        match self {
            Self::Promoted(promoted) => Self::Promoted(promoted.charged_to(permit)),
            Self::Trie(rows) => Self::Trie(rows),
        }
    }

    /// The row index of the entry's partition, of which nothing else is known; `None` if it has none.
    pub(super) async fn open_unchecked(
        table: &SSTable,
        entry: &Entry,
        fetch: Fetch,
        class: IoClass,
    ) -> Result<Option<Self>, ReadError> {
        match (&table.index, entry) {
            (PartitionIndex::Big { file, .. }, Entry::Big(entry)) => {
                let opened = Promoted::open(file, entry, table.name.version, fetch, class).await?;
                Ok(opened.map(Self::Promoted))
            }
            (PartitionIndex::Trie(trie), Entry::Trie(entry)) => {
                Ok(entry.rows.map(|rows| Self::Trie(RowTrie::new(trie, rows, fetch, class))))
            }
            _ => unreachable!("an entry is of its own index"),
        }
    }

    /// The partition's deletion.
    pub(super) fn deletion(&self) -> Tombstone {
        tombstone_of(match self {
            Self::Promoted(promoted) => promoted.head().deletion,
            Self::Trie(rows) => rows.deletion(),
        })
    }

    /// How many blocks it says that there are.
    pub(super) fn block_count(&self) -> u64 {
        match self {
            Self::Promoted(promoted) => promoted.block_count() as u64,
            Self::Trie(rows) => rows.block_count(),
        }
    }

    /// An error about what it says.
    pub(super) fn corrupt(&self, table: &SSTable, detail: &str) -> ReadError {
        match (self, &table.index) {
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

    /// Whether each block is known to begin in front of whatever was asked for, so that finding nothing in one is
    /// a contradiction. A trie only knows that the block before ends in front of it.
    pub(super) fn knows_first_rows(&self) -> bool {
        matches!(self, Self::Promoted(_))
    }

    /// The block in which a walk to the first row or marker at or behind `target` begins; `None` if there is none
    /// such in the partition.
    pub(super) async fn block_to_start(
        &mut self,
        table: &SSTable,
        schema: &TableSchema,
        target: &Position,
    ) -> Result<Option<Place>, ReadError> {
        let columns = &table.columns;
        match (self, &table.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                let fixed = &columns.clustering_lengths;
                let number = promoted.blocks_before(file, fixed, schema, BlockEnd::Last, target).await?;
                if number == promoted.block_count() {
                    return Ok(None);
                }
                Ok(Some(Place::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_to_start(file, &columns.clustering, target).await?.map(Place::Trie))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The last block that has, or in a trie may have, something in front of `target`; without a target the last
    /// of all. `None` if there is none.
    pub(super) async fn block_in_front(
        &mut self,
        table: &SSTable,
        schema: &TableSchema,
        target: Option<&Position>,
    ) -> Result<Option<Place>, ReadError> {
        let columns = &table.columns;
        match (self, &table.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                let fixed = &columns.clustering_lengths;
                let behind = match target {
                    Some(target) => {
                        promoted.blocks_before(file, fixed, schema, BlockEnd::First, target).await?
                    }
                    None => promoted.block_count(),
                };
                let Some(number) = behind.checked_sub(1) else { return Ok(None) };
                Ok(Some(Place::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_in_front(file, &columns.clustering, target).await?.map(Place::Trie))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The first block.
    pub(super) async fn first_block(&mut self, table: &SSTable) -> Result<Option<Place>, ReadError> {
        match (self, &table.index) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }) => {
                promoted_block(promoted, file, table, 0).await
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie)) => {
                let file = trie.rows_file(rows.entry_at())?;
                rows.first(file).await.map(|block| Some(Place::Trie(block)))
            }
            _ => unreachable!("a row index is of its own SSTable"),
        }
    }

    /// The block behind `place`; `None` behind the last.
    pub(super) async fn block_after(
        &mut self,
        table: &SSTable,
        place: &Place,
    ) -> Result<Option<Place>, ReadError> {
        match (self, &table.index, place) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }, Place::Promoted(number, _)) => {
                promoted_block(promoted, file, table, number + 1).await
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie), Place::Trie(block)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_after(file, block).await?.map(Place::Trie))
            }
            _ => unreachable!("a place is of its own row index"),
        }
    }

    /// The block in front of `place`; `None` in front of the first.
    pub(super) async fn block_before(
        &mut self,
        table: &SSTable,
        place: &Place,
    ) -> Result<Option<Place>, ReadError> {
        match (self, &table.index, place) {
            (Self::Promoted(promoted), PartitionIndex::Big { file, .. }, Place::Promoted(number, _)) => {
                let Some(number) = number.checked_sub(1) else { return Ok(None) };
                let fixed = &table.columns.clustering_lengths;
                Ok(Some(Place::Promoted(number, promoted.block(file, fixed, number).await?)))
            }
            (Self::Trie(rows), PartitionIndex::Trie(trie), Place::Trie(block)) => {
                let file = trie.rows_file(rows.entry_at())?;
                Ok(rows.block_before(file, block).await?.map(Place::Trie))
            }
            _ => unreachable!("a place is of its own row index"),
        }
    }

    /// The deletion in force at the start of `place`.
    pub(super) async fn in_force_at(
        &mut self,
        table: &SSTable,
        place: &Place,
    ) -> Result<Tombstone, ReadError> {
        match place {
            Place::Trie(block) => Ok(block.in_force),
            Place::Promoted(..) => Ok(match self.block_before(table, place).await? {
                Some(Place::Promoted(_, before)) => before.open,
                _ => Tombstone::LIVE,
            }),
        }
    }
}

/// Block `number`; `None` if there are no more.
async fn promoted_block(
    promoted: &mut Promoted,
    file: &ChunkedFile,
    table: &SSTable,
    number: usize,
) -> Result<Option<Place>, ReadError> {
    if number >= promoted.block_count() {
        return Ok(None);
    }
    let block = promoted.block(file, &table.columns.clustering_lengths, number).await?;
    Ok(Some(Place::Promoted(number, block)))
}
