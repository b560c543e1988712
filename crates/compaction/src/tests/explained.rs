//! Explanations of every strategy: they agree with the decision, and say what it waits for.

use crate::testing::{MB, NOW_S, Table};
use crate::tiers::Bucketing;
use crate::unified::shards::Sharding;
use crate::{
    DateTiered, Incremental, IncrementalOptions, Leveled, Null, RepairedApart, SizeTiered, Strategy, Tiering,
    TimeWindow, TombstoneRules, Unified,
};

/// A fresh strategy of each kind.
fn all() -> Vec<fn() -> Box<dyn Strategy>> {
    let mut all: Vec<fn() -> Box<dyn Strategy>> = vec![];
    all.push(|| Box::new(SizeTiered::default()));
    all.push(|| {
        let tiering = Tiering { bucketing: Bucketing::Average, ..Tiering::default() };
        Box::new(SizeTiered { tiering, ..SizeTiered::default() })
    });
    all.push(|| Box::new(Leveled::new(160 * MB, 10)));
    all.push(|| Box::new(Incremental::new(IncrementalOptions::default())));
    all.push(|| {
        let mut windows = TimeWindow::new(1_000_000_000);
        windows.tombstones = TombstoneRules::default();
        Box::new(windows)
    });
    all.push(|| Box::new(DateTiered::default()));
    all.push(|| Box::new(Unified { sharding: Sharding::default(), ..Unified::default() }));
    all.push(|| Box::new(Null::new()));
    all.push(|| Box::new(Null::disabled(Box::new(Leveled::default()))));
    all.push(|| {
        Box::new(RepairedApart::new(Box::new(SizeTiered::default()), Box::new(SizeTiered::default())))
    });
    all
}

#[test]
fn an_explanation_has_the_plan_that_the_strategy_makes() {
    let tables = [
        "",
        "100",
        "100, 100, 100, 100",
        "100, 101, 102, 103, 10, 11, 12, 13, 14, 3000",
        "100 busy, 100, 100 frozen, 100",
        "100 L0, 100 L0, 160 L1 0-40, 160 L1 30-60, 160 L1 61-99",
        "200 L0, 400 L1 0-10, 400 L1 11-20, 400 L1 21-40, 400 L1 41-60, 400 L1 61-99, 100 L2 0-99",
        "100 t10-20, 100 t11-21, 100 t2010, 100 t2011, 100 t9000, 100 t9001, 100 t9002, 100 t9003",
        "60 same0 t1-5 dead0.3, 60 t900000 dead0.1, 60 t3-4 dead0.5 age10",
        "10 dies5 t1-2, 50 t100",
        "100 repaired, 100 repaired, 100 repaired, 100 repaired, 100, 100",
    ];
    for text in tables {
        let mut table = Table::new(text);
        table.gc_before_s = NOW_S - 10;
        for make in all() {
            let explained = make().explain(&table.view());
            let plan = make().next(&table.view());
            assert_eq!(explained.plan, plan, "{} on {text}:\n{explained}", explained.strategy);
            assert_eq!(explained.sstables, table.sstables.len());
            let taken = explained
                .attempts
                .iter()
                .flat_map(|attempt| &attempt.candidates)
                .any(|candidate| candidate.verdict == crate::explain::Verdict::Taken);
            assert_eq!(taken, plan.is_some(), "{} on {text}:\n{explained}", explained.strategy);
        }
    }
}

#[track_caller]
fn check(strategy: &dyn Strategy, table: &Table, lines: &[&str]) {
    let text = strategy.explain(&table.view()).to_string();
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "{line}\n{text}");
    }
}

#[test]
fn what_each_strategy_waits_for() {
    let few = Table::new("100, 100, 100, 1000 busy");
    let mut tiered = SizeTiered::default();
    tiered.tiering.bucketing = Bucketing::Average;
    check(
        &tiered,
        &few,
        &[
            "runs of about the same size:",
            "3 of 314.6 MB: too few, at least 4",
            "1 of 1048.6 MB: a job has some of it",
            "result: no job",
        ],
    );
    let level = Table::new("20 L0, 160 L1 0-40, 160 L1 61-99");
    check(
        &Leveled::new(160 * MB, 10),
        &level,
        &[
            "level 0:",
            "1 of 21.0 MB: below its target of 167.8 MB",
            "level 1:",
            "2 of 335.5 MB: below its target of 1677.7 MB",
        ],
    );
    let windows = Table::new("100 t900000, 100 t900001");
    check(&TimeWindow::new(1_000_000_000), &windows, &["2 of 209.7 MB: too few, at least 4"]);
    let dense = Table::new("100, 100");
    check(&Unified::default(), &dense, &["result: no job"]);
    let mut young = Table::new("60 t3-4 dead0.5 age10");
    young.gc_before_s = NOW_S;
    check(
        &tiered,
        &young,
        &["1 of 62.9 MB, about 31.5 MB of them dead: written 10 s ago; the threshold is 86400 s"],
    );
    // Older data in another SSTable may be what the tombstones delete.
    let overlapped = Table::new("60 t30-40 dead0.5, 600 t1-2");
    check(
        &tiered,
        &overlapped,
        &[
            "1 of 62.9 MB, about 31.5 MB of them dead: other SSTables may have older data that its tombstones delete",
        ],
    );
    let windows = Table::new("100 t10, 100 t7210");
    let starts = [
        "window from 1970-01-01T00:00:00.000Z, runs of about the same size:",
        "window from 1970-01-01T02:00:00.000Z, runs of about the same size:",
    ];
    check(&TimeWindow::new(3_600_000_000), &windows, &starts);
    check(&Null::new(), &dense, &["2 of 209.7 MB: this strategy merges nothing by itself"]);
}
