use super::{check, check_on};
use crate::testing::{MB, NOW_S, Table};
use crate::{
    DiskView, Incremental, IncrementalOptions, Reason, RunId, SampledGroup, SampledOverlap, Split, Strategy,
    TombstoneCollection,
};

fn incremental() -> Incremental {
    with(|_| {})
}

/// A strategy with fragments of 100 MB.
fn with(change: impl FnOnce(&mut IncrementalOptions)) -> Incremental {
    let mut options = IncrementalOptions { fragment_bytes: 100 * MB, ..IncrementalOptions::default() };
    change(&mut options);
    Incremental::new(options)
}

fn on_a_disk(text: &str, capacity_mb: u64) -> Table {
    let mut table = Table::new(text);
    let used: u64 = table.sstables.iter().map(|sstable| sstable.disk_bytes).sum();
    let capacity_bytes = capacity_mb * MB;
    table.disk = DiskView::new(capacity_bytes, capacity_bytes - used);
    table
}

#[test]
fn a_run_counts_as_one_file() {
    let run = |size: u64, n: u32| format!("{size} run{n} 0-49, {size} run{n} 50-99");
    let four = [1, 2, 3, 4].map(|n| run(100, n)).join(", ");
    check(&mut incremental(), &four, "merge a b c d e f g h into a run of 100 MB each: 4 of about 209.7 MB");
    check(&mut incremental(), &[1, 2, 3].map(|n| run(100, n)).join(", "), "nothing");
    // A run of two fragments of 100 MB has 200 MB and is not similar to one of 100 MB.
    check(&mut incremental(), &format!("{}, 100, 100, 100", run(100, 1)), "nothing");
    check(&mut incremental(), &four.replacen("100", "100 busy", 1), "nothing");
}

#[test]
fn tiers_are_narrower_than_those_of_size_tiered() {
    check(&mut incremental(), "100, 100, 140, 140", "merge a b c d into a run of 100 MB each");
    check(&mut incremental(), "100, 100, 100, 145", "nothing");
    check(
        &mut with(|options| options.tiering.bucket_high = 1.5),
        "100, 100, 100, 145",
        "merge a b c d into a run of 100 MB each",
    );
}

#[test]
fn two_of_one_size_are_merged_when_there_is_nothing_else_unless_forbidden() {
    let mut table = Table::new("100, 100, 900");
    check_on(&mut incremental(), &table, "nothing");
    table.enforce_min_threshold = false;
    check_on(
        &mut incremental(),
        &table,
        "merge a b into a run of 100 MB each: no other job: 2 of about 104.9 MB",
    );
}

#[test]
fn inputs_are_released_early_if_one_has_several_fragments() {
    let released = |text: &str| incremental().next(&Table::new(text).view()).unwrap().release_early;
    assert!(!released("100, 100, 100, 100"));
    assert!(released("50 run1 0-49, 50 run1 50-99, 100, 100, 100"));
}

#[test]
fn a_merge_of_runs_needs_a_fragment_of_each_and_one_more() {
    let text: Vec<String> = (0..4)
        .flat_map(|run| (0..10).map(move |at| format!("100 run{run} {}-{}", at * 10, at * 10 + 9)))
        .collect();
    let table = Table::new(&text.join(", "));
    let plan = incremental().next(&table.view()).unwrap();
    assert_eq!(plan.inputs.len(), 40);
    assert_eq!(plan.needs_bytes(&table.view()), Some(500 * MB));
    let at_once = crate::Plan { release_early: false, ..plan };
    assert_eq!(at_once.needs_bytes(&table.view()), Some(4000 * MB));
}

#[test]
fn runs_that_share_most_are_merged_however_few() {
    let said = "merge a b into a run of 100 MB each: 50 % of it is dead, by sketches of the shared data";
    check(&mut incremental(), "100 same100, 100 same100", said);
    check(&mut incremental(), "100 same20, 100 same20", "nothing");
    check(&mut with(|options| options.overlap_threshold = 0.0), "100 same100, 100 same100", "nothing");
    // A small run contained in a large one is not worth rewriting the large one; a larger run is.
    check(&mut incremental(), "1000 same100, 300 same100", "nothing");
    check(&mut incremental(), "1000 same100, 600 same100", "merge a b into a run of 100 MB each");
    // The merge with the largest gain is chosen.
    check(
        &mut incremental(),
        "1000 same100, 600 same100, 500 same100",
        "merge a b c into a run of 100 MB each",
    );
    check(
        &mut incremental(),
        "1000 same100, 300 same100, 250 same100",
        "merge b c into a run of 100 MB each",
    );
    // Runs without common partitions are not included.
    check(
        &mut incremental(),
        "100 same100, 100 same100, 90 same0, 30 same100",
        "merge a b d into a run of 100 MB each",
    );
    check(&mut incremental(), "100 same100 busy, 100 same100", "nothing");
}

#[test]
fn a_sample_of_rows_is_believed_rather_than_sketches_of_partitions() {
    let table = Table::new("300 run1 same100, 300 run2 same100");
    let wanted = incremental().wants_sample(&table.view()).unwrap();
    assert_eq!(wanted.runs, [RunId(1), RunId(2)]);
    let sample = |output_bytes| SampledOverlap {
        runs: wanted.runs.clone(),
        groups: vec![SampledGroup { members: 0b11, input_bytes: 1000, output_bytes }],
    };
    let decide = |sampled: &SampledOverlap| {
        let view = crate::TableView { sampled: Some(sampled), ..table.view() };
        assert_eq!(incremental().wants_sample(&view), None);
        incremental().next(&view).map(|plan| plan.reason)
    };
    assert_eq!(decide(&sample(1000)), None);
    assert_eq!(decide(&sample(500)), Some(Reason::Duplicates { ratio: 0.5, sampled: true }));
    // The merge is too small for a sample.
    assert_eq!(incremental().wants_sample(&Table::new("100 same100, 100 same100").view()), None);
}

#[test]
fn sketches_that_were_wrong_are_trusted_less() {
    let mut strategy = incremental();
    let table = Table::new("100 same100, 100 same100");
    for trial in 0.. {
        let Some(plan) = strategy.next(&table.view()) else {
            assert!((1..4).contains(&trial), "{trial} times wrong");
            break;
        };
        // No bytes were dead: the runs have the same partitions with different rows.
        let finished = crate::Finished {
            plan: &plan,
            input_level: 0,
            last_key: None,
            input_bytes: 200 * MB,
            output_bytes: 200 * MB,
        };
        strategy.finished(&finished);
    }
}

#[test]
fn a_fragment_is_collected_with_all_that_is_older_and_overlaps_it() {
    // Fragments of a large old run, of a younger run with tombstones, and of a small new run.
    let old = "100 run1 0-24 t1-10, 100 run1 25-49 t1-10, 100 run1 50-74 t1-10, 100 run1 75-99 t1-10";
    let table = |f: &str| format!("{old}, 60 run2 0-39 t11-20, {f}, 9 run3 0-99 t30-40");
    check(
        &mut incremental(),
        &table("60 run2 40-99 t11-20 dead0.6"),
        "merge b c d f into a run of 100 MB each back into run1: 60 % of a fragment may be dropped, with 3 that overlap it",
    );
    check(
        &mut incremental(),
        &table("60 run2 55-60 t11-20 dead0.6"),
        "merge c f into a run of 100 MB each back into run1",
    );
    // Too few tombstones, too young, or older data that is not free.
    check(&mut incremental(), &table("60 run2 40-99 t11-20 dead0.1"), "nothing");
    check(&mut incremental(), &table("60 run2 40-99 t11-20 dead0.6 age100"), "nothing");
    check(
        &mut incremental(),
        &table("60 run2 40-99 t11-20 dead0.6").replace("75-99", "75-99 busy"),
        "nothing",
    );
    check(
        &mut with(|o| o.tombstone_collection = TombstoneCollection::WhenShort),
        &table("60 run2 40-99 dead0.6"),
        "nothing",
    );
    let mut busy = Table::new(&table("60 run2 40-99 t11-20 dead0.6"));
    busy.jobs_running = 1;
    check_on(&mut incremental(), &busy, "nothing");
}

#[test]
fn a_fragment_younger_than_a_day_needs_more_tombstones() {
    check(&mut incremental(), "100 dead0.3", "merge a into a run of 100 MB each back into run1000001");
    check(&mut incremental(), "100 dead0.3 age80000", "nothing");
    check(
        &mut incremental(),
        "100 dead0.5 age80000",
        "merge a into a run of 100 MB each back into run1000001",
    );
    let mut table = Table::new("100 dead0.5 age80000 t1-20");
    table.memtable_min_timestamp_us = Some(15_000_000);
    check_on(&mut incremental(), &table, "nothing");
    let mut table = Table::new("100 dead0.5 t1-20");
    table.memtable_min_timestamp_us = Some(15_000_000);
    check_on(&mut incremental(), &table, "merge a into a run of 100 MB each back into run1000001");
}

#[test]
fn what_is_merged_goes_back_to_where_nothing_else_of_its_run_is() {
    // b and c overlap. The part that only one of them covers stays in its run.
    let table = Table::new(
        "100 run1 0-39 t1-2, 100 run1 40-79 t1-2, 60 run2 60-89 t5-6 dead0.6, 60 run2 90-99 t5-6, 70 run2 0-9 t5-6",
    );
    let plan = incremental().next(&table.view()).unwrap();
    assert_eq!(table.names(&plan.inputs), "b c");
    let Split::Runs(pieces) = &plan.layout.split else { panic!("{plan:?}") };
    let runs: Vec<u128> = pieces.iter().map(|piece| piece.run.0).collect();
    assert_eq!(runs, [1, 2]);
    let [b, c] = [&table.sstables[1], &table.sstables[2]];
    let of = |key| crate::RunPiece::of(pieces, key).map(|at| pieces[at].run.0);
    assert_eq!([of(&b.first), of(&b.last), of(&c.first), of(&c.last)], [Some(1), Some(1), Some(1), Some(2)]);
}

#[test]
fn cassandra_and_scylladb_collect_whole_tiers() {
    let mut peers = with(|options| *options = options.clone().as_the_peers());
    let mut check = |table: &str, expect: &str| check(&mut peers, table, expect);
    check("1000, 400, 100 dead0.3", "merge b c into a run of 100 MB each");
    check("1000, 400 dead0.3, 100", "merge a b into a run of 100 MB each");
    check(
        "1000 dead0.3, 400, 100",
        "merge a b into a run of 100 MB each: 30 % of it may be dropped; the threshold is 20 %",
    );
    check("1000 dead0.1, 400, 100", "nothing");
    check("1000 dead0.3 age80000, 400, 100", "nothing");
}

#[test]
fn the_two_largest_tiers_are_merged_when_they_exceed_the_goal() {
    let mut strategy = with(|options| options.space_amplification_goal = Some(1.5));
    check(&mut strategy, "1000, 400, 100", "nothing");
    check(
        &mut strategy,
        "1000, 600, 100",
        "merge a b into a run of 100 MB each: the two largest tiers take 1.60 times the space, the goal is 1.50",
    );
    let mut table = Table::new("1000, 600, 100");
    table.jobs_running = 1;
    check_on(&mut strategy, &table, "nothing");
}

#[test]
fn what_has_expired_goes_unread() {
    check(&mut incremental(), "100, 100 dies500 t0.1-0.2, 100, 100", "drop b: all in 1 has expired");
    check(
        &mut incremental(),
        "100 t0-1, 100 dies500 t0.1-0.2, 100, 90",
        "merge a b c d into a run of 100 MB each",
    );
}

#[test]
fn fewer_are_merged_when_more_do_not_fit() {
    let runs = |n: u32| {
        let run = |n: u32| (0..10).map(move |at| format!("100 run{n} {}-{}", at * 10, at * 10 + 9));
        (0..n).flat_map(run).collect::<Vec<_>>().join(", ")
    };
    // A job of k runs needs k + 1 fragments.
    let of_six = |free_mb: u64| {
        let table = on_a_disk(&runs(6), 6000 + free_mb);
        let plan = incremental().next(&table.view()).unwrap();
        assert!(plan.needs_bytes(&table.view()).unwrap() <= free_mb * MB);
        (plan.inputs.len() / 10, plan.reason.to_string())
    };
    assert_eq!(of_six(800), (6, "6 of about 1048.6 MB".to_string()));
    assert_eq!(of_six(500), (4, "the usual job needs 734.0 MB, 524.3 MB are free".to_string()));
    assert_eq!(of_six(300), (2, "the usual job needs 734.0 MB, 314.6 MB are free".to_string()));
    check_on(&mut incremental(), &on_a_disk(&runs(6), 6299), "nothing");
}

#[test]
fn a_budget_into_which_no_job_fits_is_exceeded_by_the_smallest() {
    let with_budget = |text: &str, file_system_free_mb: u64| {
        let mut table = on_a_disk(text, 1000);
        table.disk.free_bytes = 10 * MB;
        table.disk.file_system_free_bytes = file_system_free_mb * MB;
        table
    };
    let text = "300, 100, 90, 310";
    let said = "merge b c into a run of 15 MB each: the smallest job needs 199.2 MB, disk_budget leaves 10.5 MB: the budget is \
                exceeded temporarily";
    check_on(&mut incremental(), &with_budget(text, 500), said);
    // The space of the file system is a hard limit.
    check_on(&mut incremental(), &with_budget(text, 150), "nothing");
    // Only one such job runs at a time.
    let mut busy = with_budget(text, 500);
    busy.jobs_running = 1;
    check_on(&mut incremental(), &busy, "nothing");
    // A flush does not rewrite a table that is larger than the budget.
    check_on(&mut incremental(), &with_budget("900, 20", 2000), "nothing");
}

#[test]
fn when_the_disk_is_short_what_frees_most_goes_first() {
    let runs = |same: u32| {
        let run = |n: u32, mb: u64| {
            let word = if n == 1 { format!("same{same}") } else { "same100".to_string() };
            (0..10).map(move |at| format!("{mb} run{n} {}-{} {word}", at * 10, at * 10 + 9))
        };
        run(0, 100).chain(run(1, 15)).collect::<Vec<_>>().join(", ")
    };
    // While there is enough space, one sixth of the bytes is too small a gain.
    check_on(&mut incremental(), &on_a_disk(&runs(100), 3000), "nothing");
    let table = on_a_disk(&runs(100), 1150 + 250);
    let plan = incremental().next(&table.view()).unwrap();
    assert!(
        matches!(plan.reason, Reason::DiskShortDeadBytes { dead_bytes } if dead_bytes > 100 * MB),
        "{plan:?}"
    );
    assert_eq!(plan.inputs.len(), 20);
    // If dead bytes are in one range only, the fragments of this range are merged.
    let there = runs(0).replacen("30-39 same0", "30-39 same100", 1);
    let plan = incremental().next(&on_a_disk(&there, 1150 + 250).view()).unwrap();
    assert_eq!(Table::new(&there).names(&plan.inputs), "d n");
    // If no bytes are known to be dead, two runs of similar size are merged, or the smallest runs.
    let table = on_a_disk(&runs(0), 1150 + 250);
    let plan = incremental().next(&table.view()).unwrap();
    assert!(matches!(plan.reason, Reason::DiskShort { .. }), "{plan:?}");
    assert_eq!(plan.inputs.len(), 20);
}

#[test]
fn when_the_disk_is_short_tombstones_are_collected_sooner() {
    let text = "100 run1 0-49 t1-2, 100 run1 50-99 t3-4 dead0.15 age700";
    check_on(&mut incremental(), &on_a_disk(text, 900), "nothing");
    let said = "merge b into a run of 7 MB each back into run1: the disk is short of space, and 15.7 MB here are dead";
    check_on(&mut incremental(), &on_a_disk(text, 450), said);
    check_on(&mut incremental(), &on_a_disk(&text.replace("700", "500"), 450), "nothing");
}

#[test]
fn a_small_disk_gets_small_fragments() {
    let mut table = on_a_disk("10, 10, 10, 10", 640);
    table.flush_bytes = 10 * MB;
    let plan = incremental().next(&table.view()).unwrap();
    assert_eq!(plan.layout.max_bytes, Some(10 * MB));
    assert_eq!(incremental().reserve_bytes(&table.view()), 40 * MB);
    let mut blind = with(|options| options.disk_aware = false);
    assert_eq!(blind.next(&table.view()).unwrap().layout.max_bytes, Some(100 * MB));
    assert_eq!(blind.reserve_bytes(&table.view()), 0);
}

#[test]
fn it_explains_its_inputs() {
    let mut table = Table::new("1000 same100, 300 same100, 100 same0, 101 same0, 60 same0 t1-5 dead0.1");
    table.memtable_min_timestamp_us = Some(i64::from(NOW_S) * 1_000_000);
    let explained = incremental().explain(&table.view());
    assert_eq!(explained.plan, None);
    let expect = "\
IncrementalCompactionStrategy: 5 SSTables, 1636.8 MB
  SSTables in which all has expired: no candidates
  runs that share partitions:
    2 of 1363.1 MB, about 314.6 MB of them dead: frees 0.30 bytes for each byte written; the threshold is 0.50
    1 of 314.6 MB, about 0.0 MB of them dead: frees 0.00 bytes for each byte written; the threshold is 0.50
    1 of 105.9 MB, about 0.0 MB of them dead: frees 0.00 bytes for each byte written; the threshold is 0.50
    1 of 104.9 MB, about 0.0 MB of them dead: frees 0.00 bytes for each byte written; the threshold is 0.50
  runs of about the same size:
    1 of 62.9 MB: too few, at least 4
    2 of 210.8 MB: too few, at least 4
    1 of 314.6 MB: too few, at least 4
    1 of 1048.6 MB: too few, at least 4
  tombstones that may be dropped:
    1 of 62.9 MB, about 6.3 MB of them dead: 10 % of it may be dropped; the threshold is 20 %
  result: no job";
    assert_eq!(explained.to_string(), expect);
    let taken = incremental().explain(&Table::new("100, 100, 100, 100").view());
    assert!(taken.to_string().ends_with("result: 4 SSTables are merged: 4 of about 104.9 MB"), "{taken}");
    assert_eq!(taken.plan, incremental().next(&Table::new("100, 100, 100, 100").view()));
}
