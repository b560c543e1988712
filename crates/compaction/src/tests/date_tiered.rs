use super::{check, check_on};
use crate::testing::Table;
use crate::{DateTiered, Strategy};

/// Windows of 100 s, then four times as long, up to 1600 s.
fn dtcs() -> DateTiered {
    let mut strategy = DateTiered::default();
    strategy.base_us = 100_000_000;
    strategy.max_window_us = 1_600_000_000;
    strategy
}

#[test]
fn the_incoming_window_needs_four_and_older_ones_two() {
    check(&mut dtcs(), "100 t1610, 100 t1620, 100 t1630", "nothing");
    check(&mut dtcs(), "100 t1610, 100 t1620, 100 t1630, 100 t1640", "merge a b c d");
    check(&mut dtcs(), "9 t1610, 100 t1510, 100 t1520", "merge b c");
    check(&mut dtcs(), "9 t1610, 100 t1510, 900 t1520", "nothing");
}

#[test]
fn windows_grow_with_their_age_and_are_aligned() {
    // The newest window is 2000-2099 (number 20, a multiple of four); it is preceded by windows of 400 s.
    check(&mut dtcs(), "9 t2010, 100 t1610, 100 t1990", "merge b c");
    check(&mut dtcs(), "9 t2010, 100 t1590, 100 t1610", "nothing");
    check(&mut dtcs(), "9 t2010, 100 t1190, 100 t10", "merge b c");
    check(&mut dtcs(), "9 t2110, 100 t2010, 100 t2090", "merge b c");
    // The largest windows have 1600 s.
    check(&mut dtcs(), "9 t9010, 100 t1610, 100 t3190", "merge b c");
    check(&mut dtcs(), "9 t9010, 100 t1590, 100 t1610", "nothing");
}

#[test]
fn the_oldest_write_counts() {
    check(&mut dtcs(), "9 t2010, 100 t1500-1990, 100 t1610", "nothing");
}

#[test]
fn what_is_too_old_is_left_alone() {
    let mut strategy = dtcs();
    strategy.max_age_us = 1_000_000_000;
    check(&mut strategy, "9 t5010, 100 t3500, 100 t3510", "nothing");
    check(&mut strategy, "9 t5010, 100 t4100, 100 t4150", "merge b c");
}

#[test]
fn what_has_expired_goes_with_the_next_job() {
    check(&mut dtcs(), "9 dies5 t1, 100 t1510, 100 t1520, 9 t1610", "merge b c, drop a");
    let mut strategy = dtcs();
    let mut table = Table::new("9 dies5 t1, 9 t1610");
    check_on(&mut strategy, &table, "drop a");
    check(&mut strategy, "9 t1610", "nothing");
    check_on(&mut strategy, &table, "nothing");
    table.now_us += 600_000_000;
    check_on(&mut strategy, &table, "drop a");
}

#[test]
fn far_off_timestamps_are_no_harm() {
    let mut table = Table::new("9 t2010, 9 t1, 9 t1");
    table.sstables[1].min_timestamp_us = i64::MIN;
    table.sstables[2].max_timestamp_us = i64::MAX;
    assert!(dtcs().next(&table.view()).is_none());
    assert_eq!(dtcs().pending(&table.view()), 0);
}
