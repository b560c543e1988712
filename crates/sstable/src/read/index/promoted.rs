//! Binary search in the promoted index of one partition, as stored in Index.db, without reading the whole
//! index.
//!
//! A lookup reads only the offsets and blocks that the search visits, through the page cache; nothing is
//! parsed in advance. Of the visited blocks only the compared prefix is decoded. Offsets and blocks have one
//! window each, because the last steps of a search alternate between a page of offsets and a page of blocks;
//! with two windows a search without the cache reads neither page twice. Memory: the two windows, whatever
//! the size of the partition. Reads without cached pages: about one page per step, log2(N) pages for N
//! blocks.
//!
//! Index.db has checksums only if Messina.db stores them. The reader that seeks compares the result with
//! Data.db.

use std::rc::Rc;

use base::bytes::Take;
use model::clustering::PrefixBuilder;
use model::{ClusteringPrefix, Position, TableSchema, Tombstone};
use reader::{Permit, ReadError};
use runtime::IoClass;

use super::index_db::Entry;
use crate::component::FormatError;
use crate::component::clustering::{FixedLengths, RawPrefix};
use crate::component::index::{IndexBlock, PromotedHead};
use crate::read::data::chunked::ChunkedFile;
use crate::read::data::window::{Fetch, Window};
use crate::read::decode::unfiltered::{prefix_of, side_of, tombstone_of};
use crate::version::Version;

/// A block of rows, with owned values.
#[derive(Clone, Debug)]
pub(in crate::read) struct Block {
    pub(in crate::read) first: Position,
    pub(in crate::read) last: Position,
    /// Distance in bytes from the start of the partition.
    pub(in crate::read) offset: u64,
    pub(in crate::read) width: u64,
    /// The range deletion in force after the block's end.
    pub(in crate::read) open: Tombstone,
}

/// See the head of this file.
pub(in crate::read) struct Promoted {
    offsets: Window,
    blocks: Window,
    at: u64,
    bytes: u64,
    head: PromotedHead,
    version: Version,
    builder: PrefixBuilder,
}

/// The end of a block that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum BlockEnd {
    First,
    Last,
}

impl Promoted {
    /// Reads the head of the entry's promoted index; `None` if the entry has none.
    pub(in crate::read) async fn open(
        file: &ChunkedFile,
        entry: &Entry,
        version: Version,
        fetch: Fetch,
        class: IoClass,
    ) -> Result<Option<Self>, ReadError> {
        if entry.promoted_bytes == 0 {
            return Ok(None);
        }
        // Lookups access distant positions, so read-ahead would be wasted.
        let fetch = if fetch == Fetch::Cached { Fetch::Cached } else { Fetch::Bypass };
        let mut blocks = Window::new(fetch, class);
        let len = entry.promoted_bytes.min(PromotedHead::SIZE_BYTES_MAX as u64);
        blocks.fill(file, entry.promoted_at, len, 0).await?;
        let bytes = &blocks.rest(entry.promoted_at)[..len as usize];
        let head = PromotedHead::decode(bytes, entry.promoted_bytes, version)
            .map_err(|error| file.corrupt(entry.promoted_at, &error.to_string()))?;
        let builder = PrefixBuilder::default();
        let offsets = Window::new(fetch, class);
        let (at, bytes) = (entry.promoted_at, entry.promoted_bytes);
        Ok(Some(Self { offsets, blocks, at, bytes, head, version, builder }))
    }

    /// Charges the windows to the read.
    #[must_use]
    pub(in crate::read) fn charged_to(mut self, permit: &Option<Rc<Permit>>) -> Self {
        self.offsets = self.offsets.charged_to(permit);
        self.blocks = self.blocks.charged_to(permit);
        self
    }

    /// Position of the promoted index in Index.db.
    pub(in crate::read) fn position(&self) -> u64 {
        self.at
    }

    pub(in crate::read) fn head(&self) -> &PromotedHead {
        &self.head
    }

    pub(in crate::read) fn block_count(&self) -> usize {
        self.head.block_count
    }

    /// Number of leading blocks whose `end` is before `target`.
    pub(in crate::read) async fn blocks_before(
        &mut self,
        file: &ChunkedFile,
        fixed: FixedLengths<'_>,
        schema: &TableSchema,
        end: BlockEnd,
        target: &Position,
    ) -> Result<usize, ReadError> {
        let (mut low, mut high) = (0, self.block_count());
        while low < high {
            let middle = low.midpoint(high);
            let (prefix, side) = self.block_end(file, fixed, middle, end).await?;
            let order = schema.compare_parts((&prefix, side), (&target.prefix, target.side));
            if order.is_lt() { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Start and end of block `index` in the file.
    async fn block_range(&mut self, file: &ChunkedFile, index: usize) -> Result<(u64, u64), ReadError> {
        let is_last = index + 1 == self.block_count();
        let offsets = if is_last { 1 } else { 2 };
        let offset_at = self.at + self.head.offset_at(index);
        self.offsets.fill(file, offset_at, offsets * 4, 0).await?;
        let bytes = self.offsets.rest(offset_at);
        let start_of = |which: usize| {
            let offset = u32::from_be_bytes(bytes[which * 4..which * 4 + 4].try_into().expect("4 bytes"));
            self.head
                .block_at(offset)
                .map_err(|error| file.corrupt(offset_at, &format!("{}: {} found", error.what, error.found)))
        };
        let start = start_of(0)?;
        let end = if is_last { self.head.offsets_at } else { start_of(1)? };
        if start >= end || end > self.bytes {
            let detail = format!("block {index} of a promoted index from its byte {start} to {end}");
            return Err(file.corrupt(offset_at, &detail));
        }
        Ok((self.at + start, self.at + end))
    }

    async fn block_end(
        &mut self,
        file: &ChunkedFile,
        fixed: FixedLengths<'_>,
        index: usize,
        end: BlockEnd,
    ) -> Result<(ClusteringPrefix, model::Side), ReadError> {
        let (start, until) = self.block_range(file, index).await?;
        self.blocks.fill(file, start, until - start, 0).await?;
        let mut take = Take::new(&self.blocks.rest(start)[..(until - start) as usize]);
        let corrupt = |error: FormatError| file.corrupt(start, &error.to_string());
        let mut raw = RawPrefix::decode(&mut take, fixed).map_err(corrupt)?;
        if end == BlockEnd::Last {
            raw = RawPrefix::decode(&mut take, fixed).map_err(corrupt)?;
        }
        let prefix = prefix_of(raw.values, &fixed[..raw.count], &mut self.builder).map_err(corrupt)?;
        Ok((prefix, side_of(raw.kind)))
    }

    /// Block `index`, which must exist.
    pub(in crate::read) async fn block(
        &mut self,
        file: &ChunkedFile,
        fixed: FixedLengths<'_>,
        index: usize,
    ) -> Result<Block, ReadError> {
        assert!(index < self.block_count(), "block {index} of {}", self.block_count());
        let (start, until) = self.block_range(file, index).await?;
        self.blocks.fill(file, start, until - start, 0).await?;
        let mut take = Take::new(&self.blocks.rest(start)[..(until - start) as usize]);
        let corrupt = |error: FormatError| file.corrupt(start, &error.to_string());
        let block = IndexBlock::decode(&mut take, fixed, self.version).map_err(corrupt)?;
        let mut position = |raw: &RawPrefix<'_>| {
            let prefix = prefix_of(raw.values, &fixed[..raw.count], &mut self.builder).map_err(corrupt)?;
            Ok::<_, ReadError>(Position { prefix, side: side_of(raw.kind) })
        };
        Ok(Block {
            first: position(&block.first)?,
            last: position(&block.last)?,
            offset: block.offset,
            width: block.width,
            open: block.open.map_or(Tombstone::LIVE, tombstone_of),
        })
    }
}
