//! Byte layout of commit log segments. `docs/formats/commitlog.md` has the tables and a worked example.
//!
//! A segment is a 32-byte header and chunks. Each chunk is one write to the file: a 32-byte header and the
//! entries, each a u32 length and a mutation, or the mutations of a batch. Chunks begin at multiples of 64
//! bytes, so that a reader finds the next chunk after a damaged one. All integers are big-endian.
//!
//! The checksum of a chunk's header covers the segment's id and the chunk's position, so chunks from an
//! earlier use of a recycled file are not taken for chunks of this segment.

use std::path::Path;

use base::bytes::Take;
use base::crc::{Crc32, crc32};
use model::{Mutation, codec};

const MAGIC: u32 = 0x4d53_434c;
/// In file names, the same for all versions.
const NAME_VERSION: u32 = 1;
const VERSION: u32 = 3;
/// The same format, without batch entries.
const VERSION_SINGLE: u32 = 2;
/// Without a manifest for the run, too.
const VERSION_ALONE: u32 = 1;

/// First byte of a batch entry. A mutation begins with its version, which is lower.
const BATCH: u8 = 0x80;

/// Length of the header of a segment and of a chunk.
pub const HEADER_BYTES: usize = 32;
/// Chunks begin at multiples of this.
pub const CHUNK_ALIGNMENT_BYTES: u64 = 64;
/// Position of the first chunk.
pub const FIRST_CHUNK_BYTES: u64 = 64;

/// The upper 10 bits of a segment's id are the shard that created it.
const SHARD_SHIFT: u32 = 54;

/// The number of shards that segment ids can distinguish.
pub const SHARDS_MAX: u32 = 1 << (u64::BITS - SHARD_SHIFT);

/// The id of a segment created by `shard`; `base` must be below 2^54.
pub fn segment_id(shard: u32, base: u64) -> u64 {
    assert!(shard < SHARDS_MAX && base < 1 << SHARD_SHIFT, "shard {shard}, base {base}");
    u64::from(shard) << SHARD_SHIFT | base
}

/// The shard that created the segment, and its number there.
pub fn split_id(id: u64) -> (u32, u64) {
    ((id >> SHARD_SHIFT) as u32, id & ((1 << SHARD_SHIFT) - 1))
}

pub fn file_name(id: u64) -> String {
    format!("CommitLog-{NAME_VERSION}-{id}.log")
}

/// The id in a segment's file name, `None` for other files.
pub fn id_of_file_name(name: &str) -> Option<u64> {
    name.strip_prefix("CommitLog-1-")?.strip_suffix(".log")?.parse().ok()
}

/// The name of a segment that is not needed and waits to be reused.
pub fn recycled_name(id: u64) -> String {
    format!("Recycled-{}", file_name(id))
}

pub fn is_recycled(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("Recycled-"))
}

/// `run_first_id` is the first segment that the same run of this shard created.
pub fn encode_segment_header(id: u64, run_first_id: u64) -> [u8; HEADER_BYTES] {
    encode_header(id, run_first_id, VERSION)
}

/// The header of a segment that is alone in its run and has no manifest: a start replays it as it is.
pub fn encode_alone_header(id: u64) -> [u8; HEADER_BYTES] {
    encode_header(id, id, VERSION_ALONE)
}

fn encode_header(id: u64, run_first_id: u64, version: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[0..4].copy_from_slice(&MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&version.to_be_bytes());
    out[8..16].copy_from_slice(&id.to_be_bytes());
    out[16..24].copy_from_slice(&run_first_id.to_be_bytes());
    let crc = crc32(&out[..28]);
    out[28..32].copy_from_slice(&crc.to_be_bytes());
    out
}

/// The decoded beginning of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentHeader {
    /// The id, the first segment of the run, and whether the run has a manifest.
    Segment { id: u64, run_first_id: u64, has_manifest: bool },
    /// Reserved and never written: the segment is empty.
    Blank,
    /// Damaged, or not a segment header.
    Damaged,
    /// Written by another version.
    Version(u32),
}

pub fn decode_segment_header(bytes: &[u8]) -> SegmentHeader {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return if bytes.iter().all(|byte| *byte == 0) {
            SegmentHeader::Blank
        } else {
            SegmentHeader::Damaged
        };
    };
    if header.iter().all(|byte| *byte == 0) {
        return SegmentHeader::Blank;
    }
    let mut take = Take::new(header);
    let mut word = || take.u32().expect("the header is 32 bytes");
    let (magic, version) = (word(), word());
    let id = u64::from(word()) << 32 | u64::from(word());
    let run_first_id = u64::from(word()) << 32 | u64::from(word());
    // No version has the number 0: with it, the header was torn after its first word.
    if magic == MAGIC && ![VERSION, VERSION_SINGLE, VERSION_ALONE, 0].contains(&version) {
        return SegmentHeader::Version(version);
    }
    let crc = u32::from_be_bytes(*header[28..].first_chunk().expect("4 bytes are left"));
    if magic != MAGIC || crc != crc32(&header[..28]) {
        return SegmentHeader::Damaged;
    }
    SegmentHeader::Segment { id, run_first_id, has_manifest: version != VERSION_ALONE }
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Bytes of the entries after the header.
    pub payload_bytes: u32,
    pub payload_crc: u32,
    /// When this chunk was written, all bytes of this segment before this position had been synced.
    pub synced_bytes: u64,
    /// When this chunk was written, all earlier segments of the same run had been synced completely.
    pub earlier_synced: bool,
    /// Nothing follows in this segment.
    pub is_last: bool,
    /// When this chunk was written, by the wall clock, in microseconds since 1970; 0: unknown.
    pub written_us: i64,
}

impl ChunkHeader {
    pub fn encode(&self, segment_id: u64, offset_bytes: u64) -> [u8; HEADER_BYTES] {
        let flags = u32::from(self.earlier_synced) | u32::from(self.is_last) << 1;
        let mut out = [0; HEADER_BYTES];
        out[0..4].copy_from_slice(&self.payload_bytes.to_be_bytes());
        out[4..8].copy_from_slice(&self.payload_crc.to_be_bytes());
        out[8..16].copy_from_slice(&self.synced_bytes.to_be_bytes());
        out[16..20].copy_from_slice(&flags.to_be_bytes());
        out[20..28].copy_from_slice(&self.written_us.to_be_bytes());
        let crc = Self::crc(&out, segment_id, offset_bytes);
        out[28..32].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// `None` if no chunk of this segment begins at this position, or its header is damaged.
    pub fn decode(header: &[u8; HEADER_BYTES], segment_id: u64, offset_bytes: u64) -> Option<Self> {
        let mut take = Take::new(header);
        let mut word = || take.u32().expect("the header is 32 bytes");
        let (payload_bytes, payload_crc) = (word(), word());
        let synced_bytes = u64::from(word()) << 32 | u64::from(word());
        let flags = word();
        let written_us = (u64::from(word()) << 32 | u64::from(word())) as i64;
        let crc = u32::from_be_bytes(*header[28..].first_chunk().expect("4 bytes are left"));
        (crc == Self::crc(header, segment_id, offset_bytes)).then_some(Self {
            payload_bytes,
            payload_crc,
            synced_bytes,
            earlier_synced: flags & 1 != 0,
            is_last: flags & 2 != 0,
            written_us,
        })
    }

    fn crc(header: &[u8; HEADER_BYTES], segment_id: u64, offset_bytes: u64) -> u32 {
        let mut crc = Crc32::new();
        crc.update(&segment_id.to_be_bytes());
        crc.update(&offset_bytes.to_be_bytes());
        crc.update(&header[..28]);
        crc.value()
    }
}

/// The position of the next chunk after one that ends at `end_bytes`.
pub fn next_chunk_offset(end_bytes: u64) -> u64 {
    end_bytes.next_multiple_of(CHUNK_ALIGNMENT_BYTES)
}

/// The entries of a chunk's payload, each with its position in the payload. `Err` is the position of an
/// invalid length.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = Result<(usize, &[u8]), usize>> {
    let mut take = Take::new(payload);
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || take.is_empty() {
            return None;
        }
        let at = take.offset();
        let entry = take.u32_bytes().map(|entry| (at, entry)).map_err(|_| at);
        failed = entry.is_err();
        Some(entry)
    })
}

/// A batch entry of these mutations: all of them are in the log, or none.
pub fn encode_batch<'a>(mutations: impl IntoIterator<Item = &'a Mutation>) -> Vec<u8> {
    let mut out = vec![BATCH];
    for mutation in mutations {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        codec::encode(mutation, &mut out);
        let bytes = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&bytes.to_be_bytes());
    }
    out
}

/// A batch entry of encoded mutations.
pub fn batch_of(mutations: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![BATCH];
    for mutation in mutations {
        out.extend_from_slice(&(mutation.len() as u32).to_be_bytes());
        out.extend_from_slice(mutation);
    }
    out
}

/// Whether it is a batch entry, and the mutations of the entry, encoded.
pub fn mutations_of(entry: &[u8]) -> (bool, impl Iterator<Item = Result<&[u8], String>>) {
    let batch = entry.strip_prefix(&[BATCH]);
    let single = if batch.is_none() { Some(Ok(entry)) } else { None };
    let several = entries(batch.unwrap_or_default()).map(|part| match part {
        Ok((_, mutation)) => Ok(mutation),
        Err(at) => Err(format!("a mutation is longer than its batch, at byte {} of the entry", at + 1)),
    });
    (batch.is_some(), single.into_iter().chain(several))
}

#[cfg(test)]
mod tests {
    use model::{CqlType, PartitionKey, TableSchema, Tombstone};

    use super::*;

    /// The hexadecimal digits of the page's worked example, without its comments.
    fn documented_bytes() -> Vec<u8> {
        let page = include_str!("../../../../docs/formats/commitlog.md");
        let (_, example) = page.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect()
    }

    #[test]
    fn the_worked_example_of_the_format_page() {
        let id = segment_id(2, 7);
        assert_eq!((id, split_id(id)), (0x0080_0000_0000_0007, (2, 7)));
        assert_eq!(file_name(id), "CommitLog-1-36028797018963975.log");
        assert_eq!(id_of_file_name(&file_name(id)), Some(id));

        let schema = TableSchema::builder("ks", "t")
            .id(uuid::uuid!("00112233-4455-6677-8899-aabbccddeeff"))
            .partition_key("p", CqlType::Text)
            .build()
            .unwrap();
        let mut write = Mutation::new(schema.clone(), PartitionKey::new("ada"));
        write.partition.tombstone = Tombstone::new(1_700_000_000_000_000, 1_700_000_000);
        let mut entry = vec![];
        codec::encode(&write, &mut entry);
        let mut payload = (entry.len() as u32).to_be_bytes().to_vec();
        payload.extend_from_slice(&entry);
        let chunk = ChunkHeader {
            payload_bytes: payload.len() as u32,
            payload_crc: crc32(&payload),
            synced_bytes: FIRST_CHUNK_BYTES,
            earlier_synced: true,
            is_last: false,
            written_us: 1_700_000_000_000_000,
        };
        let mut segment = encode_segment_header(id, id - 1).to_vec();
        segment.resize(FIRST_CHUNK_BYTES as usize, 0);
        segment.extend_from_slice(&chunk.encode(id, FIRST_CHUNK_BYTES));
        segment.extend_from_slice(&payload);
        assert_eq!(segment, documented_bytes());

        let header = SegmentHeader::Segment { id, run_first_id: id - 1, has_manifest: true };
        assert_eq!(decode_segment_header(&segment), header);
        let header = segment[64..].first_chunk().unwrap();
        assert_eq!(ChunkHeader::decode(header, id, 64), Some(chunk));
        let read: Vec<_> = entries(&segment[96..]).collect();
        assert_eq!(read, [Ok((0, &entry[..]))]);
        assert_eq!(codec::decode(&entry, &schema), Ok(write));
    }

    #[test]
    fn a_chunk_counts_only_where_it_was_written() {
        let header = ChunkHeader {
            payload_bytes: 5,
            payload_crc: 6,
            synced_bytes: 7,
            earlier_synced: true,
            is_last: false,
            written_us: 1_700_000_000_000_000,
        };
        let bytes = header.encode(9, 64);
        assert_eq!(ChunkHeader::decode(&bytes, 9, 64), Some(header));
        assert_eq!(ChunkHeader::decode(&bytes, 8, 64), None, "another segment");
        assert_eq!(ChunkHeader::decode(&bytes, 9, 128), None, "another place");
        for bit in 0..256 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkHeader::decode(&flipped, 9, 64), None, "bit {bit}");
        }
    }

    #[test]
    fn segments_of_earlier_versions_are_read() {
        for (version, has_manifest) in [(VERSION_ALONE, false), (VERSION_SINGLE, true), (VERSION, true)] {
            let mut header = encode_segment_header(77, 70);
            header[4..8].copy_from_slice(&version.to_be_bytes());
            let crc = crc32(&header[..28]);
            header[28..32].copy_from_slice(&crc.to_be_bytes());
            let expected = SegmentHeader::Segment { id: 77, run_first_id: 70, has_manifest };
            assert_eq!(decode_segment_header(&header), expected, "version {version}");
        }
        let mut header = encode_segment_header(77, 70);
        header[4..8].copy_from_slice(&(VERSION + 1).to_be_bytes());
        assert_eq!(decode_segment_header(&header), SegmentHeader::Version(VERSION + 1));
    }

    #[test]
    fn the_mutations_of_a_batch() {
        let schema = TableSchema::builder("ks", "t").partition_key("p", CqlType::Text).build().unwrap();
        let write = |key: &str| {
            let mut write = Mutation::new(schema.clone(), PartitionKey::new(key));
            write.partition.tombstone = Tombstone::new(1, 1);
            write
        };
        let batch = [write("ada"), write("grace")];
        let entry = encode_batch(&batch);
        let (is_batch, mutations) = mutations_of(&entry);
        let read: Vec<_> = mutations.map(|bytes| codec::decode(bytes.unwrap(), &schema).unwrap()).collect();
        assert!(is_batch && read == batch);
        let mut single = vec![];
        codec::encode(&batch[0], &mut single);
        let (is_batch, mutations) = mutations_of(&single);
        assert!(!is_batch && mutations.collect::<Vec<_>>() == [Ok(&single[..])]);
        let (_, mutations) = mutations_of(&entry[..entry.len() - 1]);
        let read: Vec<_> = mutations.collect();
        assert!(read.len() == 2 && read[0].is_ok() && read[1].is_err(), "{read:?}");
        assert_eq!(mutations_of(&[]).1.collect::<Vec<_>>(), [Ok(&[][..])], "not a mutation either");
    }

    #[test]
    fn damage_to_a_header_is_seen() {
        let header = encode_segment_header(77, 70);
        for bit in 0..256 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(decode_segment_header(&flipped), SegmentHeader::Segment { .. }), "bit {bit}");
        }
        assert_eq!(decode_segment_header(&[0; 64]), SegmentHeader::Blank);
        for torn_bytes in 1..HEADER_BYTES {
            let mut torn = [0; HEADER_BYTES];
            torn[..torn_bytes].copy_from_slice(&header[..torn_bytes]);
            assert_eq!(decode_segment_header(&torn), SegmentHeader::Damaged, "{torn_bytes} bytes got there");
        }
        assert_eq!(decode_segment_header(&header[..20]), SegmentHeader::Damaged);
    }

    #[test]
    fn entries_end_where_a_length_is_wrong() {
        let payload = [0, 0, 0, 2, 9, 8, 0, 0, 0, 0, 0, 0, 0, 9, 1];
        let read: Vec<_> = entries(&payload).collect();
        assert_eq!(read, [Ok((0, &[9u8, 8][..])), Ok((6, &[][..])), Err(10)]);
    }
}
