//! Range tombstones, and the combined effect of several of them.
//!
//! A [`RangeTombstone`] is the deletion by one statement. [`RangeTombstones`] is the combination of many: a
//! step function over the positions of a partition, stored as the points at which it changes. The stream of a
//! partition contains exactly these points: from each on, its tombstone is in force.

use crate::clustering::{ClusteringRange, Position};
use crate::schema::TableSchema;
use crate::tombstone::Tombstone;

/// Deletes the rows of `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The deleted rows.
    pub range: ClusteringRange,
    /// The time of the deletion.
    pub tombstone: Tombstone,
}

/// From `position` on, `tombstone` is in force until the next change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstoneChange {
    /// Where the range tombstone in force changes, in the order of the read.
    pub position: Position,
    /// The range tombstone in force from here on; [`Tombstone::LIVE`]: none.
    pub tombstone: Tombstone,
}

/// A step function from positions to tombstones; live before the first change and after the last.
///
/// The changes rise strictly, two neighbouring changes have different tombstones, and the last change is to
/// live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    changes: Vec<RangeTombstoneChange>,
}

impl RangeTombstones {
    /// Whether there are no range tombstones.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn each_mut(&mut self, change: impl FnMut(&mut Tombstone)) {
        let tombstones = self.changes.iter_mut().map(|change| &mut change.tombstone);
        tombstones.filter(|tombstone| !tombstone.is_live()).for_each(change);
    }

    /// The points of change, rising in the table's order.
    pub fn changes(&self) -> &[RangeTombstoneChange] {
        &self.changes
    }

    /// The number of changes before `position` or at it.
    pub fn changes_until(&self, schema: &TableSchema, position: &Position) -> usize {
        self.changes.partition_point(|change| schema.compare_positions(&change.position, position).is_le())
    }

    /// The tombstone in force immediately after `position`.
    pub fn at(&self, schema: &TableSchema, position: &Position) -> Tombstone {
        match self.changes_until(schema, position) {
            0 => Tombstone::LIVE,
            n => self.changes[n - 1].tombstone,
        }
    }

    /// Adds a range tombstone; an empty range has no effect. Cost: a binary search, plus the changes inside
    /// the range, plus moving the changes after it in memory.
    pub fn add(&mut self, schema: &TableSchema, deletion: &RangeTombstone) {
        let RangeTombstone { range: ClusteringRange { start, end }, tombstone } = deletion;
        if tombstone.is_live() || schema.compare_positions(start, end).is_ge() {
            return;
        }
        let before = |changes: &[RangeTombstoneChange], position: &Position| {
            changes.partition_point(|change| schema.compare_positions(&change.position, position).is_lt())
        };
        let first = before(&self.changes, start);
        let last = before(&self.changes, end);
        let in_front = if first == 0 { Tombstone::LIVE } else { self.changes[first - 1].tombstone };
        let at_end = if last == 0 { Tombstone::LIVE } else { self.changes[last - 1].tombstone };
        let end_is_a_change =
            self.changes.get(last).is_some_and(|c| schema.compare_positions(&c.position, end).is_eq());
        let mut replaced = Vec::with_capacity(last - first + 2);
        let mut in_force = in_front;
        let mut change_to = |position: &Position, to: Tombstone| {
            if to != in_force {
                replaced.push(RangeTombstoneChange { position: position.clone(), tombstone: to });
                in_force = to;
            }
        };
        let mut inside = self.changes[first..last].iter().peekable();
        match inside.next_if(|c| schema.compare_positions(&c.position, start).is_eq()) {
            Some(change) => change_to(start, change.tombstone.max(*tombstone)),
            None => change_to(start, in_front.max(*tombstone)),
        }
        inside.for_each(|change| change_to(&change.position, change.tombstone.max(*tombstone)));
        let mut until = last;
        if end_is_a_change {
            change_to(end, self.changes[last].tombstone);
            until += 1;
        } else {
            change_to(end, at_end);
        }
        self.changes.splice(first..until, replaced);
    }

    /// The same tombstones as disjoint ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.changes.windows(2).filter(|pair| !pair[0].tombstone.is_live()).map(|pair| RangeTombstone {
            range: ClusteringRange { start: pair[0].position.clone(), end: pair[1].position.clone() },
            tombstone: pair[0].tombstone,
        })
    }

    /// Heap memory of this value in bytes.
    pub fn heap_bytes(&self) -> usize {
        let positions: usize = self.changes.iter().map(|change| change.position.heap_bytes()).sum();
        self.changes.capacity() * size_of::<RangeTombstoneChange>() + positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::ClusteringPrefix;
    use crate::types::CqlType;
    use base::rng::Rng;
    use std::sync::Arc;

    fn table() -> Arc<TableSchema> {
        TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Int)
            .clustering("c", CqlType::Int)
            .build()
            .unwrap()
    }

    fn key(i: u64) -> ClusteringPrefix {
        ClusteringPrefix::new([&(i as i32).to_be_bytes()[..]])
    }

    /// All positions of a small partition: before, at and after each of its keys.
    fn all_positions(keys: u64) -> Vec<Position> {
        let around = |i| [Position::before(key(i)), Position::at(key(i)), Position::after(key(i))];
        (0..keys).flat_map(around).collect()
    }

    #[test]
    fn the_sum_is_the_maximum_at_every_point_whatever_the_order() {
        let table = table();
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let bound = |rng: &mut Rng| match rng.below(6) {
                0 => Position::START,
                1 => Position::END,
                2 | 3 => Position::before(key(rng.below(6))),
                _ => Position::after(key(rng.below(6))),
            };
            let deletions: Vec<RangeTombstone> = (0..rng.below(7))
                .map(|_| RangeTombstone {
                    range: ClusteringRange { start: bound(&mut rng), end: bound(&mut rng) },
                    tombstone: Tombstone::new(rng.below(3) as i64, rng.below(2) as u32),
                })
                .collect();
            let mut sum = RangeTombstones::default();
            deletions.iter().for_each(|deletion| sum.add(&table, deletion));
            let mut backward = RangeTombstones::default();
            deletions.iter().rev().for_each(|deletion| backward.add(&table, deletion));
            assert_eq!(sum, backward, "seed {seed}");
            for position in all_positions(6) {
                let covering = deletions.iter().filter(|d| {
                    table.compare_positions(&d.range.start, &position).is_le()
                        && table.compare_positions(&position, &d.range.end).is_lt()
                });
                let expect = covering.fold(Tombstone::LIVE, |max, d| max.max(d.tombstone));
                assert_eq!(sum.at(&table, &position), expect, "seed {seed} at {position:?}");
            }
            assert!(sum.changes.last().is_none_or(|change| change.tombstone.is_live()));
            let rising = |pair: &[RangeTombstoneChange]| {
                table.compare_positions(&pair[0].position, &pair[1].position).is_lt()
                    && pair[0].tombstone != pair[1].tombstone
            };
            assert!(sum.changes.windows(2).all(rising), "seed {seed}: {sum:?}");
            let mut again = RangeTombstones::default();
            sum.ranges().for_each(|deletion| again.add(&table, &deletion));
            assert_eq!(sum, again, "seed {seed}");
        }
    }
}
