//! What the offline tools ask of an open SSTable beside reads: the entries of Index.db one by one, a scan that says
//! where in Data.db each fragment stands, and how the data are encoded.
//!
//! Both walks stream: their memory is a window, whatever the SSTable's size.

use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, PartitionRange, Position, TableSchema, Tombstone};
use reader::{Fragment, ReadError, ReadSpec, Reader, Step};
use runtime::IoClass;

use super::index::{Entry, IndexCursor};
use super::parse::Parser;
use super::promoted::Promoted;
use super::scan::ScanReader;
use super::table::SSTable;
use super::unfiltered::tombstone_of;
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

    /// Summary.db.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Filter.db; `None`: every key may be here.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// The entries of Index.db, from the first on.
    pub fn walk_index(self: &Rc<Self>, class: IoClass) -> IndexWalk {
        IndexWalk { table: Rc::clone(self), cursor: IndexCursor::new(Fetch::Bypass, class), class }
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
        Ok(PositionedScan(ScanReader::new(self, Parser::new(self, map), &spec, class, None)))
    }
}

/// A partition as Index.db has it.
#[derive(Clone, Debug)]
pub struct IndexPartition {
    pub key: PartitionKey,
    /// Where the entry starts in Index.db.
    pub entry_at: u64,
    /// Where the partition starts in the data before compression.
    pub position: u64,
    /// Bytes of its promoted index; 0: it has none.
    pub promoted_bytes: u64,
    pub(super) entry: Entry,
}

/// A block of rows of a large partition, as its promoted index has it.
#[derive(Clone, Debug)]
pub struct IndexBlockEntry {
    pub first: Position,
    pub last: Position,
    /// From the start of the partition.
    pub offset: u64,
    pub width: u64,
    /// The range deletion that is in force behind its end.
    pub open: Tombstone,
}

/// Walks Index.db; see [`SSTable::walk_index`].
pub struct IndexWalk {
    table: Rc<SSTable>,
    cursor: IndexCursor,
    class: IoClass,
}

impl IndexWalk {
    /// The next partition; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<IndexPartition>, ReadError> {
        let entry_at = self.cursor.position();
        let Some(entry) = self.cursor.next(&self.table.index).await? else { return Ok(None) };
        Ok(Some(IndexPartition {
            key: entry.key.clone(),
            entry_at,
            position: entry.position,
            promoted_bytes: entry.promoted_bytes,
            entry,
        }))
    }

    /// Where the next entry starts in Index.db.
    pub fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The deletion of a partition that has a promoted index, and how many blocks that has.
    pub async fn promoted(
        &self,
        partition: &IndexPartition,
    ) -> Result<Option<(Tombstone, usize)>, ReadError> {
        let index = &self.table.index;
        let promoted = Promoted::open(index, &partition.entry, Fetch::Bypass, self.class).await?;
        Ok(promoted.map(|promoted| (tombstone_of(promoted.head().deletion), promoted.block_count())))
    }

    /// Each block of a partition that has a promoted index to `each`.
    pub async fn blocks(
        &self,
        partition: &IndexPartition,
        mut each: impl FnMut(IndexBlockEntry),
    ) -> Result<(), ReadError> {
        let index = &self.table.index;
        let promoted = Promoted::open(index, &partition.entry, Fetch::Bypass, self.class).await?;
        let Some(mut promoted) = promoted else { return Ok(()) };
        for number in 0..promoted.block_count() {
            let block = promoted.block(index, &self.table.columns.clustering_lengths, number).await?;
            let super::promoted::Block { first, last, offset, width, open } = block;
            each(IndexBlockEntry { first, last, offset, width, open });
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
