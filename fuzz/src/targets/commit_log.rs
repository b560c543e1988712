//! A replay reads or reports any files in the directory of the commit log: segments of any bytes, segments
//! with any entries in chunks with valid checksums, and manifests.
//!
//! The input is a list of files (`crate::files`). The lower three bits of a kind select the type of the file,
//! the upper bits its number.

use std::path::Path;
use std::sync::Arc;

use crate::{files, manifest_file};
use base::crc::crc32;
use engine::commitlog::census::{self, Census};
use engine::commitlog::format::{self, ChunkHeader, FIRST_CHUNK_BYTES, HEADER_BYTES};
use engine::commitlog::{Replayed, manifest, replay};
use model::{TableSchema, codec};
use runtime::{IoClass, Shard, sim};

const DIR: &str = "/log";
const FILES_MAX: usize = 6;

pub fn examine(data: &[u8]) {
    let files: Vec<(String, Vec<u8>)> =
        files::split(data).into_iter().take(FILES_MAX).map(|(kind, bytes)| file(kind, bytes)).collect();
    sim::run(1, 1, move |shard| async move { read_back(&shard, files).await });
}

fn file(kind: u8, bytes: &[u8]) -> (String, Vec<u8>) {
    let id = format::segment_id(u32::from(kind >> 3 & 1), u64::from(kind >> 4) + 1);
    match kind & 7 {
        0 => (format::file_name(id), bytes.to_vec()),
        1..=4 => (format::file_name(id), segment(id, bytes)),
        5 => (manifest::file_name(id), bytes.to_vec()),
        6 => (manifest::file_name(id), manifest_file(bytes)),
        _ => (String::from_utf8_lossy(bytes).replace(['/', '\0'], "_") + "_", vec![]),
    }
}

/// A valid segment: each file inside `bytes` is the payload of a chunk, and the kind of the file contains the
/// flags of the chunk's header.
fn segment(id: u64, bytes: &[u8]) -> Vec<u8> {
    let mut segment = format::encode_segment_header(id, id).to_vec();
    segment.resize(FIRST_CHUNK_BYTES as usize, 0);
    for (flags, payload) in files::split(bytes) {
        let at = segment.len() as u64;
        let chunk = ChunkHeader {
            payload_bytes: payload.len() as u32,
            payload_crc: crc32(payload) ^ u32::from(flags & 4),
            synced_bytes: if flags & 8 == 0 { at } else { u64::from(flags) << 4 },
            earlier_synced: flags & 1 != 0,
            is_last: flags & 2 != 0,
            written_us: i64::from(flags),
        };
        segment.extend_from_slice(&chunk.encode(id, at));
        segment.extend_from_slice(payload);
        segment.resize(format::next_chunk_offset(segment.len() as u64) as usize, 0);
    }
    segment
}

async fn read_back(shard: &Shard, files: Vec<(String, Vec<u8>)>) {
    let dir = Path::new(DIR);
    shard.files().create_dir_all(dir).await.expect("a directory");
    let mut bytes_max = 0;
    for (name, bytes) in &files {
        bytes_max += bytes.len() as u64;
        let name: String = name.chars().take(60).collect();
        shard.files().write_all(&dir.join(name), bytes, IoClass::CommitLog).await.expect("a file");
    }
    let census = census::take(shard.files(), dir).await.expect("a readable directory");
    let gaps = census::missing(&census, &Census::default());
    assert!(gaps.iter().all(|gap| !gap.to_string().is_empty()));
    let _ = census.last_number();
    let known = replay::synced_whole(shard.files(), &census.segments).await.expect("readable");
    let tables = model::sample::tables();
    for (segment, synced_whole) in census.segments.iter().zip(known) {
        let apply = async |replayed: Replayed<'_>| {
            assert!(u64::from(replayed.position.offset_bytes) >= FIRST_CHUNK_BYTES + HEADER_BYTES as u64);
            decode(replayed.entry, &tables)
        };
        let report =
            replay::read_segment(shard.files(), segment, synced_whole, apply).await.expect("readable");
        assert!(report.bytes <= bytes_max && report.segments == 1);
        let gaps = report.damaged.iter().chain(&report.truncated);
        assert!(gaps.into_iter().all(|gap| !gap.to_string().is_empty()));
    }
}

fn decode(entry: &[u8], tables: &[Arc<TableSchema>]) -> Result<(), String> {
    for mutation in format::mutations_of(entry).1 {
        let mutation = mutation?;
        let id = codec::table_of(mutation).map_err(|error| error.to_string())?;
        let Some(schema) = tables.iter().find(|table| table.id == id) else { continue };
        codec::decode(mutation, schema).map_err(|error| error.to_string())?;
    }
    Ok(())
}
