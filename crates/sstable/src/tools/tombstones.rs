//! Counts the tombstones of an SSTable: how many, how old, in which partitions, and which of them a
//! compaction of the SSTable alone may not drop.

use model::{Cell, ColumnData, PartitionKey, Row, Tombstone};
use reader::Fragment;

/// Partitions with the most tombstones that are kept.
const PARTITIONS_MAX: usize = 10;

/// Tombstones by what they delete. A range tombstone that is stored in pieces counts once for each piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TombstoneKinds {
    pub partitions: u64,
    pub ranges: u64,
    pub rows: u64,
    /// Whole collections and user types.
    pub collections: u64,
    pub cells: u64,
    /// Rows and cells whose TTL is over.
    pub expired_rows: u64,
    pub expired_cells: u64,
}

impl TombstoneKinds {
    pub fn total(&self) -> u64 {
        let Self { partitions, ranges, rows, collections, cells, expired_rows, expired_cells } = *self;
        partitions + ranges + rows + collections + cells + expired_rows + expired_cells
    }
}

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TombstoneCount {
    pub kinds: TombstoneKinds,
    pub live_rows: u64,
    /// Times of the oldest and the newest, from which the grace period counts, in seconds since 1970; `None`:
    /// there are no tombstones.
    pub times_s: Option<(u32, u32)>,
    /// Tombstones older than the grace period.
    pub droppable: u64,
    /// Droppable tombstones of partitions in which another SSTable may have older data.
    pub blocked: u64,
    /// For each other SSTable, in the order given: how many of them it blocks.
    pub blocked_by: Vec<u64>,
    /// Partitions with the most tombstones, the largest first.
    pub partitions: Vec<(PartitionKey, u64)>,
}

/// What the current partition has so far.
#[derive(Default)]
struct OfPartition {
    key: Option<PartitionKey>,
    tombstones: u64,
    droppable: u64,
    /// The newest timestamp of a droppable tombstone.
    newest_us: i64,
}

/// Counts the fragments of one SSTable.
pub struct TombstoneCounter {
    now_s: u32,
    /// A tombstone is droppable if it was written before this time.
    gc_before_s: u32,
    count: TombstoneCount,
    partition: OfPartition,
}

impl TombstoneCounter {
    /// `others`: the number of other SSTables of the table.
    pub fn new(now_s: u32, gc_grace_s: u32, others: usize) -> Self {
        Self {
            now_s,
            gc_before_s: now_s.saturating_sub(gc_grace_s),
            count: TombstoneCount { blocked_by: vec![0; others], ..TombstoneCount::default() },
            partition: OfPartition::default(),
        }
    }

    /// Counts a fragment. `may_block(other, key, timestamp_us)`: whether this other SSTable may have data of
    /// the partition that are as old as the timestamp.
    pub fn push(&mut self, fragment: &Fragment, may_block: impl Fn(usize, &PartitionKey, i64) -> bool) {
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                let newest_us = i64::MIN;
                self.partition = OfPartition { key: Some(key.clone()), newest_us, ..OfPartition::default() };
                self.deletion(*tombstone, |kinds| &mut kinds.partitions);
            }
            Fragment::Static(row) => self.row(row),
            Fragment::Row(row) => self.row(&row.row),
            Fragment::Change(change) => self.deletion(change.tombstone, |kinds| &mut kinds.ranges),
            Fragment::PartitionEnd => self.end_partition(may_block),
        }
    }

    /// The counts so far.
    pub fn finish(self) -> TombstoneCount {
        self.count
    }

    fn deletion(&mut self, tombstone: Tombstone, kind: fn(&mut TombstoneKinds) -> &mut u64) {
        if !tombstone.is_live() {
            self.add(kind, tombstone.deletion_time_s, tombstone.timestamp_us);
        }
    }

    fn add(&mut self, kind: fn(&mut TombstoneKinds) -> &mut u64, time_s: u32, timestamp_us: i64) {
        *kind(&mut self.count.kinds) += 1;
        let (oldest, newest) = self.count.times_s.unwrap_or((time_s, time_s));
        self.count.times_s = Some((oldest.min(time_s), newest.max(time_s)));
        self.partition.tombstones += 1;
        if time_s < self.gc_before_s {
            self.partition.droppable += 1;
            self.partition.newest_us = self.partition.newest_us.max(timestamp_us);
        }
    }

    fn row(&mut self, row: &Row) {
        self.deletion(row.deletion, |kinds| &mut kinds.rows);
        let liveness = row.liveness;
        if !liveness.is_none() && !liveness.is_live_at(self.now_s) {
            self.add(|kinds| &mut kinds.expired_rows, liveness.dead_since_s(), liveness.timestamp_us);
        }
        for (_, data) in row.cells() {
            match data {
                ColumnData::Simple(cell) => self.cell(cell),
                ColumnData::Complex(complex) => {
                    self.deletion(complex.deletion, |kinds| &mut kinds.collections);
                    complex.cells.iter().for_each(|path| self.cell(&path.cell));
                }
            }
        }
        self.count.live_rows += u64::from(row.is_live_at(self.now_s));
    }

    fn cell(&mut self, cell: &Cell) {
        let Some(since_s) = cell.dead_since_s(self.now_s) else { return };
        let kind: fn(&mut TombstoneKinds) -> &mut u64 =
            if cell.is_expiring() { |kinds| &mut kinds.expired_cells } else { |kinds| &mut kinds.cells };
        self.add(kind, since_s, cell.timestamp_us);
    }

    fn end_partition(&mut self, may_block: impl Fn(usize, &PartitionKey, i64) -> bool) {
        let OfPartition { key, tombstones, droppable, newest_us } = std::mem::take(&mut self.partition);
        let Some(key) = key.filter(|_| tombstones > 0) else { return };
        self.count.droppable += droppable;
        let mut is_blocked = false;
        for (other, blocked) in self.count.blocked_by.iter_mut().enumerate() {
            if droppable > 0 && may_block(other, &key, newest_us) {
                *blocked += droppable;
                is_blocked = true;
            }
        }
        if is_blocked {
            self.count.blocked += droppable;
        }
        let partitions = &mut self.count.partitions;
        let at = partitions.partition_point(|(_, count)| *count >= tombstones);
        if at < PARTITIONS_MAX {
            partitions.truncate(PARTITIONS_MAX - 1);
            partitions.insert(at, (key, tombstones));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use model::{CqlType, Liveness, TableSchema};

    use super::*;

    fn key(byte: u8) -> PartitionKey {
        PartitionKey::new(vec![byte])
    }

    fn count(
        fragments: &[Fragment],
        others: usize,
        may_block: impl Fn(usize, &PartitionKey, i64) -> bool,
    ) -> TombstoneCount {
        let mut counter = TombstoneCounter::new(1_000_000, 1_000, others);
        fragments.iter().for_each(|fragment| counter.push(fragment, &may_block));
        counter.finish()
    }

    fn deleted(deletion: Tombstone) -> Row {
        let mut row = Row::default();
        row.deletion = deletion;
        row
    }

    fn start(byte: u8, tombstone: Tombstone) -> Fragment {
        Fragment::PartitionStart { key: key(byte), tombstone }
    }

    #[test]
    fn each_kind_is_counted_with_its_age() {
        let mut row = deleted(Tombstone::new(5, 999_500));
        row.liveness = Liveness::expiring(6, 10, 900_000);
        let schema = TableSchema::builder("ks", "t").partition_key("k", CqlType::Int);
        let schema = schema.regular("v", CqlType::Int).build().unwrap();
        row.set(schema.column_named("v").unwrap(), Cell::tombstone(7, 998_000));
        let fragments =
            [start(1, Tombstone::new(9, 900_000)), Fragment::Static(Rc::new(row)), Fragment::PartitionEnd];
        let found = count(&fragments, 0, |_, _, _| false);
        let expect =
            TombstoneKinds { partitions: 1, rows: 1, cells: 1, expired_rows: 1, ..TombstoneKinds::default() };
        assert_eq!(found.kinds, expect);
        assert_eq!((found.kinds.total(), found.live_rows), (4, 0));
        assert_eq!(found.times_s, Some((900_000, 999_500)));
        // All but the deletion of the row are older than the grace period.
        assert_eq!((found.droppable, found.blocked), (3, 0));
        assert_eq!(found.partitions, [(key(1), 4)]);
    }

    #[test]
    fn older_data_elsewhere_blocks() {
        let old = Tombstone::new(50, 10);
        let fragments = [
            start(1, old),
            Fragment::PartitionEnd,
            start(2, old),
            Fragment::PartitionEnd,
            start(3, Tombstone::LIVE),
            Fragment::PartitionEnd,
        ];
        // Of the other SSTables, the first has data of partition 2 from timestamp 50 on, the second from
        // 51 on.
        let found = count(&fragments, 2, |other, of, at_us| {
            *of == key(2) && at_us >= if other == 0 { 50 } else { 51 }
        });
        assert_eq!((found.droppable, found.blocked, &found.blocked_by[..]), (2, 1, &[1, 0][..]));
    }

    #[test]
    fn the_partitions_with_the_most_are_kept() {
        let mut fragments = vec![];
        for byte in 0..30 {
            fragments.push(start(byte, Tombstone::LIVE));
            for _ in 0..byte {
                fragments.push(Fragment::Static(Rc::new(deleted(Tombstone::new(1, 1)))));
            }
            fragments.push(Fragment::PartitionEnd);
        }
        let found = count(&fragments, 0, |_, _, _| false);
        let kept: Vec<u64> = found.partitions.iter().map(|(_, count)| *count).collect();
        assert_eq!(kept, (20..30).rev().collect::<Vec<u64>>());
    }
}
