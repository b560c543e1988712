use std::cell::Cell;

use model::{PartitionKey, Tombstone};

use crate::purge::{Blocker, Cause, GcBefore, KeptTombstones, Outside, PurgeHorizon, TombstoneGc, blocks};
use crate::sstable_id::SSTableId;
use crate::testing::key;

struct Other<'a> {
    id: u64,
    range: (u32, u32),
    min_us: i64,
    /// A key that its bloom filter excludes.
    lacks: Option<u32>,
    asked: &'a Cell<usize>,
}

impl Outside for Other<'_> {
    fn id(&self) -> SSTableId {
        SSTableId(self.id)
    }
    fn first(&self) -> &PartitionKey {
        key(self.range.0)
    }
    fn last(&self) -> &PartitionKey {
        key(self.range.1)
    }
    fn min_live_timestamp_us(&self) -> i64 {
        self.min_us
    }
    fn may_contain(&self, wanted: &PartitionKey) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.lacks.is_none_or(|lacks| key(lacks) != wanted)
    }
}

fn sstable(id: u64) -> Option<Blocker> {
    Some(Blocker::SSTable(SSTableId(id)))
}

#[test]
fn the_horizon_is_the_oldest_data_outside_that_may_have_the_partition() {
    let asked = Cell::new(0);
    let other = |id, from, to, min_us, lacks| Other { id, range: (from, to), min_us, lacks, asked: &asked };
    let outside = [
        other(1, 10, 50, 30, None),
        other(2, 20, 40, 20, Some(25)),
        other(3, 0, 100, 200, None),
        other(4, 60, 60, 5, None),
    ];
    let mut horizon = PurgeHorizon::new(outside, 100);
    let mut at = |place: u32| horizon.max_purgeable(key(place), None, |_| None);
    assert_eq!(at(5), (i64::MAX, None), "the third is too young to be deleted by anything here");
    assert_eq!(at(10), (30, sstable(1)));
    assert_eq!(at(20), (20, sstable(2)));
    assert_eq!(at(25), (30, sstable(1)), "the second's filter says no");
    assert_eq!(at(40), (20, sstable(2)));
    assert_eq!(at(50), (30, sstable(1)));
    assert_eq!(at(51), (i64::MAX, None));
    assert_eq!(at(60), (5, sstable(4)));
    assert_eq!(at(61), (i64::MAX, None));
    assert_eq!(at(30), (20, sstable(2)), "keys may go back");
    assert_eq!(asked.get(), 8);
    horizon.add(other(5, 5, 35, 10, None));
    assert_eq!(horizon.max_purgeable(key(30), None, |_| None), (10, sstable(5)));
    horizon.remove(SSTableId(5));
    assert_eq!(horizon.max_purgeable(key(30), None, |_| None), (20, sstable(2)));
}

#[test]
fn memtables_are_asked_only_if_they_may_have_something_older() {
    let asked = Cell::new(0);
    let one = Other { id: 1, range: (0, 9), min_us: 30, lacks: None, asked: &asked };
    let mut horizon = PurgeHorizon::new([one], 100);
    let never = |_: &PartitionKey| -> Option<i64> { panic!("it was asked") };
    assert_eq!(horizon.max_purgeable(key(5), Some(30), never), (30, sstable(1)));
    assert_eq!(horizon.max_purgeable(key(20), Some(101), never), (i64::MAX, None));
    assert_eq!(horizon.max_purgeable(key(5), Some(29), |_| Some(29)), (29, Some(Blocker::Memtable)));
    assert_eq!(horizon.max_purgeable(key(5), Some(29), |_| Some(40)), (30, sstable(1)));
    assert_eq!(horizon.max_purgeable(key(20), Some(100), |_| Some(100)), (100, Some(Blocker::Memtable)));
    assert_eq!(horizon.max_purgeable(key(20), Some(100), |_| None), (i64::MAX, None));
}

#[test]
fn gc_before_by_mode() {
    let before = |gc, log| {
        let found = GcBefore::new(gc, 1_000_000, log);
        (found.before_s, found.cause)
    };
    let repair = |repaired_s, has_one_replica| TombstoneGc::Repair {
        repaired_s,
        propagation_delay_s: 3600,
        has_one_replica,
    };
    assert_eq!(before(TombstoneGc::Timeout { gc_grace_s: 864_000 }, None), (136_000, Cause::TooYoung));
    assert_eq!(before(TombstoneGc::Timeout { gc_grace_s: 2_000_000 }, None), (0, Cause::TooYoung));
    assert_eq!(before(TombstoneGc::Disabled, None), (0, Cause::Disabled));
    assert_eq!(before(TombstoneGc::Immediate, None), (1_000_000, Cause::TooYoung));
    assert_eq!(before(repair(Some(500_000), false), None), (496_400, Cause::NotRepaired));
    assert_eq!(before(repair(None, false), None), (0, Cause::NotRepaired));
    assert_eq!(before(repair(None, true), None), (1_000_000, Cause::TooYoung));
    assert_eq!(before(TombstoneGc::Immediate, Some(700)), (700, Cause::TooYoung));
}

#[test]
fn every_tombstone_that_stays_has_a_cause() {
    let gc = GcBefore::new(TombstoneGc::Timeout { gc_grace_s: 100 }, 1000, Some(500));
    let free = (i64::MAX, None);
    let tombstone = |timestamp_us, deletion_time_s| Tombstone { timestamp_us, deletion_time_s };
    assert_eq!(blocks(tombstone(5, 499), &gc, free), None);
    assert_eq!(blocks(tombstone(5, 500), &gc, free), Some((Cause::CommitLog, None)));
    assert_eq!(blocks(tombstone(5, 900), &gc, free), Some((Cause::TooYoung, None)));
    let by = (7, sstable(3));
    assert_eq!(blocks(tombstone(6, 1), &gc, by), None);
    assert_eq!(blocks(tombstone(7, 1), &gc, by), Some((Cause::SSTable, Some(SSTableId(3)))));
    assert_eq!(blocks(tombstone(7, 1), &gc, (7, Some(Blocker::Memtable))), Some((Cause::Memtable, None)));

    let mut kept = KeptTombstones::default();
    for id in [3, 4, 3] {
        kept.add(Cause::SSTable, Some(SSTableId(id)));
    }
    kept.add(Cause::TooYoung, None);
    let mut all = kept.clone();
    all.add_all(&kept);
    assert_eq!(
        (all.count(Cause::SSTable), all.count(Cause::TooYoung), all.count(Cause::Memtable)),
        (6, 2, 0)
    );
    assert_eq!(all.worst(), Some((SSTableId(3), 4)));
    assert_eq!(Cause::ALL.map(|cause| cause as usize), [0, 1, 2, 3, 4, 5]);
}
