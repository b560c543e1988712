//! One table on one shard: its memtables, its SSTables, and what connects them.
//!
//! - [`memtables`]: the active one, the sealed ones, and what their flushes leave in the log;
//! - [`sstable_set`]: the SSTables that are read, and those that are not;
//! - [`files`]: opening, linking and removing the SSTables of the table's directory, and their manifest;
//! - [`indexes`]: which sources have the secondary indexes;
//! - `sources`: which of all these a read has to open;
//! - [`parked`], [`open_read`]: reads between two of their pages;
//! - [`validate`]: what a write must be so that it can be stored;
//! - [`truncation`], [`dropped`], [`lost`]: what a truncate, a drop and a loss leave on disk;
//! - [`counters`]: what is counted; [`large_data_log`]: what is logged of large partitions;
//! - its row cache, the mirror of its SSTables, is in `cache`;
//! - an attached table ([`Table::attached`]) has its SSTables in a directory of others and is only read.
//!
//! **Invariant:** between two awaits, a write is in exactly one memtable or in a sealed SSTable, or in both while the
//! row cache takes it over, and every reader opened then sees it. Readers keep what they read alive: neither a flush
//! nor a drop disturbs them.

pub mod counters;
pub mod dropped;
pub mod files;
pub mod indexes;
pub mod large_data_log;
pub mod lost;
pub mod memtables;
pub mod open_read;
pub mod parked;
mod sources;
pub mod sstable_set;
pub mod truncation;
pub mod validate;

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use model::TableSchema;
use runtime::{CpuGroup, Mutex, Shard};
use sstable::name::SSTableName;
use sstable::read::SSTable;

use crate::cache::{MergeFlushed, RowCache, TableCache};
use crate::commitlog::CommitLog;
use crate::error::EngineError;
use crate::manifest::SSTableManifest;
use crate::sharder::{OwnedTokens, Sharder};
use counters::TableCounters;
use memtables::Memtables;
use open_read::OpenRead;
use parked::ParkedReads;
use sstable_set::SSTableSet;
use truncation::Truncation;

pub use memtables::LoggedMemtable;

/// See the head of this file.
pub struct Table {
    schema: RefCell<Arc<TableSchema>>,
    full_name: Arc<str>,
    pub dir: PathBuf,
    /// The log that makes its writes durable.
    pub log: Rc<CommitLog>,
    /// Which of its partitions this shard has; of a system table all.
    owned: OwnedTokens,
    shard_id: u32,
    /// `None`: everything of the table lives on this shard.
    sharder: Option<Sharder>,
    pub memtables: Memtables,
    pub sstables: SSTableSet,
    /// What reads have found in the SSTables; `None` until the table belongs to a shard's engine.
    cache: OnceCell<Rc<TableCache>>,
    dropped: Cell<bool>,
    truncation: RefCell<Truncation>,
    pub counters: TableCounters,
    /// Held while the files of the SSTables must stay: by a snapshot, a replacement.
    pub files_lock: Mutex,
    /// The number of runs that the next compaction would merge.
    runs_to_merge: Cell<usize>,
    /// Reads between two of their pages. What takes a source away ends them, so that they keep nothing alive.
    pub parked: ParkedReads<OpenRead>,
}

impl Table {
    pub fn new(
        schema: Arc<TableSchema>,
        dir: PathBuf,
        log: Rc<CommitLog>,
        shard_id: u32,
        sharder: Option<Sharder>,
        manifest: SSTableManifest,
    ) -> Rc<Self> {
        Self::make(schema, dir, log, shard_id, sharder, Some(manifest))
    }

    /// A table of SSTables in a directory of others: it is only read.
    pub fn attached(
        schema: Arc<TableSchema>,
        dir: PathBuf,
        log: Rc<CommitLog>,
        shard_id: u32,
        sharder: Sharder,
    ) -> Rc<Self> {
        Self::make(schema, dir, log, shard_id, Some(sharder), None)
    }

    fn make(
        schema: Arc<TableSchema>,
        dir: PathBuf,
        log: Rc<CommitLog>,
        shard_id: u32,
        sharder: Option<Sharder>,
        manifest: Option<SSTableManifest>,
    ) -> Rc<Self> {
        Rc::new(Self {
            memtables: Memtables::new(schema.clone(), log.position()),
            sstables: SSTableSet::new(shard_id, manifest),
            full_name: schema.full_name().into(),
            schema: RefCell::new(schema),
            dir,
            log,
            owned: sharder.map_or(OwnedTokens::ALL, |sharder| OwnedTokens::of(sharder, shard_id)),
            shard_id,
            sharder,
            cache: OnceCell::new(),
            dropped: Cell::new(false),
            truncation: RefCell::default(),
            counters: TableCounters::default(),
            files_lock: Mutex::default(),
            runs_to_merge: Cell::new(0),
            parked: ParkedReads::default(),
        })
    }

    /// `keyspace.table`
    pub fn full_name(&self) -> &Arc<str> {
        &self.full_name
    }

    pub fn schema(&self) -> Arc<TableSchema> {
        self.schema.borrow().clone()
    }

    /// ALTER TABLE: from now on the table is read and written so. What is stored stays as it is.
    pub fn set_schema(&self, schema: Arc<TableSchema>) {
        self.parked.clear();
        self.memtables.set_schema(schema.clone());
        *self.schema.borrow_mut() = schema;
        // It may know cells of columns that have gone.
        self.clear_cache();
    }

    /// From now on what is read is kept in `rows`.
    pub fn join_cache(&self, rows: &Rc<RowCache>) {
        self.cache.get_or_init(|| TableCache::new(rows));
    }

    /// The table's option: whether reads of single partitions keep rows in memory.
    pub fn set_caching(&self, is_on: bool) {
        if let Some(cache) = self.cache.get() {
            cache.set_on(is_on);
        }
    }

    /// `None` if the table belongs to no engine.
    pub fn cache(&self) -> Option<&Rc<TableCache>> {
        self.cache.get()
    }

    /// Forgets what is known of the SSTables; they are others now.
    pub(crate) fn clear_cache(&self) {
        if let Some(cache) = self.cache.get() {
            cache.clear();
        }
    }

    /// Lets the row cache take over what a memtable brought into the SSTables; until it ends, the memtable is to be
    /// read too.
    pub(crate) async fn merge_into_cache(&self, shard: &Shard, flushed: &Rc<LoggedMemtable>) {
        let Some(cache) = self.cache.get().filter(|cache| !cache.is_empty()) else { return };
        let mut merging = MergeFlushed::new(cache, &flushed.memtable, &self.schema());
        let here = shard.clone();
        let merge = async move {
            while merging.step() {
                if here.need_preempt() {
                    here.yield_now().await;
                }
            }
        };
        shard.spawn(CpuGroup::MemtableToCache, merge).await;
    }

    /// Whether partitions with this token belong to this shard.
    #[inline]
    pub fn owns(&self, token: i64) -> bool {
        self.owned.has(token)
    }

    /// The partitions that belong to this shard.
    pub fn owned_tokens(&self) -> OwnedTokens {
        self.owned
    }

    /// Which shard partitions with this token belong to.
    pub(crate) fn owner(&self, token: i64) -> u32 {
        self.sharder.map_or(self.shard_id, |sharder| sharder.shard_of(token))
    }

    /// It lives on shard 0 alone, and its log is the schema's.
    pub fn is_system(&self) -> bool {
        self.sharder.is_none()
    }

    /// Whether it is attached: see [`Self::attached`].
    pub fn is_read_only(&self) -> bool {
        self.sstables.manifest.is_none()
    }

    /// Refuses what would write to an attached table.
    #[inline]
    pub fn check_writable(&self) -> Result<(), EngineError> {
        if !self.is_read_only() {
            return Ok(());
        }
        Err(EngineError::Invalid(format!(
            "{} is attached from {} and can only be read; copy its SSTables into a table of this node with \
             `nodetool import` to write to them",
            self.schema().full_name(),
            self.dir.display()
        )))
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.get()
    }

    /// DROP TABLE: what is in memory is forgotten, and what is being flushed stops.
    pub fn drop_contents(&self) {
        self.dropped.set(true);
        self.clear_cache();
        self.parked.clear();
        let segments = self.memtables.clear(self.schema(), self.log.position());
        self.log.release(self.schema().id, &segments);
    }

    /// Seals the active memtable, if there is anything in it. Gives what is to be queued.
    pub(crate) fn seal(&self) -> Option<Rc<LoggedMemtable>> {
        self.memtables.seal(self.schema(), self.log.position())
    }

    /// The memtable is in an SSTable that is in the table: it is read no more.
    pub(crate) fn remove_sealed(&self, memtable: &Rc<LoggedMemtable>) {
        self.parked.clear();
        self.memtables.remove_sealed(memtable);
    }

    /// Forgets the memtables, until [`Self::release_forgotten`] makes it final.
    pub fn forget_memtables(&self) {
        self.parked.clear();
        self.memtables.forget(self.schema(), self.log.position());
    }

    /// What was forgotten is not needed any more.
    pub fn release_forgotten(&self) {
        self.memtables.release_forgotten(&self.log, self.schema().id);
    }

    /// The least timestamp of what is in SSTables and would nevertheless come out of the commit log, if the node
    /// crashed now; `None` if nothing would.
    pub fn replayable_since_us(&self) -> Option<i64> {
        self.memtables.replayable_since_us(&self.log)
    }

    /// An SSTable was removed, or has lost something: after a crash everything is replayed.
    pub(crate) fn forget_flushed(&self) {
        self.memtables.forget_flushed();
    }

    /// What could be read of this SSTable is in others now.
    pub(crate) fn has_salvaged(&self, name: SSTableName) {
        self.sstables.remove_unreadable(Some(name));
        self.forget_flushed();
    }

    pub(crate) fn runs_to_merge(&self) -> usize {
        self.runs_to_merge.get()
    }

    pub(crate) fn set_runs_to_merge(&self, runs: usize) {
        self.runs_to_merge.set(runs);
    }

    /// Up to where the table was emptied.
    pub fn truncation(&self) -> Truncation {
        self.truncation.borrow().clone()
    }

    pub fn set_truncation(&self, truncation: Truncation) {
        *self.truncation.borrow_mut() = truncation;
    }

    /// The SSTables that are read.
    pub fn sstables(&self) -> Rc<Vec<Rc<SSTable>>> {
        self.sstables.live()
    }

    /// Refuses reads while there are SSTables that could not be opened. Writes go on.
    pub fn check_readable(&self) -> Result<(), EngineError> {
        let unreadable = self.sstables.unreadable();
        if unreadable.is_empty() {
            return Ok(());
        }
        Err(EngineError::SSTable(format!(
            "{} cannot be read, because {} of its SSTables cannot be opened: {}; put the files right and restart, \
             let a scrub keep what can be read, or move all files of the SSTable away to go on without it",
            self.schema().full_name(),
            unreadable.len(),
            unreadable.join("; ")
        )))
    }
}
