//! The commit log manifest: a small file that lists the segments of a log, so that a removed or shortened
//! segment is detected.
//!
//! Each run of each shard creates a manifest of its own and updates it in place. The file has two slots; an
//! update writes and syncs the slot that does not hold the newest state. A torn write leaves the previous
//! state, and no action of the new state has been taken yet. Updates need no further disk space, so a log on
//! a full disk can still release segments.
//!
//! - A segment is listed before anything is written to it, and until it is not needed; it is removed from the
//!   manifest before its file is recycled. So every listed segment must exist at a start.
//! - For each segment the manifest has the synced position, which is evidence for a start in addition to the
//!   chunks.
//! - When the entries of earlier runs have been flushed, the manifest of the first shard records it
//!   ([`Manifest::needed_from`]); only then the files of those runs are removed.
//!
//! The layout is in `docs/formats/commitlog.md`; [`super::census`] evaluates manifests at a start.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use base::bytes::Take;
use base::crc::crc32;
use runtime::{File, FileError, Files, IoBuf, IoClass, Mutex, OpenOptions};

use super::format::{SHARDS_MAX, split_id};

const MAGIC: u32 = 0x4d53_434d;
const VERSION: u32 = 1;
const PREFIX: &str = "manifest-";
const TEMPORARY_SUFFIX: &str = ".tmp";
const HEADER_BYTES: usize = 52;
const ENTRY_BYTES: usize = 24;
const CRC_BYTES: usize = 4;
/// Slots begin at multiples of this.
const SLOT_ALIGNMENT_BYTES: usize = 4096;

/// Limit of segments in use by one log.
pub const SEGMENTS_MAX: u64 = 1 << 16;
/// Limit for the length of the file; a longer one is damaged.
const BYTES_MAX: u64 = 2 * SEGMENTS_MAX * ENTRY_BYTES as u64 + (1 << 20);

/// The entry of a segment in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: u64,
    /// Wall clock at its creation, in microseconds.
    pub begun_us: i64,
    /// It had been synced up to this position.
    pub synced_bytes: u32,
    /// Nothing is written after `synced_bytes`.
    pub is_closed: bool,
}

/// The state of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The first segment of the run: shard and number.
    pub run: u64,
    /// Number of shards in the run. Each has a manifest, except in the log of the schema.
    pub shard_count: u32,
    /// Segments of any shard with lower numbers are not needed any more; 0: not known.
    pub needed_from: u64,
    /// Incremented by every change.
    pub sequence: u64,
    /// Length of each segment file.
    pub segment_bytes: u32,
    /// The needed segments, by id.
    pub segments: Vec<Listed>,
}

impl Manifest {
    /// Bytes of a slot for `segments_max` segments.
    fn slot_bytes(segments_max: usize) -> usize {
        (HEADER_BYTES + segments_max * ENTRY_BYTES + CRC_BYTES).next_multiple_of(SLOT_ALIGNMENT_BYTES)
    }

    /// The content of a slot of length `slot_bytes`; the remaining bytes of the slot are arbitrary.
    pub fn encode(&self, slot_bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.segments.len() * ENTRY_BYTES + CRC_BYTES);
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&(slot_bytes as u32).to_be_bytes());
        out.extend_from_slice(&self.run.to_be_bytes());
        out.extend_from_slice(&self.shard_count.to_be_bytes());
        out.extend_from_slice(&self.needed_from.to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.segment_bytes.to_be_bytes());
        out.extend_from_slice(&(self.segments.len() as u64).to_be_bytes());
        for listed in &self.segments {
            out.extend_from_slice(&listed.id.to_be_bytes());
            out.extend_from_slice(&listed.begun_us.to_be_bytes());
            out.extend_from_slice(&listed.synced_bytes.to_be_bytes());
            out.extend_from_slice(&u32::from(listed.is_closed).to_be_bytes());
        }
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        assert!(out.len() <= slot_bytes, "{} segments are in use", self.segments.len());
        out
    }

    fn decode_slot(slot: &[u8], file_bytes: usize) -> Option<Self> {
        let mut take = Take::new(slot);
        if (take.u32().ok()?, take.u32().ok()?) != (MAGIC, VERSION)
            || take.u32().ok()? as usize * 2 != file_bytes
        {
            return None;
        }
        let run = take.u64().ok()?;
        let shard_count = take.u32().ok()?;
        if shard_count > SHARDS_MAX {
            return None;
        }
        let (needed_from, sequence) = (take.u64().ok()?, take.u64().ok()?);
        let segment_bytes = take.u32().ok()?;
        let count = usize::try_from(take.u64().ok()?).ok()?;
        let end = count.checked_mul(ENTRY_BYTES)?.checked_add(HEADER_BYTES)?;
        let crc = slot.get(end..)?.first_chunk()?;
        if crc32(&slot[..end]) != u32::from_be_bytes(*crc) {
            return None;
        }
        let mut segments = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, begun_us) = (take.u64().ok()?, take.u64().ok()? as i64);
            let (synced_bytes, flags) = (take.u32().ok()?, take.u32().ok()?);
            segments.push(Listed { id, begun_us, synced_bytes, is_closed: flags & 1 != 0 });
        }
        Some(Self { run, shard_count, needed_from, sequence, segment_bytes, segments })
    }

    /// The newest state in a file. `None` if no slot is valid, or if the state belongs to another run than
    /// `run`.
    pub fn decode(bytes: &[u8], run: u64) -> Option<Self> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let slots = [first, second].into_iter().filter_map(|slot| Self::decode_slot(slot, bytes.len()));
        slots.filter(|manifest| manifest.run == run).max_by_key(|manifest| manifest.sequence)
    }
}

pub fn file_name(run: u64) -> String {
    format!("{PREFIX}{run}")
}

/// The run in a manifest's file name, `None` for other files.
pub fn run_of_file_name(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Whether the file is an unfinished manifest, left by a crash.
pub fn is_temporary(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.ends_with(TEMPORARY_SUFFIX))
}

/// Reads the manifest of a run. The inner `None`: it is damaged.
pub async fn read(files: &Files, path: &Path, run: u64) -> Result<Option<Manifest>, FileError> {
    let bytes = match files.read_all(path, IoClass::Maintenance, BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(error) if error.source.kind() == std::io::ErrorKind::FileTooLarge => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Manifest::decode(&bytes, run))
}

/// The manifest of a running log.
pub struct ManifestFile {
    file: File,
    slot_bytes: usize,
    /// The state on disk.
    stored: RefCell<Manifest>,
    needed_from: Cell<u64>,
    /// Number of the last requested change, and of the last one on disk.
    asked: Cell<u64>,
    done: Cell<u64>,
    lock: Mutex,
}

impl ManifestFile {
    /// Creates the manifest of a run, without segments. Durable when this returns.
    pub async fn create(
        files: &Files,
        dir: &Path,
        run: u64,
        shard_count: u32,
        segment_bytes: u64,
        segments_max: u64,
    ) -> Result<Self, FileError> {
        let slot_bytes = Manifest::slot_bytes(segments_max.min(SEGMENTS_MAX) as usize);
        let segment_bytes = u32::try_from(segment_bytes).expect("positions in segments are 32 bits");
        let manifest =
            Manifest { run, shard_count, needed_from: 0, sequence: 0, segment_bytes, segments: vec![] };
        let path = dir.join(file_name(run));
        let temporary = PathBuf::from(format!("{}{TEMPORARY_SUFFIX}", path.display()));
        let mut bytes = manifest.encode(slot_bytes);
        bytes.resize(2 * slot_bytes, 0);
        let made = async {
            files.write_all(&temporary, &bytes, IoClass::CommitLog).await?;
            files.rename(&temporary, &path).await
        };
        if let Err(error) = made.await {
            // If it remains, the next start removes it.
            let _ = files.remove(&temporary).await;
            return Err(error);
        }
        files.sync_dir(dir).await?;
        Ok(Self {
            file: files.open(&path, OpenOptions::read_write()).await?,
            slot_bytes,
            stored: RefCell::new(manifest),
            needed_from: Cell::new(0),
            asked: Cell::new(0),
            done: Cell::new(0),
            lock: Mutex::default(),
        })
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Records that files of earlier runs are not needed any more. Effective with the next `store`.
    pub fn release_earlier_files(&self) {
        self.needed_from.set(split_id(self.stored.borrow().run).1);
    }

    /// Makes the state returned by `in_use` durable; `in_use` is called during this call. After an error the
    /// disk has this state or the previous one.
    pub async fn store(&self, in_use: impl Fn() -> Vec<Listed>) -> Result<(), FileError> {
        let mine = self.asked.get() + 1;
        self.asked.set(mine);
        let _held = self.lock.lock().await;
        if self.done.get() >= mine {
            return Ok(());
        }
        let with_this = self.asked.get();
        let before = self.stored.borrow().clone();
        let manifest = Manifest {
            needed_from: self.needed_from.get(),
            sequence: before.sequence + 1,
            segments: in_use(),
            ..before
        };
        let slot = (manifest.sequence % 2) * self.slot_bytes as u64;
        let bytes = IoBuf::copy_from(&manifest.encode(self.slot_bytes));
        self.file.write_at(slot, bytes, IoClass::CommitLog).await?;
        self.file.sync_data().await?;
        *self.stored.borrow_mut() = manifest;
        self.done.set(with_this);
        Ok(())
    }

    /// Whether the disk has another state than `in_use`, and no update is running.
    pub fn is_behind(&self, in_use: &[Listed]) -> bool {
        !self.lock.is_held() && self.stored.borrow().segments != in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitlog::format::segment_id;

    fn sample(sequence: u64) -> Manifest {
        let listed = |number, is_closed| Listed {
            id: segment_id(2, number),
            begun_us: 1_700_000_000_000_000,
            synced_bytes: 4096,
            is_closed,
        };
        let segments = vec![listed(7, true), listed(9 + sequence, false)];
        Manifest {
            run: segment_id(2, 6),
            shard_count: 4,
            needed_from: 6,
            sequence,
            segment_bytes: 1 << 20,
            segments,
        }
    }

    #[test]
    fn the_worked_example_of_the_format_page() {
        let page = include_str!("../../../../docs/formats/commitlog.md");
        let (_, example) = page.split_once("slot of its manifest").expect("the page has an example");
        let (_, example) = example.split_once("```hex\n").expect("the page has an example");
        let (example, _) = example.split_once("```").expect("the example ends");
        let words = example.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
        let documented: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let bytes = sample(1).encode(4096);
        let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, documented, "{}", shown.join(" "));
    }

    #[test]
    fn a_manifest_of_more_shards_than_ids_can_name_is_damaged() {
        let slot_bytes = Manifest::slot_bytes(8);
        for (shard_count, is_sound) in [(SHARDS_MAX, true), (SHARDS_MAX + 1, false), (u32::MAX, false)] {
            let mut file = Manifest { shard_count, ..sample(1) }.encode(slot_bytes);
            file.resize(2 * slot_bytes, 0);
            assert_eq!(Manifest::decode(&file, segment_id(2, 6)).is_some(), is_sound, "{shard_count} shards");
        }
    }

    #[test]
    fn the_newest_sound_slot_counts() {
        let slot_bytes = Manifest::slot_bytes(8);
        let mut file = vec![0; 2 * slot_bytes];
        for sequence in 0..4 {
            let at = (sequence % 2) as usize * slot_bytes;
            let slot = sample(sequence).encode(slot_bytes);
            // A write torn at any byte leaves the previous state readable.
            for cut in (0..slot.len()).step_by(5) {
                let mut torn = file.clone();
                torn[at..at + cut].copy_from_slice(&slot[..cut]);
                let expected = sequence.checked_sub(1).map(sample);
                assert_eq!(Manifest::decode(&torn, segment_id(2, 6)), expected, "cut at {cut}");
            }
            file[at..at + slot.len()].copy_from_slice(&slot);
            assert_eq!(Manifest::decode(&file, segment_id(2, 6)), Some(sample(sequence)));
        }
        assert_eq!(Manifest::decode(&file, segment_id(2, 7)), None, "of another run");
        for len in [0, 1, 100, slot_bytes, file.len() - 1] {
            assert_eq!(Manifest::decode(&file[..len], segment_id(2, 6)), None, "{len} bytes");
        }
        file.fill(0);
        assert_eq!(Manifest::decode(&file, segment_id(2, 6)), None);
    }

    #[test]
    fn names() {
        let run = segment_id(3, 77);
        assert_eq!(run_of_file_name(&file_name(run)), Some(run));
        assert!(is_temporary(&format!("{}.tmp", file_name(run))) && !is_temporary(&file_name(run)));
        assert_eq!(run_of_file_name("CommitLog-1-5.log"), None);
    }
}
