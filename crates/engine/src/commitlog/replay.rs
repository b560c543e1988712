//! Reads the log after a crash.
//!
//! A segment ends where its last chunk says so. If no chunk is found at a position where one should begin,
//! there are two cases. If a later chunk states that this position had been synced, or a later segment states
//! that this segment had been, then durable data was here and is damaged: [`ReplayReport::damaged`].
//! Otherwise the machine lost power before a sync, and the data was never promised:
//! [`ReplayReport::truncated`]; reading continues after the gap. Entries commute, so those after a gap are as
//! valid as those before it.
//!
//! The caller decides whether a damaged log may be opened; every skipped part is in the report.

use std::fmt;
use std::path::{Path, PathBuf};

use base::crc::crc32;
use runtime::{FileError, Files, IoBuf, IoClass, OpenOptions};

use super::LogPosition;
use super::census::Evidence;
use super::format::{self, CHUNK_ALIGNMENT_BYTES, ChunkHeader, HEADER_BYTES, SegmentHeader};

/// An unreadable part of a segment; with length 0, a whole file that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub file: PathBuf,
    pub offset_bytes: u64,
    pub len_bytes: u64,
    pub detail: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset_bytes, len_bytes, detail } = self;
        if *len_bytes == 0 {
            return write!(f, "{}: {detail}", file.display());
        }
        write!(f, "{} at byte {offset_bytes}: {len_bytes} bytes cannot be read: {detail}", file.display())
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    pub segments: usize,
    pub entries: u64,
    pub bytes: u64,
    /// Entries of tables that do not exist any more, or that were truncated later.
    pub skipped: u64,
    /// Entries that were already in SSTables.
    pub flushed: u64,
    /// Writes that a power failure cut off; they had not been synced.
    pub truncated: Vec<Gap>,
    /// Durable data that is unreadable now.
    pub damaged: Vec<Gap>,
}

impl ReplayReport {
    pub fn merge(&mut self, other: Self) {
        self.segments += other.segments;
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.skipped += other.skipped;
        self.flushed += other.flushed;
        self.truncated.extend(other.truncated);
        self.damaged.extend(other.damaged);
    }
}

/// An entry that was read.
pub struct Replayed<'a> {
    pub position: LogPosition,
    pub entry: &'a [u8],
}

/// A segment file of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSegment {
    pub id: u64,
    pub path: PathBuf,
    pub len_bytes: u64,
    /// Evidence from the manifests.
    pub evidence: Evidence,
}

/// The segments in `dir`, by id, without evidence. Recycled files are removed, because nothing in them is
/// needed.
pub async fn list(files: &Files, dir: &Path) -> Result<Vec<OldSegment>, FileError> {
    let mut segments = vec![];
    for entry in files.read_dir(dir).await? {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            continue;
        }
        if format::is_recycled(&path) {
            files.remove(&path).await?;
        } else if let Some(id) = format::id_of_file_name(&entry.name) {
            segments.push(OldSegment { id, path, len_bytes: entry.len_bytes, evidence: Evidence::default() });
        }
    }
    segments.sort_by_key(|segment| segment.id);
    Ok(segments)
}

/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// Reads one segment, which is made durable first; `apply` gets each entry and returns a description of the
/// error if the entry is invalid. The segment's own chunks and its manifest decide what is damaged;
/// `synced_whole` is the evidence of later segments.
pub async fn read_segment(
    files: &Files,
    segment: &OldSegment,
    synced_whole: bool,
    mut apply: impl AsyncFnMut(Replayed<'_>) -> Result<(), String>,
) -> Result<ReplayReport, FileError> {
    let mut report = ReplayReport { segments: 1, ..ReplayReport::default() };
    let Evidence { listed, segment_bytes, .. } = segment.evidence;
    let synced_whole = synced_whole || listed.is_some_and(|listed| listed.is_closed);
    let file = files.open(&segment.path, OpenOptions::read()).await?;
    // An earlier run may not have synced it. Replayed entries are flushed table by table: without the sync, a
    // loss of power during the start could leave a part of a batch in an SSTable and lose the rest.
    file.sync_data().await?;
    let gap = |offset_bytes: u64, end: u64, detail: &str| Gap {
        file: segment.path.clone(),
        offset_bytes,
        len_bytes: end.saturating_sub(offset_bytes),
        detail: detail.to_string(),
    };
    let mut window = Window { file, start: 0, buf: IoBuf::new(), len_bytes: segment.len_bytes };
    let header = format::decode_segment_header(window.bytes(0, HEADER_BYTES).await?);
    match header {
        SegmentHeader::Segment { id, has_manifest, .. } if id == segment.id => {
            if has_manifest && segment.evidence.is_alone {
                let detail = "the manifest of its run is missing, so other segments may be missing too";
                report.damaged.push(gap(0, 0, detail));
            }
        }
        SegmentHeader::Version(version) => {
            let detail =
                format!("commit log version {version}; start the version that wrote it and drain it");
            report.damaged.push(gap(0, segment.len_bytes, &detail));
            return Ok(report);
        }
        // A reserved segment that was never used, or a recycled file that was not reused: the header is
        // synced before anything is written after it.
        SegmentHeader::Blank | SegmentHeader::Segment { .. } | SegmentHeader::Damaged => {
            let written = window.find_chunk(segment.id, format::FIRST_CHUNK_BYTES).await?.is_some();
            if synced_whole || written || listed.is_some() {
                let detail = "the header of the segment is damaged; restore the file, or move it away";
                report.damaged.push(gap(0, segment.len_bytes, detail));
            }
            return Ok(report);
        }
    }
    let mut gaps: Vec<(Gap, u64)> = vec![];
    let mut synced_bytes = listed.map_or(0, |listed| u64::from(listed.synced_bytes));
    let mut offset = format::FIRST_CHUNK_BYTES;
    let mut ended = false;
    while offset + HEADER_BYTES as u64 <= segment.len_bytes {
        let Some(chunk) = window.chunk(segment.id, offset).await? else {
            let next = window.find_chunk(segment.id, offset + CHUNK_ALIGNMENT_BYTES).await?;
            let end = next.unwrap_or(segment.len_bytes);
            gaps.push((gap(offset, end, NO_CHUNK), offset));
            match next {
                Some(next) => offset = next,
                None => break,
            }
            continue;
        };
        synced_bytes = synced_bytes.max(chunk.synced_bytes);
        let begin = offset + HEADER_BYTES as u64;
        let end = begin + u64::from(chunk.payload_bytes);
        let payload = window.bytes(begin, chunk.payload_bytes as usize).await?;
        if payload.len() < chunk.payload_bytes as usize || crc32(payload) != chunk.payload_crc {
            gaps.push((gap(offset, end, "the checksum of the chunk is wrong"), offset));
        } else {
            for entry in format::entries(payload) {
                let applied = match entry {
                    Ok((at, entry)) => {
                        let position =
                            LogPosition { segment: segment.id, offset_bytes: (begin + at as u64) as u32 };
                        report.entries += 1;
                        report.bytes += entry.len() as u64;
                        apply(Replayed { position, entry }).await.map_err(|detail| (at, detail))
                    }
                    Err(at) => Err((at, "an entry is longer than its chunk".to_string())),
                };
                if let Err((at, detail)) = applied {
                    report.damaged.push(gap(begin + at as u64, end, &detail));
                }
            }
        }
        offset = format::next_chunk_offset(end);
        if chunk.is_last {
            ended = true;
            break;
        }
    }
    if !ended && segment.len_bytes < segment_bytes {
        // The file was reserved at full length before anything was written. If its end is where the next
        // chunk would begin, the lost part was not written yet.
        let is_behind_the_end = offset + HEADER_BYTES as u64 <= segment.len_bytes;
        if synced_whole || !is_behind_the_end {
            report.damaged.push(gap(segment.len_bytes, segment_bytes, "the file was cut"));
        }
    } else if !ended && gaps.is_empty() && synced_whole {
        gaps.push((gap(offset, segment.len_bytes, "the end of the segment is missing"), offset));
    }
    for (gap, offset) in gaps {
        // An unfinished segment is followed by reserved space (zeros, or bytes from an earlier use of the
        // file): that is its end and not a gap.
        if synced_whole || offset < synced_bytes {
            report.damaged.push(gap);
        } else if gap.detail != NO_CHUNK || gap.offset_bytes + gap.len_bytes < segment.len_bytes {
            report.truncated.push(gap);
        }
    }
    Ok(report)
}

const NO_CHUNK: &str = "no chunk begins here";

/// For each of `segments` (by id), whether a chunk of a later segment of the same run states that it had been
/// synced completely.
pub async fn synced_whole(files: &Files, segments: &[OldSegment]) -> Result<Vec<bool>, FileError> {
    let mut known = vec![false; segments.len()];
    for (index, segment) in segments.iter().enumerate() {
        if let Some(run_first_id) = earlier_synced(files, segment).await? {
            let same_run = |earlier: &OldSegment| earlier.id >= run_first_id;
            known[..index]
                .iter_mut()
                .zip(segments)
                .filter(|(_, s)| same_run(s))
                .for_each(|(known, _)| *known = true);
        }
    }
    Ok(known)
}

/// The first segment of its run, if a chunk of `segment` states that all segments from there up to it had
/// been synced completely.
async fn earlier_synced(files: &Files, segment: &OldSegment) -> Result<Option<u64>, FileError> {
    let file = files.open(&segment.path, OpenOptions::read()).await?;
    let mut window = Window { file, start: 0, buf: IoBuf::new(), len_bytes: segment.len_bytes };
    let header = format::decode_segment_header(window.bytes(0, HEADER_BYTES).await?);
    let SegmentHeader::Segment { run_first_id, .. } = header else { return Ok(None) };
    let mut offset = format::FIRST_CHUNK_BYTES;
    while offset + HEADER_BYTES as u64 <= segment.len_bytes {
        let Some(chunk) = window.chunk(segment.id, offset).await? else { return Ok(None) };
        if chunk.earlier_synced {
            return Ok(Some(run_first_id));
        }
        offset = format::next_chunk_offset(offset + HEADER_BYTES as u64 + u64::from(chunk.payload_bytes));
    }
    Ok(None)
}

/// A part of the file in memory.
struct Window {
    file: runtime::File,
    start: u64,
    buf: IoBuf,
    len_bytes: u64,
}

impl Window {
    /// `len` bytes at `offset`; fewer only at the end of the file.
    async fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8], FileError> {
        let len = (len as u64).min(self.len_bytes.saturating_sub(offset)) as usize;
        let inside = offset >= self.start && offset + len as u64 <= self.start + self.buf.len() as u64;
        if !inside {
            let read = len.max(READ_BYTES).min((self.len_bytes - offset) as usize);
            self.buf = self.file.read_at(offset, read, IoClass::Maintenance).await?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buf[from..self.buf.len().min(from + len)])
    }

    async fn chunk(&mut self, segment_id: u64, offset: u64) -> Result<Option<ChunkHeader>, FileError> {
        let header = self.bytes(offset, HEADER_BYTES).await?;
        Ok(header.first_chunk().and_then(|header| ChunkHeader::decode(header, segment_id, offset)))
    }

    /// The first chunk at or after `from`.
    async fn find_chunk(&mut self, segment_id: u64, from: u64) -> Result<Option<u64>, FileError> {
        let mut offset = from;
        while offset + HEADER_BYTES as u64 <= self.len_bytes {
            if self.chunk(segment_id, offset).await?.is_some() {
                return Ok(Some(offset));
            }
            offset += CHUNK_ALIGNMENT_BYTES;
        }
        Ok(None)
    }
}
