//! Removes deleted data, expired data and purgeable tombstones from a stream.
//!
//! What remains depends on the use: a compaction keeps every tombstone that is still needed, a query keeps
//! only the data that its client sees. Partitions that become empty are omitted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use model::{ClusteringKey, NO_DELETION_TIME_S, PartitionKey, Purge, RangeTombstoneChange, Row, Tombstone};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, Reader, RowFragment, Step};

/// Which data a [`CompactReader`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All data that is not purged, including tombstones.
    Needed,
    /// Rows with live data, reduced to that data. No tombstone is emitted.
    Live,
}

/// Decides for each partition which tombstones may be purged.
pub trait PurgePolicy {
    /// What may be purged in the partition `key`. Called once at the start of each partition, in reading
    /// order.
    fn purge(&mut self, key: &PartitionKey) -> Purge;

    /// Reports the tombstones and expired cells that were kept in the partition of the last call of
    /// [`Self::purge`]: `_young` because they are too young, `_blocked` because data outside may need them.
    fn kept(&mut self, _young: u64, _blocked: u64) {}
}

/// The same decision for every partition.
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

/// Purged data as fragments in order, for a caller that must keep it until the deletion is final. All
/// partitions are complete, except for the last.
pub type Garbage = Rc<RefCell<VecDeque<Fragment>>>;

/// Collects purged data.
struct Collecting {
    into: Garbage,
    key: PartitionKey,
    tombstone: Tombstone,
    /// Whether some data of the partition was collected.
    has_begun: bool,
    /// The purged range tombstone in force.
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

/// Number of consecutive fragments that may be removed before the reader offers its caller a chance to yield.
const SKIPPED_MAX: u32 = 256;

/// Position of a reader that has met only dead data for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The reader has passed this row of the current partition.
    Row(ClusteringKey),
    /// The reader has passed the whole of a partition that is not emitted.
    Partition(PartitionKey),
}

/// Reader that removes deleted, expired and purgeable data. See the head of this file.
pub struct CompactReader<R, P> {
    inner: R,
    policy: P,
    keep: Keep,
    /// Rows exist only while they have a live row marker; see [`Self::needing_markers`].
    needs_marker: bool,
    purge: Purge,
    partition_tombstone: Tombstone,
    /// The range tombstone in force in the input (`in_force`), and in the output (`shown`).
    in_force: Tombstone,
    shown: Tombstone,
    /// The start of the current partition. It is emitted only when a fragment follows it.
    start: Option<Fragment>,
    /// The next fragment to emit.
    next: Option<Fragment>,
    /// The number of rows so far that contain a row tombstone or a dead cell, or are empty after shadowing.
    /// Explains why a read is slow.
    tombstones_seen: u64,
    /// The newest timestamp of a tombstone or dead cell so far.
    newest_deletion_us: Option<i64>,
    /// The position for [`Self::take_passed`], set if the last `Step::Load` only offered a chance to yield.
    passed: Option<Passed>,
    collecting: Option<Box<Collecting>>,
    /// Tombstones and expired cells of the current partition that were kept: because they are too young, or
    /// because data outside may need them.
    kept_young: u64,
    kept_blocked: u64,
}

impl<R: Reader, P: PurgePolicy> CompactReader<R, P> {
    /// Compacts the fragments of `inner`. `policy` decides what may be purged; `keep` decides whether dead
    /// data that must be kept is returned.
    pub fn new(inner: R, policy: P, keep: Keep) -> Self {
        Self {
            inner,
            policy,
            keep,
            needs_marker: false,
            purge: Purge::nothing(0),
            partition_tombstone: Tombstone::LIVE,
            in_force: Tombstone::LIVE,
            shown: Tombstone::LIVE,
            start: None,
            next: None,
            tombstones_seen: 0,
            newest_deletion_us: None,
            passed: None,
            collecting: None,
            kept_young: 0,
            kept_blocked: 0,
        }
    }

    /// Sets whether a row exists only while it has a live row marker, whatever its cells are
    /// ([`model::TableSchema::needs_row_marker`]). With [`Keep::Needed`], the cells of a row go together with
    /// its dead marker.
    #[must_use]
    pub fn needing_markers(mut self, needs_marker: bool) -> Self {
        self.needs_marker = needs_marker;
        self
    }

    /// Collects the purged data in `garbage`. The output and the garbage merged are the input again. Only for
    /// [`Keep::Needed`].
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

    /// The number of rows with dead data that were read so far.
    pub fn tombstones_seen(&self) -> u64 {
        self.tombstones_seen
    }

    /// The newest timestamp of a deletion of the data that were read so far.
    pub fn newest_deletion_us(&self) -> Option<i64> {
        self.newest_deletion_us
    }

    fn saw_deletion(&mut self, tombstone: Tombstone) {
        if !tombstone.is_live() {
            self.newest_deletion_us = self.newest_deletion_us.max(Some(tombstone.timestamp_us));
        }
    }

    /// Notes the deletions that a row holds, before other deletions are applied to it.
    fn saw_deletions_of(&mut self, row: &Row) {
        use model::ColumnData::{Complex, Simple};
        self.saw_deletion(row.deletion);
        let now_s = self.purge.now_s;
        let mut dead = |cell: &model::Cell| {
            if !cell.is_live_at(now_s) {
                self.newest_deletion_us = self.newest_deletion_us.max(Some(cell.timestamp_us));
            }
        };
        for (_, data) in row.cells() {
            match data {
                Simple(cell) => dead(cell),
                Complex(complex) => complex.cells.iter().for_each(|element| dead(&element.cell)),
            }
        }
        for (_, data) in row.cells() {
            if let Complex(complex) = data {
                self.saw_deletion(complex.deletion);
            }
        }
    }

    /// After `Step::Load`: `None` if data has to be loaded; otherwise the position that the reader has
    /// reached in dead data.
    pub fn take_passed(&mut self) -> Option<Passed> {
        self.passed.take()
    }

    /// The partition that is being read, if no fragment of it has been emitted yet.
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

    /// Counts the tombstones and expired cells of a row that is emitted.
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
        self.saw_deletion(tombstone);
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

    /// Whether compaction would leave the row as it is. Such a row stays shared and is not copied.
    fn is_untouched(&self, row: &Row, deleted: Tombstone) -> bool {
        use model::ColumnData::{Complex, Simple};
        deleted.is_live()
            && row.deletion.is_live()
            && !row.liveness.is_expiring()
            && (!self.needs_marker || !row.liveness.is_none())
            && row.cells().iter().all(|(_, data)| match data {
                Simple(cell) => cell.local_deletion_time_s == NO_DELETION_TIME_S,
                Complex(complex) => {
                    complex.deletion.is_live()
                        && complex.cells.iter().all(|e| e.cell.local_deletion_time_s == NO_DELETION_TIME_S)
                }
            })
    }

    /// Compacts the row at `key`, or the static row. False if nothing of it is kept.
    fn compact_row(&mut self, key: Option<&model::ClusteringKey>, row: &mut Row, deleted: Tombstone) -> bool {
        let was_dead = !row.deletion.is_live() || row.cells().iter().any(|(_, data)| matches!(data, model::ColumnData::Simple(cell) if !cell.is_live_at(self.purge.now_s)));
        if self.keep == Keep::Live {
            self.saw_deletions_of(row);
        }
        row.shadow(deleted);
        if was_dead || row.is_empty() {
            self.tombstones_seen += 1;
        }
        // What is dropped if the marker is kept, and the row before.
        let dropped = self.collecting.is_some().then(|| self.purge.dropped(row));
        let whole = (self.collecting.is_some() && self.needs_marker).then(|| row.clone());
        self.purge.row(row);
        let lacks_marker =
            self.needs_marker && key.is_some() && row.liveness.is_none() && row.deletion.is_live();
        if let Some(collecting) = &mut self.collecting {
            let dropped = if lacks_marker { whole } else { dropped };
            if let Some(dropped) = dropped.filter(|dropped| !dropped.is_empty()) {
                let row = Rc::new(dropped);
                collecting.push(match key {
                    Some(key) => Fragment::Row(RowFragment { key: key.clone(), row }),
                    None => Fragment::Static(row),
                });
            }
        }
        match self.keep {
            Keep::Needed if lacks_marker => false,
            Keep::Needed => {
                self.count_kept_of(row);
                !row.is_empty()
            }
            Keep::Live if self.needs_marker && key.is_some() => row.liveness.is_live_at(self.purge.now_s),
            Keep::Live => row.is_live_at(self.purge.now_s),
        }
    }

    /// Emits `fragment`, after the start of its partition if that has not been emitted yet.
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
                    self.saw_deletion(tombstone);
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
                // A partition whose start was never emitted is empty.
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
