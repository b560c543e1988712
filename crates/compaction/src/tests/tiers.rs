use crate::testing::Table;
use crate::tiers::{Bucketing, Tiering, free_runs, runs};

#[track_caller]
fn check_buckets(tiering: &Tiering, table: &str, expect: &str) {
    let table = Table::new(table);
    let buckets = tiering.buckets(runs(&table.sstables), table.view().now_s());
    let said: Vec<String> = buckets
        .iter()
        .map(|bucket| {
            let mut ids: Vec<_> = crate::ids(&bucket.runs);
            ids.sort_unstable();
            table.names(&ids)
        })
        .collect();
    assert_eq!(said.join(" | "), expect);
}

#[test]
fn runs_join_the_bucket_whose_average_is_near() {
    let tiering = Tiering::default();
    check_buckets(&tiering, "100, 100, 149, 500", "a b c | d");
    check_buckets(&tiering, "100, 151", "a | b");
    check_buckets(&tiering, "200, 100, 100", "b c | a");
    check_buckets(&tiering, "", "");
}

#[test]
fn small_ones_are_lumped_together_only_when_none_was_written_lately() {
    let tiering = Tiering::default();
    check_buckets(&tiering, "1, 5, 20, 49, 100", "a b c d | e");
    check_buckets(&tiering, "1, 5, 20, 49 age3599, 100", "a | b | c | d | e");
    check_buckets(&tiering, "1, 5, 20, 49 age3600, 100", "a b c d | e");
    check_buckets(&tiering, "1, 5, 20, 49, 100 age1", "a b c d | e");
    let cassandra = Tiering { bucketing: Bucketing::Average, ..tiering };
    check_buckets(&cassandra, "1, 5, 20, 49 age1, 100", "a b c d | e");
}

#[test]
fn a_drifting_average_does_not_draw_in_what_is_twice_the_smallest() {
    // Each run is at most 1.5 times the average before it; the last would raise the average too far for the
    // first.
    let chain = "100, 140, 170, 200, 220, 240, 260";
    check_buckets(&Tiering::default(), chain, "a b c d e f g");
    let steep = "100, 149, 186, 217, 243, 260, 280, 300, 320";
    check_buckets(&Tiering::default(), steep, "a b c d e f | g h i");
    let cassandra = Tiering { bucketing: Bucketing::Average, ..Tiering::default() };
    check_buckets(&cassandra, steep, "a b c d e f g h i");
}

#[test]
fn a_run_counts_as_one_and_is_free_if_all_of_it_is() {
    check_buckets(&Tiering::default(), "50 run1 0-9, 100, 50 run1 10-19", "a b c");
    let table = Table::new("50 run1 20-29, 100, 50 run1 10-19, 70 run2 0-9, 70 run2 10-19 busy, 9 frozen");
    let free = free_runs(&table.view());
    let said: Vec<String> = free
        .iter()
        .map(|run| run.sstables.iter().map(|s| table.name(s.id)).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(said, ["c a", "b"]);
    assert_eq!((free[0].bytes, free[0].written_s()), (100 << 20, 900_000));
}
