//! The way of an entry from a request to the file.
//!
//! A request writes its line into a queue of its shard. A task takes the queue some milliseconds later and
//! gives it to shard 0, which writes the file. A request waits only if the queue is full and `block` is set.
//! When the process is killed, the lines of the last [`GATHER_US`] are lost.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::LogThrottle;
use engine::EngineError;
use log::{error, info};
use runtime::{CpuGroup, Event, Shard};

use super::entry::AuditEntry;
use super::file::AuditFiles;
use super::rules::AuditOptions;

/// How long lines are gathered before they are written.
pub const GATHER_US: u64 = 20_000;
/// Pause between two log lines about entries that could not be written.
const FAILURES_PAUSE_US: u64 = 10_000_000;

/// Entries of a shard since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
    pub entries: u64,
    /// Because the queue was full, or the file could not be written.
    pub dropped: u64,
}

/// The audit log of a shard; see the head of this file.
pub struct AuditLog {
    shard: Shard,
    /// The address of the node for other nodes, which entries show.
    node: SocketAddr,
    /// `None`: the log is off.
    options: RefCell<Option<Arc<AuditOptions>>>,
    is_on: Cell<bool>,
    queue: RefCell<Vec<u8>>,
    /// Entries in the queue.
    queued: Cell<u64>,
    /// Whether a task will take the queue.
    is_taken: Cell<bool>,
    /// Signalled when the queue was taken, or its lines are written.
    moved: Event,
    counts: Cell<AuditCounts>,
    failures: LogThrottle,
    /// Of shard 0: the files, and whether a task writes them.
    files: AuditFiles,
    is_writing: Cell<bool>,
    written: Event,
}

impl AuditLog {
    /// Creates the audit log of a shard, switched off if `options` is `None`.
    pub fn start(shard: &Shard, node: SocketAddr, options: Option<Arc<AuditOptions>>) -> Rc<Self> {
        let this = Rc::new(Self {
            shard: shard.clone(),
            node,
            is_on: Cell::new(options.is_some()),
            options: RefCell::new(options),
            queue: RefCell::default(),
            queued: Cell::default(),
            is_taken: Cell::default(),
            moved: Event::new(),
            counts: Cell::default(),
            failures: LogThrottle::default(),
            files: AuditFiles::default(),
            is_writing: Cell::default(),
            written: Event::new(),
        });
        shard.set_local(this.clone());
        this
    }

    fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Logs an entry if the rules admit it. Waits for room in the queue if the options say so.
    pub async fn record(self: &Rc<Self>, entry: AuditEntry<'_>) {
        let Some(options) = self.options.borrow().clone() else { return };
        if !options.rules.admits(&entry) {
            return;
        }
        let is_full = || self.queue.borrow().len() as u64 >= options.queue_bytes_max;
        if is_full() {
            if !options.block {
                self.add(0, 1);
                return;
            }
            self.moved.until(|| !is_full()).await;
        }
        entry.write(&mut self.queue.borrow_mut(), self.node, self.shard.wall_us() / 1000);
        self.queued.set(self.queued.get() + 1);
        if !self.is_taken.replace(true) {
            let this = self.clone();
            let take = async move {
                this.shard.sleep_us(GATHER_US).await;
                this.write_queue().await;
            };
            self.shard.spawn(CpuGroup::Maintenance, take).detach();
        }
    }

    /// Entries of this shard since the start.
    pub fn counts(&self) -> AuditCounts {
        self.counts.get()
    }

    fn add(&self, entries: u64, dropped: u64) {
        let counts = self.counts.get();
        let counts = AuditCounts { entries: counts.entries + entries, dropped: counts.dropped + dropped };
        self.counts.set(counts);
    }

    /// Gives the queue to shard 0 until it is empty.
    async fn write_queue(&self) {
        while !self.queue.borrow().is_empty() {
            let lines = self.queue.take();
            let entries = self.queued.take();
            self.moved.signal();
            let options = self.options.borrow().clone();
            // The log was switched off since; its last entries are still written to the last file.
            let write = move |shard: Shard| async move {
                match Self::of(&shard) {
                    Ok(this) => this.write(options, lines).await,
                    Err(error) => Err(error.to_string()),
                }
            };
            let done = self.shard.call(0, CpuGroup::Maintenance, write).await;
            match done.map_err(|error| error.to_string()).and_then(|done| done) {
                Ok(()) => self.add(entries, 0),
                Err(why) => {
                    self.add(0, entries);
                    if let Some(more) = self.failures.admit_text(self.shard.now_us(), FAILURES_PAUSE_US) {
                        error!(target: "auth", "{entries} entries of the audit log are lost{more}: {why}");
                    }
                }
            }
        }
        self.is_taken.set(false);
        self.moved.signal();
    }

    /// Appends lines to the file. On shard 0 only; calls queue for each other.
    async fn write(&self, options: Option<Arc<AuditOptions>>, lines: Vec<u8>) -> Result<(), String> {
        self.written.until(|| !self.is_writing.get()).await;
        self.is_writing.set(true);
        let wall_s = u64::from(self.shard.wall_s());
        let done = match options {
            Some(options) => self.files.append(self.shard.files(), &options, wall_s, lines).await,
            None => Ok(()),
        };
        self.is_writing.set(false);
        self.written.signal();
        done.map_err(|error| error.to_string())
    }
}

async fn on_all<F, Fut>(shard: &Shard, f: F) -> Result<(), EngineError>
where
    F: Fn(Rc<AuditLog>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()>,
{
    for target in 0..shard.shard_count() {
        let f = f.clone();
        let call = shard.call(target, CpuGroup::Maintenance, |shard| async move {
            if let Ok(log) = AuditLog::of(&shard) {
                f(log).await;
            }
        });
        call.await.map_err(EngineError::from)?;
    }
    Ok(())
}

/// Switches the audit log on, or replaces its options.
///
/// # Errors
/// The node has stopped.
pub async fn enable(shard: &Shard, options: AuditOptions) -> Result<(), EngineError> {
    info!(target: "auth", "the audit log is on, in {}", options.dir.display());
    let options = Arc::new(options);
    let set = move |log: Rc<AuditLog>| {
        let options = options.clone();
        async move {
            *log.options.borrow_mut() = Some(options);
            log.is_on.set(true);
        }
    };
    on_all(shard, set).await
}

/// Switches the audit log off, after its last entries are written.
///
/// # Errors
/// The node has stopped.
pub async fn disable(shard: &Shard) -> Result<(), EngineError> {
    on_all(shard, |log| async move { log.is_on.set(false) }).await?;
    flush(shard).await?;
    on_all(shard, |log| async move { *log.options.borrow_mut() = None }).await?;
    info!(target: "auth", "the audit log is off");
    Ok(())
}

/// Writes all entries and closes the file.
///
/// # Errors
/// The node has stopped.
pub async fn flush(shard: &Shard) -> Result<(), EngineError> {
    on_all(shard, |log| async move { log.moved.until(|| !log.is_taken.get()).await }).await?;
    let close = |shard: Shard| async move {
        let Ok(log) = AuditLog::of(&shard) else { return };
        log.written.until(|| !log.is_writing.get()).await;
        if let Err(error) = log.files.close().await {
            error!(target: "auth", "the audit log could not be synced: {error}");
        }
    };
    shard.call(0, CpuGroup::Maintenance, close).await.map_err(EngineError::from)
}

/// The options now; `None`: the log is off.
///
/// # Errors
/// The node has stopped.
pub fn options(shard: &Shard) -> Result<Option<Arc<AuditOptions>>, EngineError> {
    Ok(AuditLog::of(shard)?.options.borrow().clone())
}

/// Entries of all shards since the start.
///
/// # Errors
/// The node has stopped.
pub async fn all_counts(shard: &Shard) -> Result<AuditCounts, EngineError> {
    let mut all = AuditCounts::default();
    for target in 0..shard.shard_count() {
        let of_shard = shard.call(target, CpuGroup::Maintenance, |shard| async move {
            AuditLog::of(&shard).map(|log| log.counts())
        });
        let of_shard = of_shard.await.map_err(EngineError::from)??;
        all.entries += of_shard.entries;
        all.dropped += of_shard.dropped;
    }
    Ok(all)
}
