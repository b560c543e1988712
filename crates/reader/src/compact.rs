//! Leaves out what is deleted, what has expired and what may be purged.
//!
//! What it keeps depends on who asks: a compaction keeps every tombstone that is still needed, a query keeps
//! only what its client sees. Partitions of which nothing is left do not appear at all.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use model::{ClusteringKey, NO_DELETION_TIME_S, PartitionKey, Purge, RangeTombstoneChange, Row, Tombstone};

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::fragment::{Fragment, Reader, RowFragment, Step};

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything that is not purged, tombstones included.
    Needed,
    /// Rows with something live in them, and of those only what is live. No deletion appears.
    Live,
}

/// Says for each partition what may be purged.
pub trait PurgePolicy {
    fn purge(&mut self, key: &PartitionKey) -> Purge;

    /// Of the partition that [`Self::purge`] was last asked about, so many tombstones and expired cells were kept
    /// because they are too young, and so many because something outside may need them.
    fn kept(&mut self, _young: u64, _blocked: u64) {}
}

/// The same for every partition.
impl PurgePolicy for Purge {
    fn purge(&mut self, _: &PartitionKey) -> Purge {
        *self
    }
}

impl<F: FnMut(&PartitionKey) -> Purge> PurgePolicy for F {
    fn purge(&mut self, key: &PartitionKey) -> Purge {
        self(key)
    }
}

/// What was purged, as fragments in order, for who must keep it until what it deletes is gone for good. Whole
/// partitions, but for the last one.
pub type Garbage = Rc<RefCell<VecDeque<Fragment>>>;

/// Collects what is purged.
struct Collecting {
    into: Garbage,
    key: PartitionKey,
    tombstone: Tombstone,
    /// Something of the partition was collected.
    has_begun: bool,
    /// The purged range deletion that is in force.
    in_force: Tombstone,
}

impl Collecting {
    fn start(&mut self, key: &PartitionKey, purged: Tombstone) {
        self.key = key.clone();
        self.tombstone = purged;
        self.has_begun = false;
        self.in_force = Tombstone::LIVE;
        if !purged.is_live() {
            self.begin();
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let start = Fragment::PartitionStart { key: self.key.clone(), tombstone: self.tombstone };
            self.into.borrow_mut().push_back(start);
        }
    }

    fn push(&mut self, fragment: Fragment) {
        self.begin();
        self.into.borrow_mut().push_back(fragment);
    }

    fn change(&mut self, position: &model::Position, purged: Tombstone) {
        if purged != self.in_force {
            self.in_force = purged;
            self.push(Fragment::Change(RangeTombstoneChange {
                position: position.clone(),
                tombstone: purged,
            }));
        }
    }

    fn end(&mut self) {
        if self.has_begun {
            self.into.borrow_mut().push_back(Fragment::PartitionEnd);
        }
    }
}

/// Fragments that are left out in a row before the caller may let others run.
const SKIPPED_MAX: u32 = 256;

/// How far a reader has come that has met nothing but what is dead for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// This row of the current partition.
    Row(ClusteringKey),
    /// The whole of a partition that has not been let out.
    Partition(PartitionKey),
}

/// See the head of this file.
pub struct CompactReader<R, P> {
    inner: R,
    policy: P,
    keep: Keep,
    purge: Purge,
    partition_tombstone: Tombstone,
    /// The range deletion in force in the stream that comes in, and the one that was let out.
    in_force: Tombstone,
    shown: Tombstone,
    /// The start of the current partition, not let out before something follows it.
    start: Option<Fragment>,
    /// What goes out next.
    next: Option<Fragment>,
    /// Row tombstones and dead cells met so far; a read that meets many is slow for a reason.
    tombstones_seen: u64,
    /// Said with the last `Step::Load`, if that was to let others run.
    passed: Option<Passed>,
    collecting: Option<Box<Collecting>>,
    /// Dead things of the current partition that were kept: too young, and needed outside.
    kept_young: u64,
    kept_blocked: u64,
}

impl<R: Reader, P: PurgePolicy> CompactReader<R, P> {
    pub fn new(inner: R, policy: P, keep: Keep) -> Self {
        Self {
            inner,
            policy,
            keep,
            purge: Purge::nothing(0),
            partition_tombstone: Tombstone::LIVE,
            in_force: Tombstone::LIVE,
            shown: Tombstone::LIVE,
            start: None,
            next: None,
            tombstones_seen: 0,
            passed: None,
            collecting: None,
            kept_young: 0,
            kept_blocked: 0,
        }
    }

    /// Collects what is purged, which merged with what comes out is the whole again. For [`Keep::Needed`].
    #[must_use]
    pub fn collecting(mut self, garbage: Garbage) -> Self {
        assert!(self.keep == Keep::Needed, "a query collects nothing");
        self.collecting = Some(Box::new(Collecting {
            into: garbage,
            key: PartitionKey::new(&b""[..]),
            tombstone: Tombstone::LIVE,
            has_begun: false,
            in_force: Tombstone::LIVE,
        }));
        self
    }

    pub fn tombstones_seen(&self) -> u64 {
        self.tombstones_seen
    }

    /// After `Step::Load`: `None` if there is something to load, else how far it has come through what is dead.
    pub fn take_passed(&mut self) -> Option<Passed> {
        self.passed.take()
    }

    /// The partition that is being read, if nothing of it has been let out yet.
    pub fn held_key(&self) -> Option<&PartitionKey> {
        match &self.start {
            Some(Fragment::PartitionStart { key, .. }) => Some(key),
            _ => None,
        }
    }

    fn keeps_tombstone(&self, tombstone: Tombstone) -> bool {
        self.keep == Keep::Needed && !self.purge.may_drop(tombstone)
    }

    fn count_kept(&mut self, deletion_time_s: u32) {
        if deletion_time_s < self.purge.gc_before_s {
            self.kept_blocked += 1;
        } else {
            self.kept_young += 1;
        }
    }

    /// Counts what is dead in a row that goes out.
    fn count_kept_of(&mut self, row: &Row) {
        use model::ColumnData::{Complex, Simple};
        let now_s = self.purge.now_s;
        if !row.deletion.is_live() {
            self.count_kept(row.deletion.deletion_time_s);
        }
        for (_, data) in row.cells() {
            match data {
                Simple(cell) => {
                    if let Some(since_s) = cell.dead_since_s(now_s) {
                        self.count_kept(since_s);
                    }
                }
                Complex(complex) => {
                    if !complex.deletion.is_live() {
                        self.count_kept(complex.deletion.deletion_time_s);
                    }
                    for since_s in complex.cells.iter().filter_map(|element| element.cell.dead_since_s(now_s))
                    {
                        self.count_kept(since_s);
                    }
                }
            }
        }
    }

    fn start_partition(&mut self, key: PartitionKey, tombstone: Tombstone) -> Option<Fragment> {
        self.purge = match self.keep {
            Keep::Needed => self.policy.purge(&key),
            Keep::Live => Purge {
                gc_before_s: NO_DELETION_TIME_S,
                max_purgeable_us: i64::MAX,
                ..self.policy.purge(&key)
            },
        };
        self.partition_tombstone = tombstone;
        self.in_force = Tombstone::LIVE;
        self.shown = Tombstone::LIVE;
        let is_kept = self.keeps_tombstone(tombstone);
        if is_kept {
            self.count_kept(tombstone.deletion_time_s);
        }
        if let Some(collecting) = &mut self.collecting {
            collecting.start(&key, if is_kept { Tombstone::LIVE } else { tombstone });
        }
        if is_kept {
            return Some(Fragment::PartitionStart { key, tombstone });
        }
        self.start = Some(Fragment::PartitionStart { key, tombstone: Tombstone::LIVE });
        None
    }

    /// Whether the row would be the same after `self.row`; then a shared row stays shared.
    fn is_untouched(&self, row: &Row, deleted: Tombstone) -> bool {
        use model::ColumnData::{Complex, Simple};
        deleted.is_live()
            && row.deletion.is_live()
            && !row.liveness.is_expiring()
            && row.cells().iter().all(|(_, data)| match data {
                Simple(cell) => cell.local_deletion_time_s == NO_DELETION_TIME_S,
                Complex(complex) => {
                    complex.deletion.is_live()
                        && complex.cells.iter().all(|e| e.cell.local_deletion_time_s == NO_DELETION_TIME_S)
                }
            })
    }

    /// Compacts the row at `key`, or the static row; false if nothing of it is kept.
    fn compact_row(&mut self, key: Option<&model::ClusteringKey>, row: &mut Row, deleted: Tombstone) -> bool {
        let was_dead = !row.deletion.is_live() || row.cells().iter().any(|(_, data)| matches!(data, model::ColumnData::Simple(cell) if !cell.is_live_at(self.purge.now_s)));
        row.shadow(deleted);
        if was_dead || row.is_empty() {
            self.tombstones_seen += 1;
        }
        if let Some(collecting) = &mut self.collecting {
            let dropped = self.purge.dropped(row);
            if !dropped.is_empty() {
                let row = Rc::new(dropped);
                collecting.push(match key {
                    Some(key) => Fragment::Row(RowFragment { key: key.clone(), row }),
                    None => Fragment::Static(row),
                });
            }
        }
        self.purge.row(row);
        if self.keep == Keep::Needed {
            self.count_kept_of(row);
        }
        match self.keep {
            Keep::Needed => !row.is_empty(),
            Keep::Live => row.is_live_at(self.purge.now_s),
        }
    }

    /// Lets `fragment` out, after the start of its partition if that has not gone out yet.
    fn emit(&mut self, fragment: Fragment) -> Fragment {
        match self.start.take() {
            Some(start) => {
                self.next = Some(fragment);
                start
            }
            None => fragment,
        }
    }
}

impl<R: Reader, P: PurgePolicy> Reader for CompactReader<R, P> {
    fn next(&mut self) -> Result<Step, ReadError> {
        if let Some(fragment) = self.next.take() {
            return Ok(Step::Ready(fragment));
        }
        let mut skipped = 0;
        loop {
            let fragment = match self.inner.next()? {
                Step::Ready(fragment) => fragment,
                other => return Ok(other),
            };
            skipped += 1;
            let kept = match fragment {
                Fragment::PartitionStart { key, tombstone } => self.start_partition(key, tombstone),
                Fragment::Static(mut row) => {
                    let deleted = self.partition_tombstone;
                    let kept = self.is_untouched(&row, deleted)
                        || self.compact_row(None, Rc::make_mut(&mut row), deleted);
                    kept.then(|| self.emit(Fragment::Static(row)))
                }
                Fragment::Row(mut row) => {
                    let deleted = self.partition_tombstone.max(self.in_force);
                    let kept = (self.is_untouched(&row.row, deleted) && !row.row.is_empty())
                        || self.compact_row(Some(&row.key), Rc::make_mut(&mut row.row), deleted);
                    if !kept && skipped >= SKIPPED_MAX {
                        self.passed = Some(Passed::Row(row.key));
                        return Ok(Step::Load);
                    }
                    kept.then(|| self.emit(Fragment::Row(row)))
                }
                Fragment::Change(RangeTombstoneChange { position, tombstone }) => {
                    self.in_force = tombstone;
                    let covered = self.partition_tombstone.max(tombstone) == self.partition_tombstone;
                    let is_kept = self.keeps_tombstone(tombstone);
                    let shown = if covered || !is_kept { Tombstone::LIVE } else { tombstone };
                    if let Some(collecting) = &mut self.collecting {
                        let purged = if covered || is_kept { Tombstone::LIVE } else { tombstone };
                        collecting.change(&position, purged);
                    }
                    (shown != self.shown).then(|| {
                        if !shown.is_live() {
                            self.count_kept(shown.deletion_time_s);
                        }
                        self.shown = shown;
                        self.emit(Fragment::Change(RangeTombstoneChange { position, tombstone: shown }))
                    })
                }
                // A partition whose start was never let out was empty.
                Fragment::PartitionEnd => {
                    if let Some(collecting) = &mut self.collecting {
                        collecting.end();
                    }
                    if self.kept_young + self.kept_blocked > 0 {
                        self.policy.kept(self.kept_young, self.kept_blocked);
                        (self.kept_young, self.kept_blocked) = (0, 0);
                    }
                    match self.start.take() {
                        None => Some(Fragment::PartitionEnd),
                        Some(Fragment::PartitionStart { key, .. }) if skipped >= SKIPPED_MAX => {
                            self.passed = Some(Passed::Partition(key));
                            return Ok(Step::Load);
                        }
                        Some(_) => None,
                    }
                }
            };
            if let Some(fragment) = kept {
                return Ok(Step::Ready(fragment));
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        self.inner.load()
    }

    fn skip_partition(&mut self) {
        self.next = None;
        self.start = None;
        self.inner.skip_partition();
    }
}
