//! CompressionInfo.db: how Data.db is compressed, and the offset of each chunk.
//!
//! ```text
//! str16 compressor | u32 n, n * (str16 key, str16 value) | u32 chunk length
//! [na+: u32 max compressed length]
//! u64 uncompressed length | u32 chunks | u64 offset * chunks
//! ```
//! A stored chunk is its payload and the payload's CRC-32; the payload ends 4 bytes before the next chunk
//! starts. In memory an offset takes 4.25 bytes ([`ChunkOffsets`]), because a large SSTable has millions of
//! them.
//!
//! The option `crc_check_chance` is read but never written: Cassandra 5 refuses an SSTable that has it.
//!
//! A dictionary is divided into options `.dictionary.00000000`, `.dictionary.00000001`, …, as in ScyllaDB.

use base::bytes::{Take, put_u16_bytes};
use model::Compression;

use crate::component::error::check_count;
use crate::component::{FormatError, Named};
use crate::version::Version;

/// Length of the checksum after each chunk's payload in bytes.
pub const CHUNK_CRC_BYTES: u64 = 4;
/// Largest chunk length in bytes that is read. Cassandra and ScyllaDB write 4 KiB to 128 KiB.
pub const CHUNK_BYTES_MAX: u32 = 1 << 28;
/// Every chunk is stored compressed, even if it does not shrink.
pub const ALWAYS_COMPRESSED: u32 = Compression::ALWAYS;

/// Most chunks without data at the end that are read. Messina writes none.
const EMPTY_CHUNKS_MAX: u64 = 2;

const OPTION_DICTIONARY: &str = ".dictionary.";
const OPTION_BYTES_MAX: usize = 65534;
const OPTION_NEVER_WRITTEN: &str = "crc_check_chance";

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionInfo {
    /// Class name of the compressor without its package: `LZ4Compressor`.
    pub compressor: String,
    /// Options of the compressor in file order. Values are bytes, because ScyllaDB stores dictionaries in
    /// them.
    pub options: Vec<(String, Vec<u8>)>,
    /// Uncompressed length in bytes of every chunk but the last; a power of two.
    pub chunk_bytes: u32,
    /// Payloads of at least this number of bytes are stored uncompressed. [`ALWAYS_COMPRESSED`] before
    /// version na.
    pub max_compressed_bytes: u32,
    /// Uncompressed length of Data.db. Positions in Index.db are positions in the uncompressed data.
    pub data_bytes: u64,
    /// File offset of each chunk in Data.db; chunks without data may follow the last one.
    pub offsets: ChunkOffsets,
}

/// Location of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// File offset of the payload in Data.db. The checksum follows the payload.
    pub stored_at: u64,
    /// Length of the payload.
    pub stored_bytes: u64,
    /// Position of the chunk's first byte in the uncompressed data.
    pub data_at: u64,
    /// Uncompressed length of the chunk in bytes.
    pub data_bytes: u32,
}

impl CompressionInfo {
    /// The number of the chunk that contains `position` of the uncompressed data; `None` after the end.
    pub fn chunk_index(&self, position: u64) -> Option<usize> {
        (position < self.data_bytes).then(|| (position / u64::from(self.chunk_bytes)) as usize)
    }

    /// Location of chunk `index`. `file_bytes` is the length of Data.db on disk, where the last chunk ends.
    ///
    /// Fails if the file is too short for the chunk. Panics if the chunk does not exist.
    pub fn chunk(&self, index: usize, file_bytes: u64) -> Result<Chunk, FormatError> {
        let stored_at = self.offsets.get(index);
        let is_last = index + 1 == self.offsets.len();
        let end = if is_last { file_bytes } else { self.offsets.get(index + 1) };
        let stored_bytes = end.checked_sub(stored_at).and_then(|len| len.checked_sub(CHUNK_CRC_BYTES));
        let stored_bytes = stored_bytes.filter(|_| end <= file_bytes).ok_or_else(|| FormatError {
            what: "compressed chunk",
            offset_bytes: stored_at,
            expected: format!("a chunk up to byte {end}").into(),
            found: format!("a file of {file_bytes} bytes").into(),
        })?;
        let data_at = index as u64 * u64::from(self.chunk_bytes);
        let data_bytes = self.data_bytes.saturating_sub(data_at).min(u64::from(self.chunk_bytes)) as u32;
        Ok(Chunk { stored_at, stored_bytes, data_at, data_bytes })
    }

    /// The dictionary in the options; `None` if there is none.
    pub fn dictionary(&self) -> Option<Vec<u8>> {
        let part = |number: usize| {
            let name = dictionary_option(number);
            self.options.iter().find(|(key, _)| *key == name).map(|(_, value)| &value[..])
        };
        let parts: Vec<&[u8]> = (0..).map_while(part).collect();
        (!parts.is_empty()).then(|| parts.concat())
    }

    /// Replaces the dictionary in the options, or removes it.
    pub fn set_dictionary(&mut self, dictionary: Option<&[u8]>) {
        self.options.retain(|(key, _)| !key.starts_with(OPTION_DICTIONARY));
        let parts = dictionary.into_iter().flat_map(|bytes| bytes.chunks(OPTION_BYTES_MAX));
        self.options
            .extend(parts.enumerate().map(|(number, part)| (dictionary_option(number), part.to_vec())));
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        let options = self.options.iter().map(|(key, value)| key.capacity() + value.capacity() + 48);
        self.compressor.capacity() + options.sum::<usize>() + self.offsets.memory_bytes()
    }

    /// Encodes the file.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        self.assert_sound();
        let mut out = vec![];
        put_u16_bytes(&mut out, self.compressor.as_bytes());
        let written = || self.options.iter().filter(|(key, _)| key != OPTION_NEVER_WRITTEN);
        out.extend_from_slice(&(written().count() as u32).to_be_bytes());
        for (key, value) in written() {
            put_u16_bytes(&mut out, key.as_bytes());
            put_u16_bytes(&mut out, value);
        }
        out.extend_from_slice(&self.chunk_bytes.to_be_bytes());
        if version.has_max_compressed_length() {
            out.extend_from_slice(&self.max_compressed_bytes.to_be_bytes());
        }
        out.extend_from_slice(&self.data_bytes.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as u32).to_be_bytes());
        out.reserve(self.offsets.len() * 8);
        for offset in self.offsets.iter() {
            out.extend_from_slice(&offset.to_be_bytes());
        }
        out
    }

    fn assert_sound(&self) {
        assert!(self.chunk_bytes.is_power_of_two() && self.chunk_bytes <= CHUNK_BYTES_MAX);
        let chunks = self.data_bytes.div_ceil(u64::from(self.chunk_bytes));
        let empty = (self.offsets.len() as u64).checked_sub(chunks);
        assert!(empty.is_some_and(|empty| empty <= EMPTY_CHUNKS_MAX), "one offset a chunk");
        assert!(i32::try_from(chunks).is_ok(), "the format counts chunks in 31 bits");
    }

    /// Decodes the file.
    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let compressor = text(&mut take, "compressor name")?;
        let count = take.u32().named("number of options")?;
        // No memory is reserved for the stated count. An option takes at least four bytes of the file.
        let mut options = vec![];
        for _ in 0..count {
            let key = text(&mut take, "option name")?;
            options.push((key, take.u16_bytes().named("option value")?.to_vec()));
        }
        let at = take.offset();
        let chunk_bytes = take.u32().named("chunk length")?;
        if !chunk_bytes.is_power_of_two() || chunk_bytes > CHUNK_BYTES_MAX {
            let expected = format!("a power of two up to {CHUNK_BYTES_MAX}");
            return Err(FormatError::new("chunk length", at, expected, chunk_bytes.to_string()));
        }
        let max_compressed_bytes = if version.has_max_compressed_length() {
            take.u32().named("max compressed length")?
        } else {
            ALWAYS_COMPRESSED
        };
        let data_bytes = take.u64().named("uncompressed length")?;
        let at = take.offset();
        let count = u64::from(take.u32().named("chunk count")?);
        let expected = data_bytes.div_ceil(u64::from(chunk_bytes));
        // Each sync of a Cassandra compaction after the last byte appends an empty chunk: one, if the
        // output was opened before it was finished.
        if expected == 0 || !(expected..=expected + EMPTY_CHUNKS_MAX).contains(&count) {
            let expected = format!("{} for {data_bytes} bytes in chunks of {chunk_bytes}", expected.max(1));
            return Err(FormatError::new("chunk count", at, expected, count.to_string()));
        }
        check_count("chunk count", at, count, 8, take.remaining())?;
        let mut offsets = ChunkOffsets::default();
        let mut last = None;
        for _ in 0..count {
            let at = take.offset();
            let offset = take.u64().named("chunk offset")?;
            // Each chunk has at least the bytes of its checksum. Offsets are signed in Java.
            let lowest = last.map_or(0, |last: u64| last + CHUNK_CRC_BYTES);
            if offset < lowest || offset > i64::MAX as u64 - CHUNK_CRC_BYTES {
                let expected = format!("{lowest} or more");
                return Err(FormatError::new("chunk offset", at, expected, offset.to_string()));
            }
            offsets.push(offset);
            last = Some(offset);
        }
        offsets.shrink();
        if !take.is_empty() {
            let found = format!("{} more bytes", take.remaining());
            return Err(FormatError::new("end of the file", take.offset(), "no more bytes", found));
        }
        Ok(Self { compressor, options, chunk_bytes, max_compressed_bytes, data_bytes, offsets })
    }
}

fn dictionary_option(number: usize) -> String {
    format!("{OPTION_DICTIONARY}{number:08}")
}

fn text(take: &mut Take<'_>, what: &'static str) -> Result<String, FormatError> {
    let at = take.offset();
    let bytes = take.u16_bytes().named(what)?;
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new(what, at, "UTF-8", "other bytes"))?;
    Ok(text.to_owned())
}

/// Rising file offsets, compressed: one complete offset for each group of 32, and 32-bit distances from it.
///
/// If a distance does not fit (32 chunks have more than 4 GiB together), the whole list is stored as u64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkOffsets {
    groups: Vec<u64>,
    /// Distances from the group's offset; empty if `wide` is used.
    distances: Vec<u32>,
    wide: Vec<u64>,
}

const GROUP: usize = 32;

impl ChunkOffsets {
    /// Appends the offset of the next chunk, which must be greater than the last one.
    pub fn push(&mut self, offset: u64) {
        if let Some(last) = self.len().checked_sub(1) {
            assert!(self.get(last) < offset, "chunk offsets rise: {} then {offset}", self.get(last));
        }
        if !self.wide.is_empty() {
            self.wide.push(offset);
            return;
        }
        if self.distances.len().is_multiple_of(GROUP) {
            self.groups.push(offset);
        }
        let base = *self.groups.last().expect("a group was begun");
        match u32::try_from(offset - base) {
            Ok(distance) => self.distances.push(distance),
            Err(_) => {
                self.wide = self.iter().chain([offset]).collect();
                self.groups = vec![];
                self.distances = vec![];
            }
        }
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.distances.len() + self.wide.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The offset of chunk `index`, which must exist.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        match self.wide.get(index) {
            Some(offset) => *offset,
            None => self.groups[index / GROUP] + u64::from(self.distances[index]),
        }
    }

    /// The offsets in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Frees memory that was reserved for further offsets.
    pub fn shrink(&mut self) {
        self.groups.shrink_to_fit();
        self.distances.shrink_to_fit();
        self.wide.shrink_to_fit();
    }

    /// Bytes of heap memory in use.
    pub fn memory_bytes(&self) -> usize {
        (self.groups.capacity() + self.wide.capacity()) * size_of::<u64>()
            + self.distances.capacity() * size_of::<u32>()
    }
}

impl FromIterator<u64> for ChunkOffsets {
    fn from_iter<I: IntoIterator<Item = u64>>(offsets: I) -> Self {
        let mut all = Self::default();
        offsets.into_iter().for_each(|offset| all.push(offset));
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> CompressionInfo {
        CompressionInfo {
            compressor: "LZ4Compressor".into(),
            options: vec![("crc_check_chance".into(), b"1.0".to_vec()), ("a".into(), b"\xff".to_vec())],
            chunk_bytes: 4096,
            max_compressed_bytes: ALWAYS_COMPRESSED,
            data_bytes: 5000,
            offsets: [0, 0x123].into_iter().collect(),
        }
    }

    const GOLDEN_HEAD: &[u8] = b"\0\x0dLZ4Compressor\0\0\0\x01\0\x01a\0\x01\xff\0\0\x10\0";
    const GOLDEN_TAIL: &[u8] = b"\0\0\0\0\0\0\x13\x88\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x23";

    #[test]
    fn golden_bytes() {
        let info = sample();
        let me = [GOLDEN_HEAD, GOLDEN_TAIL].concat();
        let na = [GOLDEN_HEAD, b"\x7f\xff\xff\xff", GOLDEN_TAIL].concat();
        assert_eq!(info.encode(Version::Me), me);
        assert_eq!(info.encode(Version::Na), na);
        let without_chance = CompressionInfo { options: info.options[1..].to_vec(), ..info };
        assert_eq!(CompressionInfo::decode(&me, Version::Me), Ok(without_chance.clone()));
        assert_eq!(CompressionInfo::decode(&na, Version::Nb), Ok(without_chance));
    }

    #[test]
    fn every_truncation_and_any_surplus_is_an_error() {
        let bytes = sample().encode(Version::Na);
        for cut in 0..bytes.len() {
            assert!(CompressionInfo::decode(&bytes[..cut], Version::Na).is_err(), "cut at {cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(CompressionInfo::decode(&longer, Version::Na).is_err());
    }

    #[test]
    fn chunks_are_found_by_position() {
        let info = sample();
        assert_eq!(info.chunk_index(4095), Some(0));
        assert_eq!(info.chunk_index(4999), Some(1));
        assert_eq!(info.chunk_index(5000), None);
        let first = Chunk { stored_at: 0, stored_bytes: 0x11f, data_at: 0, data_bytes: 4096 };
        assert_eq!(info.chunk(0, 0x200), Ok(first));
        let last = Chunk { stored_at: 0x123, stored_bytes: 0x200 - 0x127, data_at: 4096, data_bytes: 904 };
        assert_eq!(info.chunk(1, 0x200), Ok(last));
        assert!(info.chunk(1, 0x126).is_err());
        assert!(info.chunk(0, 0x122).is_err());
    }

    #[test]
    fn offsets_that_lie_far_apart_still_fit() {
        let offsets = [0, 5, u64::from(u32::MAX), 1 << 40, (1 << 40) + 1];
        let packed: ChunkOffsets = offsets.into_iter().collect();
        assert!(packed.iter().eq(offsets));
        let near: ChunkOffsets = (0..100_000).map(|index| index * 4000).collect();
        assert!(near.iter().eq((0..100_000).map(|index| index * 4000)));
        let mut shrunk = near;
        shrunk.shrink();
        assert_eq!(shrunk.memory_bytes(), 100_000 * 4 + 100_000 / 32 * 8);
    }

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/compression.md");
        let (_, example) = page.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let info = CompressionInfo::decode(&bytes, Version::Me).unwrap();
        assert_eq!(info.dictionary().as_deref(), Some(&b"amber"[..]));
        assert_eq!((info.compressor.as_str(), info.chunk_bytes), ("ZstdWithDictsCompressor", 4096));
        assert_eq!((info.data_bytes, info.offsets.len()), (12, 1));
        assert_eq!(info.encode(Version::Me), bytes);
    }

    #[test]
    fn wrong_counts_and_orders_are_errors() {
        let mut bytes = sample().encode(Version::Me);
        let len = bytes.len();
        bytes[len - 17] = 3;
        assert!(CompressionInfo::decode(&bytes, Version::Me).is_err(), "3 chunks for 5000 bytes");
        bytes[len - 17] = 2;
        bytes[len - 2..].copy_from_slice(&[0, 3]);
        let error = CompressionInfo::decode(&bytes, Version::Me).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("chunk offset at byte {}: expected 4 or more, found 3", len - 8)
        );
    }

    #[test]
    fn chunks_without_data_at_the_end_are_read() {
        let mut bytes = sample().encode(Version::Me);
        let count_at = bytes.len() - 17;
        let (end, file_bytes) = (9000, 9009);
        bytes[count_at] = 3;
        bytes.extend(u64::to_be_bytes(end));
        let info = CompressionInfo::decode(&bytes, Version::Me).unwrap();
        let last = info.chunk(1, file_bytes).unwrap();
        assert_eq!(last.stored_at + last.stored_bytes + CHUNK_CRC_BYTES, end);
        assert_eq!(u64::from(last.data_bytes), info.data_bytes - last.data_at);
        assert_eq!(info.chunk(2, file_bytes).unwrap().data_bytes, 0);
        assert_eq!(info.encode(Version::Me), bytes);
        bytes[count_at] = 5;
        bytes.extend([9010, 9020].map(u64::to_be_bytes).concat());
        let error = CompressionInfo::decode(&bytes, Version::Me).unwrap_err();
        assert!(error.to_string().contains("found 5"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(tail: Vec<u8>, keep in 0usize..60) {
            let golden = sample().encode(Version::Me);
            let bytes = [&golden[..keep.min(golden.len())], &tail[..]].concat();
            for version in [Version::Me, Version::Nb] {
                if let Ok(info) = CompressionInfo::decode(&bytes, version) {
                    prop_assert!(info.memory_bytes() < 1000 + 64 * bytes.len());
                }
            }
        }

        #[test]
        fn values_round_trip(lengths in prop::collection::vec(5u64..100_000, 1..200), last in 1u64..=512) {
            let offsets = lengths.iter().scan(0, |at, len| { let here = *at; *at += len; Some(here) });
            let info = CompressionInfo {
                options: vec![],
                chunk_bytes: 512,
                data_bytes: (lengths.len() as u64 - 1) * 512 + last,
                offsets: offsets.collect(),
                max_compressed_bytes: 400,
                compressor: "ZstdCompressor".into(),
            };
            let mut decoded = CompressionInfo::decode(&info.encode(Version::Nb), Version::Nb).unwrap();
            decoded.offsets.shrink();
            prop_assert_eq!(decoded, info);
        }
    }
}
