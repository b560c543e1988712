//! The truncation record: up to which generation and log positions the table was truncated.
//!
//! The record is durable before anything is removed. A restart removes the SSTables that it covers, and a
//! replay skips the log entries before its positions, so an interrupted truncate is completed.
//!
//! The layout of the file is in `docs/formats/truncation.md`.

use std::path::Path;

use base::bytes::Take;
use base::crc::crc32;
use runtime::{FileError, Files, IoClass};

use crate::commitlog::LogPosition;
use crate::commitlog::format::split_id;

pub const FILE_NAME: &str = "truncation";
const TEMPORARY_NAME: &str = "truncation.tmp";
const MAGIC: u32 = 0x4d53_5452;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truncation {
    /// SSTables with lower generations are void.
    pub first_generation: u64,
    /// For each shard's log, entries before this position are void.
    pub positions: Vec<LogPosition>,
}

impl Truncation {
    /// Whether an entry was written before the table was truncated.
    pub fn covers(&self, position: LogPosition) -> bool {
        let shard = split_id(position.segment).0;
        self.positions.iter().any(|until| split_id(until.segment).0 == shard && position < *until)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_be_bytes().to_vec();
        out.extend_from_slice(&self.first_generation.to_be_bytes());
        out.extend_from_slice(&(self.positions.len() as u32).to_be_bytes());
        for position in &self.positions {
            out.extend_from_slice(&position.segment.to_be_bytes());
            out.extend_from_slice(&position.offset_bytes.to_be_bytes());
        }
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// `None` if the bytes are not a complete, unchanged record.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32(body) != u32::from_be_bytes(*crc) {
            return None;
        }
        let mut take = Take::new(body);
        if take.u32().ok()? != MAGIC {
            return None;
        }
        let first_generation = take.u64().ok()?;
        let mut positions = vec![];
        for _ in 0..take.u32().ok()? {
            positions.push(LogPosition { segment: take.u64().ok()?, offset_bytes: take.u32().ok()? });
        }
        take.is_empty().then_some(Self { first_generation, positions })
    }
}

/// The record of the table in `dir`; the default if it was never truncated. An unreadable record is an error,
/// because without it truncated data would return.
pub async fn load(files: &Files, dir: &Path) -> Result<Truncation, FileError> {
    let path = dir.join(FILE_NAME);
    if !files.exists(&path).await? {
        return Ok(Truncation::default());
    }
    let bytes = files.read_all(&path, IoClass::Maintenance, 1 << 20).await?;
    Truncation::decode(&bytes).ok_or_else(|| {
        let detail = "not a truncation record; remove the file if the table may show data that was truncated";
        FileError::new("read", &path, std::io::Error::new(std::io::ErrorKind::InvalidData, detail))
    })
}

/// Removes a temporary file left by a crash during [`store`]. To be called at a start.
pub async fn clean_up(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.remove(&dir.join(TEMPORARY_NAME)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _removed => Ok(()),
    }
}

/// Replaces the record. After an error the previous one is still valid. The new one is durable when the
/// directory has been synced.
pub async fn store(files: &Files, dir: &Path, record: &Truncation) -> Result<(), FileError> {
    let temporary = dir.join(TEMPORARY_NAME);
    let written = async {
        files.write_all(&temporary, &record.encode(), IoClass::Maintenance).await?;
        files.rename(&temporary, &dir.join(FILE_NAME)).await
    };
    let result = written.await;
    if result.is_err() {
        // If it remains, the next start removes it.
        let _ = files.remove(&temporary).await;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::format::segment_id;

    #[test]
    fn it_covers_what_is_in_front_in_the_same_log() {
        let at = |shard, base, offset_bytes| LogPosition { segment: segment_id(shard, base), offset_bytes };
        let record = Truncation { first_generation: 9, positions: vec![at(0, 5, 100), at(1, 2, 50)] };
        assert_eq!(Truncation::decode(&record.encode()), Some(record.clone()));
        assert!(record.covers(at(0, 4, 5000)) && record.covers(at(0, 5, 99)) && record.covers(at(1, 1, 0)));
        assert!(!record.covers(at(0, 5, 100)) && !record.covers(at(1, 3, 0)) && !record.covers(at(2, 1, 0)));
        let mut bytes = record.encode();
        bytes[7] ^= 1;
        assert_eq!(Truncation::decode(&bytes), None);
    }
    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/truncation.md");
        let (_, example) = page.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let documented: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let at = |shard, base, offset_bytes| LogPosition { segment: segment_id(shard, base), offset_bytes };
        let record = Truncation { first_generation: 9, positions: vec![at(0, 5, 100), at(1, 2, 64)] };
        assert_eq!(record.encode(), documented);
        assert_eq!(Truncation::decode(&documented), Some(record));
    }
}
