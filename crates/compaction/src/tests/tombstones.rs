use proptest::prelude::*;

use crate::overlap::{LeastIndex, count_max, groups, share_outside};
use crate::testing::{KEYS, Table, key};
use crate::{TombstoneRules, fully_expired};

/// Checks the first SSTable that is worth a job of its own.
#[track_caller]
fn check_worth(rules: &TombstoneRules, table: &str, expect: &str) {
    let table = Table::new(table);
    let found = rules.first_worth(&table.view(), &table.sstables);
    assert_eq!(found.map_or("nothing", |(sstable, _)| table.name(sstable.id)), expect);
}

#[test]
fn worth_rewriting_alone() {
    let rules = TombstoneRules::default();
    check_worth(&rules, "9 dead0.2", "a");
    check_worth(&rules, "9 dead0.19", "nothing");
    check_worth(&rules, "9 dead0.9 age86399", "nothing");
    check_worth(&rules, "9 dead0.9 age86400", "a");
    check_worth(&rules, "9 dead0.9 busy", "nothing");
    check_worth(&TombstoneRules { threshold: 0.0, ..rules.clone() }, "9 dead0, 9 dead0.01 0-9", "nothing");
    check_worth(&TombstoneRules { threshold: 0.0, ..rules }, "9 dead0 0-9, 9 dead0.01 10-19", "b");
}

#[test]
fn older_data_that_overlaps_makes_it_not_worth_it() {
    let rules = TombstoneRules::default();
    check_worth(&rules, "9 dead0.9 t5-7, 9 t8-9", "a");
    check_worth(&rules, "9 dead0.9 t5-7, 9 t7-9", "nothing");
    check_worth(&rules, "9 dead0.9 t5-7 0-49, 9 t1-9 50-99", "a");
    // Half of the range is free of older data, so half of the ratio counts.
    check_worth(&rules, "9 dead0.9 t5-7, 9 t1-9 50-99", "a");
    check_worth(&rules, "9 dead0.39 t5-7, 9 t1-9 50-99", "nothing");
    check_worth(&rules, "9 dead0.9 t5-7, 9 t1-9 0-40, 9 t1-9 20-80", "nothing");
    check_worth(&TombstoneRules { unchecked: true, ..rules }, "9 dead0.9 t5-7, 9 t7-9", "a");
}

/// `memtable_s`: the smallest timestamp of the memtables, in seconds.
#[track_caller]
fn check_expired(table: &str, memtable_s: Option<i64>, expect: &str) {
    let mut table = Table::new(table);
    table.memtable_min_timestamp_us = memtable_s.map(|s| s * 1_000_000);
    let found = fully_expired(&table.view(), &table.sstables, false);
    assert_eq!(table.names(&found), expect);
}

#[test]
fn fully_expired_is_what_deletes_nothing_elsewhere() {
    // gc_before is 999,990.
    check_expired("9 dies999989", None, "a");
    check_expired("9 dies999990", None, "");
    check_expired("9", None, "");
    check_expired("9 dies5 t1-2, 9 t3-4", None, "a");
    check_expired("9 dies5 t1-3, 9 t3-4", None, "");
    check_expired("9 dies5 t1-3 0-49, 9 t3-4 50-99", None, "a");
    check_expired("9 dies5 t1-3, 9 dies6 t2-4", None, "a b");
    check_expired("9 dies5 t1-3 busy", None, "");
    check_expired("9 dies5 t1-3", Some(3), "");
    check_expired("9 dies5 t1-3", Some(4), "a");
    let table = Table::new("9 dies5 t1-3, 9 t3-4");
    assert_eq!(table.names(&fully_expired(&table.view(), &table.sstables, true)), "a");
}

#[test]
fn overlaps_are_counted_and_grouped() {
    let table = Table::new("1 0-9, 1 5-20, 1 20-30, 1 40-50, 1 50-60, 1 70-71");
    let said: Vec<String> = groups(&table.sstables)
        .iter()
        .map(|group| table.names(&group.iter().map(|s| s.id).collect::<Vec<_>>()))
        .collect();
    assert_eq!(said, ["a b c", "d e", "f"]);
    assert_eq!(count_max(&table.sstables), 2);
    assert_eq!(count_max(&[]), 0);
    let share = share_outside(&table.sstables[1], &table.sstables[2..]);
    assert!((share - 15.0 / 16.0).abs() < 0.02, "{share}");
}

proptest! {
    #[test]
    fn the_index_finds_what_a_search_finds(ranges in prop::collection::vec((0..40u32, 0..15u32, 0..50i64), 1..30)) {
        let mut table = Table::new(&vec!["1"; ranges.len()].join(","));
        for (sstable, (from, length, at)) in table.sstables.iter_mut().zip(&ranges) {
            sstable.first = key(*from).clone();
            sstable.last = key((from + length).min(KEYS - 1)).clone();
            sstable.min_timestamp_us = *at;
        }
        let (indexed, rest) = table.sstables.split_at(ranges.len().div_ceil(2));
        let index = LeastIndex::new(indexed.iter().map(|s| (s, s.min_timestamp_us)));
        for sstable in indexed.iter().chain(rest) {
            let others = indexed.iter().filter(|other| other.id != sstable.id && other.overlaps(sstable));
            let least = others.map(|other| other.min_timestamp_us).min().unwrap_or(i64::MAX);
            prop_assert_eq!(index.min_of_overlapping(sstable), least);
        }
    }
}
