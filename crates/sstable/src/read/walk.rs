//! What the offline tools ask of an open SSTable beside reads: the entries of the index one by one, a scan that says
//! where in Data.db each fragment stands, and how the data are encoded.
//!
//! Both walks stream: their memory is a window, whatever the SSTable's size.

use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, PartitionRange, Position, TableSchema, Tombstone};
use reader::{Fragment, ReadError, ReadSpec, Reader, Step};
use runtime::IoClass;

use super::parse::Parser;
use super::partition_index::{Entry, PartitionCursor, PartitionIndex};
use super::row_index::{Place, RowIndex};
use super::scan::ScanReader;
use super::table::SSTable;
use super::window::Fetch;
use crate::component::compression_info::CompressionInfo;
use crate::component::filter::Filter;
use crate::component::summary::Summary;

impl SSTable {
    /// CompressionInfo.db; `None` if Data.db is not compressed.
    pub fn compression_info(&self) -> Option<&CompressionInfo> {
        self.data.compression()
    }

    /// Whether every byte of Data.db has a checksum of its chunk or of CRC.db.
    pub fn is_checksummed(&self) -> bool {
        self.data.is_checksummed()
    }

    /// CRC-32 of Data.db as Digest.crc32 has it.
    pub fn digest(&self) -> Option<u32> {
        self.digest
    }

    /// Summary.db; `None`: the format has none.
    pub fn summary(&self) -> Option<&Summary> {
        match &self.index {
            PartitionIndex::Big { summary, .. } => Some(summary),
            PartitionIndex::Trie(_) => None,
        }
    }

    /// Filter.db; `None`: every key may be here.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The partitions of the index, from the first on.
    pub fn walk_index(self: &Rc<Self>, class: IoClass) -> IndexWalk {
        let cursor = PartitionCursor::new(self, Fetch::Bypass, class);
        IndexWalk { table: Rc::clone(self), cursor, class, walked: 0 }
    }

    /// All partitions in order, each fragment with its place. `schema` is as in a [`ReadSpec`].
    ///
    /// # Errors
    /// The schema is not this SSTable's.
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

/// A partition as the index has it.
#[derive(Clone, Debug)]
pub struct IndexPartition {
    pub key: PartitionKey,
    /// Where the entry starts in Index.db, or its node in Partitions.db.
    pub entry_at: u64,
    /// Where the partition starts in the data before compression.
    pub position: u64,
    pub rows: IndexedRows,
    pub(super) entry: Entry,
}

/// Where the row index of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedRows {
    /// The partition has none.
    None,
    /// In Index.db, so many bytes.
    Promoted { bytes: u64 },
    /// In Rows.db, where its entry is at `entry_at`.
    Trie { entry_at: u64 },
}

/// A block of rows of a large partition.
#[derive(Clone, Debug)]
pub struct IndexBlockEntry {
    pub bounds: BlockBounds,
    /// From the start of the partition.
    pub offset: u64,
    pub width: u64,
    /// The range deletion that is in force behind its end.
    pub open: Tombstone,
}

/// What an index says of the rows of a block.
#[derive(Clone, Debug)]
pub enum BlockBounds {
    /// The first and the last row or marker.
    Rows { first: Position, last: Position },
    /// Byte-comparable keys: all rows and markers are at or behind the first, and in front of the second.
    Separators { lower: Vec<u8>, upper: Vec<u8> },
}

/// Walks the index; see [`SSTable::walk_index`].
pub struct IndexWalk {
    table: Rc<SSTable>,
    cursor: PartitionCursor,
    class: IoClass,
    walked: u64,
}

impl IndexWalk {
    /// The next partition; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<IndexPartition>, ReadError> {
        let place = self.cursor.place();
        let Some(entry) = self.cursor.next(&self.table).await? else { return Ok(None) };
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

    /// How far it is: so much of so much, in bytes or in partitions.
    pub fn progress(&self) -> (u64, u64) {
        match self.table.index.partition_count() {
            None => (self.cursor.place(), self.table.index_bytes()),
            Some(count) => (self.walked, count),
        }
    }

    /// The deletion of a partition whose rows are indexed, and how many blocks it has.
    pub async fn row_index(&self, partition: &IndexPartition) -> Result<Option<(Tombstone, u64)>, ReadError> {
        let rows = RowIndex::open_unchecked(&self.table, &partition.entry, Fetch::Bypass, self.class).await?;
        Ok(rows.map(|rows| (rows.deletion(), rows.block_count())))
    }

    /// Each block of a partition whose rows are indexed to `each`.
    pub async fn blocks(
        &self,
        partition: &IndexPartition,
        mut each: impl FnMut(IndexBlockEntry),
    ) -> Result<(), ReadError> {
        let table = &self.table;
        let rows = RowIndex::open_unchecked(table, &partition.entry, Fetch::Bypass, self.class).await?;
        let Some(mut rows) = rows else { return Ok(()) };
        let mut next = rows.first_block(table).await?;
        while let Some(block) = next {
            next = rows.block_after(table, &block).await?;
            let (offset, width) = (block.offset(), block.end() - block.offset());
            let (bounds, open) = match block {
                Place::Promoted(_, block) => {
                    (BlockBounds::Rows { first: block.first, last: block.last }, block.open)
                }
                Place::Trie(block) => {
                    let open = match &next {
                        Some(Place::Trie(next)) => next.in_force,
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

/// A scan that knows where its fragments stand; see [`SSTable::positioned_scan`].
pub struct PositionedScan(ScanReader);

impl PositionedScan {
    /// The next fragment and where it starts in the data before compression (of a static row: where it ends).
    pub async fn next(&mut self) -> Result<Option<(Fragment, u64)>, ReadError> {
        loop {
            match self.0.next()? {
                Step::Ready(fragment) => return Ok(Some((fragment, self.0.given_at()))),
                Step::Load => self.0.load().await?,
                Step::End => return Ok(None),
            }
        }
    }

    /// The rest of the current partition is not wanted.
    pub fn skip_partition(&mut self) {
        self.0.skip_partition();
    }

    /// How much of the data lies behind the scan, in bytes.
    pub fn progress_bytes(&self) -> u64 {
        self.0.given_at()
    }
}
