//! Claims of "How to ruin your workload's performance by choosing the wrong compaction strategy", by the lab.
//!
//! The samples are coarse, so that the tests are short; the figures of docs/lab.md are from the program.

use crate::workload::{parse, shipped};
use crate::{RunOptions, SimulationResult, run};

fn outcome(workload: &str, strategy: &str, change: &[(&str, &str)]) -> SimulationResult {
    let mut text = shipped::find(workload).unwrap().to_string();
    for (knob, value) in change {
        text = crate::workload::with_setting(workload, &text, knob, value).unwrap();
    }
    let parsed = parse(workload, &text).unwrap();
    let all = parsed.strategies();
    let strategy = all.iter().find(|known| known.name == strategy).unwrap();
    run(&parsed, strategy, RunOptions { precision: 0.1, seed: None }).unwrap()
}

#[test]
fn write_only_size_tiered_takes_twice_the_disk_and_leveled_writes_several_times_as_much() {
    let [stcs, lcs, hybrid] = ["STCS", "LCS", "Hybrid"].map(|strategy| outcome("example1", strategy, &[]));
    assert!((1.9..2.05).contains(&stcs.peak_space()), "{}", stcs.peak_space());
    assert!(
        lcs.compacted_bytes > 3.0 * stcs.compacted_bytes,
        "{} {}",
        lcs.compacted_bytes,
        stcs.compacted_bytes
    );
    assert!((stcs.compacted_bytes / hybrid.compacted_bytes - 1.0).abs() < 0.1, "writes as size-tiered");
    assert!(hybrid.peak_space() < 1.1, "{}", hybrid.peak_space());
    assert!(hybrid.peak_temporary_bytes < 0.1 * stcs.peak_temporary_bytes);
}

#[test]
fn overwrites_need_several_times_the_space_in_tiers_and_twice_in_hybrid() {
    let [stcs, lcs, hybrid] = ["STCS", "LCS", "Hybrid"].map(|strategy| outcome("example2", strategy, &[]));
    assert!(stcs.peak_space() > 5.0, "{}", stcs.peak_space());
    assert!(lcs.peak_space() < 0.6 * stcs.peak_space(), "{}", lcs.peak_space());
    assert!((1.5..2.8).contains(&hybrid.peak_space()), "{}", hybrid.peak_space());
}

#[test]
fn updated_partitions_are_in_several_sstables_of_tiers_and_in_one_of_levels() {
    let [stcs, lcs] = ["STCS", "LCS"].map(|strategy| outcome("example3", strategy, &[]));
    assert!(stcs.end_sstables_per_read > 1.8 * lcs.end_sstables_per_read);
    assert!(lcs.end_single_reads > 0.85, "{}", lcs.end_single_reads);
    let major = outcome("example3", "STCS", &[("phases.0.major", "true")]);
    assert!(major.end_sstables_per_read < 1.02, "{}", major.end_sstables_per_read);
    assert!(major.end_bytes_per_read < 0.6 * stcs.end_bytes_per_read);
}

#[test]
fn windows_write_and_read_least_on_time_series() {
    let shorter = [("table.ttl", "10d"), ("phases.0.duration", "20d")];
    let [stcs, twcs] = ["STCS", "TWCS"].map(|strategy| outcome("time-series", strategy, &shorter));
    assert!(twcs.compacted_bytes < 0.5 * stcs.compacted_bytes);
    assert!(twcs.peak_space() < 0.8 * stcs.peak_space(), "{} {}", twcs.peak_space(), stcs.peak_space());
    assert!(twcs.end_disk_bytes < 1.3 * twcs.end_live_bytes, "expired windows are dropped");
}

#[test]
fn ten_terabytes_in_a_month_are_simulated_with_their_levels() {
    let lcs = outcome("ten-terabytes", "LCS", &[]);
    assert!(lcs.end_live_bytes > 9.5e12 && lcs.end_sstables > 50_000.0, "{}", lcs.end_sstables);
    assert!((1.0..1.2).contains(&lcs.peak_space()), "{}", lcs.peak_space());
}
