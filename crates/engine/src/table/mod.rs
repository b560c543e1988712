//! One table on one shard: its memtables, its SSTables, and how one becomes the other.
//!
//! - [`flush`]: sealed memtables, and the queue that writes them;
//! - [`validate`]: what a write must be so that it can be stored;
//! - [`truncation`]: what a truncate leaves on disk;
//! - [`files_lock`]: who needs the files to stay;
//! - [`files`]: opening, snapshotting and removing the SSTables of the table's directory;
//! - [`roster`]: which of them there should be;
//! - [`flushed`]: which entries of the log they have;
//! - its row cache, the mirror of its SSTables, is in `cache`;
//! - an attached table ([`Table::attached`]) has its SSTables in somebody else's directory and is only read.
//!
//! **Invariant:** between two awaits, a write is in exactly one memtable or in a sealed SSTable, or in both while the row
//! cache takes it over, and every reader opened then sees it. Readers keep what they read alive: neither a flush nor a drop disturbs them.

pub mod dropped;
pub mod files;
pub mod files_lock;
pub mod flush;
pub mod flushed;
pub mod lost;
pub mod roster;
pub mod truncation;
pub mod validate;

use std::cell::{Cell, OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use base::HashSet;
use model::{PartitionKey, PartitionRange, TableSchema};
use reader::{MergeReader, ReadSpec, Reader, Source};
use runtime::{CpuGroup, IoClass, Shard};
use sstable::name::SstableName;
use sstable::read::{SSTable, SSTableSource};

use crate::cache::{Below, CacheReader, MergeFlushed, RowCache, TableCache};
use crate::commitlog::{CommitLog, LogPosition, Uses};
use crate::error::EngineError;
use crate::memtable::Memtable;
use crate::read::parked::ParkedReads;
use crate::report::{SSTableCounters, TableCounters};
use crate::sharder::{Sharder, Share};
use files_lock::FilesLock;
use flushed::Flushed;
use roster::Roster;
use runtime::Event;
use truncation::Truncation;

/// A memtable with the commit log entries it holds.
pub struct LoggedMemtable {
    pub memtable: Memtable,
    pub uses: RefCell<Uses>,
    /// It has every entry of the table from here on that stands in front of `logged_until`.
    logged_from: LogPosition,
    /// Set when it stops being the active one.
    logged_until: Cell<LogPosition>,
    /// When the first write came, in the shard's monotonic time.
    pub first_write_us: Cell<Option<u64>>,
}

/// All memtables of a table.
struct Memtables {
    active: Rc<LoggedMemtable>,
    /// These are in the flush queue too.
    sealed: Vec<Rc<LoggedMemtable>>,
}

impl LoggedMemtable {
    /// The active one from now on; the log's next entry stands at `position` or behind it.
    fn new(schema: Arc<TableSchema>, position: LogPosition) -> Rc<Self> {
        Rc::new(Self {
            memtable: Memtable::new(schema),
            uses: RefCell::default(),
            logged_from: position,
            logged_until: Cell::new(position),
            first_write_us: Cell::new(None),
        })
    }
}

/// See the head of this file.
pub struct Table {
    schema: RefCell<Arc<TableSchema>>,
    full_name: Arc<str>,
    pub dir: PathBuf,
    /// The log that makes its writes durable.
    pub log: Rc<CommitLog>,
    /// Which of its partitions this shard has; of a system table all.
    share: Share,
    shard_id: u32,
    /// `None`: everything of the table lives on this shard.
    sharder: Option<Sharder>,
    active: RefCell<Rc<LoggedMemtable>>,
    /// Sealed and not yet in an SSTable, oldest first.
    sealed: RefCell<Vec<Rc<LoggedMemtable>>>,
    sstables: RefCell<Rc<Vec<Rc<SSTable>>>>,
    /// Which SSTables there are, for the next start; `None` if the table is attached.
    pub(crate) roster: Option<Roster>,
    /// What reads have found in the SSTables; `None` until the table belongs to a shard's engine.
    cache: OnceCell<Rc<TableCache>>,
    /// SSTables that could not be opened, and why; without a name, all of them. Without them no read knows what it misses.
    unreadable: RefCell<Vec<(Option<SstableName>, String)>>,
    /// Components that were damaged or missing when their SSTable was opened, and could be done without; and why.
    rebuilt: RefCell<Vec<String>>,
    /// The number of the next SSTable this shard writes; shards take turns (`number % shards == shard`).
    next_generation: Cell<u64>,
    /// Set while a truncate decides which SSTables it removes.
    flush_blocked: Cell<bool>,
    /// Flushes were allowed again.
    changed: Event,
    dropped: Cell<bool>,
    truncation: RefCell<Truncation>,
    pub counters: TableCounters,
    /// Its directory is somebody else's: nothing is ever written there.
    is_read_only: bool,
    /// Memtables that truncates have taken away, kept with their log entries until the truncate is durable.
    forgotten: RefCell<Vec<Memtables>>,
    /// Held by whoever needs the files of the SSTables to stay: a snapshot, a replacement.
    pub files_lock: FilesLock,
    /// SSTables that must stay as they are until a restart: a replacement of them is in doubt or unfinished.
    frozen: RefCell<HashSet<SstableName>>,
    /// SSTables that said what they cannot say; no compaction takes them.
    quarantined: RefCell<HashSet<SstableName>>,
    /// Opened, and not yet part of the table: another shard writes them for this one.
    pub(crate) incoming: RefCell<Vec<Rc<SSTable>>>,
    /// Opened, and not yet part of the table: they come from elsewhere, and all shards are to have opened theirs first.
    pub(crate) loading: RefCell<Vec<Rc<SSTable>>>,
    /// So many runs the next compaction would merge.
    runs_to_merge: Cell<usize>,
    /// Reads between two of their pages. What takes a source away ends them, so that they keep nothing alive.
    pub parked: ParkedReads,
    /// Of flushed memtables the segments they were in, and their least timestamps, while the segments are there.
    logged: RefCell<Vec<(Uses, i64)>>,
    /// Entries of this run's log that are in SSTables.
    flushed: RefCell<Flushed>,
}

impl Table {
    pub fn new(
        schema: Arc<TableSchema>,
        dir: PathBuf,
        log: Rc<CommitLog>,
        shard_id: u32,
        sharder: Option<Sharder>,
        roster: Roster,
    ) -> Rc<Self> {
        Self::make(schema, dir, log, shard_id, sharder, Some(roster))
    }

    /// A table of SSTables that are somebody else's, in any directory: it is only read.
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
        roster: Option<Roster>,
    ) -> Rc<Self> {
        Rc::new(Self {
            is_read_only: roster.is_none(),
            roster,
            active: RefCell::new(LoggedMemtable::new(schema.clone(), log.position())),
            full_name: schema.full_name().into(),
            schema: RefCell::new(schema),
            dir,
            log,
            share: sharder.map_or(Share::ALL, |sharder| Share::of(sharder, shard_id)),
            shard_id,
            sharder,
            sealed: RefCell::default(),
            sstables: RefCell::default(),
            cache: OnceCell::new(),
            unreadable: RefCell::default(),
            rebuilt: RefCell::default(),
            next_generation: Cell::new(1),
            flush_blocked: Cell::new(false),
            changed: Event::new(),
            dropped: Cell::new(false),
            truncation: RefCell::default(),
            counters: TableCounters::default(),
            forgotten: RefCell::default(),
            files_lock: FilesLock::default(),
            frozen: RefCell::default(),
            quarantined: RefCell::default(),
            incoming: RefCell::default(),
            loading: RefCell::default(),
            runs_to_merge: Cell::new(0),
            parked: ParkedReads::default(),
            logged: RefCell::default(),
            flushed: RefCell::default(),
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
        self.active.borrow().memtable.set_schema(schema.clone());
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

    /// Lets the row cache take over what a memtable brought into the SSTables; until it ends, the memtable is to be read
    /// too.
    async fn merge_into_cache(&self, shard: &Shard, flushed: &Rc<LoggedMemtable>) {
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
        self.share.has(token)
    }

    /// The partitions that belong to this shard.
    pub fn share(&self) -> Share {
        self.share
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
        self.is_read_only
    }

    /// Refuses what would write to an attached table.
    #[inline]
    pub fn check_writable(&self) -> Result<(), EngineError> {
        if !self.is_read_only {
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

    /// DROP TABLE: what is in memory is forgotten, and what is on its way to disk stops.
    pub fn drop_contents(&self) {
        self.dropped.set(true);
        self.changed.signal();
        self.clear_cache();
        let Memtables { active, .. } = self.take_memtables();
        self.log.release(self.schema().id, &active.uses.take());
    }

    /// Takes all memtables away in one step. What sealed ones hold in the log is released by the flush queue.
    fn take_memtables(&self) -> Memtables {
        self.parked.clear();
        let sealed = self.sealed.take();
        Memtables { active: self.replace_active(), sealed }
    }

    /// Puts an empty memtable in the place of the active one, which it gives.
    fn replace_active(&self) -> Rc<LoggedMemtable> {
        let position = self.log.position();
        let before = self.active.replace(LoggedMemtable::new(self.schema(), position));
        before.logged_until.set(position);
        before
    }

    /// The memtable is in a sealed SSTable, which is in the table.
    fn has_flushed(&self, memtable: &LoggedMemtable) {
        self.flushed.borrow_mut().add(memtable.logged_from, memtable.logged_until.get());
    }

    /// Which entries of this run's log are in SSTables of the table.
    pub(crate) fn flushed(&self) -> Flushed {
        self.flushed.borrow().clone()
    }

    /// An SSTable has gone, or has lost something: after a crash everything is replayed.
    pub(crate) fn forget_flushed(&self) {
        *self.flushed.borrow_mut() = Flushed::default();
    }

    /// Forgets the memtables, until [`Self::release_forgotten`] makes it final.
    pub fn forget_memtables(&self) {
        let memtables = self.take_memtables();
        self.forgotten.borrow_mut().push(memtables);
    }

    /// What was forgotten is not needed any more.
    pub fn release_forgotten(&self) {
        let id = self.schema().id;
        for Memtables { active, .. } in self.forgotten.take() {
            self.log.release(id, &active.uses.take());
        }
    }

    /// Nobody knows whether what was forgotten comes back after a loss of power: its log entries stay until a restart.
    pub fn pin_forgotten(&self) {
        let forgotten = self.forgotten.take();
        forgotten.iter().flat_map(|memtables| &memtables.sealed).for_each(|sealed| drop(sealed.uses.take()));
    }

    /// What was forgotten last is there again. Gives the memtable that has to be queued, since no flush knows it.
    fn take_back_forgotten(&self) -> Option<Rc<LoggedMemtable>> {
        let Memtables { active, sealed } = self.forgotten.borrow_mut().pop()?;
        let unqueued = (!active.memtable.is_empty()).then_some(active);
        let mut all = sealed;
        all.extend(unqueued.clone());
        all.append(&mut self.sealed.borrow_mut());
        *self.sealed.borrow_mut() = all;
        unqueued
    }

    /// A memtable that was in these segments is an SSTable now.
    fn remember_logged(&self, uses: &Uses, least_timestamp_us: i64) {
        if !uses.is_empty() {
            self.logged.borrow_mut().push((uses.clone(), least_timestamp_us));
        }
    }

    /// The least timestamp of what is in SSTables and would nevertheless come out of the commit log, if the node
    /// crashed now; `None` if nothing would.
    pub fn replayable_since_us(&self) -> Option<i64> {
        let mut logged = self.logged.borrow_mut();
        logged.retain(|(uses, _)| self.log.may_replay(uses));
        logged.iter().map(|(_, least_us)| *least_us).min()
    }

    /// The least timestamp of the memtables that have something of the partition.
    pub fn memtables_since_us(&self, key: &PartitionKey) -> Option<i64> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let forgotten = self.forgotten.borrow();
        let forgotten = forgotten.iter().flat_map(|m| m.sealed.iter().chain([&m.active]));
        let all = [&*active].into_iter().chain(sealed.iter()).chain(forgotten);
        let with_key = all.filter(|logged| logged.memtable.contains(key));
        with_key.map(|logged| logged.memtable.least_times().timestamp_us).min()
    }

    /// The least timestamp in memtables; `None` if they are empty.
    pub fn memtable_min_timestamp_us(&self) -> Option<i64> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let all = [&*active].into_iter().chain(sealed.iter());
        let filled = all.filter(|logged| !logged.memtable.is_empty());
        filled.map(|logged| logged.memtable.least_times().timestamp_us).min()
    }

    /// These SSTables stay as they are until a restart.
    pub fn freeze(&self, names: impl Iterator<Item = SstableName>) {
        self.frozen.borrow_mut().extend(names);
    }

    /// These SSTables are as all others again.
    pub(crate) fn thaw(&self, names: &[SstableName]) {
        self.frozen.borrow_mut().retain(|name| !names.contains(name));
    }

    /// The SSTable with this file is damaged: compactions leave it alone until a restart. Reads go on trying.
    pub fn quarantine(&self, file: &Path) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Ok((name, _)) = SstableName::parse_file_name(name) {
            self.quarantined.borrow_mut().insert(name);
        }
    }

    pub fn is_quarantined(&self, name: SstableName) -> bool {
        self.quarantined.borrow().contains(&name)
    }

    /// The SSTables in quarantine, by name.
    pub fn quarantined(&self) -> Vec<SstableName> {
        let mut names: Vec<SstableName> = self.quarantined.borrow().iter().copied().collect();
        names.sort();
        names
    }

    pub(crate) fn runs_to_merge(&self) -> usize {
        self.runs_to_merge.get()
    }

    pub(crate) fn set_runs_to_merge(&self, runs: usize) {
        self.runs_to_merge.set(runs);
    }

    pub fn is_frozen(&self, name: SstableName) -> bool {
        self.frozen.borrow().contains(&name)
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

    /// Why the table cannot be read, if it cannot: SSTables that could not be opened. Writes go on.
    pub fn unreadable(&self) -> Vec<String> {
        self.unreadable.borrow().iter().map(|(_, why)| why.clone()).collect()
    }

    /// The SSTables that could not be opened.
    pub fn unreadable_names(&self) -> Vec<SstableName> {
        self.unreadable.borrow().iter().filter_map(|(name, _)| *name).collect()
    }

    /// What could be read of this SSTable is in others now.
    pub(crate) fn has_salvaged(&self, name: SstableName) {
        self.unreadable.borrow_mut().retain(|(unreadable, _)| *unreadable != Some(name));
        self.forget_flushed();
    }

    /// Components of its SSTables that were damaged or missing at the start and could be done without, each with what was wrong.
    pub fn rebuilt(&self) -> Vec<String> {
        self.rebuilt.borrow().clone()
    }

    pub fn check_readable(&self) -> Result<(), EngineError> {
        let unreadable = self.unreadable();
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

    /// Bytes of all memtables, sealed ones included.
    pub fn memtable_bytes(&self) -> usize {
        let sealed: usize = self.sealed.borrow().iter().map(|sealed| sealed.memtable.charged_bytes()).sum();
        self.active.borrow().memtable.charged_bytes() + sealed
    }

    /// A reader over each source that may have something of what is wanted. Merged, they are the table. What is not in
    /// memory is read in `io_class`.
    pub fn readers(&self, spec: &ReadSpec, bypass_cache: bool, io_class: IoClass) -> Vec<Box<dyn Reader>> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let memtables = [&*active].into_iter().chain(sealed.iter()).map(|logged| &logged.memtable);
        let mut readers: Vec<Box<dyn Reader>> =
            memtables.filter(|memtable| !memtable.is_empty()).map(|memtable| memtable.reader(spec)).collect();
        let is_point = matches!(spec.partitions, PartitionRange::Key(_));
        spec.note(|| format!("Reading {} memtables", readers.len()));
        match &spec.partitions {
            PartitionRange::Key(key)
                if !bypass_cache && self.cache.get().is_some_and(|cache| cache.is_on()) =>
            {
                readers.extend(self.cached_reader(spec, key, io_class));
            }
            _ => {
                let sstables = self.sstables.borrow();
                let wanted =
                    sstables.iter().filter(|sstable| may_have(sstable, spec, &self.counters.sstables));
                let in_memory = readers.len();
                readers.extend(wanted.map(|sstable| sstable_reader(sstable, spec, bypass_cache, io_class)));
                if is_point {
                    self.counters.sstables.per_read.borrow_mut().add(readers.len() - in_memory);
                }
            }
        }
        if is_point {
            SSTableCounters::count(&self.counters.point_reads);
        }
        if readers.is_empty() {
            readers.push(active.memtable.reader(spec));
        }
        readers
    }
}

impl Table {
    /// A reader over what all SSTables have of the partition; `None` if they have nothing.
    fn cached_reader(
        &self,
        spec: &ReadSpec,
        key: &PartitionKey,
        io_class: IoClass,
    ) -> Option<Box<dyn Reader>> {
        let cache = self.cache.get()?;
        let sstables = self.sstables.borrow();
        let cached = cache.find(key);
        spec.note(|| {
            let known = if cached.is_some() { "something" } else { "nothing" };
            format!("The row cache knows {known} of the partition; it mirrors {} SSTables", sstables.len())
        });
        let counters = self.counters.sstables.clone();
        let below = if cached.is_some() {
            let opened = Cell::new(0);
            SSTablesBelow { sstables: sstables.clone(), is_filtered: false, opened, io_class, counters }
        } else {
            let wanted: Vec<_> =
                sstables.iter().filter(|sstable| may_have(sstable, spec, &counters)).cloned().collect();
            if wanted.is_empty() {
                // The filters know that, without a read; it is not worth memory.
                counters.per_read.borrow_mut().add(0);
                return None;
            }
            let opened = Cell::new(wanted.len());
            SSTablesBelow { sstables: Rc::new(wanted), is_filtered: true, opened, io_class, counters }
        };
        Some(Box::new(CacheReader::new(cache, spec, key, cached, below)))
    }
}

/// The SSTables that the row cache mirrors.
struct SSTablesBelow {
    sstables: Rc<Vec<Rc<SSTable>>>,
    /// They are those that may have something of what is wanted.
    is_filtered: bool,
    /// How many the read has opened.
    opened: Cell<usize>,
    io_class: IoClass,
    counters: Rc<SSTableCounters>,
}

impl Drop for SSTablesBelow {
    fn drop(&mut self) {
        self.counters.per_read.borrow_mut().add(self.opened.get());
    }
}

impl Below for SSTablesBelow {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader> {
        let wanted = self
            .sstables
            .iter()
            .filter(|sstable| self.is_filtered || may_have(sstable, spec, &self.counters));
        let readers: Vec<_> =
            wanted.map(|sstable| sstable_reader(sstable, spec, false, self.io_class)).collect();
        if !self.is_filtered {
            self.opened.set(self.opened.get() + readers.len());
        }
        MergeReader::of(spec, readers)
    }
}

fn sstable_reader(
    sstable: &Rc<SSTable>,
    spec: &ReadSpec,
    bypass_cache: bool,
    io_class: IoClass,
) -> Box<dyn Reader> {
    SSTableSource::new(sstable.clone(), io_class).bypass_cache(bypass_cache).reader(spec)
}

/// Why it is read or not, for people.
fn verdict(sstable: &SSTable, spec: &ReadSpec, partitions: bool, rows: bool) -> &'static str {
    match (&spec.partitions, partitions, rows) {
        (_, true, true) => "is read",
        (_, true, false) => "skipped, its clustering keys are others",
        (PartitionRange::Key(key), false, _) if (sstable.first_key()..=sstable.last_key()).contains(&key) => {
            "skipped, its bloom filter does not have the key"
        }
        (PartitionRange::Key(_), false, _) => "skipped, the key is outside of its keys",
        (PartitionRange::Between { .. }, false, _) => "skipped, the range is outside of its keys",
    }
}

/// Whether the SSTable has to be opened for the read; counts why it has not.
fn may_have(sstable: &Rc<SSTable>, spec: &ReadSpec, counters: &SSTableCounters) -> bool {
    let partitions = match &spec.partitions {
        PartitionRange::Key(key) => sstable.may_contain(key),
        range @ PartitionRange::Between { .. } => sstable.may_contain_range(range),
    };
    let rows = partitions && sstable.may_contain_clustering(&spec.schema, &spec.ranges);
    SSTableCounters::count(match (partitions, rows) {
        (false, _) => &counters.skipped_by_partition,
        (true, false) => &counters.skipped_by_clustering,
        (true, true) => &counters.opened,
    });
    spec.note(|| format!("SSTable {}: {}", sstable.name(), verdict(sstable, spec, partitions, rows)));
    if rows && matches!(spec.partitions, PartitionRange::Key(_)) {
        SSTableCounters::count(&counters.opened_for_points);
    }
    rows
}
