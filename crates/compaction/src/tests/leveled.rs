use super::{check, check_on};
use crate::leveled::Levels;
use crate::testing::{MB, Table};
use crate::{Finished, Leveled, Strategy};

/// A strategy with SSTables of 10 MB.
fn lcs() -> Leveled {
    Leveled::new(10 * MB, 10)
}

/// `sstables` SSTables of 10 MB with consecutive ranges in a level.
fn level(level: u32, sstables: u32) -> String {
    let width = 100.0 / f64::from(sstables);
    let one = |n: u32| {
        let from = f64::from(n) * width;
        format!("L{level}n{n} 10 L{level} {}-{}", from, from + width - 1.001)
    };
    (0..sstables).map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn level_zero_goes_to_level_one_with_what_it_overlaps() {
    check(
        &mut lcs(),
        "a 9 0-49, b 9 20-59, c 10 L1 40-59, d 10 L1 60-99",
        "merge a b c into level 1 of 10 MB each: 2 of level 0 move to level 1",
    );
    check(&mut lcs(), "a 10", "merge a into level 1 of 10 MB each");
}

#[test]
fn a_little_in_level_zero_is_merged_by_size_and_stays() {
    check(&mut lcs(), "1, 1, 1, 1, 10 L1", "merge a b c d: 4 of level 0 are too many: they are merged first");
    check(&mut lcs(), "1, 1, 1, 10 L1", "nothing");
}

#[test]
fn of_more_than_32_in_level_zero_the_oldest_32_go() {
    let table: Vec<String> = (0..34).map(|n| format!("s{n} 1 t{}", 100 - n)).collect();
    let mut table = Table::new(&table.join(", "));
    table.names = table.names.iter().map(|name| name.replace('s', "")).collect();
    let plan = lcs().next(&table.view()).expect("a plan");
    assert_eq!(plan.inputs.len(), 32);
    assert!(!plan.inputs.iter().any(|id| ["0", "1"].contains(&table.name(*id))));
}

#[test]
fn a_level_that_is_too_large_gives_one_to_the_next() {
    let table = format!("{}, x 10 L2 0-14, y 10 L2 50-80", level(1, 11));
    check(
        &mut lcs(),
        &table,
        "merge L1n9 into level 2 of 10 MB each: level 1 has 115.3 MB, more than 104.9 MB",
    );
    let full = format!("{}, x 1000 L2", level(1, 10));
    check(&mut lcs(), &full, "nothing");
    // The highest level has priority.
    let mut both = lcs();
    both.fanout = 2;
    let table = "a 10 L1 0-9, b 10 L1 10-19, c 10 L1 20-29, d 50 L2, e 80 L3 0-49";
    check(&mut both, table, "merge d e into level 3 of 10 MB each");
}

#[test]
fn which_one_is_given_goes_round_the_ring() {
    let mut strategy = lcs();
    let table = Table::new(&level(1, 12));
    let mut said = vec![];
    for _ in 0..3 {
        let plan = strategy.next(&table.view()).expect("a plan");
        said.push(table.names(&plan.inputs));
        let last = table.view().find(plan.inputs[0]).map(|sstable| sstable.last.clone());
        strategy.finished(&Finished {
            plan: &plan,
            input_level: 1,
            last_key: last,
            input_bytes: 0,
            output_bytes: 0,
        });
    }
    assert_eq!(said, ["L1n0", "L1n1", "L1n2"]);
    let plan = strategy.next(&table.view()).expect("a plan");
    let end = table.sstables.last().map(|sstable| sstable.last.clone());
    strategy.finished(&Finished {
        plan: &plan,
        input_level: 1,
        last_key: end,
        input_bytes: 0,
        output_bytes: 0,
    });
    check_on(&mut strategy, &table, "merge L1n0 into level 2 of 10 MB each");
    // After a restart: after the newest SSTable of the next level.
    let table = format!("{}, x 10 L2 0-3 age500, y 10 L2 4-24 age20", level(1, 12));
    check(&mut lcs(), &table, "merge L1n3 into level 2 of 10 MB each");
}

#[test]
fn what_is_not_free_is_gone_around() {
    let table = format!("{}, x 10 L2 0-14 busy", level(1, 11));
    check(&mut lcs(), &table, "merge L1n2 into level 2 of 10 MB each");
    check(&mut lcs(), "a 10 0-49, b 10 L1 20-59 busy", "nothing");
    check(&mut lcs(), "a 10 0-49 frozen, b 10 20-59", "merge b into level 1 of 10 MB each");
}

#[test]
fn reads_come_first_when_level_zero_has_a_backlog() {
    let zero = vec!["1"; 33].join(", ");
    let table = Table::new(&format!("{zero}, {}", level(1, 11)));
    let plan = lcs().next(&table.view()).expect("a plan");
    assert_eq!((plan.inputs.len(), plan.layout.level, plan.layout.max_bytes), (32, 0, None));
    assert_eq!(plan.reason.to_string(), "32 of level 0 are too many: they are merged first");
}

#[test]
fn overlapping_ones_of_a_level_are_merged_where_they_are() {
    check(
        &mut lcs(),
        "a 10 L1 0-9, b 10 L1 5-19, c 10 L1 19-25, d 10 L1 30-40",
        "merge a b c into level 1 of 10 MB each: 3 of level 1 overlap",
    );
    check(&mut lcs(), "a 10 L1 0-9, b 10 L1 5-19 busy", "nothing");
}

#[test]
fn a_level_that_is_not_ten_times_the_one_before_gets_more() {
    check(
        &mut lcs(),
        "a 10 L1 0-9, b 10 L2 0-9",
        "merge a b into level 2 of 10 MB each: level 1 is pushed up, so that the next is ten times as large",
    );
    check(&mut lcs(), "a 10 L1 0-9, b 100 L2 0-9", "nothing");
    check(&mut lcs(), "a 10 L1, b 10 L3", "nothing");
}

#[test]
fn a_starved_level_gives_one_that_lies_within_the_range() {
    let mut strategy = lcs();
    let table = Table::new("a 20 10-50, b 10 L3 0-20, c 10 L3 21-29, d 10 L3 30-39");
    check_on(&mut strategy, &table, "merge a into level 1 of 10 MB each");
    let plan = strategy.next(&table.view()).expect("a plan");
    for jobs in 0..=26 {
        let with = if jobs > 25 { "merge a c" } else { "merge a" };
        check_on(&mut strategy, &table, &format!("{with} into level 1 of 10 MB each"));
        strategy.finished(&Finished {
            plan: &plan,
            input_level: 0,
            last_key: None,
            input_bytes: 0,
            output_bytes: 0,
        });
    }
}

#[test]
fn one_alone_may_get_its_level_only() {
    let mut strategy = lcs();
    strategy.single_sstable_uplevel = true;
    check(
        &mut strategy,
        &level(1, 11),
        "merge L1n0 into level 2 of 10 MB each: it overlaps nothing in level 2",
    );
}

#[test]
fn tombstones_from_the_highest_level_the_most_first() {
    let table = "a 10 L1 0-9 dead0.9, b 100 L2 20-29 dead0.3, c 10 L2 30-39 dead0.5, d 1 40-49 dead0.9";
    check(
        &mut lcs(),
        table,
        "merge c into level 2 of 10 MB each: 50 % of it may be dropped; the threshold is 20 %",
    );
    check(&mut lcs(), "d 1 40-49 dead0.9", "merge d");
}

#[test]
fn major_fills_the_level_that_has_room() {
    let say = |table: &str| {
        let table = Table::new(table);
        table.say(lcs().major(&table.view(), false).first())
    };
    assert_eq!(say("50, 50 L1"), "merge a b into level 1 of 10 MB each");
    assert_eq!(say("50, 51 L1"), "merge a b into level 2 of 10 MB each");
    assert_eq!(say("5"), "merge a");
    assert_eq!(say("50, 500, 10 L1 busy"), "merge a b");
}

#[test]
fn what_is_pending_and_its_backlog() {
    let pending = |table: &str| lcs().pending(&Table::new(table).view());
    assert_eq!(pending("100 L1"), 0);
    assert_eq!(pending("130 L1"), 3);
    assert_eq!(pending("60, 130 L1"), 5);
    let backlog = |table: &str| lcs().backlog_bytes(&Table::new(table).view()) / MB as f64;
    assert_eq!(backlog("100 L1"), 0.0);
    assert_eq!(backlog("10, 100 L1"), 0.0);
    // Level 0 should have 1 % of 1.11 times 108: 10.8.
    assert_eq!(backlog("20, 100 L1").round(), 9.0);
    assert!(backlog("20, 20, 20, 20, 100 L1") > backlog("80, 100 L1"));
}

#[test]
fn overlapping_is_found_by_search() {
    let table = Table::new("1 L1 0-9, 1 L1 20-60, 1 L1 30-35, 1 L1 70-80");
    let levels = Levels::new(&table.sstables);
    let found = |from: usize, to: usize| {
        let (first, last) = (&table.sstables[from].first, &table.sstables[to].last);
        table.names(&levels.at(1).overlapping(first, last).map(|s| s.id).collect::<Vec<_>>())
    };
    assert_eq!(found(2, 2), "b c");
    assert_eq!(found(0, 0), "a");
    assert_eq!(found(2, 3), "b c d");
}
