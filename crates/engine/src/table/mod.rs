//! One table on one shard: its memtables, its SSTables, and their connections.
//!
//! - [`memtables`]: the active one, the sealed ones, and the state of their flushes in the log;
//! - [`sstable_set`]: the live SSTables, and those that are not or not yet live;
//! - [`files`]: opens, links and removes the SSTables of the table's directory, and maintains their manifest;
//! - [`indexes`]: the sources that have the secondary indexes;
//! - `sources`: selects the sources that a read has to open;
//! - [`parked`], [`open_read`]: reads between two pages;
//! - [`validate`]: checks that a write can be stored;
//! - [`truncation`], [`dropped`], [`lost`], [`view_mark`]: the marks of a truncate, a drop, a loss and an
//!   unbuilt view on disk;
//! - [`counters`]: counters, of which [`slices`] are rows and tombstones by page, and [`hot_keys`] the keys
//!   used most; [`large_data_log`]: log entries about large partitions;
//! - its row cache, the mirror of its SSTables, is in `cache`;
//! - an attached table ([`Table::attached`]) has its SSTables in another directory and is for reading only.
//!
//! **Invariant:** between two awaits, a write is in exactly one memtable or in a sealed SSTable, or in both
//! while it is merged into the row cache; every reader opened then sees it. Readers keep their sources alive:
//! neither a flush nor a drop affects them.

pub mod counters;
pub mod dropped;
pub mod files;
pub mod hot_keys;
pub mod indexes;
pub mod large_data_log;
pub mod lost;
pub mod memtables;
pub mod open_read;
pub mod parked;
pub mod slices;
mod sources;
pub mod sstable_set;
pub mod truncation;
pub mod validate;
pub mod view_mark;

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
    /// The log of its writes.
    pub log: Rc<CommitLog>,
    /// The tokens of the table that this shard owns; for a system table all.
    owned: OwnedTokens,
    shard_id: u32,
    /// `None`: the whole table is on this shard.
    sharder: Option<Sharder>,
    pub memtables: Memtables,
    pub sstables: SSTableSet,
    /// The row cache; `None` until the table belongs to a shard's engine.
    cache: OnceCell<Rc<TableCache>>,
    dropped: Cell<bool>,
    truncation: RefCell<Truncation>,
    pub counters: TableCounters,
    /// Held while the files of the SSTables must stay, by a snapshot or a replacement.
    pub files_lock: Mutex,
    /// The number of runs that the next compaction would merge.
    runs_to_merge: Cell<usize>,
    /// Reads between two pages. They are dropped when one of their sources is removed, so that they keep
    /// nothing alive.
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

    /// A table of SSTables in another directory, for reading only.
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

    /// ALTER TABLE: later reads and writes use this schema. Stored data is unchanged.
    pub fn set_schema(&self, schema: Arc<TableSchema>) {
        self.parked.clear();
        self.memtables.set_schema(schema.clone());
        *self.schema.borrow_mut() = schema;
        // The row cache may have cells of columns that were dropped.
        self.clear_cache();
    }

    /// Creates the table's cache in `rows`.
    pub fn join_cache(&self, rows: &Rc<RowCache>) {
        self.cache.get_or_init(|| TableCache::new(rows));
    }

    /// Applies the table's caching option: whether reads of single partitions use the row cache.
    pub fn set_caching(&self, is_on: bool) {
        if let Some(cache) = self.cache.get() {
            cache.set_on(is_on);
        }
    }

    /// `None` if the table belongs to no engine.
    pub fn cache(&self) -> Option<&Rc<TableCache>> {
        self.cache.get()
    }

    /// Clears the row cache because the SSTables have changed.
    pub(crate) fn clear_cache(&self) {
        if let Some(cache) = self.cache.get() {
            cache.clear();
        }
    }

    /// Merges the data of a flushed memtable into the row cache. Until this returns, the memtable must be
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

    /// Whether this shard owns partitions with this token.
    #[inline]
    pub fn owns(&self, token: i64) -> bool {
        self.owned.has(token)
    }

    /// The tokens that this shard owns.
    pub fn owned_tokens(&self) -> OwnedTokens {
        self.owned
    }

    /// The shard that owns partitions with this token.
    pub(crate) fn owner(&self, token: i64) -> u32 {
        self.sharder.map_or(self.shard_id, |sharder| sharder.shard_of(token))
    }

    /// Whether the table is on shard 0 only and uses the schema's log.
    pub fn is_system(&self) -> bool {
        self.sharder.is_none()
    }

    /// Whether it is attached: see [`Self::attached`].
    pub fn is_read_only(&self) -> bool {
        self.sstables.manifest.is_none()
    }

    /// Refuses a write to an attached table.
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

    /// DROP TABLE: removes the memtables, and ends their flushes.
    pub fn drop_contents(&self) {
        self.dropped.set(true);
        self.clear_cache();
        self.parked.clear();
        let segments = self.memtables.clear(self.schema(), self.log.position());
        self.log.release(self.schema().id, &segments);
    }

    /// Seals the active memtable, if it is not empty, and returns it for the flush queue.
    pub(crate) fn seal(&self) -> Option<Rc<LoggedMemtable>> {
        self.memtables.seal(self.schema(), self.log.position())
    }

    /// Removes a memtable whose SSTable is in the table.
    pub(crate) fn remove_sealed(&self, memtable: &Rc<LoggedMemtable>) {
        self.parked.clear();
        self.memtables.remove_sealed(memtable);
    }

    /// Removes the memtables; [`Self::release_forgotten`] makes it final.
    pub fn forget_memtables(&self) {
        self.parked.clear();
        self.memtables.forget(self.schema(), self.log.position());
    }

    /// Releases memtables that were removed by a truncate.
    pub fn release_forgotten(&self) {
        self.memtables.release_forgotten(&self.log, self.schema().id);
    }

    /// The least timestamp of data that is in SSTables and would nevertheless be replayed from the commit log
    /// after a crash now; `None` if there is none.
    pub fn replayable_since_us(&self) -> Option<i64> {
        self.memtables.replayable_since_us(&self.log)
    }

    /// Called when an SSTable was removed or has lost data: after a crash all entries are replayed.
    pub(crate) fn forget_flushed(&self) {
        self.memtables.forget_flushed();
    }

    /// Called when the readable part of this SSTable is in other SSTables.
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

    /// The positions up to which the table was truncated.
    pub fn truncation(&self) -> Truncation {
        self.truncation.borrow().clone()
    }

    pub fn set_truncation(&self, truncation: Truncation) {
        *self.truncation.borrow_mut() = truncation;
    }

    /// The live SSTables.
    pub fn sstables(&self) -> Rc<Vec<Rc<SSTable>>> {
        self.sstables.live()
    }

    /// Refuses reads while there are SSTables that could not be opened. Writes continue.
    pub fn check_readable(&self) -> Result<(), EngineError> {
        let unreadable = self.sstables.unreadable();
        if unreadable.is_empty() {
            return Ok(());
        }
        Err(EngineError::SSTable(format!(
            "{} cannot be read, because {} of its SSTables cannot be opened: {}; repair the files and restart, run a scrub to \
             keep the readable data, or move all files of the SSTable away to continue without it",
            self.schema().full_name(),
            unreadable.len(),
            unreadable.join("; ")
        )))
    }
}
