//! One value of one column of one row, with the times that decide which of two writes wins.
//!
//! A cell is in one of three states, told apart by its times as in the peers:
//!
//! | state     | `ttl_s` | `local_deletion_time_s`            |
//! |-----------|---------|------------------------------------|
//! | live      | 0       | [`NO_DELETION_TIME_S`]             |
//! | expiring  | > 0     | when it expires                    |
//! | tombstone | 0       | when it was deleted (value empty)  |
//!
//! [`Cell::merge`] is commutative, associative and idempotent (property tests in `laws`).

use std::cmp::Ordering;

use crate::SmallBytes;
use crate::counter;
use crate::tombstone::NO_DELETION_TIME_S;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The client's clock.
    pub timestamp_us: i64,
    /// Our clock, seconds since the Unix epoch; see the table above.
    pub local_deletion_time_s: u32,
    /// 0: does not expire.
    pub ttl_s: u32,
    pub value: SmallBytes,
}

impl Cell {
    pub fn live(timestamp_us: i64, value: impl Into<SmallBytes>) -> Self {
        Self { timestamp_us, local_deletion_time_s: NO_DELETION_TIME_S, ttl_s: 0, value: value.into() }
    }

    /// Written at `now_s`, gone at `now_s + ttl_s`, which is capped below "never".
    pub fn expiring(timestamp_us: i64, ttl_s: u32, now_s: u32, value: impl Into<SmallBytes>) -> Self {
        assert!(ttl_s > 0, "a TTL of 0 is a live cell");
        let local_deletion_time_s = now_s.saturating_add(ttl_s).min(NO_DELETION_TIME_S - 1);
        Self { timestamp_us, local_deletion_time_s, ttl_s, value: value.into() }
    }

    pub fn tombstone(timestamp_us: i64, deletion_time_s: u32) -> Self {
        Self { timestamp_us, local_deletion_time_s: deletion_time_s, ttl_s: 0, value: SmallBytes::new() }
    }

    pub fn is_expiring(&self) -> bool {
        self.ttl_s != 0
    }

    pub fn is_tombstone(&self) -> bool {
        self.local_deletion_time_s != NO_DELETION_TIME_S && self.ttl_s == 0
    }

    /// Whether a read at `now_s` sees the value. A cell expires at the second its time names.
    #[inline]
    pub fn is_live_at(&self, now_s: u32) -> bool {
        self.local_deletion_time_s == NO_DELETION_TIME_S
            || (self.ttl_s != 0 && now_s < self.local_deletion_time_s)
    }

    /// Since when the cell is dead for a read at `now_s`: a tombstone since its deletion, an expired cell
    /// since it was written, so that gc_grace counts from there and not from the expiry (facts
    /// `sstable-format.md` §4.4). `None`: it is live.
    #[inline]
    pub fn dead_since_s(&self, now_s: u32) -> Option<u32> {
        (!self.is_live_at(now_s)).then(|| self.local_deletion_time_s.saturating_sub(self.ttl_s))
    }

    /// Lets go of the value of a cell that has expired; nobody reads it again.
    ///
    /// The peers make it a tombstone here. We keep its times, since a tombstone would win against another
    /// expiring cell of the same timestamp that outlives it, and the answer would depend on when a compaction
    /// ran.
    pub fn expire_at(&mut self, now_s: u32) {
        if self.is_expiring() && !self.is_live_at(now_s) {
            self.value = SmallBytes::new();
        }
    }

    /// Keeps the winner of `self` and `other`, two writes to the same cell.
    ///
    /// The later timestamp; at a tie what is deleted or will expire over what is live, a tombstone over an
    /// expiring cell, the later deletion or expiry, the greater value (unsigned bytes), the smaller TTL.
    /// The order is the peers' (`db/rows/Cells.java`); the TTL makes it total.
    pub fn merge(&mut self, other: &Self) {
        if self.compare_for_merge(other).is_lt() {
            self.clone_from(other);
        }
    }

    /// Whether merged with `other` it is `other`.
    pub fn is_overwritten_by(&self, other: &Self) -> bool {
        self.compare_for_merge(other).is_le()
    }

    /// As [`Self::merge`] for a counter column: a tombstone wins whatever its timestamp (a deleted counter
    /// does not come back, CASSANDRA-7346), and two live cells merge shard by shard.
    pub fn merge_counter(&mut self, other: &Self) {
        match (self.is_tombstone(), other.is_tombstone()) {
            (true, false) => {}
            (false, true) => self.clone_from(other),
            (true, true) => self.merge(other),
            (false, false) => {
                self.value = counter::merge(&self.value, &other.value);
                self.timestamp_us = self.timestamp_us.max(other.timestamp_us);
            }
        }
    }

    fn compare_for_merge(&self, other: &Self) -> Ordering {
        let rank = |cell: &Self| match (cell.local_deletion_time_s == NO_DELETION_TIME_S, cell.ttl_s) {
            (true, _) => 0,
            (false, 0) => 2,
            (false, _) => 1,
        };
        self.timestamp_us
            .cmp(&other.timestamp_us)
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(|| self.local_deletion_time_s.cmp(&other.local_deletion_time_s))
            .then_with(|| self.value.cmp(&other.value))
            .then_with(|| other.ttl_s.cmp(&self.ttl_s))
    }

    pub fn heap_bytes(&self) -> usize {
        self.value.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wins(winner: Cell, loser: Cell) {
        let (mut a, mut b) = (winner.clone(), loser.clone());
        a.merge(&loser);
        b.merge(&winner);
        assert_eq!((&a, &b), (&winner, &winner));
    }

    #[test]
    fn who_wins() {
        let now_s = 1000;
        check_wins(Cell::live(2, "a"), Cell::live(1, "b"));
        check_wins(Cell::live(2, "a"), Cell::tombstone(1, now_s));
        check_wins(Cell::tombstone(1, now_s), Cell::live(1, "z"));
        check_wins(Cell::expiring(1, 10, now_s, "a"), Cell::live(1, "z"));
        check_wins(Cell::tombstone(1, now_s), Cell::expiring(1, 10, now_s, "z"));
        check_wins(Cell::expiring(1, 20, now_s, "a"), Cell::expiring(1, 10, now_s, "z"));
        check_wins(Cell::live(1, "b"), Cell::live(1, "a"));
        check_wins(Cell::live(1, &[0x80u8][..]), Cell::live(1, &[0x7fu8][..]));
        check_wins(Cell::tombstone(1, 6), Cell::tombstone(1, 5));
    }

    #[test]
    fn an_expired_cell_is_dead_since_it_was_written() {
        let mut cell = Cell::expiring(7, 10, 1000, "v");
        assert!(cell.is_live_at(1009) && !cell.is_live_at(1010));
        assert_eq!((cell.dead_since_s(1009), cell.dead_since_s(1010)), (None, Some(1000)));
        cell.expire_at(1009);
        assert_eq!(&*cell.value, b"v");
        cell.expire_at(1010);
        assert_eq!(&*cell.value, b"");
        check_wins(Cell::expiring(7, 11, 1000, "w"), cell);
    }
}
