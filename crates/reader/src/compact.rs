//! Leaves out what is deleted, what has expired and what may be purged.
//!
//! What it keeps depends on who asks: a compaction keeps every tombstone that is still needed, a query keeps
//! only what its client sees. Partitions of which nothing is left do not appear at all.

use std::rc::Rc;

use model::{NO_DELETION_TIME_S, PartitionKey, Purge, RangeTombstoneChange, Row, Tombstone};

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::fragment::{Fragment, Reader, Step};

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
        }
    }

    pub fn tombstones_seen(&self) -> u64 {
        self.tombstones_seen
    }

    fn keeps_tombstone(&self, tombstone: Tombstone) -> bool {
        self.keep == Keep::Needed && !self.purge.may_drop(tombstone)
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
        if self.keeps_tombstone(tombstone) {
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

    /// Compacts the row; false if nothing of it is kept.
    fn compact_row(&mut self, row: &mut Row, deleted: Tombstone) -> bool {
        row.shadow(deleted);
        if !row.deletion.is_live() || row.cells().iter().any(|(_, data)| matches!(data, model::ColumnData::Simple(cell) if !cell.is_live_at(self.purge.now_s))) {
            self.tombstones_seen += 1;
        }
        self.purge.row(row);
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
        loop {
            let fragment = match self.inner.next()? {
                Step::Ready(fragment) => fragment,
                other => return Ok(other),
            };
            let kept = match fragment {
                Fragment::PartitionStart { key, tombstone } => self.start_partition(key, tombstone),
                Fragment::Static(mut row) => {
                    let deleted = self.partition_tombstone;
                    let kept =
                        self.is_untouched(&row, deleted) || self.compact_row(Rc::make_mut(&mut row), deleted);
                    kept.then(|| self.emit(Fragment::Static(row)))
                }
                Fragment::Row(mut row) => {
                    let deleted = self.partition_tombstone.max(self.in_force);
                    let kept = (self.is_untouched(&row.row, deleted) && !row.row.is_empty())
                        || self.compact_row(Rc::make_mut(&mut row.row), deleted);
                    kept.then(|| self.emit(Fragment::Row(row)))
                }
                Fragment::Change(RangeTombstoneChange { position, tombstone }) => {
                    self.in_force = tombstone;
                    let covered = self.partition_tombstone.max(tombstone) == self.partition_tombstone;
                    let shown =
                        if covered || !self.keeps_tombstone(tombstone) { Tombstone::LIVE } else { tombstone };
                    (shown != self.shown).then(|| {
                        self.shown = shown;
                        self.emit(Fragment::Change(RangeTombstoneChange { position, tombstone: shown }))
                    })
                }
                // A partition whose start was never let out was empty.
                Fragment::PartitionEnd => self.start.take().is_none().then_some(Fragment::PartitionEnd),
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
