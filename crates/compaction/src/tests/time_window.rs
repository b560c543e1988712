use super::{check, check_on};
use crate::testing::{Cell, MB, Table, World};
use crate::time_window::{TimestampUnit, windows_warning};
use crate::{Strategy, TimeWindow, TombstoneRules};

/// Windows of 100 s.
fn twcs() -> TimeWindow {
    TimeWindow::new(100_000_000)
}

#[test]
fn a_window_is_that_of_the_newest_write() {
    let table = Table::new("1 t0-99, 1 t99-100, 1 t250, 1 t199");
    let strategy = twcs();
    let said: Vec<String> = strategy
        .windows(&table.sstables)
        .iter()
        .map(|(start, of)| {
            format!("{}: {}", start / 1_000_000, table.names(&of.iter().map(|s| s.id).collect::<Vec<_>>()))
        })
        .collect();
    assert_eq!(said, ["0: a", "100: b d", "200: c"]);
    assert_eq!(strategy.window_of(-1), -100_000_000);
    let hours = TimestampUnit::PerSecond(1000);
    assert_eq!(hours.of_us(3_600_000_000), 3_600_000);
    assert_eq!(TimestampUnit::PerSecond(1_000_000_000).of_us(5), 5000);
    assert_eq!(TimestampUnit::Seconds(60).of_us(3_600_000_000), 60);
    assert_eq!(TimestampUnit::Seconds(86_400).of_us(1), 1);
}

#[test]
fn within_the_newest_window_by_sizes() {
    check(
        &mut twcs(),
        "100 t1, 100 t2, 100 t3, 100 t4",
        "merge a b c d by 100 s: 4 of about the same size in the window from 0 us",
    );
    check(&mut twcs(), "100 t1, 100 t2, 100 t3", "nothing");
    check(&mut twcs(), "100 t1, 100 t2, 100 t3, 900 t4", "nothing");
}

#[test]
fn a_closed_window_is_merged_once() {
    let mut strategy = twcs();
    check(&mut strategy, "100 t1, 900 t2", "nothing");
    check(
        &mut strategy,
        "100 t1, 900 t2, 5 t101",
        "merge a b by 100 s: the window from 0 us is closed: its 2 are merged into one",
    );
    check(&mut strategy, "1000 t1-2, 5 t101", "nothing");
    // A single small SSTable that arrives late, by repair.
    check(&mut strategy, "1000 t1-2, 5 t101, 3 t50", "nothing");
    check(
        &mut strategy,
        "1000 t1-2, 5 t101, 3 t50, 3 t51, 3 t52, 3 t53",
        "merge c d e f by 100 s: 4 of about the same size in the window from 0 us",
    );
}

#[test]
fn after_a_restart_old_windows_are_merged_by_sizes_only() {
    check(&mut twcs(), "100 t1, 900 t2, 5 t101", "nothing");
}

#[test]
fn the_newest_window_ever_seen_counts() {
    let mut strategy = twcs();
    check(&mut strategy, "100 t101, 900 t102", "nothing");
    check(&mut strategy, "100 t101, 900 t102, 5 t301", "merge a b by 100 s");
    check(&mut strategy, "100 t101, 900 t102", "merge a b by 100 s");
}

#[test]
fn of_a_closed_window_the_smallest_and_only_if_nothing_runs() {
    let mut strategy = twcs();
    strategy.tiering.max_threshold = 2;
    strategy.tiering.min_threshold = 2;
    check(&mut strategy, "100 t1", "nothing");
    let mut table = Table::new("100 t1, 900 t2, 300 t3, 5 t101");
    check_on(&mut strategy, &table, "merge a c by 100 s");
    table.jobs_running = 1;
    check_on(&mut strategy, &table, "nothing");
    table.jobs_running = 0;
    check_on(&mut strategy, &table, "merge a c by 100 s");
}

#[test]
fn expired_sstables_are_dropped_alone_at_intervals() {
    let mut strategy = twcs();
    let mut table = Table::new("9 dies5 t1, 100 t301, 100 t302, 100 t303, 100 t304");
    check_on(&mut strategy, &table, "drop a: all in 1 has expired");
    check_on(&mut strategy, &table, "drop a");
    check(&mut strategy, "100 t301, 100 t302, 100 t303, 100 t304", "merge a b c d by 100 s");
    table.now_us += 599_000_000;
    check_on(&mut strategy, &table, "merge b c d e by 100 s");
    table.now_us += 1_000_000;
    check_on(&mut strategy, &table, "drop a");
}

#[test]
fn an_expired_sstable_that_shadows_older_data_is_dropped_only_on_request() {
    check(&mut twcs(), "9 dies5 t1-10, 9 t2-301", "nothing");
    let mut aggressive = twcs();
    aggressive.ignores_overlaps = true;
    check(&mut aggressive, "9 dies5 t1-10, 9 t2-301", "drop a");
}

#[test]
fn tombstones_only_if_asked_for() {
    check(&mut twcs(), "9 t1 dead0.9", "nothing");
    let mut asked = twcs();
    asked.tombstones = TombstoneRules::default();
    check(&mut asked, "9 t1 dead0.9", "merge a by 100 s: 90 % of it may be dropped; the threshold is 20 %");
}

#[test]
fn many_windows_are_warned_of() {
    assert_eq!(windows_warning(86_400 * 50, 86_400_000_000, 50), None);
    let said = windows_warning(86_400 * 51, 86_400_000_000, 50).expect("a warning");
    assert!(said.contains("compaction window=86400(s) can lead to 51 windows"), "{said}");
}

#[test]
fn one_sstable_for_each_closed_window_and_none_for_expired_ones() {
    let (mut world, mut strategy) = (World::new(MB), twcs());
    world.gc_grace_s = 0;
    strategy.expired_check_s = 0;
    for n in 0..60u32 {
        world.now_us += 20_000_000;
        let cells: Vec<_> =
            (0..20).map(|row| ((row * 300, n), Cell::expiring(world.now_us - 1, 7, 500))).collect();
        world.flush(&strategy, cells);
        world.run_until_quiet(&mut strategy);
    }
    let sstables = world.sstables();
    let windows = strategy.windows(&sstables);
    assert!((5..=7).contains(&windows.len()), "{}", windows.len());
    assert!(windows.values().rev().skip(1).all(|sstables| sstables.len() == 1));
    // Each row: one flush, one or two merges within the window, and one when the window is closed.
    assert!(world.totals.compacted_bytes <= 2 * world.totals.flushed_bytes, "{:?}", world.totals);
    let plans = strategy.major(&world.view(&sstables), false);
    assert_eq!(plans.len(), 1);
    assert_eq!(world.run_plan(&mut strategy, &plans[0]).len(), windows.len());
}
