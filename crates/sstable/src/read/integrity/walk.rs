//! Access for the offline tools besides reads: the index entries one by one, a scan that returns the position
//! of each fragment in Data.db, and the encoding of the data.
//!
//! Both iterations are streams: they hold one window in memory, whatever the size of the SSTable.

use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, PartitionRange, Position, TableSchema, Tombstone};
use reader::{Fragment, ReadError, ReadSpec, Reader, Step};
use runtime::IoClass;

use crate::component::compression_info::CompressionInfo;
use crate::component::filter::Filter;
use crate::component::summary::Summary;
use crate::read::data::window::Fetch;
use crate::read::decode::parse::Parser;
use crate::read::index::partition_index::{Entry, PartitionCursor, PartitionIndex};
use crate::read::index::row_index::{RowBlock, RowIndex};
use crate::read::scan::ScanReader;
use crate::read::sstable::SSTable;

impl SSTable {
    /// The content of CompressionInfo.db; `None` if Data.db is not compressed.
    pub fn compression_info(&self) -> Option<&CompressionInfo> {
        self.data.compression()
    }

    /// Whether every byte of Data.db is covered by a checksum, of its chunk or in CRC.db.
    pub fn is_checksummed(&self) -> bool {
        self.data.is_checksummed()
    }

    /// CRC-32 of Data.db, as stored in Digest.crc32.
    pub fn digest(&self) -> Option<u32> {
        self.digest
    }

    /// The summary; `None` if the format has none.
    pub fn summary(&self) -> Option<&Summary> {
        match &self.index {
            PartitionIndex::Big { summary, .. } => Some(summary),
            PartitionIndex::Trie(_) => None,
        }
    }

    /// The bloom filter; `None` if every key may be in the SSTable.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Iterates over the partitions of the index, from the first one on.
    pub fn walk_index(self: &Rc<Self>, class: IoClass) -> IndexWalk {
        let cursor = PartitionCursor::new(self, Fetch::Bypass, class);
        IndexWalk { sstable: Rc::clone(self), cursor, class, walked: 0 }
    }

    /// Scans all partitions in order and returns each fragment with its position. `schema` is as in a
    /// [`ReadSpec`].
    ///
    /// # Errors
    /// The schema does not fit this SSTable.
    pub fn positioned_scan(
        self: &Rc<Self>,
        schema: &Arc<TableSchema>,
        class: IoClass,
    ) -> Result<PositionedScan, ReadError> {
        let map = self.column_map(schema).map_err(|detail| self.data.corrupt(0, &detail))?;
        let spec = ReadSpec::new(Arc::clone(schema), PartitionRange::all());
        let parser = Parser::new(self, map);
        Ok(PositionedScan(ScanReader::new(self, parser, &spec, Fetch::Bypass, class, None)))
    }
}

/// A partition as stored in the index.
#[derive(Clone, Debug)]
pub struct IndexPartition {
    pub key: PartitionKey,
    /// Position of the entry in Index.db, or of its node in Partitions.db.
    pub entry_at: u64,
    /// Start of the partition in the data before compression.
    pub position: u64,
    /// Location of the row index.
    pub rows: IndexedRows,
    pub(in crate::read) entry: Entry,
}

/// Location of a partition's row index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedRows {
    /// The partition has no row index.
    None,
    /// In Index.db, of this length in bytes.
    Promoted { bytes: u64 },
    /// In Rows.db, with its entry at `entry_at`.
    Trie { entry_at: u64 },
}

/// A block of rows of a large partition.
#[derive(Clone, Debug)]
pub struct IndexBlockEntry {
    pub bounds: BlockBounds,
    /// Distance in bytes from the start of the partition.
    pub offset: u64,
    /// Length of the block in bytes.
    pub width: u64,
    /// The range deletion in force after the block's end.
    pub open: Tombstone,
}

/// The bounds of a block's rows, as stored in the index.
#[derive(Clone, Debug)]
pub enum BlockBounds {
    /// The positions of the first and the last row or marker.
    Rows { first: Position, last: Position },
    /// Byte-comparable keys: every row and marker is at or after `lower`, and before `upper`.
    Separators { lower: Vec<u8>, upper: Vec<u8> },
}

/// Iterates over the index; see [`SSTable::walk_index`].
pub struct IndexWalk {
    sstable: Rc<SSTable>,
    cursor: PartitionCursor,
    class: IoClass,
    walked: u64,
}

impl IndexWalk {
    /// The next partition; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<IndexPartition>, ReadError> {
        let place = self.cursor.place();
        let Some(entry) = self.cursor.next(&self.sstable).await? else { return Ok(None) };
        self.walked += 1;
        let (entry_at, rows) = match &entry {
            Entry::Big(entry) if entry.promoted_bytes == 0 => (place, IndexedRows::None),
            Entry::Big(entry) => (place, IndexedRows::Promoted { bytes: entry.promoted_bytes }),
            Entry::Trie(entry) => {
                let rows = entry.rows.map(|rows| IndexedRows::Trie { entry_at: rows.entry_at });
                (entry.node_at, rows.unwrap_or(IndexedRows::None))
            }
        };
        let (key, position) = (entry.key().clone(), entry.position());
        Ok(Some(IndexPartition { key, entry_at, position, rows, entry }))
    }

    /// Progress as (done, total): bytes of Index.db, or partitions in a trie.
    pub fn progress(&self) -> (u64, u64) {
        match self.sstable.index.partition_count() {
            None => (self.cursor.place(), self.sstable.index_bytes()),
            Some(count) => (self.walked, count),
        }
    }

    /// The deletion of the partition and the number of its blocks; `None` if it has no row index.
    pub async fn row_index(&self, partition: &IndexPartition) -> Result<Option<(Tombstone, u64)>, ReadError> {
        let rows =
            RowIndex::open_unchecked(&self.sstable, &partition.entry, Fetch::Bypass, self.class).await?;
        Ok(rows.map(|rows| (rows.deletion(), rows.block_count())))
    }

    /// Calls `each` for every block of the partition's row index.
    pub async fn blocks(
        &self,
        partition: &IndexPartition,
        mut each: impl FnMut(IndexBlockEntry),
    ) -> Result<(), ReadError> {
        let sstable = &self.sstable;
        let rows = RowIndex::open_unchecked(sstable, &partition.entry, Fetch::Bypass, self.class).await?;
        let Some(mut rows) = rows else { return Ok(()) };
        let mut next = rows.first_block(sstable).await?;
        while let Some(block) = next {
            next = rows.block_after(sstable, &block).await?;
            let (offset, width) = (block.offset(), block.end() - block.offset());
            let (bounds, open) = match block {
                RowBlock::Promoted(_, block) => {
                    (BlockBounds::Rows { first: block.first, last: block.last }, block.open)
                }
                RowBlock::Trie(block) => {
                    let open = match &next {
                        Some(RowBlock::Trie(next)) => next.in_force,
                        _ => Tombstone::LIVE,
                    };
                    (BlockBounds::Separators { lower: block.lower, upper: block.upper }, open)
                }
            };
            each(IndexBlockEntry { bounds, offset, width, open });
        }
        Ok(())
    }
}

/// A scan that knows the positions of its fragments; see [`SSTable::positioned_scan`].
pub struct PositionedScan(ScanReader);

impl PositionedScan {
    /// The next fragment and its start in the data before compression. For a static row the position is its
    /// end.
    pub async fn next(&mut self) -> Result<Option<(Fragment, u64)>, ReadError> {
        loop {
            match self.0.next()? {
                Step::Ready(fragment) => return Ok(Some((fragment, self.0.returned_at()))),
                Step::Load => self.0.load().await?,
                Step::End => return Ok(None),
            }
        }
    }

    /// Skips the rest of the current partition.
    pub fn skip_partition(&mut self) {
        self.0.skip_partition();
    }

    /// Number of bytes of the data that the scan has passed.
    pub fn progress_bytes(&self) -> u64 {
        self.0.returned_at()
    }
}
