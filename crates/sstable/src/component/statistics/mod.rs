//! Statistics.db: a table of contents followed by four parts, each with a module here.
//!
//! ```text
//! mc to me: u32 n, n * (u32 type, u32 offset), parts
//! na on:    u32 n, u32 crc of n, n * (u32 type, u32 offset), u32 crc of all before but crcs,
//!           each part and a u32 crc of it
//! ```
//! Types are 0 validation, 1 compaction, 2 stats, 3 header. Messina writes the parts in ascending order. A
//! reader uses the offsets, because older versions of ScyllaDB wrote the parts in any order.

mod collector;
mod compaction;
mod header;
mod stats;
mod tombstones;
mod validation;

use base::bytes::Take;
use base::crc::{Crc32, crc32};

pub use collector::{KeptPrefix, StatsCollector};
pub use compaction::CompactionMetadata;
pub use header::{DeltaBases, DeltaBasesCollector, EPOCH_S, EPOCH_US, HeaderColumn, SerializationHeader};
pub use stats::{CommitLogPosition, Coverage, NO_COMPRESSION_RATIO, StatsMetadata};
pub use tombstones::{Bin, TombstoneHistogram, TombstoneHistogramBuilder};
pub use validation::{MURMUR3_PARTITIONER, ValidationMetadata};

use crate::component::error::check_count;
use crate::component::{FormatError, Named};
use crate::version::Version;

const PARTS: usize = 4;
const PART_NAMES: [&str; PARTS] = ["validation", "compaction", "stats", "header"];
const CRC_BYTES: usize = 4;

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    pub validation: ValidationMetadata,
    pub compaction: CompactionMetadata,
    pub stats: StatsMetadata,
    pub header: SerializationHeader,
}

impl Statistics {
    /// Encodes the file. Panics if this build does not write the version.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        assert!(version.is_writable(), "version {version} is not written");
        let mut parts: [Vec<u8>; PARTS] = Default::default();
        self.validation.encode(&mut parts[0]);
        self.compaction.encode(&mut parts[1]);
        self.stats.encode(&mut parts[2], version);
        self.header.encode(&mut parts[3]);
        let crc_bytes = if version.has_stats_checksums() { CRC_BYTES } else { 0 };
        let mut out = vec![];
        let mut crc = Crc32::new();
        let put = |out: &mut Vec<u8>, crc: &mut Crc32, value: u32| {
            out.extend_from_slice(&value.to_be_bytes());
            crc.update(&value.to_be_bytes());
        };
        put(&mut out, &mut crc, PARTS as u32);
        if crc_bytes > 0 {
            out.extend_from_slice(&crc.value().to_be_bytes());
        }
        let mut part_at = 4 + 8 * PARTS + 2 * crc_bytes;
        for (part, number) in parts.iter().zip(0u32..) {
            put(&mut out, &mut crc, number);
            put(&mut out, &mut crc, u32::try_from(part_at).expect("Statistics.db is below 4 GiB"));
            part_at += part.len() + crc_bytes;
        }
        if crc_bytes > 0 {
            out.extend_from_slice(&crc.value().to_be_bytes());
        }
        for part in &parts {
            out.extend_from_slice(part);
            if crc_bytes > 0 {
                out.extend_from_slice(&crc32(part).to_be_bytes());
            }
        }
        out
    }

    /// CRC-32 of the content without the fields that other programs change in existing files: the level and
    /// the repair fields. Panics as [`Self::encode`] does.
    pub fn lasting_crc(&self, version: Version) -> u32 {
        let mut lasting = self.clone();
        lasting.stats.sstable_level = 0;
        lasting.stats.repaired_at_ms = 0;
        lasting.stats.pending_repair = None;
        lasting.stats.is_transient = false;
        crc32(&lasting.encode(version))
    }

    /// Decodes the file. Parts of an unknown type are skipped; the four known parts must exist.
    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, FormatError> {
        let parts = find_parts(bytes, version)?;
        Ok(Self {
            validation: ValidationMetadata::decode(&mut part(bytes, &parts, 0)?)?,
            compaction: CompactionMetadata::decode(&mut part(bytes, &parts, 1)?)?,
            stats: StatsMetadata::decode(&mut part(bytes, &parts, 2)?, version)?,
            header: SerializationHeader::decode(&mut part(bytes, &parts, 3)?)?,
        })
    }
}

/// Start and end of each part, by type.
type Parts = [Option<(usize, usize)>; PARTS];

/// Reads the table of contents and verifies the checksums, if the version has them.
fn find_parts(bytes: &[u8], version: Version) -> Result<Parts, FormatError> {
    let has_crcs = version.has_stats_checksums();
    let crc_bytes = if has_crcs { CRC_BYTES } else { 0 };
    let mut take = Take::new(bytes);
    let mut crc = Crc32::new();
    let count = take.u32().named("number of parts")?;
    crc.update(&count.to_be_bytes());
    if has_crcs {
        check_crc(&mut take, crc.value(), "checksum of the number of parts")?;
    }
    let count = check_count("number of parts", 0, u64::from(count), 8, take.remaining())?;
    let entries = take.bytes(count * 8).named("table of contents")?;
    crc.update(entries);
    let entries_at = take.offset() - entries.len();
    if has_crcs {
        check_crc(&mut take, crc.value(), "checksum of the table of contents")?;
    }
    let number = |at: usize| u32::from_be_bytes(entries[at..at + 4].try_into().expect("4 bytes"));
    let mut starts: Vec<(usize, u32, usize)> =
        (0..count).map(|entry| (number(entry * 8 + 4) as usize, number(entry * 8), entry)).collect();
    starts.sort_unstable();
    let mut parts = Parts::default();
    for (index, (start, kind, entry)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(bytes.len(), |next| next.0);
        let at = entries_at + entry * 8;
        if *start < take.offset() || *start + crc_bytes > end || end > bytes.len() {
            let expected = format!("{} to {}", take.offset(), bytes.len().saturating_sub(crc_bytes));
            return Err(FormatError::new("offset of a part", at, expected, start.to_string()));
        }
        let end = end - crc_bytes;
        let Some(found) = parts.get_mut(*kind as usize) else { continue };
        if found.replace((*start, end)).is_some() {
            return Err(FormatError::new("type of a part", at, "each once", format!("{kind} again")));
        }
        if has_crcs {
            let mut at_end = Take::new(bytes);
            at_end.bytes(end).named("part")?;
            check_crc(&mut at_end, crc32(&bytes[*start..end]), "checksum of a part")?;
        }
    }
    Ok(parts)
}

fn check_crc(take: &mut Take<'_>, expected: u32, what: &'static str) -> Result<(), FormatError> {
    let at = take.offset();
    let found = take.u32().named(what)?;
    if found == expected {
        return Ok(());
    }
    Err(FormatError::new(what, at, format!("{expected:08x}"), format!("{found:08x}")))
}

/// A cursor over one part. Its offsets are file offsets.
fn part<'a>(bytes: &'a [u8], parts: &Parts, kind: usize) -> Result<Take<'a>, FormatError> {
    let (start, end) = parts[kind].ok_or_else(|| {
        FormatError::new("table of contents", 0, format!("a {} part", PART_NAMES[kind]), "none")
    })?;
    let mut take = Take::new(&bytes[..end]);
    take.bytes(start).named("part")?;
    Ok(take)
}

/// Names in Statistics.db are ASCII class names. Other names are refused, not converted.
fn text(bytes: &[u8], what: &'static str, at: usize) -> Result<String, FormatError> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| FormatError::new(what, at, "UTF-8", "other bytes"))
}

#[cfg(test)]
mod tests;
