//! Appends to the log, and the tasks that write and sync it. Group commit: one write carries all waiting
//! entries.
//!
//! 1. [`CommitLog::append`] copies the entry into the current chunk and returns its position. The caller
//!    applies the write to its memtable in the same turn, so both have the same order.
//! 2. The writer task takes the gathered entries as one chunk, writes it and, in `batch` and `group` mode,
//!    syncs. Entries that arrive meanwhile gather in the next chunk, so chunks grow with the load. In
//!    `periodic` mode a chunk has the entries of a turn, and the shard's thread copies it into the page cache
//!    itself (`File::write_through_cache_at`).
//! 3. All tasks with entries in the chunk are then notified that their entries are durable, or of the error.
//! 4. In `periodic` mode another task syncs at an interval. In every mode a task records in the manifest how
//!    far segments have been synced.
//!
//! A failed write or sync fails the log until a restart: afterwards the content of the disk is unknown,
//! because the kernel drops pages that it could not write, so no further write is acknowledged. A full disk
//! is not such a failure: segments are reserved before they are used, so lack of space shows before a write
//! is accepted.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use base::crc::crc32;
use base::{LogThrottle, broken};
use log::{debug, error};
use model::TableId;
use runtime::{CpuGroup, FileError, IoBuf, IoClass, JoinHandle, Mutex, Shard};

use super::format::{self, CHUNK_ALIGNMENT_BYTES, ChunkHeader, HEADER_BYTES};
use super::others::{Note, Others};
use super::segment::{Segment, SegmentRefs, Segments};
use super::{CommitLogOptions, LogError, LogPosition, SyncMode};
use runtime::Event;

/// Entries wait while more than this is gathered and not written.
pub const GATHERED_BYTES_MAX: usize = 4 << 20;
/// Interval at which the manifest is updated with the synced positions.
const NOTE_US: u64 = 1_000_000;
/// Pause between two log lines about a log that cannot grow.
const NO_SPACE_PAUSE_US: u64 = 600_000_000;

/// The chunk that one write to the file makes durable, as seen by the tasks that wait for it.
#[derive(Default)]
struct Round {
    done: RefCell<Option<Result<(), LogError>>>,
    event: Event,
}

impl Round {
    fn finish(&self, result: Result<(), LogError>) {
        if broken::is("log_wake") {
            return;
        }
        *self.done.borrow_mut() = Some(result);
        self.event.signal();
    }

    async fn wait(&self) -> Result<(), LogError> {
        loop {
            let next = self.event.next();
            if let Some(result) = &*self.done.borrow() {
                return result.clone();
            }
            next.await;
        }
    }
}

/// An appended entry. Dropping this does not remove the entry.
#[must_use = "await `durable` before acknowledging the write"]
pub struct Appended {
    pub position: LogPosition,
    round: Rc<Round>,
}

impl Appended {
    /// Completes when the entry is durable, as the sync mode defines it.
    pub async fn durable(self) -> Result<(), LogError> {
        self.round.wait().await
    }
}

/// A chunk that gathers entries.
struct Gathering {
    segment: Rc<Segment>,
    /// Its position in the segment.
    offset_bytes: u64,
    /// Space for the header, then the entries.
    buf: IoBuf,
    is_last: bool,
    round: Rc<Round>,
}

impl Gathering {
    fn is_empty(&self) -> bool {
        self.buf.len() == HEADER_BYTES
    }
}

/// The log of one shard. See the head of this file.
pub struct CommitLog {
    pub(super) shard: Shard,
    options: CommitLogOptions,
    pub(super) segments: Segments,
    gathering: RefCell<Option<Gathering>>,
    /// Last chunks of full segments, in order; they precede `gathering`.
    sealed: RefCell<VecDeque<Gathering>>,
    /// The round of the chunk that is being written, or was written last.
    writing: RefCell<Option<Rc<Round>>>,
    /// A buffer for the next chunk.
    spare_buf: RefCell<Option<IoBuf>>,
    /// The next segment, already created.
    spare_segment: RefCell<Option<Rc<Segment>>>,
    making_segment: Cell<bool>,
    /// Why the last attempt to create a segment failed; cleared by the next attempt.
    no_space: RefCell<Option<Arc<FileError>>>,
    no_space_lines: LogThrottle,
    /// The earliest position of the first entry of a log that has had no segment yet. A segment that is being
    /// made has its number already, so the number of the next one would be too high.
    unopened: Cell<Option<LogPosition>>,
    /// Number of times that segments were released, or that free space was reported to a log without space.
    freed: Cell<u64>,
    failed: RefCell<Option<LogError>>,
    /// Held by the sync in flight: see [`Self::sync_segment`].
    syncing: Mutex,
    closing: Cell<bool>,
    /// Signalled when an entry was appended, a chunk was sealed, or the log closes.
    work: Event,
    /// Signalled when a chunk was written, a segment was created or released, or an attempt failed.
    progress: Event,
    last_sync_us: Cell<u64>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
    pub(super) others: Others,
    appended_bytes: Cell<u64>,
    syncs: Cell<u64>,
}

impl CommitLog {
    /// Opens the log of this shard without a segment: it has no space for entries until [`Self::begin`] or
    /// the first [`Self::make_room`]. `first_base` is above the base of every segment of earlier runs.
    pub async fn open(
        shard: &Shard,
        options: CommitLogOptions,
        first_base: u64,
    ) -> Result<Rc<Self>, LogError> {
        assert!(options.segment_bytes >= 4096 && options.segment_bytes < u64::from(u32::MAX));
        let no_space = |error| LogError::NoSpace(Arc::new(error));
        let log = Rc::new(Self {
            segments: Segments::open(shard, first_base, options.clone()).await.map_err(no_space)?,
            shard: shard.clone(),
            options,
            gathering: RefCell::default(),
            sealed: RefCell::default(),
            writing: RefCell::default(),
            spare_buf: RefCell::default(),
            spare_segment: RefCell::default(),
            making_segment: Cell::new(false),
            no_space: RefCell::default(),
            no_space_lines: LogThrottle::default(),
            unopened: Cell::default(),
            freed: Cell::new(0),
            failed: RefCell::default(),
            syncing: Mutex::default(),
            closing: Cell::new(false),
            work: Event::new(),
            progress: Event::new(),
            last_sync_us: Cell::new(shard.now_us()),
            tasks: RefCell::default(),
            others: Others::default(),
            appended_bytes: Cell::new(0),
            syncs: Cell::new(0),
        });
        log.unopened.set(Some(log.segments.next_position()));
        let writer = log.clone();
        let mut tasks = vec![shard.spawn(CpuGroup::CommitLog, async move { writer.write_loop().await })];
        if let SyncMode::Periodic { period_us } = log.options.sync {
            let syncer = log.clone();
            tasks.push(shard.spawn(CpuGroup::CommitLog, async move { syncer.sync_loop(period_us).await }));
        }
        let noter = log.clone();
        tasks.push(shard.spawn(CpuGroup::CommitLog, async move { noter.note_loop().await }));
        *log.tasks.borrow_mut() = tasks;
        Ok(log)
    }

    /// Creates the first segment, unless there is one. On a full disk the log stays without: it refuses
    /// entries, and each further entry causes another attempt.
    ///
    /// # Errors
    /// The segment cannot be created, and the disk is not full.
    pub async fn begin(self: &Rc<Self>) -> Result<(), LogError> {
        while self.unopened.get().is_some() {
            let progress = self.progress.next();
            if let Some(first) = self.spare_segment.borrow_mut().take() {
                self.start_gathering(first);
                return Ok(());
            }
            if let Some(error) = self.no_space.borrow().clone() {
                return if error.is_no_space() { Ok(()) } else { Err(LogError::NoSpace(error)) };
            }
            if !self.make_segment() {
                return Ok(());
            }
            progress.await;
        }
        Ok(())
    }

    /// The largest entry that can be appended.
    pub fn entry_bytes_max(&self) -> usize {
        (self.options.segment_bytes / 2) as usize - 2 * HEADER_BYTES - CHUNK_ALIGNMENT_BYTES as usize
    }

    /// Bytes that wait to be written.
    pub fn gathered_bytes(&self) -> u64 {
        self.gathering.borrow().as_ref().map_or(0, |gathering| gathering.buf.len() as u64)
    }

    /// Number of syncs of segments since the log was opened.
    pub fn syncs(&self) -> u64 {
        self.syncs.get()
    }

    /// Bytes of entries appended since the log was opened.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes.get()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.segments.disk_bytes()
    }

    /// Whether an entry of this size can be appended now; if not, use [`Self::make_room`].
    #[inline]
    pub fn has_room(&self, entry_bytes: usize) -> bool {
        if entry_bytes > self.entry_bytes_max() {
            return false;
        }
        self.gathering.borrow().as_ref().is_some_and(|gathering| {
            let end = gathering.offset_bytes + (gathering.buf.len() + 4 + entry_bytes) as u64;
            // After the entry there is always space for one more header, which marks the end of the segment.
            format::next_chunk_offset(end) + HEADER_BYTES as u64 <= self.options.segment_bytes
                && gathering.buf.len() <= GATHERED_BYTES_MAX
        }) && self.failed.borrow().is_none()
            && !self.closing.get()
    }

    /// Waits until an entry of this size can be appended; in the same turn, `append` is certain to succeed.
    /// While it waits for flushes to free segments, `give_up` may return a reason to stop waiting.
    pub async fn make_room(
        self: &Rc<Self>,
        entry_bytes: usize,
        give_up: impl Fn() -> Option<LogError>,
    ) -> Result<(), LogError> {
        let max_bytes = self.entry_bytes_max();
        if entry_bytes > max_bytes {
            return Err(LogError::TooLarge { entry_bytes, max_bytes });
        }
        // The value of `freed` at the start of the last attempt to create a segment.
        let mut tried_at = None;
        loop {
            if let Some(error) = &*self.failed.borrow() {
                return Err(error.clone());
            }
            if self.closing.get() {
                return Err(LogError::Closed);
            }
            if self.has_room(entry_bytes) {
                return Ok(());
            }
            let progress = self.progress.next();
            let too_much_gathered =
                self.gathering.borrow().as_ref().is_some_and(|g| g.buf.len() > GATHERED_BYTES_MAX);
            if !too_much_gathered && self.switch_segment() {
                continue;
            }
            if !too_much_gathered {
                let no_space = self.no_space.borrow().clone().filter(|_| tried_at == Some(self.freed.get()));
                if no_space.is_some() || !self.make_segment() {
                    if let Some(error) = give_up() {
                        return Err(error);
                    }
                    if let Some(error) = no_space.filter(|_| !self.segments.can_free()) {
                        return Err(LogError::NoSpace(error));
                    }
                } else {
                    tried_at = Some(self.freed.get());
                }
            }
            progress.await;
        }
    }

    /// Appends an entry for which there is space.
    #[inline]
    pub fn append(&self, table: TableId, entry: &[u8]) -> Appended {
        self.append_for(|segment| segment.add_use(table), entry)
    }

    /// Appends a batch entry for which there is space. Each mutation has its table, and the shard whose
    /// memtable will have it.
    pub fn append_batch(&self, parts: impl Iterator<Item = (u32, TableId)>, entry: &[u8]) -> Appended {
        let add_uses = |segment: &Segment| {
            for (shard, table) in parts {
                segment.add_use(table);
                if shard != self.shard.id() {
                    segment.add_holder(shard);
                }
            }
        };
        self.append_for(add_uses, entry)
    }

    #[inline]
    fn append_for(&self, add_uses: impl FnOnce(&Segment), entry: &[u8]) -> Appended {
        let mut gathering = self.gathering.borrow_mut();
        let gathering = gathering.as_mut().expect("make_room says there is room");
        let was_empty = gathering.is_empty();
        let offset_bytes = (gathering.offset_bytes + gathering.buf.len() as u64) as u32;
        gathering.buf.extend_from_slice(&(entry.len() as u32).to_be_bytes());
        gathering.buf.extend_from_slice(entry);
        add_uses(&gathering.segment);
        self.appended_bytes.set(self.appended_bytes.get() + entry.len() as u64);
        if was_empty {
            self.work.signal();
        }
        let position = LogPosition { segment: gathering.segment.id, offset_bytes };
        Appended { position, round: gathering.round.clone() }
    }

    /// Waits until all entries appended so far are durable, as the sync mode defines it. A conditional write
    /// that writes nothing needs it: the values on which its condition was evaluated must survive a crash.
    pub async fn durable(&self) -> Result<(), LogError> {
        // Chunks are written in order, so the last one implies all others.
        let gathering =
            self.gathering.borrow().as_ref().filter(|last| !last.is_empty()).map(|last| last.round.clone());
        let sealed = || self.sealed.borrow().back().map(|last| last.round.clone());
        match gathering.or_else(sealed).or_else(|| self.writing.borrow().clone()) {
            Some(round) => round.wait().await,
            None => Ok(()),
        }
    }

    /// The earliest position of the next entry. All entries appended so far are before it.
    pub fn position(&self) -> LogPosition {
        let gathering = self.gathering.borrow();
        let Some(gathering) = gathering.as_ref() else {
            return self.unopened.get().unwrap_or_else(|| self.segments.next_position());
        };
        let offset_bytes = (gathering.offset_bytes + gathering.buf.len() as u64) as u32;
        LogPosition { segment: gathering.segment.id, offset_bytes }
    }

    /// Whether a start at this moment could replay one of these segments.
    pub fn may_replay(&self, uses: &SegmentRefs) -> bool {
        let may_be = |segment| self.segments.may_be_replayed(segment) || self.others.holds(segment);
        uses.iter().any(|(segment, _)| may_be(segment))
    }

    /// Releases entries of `table` that a sealed SSTable contains, or that are not needed for another reason.
    pub fn release(self: &Rc<Self>, table: TableId, uses: &SegmentRefs) {
        let me = self.shard.id();
        for shard in uses.shards() {
            if shard == me {
                let unneeded = self.segments.release(table, &uses.of_shard(me));
                self.retire(unneeded);
            } else {
                self.others.post(shard, Note::Release { table, uses: uses.of_shard(shard) });
            }
        }
    }

    fn retire(self: &Rc<Self>, unneeded: Vec<Rc<Segment>>) {
        if unneeded.is_empty() {
            return;
        }
        let log = self.clone();
        let retire = async move {
            for gone in log.segments.retire(unneeded).await {
                log.others.tell_gone(&gone);
            }
            log.freed.set(log.freed.get() + 1);
            log.progress.signal();
        };
        self.shard.spawn(CpuGroup::CommitLog, retire).detach();
    }

    /// Entries in segments before this one must be flushed to bring the log below half of its limit; `None`
    /// if it is below. If no further segment can be created, all segments but the last must be flushed.
    pub fn flush_boundary(&self) -> Option<u64> {
        // Flushing the entries of the open segment frees nothing, and neither does flushing those of the
        // spare one.
        let keep_min = if self.spare_segment.borrow().is_some() { 2 } else { 1 };
        if self.no_space.borrow().is_some() || !self.segments.may_begin() {
            return self.segments.boundary(0, keep_min);
        }
        self.segments.boundary(self.segments.limit_bytes() / 2, keep_min)
    }

    /// Sets the free bytes of the log's disk for this shard. Tasks that wait for a segment after lack of
    /// space try again.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.segments.set_free_bytes(free_bytes);
        if self.no_space.borrow().is_some() {
            self.freed.set(self.freed.get() + 1);
            self.progress.signal();
        }
    }

    /// Whether the last attempt to make a segment found the disk full.
    pub fn is_disk_full(&self) -> bool {
        self.no_space.borrow().as_ref().is_some_and(|error| error.is_no_space())
    }

    fn log_no_space(&self, error: &FileError) {
        let Some(more) = self.no_space_lines.admit_text(self.shard.now_us(), NO_SPACE_PAUSE_US) else {
            return;
        };
        let then =
            if self.segments.can_free() { "wait for flushes" } else { "are refused until space is freed" };
        error!(target: "engine", "the commit log cannot grow, and writes {then}: {error}{more}");
    }

    /// Signalled when a chunk was written, or a segment was created or released.
    pub fn progress(&self) -> &Event {
        &self.progress
    }

    /// Closes the open segment after its content and continues with the spare one; false if there is none.
    fn switch_segment(self: &Rc<Self>) -> bool {
        let Some(next) = self.spare_segment.borrow_mut().take() else { return false };
        self.seal_gathering();
        self.start_gathering(next);
        self.work.signal();
        self.make_segment();
        true
    }

    /// Closes the open segment, if it has an entry, and syncs. When this returns, all entries appended before
    /// it are in closed segments. Returns an id: all segments of this log with lower ids are closed and
    /// synced.
    ///
    /// # Errors
    /// The log has failed, or it may not grow by another segment now.
    pub async fn rotate(self: &Rc<Self>) -> Result<u64, LogError> {
        let open = self.gathering.borrow().as_ref().map(|gathering| {
            (
                gathering.segment.clone(),
                gathering.offset_bytes > format::FIRST_CHUNK_BYTES || !gathering.is_empty(),
            )
        });
        if let Some((segment, true)) = open {
            loop {
                if let Some(error) = &*self.failed.borrow() {
                    return Err(error.clone());
                }
                if self.closing.get() {
                    return Err(LogError::Closed);
                }
                let progress = self.progress.next();
                let is_open =
                    self.gathering.borrow().as_ref().is_some_and(|g| Rc::ptr_eq(&g.segment, &segment));
                if !is_open && segment.closed.get() {
                    break;
                }
                if is_open && self.switch_segment() {
                    continue;
                }
                if is_open && !self.make_segment() {
                    let what = "the commit log has no space for another segment; flushes will free some";
                    let source = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
                    let error = FileError::new("close", segment.file.path(), source);
                    return Err(LogError::NoSpace(Arc::new(error)));
                }
                progress.await;
            }
        }
        self.sync_written().await?;
        let is_open = |segment: &Rc<Segment>| !segment.closed.get() || !segment.is_synced();
        let open = self.segments.in_use().into_iter().filter(is_open).map(|segment| segment.id);
        Ok(open.fold(self.position().segment, u64::min))
    }

    fn seal_gathering(&self) {
        if let Some(mut full) = self.gathering.borrow_mut().take() {
            full.is_last = true;
            self.sealed.borrow_mut().push_back(full);
        }
    }

    fn start_gathering(&self, segment: Rc<Segment>) {
        self.unopened.set(None);
        let offset_bytes = segment.written_bytes.get();
        *self.gathering.borrow_mut() = Some(self.new_gathering(segment, offset_bytes));
    }

    fn new_gathering(&self, segment: Rc<Segment>, offset_bytes: u64) -> Gathering {
        let mut buf = self.spare_buf.borrow_mut().take().unwrap_or_default();
        buf.clear();
        buf.extend_from_slice(&[0; HEADER_BYTES]);
        Gathering { segment, offset_bytes, buf, is_last: false, round: Rc::default() }
    }

    /// Starts a task that creates the next segment, unless there is one or the log may not grow. Returns
    /// whether one is being created.
    fn make_segment(self: &Rc<Self>) -> bool {
        if self.making_segment.get() {
            return true;
        }
        if self.spare_segment.borrow().is_some() || self.closing.get() {
            return false;
        }
        // The failure of an earlier attempt does not predict this one.
        *self.no_space.borrow_mut() = None;
        if !self.segments.may_begin() {
            return false;
        }
        self.making_segment.set(true);
        let log = self.clone();
        let make = async move {
            match log.segments.begin().await {
                Ok(segment) => {
                    debug!(target: "engine", "commit log segment {} is ready", segment.id);
                    *log.spare_segment.borrow_mut() = Some(segment);
                    *log.no_space.borrow_mut() = None;
                    log.measure_free_space().await;
                }
                Err(error) => {
                    log.log_no_space(&error);
                    *log.no_space.borrow_mut() = Some(Arc::new(error));
                }
            }
            log.making_segment.set(false);
            log.progress.signal();
        };
        self.shard.spawn(CpuGroup::CommitLog, make).detach();
        true
    }

    /// Measures free space, because a busy log may fill the disk between two measurements of the shard.
    async fn measure_free_space(&self) {
        // Without an answer the last measurement counts.
        if let Ok(free_bytes) = self.shard.files().free_bytes(self.segments.dir()).await {
            self.set_free_bytes(free_bytes / u64::from(self.shard.shard_count()));
        }
    }

    fn take_chunk(&self) -> Option<Gathering> {
        if let Some(sealed) = self.sealed.borrow_mut().pop_front() {
            return Some(sealed);
        }
        let mut slot = self.gathering.borrow_mut();
        let full = slot.take_if(|gathering| !gathering.is_empty())?;
        let end = full.offset_bytes + full.buf.len() as u64;
        *slot = Some(self.new_gathering(full.segment.clone(), format::next_chunk_offset(end)));
        Some(full)
    }

    async fn write_loop(self: Rc<Self>) {
        loop {
            let more = self.work.next();
            if self.sealed.borrow().is_empty()
                && self.gathering.borrow().as_ref().is_none_or(Gathering::is_empty)
            {
                if self.closing.get() {
                    return;
                }
                more.await;
                // Let all tasks that are about to append in this turn do so.
                match self.options.sync {
                    SyncMode::Periodic { .. } => self.shard.settled().await,
                    SyncMode::Batch => self.shard.yield_now().await,
                    SyncMode::Group { window_us } => {
                        self.shard.yield_now().await;
                        self.shard.sleep_us(window_us).await;
                    }
                }
                continue;
            }
            let Some(chunk) = self.take_chunk() else { continue };
            let round = chunk.round.clone();
            *self.writing.borrow_mut() = Some(round.clone());
            let result = match self.failed.borrow().clone() {
                Some(failed) => Err(failed),
                None => Ok(()),
            };
            let result = match result {
                Ok(()) => self.write_chunk(chunk).await,
                failed => failed,
            };
            round.finish(result);
            self.progress.signal();
        }
    }

    async fn write_chunk(self: &Rc<Self>, mut chunk: Gathering) -> Result<(), LogError> {
        let segment = chunk.segment.clone();
        let payload = &chunk.buf[HEADER_BYTES..];
        let header = ChunkHeader {
            payload_bytes: payload.len() as u32,
            payload_crc: crc32(payload),
            synced_bytes: segment.synced_bytes.get(),
            earlier_synced: self
                .segments
                .in_use()
                .iter()
                .take_while(|earlier| earlier.id != segment.id)
                .all(|earlier| earlier.closed.get() && earlier.is_synced()),
            is_last: chunk.is_last,
            // Its entries have been appended, and none of them is acknowledged yet.
            written_us: self.shard.wall_us(),
        };
        chunk.buf[..HEADER_BYTES].copy_from_slice(&header.encode(segment.id, chunk.offset_bytes));
        let end = chunk.offset_bytes + chunk.buf.len() as u64;
        let (at, file) = (chunk.offset_bytes, &segment.file);
        let is_periodic = matches!(self.options.sync, SyncMode::Periodic { .. });
        let written = if is_periodic {
            file.write_through_cache_at(at, chunk.buf, IoClass::CommitLog).await
        } else {
            file.write_at(at, chunk.buf, IoClass::CommitLog).await
        };
        let buf = written.map_err(|error| self.fail(error))?;
        *self.spare_buf.borrow_mut() = Some(buf);
        segment.written_bytes.set(format::next_chunk_offset(end));
        if !is_periodic {
            self.sync_segment(&segment).await?;
        }
        if chunk.is_last {
            // The chunk is the segment's last; a segment must not be released before it is closed.
            segment.closed.set(true);
            self.retire(self.segments.take_unneeded());
        }
        Ok(())
    }

    /// Syncs a segment as far as it is written, unless another sync has done so meanwhile.
    ///
    /// Syncs wait for each other, and none follows one that failed: the kernel marks pages clean that it
    /// could not write and reports the error once, so a second sync would succeed without them.
    async fn sync_segment(&self, segment: &Segment) -> Result<(), LogError> {
        let _syncing = self.syncing.lock().await;
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if segment.is_synced() {
            return Ok(());
        }
        let written = segment.written_bytes.get();
        if !broken::is("log_sync") {
            segment.file.sync_data().await.map_err(|error| self.fail(error))?;
        }
        self.syncs.set(self.syncs.get() + 1);
        segment.synced_bytes.set(written.max(segment.synced_bytes.get()));
        Ok(())
    }

    fn fail(&self, error: FileError) -> LogError {
        let error = LogError::Failed(Arc::new(error));
        if self.failed.borrow().is_none() {
            error!(target: "engine", "{error}");
        }
        let first = self.failed.borrow_mut().get_or_insert(error).clone();
        self.progress.signal();
        first
    }

    async fn sync_loop(self: Rc<Self>, period_us: u64) {
        while !self.closing.get() {
            self.shard.sleep_us(period_us).await;
            if self.sync_written().await.is_err() {
                return;
            }
        }
    }

    /// Keeps the synced positions in the manifest current.
    async fn note_loop(self: Rc<Self>) {
        while !self.closing.get() {
            self.shard.sleep_us(NOTE_US).await;
            if !self.closing.get() && self.segments.is_manifest_outdated() {
                let log = self.clone();
                // A task of its own, because a write to the manifest must not be dropped halfway.
                let note = async move {
                    // It is retried; until then a start has less evidence.
                    let _ = log.segments.note_synced().await;
                };
                self.shard.spawn(CpuGroup::CommitLog, note).detach();
            }
        }
    }

    /// Makes durable that files of earlier runs of all shards are not needed any more.
    pub async fn release_earlier_files(&self) -> Result<(), FileError> {
        self.segments.release_earlier_files().await
    }

    async fn sync_written(&self) -> Result<(), LogError> {
        for segment in self.segments.in_use() {
            if !segment.is_synced() {
                self.sync_segment(&segment).await?;
            }
        }
        self.last_sync_us.set(self.shard.now_us());
        Ok(())
    }

    /// Why the log accepts no entries until a restart; `None` if it does.
    pub fn failure(&self) -> Option<LogError> {
        self.failed.borrow().clone()
    }

    /// Removes the manifest of a closed log without entries, so that no file of this run remains. False if
    /// the log holds entries; then the manifest stays.
    pub async fn remove_manifest(&self) -> Result<bool, FileError> {
        self.segments.remove_manifest().await
    }

    /// Makes all entries appended so far durable against power loss, in any sync mode.
    pub async fn sync(&self) -> Result<(), LogError> {
        let target = self.position();
        loop {
            let progress = self.progress.next();
            if let Some(error) = &*self.failed.borrow() {
                return Err(error.clone());
            }
            let written = |segment: &Rc<Segment>| {
                segment.id > target.segment || segment.closed.get() || {
                    let at = segment.written_bytes.get();
                    // The position of a log without a segment is before the first byte of the segment being
                    // created.
                    let end = u64::from(target.offset_bytes).saturating_sub(HEADER_BYTES as u64);
                    segment.id == target.segment && at >= end
                }
            };
            if self.segments.in_use().iter().filter(|s| s.id <= target.segment).all(written) {
                break;
            }
            progress.await;
        }
        self.sync_written().await
    }

    /// Writes and syncs the gathered entries and stops. Later entries are refused.
    pub async fn close(&self) -> Result<(), LogError> {
        self.closing.set(true);
        self.work.signal();
        self.progress.signal();
        let mut tasks = self.tasks.take();
        let writer = tasks.remove(0);
        writer.await;
        // The other tasks sleep, or one of them syncs, whose error must not be missed. What else they would
        // do is done here.
        let syncing = self.syncing.lock().await;
        drop(tasks);
        drop(syncing);
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.sync_written().await?;
        self.progress.until(|| !self.segments.is_retiring()).await;
        // Flushed entries need no replay. Segments that cannot be removed are replayed without effect.
        let _ = self.segments.remove_unused().await;
        Ok(())
    }
}
