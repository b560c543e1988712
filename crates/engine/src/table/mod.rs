//! One table on one shard: its memtables, its SSTables, and how one becomes the other.
//!
//! - [`flush`]: sealed memtables, and the queue that writes them;
//! - [`validate`]: what a write must be so that it can be stored;
//! - [`truncation`]: what a truncate leaves on disk;
//! - [`files`]: opening, snapshotting and removing the SSTables of the table's directory.
//!
//! **Invariant:** between two awaits, a write is in exactly one memtable or in a sealed SSTable, and every reader
//! opened then sees it. Readers keep what they read alive: neither a flush nor a drop disturbs them.

pub mod files;
pub mod flush;
pub mod truncation;
pub mod validate;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionRange, TableSchema};
use reader::{ReadSpec, Reader, Source};
use runtime::IoClass;
use sstable::read::{SSTable, SSTableSource};

use crate::commitlog::{CommitLog, Uses};
use crate::event::Event;
use crate::memtable::Memtable;
use crate::sharder::Sharder;
use truncation::Truncation;

/// A memtable with the commit log entries it holds.
pub struct LoggedMemtable {
    pub memtable: Memtable,
    pub uses: RefCell<Uses>,
    /// When the first write came, in the shard's monotonic time.
    pub first_write_us: Cell<Option<u64>>,
}

impl LoggedMemtable {
    fn new(schema: Arc<TableSchema>) -> Rc<Self> {
        Rc::new(Self {
            memtable: Memtable::new(schema),
            uses: RefCell::default(),
            first_write_us: Cell::new(None),
        })
    }
}

/// See the head of this file.
pub struct Table {
    schema: RefCell<Arc<TableSchema>>,
    pub dir: PathBuf,
    /// The log that makes its writes durable.
    pub log: Rc<CommitLog>,
    shard_id: u32,
    /// `None`: everything of the table lives on this shard.
    sharder: Option<Sharder>,
    active: RefCell<Rc<LoggedMemtable>>,
    /// Sealed and not yet in an SSTable, oldest first.
    sealed: RefCell<Vec<Rc<LoggedMemtable>>>,
    sstables: RefCell<Rc<Vec<Rc<SSTable>>>>,
    /// The number of the next SSTable this shard writes; shards take turns (`number % shards == shard`).
    next_generation: Cell<u64>,
    /// Set while a truncate decides which SSTables it removes.
    flush_blocked: Cell<bool>,
    /// Flushes were allowed again.
    changed: Event,
    dropped: Cell<bool>,
    truncation: RefCell<Truncation>,
    /// Log entries of memtables that a truncate has emptied, held until the truncate is durable.
    forgotten: RefCell<Vec<Uses>>,
}

impl Table {
    pub fn new(
        schema: Arc<TableSchema>,
        dir: PathBuf,
        log: Rc<CommitLog>,
        shard_id: u32,
        sharder: Option<Sharder>,
    ) -> Rc<Self> {
        Rc::new(Self {
            active: RefCell::new(LoggedMemtable::new(schema.clone())),
            schema: RefCell::new(schema),
            dir,
            log,
            shard_id,
            sharder,
            sealed: RefCell::default(),
            sstables: RefCell::default(),
            next_generation: Cell::new(1),
            flush_blocked: Cell::new(false),
            changed: Event::new(),
            dropped: Cell::new(false),
            truncation: RefCell::default(),
            forgotten: RefCell::default(),
        })
    }

    pub fn schema(&self) -> Arc<TableSchema> {
        self.schema.borrow().clone()
    }

    /// ALTER TABLE: from now on the table is read and written so. What is stored stays as it is.
    pub fn set_schema(&self, schema: Arc<TableSchema>) {
        self.active.borrow().memtable.set_schema(schema.clone());
        *self.schema.borrow_mut() = schema;
    }

    /// Whether partitions with this token belong to this shard.
    #[inline]
    pub fn owns(&self, token: i64) -> bool {
        self.sharder.is_none_or(|sharder| sharder.shard_of(token) == self.shard_id)
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.get()
    }

    /// DROP TABLE: what is in memory is forgotten, and what is on its way to disk stops.
    pub fn drop_contents(&self) {
        self.dropped.set(true);
        self.changed.signal();
        let uses = self.forget_memtables();
        let id = self.schema().id;
        uses.iter().for_each(|uses| self.log.release(id, uses));
    }

    /// Forgets the memtables, sealed ones included, in one step. Gives the log entries that nobody holds now; what
    /// sealed ones held is released by the flush queue.
    pub fn forget_memtables(&self) -> Vec<Uses> {
        self.sealed.borrow_mut().clear();
        let old = self.active.replace(LoggedMemtable::new(self.schema()));
        vec![old.uses.take()]
    }

    /// Holds log entries back until [`Self::release_forgotten`].
    pub fn keep_forgotten(&self, uses: Vec<Uses>) {
        self.forgotten.borrow_mut().extend(uses);
    }

    pub fn release_forgotten(&self) {
        let id = self.schema().id;
        self.forgotten.take().iter().for_each(|uses| self.log.release(id, uses));
    }

    /// Up to where the table was emptied.
    pub fn truncation(&self) -> Truncation {
        self.truncation.borrow().clone()
    }

    pub fn set_truncation(&self, truncation: Truncation) {
        *self.truncation.borrow_mut() = truncation;
    }

    pub fn active(&self) -> Rc<LoggedMemtable> {
        self.active.borrow().clone()
    }

    pub fn sealed(&self) -> Vec<Rc<LoggedMemtable>> {
        self.sealed.borrow().clone()
    }

    pub fn sstables(&self) -> Rc<Vec<Rc<SSTable>>> {
        self.sstables.borrow().clone()
    }

    /// Bytes of all memtables, sealed ones included.
    pub fn memtable_bytes(&self) -> usize {
        let sealed: usize = self.sealed.borrow().iter().map(|sealed| sealed.memtable.charged_bytes()).sum();
        self.active.borrow().memtable.charged_bytes() + sealed
    }

    /// A reader over each source that may have something of what is wanted. Merged, they are the table.
    pub fn readers(&self, spec: &ReadSpec, bypass_cache: bool) -> Vec<Box<dyn Reader>> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let memtables = [&*active].into_iter().chain(sealed.iter()).map(|logged| &logged.memtable);
        let mut readers: Vec<Box<dyn Reader>> =
            memtables.filter(|memtable| !memtable.is_empty()).map(|memtable| memtable.reader(spec)).collect();
        for sstable in self.sstables.borrow().iter() {
            if may_have(sstable, spec) {
                readers.push(
                    SSTableSource::new(sstable.clone(), IoClass::Statement)
                        .bypass_cache(bypass_cache)
                        .reader(spec),
                );
            }
        }
        if readers.is_empty() {
            readers.push(active.memtable.reader(spec));
        }
        readers
    }
}

fn may_have(sstable: &Rc<SSTable>, spec: &ReadSpec) -> bool {
    let partitions = match &spec.partitions {
        PartitionRange::Key(key) => sstable.may_contain(key),
        range @ PartitionRange::Between { .. } => sstable.may_contain_range(range),
    };
    partitions && sstable.may_contain_clustering(&spec.schema, &spec.ranges)
}
