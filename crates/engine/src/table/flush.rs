//! From memtable to SSTable.
//!
//! 1. Sealing a memtable puts an empty one in its place and the sealed one at the end of the shard's queue.
//! 2. One flush writes at a time on a shard, in the order of sealing, as a task of the `Memtable` group.
//! 3. When the SSTable is sealed on disk, it comes into the table in one step. The row cache takes over what is new in it, out
//!    of the memtable, which is read meanwhile; then the memtable goes, and only then the commit log gives up its entries.
//! 4. A flush that fails is tried again, behind the others and ever more seldom, as long as it takes: the data is in
//!    the log and in memory, and reads see it. Whoever asked for the flush learns of the failure; of a full disk
//!    all learn who wait for any flush.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use model::{PartitionRange, Purge};
use reader::{CompactReader, Keep, LocalFuture, ReadSpec, Source};
use runtime::{CpuGroup, IoClass, Shard};
use sstable::component::statistics::{DeltaBases, DeltaBasesCollector};
use sstable::name::{Generation, SstableName};
use sstable::read::{ChunkCache, SSTable, SSTableError};
use sstable::version::Version;
use sstable::write::{WriteError, WriteOptions, Written, remove_sstable, write_reader};

use super::{LoggedMemtable, Table};
use crate::commitlog::LogError;
use crate::error::EngineError;
use crate::large_data::LargeDataLog;
use crate::memtable::LeastTimes;
use runtime::Event;

/// The first pause after a failed flush, and the longest.
const RETRY_US_MIN: u64 = 100_000;
const RETRY_US_MAX: u64 = 10_000_000;

/// So much more is free than when a flush found no room: it is tried again at once.
const ROOM_AGAIN_BYTES: u64 = 1 << 20;

/// A sealed memtable on its way.
struct Job {
    table: Rc<Table>,
    sealed: Rc<LoggedMemtable>,
    state: Rc<JobState>,
}

#[derive(Default)]
struct JobState {
    done: Cell<bool>,
    /// What an earlier attempt wrote and could neither open nor remove. It is not in the table, so nobody knows what it
    /// has: the next start would bring back what has been deleted, and the deletion purged, since.
    leftover: Cell<Option<SstableName>>,
    failures: Cell<u64>,
    last_error: RefCell<Option<(String, bool)>>,
    changed: Event,
}

impl JobState {
    /// An attempt failed, or would fail for the same reason.
    fn fail(&self, error: &FlushError, no_space: bool) {
        self.failures.set(self.failures.get() + 1);
        *self.last_error.borrow_mut() = Some((error.to_string(), no_space));
        self.changed.signal();
    }
}

/// What flushing has done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    pub flushes: u64,
    pub failures: u64,
    /// Bytes of memtables that were written out.
    pub memtable_bytes: u64,
    /// Bytes of rows before compression.
    pub uncompressed_bytes: u64,
    /// Bytes of Data.db.
    pub data_bytes: u64,
    /// Why the last attempt failed, if it did; it is tried again.
    pub last_error: Option<String>,
}

/// Why a memtable did not become an SSTable.
enum FlushError {
    Write(WriteError),
    /// It was written and sealed, but cannot be read back.
    Open(SSTableError),
    /// It holds a part of a change of the schema, and the log failed to take the whole.
    Log(LogError),
}

impl FlushError {
    fn is_no_space(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_no_space())
    }
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl From<WriteError> for FlushError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// What the SSTable's times are written as differences to.
fn delta_bases(least: LeastTimes) -> DeltaBases {
    let mut bases = DeltaBasesCollector::new();
    if least.timestamp_us != LeastTimes::NONE.timestamp_us {
        bases.update_timestamp(least.timestamp_us);
    }
    if least.deletion_time_s != LeastTimes::NONE.deletion_time_s {
        bases.update_deletion_time(i32::try_from(least.deletion_time_s).unwrap_or(i32::MAX - 1));
    }
    if least.ttl_s != LeastTimes::NONE.ttl_s {
        bases.update_ttl(i32::try_from(least.ttl_s).unwrap_or(i32::MAX));
    }
    bases.finish()
}

/// The flushes of one shard.
pub struct FlushQueue {
    shard: Shard,
    cache: Rc<ChunkCache>,
    host_id: [u8; 16],
    sstable_version: Version,
    large_data: Rc<LargeDataLog>,
    jobs: RefCell<VecDeque<Job>>,
    /// A job came, or the last pause is to end early.
    work: Event,
    /// The table whose memtable is being written.
    writing: RefCell<Option<Rc<Table>>>,
    stopping: Cell<bool>,
    stats: RefCell<FlushStats>,
    /// Bytes of sealed memtables that wait or are being written.
    queued_bytes: Cell<usize>,
    /// The last attempt found no space on the disk.
    no_space: RefCell<Option<String>>,
    /// Free on the disk, when it was looked at last.
    free_bytes: Cell<u64>,
    /// The schema's log failed: its tables are not flushed before a restart.
    log_failed: RefCell<Option<LogError>>,
    /// A flush ended, well or not.
    pub ended: Event,
    /// Is told of every table that has a new SSTable.
    on_flushed: RefCell<Option<OnFlushed>>,
    /// Is waited for before a memtable is written.
    before_flush: RefCell<Option<BeforeFlush>>,
}

type OnFlushed = Box<dyn Fn(&Rc<Table>)>;
type BeforeFlush = Box<dyn Fn(&Rc<Table>) -> LocalFuture<'static, ()>>;

impl FlushQueue {
    pub fn new(
        shard: Shard,
        cache: Rc<ChunkCache>,
        host_id: [u8; 16],
        sstable_version: Version,
        large_data: Rc<LargeDataLog>,
    ) -> Rc<Self> {
        Rc::new(Self {
            shard,
            cache,
            host_id,
            sstable_version,
            large_data,
            jobs: RefCell::default(),
            work: Event::new(),
            writing: RefCell::default(),
            stopping: Cell::new(false),
            stats: RefCell::default(),
            queued_bytes: Cell::new(0),
            no_space: RefCell::default(),
            free_bytes: Cell::new(0),
            log_failed: RefCell::default(),
            ended: Event::new(),
            on_flushed: RefCell::default(),
            before_flush: RefCell::default(),
        })
    }

    /// `f` is told of every table that has a new SSTable.
    pub fn on_flushed(&self, f: impl Fn(&Rc<Table>) + 'static) {
        *self.on_flushed.borrow_mut() = Some(Box::new(f));
    }

    /// What `f` gives is waited for before a memtable is written.
    pub fn before_flush(&self, f: impl Fn(&Rc<Table>) -> LocalFuture<'static, ()> + 'static) {
        *self.before_flush.borrow_mut() = Some(Box::new(f));
    }

    pub fn stats(&self) -> FlushStats {
        self.stats.borrow().clone()
    }

    /// Bytes of memtables that are sealed and not yet written.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes.get()
    }

    /// So much is free on the disk.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.free_bytes.set(free_bytes);
    }

    /// Why nothing can be flushed: the disk is full. `None` when the last attempt went well.
    pub fn no_space(&self) -> Option<String> {
        self.no_space.borrow().clone()
    }

    /// Why some memtables stay in memory until a restart; `None` if all can be flushed.
    pub fn log_failed(&self) -> Option<LogError> {
        self.log_failed.borrow().clone()
    }

    /// Seals the table's memtable, if there is anything in it, and queues it. Gives what to wait for.
    pub fn seal(&self, table: &Rc<Table>) -> FlushTicket {
        if !table.active().memtable.is_empty() {
            let active = table.replace_active();
            table.sealed.borrow_mut().push(active.clone());
            self.enqueue(table, active);
        }
        let jobs = self.jobs.borrow();
        let mine = jobs.iter().filter(|job| Rc::ptr_eq(&job.table, table));
        FlushTicket { jobs: mine.map(|job| (job.state.clone(), job.state.failures.get())).collect() }
    }

    fn enqueue(&self, table: &Rc<Table>, sealed: Rc<LoggedMemtable>) {
        self.queued_bytes.set(self.queued_bytes.get() + sealed.memtable.charged_bytes());
        self.jobs.borrow_mut().push_back(Job { table: table.clone(), sealed, state: Rc::default() });
        self.work.signal();
    }

    /// A truncate did not happen: the memtables that the table had to forget are there again.
    pub fn take_back_forgotten(&self, table: &Rc<Table>) {
        if let Some(sealed) = table.take_back_forgotten() {
            self.enqueue(table, sealed);
        }
    }

    /// Writes what is queued, until [`Self::stop`].
    pub async fn run(self: Rc<Self>) {
        let mut pause_us = RETRY_US_MIN;
        while !self.stopping.get() {
            let work = self.work.next();
            // A job stays in the queue while it is written, so that a ticket finds it.
            let next = self.jobs.borrow().front().map(|job| Job {
                table: job.table.clone(),
                sealed: job.sealed.clone(),
                state: job.state.clone(),
            });
            let Some(job) = next else {
                work.await;
                continue;
            };
            let changed = job.table.changed.next();
            if job.table.flush_blocked.get() {
                changed.await;
                continue;
            }
            let before = self.before_flush.borrow().as_ref().map(|before| before(&job.table));
            if let Some(before) = before {
                before.await;
                if job.table.flush_blocked.get() {
                    continue;
                }
            }
            *self.writing.borrow_mut() = Some(job.table.clone());
            let result = self.write(&job).await;
            *self.writing.borrow_mut() = None;
            match result {
                Ok(written) => {
                    pause_us = RETRY_US_MIN;
                    self.finish(&job, written.as_ref());
                    self.take_apart(job.sealed);
                }
                Err(error) => {
                    let no_space = error.is_no_space();
                    *self.no_space.borrow_mut() = no_space.then(|| error.to_string());
                    if let FlushError::Log(failed) = &error {
                        *self.log_failed.borrow_mut() = Some(failed.clone());
                    }
                    self.count(|stats| {
                        stats.failures += 1;
                        stats.last_error = Some(error.to_string());
                    });
                    self.put_behind(&job, &error, no_space);
                    self.ended.signal();
                    // Who waits for this flush to free a log segment may give up now.
                    job.table.log.progress().signal();
                    self.pause(pause_us).await;
                    pause_us = (pause_us * 2).min(RETRY_US_MAX);
                }
            }
        }
    }

    /// What can be written is not to wait for the first job, which cannot. Of a full disk all learn.
    fn put_behind(&self, failed: &Job, error: &FlushError, no_space: bool) {
        let mut jobs = self.jobs.borrow_mut();
        for job in jobs.iter().filter(|job| no_space || Rc::ptr_eq(&job.state, &failed.state)) {
            job.state.fail(error, no_space);
        }
        jobs.rotate_left(1);
    }

    /// Holds flushes of this table back and waits until none is under way; [`Self::allow`] ends it.
    pub async fn block(&self, table: &Rc<Table>) {
        table.flush_blocked.set(true);
        self.ended.until(|| !self.writing.borrow().as_ref().is_some_and(|at| Rc::ptr_eq(at, table))).await;
    }

    /// Lets flushes of this table go on.
    pub fn allow(&self, table: &Table) {
        table.flush_blocked.set(false);
        table.changed.signal();
    }

    /// Ends [`Self::run`] after the flush that is under way.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.work.signal();
    }

    /// Sleeps in steps, so that a stop does not wait long, nor a flush that the disk has room for again.
    async fn pause(&self, mut us: u64) {
        let free_bytes = self.free_bytes.get();
        let has_room_again = || {
            self.no_space.borrow().is_some()
                && self.free_bytes.get() > free_bytes.saturating_add(ROOM_AGAIN_BYTES)
        };
        while us > 0 && !self.stopping.get() && !has_room_again() {
            self.shard.sleep_us(us.min(RETRY_US_MIN)).await;
            us = us.saturating_sub(RETRY_US_MIN);
        }
    }

    async fn write(&self, job: &Job) -> Result<Option<Written>, FlushError> {
        if job.table.is_dropped() || !self.is_wanted(job) {
            return Ok(None);
        }
        // A change of the schema is in several tables, and in the log whole or not at all. Flushed before it is in the
        // log, a part of it could become all there is.
        if job.table.is_system() {
            job.table.log.sync().await.map_err(FlushError::Log)?;
        }
        let memtable = &job.sealed.memtable;
        let schema = memtable.schema();
        let mut options = WriteOptions::for_table(&schema, "memtable", IoClass::MemtableFlush);
        options.shard_count = self.shard.shard_count();
        options.shard_id = self.shard.id();
        options.host_id = Some(self.host_id);
        options.expected_partitions = memtable.partition_count() as u64;
        options.delta_bases = delta_bases(memtable.least_times());
        self.large_data.apply_to(&mut options);
        if let Some(leftover) = job.state.leftover.get() {
            remove_sstable(self.shard.files(), &job.table.dir, &leftover).await.map_err(WriteError::from)?;
            job.state.leftover.set(None);
        }
        let number = job.table.take_generation(self.shard.shard_count());
        let name = SstableName::big(self.sstable_version, Generation::Number(number));
        // Cassandra takes it for granted that an SSTable has nothing that the SSTable itself deletes: a read of one
        // source is not compared with its own deletions.
        let reader = memtable.reader(&ReadSpec::new(schema.clone(), PartitionRange::all()));
        let mut reader = CompactReader::new(reader, Purge::nothing(0), Keep::Needed);
        let (files, dir) = (self.shard.files(), &job.table.dir);
        let written = write_reader(files, dir, name, schema.clone(), options, &mut reader, &self.shard);
        // On the heap: it is large, and rare.
        let written = Box::pin(written).await.inspect_err(|error| {
            if matches!(error, WriteError::Leftover { .. }) {
                job.state.leftover.set(Some(name));
            }
        })?;
        if let Some(written) = &written {
            let opened = SSTable::open(
                self.shard.files(),
                &job.table.dir,
                written.name,
                &self.cache,
                IoClass::MemtableFlush,
            );
            let sstable = match opened.await {
                Ok(sstable) => sstable,
                Err(error) => {
                    job.state.leftover.set(Some(written.name));
                    return Err(FlushError::Open(error));
                }
            };
            if job.table.is_dropped() || !self.is_wanted(job) {
                return Ok(None);
            }
            self.large_data.written(&schema, written);
            job.table.add_sstable(sstable);
            job.table.has_flushed(&job.sealed);
            job.table.store_roster(self.shard.files(), false).await;
            // Both are read while this goes on; then the memtable goes (`finish`).
            job.table.merge_into_cache(&self.shard, &job.sealed).await;
        }
        Ok(written)
    }

    /// False if a truncate has taken the memtable away.
    fn is_wanted(&self, job: &Job) -> bool {
        job.table.sealed.borrow().iter().any(|sealed| Rc::ptr_eq(sealed, &job.sealed))
    }

    fn finish(&self, job: &Job, written: Option<&Written>) {
        let memtable_bytes = job.sealed.memtable.charged_bytes();
        job.table.parked.clear();
        job.table.sealed.borrow_mut().retain(|sealed| !Rc::ptr_eq(sealed, &job.sealed));
        self.jobs.borrow_mut().pop_front();
        self.queued_bytes.set(self.queued_bytes.get() - memtable_bytes);
        *self.no_space.borrow_mut() = None;
        let uses = job.sealed.uses.take();
        if written.is_some() {
            job.table.remember_logged(&uses, job.sealed.memtable.least_times().timestamp_us);
        }
        job.table.log.release(job.table.schema().id, &uses);
        if let Some(written) = written {
            let flushes = &job.table.counters.flushes;
            flushes.set(flushes.get() + 1);
            self.count(|stats| {
                stats.flushes += 1;
                stats.last_error = None;
                stats.memtable_bytes += memtable_bytes as u64;
                stats.uncompressed_bytes += written.uncompressed_bytes;
                stats.data_bytes += written.data_bytes;
            });
            job.table.counters.flushed(written);
            if let Some(on_flushed) = &*self.on_flushed.borrow() {
                on_flushed(&job.table);
            }
        }
        job.state.done.set(true);
        job.state.changed.signal();
        self.ended.signal();
    }

    /// Frees a memtable without keeping others waiting.
    fn take_apart(&self, sealed: Rc<LoggedMemtable>) {
        // A read that has it open frees it when it ends.
        let Ok(sealed) = Rc::try_unwrap(sealed) else { return };
        let shard = self.shard.clone();
        let take_apart = async move {
            for () in sealed.memtable.take_apart() {
                if shard.need_preempt() {
                    shard.yield_now().await;
                }
            }
        };
        self.shard.spawn(CpuGroup::Memtable, take_apart).detach();
    }

    fn count(&self, change: impl FnOnce(&mut FlushStats)) {
        change(&mut self.stats.borrow_mut());
    }
}

/// What was in memory when it was given out.
#[must_use = "await `flushed` to know that it is on disk"]
pub struct FlushTicket {
    /// The jobs, and how often each had failed by then.
    jobs: Vec<(Rc<JobState>, u64)>,
}

impl FlushTicket {
    /// Ends when all of it is in sealed SSTables, or when an attempt fails; the data is safe either way.
    pub async fn flushed(self) -> Result<(), EngineError> {
        for (job, failures) in self.jobs {
            job.changed.until(|| job.done.get() || job.failures.get() > failures).await;
            if !job.done.get() {
                let (error, no_space) = job.last_error.borrow().clone().expect("a failure says why");
                let error = format!("the flush failed and will be tried again: {error}");
                return Err(if no_space { EngineError::NoSpace(error) } else { EngineError::SSTable(error) });
            }
        }
        Ok(())
    }
}
