//! What compaction and reads may leave out: tombstones that nothing needs any more, and what has expired.
//!
//! A tombstone is needed (1) until gc_grace is over, so that other copies of the data hear of it, and (2) as
//! long as something it deletes may still exist elsewhere: in an SSTable that is not part of this merge, in
//! a memtable, in the commit log. (1) is `gc_before_s`, (2) is `max_purgeable_us`: the caller knows that
//! everything outside this merge was written at that timestamp or later.
//!
//! Law (property tests in `laws`): purging never changes what a later read sees, whatever it is merged with,
//! if the caller told the truth.

use crate::cell::Cell;
use crate::row::{ColumnData, Liveness, Row};
use crate::tombstone::{NO_DELETION_TIME_S, Tombstone};

/// The rule for one partition of one merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    pub now_s: u32,
    /// Tombstones older than this are past their gc_grace.
    pub gc_before_s: u32,
    /// Data outside this merge is at least this young; a tombstone that is older deletes none of it.
    pub max_purgeable_us: i64,
}

impl Purge {
    /// Expires what has expired and drops no tombstone.
    pub fn nothing(now_s: u32) -> Self {
        Self { now_s, gc_before_s: 0, max_purgeable_us: i64::MIN }
    }

    /// Drops every tombstone: for the end of a read, behind which nothing is merged any more.
    pub fn everything(now_s: u32) -> Self {
        Self { now_s, gc_before_s: NO_DELETION_TIME_S, max_purgeable_us: i64::MAX }
    }

    #[inline]
    pub fn may_drop(&self, tombstone: Tombstone) -> bool {
        tombstone.is_live() || self.may_drop_at(tombstone.timestamp_us, tombstone.deletion_time_s)
    }

    #[inline]
    fn may_drop_at(&self, timestamp_us: i64, deletion_time_s: u32) -> bool {
        deletion_time_s < self.gc_before_s && timestamp_us < self.max_purgeable_us
    }

    /// Lets go of a cell's value if it has expired; false if the cell may go altogether.
    fn keeps_cell(&self, cell: &mut Cell) -> bool {
        cell.expire_at(self.now_s);
        !cell.dead_since_s(self.now_s).is_some_and(|since_s| self.may_drop_at(cell.timestamp_us, since_s))
    }

    /// What [`Self::row`] would drop of the row: its tombstones and expired cells, without anything else.
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

    /// Lets go of what has expired and drops the tombstones that may go. Assumes that deleted cells
    /// have been left out ([`Row::shadow`]).
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
