//! The archive of the log: closed segments are kept until someone has copied them elsewhere, and a part of
//! them is replayed into a restored directory.
//!
//! With [`CommitLogOptions::is_archived`](super::CommitLogOptions), each segment has a second name, a hard
//! link in the directory [`DIR`] beside it, from before its first entry on. Its file is not reused for a
//! later segment. So the content of a segment stays until the link is removed, after a crash too. Without the
//! option a start removes the directory: what is in it then would have a gap.
//!
//! [`used_bytes`] and [`is_whole`] find the end of a segment, and [`select`] makes a segment of some of its
//! entries. They are pure.

use base::crc::crc32;

use super::LogPosition;
use super::format::{
    self, ChunkHeader, FIRST_CHUNK_BYTES, HEADER_BYTES, SegmentHeader, decode_segment_header,
    encode_alone_header, next_chunk_offset,
};

/// The directory of the links, in the directory of the segments.
pub const DIR: &str = "archive";

/// The length of a segment up to the end of its last chunk; 0 if it has no chunk. A closed segment has no
/// gaps.
///
/// # Errors
/// It is not the segment with this id, or a chunk is damaged.
pub fn used_bytes(id: u64, segment: &[u8]) -> Result<usize, String> {
    let mut end = 0;
    for chunk in chunks(id, segment)? {
        let Chunk { at, header, .. } = chunk?;
        end = at + HEADER_BYTES + header.payload_bytes as usize;
    }
    Ok(end)
}

/// Whether the beginning of a segment has its last chunk, so that nothing of interest follows.
pub fn is_whole(id: u64, beginning: &[u8]) -> bool {
    let Ok(mut chunks) = chunks(id, beginning) else { return false };
    chunks.any(|chunk| chunk.is_ok_and(|chunk| chunk.header.is_last))
}

/// A chunk of a segment.
struct Chunk<'a> {
    at: usize,
    header: ChunkHeader,
    payload: &'a [u8],
}

fn chunks(id: u64, segment: &[u8]) -> Result<impl Iterator<Item = Result<Chunk<'_>, String>>, String> {
    let is_blank = match decode_segment_header(segment) {
        SegmentHeader::Segment { id: found, .. } if found == id => false,
        // Reserved, and never used.
        SegmentHeader::Blank => true,
        header => return Err(format!("it is not segment {id} of a commit log: {header:?}")),
    };
    let mut at = FIRST_CHUNK_BYTES as usize;
    let mut ended = is_blank;
    Ok(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        // A segment that no start of a chunk follows ends there: after a crash it has no last chunk.
        let header = segment.get(at..)?.first_chunk::<HEADER_BYTES>()?;
        let header = ChunkHeader::decode(header, id, at as u64)?;
        let begin = at + HEADER_BYTES;
        let end = begin + header.payload_bytes as usize;
        let chunk = match segment.get(begin..end) {
            Some(payload) if crc32(payload) == header.payload_crc => Ok(Chunk { at, header, payload }),
            _ => Err(format!("the chunk at byte {at} of segment {id} is damaged")),
        };
        at = next_chunk_offset(end as u64) as usize;
        ended = header.is_last || chunk.is_err();
        Some(chunk)
    }))
}

/// An entry of a segment, or one mutation of a batch entry.
#[derive(Clone, Copy, Debug)]
pub struct Archived<'a> {
    /// The position of its entry.
    pub position: LogPosition,
    /// When its chunk was written, by the clock of the node, in microseconds since 1970: not before the write
    /// was appended, and not after it was acknowledged. 0: unknown.
    pub written_us: i64,
    /// The mutation, encoded.
    pub mutation: &'a [u8],
}

/// A segment made by [`select`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The content of the new segment's file; empty if no entry was selected.
    pub segment: Vec<u8>,
    /// Mutations that were selected.
    pub kept: u64,
    /// Mutations that were not.
    pub left_out: u64,
}

/// Makes the segment `new_id` of the mutations of the segment `id` for which `is_wanted` returns true. It has
/// no manifest, so a start replays it as it is.
///
/// # Errors
/// The segment is damaged, or `is_wanted` fails.
pub fn select(
    id: u64,
    segment: &[u8],
    new_id: u64,
    mut is_wanted: impl FnMut(Archived<'_>) -> Result<bool, String>,
) -> Result<Selected, String> {
    let mut selected = Selected::default();
    let mut out = encode_alone_header(new_id).to_vec();
    out.resize(FIRST_CHUNK_BYTES as usize, 0);
    let mut last = None;
    for chunk in chunks(id, segment)? {
        let Chunk { at, header, payload } = chunk?;
        let mut kept = vec![];
        for entry in format::entries(payload) {
            let (in_payload, entry) = entry
                .map_err(|_| format!("an entry of segment {id} is longer than its chunk at byte {at}"))?;
            let offset_bytes = (at + HEADER_BYTES + in_payload) as u32;
            let position = LogPosition { segment: id, offset_bytes };
            let (is_batch, mutations) = format::mutations_of(entry);
            let mut wanted = vec![];
            for mutation in mutations {
                let mutation = mutation?;
                match is_wanted(Archived { position, written_us: header.written_us, mutation })? {
                    true => wanted.push(mutation),
                    false => selected.left_out += 1,
                }
            }
            selected.kept += wanted.len() as u64;
            if !wanted.is_empty() {
                let entry = if is_batch { format::batch_of(&wanted) } else { wanted[0].to_vec() };
                kept.extend_from_slice(&(entry.len() as u32).to_be_bytes());
                kept.extend_from_slice(&entry);
            }
        }
        if kept.is_empty() {
            continue;
        }
        out.resize(next_chunk_offset(out.len() as u64) as usize, 0);
        last = Some(out.len());
        push_chunk(&mut out, new_id, kept, header.written_us);
    }
    if let Some(last) = last {
        selected.segment = mark_last(out, new_id, last);
    }
    Ok(selected)
}

fn push_chunk(out: &mut Vec<u8>, new_id: u64, payload: Vec<u8>, written_us: i64) {
    let header = ChunkHeader {
        payload_bytes: payload.len() as u32,
        payload_crc: crc32(&payload),
        synced_bytes: 0,
        earlier_synced: false,
        is_last: false,
        written_us,
    };
    let at = out.len() as u64;
    out.extend_from_slice(&header.encode(new_id, at));
    out.extend_from_slice(&payload);
}

/// The chunk at `at` becomes the last of the segment.
fn mark_last(mut out: Vec<u8>, new_id: u64, at: usize) -> Vec<u8> {
    let header = out[at..].first_chunk::<HEADER_BYTES>().expect("a chunk was written here");
    let header = ChunkHeader::decode(header, new_id, at as u64).expect("a chunk was written here");
    // The synced position makes a cut of the file show.
    let header = ChunkHeader { is_last: true, synced_bytes: at as u64, ..header };
    out[at..at + HEADER_BYTES].copy_from_slice(&header.encode(new_id, at as u64));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(id: u64, chunks: &[(i64, &[&[u8]])]) -> Vec<u8> {
        let mut out = format::encode_segment_header(id, id).to_vec();
        out.resize(FIRST_CHUNK_BYTES as usize, 0);
        for (written_us, entries) in chunks {
            out.resize(next_chunk_offset(out.len() as u64) as usize, 0);
            let mut payload = vec![];
            for entry in *entries {
                payload.extend_from_slice(&(entry.len() as u32).to_be_bytes());
                payload.extend_from_slice(entry);
            }
            push_chunk(&mut out, id, payload, *written_us);
        }
        out
    }

    fn read(id: u64, segment: &[u8]) -> Vec<(i64, Vec<u8>)> {
        let mut found = vec![];
        let all = |archived: Archived<'_>| {
            found.push((archived.written_us, archived.mutation.to_vec()));
            Ok(true)
        };
        select(id, segment, id, all).unwrap();
        found
    }

    #[test]
    fn the_end_of_a_segment_is_found_in_reserved_space() {
        let full = segment(7, &[(10, &[b"\x01one", b"\x01two"]), (20, &[b"\x01three"])]);
        let mut reserved = full.clone();
        reserved.resize(full.len() + 4096, 0);
        assert_eq!(used_bytes(7, &reserved), Ok(full.len()));
        assert_eq!(used_bytes(7, &[0; 4096]), Ok(0), "it was never used");
        assert_eq!(used_bytes(7, &segment(7, &[])), Ok(0));
        assert!(!is_whole(7, &reserved), "after a crash a segment has no last chunk");
        let closed = select(7, &reserved, 8, |_| Ok(true)).unwrap().segment;
        assert!(is_whole(8, &closed) && !is_whole(8, &closed[..closed.len() - 1]) && !is_whole(7, &closed));
        assert!(used_bytes(8, &reserved).is_err());
        let mut damaged = reserved.clone();
        damaged[FIRST_CHUNK_BYTES as usize + HEADER_BYTES + 5] ^= 1;
        assert!(used_bytes(7, &damaged).unwrap_err().contains("damaged"));
    }

    #[test]
    fn wanted_mutations_become_a_segment_of_their_own() {
        let batch = format::batch_of(&[b"\x01a", b"\x01b", b"\x01c"]);
        let from = segment(7, &[(10, &[b"\x01one", &batch]), (20, &[b"\x01two"]), (30, &[b"\x01late"])]);
        let selected = select(7, &from, 9, |archived| {
            Ok(archived.written_us <= 20 && archived.mutation != b"\x01b" && archived.mutation != b"\x01one")
        });
        let selected = selected.unwrap();
        assert_eq!((selected.kept, selected.left_out), (3, 3));
        let found = read(9, &selected.segment);
        let expected: [(i64, &[u8]); 3] = [(10, b"\x01a"), (10, b"\x01c"), (20, b"\x01two")];
        assert_eq!(found, expected.map(|(at, bytes)| (at, bytes.to_vec())));
        assert_eq!(used_bytes(9, &selected.segment), Ok(selected.segment.len()));
        let nothing = select(7, &from, 9, |_| Ok(false)).unwrap();
        assert_eq!((nothing.segment.len(), nothing.left_out), (0, 6));
        assert!(select(7, &from, 9, |_| Err("no".to_string())).is_err());
    }
}
