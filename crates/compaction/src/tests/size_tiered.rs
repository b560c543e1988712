use super::{check, check_on};
use crate::testing::{Cell, MB, Table, World, key};
use crate::tiers::{Bucketing, Tiering};
use crate::{SizeTiered, Split, Strategy, TombstoneRules};

fn stcs() -> SizeTiered {
    SizeTiered::default()
}

#[test]
fn four_alike_are_merged_and_three_are_not() {
    check(&mut stcs(), "50, 51, 52, 53, 900", "merge a b c d: 4 of about 54.0 MB");
    check(&mut stcs(), "50, 51, 52, 900", "nothing");
    check(&mut stcs(), "", "nothing");
}

#[test]
fn the_bucket_with_the_most_wins_and_of_equals_the_smaller() {
    check(&mut stcs(), "100, 100, 100, 100, 900, 900, 900, 900, 900", "merge e f g h i");
    check(&mut stcs(), "900, 900, 900, 900, 100, 100, 100, 100", "merge e f g h");
    let mut cassandra = stcs();
    cassandra.tiering.bucketing = Bucketing::Average;
    check(&mut cassandra, "900, 900, 900, 900, 100, 100, 100, 100, 100", "merge a b c d");
}

#[test]
fn no_more_than_max_threshold_the_smallest_first() {
    let mut few = SizeTiered { tiering: Tiering { max_threshold: 5, ..Tiering::default() }, ..stcs() };
    check(&mut few, "107, 106, 105, 104, 103, 102, 101", "merge c d e f g");
    assert_eq!(few.pending(&Table::new("107, 106, 105, 104, 103, 102, 101").view()), 2);
    assert_eq!(few.pending(&Table::new("107, 106, 105, 900").view()), 0);
}

#[test]
fn two_are_enough_when_there_is_nothing_else_unless_the_minimum_is_enforced() {
    let mut table = Table::new("100, 110, 900");
    check_on(&mut stcs(), &table, "nothing");
    table.enforce_min_threshold = false;
    check_on(&mut stcs(), &table, "merge a b: no other job: 2 of about 110.1 MB");
    let mut better = Table::new("100, 110, 900, 900, 900, 900");
    better.enforce_min_threshold = false;
    check_on(&mut stcs(), &better, "merge c d e f");
    let mut cassandra = stcs();
    cassandra.tiering.bucketing = Bucketing::Average;
    check_on(&mut cassandra, &table, "nothing");
}

#[test]
fn what_is_not_free_is_left_alone() {
    check(&mut stcs(), "50, 51 busy, 52, 53", "nothing");
    check(&mut stcs(), "50, 51 frozen, 52, 53", "nothing");
    check(&mut stcs(), "50, 51 busy, 52, 53, 54", "merge a c d e");
}

#[test]
fn what_has_expired_is_not_read() {
    check(&mut stcs(), "50, 51 dies100 t0-0.5, 52, 53", "merge a c d, drop b");
    check(&mut stcs(), "50, 51 dies100 t0-1, 52, 53", "merge a b c d");
}

#[test]
fn a_tombstone_compaction_takes_the_oldest_of_the_largest_tier() {
    check(
        &mut stcs(),
        "100 dead0.5 t1 0-9, 900 dead0.2 t5 10-19, 900 dead0.3 t4 20-29, 100 30-39",
        "merge c: 30 % of it may be dropped; the threshold is 20 %",
    );
    check(&mut stcs(), "100 dead0.19", "nothing");
    let off = TombstoneRules { enabled: false, ..TombstoneRules::default() };
    check(&mut SizeTiered { tombstones: off, ..stcs() }, "100 dead0.9", "nothing");
}

#[test]
fn major_takes_all_and_may_be_split_into_a_half_a_quarter_and_so_on() {
    let table = Table::new("400, 300 busy, 200, 300");
    let plans = stcs().major(&table.view(), false);
    assert_eq!(table.say(plans.first()), "merge a c d");
    let split = stcs().major(&table.view(), true);
    assert_eq!(table.say(split.first()), "merge a c d into 5 parts");
    let Split::Tokens(tokens) = &split[0].layout.split else { panic!("no tokens") };
    let share = |token: i64| (token as f64 - i64::MIN as f64) / 2f64.powi(64);
    let shares: Vec<String> = tokens.iter().map(|token| format!("{:.2}", share(*token))).collect();
    assert_eq!(shares, ["0.50", "0.75", "0.87", "0.94"]);
    assert!(stcs().major(&Table::new("9 busy").view(), false).is_empty());
    let small = Table::new("40, 40");
    assert_eq!(small.say(stcs().major(&small.view(), true).first()), "merge a b");
}

#[test]
fn backlog_is_the_bytes_times_the_tiers_that_they_still_go_through() {
    let mb = |table: &str| stcs().backlog_bytes(&Table::new(table).view()) / MB as f64;
    // Four SSTables of 100 in a table of 1600 pass through two more tiers each.
    assert_eq!(mb("100, 100, 100, 100, 1200").round(), 800.0);
    assert_eq!(mb("100, 100, 100, 1300"), 0.0);
    assert_eq!(mb("100, 100, 100, 100").round(), 400.0);
    assert_eq!(mb(""), 0.0);
}

#[test]
fn the_world_merges_purges_and_releases() {
    let (mut world, mut strategy) = (World::new(64 * MB), stcs());
    world.enforce_min_threshold = true;
    for flush in 0..4 {
        world.flush(&strategy, (0..10).map(|n| ((n * 10, 0), Cell::write(flush, n.into()))));
    }
    let plan = world.decide(&mut strategy).expect("four alike");
    assert_eq!(world.run_plan(&mut strategy, &plan).len(), 1);
    assert_eq!((world.bytes(), world.totals.peak_bytes), (640 * MB, 50 * 64 * MB));
    world.flush(&strategy, [((50, 0), Cell::delete(world.now_us))]);
    assert_eq!((world.content().len(), world.sstables_of(50)), (9, 2));
    world.now_us += 864_001 * 1_000_000;
    let sstables = world.sstables();
    let plans = strategy.major(&world.view(&sstables), false);
    world.run_plan(&mut strategy, &plans[0]);
    assert_eq!((world.bytes(), world.content().len()), (9 * 64 * MB, 9));
    assert_eq!(world.sstables()[0].last, *key(90));
}

#[test]
fn cold_sstables_are_left_out() {
    let table = "a 1 reads1, b 1 reads2, c 1 reads3, d 1 reads94, e 1, f 1, g 1";
    let omitting = |part| SizeTiered { cold_reads_to_omit: part, ..stcs() };
    check(&mut omitting(0.0), table, "merge a b c d e f g");
    check(&mut omitting(0.005), table, "merge a b c d e f g");
    check(&mut omitting(0.03), table, "merge c d e f g");
    check(&mut omitting(0.06), table, "merge d e f g");
    // SSTables whose reads were not counted for long enough are not excluded.
    check(&mut omitting(1.0), table, "nothing");
    check(&mut omitting(1.0), "a 1 reads1, 1, 1, 1, 1", "merge b c d e");
    // Without any reads no SSTable is cold; if one is read, those without reads are cold.
    check(&mut omitting(0.05), "1 reads0, 1 reads0, 1 reads0, 1 reads0", "merge a b c d");
    check(&mut omitting(0.05), "1 reads0, 1 reads0, 1 reads0, 1 reads1", "nothing");
    // They are still rewritten for their tombstones.
    check(&mut omitting(0.05), "9 reads0 dead0.5, 100 reads1 t9", "merge a");
    let table = Table::new(table);
    assert_eq!(omitting(1.0).pending(&table.view()), 0);
    assert_eq!(omitting(0.03).pending(&table.view()), 1);
    let all = omitting(1.0).major(&table.view(), false);
    assert_eq!(table.say(all.first()), "merge a b c d e f g");
}
