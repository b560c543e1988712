//! A cell: the value of one column in one row, with the times that decide which of two writes wins.
//!
//! A cell is in one of four states, distinguished by its times. All but the third are as in Cassandra and
//! ScyllaDB:
//!
//! | state     | `ttl_s`                  | `local_deletion_time_s`            |
//! |-----------|--------------------------|------------------------------------|
//! | live      | 0                        | [`NO_DELETION_TIME_S`]             |
//! | expiring  | > 0                      | when it expires                    |
//! | expired   | > 0, and `EXPIRED_BIT` | when it expired (value empty)      |
//! | tombstone | 0                        | when it was deleted (value empty)  |
//!
//! [`Cell::merge`] is commutative, associative and idempotent (property tests in `laws`).

use std::cmp::Ordering;

use crate::SmallBytes;
use crate::counter;
use crate::tombstone::NO_DELETION_TIME_S;

/// Flag in the TTL of an expired cell, whose value was removed. No TTL is as large: CQL allows 20 years,
/// SSTables 2^31 - 1 s.
const EXPIRED_BIT: u32 = 1 << 31;

/// A cell with its value and times. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Timestamp of the write, usually by the client's clock.
    pub timestamp_us: i64,
    /// Server time in seconds since the Unix epoch; see the table above.
    pub local_deletion_time_s: u32,
    /// TTL in seconds; 0: does not expire. Includes the flag of an expired cell; [`Self::ttl`] is the TTL
    /// without it.
    pub ttl_s: u32,
    /// Empty in tombstones and expired cells.
    pub value: SmallBytes,
}

impl Cell {
    /// A cell without TTL that is not deleted.
    pub fn live(timestamp_us: i64, value: impl Into<SmallBytes>) -> Self {
        Self { timestamp_us, local_deletion_time_s: NO_DELETION_TIME_S, ttl_s: 0, value: value.into() }
    }

    /// A cell written at `now_s` that expires at `now_s + ttl_s`, limited to values below
    /// [`NO_DELETION_TIME_S`].
    pub fn expiring(timestamp_us: i64, ttl_s: u32, now_s: u32, value: impl Into<SmallBytes>) -> Self {
        assert!(ttl_s > 0, "a TTL of 0 is a live cell");
        let local_deletion_time_s = now_s.saturating_add(ttl_s).min(NO_DELETION_TIME_S - 1);
        Self { timestamp_us, local_deletion_time_s, ttl_s, value: value.into() }
    }

    /// A tombstone of one cell, deleted at `deletion_time_s` by the server's clock.
    pub fn tombstone(timestamp_us: i64, deletion_time_s: u32) -> Self {
        Self { timestamp_us, local_deletion_time_s: deletion_time_s, ttl_s: 0, value: SmallBytes::new() }
    }

    /// Whether it was written with a TTL, even if it has expired.
    pub fn is_expiring(&self) -> bool {
        self.ttl_s != 0
    }

    /// Whether it was deleted. False for an expired cell.
    pub fn is_tombstone(&self) -> bool {
        self.local_deletion_time_s != NO_DELETION_TIME_S && self.ttl_s == 0
    }

    /// An expired cell, as [`Self::expire_at`] creates it.
    pub fn expired(timestamp_us: i64, ttl_s: u32, local_deletion_time_s: u32) -> Self {
        let ttl_s = ttl_s | EXPIRED_BIT;
        Self { timestamp_us, local_deletion_time_s, ttl_s, value: SmallBytes::new() }
    }

    /// Whether the value was removed after expiry. No read sees the cell again, regardless of its clock.
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.ttl_s & EXPIRED_BIT != 0
    }

    /// The TTL with which the cell was written; 0: none.
    #[inline]
    pub fn ttl(&self) -> u32 {
        self.ttl_s & !EXPIRED_BIT
    }

    /// Whether a read at `now_s` sees the value. A cell is expired from its expiry time on, including that
    /// second.
    #[inline]
    pub fn is_live_at(&self, now_s: u32) -> bool {
        self.local_deletion_time_s == NO_DELETION_TIME_S
            || (self.ttl_s != 0 && now_s < self.local_deletion_time_s && !self.is_expired())
    }

    /// The time since which the cell is dead for a read at `now_s`; `None` if it is live. A tombstone is dead
    /// since its deletion. An expired cell counts as dead since it was written, so gc_grace starts there and
    /// not at the expiry, as in Cassandra's `AbstractCell.purge`.
    #[inline]
    pub fn dead_since_s(&self, now_s: u32) -> Option<u32> {
        (!self.is_live_at(now_s)).then(|| self.local_deletion_time_s.saturating_sub(self.ttl()))
    }

    /// Removes the value of a cell that has expired, and sets the flag of an expired cell. Without the flag,
    /// a read after the wall clock was set back to a time before the expiry would take it for a live cell
    /// with an empty value.
    ///
    /// Cassandra and ScyllaDB turn the cell into a tombstone here. This code keeps its times, because a
    /// tombstone would win against another expiring cell of the same timestamp that expires later, and the
    /// result of a read would depend on the time of a compaction.
    pub fn expire_at(&mut self, now_s: u32) {
        if self.is_expiring() && !self.is_live_at(now_s) {
            self.value = SmallBytes::new();
            self.ttl_s |= EXPIRED_BIT;
        }
    }

    /// Keeps the winner of `self` and `other`, two writes to the same cell.
    ///
    /// The later timestamp wins. At a tie the order is: a cell that is deleted or will expire over a live
    /// one, a tombstone over an expiring cell, the later deletion or expiry, an expired cell over one with
    /// its value, the greater value (as unsigned bytes), the smaller TTL. This is the order of Cassandra and
    /// ScyllaDB (`db/rows/Cells.java`); the TTL makes it total.
    pub fn merge(&mut self, other: &Self) {
        if self.compare_for_merge(other).is_lt() {
            self.clone_from(other);
        }
    }

    /// Whether a merge with `other` gives `other`.
    pub fn is_overwritten_by(&self, other: &Self) -> bool {
        self.compare_for_merge(other).is_le()
    }

    /// As [`Self::merge`] for a counter column: a tombstone wins regardless of its timestamp (a deleted
    /// counter cannot be revived, CASSANDRA-7346), and two live cells merge shard by shard.
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
            .then_with(|| self.is_expired().cmp(&other.is_expired()))
            .then_with(|| self.value.cmp(&other.value))
            .then_with(|| other.ttl_s.cmp(&self.ttl_s))
    }

    /// Heap memory of this value in bytes.
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
        check_wins(Cell::expiring(7, 11, 1000, "w"), cell.clone());
        check_wins(cell, Cell::expiring(7, 10, 1000, "v"));
    }

    /// Regression test, found by seed 295 of the server's simulation: the clock was set back by an hour after
    /// a compaction had removed the values of expired cells, and a read returned an int of 0 bytes.
    #[test]
    fn an_expired_cell_stays_dead_when_the_clock_is_set_back() {
        let mut cell = Cell::expiring(7, 10, 1000, "v");
        cell.expire_at(1010);
        assert!(!cell.is_live_at(1009) && !cell.is_live_at(0));
        assert_eq!((cell.dead_since_s(1005), cell.ttl()), (Some(1000), 10));
        assert_eq!(cell, Cell::expired(7, 10, 1010));
        // A second purge at any time has no effect.
        for now_s in [0, 1009, 2000] {
            let mut again = cell.clone();
            again.expire_at(now_s);
            assert_eq!(again, cell);
        }
        // An empty value alone does not mark an expired cell: it may have been written.
        assert!(Cell::expiring(7, 10, 1000, "").is_live_at(1009));
    }
}
