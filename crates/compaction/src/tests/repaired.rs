//! `only_purge_repaired_tombstones`.

use super::check_on;
use crate::strategy_from;
use crate::testing::Table;

fn strategy(class: &str, more: &[(&str, &str)]) -> Box<dyn crate::Strategy> {
    let class = format!("{class}CompactionStrategy");
    let given = [("class", class.as_str()), ("only_purge_repaired_tombstones", "true")];
    let options =
        given.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string())).collect();
    strategy_from(&options).expect("options")
}

#[track_caller]
fn check(class: &str, table: &str, expect: &str) {
    check_on(strategy(class, &[]).as_mut(), &Table::new(table), expect);
}

#[test]
fn repaired_and_unrepaired_are_never_merged_together() {
    check("SizeTiered", "1, 1, 1 repaired, 1 repaired", "nothing");
    check("SizeTiered", "1, 1 repaired, 1, 1, 1 repaired, 1", "merge a c d f");
    check("SizeTiered", "1 repaired, 1 repaired, 9, 1 repaired, 1 repaired", "merge a b d e");
    check("Unified", "1, 1 repaired, 1, 1 repaired, 1 repaired, 1 repaired", "merge b d e f");
    let table = Table::new("1, 1 repaired, 1, 1 repaired");
    let mut strategy = strategy("SizeTiered", &[]);
    let plans = strategy.major(&table.view(), false);
    let said: Vec<String> = plans.iter().map(|plan| table.say(Some(plan))).collect();
    assert_eq!(said, ["merge a c", "merge b d"]);
}

#[test]
fn tombstones_of_unrepaired_sstables_make_no_jobs() {
    check("SizeTiered", "9 dead0.5", "nothing");
    check("SizeTiered", "9 dead0.5 repaired", "merge a");
    check("TimeWindow", "9 dies500", "nothing");
    check("TimeWindow", "9 dies500 repaired", "drop a");
}

/// An expired SSTable is kept while the other set may contain data that its tombstones delete.
#[test]
fn the_other_set_keeps_tombstones() {
    check("TimeWindow", "9 dies500 repaired t5, 9 t1", "nothing");
    check("TimeWindow", "9 dies500 repaired t5, 9 t6", "drop a");
    check("SizeTiered", "9 dead0.5 repaired t5, 9 t1", "nothing");
    check("SizeTiered", "9 dead0.5 repaired t5, 9 t6", "merge a");
}

#[test]
fn each_set_has_levels_of_its_own() {
    let mut strategy = strategy("Leveled", &[("sstable_size_in_mb", "5")]);
    let table = Table::new("15 L1 repaired 0-9, 5");
    check_on(strategy.as_mut(), &table, "merge b into level 1 of 5 MB each");
}
