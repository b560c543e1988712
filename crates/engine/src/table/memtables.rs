//! The memtables of a table on a shard: the active one, the sealed ones, and those that an unfinished
//! truncate has removed.
//!
//! Also the state of their flushes in the commit log: the entries that SSTables contain ([`Flushed`]), and
//! those of them that a replay would nevertheless apply.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use model::{PartitionKey, TableId, TableSchema};

use crate::commitlog::{CommitLog, LogPosition, SegmentRefs};
use crate::manifest::Flushed;
use crate::memtable::Memtable;

/// A memtable, with the number of its entries in each commit log segment.
pub struct LoggedMemtable {
    pub memtable: Memtable,
    pub segments: RefCell<SegmentRefs>,
    /// It has every entry of the table from this position up to `logged_until`.
    logged_from: LogPosition,
    /// Set when it stops being the active one.
    logged_until: Cell<LogPosition>,
    /// It has mutations of batches that other memtables have mutations of: it is flushed after the log's
    /// entries have been synced.
    pub has_batch: Cell<bool>,
    /// Time of its first write, in the shard's monotonic time.
    pub first_write_us: Cell<Option<u64>>,
}

impl LoggedMemtable {
    /// A new active memtable; the log's next entry is at `position` or later.
    fn new(schema: Arc<TableSchema>, position: LogPosition) -> Rc<Self> {
        Rc::new(Self {
            memtable: Memtable::new(schema),
            segments: RefCell::default(),
            logged_from: position,
            logged_until: Cell::new(position),
            has_batch: Cell::new(false),
            first_write_us: Cell::new(None),
        })
    }
}

/// Memtables that were removed together.
struct Taken {
    active: Rc<LoggedMemtable>,
    /// These are in the flush queue too.
    sealed: Vec<Rc<LoggedMemtable>>,
}

/// See the head of this file.
pub struct Memtables {
    active: RefCell<Rc<LoggedMemtable>>,
    /// Sealed and not yet in an SSTable, oldest first.
    sealed: RefCell<Vec<Rc<LoggedMemtable>>>,
    /// Removed by truncates; kept with their log entries until the truncate is durable.
    forgotten: RefCell<Vec<Taken>>,
    /// Set while a truncate or a snapshot determines its SSTables: only these memtables may be flushed.
    flush_only: RefCell<Option<Vec<Rc<LoggedMemtable>>>>,
    /// The segments and least timestamps of flushed memtables, while the segments exist.
    logged: RefCell<Vec<(SegmentRefs, i64)>>,
    /// Entries of this run's log that SSTables contain.
    flushed: RefCell<Flushed>,
}

impl Memtables {
    pub(super) fn new(schema: Arc<TableSchema>, position: LogPosition) -> Self {
        Self {
            active: RefCell::new(LoggedMemtable::new(schema, position)),
            sealed: RefCell::default(),
            forgotten: RefCell::default(),
            flush_only: RefCell::default(),
            logged: RefCell::default(),
            flushed: RefCell::default(),
        }
    }

    /// The memtable that takes writes.
    #[inline]
    pub fn active(&self) -> Rc<LoggedMemtable> {
        self.active.borrow().clone()
    }

    pub fn sealed(&self) -> Vec<Rc<LoggedMemtable>> {
        self.sealed.borrow().clone()
    }

    /// The active one, then the sealed ones, oldest first.
    pub(crate) fn for_each<'a>(&self, mut f: impl FnMut(&Rc<LoggedMemtable>, bool) + 'a) {
        f(&self.active.borrow(), false);
        self.sealed.borrow().iter().for_each(|sealed| f(sealed, true));
    }

    /// Bytes of the active one and the sealed ones.
    pub fn bytes(&self) -> usize {
        let sealed: usize = self.sealed.borrow().iter().map(|sealed| sealed.memtable.charged_bytes()).sum();
        self.active.borrow().memtable.charged_bytes() + sealed
    }

    pub(super) fn set_schema(&self, schema: Arc<TableSchema>) {
        self.active.borrow().memtable.set_schema(schema);
    }

    /// Replaces the active memtable by an empty one, and returns it.
    fn replace_active(&self, schema: Arc<TableSchema>, position: LogPosition) -> Rc<LoggedMemtable> {
        let before = self.active.replace(LoggedMemtable::new(schema, position));
        before.logged_until.set(position);
        before
    }

    /// Seals the active memtable, if it is not empty, and returns it for the flush queue.
    pub(super) fn seal(&self, schema: Arc<TableSchema>, position: LogPosition) -> Option<Rc<LoggedMemtable>> {
        if self.active.borrow().memtable.is_empty() {
            return None;
        }
        let active = self.replace_active(schema, position);
        self.sealed.borrow_mut().push(active.clone());
        Some(active)
    }

    /// Whether no truncate has removed the sealed memtable.
    pub fn is_sealed(&self, memtable: &Rc<LoggedMemtable>) -> bool {
        self.sealed.borrow().iter().any(|sealed| Rc::ptr_eq(sealed, memtable))
    }

    /// Removes a memtable whose SSTable is in the table.
    pub(super) fn remove_sealed(&self, memtable: &Rc<LoggedMemtable>) {
        self.sealed.borrow_mut().retain(|sealed| !Rc::ptr_eq(sealed, memtable));
    }

    fn take(&self, schema: Arc<TableSchema>, position: LogPosition) -> Taken {
        let sealed = self.sealed.take();
        Taken { active: self.replace_active(schema, position), sealed }
    }

    /// Removes all memtables for good. Returns the log entries of the active one; those of the sealed ones
    /// are released by the flush queue.
    pub(super) fn clear(&self, schema: Arc<TableSchema>, position: LogPosition) -> SegmentRefs {
        self.take(schema, position).active.segments.take()
    }

    /// Removes all memtables; [`Self::release_forgotten`] makes it final.
    pub(super) fn forget(&self, schema: Arc<TableSchema>, position: LogPosition) {
        let taken = self.take(schema, position);
        self.forgotten.borrow_mut().push(taken);
    }

    /// Releases the log entries of memtables removed by a truncate.
    pub(super) fn release_forgotten(&self, log: &Rc<CommitLog>, id: TableId) {
        for Taken { active, .. } in self.forgotten.take() {
            log.release(id, &active.segments.take());
        }
    }

    /// Keeps the log entries of memtables removed by a truncate until a restart, because a loss of power may
    /// undo the truncate.
    pub fn pin_forgotten(&self) {
        let forgotten = self.forgotten.take();
        forgotten.iter().flat_map(|taken| &taken.sealed).for_each(|sealed| drop(sealed.segments.take()));
    }

    /// Restores the memtables that were removed last. Returns the one that must be queued, because it is not
    /// in the flush queue.
    pub(crate) fn restore_forgotten(&self) -> Option<Rc<LoggedMemtable>> {
        let Taken { active, sealed } = self.forgotten.borrow_mut().pop()?;
        let unqueued = (!active.memtable.is_empty()).then_some(active);
        let mut all = sealed;
        all.extend(unqueued.clone());
        all.append(&mut self.sealed.borrow_mut());
        *self.sealed.borrow_mut() = all;
        unqueued
    }

    /// Whether the memtable's flush has to wait.
    pub(crate) fn blocks_flush(&self, sealed: &Rc<LoggedMemtable>) -> bool {
        let only = self.flush_only.borrow();
        only.as_ref().is_some_and(|only| !only.iter().any(|allowed| Rc::ptr_eq(allowed, sealed)))
    }

    /// Allows only these memtables to be flushed until [`Self::allow_flushes`].
    pub(crate) fn hold_flushes(&self, only: Vec<Rc<LoggedMemtable>>) {
        *self.flush_only.borrow_mut() = Some(only);
    }

    pub(crate) fn allow_flushes(&self) {
        *self.flush_only.borrow_mut() = None;
    }

    /// Records that the memtable is in a sealed SSTable, which is in the table.
    pub(crate) fn add_flushed(&self, memtable: &LoggedMemtable) {
        self.flushed.borrow_mut().add(memtable.logged_from, memtable.logged_until.get());
    }

    /// Entries of this run's log that SSTables of the table contain.
    pub(super) fn flushed(&self) -> Flushed {
        self.flushed.borrow().clone()
    }

    /// Called when an SSTable was removed or has lost data: after a crash all entries are replayed.
    pub(super) fn forget_flushed(&self) {
        *self.flushed.borrow_mut() = Flushed::default();
    }

    /// Records the segments of a memtable that was flushed.
    pub(crate) fn add_logged(&self, segments: &SegmentRefs, least_timestamp_us: i64) {
        if !segments.is_empty() {
            self.logged.borrow_mut().push((segments.clone(), least_timestamp_us));
        }
    }

    /// The least timestamp of data that is in SSTables and would nevertheless be replayed from `log` after a
    /// crash now; `None` if there is none.
    pub(super) fn replayable_since_us(&self, log: &CommitLog) -> Option<i64> {
        let mut logged = self.logged.borrow_mut();
        logged.retain(|(segments, _)| log.may_replay(segments));
        logged.iter().map(|(_, least_us)| *least_us).min()
    }

    /// The least timestamp of the memtables that have the partition, including those removed by a truncate.
    pub fn since_us_of(&self, key: &PartitionKey) -> Option<i64> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let forgotten = self.forgotten.borrow();
        let forgotten = forgotten.iter().flat_map(|taken| taken.sealed.iter().chain([&taken.active]));
        let all = [&*active].into_iter().chain(sealed.iter()).chain(forgotten);
        let with_key = all.filter(|logged| logged.memtable.contains(key));
        with_key.map(|logged| logged.memtable.least_times().timestamp_us).min()
    }

    /// The least timestamp; `None` if they are empty.
    pub fn min_timestamp_us(&self) -> Option<i64> {
        let active = self.active.borrow();
        let sealed = self.sealed.borrow();
        let all = [&*active].into_iter().chain(sealed.iter());
        let filled = all.filter(|logged| !logged.memtable.is_empty());
        filled.map(|logged| logged.memtable.least_times().timestamp_us).min()
    }
}
