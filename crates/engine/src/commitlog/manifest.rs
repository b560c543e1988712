//! Which segments a log needs: a small file beside them, so that one that is taken away, or cut, is missed.
//!
//! Each run of each shard makes a manifest of its own, and changes it in place: it has two slots, and the one that does
//! not hold the newest state is written and synced. A write that was torn leaves the state before it, and nothing was
//! done yet that the new one says. A change takes no room on the disk, so a full one can still give segments up.
//!
//! - A segment is in the manifest before anything is written to it, and until nobody needs it: it is taken out before
//!   its file is put aside. So what is in a manifest must be there at a start.
//! - For each it says how far it had been synced, which a start takes as evidence beside that of the chunks.
//! - When what earlier runs left has been flushed, the manifest of the first shard says so ([`Manifest::needed_from`]);
//!   only then their files are removed.
//!
//! The layout is in `docs/formats/commitlog.md`; what a start makes of it is in [`super::census`].

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

/// No log has more segments in use.
pub const SEGMENTS_MAX: u64 = 1 << 16;
/// A file that is longer is none of ours.
const BYTES_MAX: u64 = 2 * SEGMENTS_MAX * ENTRY_BYTES as u64 + (1 << 20);

/// What a manifest says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub id: u64,
    /// Wall clock when it was made, microseconds.
    pub begun_us: i64,
    /// It had been synced up to here.
    pub synced_bytes: u32,
    /// Nothing is written behind that.
    pub is_closed: bool,
}

/// The state of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The first segment of the run: shard and number.
    pub run: u64,
    /// Shards of the run; each has a manifest, but for the log of the schema.
    pub shard_count: u32,
    /// Segments with lower numbers, of whatever shard, are not needed any more; 0: not known.
    pub needed_from: u64,
    /// Rises with every change.
    pub sequence: u64,
    /// Length of each segment file.
    pub segment_bytes: u32,
    /// Those that are needed, by id.
    pub segments: Vec<Listed>,
}

impl Manifest {
    /// Bytes of a slot with room for so many segments.
    fn slot_bytes(segments_max: usize) -> usize {
        (HEADER_BYTES + segments_max * ENTRY_BYTES + CRC_BYTES).next_multiple_of(SLOT_ALIGNMENT_BYTES)
    }

    /// What stands in a slot of a file whose slots are so long; the rest of the slot may be anything.
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

    /// The newest state in a file. `None`: there is none, or it is of another run than the file's name says.
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

/// Whether a crash has left the file while a manifest was made.
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
    /// What the disk has.
    stored: RefCell<Manifest>,
    needed_from: Cell<u64>,
    /// Changes that were asked for, and those that are on the disk.
    asked: Cell<u64>,
    done: Cell<u64>,
    lock: Mutex,
}

impl ManifestFile {
    /// Makes the manifest of a run with no segments. Durable when this returns.
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
            // What remains is removed by the next start.
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

    /// What runs before this one left is not needed any more. To be stored.
    pub fn give_up_earlier(&self) {
        self.needed_from.set(split_id(self.stored.borrow().run).1);
    }

    /// Makes durable what `in_use` says when it is asked, which is not before this call. After an error the disk has
    /// that or the state before it.
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

    /// Whether the disk has another state than this one, and nobody is changing that.
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
            // Torn anywhere, the state before it is there still.
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
