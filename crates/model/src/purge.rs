//! Rules for removing tombstones that are no longer needed, and expired data, in compactions and reads.
//!
//! A tombstone is needed (1) until gc_grace is over, so that other replicas receive it, and (2) as long as
//! data that it deletes may exist elsewhere: in an SSTable outside this merge, in a memtable, in the commit
//! log. Condition (1) is `gc_before_s`. Condition (2) is `max_purgeable_us`: the caller guarantees that all
//! data outside this merge was written at that timestamp or later.
//!
//! Law (property tests in `laws`): if the caller's guarantee holds, a purge never changes the result of a
//! later read, with any other data merged.

use crate::cell::Cell;
use crate::row::{ColumnData, Liveness, Row};
use crate::tombstone::{NO_DELETION_TIME_S, Tombstone};

/// The purge rule for one partition of one merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// The time of the merge, by which values expire.
    pub now_s: u32,
    /// Tombstones with an older deletion time are past their gc_grace.
    pub gc_before_s: u32,
    /// Data outside this merge has at least this timestamp; an older tombstone deletes none of it.
    pub max_purgeable_us: i64,
}

impl Purge {
    /// Removes expired values but drops no tombstone.
    pub fn nothing(now_s: u32) -> Self {
        Self { now_s, gc_before_s: 0, max_purgeable_us: i64::MIN }
    }

    /// Drops every tombstone: for the end of a read, after which nothing is merged any more.
    pub fn everything(now_s: u32) -> Self {
        Self { now_s, gc_before_s: NO_DELETION_TIME_S, max_purgeable_us: i64::MAX }
    }

    /// Whether a tombstone may be dropped; true for the absence of one ([`Tombstone::LIVE`]).
    #[inline]
    pub fn may_drop(&self, tombstone: Tombstone) -> bool {
        tombstone.is_live() || self.may_drop_at(tombstone.timestamp_us, tombstone.deletion_time_s)
    }

    #[inline]
    fn may_drop_at(&self, timestamp_us: i64, deletion_time_s: u32) -> bool {
        deletion_time_s < self.gc_before_s && timestamp_us < self.max_purgeable_us
    }

    /// Removes the value of a cell that has expired. False if the whole cell may be dropped.
    fn keeps_cell(&self, cell: &mut Cell) -> bool {
        cell.expire_at(self.now_s);
        !cell.dead_since_s(self.now_s).is_some_and(|since_s| self.may_drop_at(cell.timestamp_us, since_s))
    }

    /// The part of the row that [`Self::row`] would drop: its purgeable tombstones and expired cells.
    #[must_use]
    pub fn dropped(&self, row: &Row) -> Row {
        let mut dropped = row.clone();
        if !self.may_drop(dropped.deletion) {
            dropped.deletion = Tombstone::LIVE;
        }
        if !self.drops_liveness(dropped.liveness) {
            dropped.liveness = Liveness::NONE;
        }
        dropped.retain_columns(|_, data| match data {
            ColumnData::Simple(cell) => !self.keeps_cell(cell),
            ColumnData::Complex(complex) => {
                if !self.may_drop(complex.deletion) {
                    complex.deletion = Tombstone::LIVE;
                }
                complex.cells.retain_mut(|element| !self.keeps_cell(&mut element.cell));
                !complex.is_empty()
            }
        });
        dropped
    }

    fn drops_liveness(&self, liveness: Liveness) -> bool {
        !liveness.is_none()
            && !liveness.is_live_at(self.now_s)
            && self.may_drop_at(liveness.timestamp_us, liveness.dead_since_s())
    }

    /// Removes expired values and drops purgeable tombstones. Deleted cells must have been removed before
    /// ([`Row::shadow`]).
    pub fn row(&self, row: &mut Row) {
        if self.may_drop(row.deletion) {
            row.deletion = Tombstone::LIVE;
        }
        if self.drops_liveness(row.liveness) {
            row.liveness = Liveness::NONE;
        }
        row.retain_columns(|_, data| match data {
            ColumnData::Simple(cell) => self.keeps_cell(cell),
            ColumnData::Complex(complex) => {
                if self.may_drop(complex.deletion) {
                    complex.deletion = Tombstone::LIVE;
                }
                complex.cells.retain_mut(|element| self.keeps_cell(&mut element.cell));
                !complex.is_empty()
            }
        });
    }
}
