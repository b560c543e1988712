//! Index.db: the position of each partition, and for a large partition the positions of its blocks of rows.
//!
//! ```text
//! entry    := str16 key, vint data_position, vint promoted_size, promoted
//! promoted := vint header_length, deletion time, vint block_count, block * block_count,
//!             u32 offset * block_count
//! block    := prefix first, prefix last, vint offset, signed vint (width - 65536), u8 has_open,
//!             [deletion time]
//! ```
//! A partition of two or more blocks has a promoted index. The offsets at its end are relative to the first
//! block and allow a binary search on disk, page by page, without reading the blocks before. [`PromotedHead`]
//! gives the positions of offsets and blocks, [`IndexBlock`] decodes one block, and [`PromotedIndex`] does
//! both in a slice in memory.
//!
//! The width of the last block includes the partition's end byte in files of some writers and not in others,
//! so the position of the next partition must never be derived from it. Source: Cassandra's
//! `RowIndexEntry`, `IndexInfo`, `BigTableWriter`.

use base::bytes::{Take, put_u16_bytes};
use base::vint;

use crate::component::clustering::{FixedLengths, RawPrefix};
use crate::component::deletion_time::DeletionTime;
use crate::component::error::check_count;
use crate::component::{FormatError, Named};
use crate::version::Version;

/// Bytes of Index.db that one checksum covers: the page in which it is read.
pub(crate) const INDEX_PAGE_BYTES: u32 = 4096;
/// Default length in bytes at which a block of rows ends.
pub const BLOCK_BYTES_DEFAULT: u32 = 64 * 1024;

/// The value to which widths are relative, whatever block size is configured.
const WIDTH_BASE: i64 = 65536;

/// A partition in Index.db.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The serialized partition key.
    pub key: &'a [u8],
    /// Start of the partition in the uncompressed data.
    pub data_position: u64,
    /// The promoted index; empty if the partition has fewer than two blocks.
    pub promoted: &'a [u8],
}

impl<'a> IndexEntry<'a> {
    /// Appends the entry. The key has at most 65,535 bytes; the schema check refuses longer ones.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u16_bytes(out, self.key);
        vint::write_unsigned(out, self.data_position);
        vint::write_unsigned(out, self.promoted.len() as u64);
        out.extend_from_slice(self.promoted);
    }

    /// Reads the entry at `take` and moves after it.
    pub fn decode(take: &mut Take<'a>) -> Result<Self, FormatError> {
        let head = IndexEntryHead::decode(take)?;
        let at = take.offset();
        let promoted = usize::try_from(head.promoted_bytes).ok().and_then(|len| take.bytes(len).ok());
        let promoted = promoted.ok_or_else(|| {
            let expected = format!("{} bytes", head.promoted_bytes);
            FormatError::new("promoted index", at, expected, format!("{} bytes", take.remaining()))
        })?;
        Ok(Self { key: head.key, data_position: head.data_position, promoted })
    }
}

/// An entry without its promoted index, for callers that do not want to read a large promoted index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntryHead<'a> {
    /// The serialized partition key.
    pub key: &'a [u8],
    /// Start of the partition in the uncompressed data.
    pub data_position: u64,
    /// Length of the promoted index in bytes; 0 if there is none.
    pub promoted_bytes: u64,
}

impl<'a> IndexEntryHead<'a> {
    /// The longest head in bytes: the key with its length, and two vints.
    pub const SIZE_BYTES_MAX: usize = 2 + u16::MAX as usize + 2 * vint::MAX_BYTES;

    /// Reads the head at `take` and moves to the promoted index, or to the next entry if there is none.
    pub fn decode(take: &mut Take<'a>) -> Result<Self, FormatError> {
        let key = take.u16_bytes().named("partition key")?;
        let at = take.offset();
        let data_position = take.vint().named("position in Data.db")?;
        if data_position > i64::MAX as u64 {
            return Err(FormatError::new("position in Data.db", at, "below 2^63", data_position.to_string()));
        }
        let promoted_bytes = take.vint().named("length of the promoted index")?;
        Ok(Self { key, data_position, promoted_bytes })
    }
}

/// Builds the promoted indexes of partitions, one after the other. Reuses its buffers.
#[derive(Default)]
pub struct PromotedIndexBuilder {
    blocks: Vec<u8>,
    offsets: Vec<u32>,
    first: Option<OnlyBlock>,
    end: u64,
}

/// The first block. It is encoded only when a second block is added.
struct OnlyBlock {
    first: Vec<u8>,
    last: Vec<u8>,
    offset: u64,
    width: u64,
    open: Option<DeletionTime>,
}

impl PromotedIndexBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next block. `first` and `last` are the encoded prefixes (`clustering::encode_prefix`) of its
    /// first and last row or marker, `offset` is its distance from the partition's start, `width` its length,
    /// and `open` the deletion of a range tombstone that continues after its end.
    pub fn add_block(
        &mut self,
        first: &[u8],
        last: &[u8],
        offset: u64,
        width: u64,
        open: Option<DeletionTime>,
    ) {
        if self.block_count() > 0 {
            assert_eq!(offset, self.end, "blocks follow one another");
        }
        self.end = offset + width;
        match self.first.take() {
            None if self.offsets.is_empty() => {
                self.first =
                    Some(OnlyBlock { first: first.to_vec(), last: last.to_vec(), offset, width, open });
                return;
            }
            None => (),
            Some(only) => self.push(&only.first, &only.last, only.offset, only.width, only.open),
        }
        self.push(first, last, offset, width, open);
    }

    fn push(&mut self, first: &[u8], last: &[u8], offset: u64, width: u64, open: Option<DeletionTime>) {
        let at = u32::try_from(self.blocks.len()).expect("the blocks of one partition take less than 4 GiB");
        self.offsets.push(at);
        self.blocks.extend_from_slice(first);
        self.blocks.extend_from_slice(last);
        vint::write_unsigned(&mut self.blocks, offset);
        vint::write_signed(&mut self.blocks, width as i64 - WIDTH_BASE);
        self.blocks.push(u8::from(open.is_some()));
        if let Some(open) = open {
            open.encode(&mut self.blocks);
        }
    }

    /// Number of blocks of the partition so far.
    pub fn block_count(&self) -> usize {
        self.offsets.len() + usize::from(self.first.is_some())
    }

    /// Encoded bytes of the blocks so far.
    pub fn blocks_bytes(&self) -> usize {
        self.blocks.len()
    }

    /// Ends the partition: appends its promoted index to `out`, or nothing if there are fewer than two
    /// blocks, and begins the next partition. `header_bytes` is the length of the partition's key, deletion
    /// and static row.
    pub fn finish(&mut self, header_bytes: u64, deletion: DeletionTime, out: &mut Vec<u8>) {
        if !self.offsets.is_empty() {
            vint::write_unsigned(out, header_bytes);
            deletion.encode(out);
            vint::write_unsigned(out, self.offsets.len() as u64);
            out.extend_from_slice(&self.blocks);
            out.extend(self.offsets.iter().flat_map(|offset| offset.to_be_bytes()));
        }
        self.blocks.clear();
        self.offsets.clear();
        self.first = None;
    }
}

/// The start of a promoted index, and the positions of its other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromotedHead {
    /// Distance in bytes from the partition's start to its first row or marker.
    pub header_bytes: u64,
    /// The partition's deletion.
    pub deletion: DeletionTime,
    /// At least 1.
    pub block_count: usize,
    /// Start of the first block, counted from the start of the promoted index.
    pub blocks_at: u64,
    /// Start of the offsets, after the last block, counted from the start of the promoted index.
    pub offsets_at: u64,
}

impl PromotedHead {
    /// Number of bytes of a promoted index that are sufficient for its head; all of them if the index is
    /// shorter.
    pub const SIZE_BYTES_MAX: usize = 2 * vint::MAX_BYTES + DeletionTime::SIZE_BYTES_MAX;

    /// Decodes the head from the first bytes of a promoted index of `promoted_bytes` bytes.
    pub fn decode(bytes: &[u8], promoted_bytes: u64, version: Version) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let header_bytes = take.vint().named("length of the partition's header")?;
        let deletion = DeletionTime::decode(&mut take, version, "partition deletion")?;
        let at = take.offset();
        let block_count = take.vint().named("number of blocks")?;
        let blocks_at = take.offset() as u64;
        // A block takes at least two prefixes of a byte each, two vints, a flag, and its offset at the end.
        let left = usize::try_from(promoted_bytes.saturating_sub(blocks_at)).unwrap_or(usize::MAX);
        let block_count = check_count("number of blocks", at, block_count, 9, left)?;
        if block_count == 0 {
            return Err(FormatError::new("number of blocks", at, "at least 1", "0"));
        }
        let offsets_at = promoted_bytes - block_count as u64 * 4;
        Ok(Self { header_bytes, deletion, block_count, blocks_at, offsets_at })
    }

    /// Position of the u32 (big-endian) offset of block `index`, counted from the start of the promoted
    /// index.
    pub fn offset_at(&self, index: usize) -> u64 {
        assert!(index < self.block_count);
        self.offsets_at + index as u64 * 4
    }

    /// Start of the block with this offset, counted from the start of the promoted index.
    pub fn block_at(&self, offset: u32) -> Result<u64, FormatError> {
        let at = self.blocks_at + u64::from(offset);
        if at >= self.offsets_at {
            let expected = format!("below {}", self.offsets_at - self.blocks_at);
            return Err(FormatError::new("offset of a block", 0, expected, offset.to_string()));
        }
        Ok(at)
    }
}

/// A block of rows of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexBlock<'a> {
    /// The first row or marker of the block.
    pub first: RawPrefix<'a>,
    /// The last row or marker of the block.
    pub last: RawPrefix<'a>,
    /// Distance in bytes from the partition's start to the block.
    pub offset: u64,
    /// Length in bytes. See the module for the last block.
    pub width: u64,
    /// The deletion of the range tombstone that continues after the block's end.
    pub open: Option<DeletionTime>,
}

impl<'a> IndexBlock<'a> {
    /// Reads the block at `take` and moves after it.
    pub fn decode(
        take: &mut Take<'a>,
        fixed: FixedLengths<'_>,
        version: Version,
    ) -> Result<Self, FormatError> {
        let first = RawPrefix::decode(take, fixed)?;
        let last = RawPrefix::decode(take, fixed)?;
        let offset = take.vint().named("offset of a block")?;
        let at = take.offset();
        let relative = take.vint_signed().named("width of a block")?;
        let width = relative.checked_add(WIDTH_BASE).and_then(|width| u64::try_from(width).ok());
        let width =
            width.filter(|width| offset.checked_add(*width).is_some_and(|end| end <= i64::MAX as u64));
        let width = width.ok_or_else(|| {
            let expected = "a block that ends below 2^63";
            FormatError::new("width of a block", at, expected, format!("{relative} over 65536 from {offset}"))
        })?;
        let at = take.offset();
        let open = match take.u8().named("open deletion flag")? {
            0 => None,
            1 => Some(DeletionTime::decode(take, version, "open deletion")?),
            other => return Err(FormatError::new("open deletion flag", at, "0 or 1", other.to_string())),
        };
        Ok(Self { first, last, offset, width, open })
    }
}

/// A promoted index in memory, in one slice.
#[derive(Clone, Copy, Debug)]
pub struct PromotedIndex<'a, 'f> {
    bytes: &'a [u8],
    head: PromotedHead,
    fixed: FixedLengths<'f>,
    version: Version,
}

impl<'a, 'f> PromotedIndex<'a, 'f> {
    /// `bytes` is the whole promoted index, as in [`IndexEntry::promoted`], and not empty.
    pub fn decode(bytes: &'a [u8], fixed: FixedLengths<'f>, version: Version) -> Result<Self, FormatError> {
        let head = PromotedHead::decode(bytes, bytes.len() as u64, version)?;
        Ok(Self { bytes, head, fixed, version })
    }

    pub fn head(&self) -> &PromotedHead {
        &self.head
    }

    /// Number of blocks; at least 1.
    pub fn block_count(&self) -> usize {
        self.head.block_count
    }

    /// Block `index`, which must be less than the count. The block must end where the next one starts.
    pub fn block(&self, index: usize) -> Result<IndexBlock<'a>, FormatError> {
        let start = self.block_start(index)?;
        let end = if index + 1 == self.block_count() {
            self.head.offsets_at as usize
        } else {
            self.block_start(index + 1)?
        };
        let bytes = self.bytes.get(start..end).ok_or_else(|| {
            let found = format!("one from {start} to {end}");
            FormatError::new("block", start, "consecutive blocks", found)
        })?;
        let mut take = Take::new(bytes);
        let block = IndexBlock::decode(&mut take, self.fixed, self.version)
            .map_err(|error| error.shifted(start as u64))?;
        if !take.is_empty() {
            let found = format!("{} more bytes", take.remaining());
            return Err(FormatError::new("block", start + take.offset(), "the next block", found));
        }
        Ok(block)
    }

    fn block_start(&self, index: usize) -> Result<usize, FormatError> {
        let at = self.head.offset_at(index) as usize;
        let offset = u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes"));
        self.head.block_at(offset).map(|start| start as usize).map_err(|error| error.shifted(at as u64))
    }

    /// Number of leading blocks for which `is_before` holds, by binary search. `is_before` must not hold for
    /// a block after one for which it does not hold. If `is_before` tests whether the last prefix of a block
    /// is before a target, the result is the first block that can contain the target.
    pub fn partition_point(
        &self,
        mut is_before: impl FnMut(&IndexBlock<'a>) -> bool,
    ) -> Result<usize, FormatError> {
        let (mut low, mut high) = (0, self.block_count());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(&self.block(middle)?) { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::component::clustering::{PrefixKind, encode_prefix};

    const INT: FixedLengths<'_> = &[Some(4)];

    fn row(number: u32) -> Vec<u8> {
        let mut out = vec![];
        encode_prefix(&mut out, PrefixKind::Row, &[Some(&number.to_be_bytes())], INT);
        out
    }

    fn number_of(prefix: &RawPrefix<'_>) -> u32 {
        let value = prefix.values(INT).next().unwrap().unwrap().unwrap();
        u32::from_be_bytes(value.try_into().unwrap())
    }

    const DELETED: DeletionTime = DeletionTime { marked_for_delete_at_us: 3, local_deletion_time_s: 2 };

    /// A promoted index of blocks with rows 0..=9, 10..=19, …, each 100 bytes wide.
    fn promoted(blocks: u32) -> Vec<u8> {
        let mut builder = PromotedIndexBuilder::new();
        for block in 0..blocks {
            let open = (block == 1).then_some(DELETED);
            builder.add_block(&row(block * 10), &row(block * 10 + 9), 30 + u64::from(block) * 100, 100, open);
            assert_eq!(builder.block_count(), block as usize + 1);
        }
        let mut out = vec![];
        builder.finish(30, DeletionTime::LIVE, &mut out);
        assert_eq!(builder.block_count(), 0);
        out
    }

    #[test]
    fn golden_bytes() {
        let mut out = vec![];
        IndexEntry { key: b"k", data_position: 200, promoted: &[] }.encode(&mut out);
        assert_eq!(out, [0, 1, b'k', 0x80, 200, 0]);
        let live = [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0];
        let mut golden = vec![30];
        golden.extend(live);
        golden.push(2);
        // Width 100 is stored as 100 - 65536 = -65436, in zigzag encoding 130871.
        golden.extend([4, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 9, 30, 0xc1, 0xff, 0x37, 0]);
        golden.extend([4, 0, 0, 0, 0, 10, 4, 0, 0, 0, 0, 19, 0x80, 130, 0xc1, 0xff, 0x37, 1]);
        golden.extend([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        golden.extend([0, 0, 0, 0, 0, 0, 0, 17]);
        assert_eq!(promoted(2), golden);
    }

    #[test]
    fn fewer_than_two_blocks_have_no_promoted_index() {
        assert!(promoted(0).is_empty());
        assert!(promoted(1).is_empty());
    }

    #[test]
    fn blocks_are_found_on_the_encoded_form() {
        let bytes = promoted(37);
        let index = PromotedIndex::decode(&bytes, INT, Version::Me).unwrap();
        assert_eq!((index.block_count(), index.head().header_bytes), (37, 30));
        for target in 0..370 {
            let at = index.partition_point(|block| number_of(&block.last) < target).unwrap();
            let block = index.block(at).unwrap();
            assert!((number_of(&block.first)..=number_of(&block.last)).contains(&target));
            assert_eq!((block.offset, block.width), (30 + 100 * at as u64, 100));
            assert_eq!(block.open, (at == 1).then_some(DELETED));
        }
        assert_eq!(index.partition_point(|block| number_of(&block.last) < 370).unwrap(), 37);
    }

    #[test]
    fn entries_follow_one_another() {
        let promoted = promoted(3);
        let entries = [
            IndexEntry { key: b"", data_position: 0, promoted: &[] },
            IndexEntry { key: b"a", data_position: 1 << 40, promoted: &promoted },
            IndexEntry { key: &[7; 65535], data_position: i64::MAX as u64, promoted: &[] },
        ];
        let mut bytes = vec![];
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        let mut take = Take::new(&bytes);
        for entry in entries {
            assert_eq!(IndexEntry::decode(&mut take).unwrap(), entry);
        }
        assert!(take.is_empty());
        let mut head = Take::new(&bytes[4..9 + 5]);
        assert_eq!(IndexEntryHead::decode(&mut head).unwrap().promoted_bytes, promoted.len() as u64);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let promoted = promoted(2);
        let mut bytes = vec![];
        IndexEntry { key: b"key", data_position: 300, promoted: &promoted }.encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(IndexEntry::decode(&mut Take::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
        for cut in 0..promoted.len() {
            let read = PromotedIndex::decode(&promoted[..cut], INT, Version::Me)
                .and_then(|index| (0..index.block_count()).try_for_each(|at| index.block(at).map(|_| ())));
            assert!(read.is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(tail: Vec<u8>, keep in 0usize..100) {
            let golden = promoted(3);
            let bytes = [&golden[..keep.min(golden.len())], &tail[..]].concat();
            let _ = IndexEntry::decode(&mut Take::new(&bytes));
            if let Ok(index) = PromotedIndex::decode(&bytes, INT, Version::Me) {
                let _ = index.partition_point(|block| number_of_any(&block.last) < 5);
            }
        }

        #[test]
        fn one_wrong_byte_is_an_answer(at in 0usize..1000, value: u8) {
            let mut bytes = promoted(5);
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(index) = PromotedIndex::decode(&bytes, INT, Version::Me) {
                for at in 0..index.block_count() {
                    let _ = index.block(at);
                }
            }
        }
    }

    fn number_of_any(prefix: &RawPrefix<'_>) -> usize {
        prefix.values(INT).map(|value| value.unwrap().map_or(0, <[u8]>::len)).sum()
    }
}
