//! The flush queue of a shard: one flush runs at a time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use base::{LogThrottle, broken};
use log::{debug, error, info};
use reader::LocalFuture;
use runtime::{CpuGroup, Event, Shard};
use sstable::read::ChunkCache;
use sstable::write::Written;

use super::job::{FlushError, FlushWriter, Job, JobState};
use crate::commitlog::{LogError, LogPosition};
use crate::error::EngineError;
use crate::options::SSTableForm;
use crate::table::large_data_log::LargeDataLog;
use crate::table::{LoggedMemtable, Table};

/// The first pause after a failed flush, and the longest.
const RETRY_US_MIN: u64 = 100_000;
const RETRY_US_MAX: u64 = 10_000_000;

/// Pause between two log lines about failed flushes.
const FAILED_PAUSE_US: u64 = 60_000_000;

/// So much more is free than when a flush found no room: it is tried again at once.
const ROOM_AGAIN_BYTES: u64 = 1 << 20;

/// Counters of flushes since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    pub flushes: u64,
    pub failures: u64,
    /// Bytes of memtables that were flushed.
    pub memtable_bytes: u64,
    /// Uncompressed bytes of rows.
    pub uncompressed_bytes: u64,
    /// Bytes of Data.db.
    pub data_bytes: u64,
}

/// The flushes of one shard.
pub struct FlushQueue {
    shard: Shard,
    writer: FlushWriter,
    jobs: RefCell<VecDeque<Job>>,
    /// Signalled when a job was queued or the pause is to end early.
    work: Event,
    /// The table whose memtable is being written.
    writing: RefCell<Option<Rc<Table>>>,
    stopping: Cell<bool>,
    stats: RefCell<FlushStats>,
    /// Bytes of sealed memtables that wait or are being written.
    queued_bytes: Cell<usize>,
    failed_lines: LogThrottle,
    /// The log has a line of a failed flush and none of a good one since.
    is_logged_failing: Cell<bool>,
    /// The last attempt found no space on the disk.
    no_space: RefCell<Option<String>>,
    /// Free bytes of the disk at the last measurement.
    free_bytes: Cell<u64>,
    /// The error of a commit log that failed. Memtables with mutations of its batches are not flushed until a
    /// restart.
    log_failed: RefCell<Option<LogError>>,
    /// Signalled when a flush ended, with or without success.
    pub ended: Event,
    /// Called with every table that has a new SSTable.
    on_flushed: RefCell<Option<OnFlushed>>,
    /// Its future is awaited before a memtable is written.
    before_flush: RefCell<Option<BeforeFlush>>,
}

type OnFlushed = Box<dyn Fn(&Rc<Table>)>;
type BeforeFlush = Box<dyn Fn(&Rc<Table>) -> LocalFuture<'static, ()>>;

impl FlushQueue {
    pub fn new(
        shard: Shard,
        cache: Rc<ChunkCache>,
        host_id: [u8; 16],
        form: SSTableForm,
        large_data: Rc<LargeDataLog>,
    ) -> Rc<Self> {
        Rc::new(Self {
            shard: shard.clone(),
            writer: FlushWriter { shard, cache, host_id, form, large_data },
            jobs: RefCell::default(),
            work: Event::new(),
            writing: RefCell::default(),
            stopping: Cell::new(false),
            stats: RefCell::default(),
            queued_bytes: Cell::new(0),
            failed_lines: LogThrottle::default(),
            is_logged_failing: Cell::new(false),
            no_space: RefCell::default(),
            free_bytes: Cell::new(0),
            log_failed: RefCell::default(),
            ended: Event::new(),
            on_flushed: RefCell::default(),
            before_flush: RefCell::default(),
        })
    }

    /// Sets the function that is called with every table that has a new SSTable.
    pub fn on_flushed(&self, f: impl Fn(&Rc<Table>) + 'static) {
        *self.on_flushed.borrow_mut() = Some(Box::new(f));
    }

    /// Sets the function whose future is awaited before a memtable is written.
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

    /// Sets the free bytes of the disk.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.free_bytes.set(free_bytes);
    }

    /// Why no flush is possible: the disk is full. `None` if the last attempt succeeded.
    pub fn no_space(&self) -> Option<String> {
        self.no_space.borrow().clone()
    }

    /// Why some memtables stay in memory until a restart; `None` if all can be flushed.
    pub fn log_failed(&self) -> Option<LogError> {
        self.log_failed.borrow().clone()
    }

    /// Seals the table's memtable, if it is not empty, and queues it. The ticket covers all queued memtables
    /// of the table.
    pub fn seal(&self, table: &Rc<Table>) -> FlushTicket {
        if let Some(sealed) = table.seal() {
            self.enqueue(table, sealed);
        }
        self.ticket(|job| Rc::ptr_eq(&job.table, table))
    }

    fn enqueue(&self, table: &Rc<Table>, sealed: Rc<LoggedMemtable>) {
        self.queued_bytes.set(self.queued_bytes.get() + sealed.memtable.charged_bytes());
        self.jobs.borrow_mut().push_back(Job { table: table.clone(), sealed, state: Rc::default() });
        self.work.signal();
    }

    /// Queues the memtables again that the table had to forget for a truncate that did not happen.
    pub fn restore_forgotten(&self, table: &Rc<Table>) {
        if let Some(sealed) = table.memtables.restore_forgotten() {
            self.enqueue(table, sealed);
        }
    }

    /// Writes queued memtables until [`Self::stop`].
    pub async fn run(self: Rc<Self>) {
        let mut pause_us = RETRY_US_MIN;
        while !self.stopping.get() {
            let work = self.work.next();
            let Some(job) = self.next_job() else {
                work.await;
                continue;
            };
            let before = self.before_flush.borrow().as_ref().map(|before| before(&job.table));
            if let Some(before) = before {
                before.await;
                if job.table.memtables.blocks_flush(&job.sealed) {
                    continue;
                }
            }
            *self.writing.borrow_mut() = Some(job.table.clone());
            let result = self.writer.write(&job).await;
            *self.writing.borrow_mut() = None;
            match result {
                Ok(written) => {
                    pause_us = RETRY_US_MIN;
                    self.finish(&job, written.as_ref());
                    self.free_in_steps(job.sealed);
                }
                Err(error) => {
                    let no_space = error.is_no_space();
                    self.log_failure(&job.table, &error);
                    *self.no_space.borrow_mut() = no_space.then(|| error.to_string());
                    if let FlushError::Log(failed) = &error {
                        *self.log_failed.borrow_mut() = Some(failed.clone());
                    }
                    self.count(|stats| stats.failures += 1);
                    self.move_to_end(&job, &error, no_space);
                    self.ended.signal();
                    // A task that waits for this flush to free a log segment may give up now.
                    job.table.log.progress().signal();
                    if no_space {
                        self.tell_other_shards(&error);
                    }
                    if no_space && broken::is("flush_retry") {
                        std::future::pending::<()>().await;
                    }
                    self.pause(pause_us).await;
                    pause_us = (pause_us * 2).min(RETRY_US_MAX);
                }
            }
        }
    }

    fn log_failure(&self, table: &Table, error: &FlushError) {
        if let Some(more) = self.failed_lines.admit_text(self.shard.now_us(), FAILED_PAUSE_US) {
            let table = table.schema().full_name();
            error!(target: "engine", "cannot flush {table}, and tries again until it can: {error}{more}");
            self.is_logged_failing.set(true);
        }
    }

    /// The first job that its table does not hold back, moved to the front of the queue. A job stays in the
    /// queue while it is written, so that a ticket finds it.
    fn next_job(&self) -> Option<Job> {
        let mut jobs = self.jobs.borrow_mut();
        let at = jobs.iter().position(|job| !job.table.memtables.blocks_flush(&job.sealed))?;
        jobs.make_contiguous()[..=at].rotate_right(1);
        let job = jobs.front().expect("it was just found");
        Some(Job { table: job.table.clone(), sealed: job.sealed.clone(), state: job.state.clone() })
    }

    /// Tells shards whose log segments wait for the queued memtables that these cannot be flushed.
    fn tell_other_shards(&self, error: &FlushError) {
        let (jobs, me) = (self.jobs.borrow(), self.shard.id());
        let uses: Vec<_> = jobs.iter().map(|job| job.sealed.segments.borrow()).collect();
        // The log of the schema has no batches of several shards, and is not connected with others.
        let spread = uses.iter().position(|uses| uses.shards().iter().any(|maker| *maker != me));
        if let Some(at) = spread {
            jobs[at].table.log.tell_no_space(uses.iter().map(|uses| &**uses), &error.to_string());
        }
    }

    /// Moves the failed first job to the end, so that it does not block others. A full disk counts as a
    /// failure of every job.
    fn move_to_end(&self, failed: &Job, error: &FlushError, no_space: bool) {
        let mut jobs = self.jobs.borrow_mut();
        for job in jobs.iter().filter(|job| no_space || Rc::ptr_eq(&job.state, &failed.state)) {
            job.state.fail(error, no_space);
        }
        jobs.rotate_left(1);
    }

    /// Holds the flushes of this table back and waits until none is running; [`Self::allow`] ends it.
    pub async fn block(&self, table: &Rc<Table>) {
        table.memtables.hold_flushes(vec![]);
        self.ended.until(|| !self.writing.borrow().as_ref().is_some_and(|at| Rc::ptr_eq(at, table))).await;
    }

    /// Separates earlier from later writes of the table, in one step: earlier writes are flushed, as
    /// [`Self::ticket_of_cut`] reports, and no later write is flushed before [`Self::allow`]. Returns the log
    /// position between them.
    pub fn cut(&self, table: &Rc<Table>) -> LogPosition {
        drop(self.seal(table));
        table.memtables.hold_flushes(table.memtables.sealed());
        table.log.position()
    }

    /// The ticket of the memtables of the table before its last [`Self::cut`].
    pub fn ticket_of_cut(&self, table: &Table) -> FlushTicket {
        self.ticket(|job| std::ptr::eq(&*job.table, table) && !table.memtables.blocks_flush(&job.sealed))
    }

    fn ticket(&self, is_wanted: impl Fn(&Job) -> bool) -> FlushTicket {
        let jobs = self.jobs.borrow();
        let wanted = jobs.iter().filter(|job| is_wanted(job));
        FlushTicket { jobs: wanted.map(|job| (job.state.clone(), job.state.failures.get())).collect() }
    }

    /// Allows flushes of this table again.
    pub fn allow(&self, table: &Table) {
        table.memtables.allow_flushes();
        self.work.signal();
    }

    /// Ends [`Self::run`] after the current flush.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.work.signal();
    }

    /// Sleeps in steps, so that it ends soon after a stop, and when the disk has space again.
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

    fn finish(&self, job: &Job, written: Option<&Written>) {
        let memtable_bytes = job.sealed.memtable.charged_bytes();
        job.table.remove_sealed(&job.sealed);
        self.jobs.borrow_mut().pop_front();
        self.queued_bytes.set(self.queued_bytes.get() - memtable_bytes);
        *self.no_space.borrow_mut() = None;
        let segments = job.sealed.segments.take();
        if written.is_some() {
            job.table.memtables.add_logged(&segments, job.sealed.memtable.least_times().timestamp_us);
        }
        job.table.log.release(job.table.schema().id, &segments);
        if let Some(written) = written {
            let flushes = &job.table.counters.flushes;
            flushes.set(flushes.get() + 1);
            self.count(|stats| {
                stats.flushes += 1;
                stats.memtable_bytes += memtable_bytes as u64;
                stats.uncompressed_bytes += written.uncompressed_bytes;
                stats.data_bytes += written.data_bytes;
            });
            if self.is_logged_failing.take() {
                info!(target: "engine", "flushes again");
            }
            debug!(
                target: "engine",
                "flushed {}: {memtable_bytes} bytes of a memtable into {}, {} bytes on disk",
                job.table.schema().full_name(),
                written.name,
                written.data_bytes
            );
            job.table.counters.flushed(written);
            if let Some(on_flushed) = &*self.on_flushed.borrow() {
                on_flushed(&job.table);
            }
        }
        job.state.done.set(true);
        job.state.changed.signal();
        self.ended.signal();
    }

    /// Frees a memtable in steps, in a task that yields.
    fn free_in_steps(&self, sealed: Rc<LoggedMemtable>) {
        // A read that has it open frees it at its end.
        let Ok(sealed) = Rc::try_unwrap(sealed) else { return };
        let shard = self.shard.clone();
        let drained = async move {
            for () in sealed.memtable.drain_in_steps() {
                if shard.need_preempt() {
                    shard.yield_now().await;
                }
            }
        };
        self.shard.spawn(CpuGroup::Memtable, drained).detach();
    }

    fn count(&self, change: impl FnOnce(&mut FlushStats)) {
        change(&mut self.stats.borrow_mut());
    }
}

/// The memtables of a table that were queued when the ticket was issued.
#[must_use = "await `flushed` to know that it is on disk"]
pub struct FlushTicket {
    /// The jobs, each with its number of failures at that time.
    jobs: Vec<(Rc<JobState>, u64)>,
}

impl FlushTicket {
    /// Completes when all of them are in sealed SSTables, or fails with the next failed attempt; the data is
    /// safe in both cases.
    pub async fn flushed(self) -> Result<(), EngineError> {
        for (job, failures) in self.jobs {
            job.changed.until(|| job.done.get() || job.failures.get() > failures).await;
            if !job.done.get() {
                let (error, no_space) = job.last_error.borrow().clone().expect("a failure says why");
                let error = format!("the flush failed and will be retried: {error}");
                return Err(if no_space { EngineError::NoSpace(error) } else { EngineError::SSTable(error) });
            }
        }
        Ok(())
    }
}
