//! Messina.db: facts about an SSTable for which the common components have no place.
//!
//! It contains the shard that wrote the SSTable (so that a restart with the same number of shards need not
//! read keys), the run of which it is a fragment, the kind of job that wrote it, exact counts, kinds of
//! contents that it does not have, and checksums of components without checksums of their own: a changed bit
//! in a filter, or a changed key in the index, would make partitions invisible. Other servers ignore the
//! file. An SSTable without it was written by another server, and all these facts are unknown. The layout is
//! in `docs/formats/messina-db.md`.

use base::bytes::Take;
use base::crc::crc32;

use super::large_data::LargeData;
use crate::component::{FormatError, Named};
use crate::name::Component;

const MAGIC: [u8; 4] = *b"MSNA";
const VERSION: u16 = 1;
const CRC_BYTES: usize = 4;

const TAG_SHARD_COUNT: u16 = 1;
const TAG_SHARD_ID: u16 = 2;
const TAG_RUN_ID: u16 = 3;
const TAG_ORIGIN: u16 = 4;
const TAG_PARTITION_COUNT: u16 = 5;
const TAG_ROW_COUNT: u16 = 6;
const TAG_DICTIONARY_CRC: u16 = 7;
const TAG_LARGE_DATA: u16 = 8;
const TAG_CONTENTS: u16 = 9;
const TAG_COMPONENT_CRCS: u16 = 10;
const TAG_INDEX_CRCS: u16 = 11;
const TAG_LAST: u16 = TAG_INDEX_CRCS;

/// The components that may have a checksum here, each with its number in the file.
const WITH_CRC: [(u8, Component); 3] =
    [(1, Component::Summary), (2, Component::Filter), (5, Component::Statistics)];

const HAS_PARTITION_DELETIONS: u8 = 1;
const HAS_STATIC_ROWS: u8 = 2;

/// The longest origin in bytes that is written or read.
pub const ORIGIN_BYTES_MAX: usize = 255;

/// Contents of an SSTable that its clustering bounds do not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether a partition is deleted as a whole.
    pub has_partition_deletions: bool,
    /// Whether a static row is not empty.
    pub has_static_rows: bool,
}

impl Contents {
    fn to_bits(self) -> u8 {
        let bit = |has: bool, bit: u8| if has { bit } else { 0 };
        bit(self.has_partition_deletions, HAS_PARTITION_DELETIONS)
            | bit(self.has_static_rows, HAS_STATIC_ROWS)
    }

    fn of_bits(bits: u8) -> Self {
        Self {
            has_partition_deletions: bits & HAS_PARTITION_DELETIONS != 0,
            has_static_rows: bits & HAS_STATIC_ROWS != 0,
        }
    }
}

/// The content of the file. A field that the file does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessinaInfo {
    /// Number of shards of the node that wrote the SSTable.
    pub shard_count: Option<u32>,
    /// The shard that owns the SSTable's tokens; less than `shard_count`.
    pub shard_id: Option<u32>,
    /// UUID of the run of which the SSTable is a fragment.
    pub run_id: Option<[u8; 16]>,
    /// The kind of job that wrote it: "memtable", "compaction", "reshard", …; at most [`ORIGIN_BYTES_MAX`]
    /// bytes.
    pub origin: Option<String>,
    /// Exact number of partitions.
    pub partition_count: Option<u64>,
    /// Exact number of rows, including static rows.
    pub row_count: Option<u64>,
    /// CRC-32 of the dictionary in CompressionInfo.db; `None` if there is none.
    pub dictionary_crc: Option<u32>,
    /// The large partitions, rows and cells; `None` if there are none.
    pub large_data: Option<LargeData>,
    /// Contents outside the clustering bounds; `None` if unknown.
    pub contents: Option<Contents>,
    /// CRC-32 of the whole Summary.db and Filter.db. For Statistics.db the checksum is
    /// [`Statistics::lasting_crc`](super::statistics::Statistics::lasting_crc).
    pub component_crcs: Vec<(Component, u32)>,
    /// Encoded [`ChunkCrcs`](super::crc::ChunkCrcs) of Index.db, to be decoded when the length of Index.db is
    /// known.
    pub index_crcs: Option<Vec<u8>>,
}

impl MessinaInfo {
    /// The CRC-32 of the component, if it is known.
    pub fn crc_of(&self, component: &Component) -> Option<u32> {
        self.component_crcs.iter().find(|(known, _)| known == component).map(|(_, crc)| *crc)
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        self.check_shard(0).expect("a shard's id is below their number");
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_be_bytes());
        let mut field = |tag: u16, payload: Option<&[u8]>| {
            let Some(payload) = payload else { return };
            out.extend_from_slice(&tag.to_be_bytes());
            out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
            out.extend_from_slice(payload);
        };
        field(TAG_SHARD_COUNT, self.shard_count.map(u32::to_be_bytes).as_ref().map(|it| &it[..]));
        field(TAG_SHARD_ID, self.shard_id.map(u32::to_be_bytes).as_ref().map(|it| &it[..]));
        field(TAG_RUN_ID, self.run_id.as_ref().map(|it| &it[..]));
        field(
            TAG_ORIGIN,
            self.origin.as_ref().map(|it| it.as_bytes()).inspect(|it| {
                assert!(it.len() <= ORIGIN_BYTES_MAX, "an origin is a word, not {} bytes", it.len());
            }),
        );
        field(TAG_PARTITION_COUNT, self.partition_count.map(u64::to_be_bytes).as_ref().map(|it| &it[..]));
        field(TAG_ROW_COUNT, self.row_count.map(u64::to_be_bytes).as_ref().map(|it| &it[..]));
        field(TAG_DICTIONARY_CRC, self.dictionary_crc.map(u32::to_be_bytes).as_ref().map(|it| &it[..]));
        field(TAG_LARGE_DATA, self.large_data.as_ref().map(LargeData::encode).as_deref());
        field(TAG_CONTENTS, self.contents.map(|it| [it.to_bits()]).as_ref().map(|it| &it[..]));
        let mut crcs = vec![];
        for (byte, component) in &WITH_CRC {
            if let Some(crc) = self.crc_of(component) {
                crcs.push(*byte);
                crcs.extend_from_slice(&crc.to_be_bytes());
            }
        }
        field(TAG_COMPONENT_CRCS, Some(&crcs[..]).filter(|crcs| !crcs.is_empty()));
        field(TAG_INDEX_CRCS, self.index_crcs.as_deref());
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// Decodes the file. Fields with unknown tags are skipped, since a newer build may have written them.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take::new(bytes);
        let magic = take.array::<4>().named("magic")?;
        if magic != MAGIC {
            let found = format!("{:08x}", u32::from_be_bytes(magic));
            return Err(FormatError::new("magic", 0, "4d534e41 (MSNA)", found));
        }
        let version = take.u16().named("version")?;
        if version != VERSION {
            return Err(FormatError::new("version", 4, "1, the one this build reads", version.to_string()));
        }
        let crc_at = bytes.len().checked_sub(CRC_BYTES).filter(|at| *at >= take.offset());
        let crc_at = crc_at.ok_or_else(|| {
            FormatError::new("checksum", take.offset(), "4 bytes", format!("{} bytes", take.remaining()))
        })?;
        let (body, crc) = bytes.split_at(crc_at);
        let stored = u32::from_be_bytes(crc.try_into().expect("4 bytes"));
        if stored != crc32(body) {
            let expected = format!("{:08x}, the CRC-32 of the bytes before it", crc32(body));
            return Err(FormatError::new("checksum", crc_at, expected, format!("{stored:08x}")));
        }
        let mut fields = Take::new(body);
        fields.bytes(take.offset()).named("fields")?;
        let mut info = Self::default();
        let mut seen = vec![];
        while !fields.is_empty() {
            let at = fields.offset();
            let tag = fields.u16().named("tag")?;
            let payload = fields.u32_bytes().named("field")?;
            if tag <= TAG_LAST {
                if seen.contains(&tag) {
                    return Err(FormatError::new("tag", at, "each once", format!("{tag} again")));
                }
                seen.push(tag);
            }
            let at = fields.offset() - payload.len();
            match tag {
                TAG_SHARD_COUNT => {
                    info.shard_count = Some(u32::from_be_bytes(sized(payload, "shard count", at)?))
                }
                TAG_SHARD_ID => info.shard_id = Some(u32::from_be_bytes(sized(payload, "shard id", at)?)),
                TAG_RUN_ID => info.run_id = Some(sized(payload, "run id", at)?),
                TAG_ORIGIN => info.origin = Some(origin(payload, at)?),
                TAG_PARTITION_COUNT => {
                    info.partition_count = Some(u64::from_be_bytes(sized(payload, "partition count", at)?));
                }
                TAG_ROW_COUNT => info.row_count = Some(u64::from_be_bytes(sized(payload, "row count", at)?)),
                TAG_DICTIONARY_CRC => {
                    info.dictionary_crc =
                        Some(u32::from_be_bytes(sized(payload, "dictionary checksum", at)?));
                }
                TAG_LARGE_DATA => {
                    let wrong = || FormatError::new("large data", at, "whole records", "others");
                    info.large_data = Some(LargeData::decode(payload).ok_or_else(wrong)?);
                }
                TAG_CONTENTS => {
                    let [bits] = sized(payload, "contents", at)?;
                    info.contents = Some(Contents::of_bits(bits));
                }
                TAG_COMPONENT_CRCS => info.component_crcs = component_crcs(payload, at)?,
                TAG_INDEX_CRCS => info.index_crcs = Some(payload.to_vec()),
                _ => (),
            }
        }
        info.check_shard(crc_at)?;
        Ok(info)
    }

    fn check_shard(&self, offset_bytes: usize) -> Result<(), FormatError> {
        match (self.shard_id, self.shard_count) {
            (Some(id), Some(count)) if id >= count => {
                let expected = format!("below {count}, the number of shards");
                Err(FormatError::new("shard id", offset_bytes, expected, id.to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn sized<const N: usize>(payload: &[u8], what: &'static str, at: usize) -> Result<[u8; N], FormatError> {
    let wrong = |_| FormatError::new(what, at, format!("{N} bytes"), format!("{} bytes", payload.len()));
    payload.try_into().map_err(wrong)
}

/// Checksums of components that this build does not know are skipped.
fn component_crcs(payload: &[u8], at: usize) -> Result<Vec<(Component, u32)>, FormatError> {
    let mut take = Take::new(payload);
    let mut crcs = vec![];
    while !take.is_empty() {
        let byte = take.u8().map_err(|_| FormatError::new("component checksum", at, "5 bytes", "fewer"))?;
        let crc = take.u32().map_err(|_| FormatError::new("component checksum", at, "5 bytes", "fewer"))?;
        if let Some((_, component)) = WITH_CRC.iter().find(|(known, _)| *known == byte) {
            crcs.push((component.clone(), crc));
        }
    }
    Ok(crcs)
}

fn origin(payload: &[u8], at: usize) -> Result<String, FormatError> {
    let text = std::str::from_utf8(payload).ok().filter(|text| text.len() <= ORIGIN_BYTES_MAX);
    let expected = format!("up to {ORIGIN_BYTES_MAX} bytes of UTF-8");
    text.map(str::to_owned)
        .ok_or_else(|| FormatError::new("origin", at, expected, format!("{} other bytes", payload.len())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> MessinaInfo {
        MessinaInfo {
            shard_count: Some(2),
            shard_id: Some(1),
            run_id: Some(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes()),
            origin: Some("memtable".into()),
            partition_count: Some(1000),
            row_count: Some(65536),
            dictionary_crc: None,
            large_data: None,
            contents: Some(Contents { has_partition_deletions: false, has_static_rows: true }),
            component_crcs: vec![(Component::Summary, 0x0102_0304), (Component::Filter, 0x0506_0708)],
            index_crcs: Some(vec![0, 0, 16, 0, 0x0a, 0x0b, 0x0c, 0x0d]),
        }
    }

    /// The bytes of the page's worked example, without its comments.
    fn documented_bytes() -> Vec<u8> {
        let page = include_str!("../../../../docs/formats/messina-db.md");
        let (_, example) = page.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect()
    }

    #[test]
    fn the_example_in_the_documentation_is_what_is_written() {
        assert_eq!(documented_bytes(), sample().encode());
        assert_eq!(MessinaInfo::decode(&documented_bytes()), Ok(sample()));
    }

    /// Appends the checksum to `body`.
    fn sealed(body: &[u8]) -> Vec<u8> {
        [body, &crc32(body).to_be_bytes()].concat()
    }

    #[test]
    fn unknown_fields_are_skipped_and_absent_ones_unknown() {
        assert_eq!(MessinaInfo::decode(&sealed(b"MSNA\0\x01")), Ok(MessinaInfo::default()));
        let unknown = sealed(b"MSNA\0\x01\0\x63\0\0\0\x02??\0\x02\0\0\0\x04\0\0\0\x07\0\x63\0\0\0\0");
        let expect = MessinaInfo { shard_id: Some(7), ..Default::default() };
        assert_eq!(MessinaInfo::decode(&unknown), Ok(expect));
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            assert!(MessinaInfo::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(MessinaInfo::decode(&wrong).is_err(), "wrong at {at}");
        }
        let check = |body: &[u8], what: &str| {
            assert_eq!(MessinaInfo::decode(&sealed(body)).unwrap_err().what, what);
        };
        check(b"MSNA\0\x02", "version");
        check(b"MSNA\0\x01\0\x01\0\0\0\x03\0\0\0", "shard count");
        check(b"MSNA\0\x01\0\x04\0\0\0\x01\xff", "origin");
        check(b"MSNA\0\x01\0\x04\xff\xff\xff\xff", "field");
        check(b"MSNA\0\x01\0\x02\0\0\0\x04\0\0\0\x02\0\x01\0\0\0\x04\0\0\0\x02", "shard id");
        check(b"MSNA\0\x01\0\x04\0\0\0\0\0\x04\0\0\0\0", "tag");
        check(b"MSNA\0\x01\0\x09\0\0\0\x02\0\0", "contents");
    }

    proptest! {
        #[test]
        fn any_fields_are_an_answer(body: Vec<u8>) {
            let _ = MessinaInfo::decode(&body);
            let _ = MessinaInfo::decode(&sealed(&[b"MSNA\0\x01", &body[..]].concat()));
        }

        #[test]
        fn values_round_trip(
            run_id: Option<[u8; 16]>, origin in prop::option::of("[a-zé]{0,60}"),
            partition_count: Option<u64>, row_count: Option<u64>, dictionary_crc: Option<u32>,
            shard_id in prop::option::of(0u32..9), bits in prop::option::of(0u8..4),
        ) {
            let info = MessinaInfo {
                shard_count: Some(9), shard_id, run_id, origin, partition_count, row_count, dictionary_crc,
                large_data: None,
                contents: bits.map(Contents::of_bits),
                component_crcs: bits.map(|bits| (Component::Filter, u32::from(bits))).into_iter().collect(),
                index_crcs: bits.map(|bits| vec![bits; 8]),
            };
            prop_assert_eq!(MessinaInfo::decode(&info.encode()), Ok(info));
        }
    }
}
