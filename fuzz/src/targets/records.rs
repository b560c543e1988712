//! Any bytes are a compaction record, an SSTable manifest, a truncation record, or a manifest or segment
//! header of the commit log, or are refused. A decoded record is encoded again, and decodes to the same
//! record.
//!
//! The first byte selects the kind of record, and whether a valid checksum is appended first.

use crate::{manifest_file, with_crc, with_crc_line};
use engine::commitlog::format;
use engine::commitlog::manifest::Manifest;
use engine::compaction::record::Record;
use engine::manifest as sstable_manifest;
use engine::table::truncation::Truncation;

pub fn examine(data: &[u8]) {
    let [kind, body @ ..] = data else { return };
    let is_mended = kind & 0x80 != 0;
    let text = if is_mended { with_crc_line(body) } else { body.to_vec() };
    let binary = if is_mended { with_crc(body) } else { body.to_vec() };
    match kind % 6 {
        0 => {
            let Some(record) = Record::decode(&text) else { return };
            assert_eq!(Record::decode(record.encode().as_bytes()), Some(record));
        }
        1 => {
            let Some(content) = sstable_manifest::decode(&text) else { return };
            assert_eq!(
                sstable_manifest::decode(sstable_manifest::encode(&content).as_bytes()),
                Some(content)
            );
        }
        2 => {
            let Some(truncation) = Truncation::decode(&binary) else { return };
            assert_eq!(Truncation::decode(&truncation.encode()), Some(truncation.clone()));
            for position in &truncation.positions {
                assert!(!truncation.covers(*position) || truncation.positions.len() > 1);
            }
        }
        3 => manifest(&binary),
        4 => manifest(&manifest_file(body)),
        _ => {
            let _ = format::decode_segment_header(body);
            let mut end = 0;
            for entry in format::entries(body) {
                let Ok((at, bytes)) = entry else { break };
                assert!(at >= end && at + 4 + bytes.len() <= body.len());
                end = at + 4 + bytes.len();
            }
            if let Ok(name) = std::str::from_utf8(body)
                && let Some(id) = format::id_of_file_name(name)
            {
                assert_eq!(format::id_of_file_name(&format::file_name(id)), Some(id));
            }
        }
    }
}

fn manifest(bytes: &[u8]) {
    let run = bytes.get(12..20).and_then(|run| run.first_chunk()).map_or(0, |run| u64::from_be_bytes(*run));
    let Some(manifest) = Manifest::decode(bytes, run) else { return };
    assert_eq!(manifest.run, run);
    let mut again = manifest.encode(bytes.len() / 2);
    again.resize(bytes.len(), 0);
    assert_eq!(Manifest::decode(&again, run), Some(manifest));
}
