//! The segment files of a log: those in use, their unflushed entries, and the creation and reuse of files.
//!
//! A segment is needed until it is closed and every memtable with one of its entries has been flushed. Its
//! file is then renamed at once, so that a restart does not read it, and reused for a later segment: its
//! blocks are already allocated, which makes writes to it twice as fast.
//!
//! Entries of a batch are counted too while memtables of other shards have them: see
//! [`others`](super::others).
//!
//! The [`manifest`](super::manifest) lists the segments in use: it is updated before a segment is written to,
//! and before its file is recycled.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use base::{HashMap, HashSet};
use model::TableId;
use runtime::{File, FileError, Files, IoBuf, IoClass, OpenOptions, Shard};

use super::archive;
use super::format;
use super::manifest::{Listed, ManifestFile, SEGMENTS_MAX};
use super::{CommitLogOptions, LogPosition};

/// Number of entries that a memtable holds of each segment: of its own shard's log, and of those of other
/// shards with batches of which it has a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentRefs(Vec<(u64, u64)>);

impl SegmentRefs {
    #[inline]
    pub fn add(&mut self, segment: u64) {
        match self.0.last_mut() {
            Some((last, count)) if *last == segment => *count += 1,
            _ => match self.0.iter_mut().find(|(id, _)| *id == segment) {
                Some((_, count)) => *count += 1,
                None => self.0.push((segment, 1)),
            },
        }
    }

    /// Segment ids and counts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The earliest segment of this shard's log.
    pub fn oldest_of(&self, shard: u32) -> Option<u64> {
        self.0.iter().map(|(id, _)| *id).filter(|id| format::split_id(*id).0 == shard).min()
    }

    /// The shards whose logs have the segments.
    pub fn shards(&self) -> Vec<u32> {
        let mut shards: Vec<u32> = self.0.iter().map(|(id, _)| format::split_id(*id).0).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// The part in the segments of one shard's log.
    pub fn of_shard(&self, shard: u32) -> Self {
        Self(self.0.iter().filter(|(id, _)| format::split_id(*id).0 == shard).copied().collect())
    }
}

/// A segment that is being written or still needed.
pub struct Segment {
    pub id: u64,
    pub file: File,
    /// Wall clock at its creation, in microseconds.
    begun_us: i64,
    /// Chunks have been written up to this position.
    pub written_bytes: Cell<u64>,
    /// The segment has been synced up to this position.
    pub synced_bytes: Cell<u64>,
    /// No further entry will be appended.
    pub closed: Cell<bool>,
    /// Entries that are in no SSTable yet, by table.
    uses: RefCell<HashMap<TableId, u64>>,
    /// The other shards that have got parts of its batches.
    holders: RefCell<Vec<u32>>,
}

impl Segment {
    fn is_needed(&self) -> bool {
        !self.closed.get() || self.uses.borrow().values().any(|count| *count > 0)
    }

    pub fn is_synced(&self) -> bool {
        self.synced_bytes.get() >= self.written_bytes.get()
    }

    fn listed(&self) -> Listed {
        Listed {
            id: self.id,
            begun_us: self.begun_us,
            synced_bytes: self.synced_bytes.get() as u32,
            is_closed: self.closed.get() && self.is_synced(),
        }
    }

    /// Counts an entry of `table`.
    #[inline]
    pub fn add_use(&self, table: TableId) {
        *self.uses.borrow_mut().entry(table).or_default() += 1;
    }

    /// Records that another shard will have an entry of a batch.
    pub fn add_holder(&self, shard: u32) {
        let mut holders = self.holders.borrow_mut();
        if !holders.contains(&shard) {
            holders.push(shard);
        }
    }

    pub fn holders(&self) -> Vec<u32> {
        self.holders.borrow().clone()
    }
}

/// All segments of one log.
pub struct Segments {
    options: CommitLogOptions,
    files: Files,
    shard: Shard,
    manifest: ManifestFile,
    /// Later segments may state that segments from this base on had been synced.
    vouched_from: Cell<u64>,
    next_base: Cell<u64>,
    /// Limit of the segments: the one in the options, or less on a disk that is nearly full.
    limit_bytes: Cell<u64>,
    /// In use, oldest first; the last one may be open.
    in_use: RefCell<Vec<Rc<Segment>>>,
    /// Files that may be reused, under their recycled names.
    recycled: RefCell<Vec<PathBuf>>,
    /// Number of segments without unflushed entries that are on their way to `recycled`.
    retiring: Cell<usize>,
    /// Segments that a restart may still find: those being retired, and those whose files could not be
    /// recycled.
    lingering: RefCell<HashSet<u64>>,
    /// Files of segments without entries that the manifest on disk may or may not list. They stay until it
    /// certainly does not.
    unsure: RefCell<Vec<PathBuf>>,
}

impl Segments {
    /// Creates the manifest of this run. Segments get numbers from `first_base` on.
    pub async fn open(shard: &Shard, first_base: u64, options: CommitLogOptions) -> Result<Self, FileError> {
        let files = shard.files().clone();
        let run = format::segment_id(shard.id(), first_base);
        // One further segment is created in advance, and one may be being retired.
        let segments_max = count_max(options.total_bytes_max, options.segment_bytes) + 2;
        let (dir, segment_bytes) = (&options.dir, options.segment_bytes);
        let manifest =
            ManifestFile::create(&files, dir, run, shard.shard_count(), segment_bytes, segments_max).await?;
        Ok(Self {
            limit_bytes: Cell::new(options.total_bytes_max),
            options,
            files,
            shard: shard.clone(),
            manifest,
            vouched_from: Cell::new(first_base),
            next_base: Cell::new(first_base),
            in_use: RefCell::default(),
            recycled: RefCell::default(),
            retiring: Cell::new(0),
            lingering: RefCell::default(),
            unsure: RefCell::default(),
        })
    }

    /// Sets the free bytes of the disk, available for this log and for the flushes of its entries.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.limit_bytes.set(limit_bytes(self.options.total_bytes_max, self.disk_bytes(), free_bytes));
    }

    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.get()
    }

    pub fn dir(&self) -> &std::path::Path {
        &self.options.dir
    }

    /// The earliest position of the first entry of the next segment.
    pub fn next_position(&self) -> LogPosition {
        LogPosition { segment: format::segment_id(self.shard.id(), self.next_base.get()), offset_bytes: 0 }
    }

    /// Whether files of segments are being recycled or removed.
    pub fn is_retiring(&self) -> bool {
        self.retiring.get() > 0
    }

    /// Whether flushes free space: there are segments before the last one.
    pub fn can_free(&self) -> bool {
        self.in_use.borrow().len() > 1 || self.retiring.get() > 0
    }

    fn listed(&self) -> Vec<Listed> {
        self.in_use.borrow().iter().map(|segment| segment.listed()).collect()
    }

    /// Makes the manifest list the segments in use now.
    async fn store_manifest(&self) -> Result<(), FileError> {
        self.manifest.store(|| self.listed()).await?;
        for path in self.unsure.take() {
            let _ = self.files.remove(&path).await;
        }
        Ok(())
    }

    /// Whether the synced positions in the manifest on disk are outdated.
    pub fn is_manifest_outdated(&self) -> bool {
        self.manifest.is_behind(&self.listed())
    }

    /// Records the synced positions in the manifest.
    pub async fn note_synced(&self) -> Result<(), FileError> {
        self.store_manifest().await
    }

    /// Makes durable that files of earlier runs of all shards are not needed any more.
    pub async fn release_earlier_files(&self) -> Result<(), FileError> {
        self.manifest.release_earlier_files();
        self.store_manifest().await
    }

    /// Whether a start at this moment could replay the segment.
    pub fn may_be_replayed(&self, id: u64) -> bool {
        self.lingering.borrow().contains(&id) || self.in_use.borrow().iter().any(|segment| segment.id == id)
    }

    /// Bytes of all segment files of this log.
    pub fn disk_bytes(&self) -> u64 {
        let count = self.in_use.borrow().len() + self.recycled.borrow().len() + self.retiring.get();
        count as u64 * self.options.segment_bytes
    }

    /// Whether another segment is within the limit.
    pub fn may_begin(&self) -> bool {
        let count = self.in_use.borrow().len() + self.retiring.get() + 1;
        count as u64 <= count_max(self.limit_bytes.get(), self.options.segment_bytes)
    }

    /// Creates a new segment: header written, space reserved, name synced, listed in the manifest.
    pub async fn begin(&self) -> Result<Rc<Segment>, FileError> {
        if !self.unsure.borrow().is_empty() {
            self.store_manifest().await?;
        }
        let base = self.next_base.get();
        self.next_base.set(base + 1);
        let id = format::segment_id(self.shard.id(), base);
        let path = self.options.dir.join(format::file_name(id));
        let recycled = self.recycled.borrow_mut().pop();
        let file = match self.make_segment_file(id, recycled, &path).await {
            Ok(file) => file,
            Err(error) => {
                // The file holds no entries. After a loss of power it may reappear with nothing but a header;
                // if a later segment then stated that it had been synced completely, it would count as
                // damaged.
                self.vouched_from.set(base + 1);
                let _ = self.files.remove(&path).await;
                return Err(error);
            }
        };
        let segment = Rc::new(Segment {
            id,
            file,
            begun_us: self.shard.wall_us(),
            written_bytes: Cell::new(format::FIRST_CHUNK_BYTES),
            synced_bytes: Cell::new(format::FIRST_CHUNK_BYTES),
            closed: Cell::new(false),
            uses: RefCell::default(),
            holders: RefCell::default(),
        });
        self.in_use.borrow_mut().push(segment.clone());
        if let Err(error) = self.store_manifest().await {
            self.in_use.borrow_mut().retain(|other| !Rc::ptr_eq(other, &segment));
            self.vouched_from.set(base + 1);
            self.unsure.borrow_mut().push(path);
            return Err(error);
        }
        Ok(segment)
    }

    async fn make_segment_file(
        &self,
        id: u64,
        recycled: Option<PathBuf>,
        path: &std::path::Path,
    ) -> Result<File, FileError> {
        let file = self.make_file(recycled, path.to_path_buf()).await?;
        if self.options.is_archived {
            let archive = self.options.dir.join(archive::DIR);
            self.files.hard_link(path, &archive.join(format::file_name(id))).await?;
            self.files.sync_dir(&archive).await?;
        }
        let mut header = IoBuf::with_capacity(format::HEADER_BYTES);
        let run_first_id = format::segment_id(self.shard.id(), self.vouched_from.get());
        header.extend_from_slice(&format::encode_segment_header(id, run_first_id));
        file.write_at(0, header, IoClass::CommitLog).await?;
        file.sync_data().await?;
        self.files.sync_dir(&self.options.dir).await?;
        Ok(file)
    }

    async fn make_file(&self, recycled: Option<PathBuf>, path: PathBuf) -> Result<File, FileError> {
        if let Some(old) = recycled {
            match self.files.rename(&old, &path).await {
                Ok(()) => return self.files.open(&path, OpenOptions::read_write()).await,
                // The file was removed by someone else.
                Err(error) if error.is_not_found() => (),
                Err(error) => return Err(error),
            }
        }
        let file = self.files.open(&path, OpenOptions::create_new()).await?;
        file.allocate(0, self.options.segment_bytes).await?;
        Ok(file)
    }

    /// All segments in use, oldest first.
    pub fn in_use(&self) -> Vec<Rc<Segment>> {
        self.in_use.borrow().clone()
    }

    /// Releases entries of `table` that an SSTable contains. Returns the segments that are not needed any
    /// more, for [`Self::retire`].
    pub fn release(&self, table: TableId, uses: &SegmentRefs) -> Vec<Rc<Segment>> {
        let in_use = self.in_use.borrow();
        for (id, count) in uses.iter() {
            let segment = in_use.iter().find(|segment| segment.id == id);
            let segment = segment.expect("a segment with uses is in use");
            let mut uses = segment.uses.borrow_mut();
            let left = uses.get_mut(&table).expect("what is released was used");
            *left = left.checked_sub(count).expect("what is released was used");
        }
        drop(in_use);
        self.take_unneeded()
    }

    /// Removes and returns the segments that are not needed.
    pub fn take_unneeded(&self) -> Vec<Rc<Segment>> {
        let mut unneeded = vec![];
        self.in_use.borrow_mut().retain(|segment| {
            let needed = segment.is_needed();
            if !needed {
                self.lingering.borrow_mut().insert(segment.id);
                unneeded.push(segment.clone());
            }
            needed
        });
        self.retiring.set(self.retiring.get() + unneeded.len());
        unneeded
    }

    /// Recycles the files of segments that are not needed, or removes them if enough are recycled already. A
    /// file that cannot be recycled is replayed after a restart; [`Self::may_be_replayed`] accounts for that.
    /// Returns the segments that no start can find any more.
    pub async fn retire(&self, segments: Vec<Rc<Segment>>) -> Vec<Rc<Segment>> {
        let is_noted = self.store_manifest().await.is_ok();
        let mut gone = vec![];
        for segment in segments {
            if is_noted && self.retire_file(segment.id, segment.file.path()).await.is_ok() {
                self.lingering.borrow_mut().remove(&segment.id);
                gone.push(segment);
            }
            self.retiring.set(self.retiring.get() - 1);
        }
        gone
    }

    async fn retire_file(&self, id: u64, path: &std::path::Path) -> Result<(), FileError> {
        let recycled = self.options.dir.join(format::recycled_name(id));
        if self.options.is_archived
            || self.recycled.borrow().len() >= RECYCLED_MAX
            || self.disk_bytes() > self.limit_bytes.get()
        {
            match self.files.remove(path).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _removed => (),
            }
        } else {
            match self.files.rename(path, &recycled).await {
                Ok(()) => self.recycled.borrow_mut().push(recycled),
                Err(error) if !error.is_not_found() => return Err(error),
                // The file was removed by someone else, and is not needed.
                Err(_) => (),
            }
        }
        self.files.sync_dir(&self.options.dir).await
    }

    /// Removes the segments without unflushed entries, including the open and the spare one. Only for a
    /// closed log.
    pub async fn remove_unused(&self) -> Result<(), FileError> {
        let is_held = |segment: &Rc<Segment>| segment.uses.borrow().values().any(|count| *count > 0);
        let (held, unheld): (Vec<_>, Vec<_>) = self.in_use.take().into_iter().partition(is_held);
        *self.in_use.borrow_mut() = held;
        self.store_manifest().await?;
        for segment in unheld {
            self.files.remove(segment.file.path()).await?;
        }
        for recycled in self.recycled.take() {
            self.files.remove(&recycled).await?;
        }
        self.files.sync_dir(&self.options.dir).await
    }

    /// Removes the manifest of a log without segments; false if there are segments. Only for a closed log.
    pub async fn remove_manifest(&self) -> Result<bool, FileError> {
        if !self.in_use.borrow().is_empty() {
            return Ok(false);
        }
        self.files.remove(self.manifest.path()).await?;
        self.files.sync_dir(&self.options.dir).await?;
        Ok(true)
    }

    /// The first of the newest segments that together have `keep_bytes` (at least `keep_min` segments), if
    /// there are older ones.
    pub fn boundary(&self, keep_bytes: u64, keep_min: usize) -> Option<u64> {
        let in_use = self.in_use.borrow();
        let keep = ((keep_bytes / self.options.segment_bytes) as usize).max(keep_min);
        let first_kept = in_use.len().checked_sub(keep).filter(|old| *old > 0)?;
        Some(in_use[first_kept].id)
    }
}

/// Maximum number of segments in use; at least two.
fn count_max(limit_bytes: u64, segment_bytes: u64) -> u64 {
    (limit_bytes / segment_bytes).clamp(2, SEGMENTS_MAX - 2)
}

/// Limit for the segments of a log that has `log_bytes` on a disk with `free_bytes` left. Their entries will
/// be flushed and then need the same space again, so the log gets at most half of the sum.
fn limit_bytes(total_bytes_max: u64, log_bytes: u64, free_bytes: u64) -> u64 {
    total_bytes_max.min(log_bytes.saturating_add(free_bytes) / 2)
}

/// Maximum number of files kept for reuse.
const RECYCLED_MAX: usize = 4;
