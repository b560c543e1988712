//! Tests of the whole lab: laws of the simulation, and claims of the documents.

mod claims;

use crate::workload::{Pattern, parse};
use crate::world::World;
use crate::{NamedStrategy, RunOptions, Workload, run};

/// A workload of 20,000 rows in 30 flushes.
fn small(phases: &str) -> Workload {
    let text = format!(
        "table: {{partitions: 5000, rows_per_partition: 4, row_bytes: 300, row_bytes_deviation: 50}}\n\
         node: {{memory: 16MB, flush_bytes: 400kB}}\n\
         strategies:\n  STCS: {{class: SizeTieredCompactionStrategy}}\n  \
         LCS: {{class: LeveledCompactionStrategy, sstable_size_in_mb: 1}}\n  \
         Hybrid: {{class: IncrementalCompactionStrategy, sstable_size_in_mb: 1}}\n  \
         TWCS: {{class: TimeWindowCompactionStrategy, compaction_window_unit: MINUTES}}\n  \
         UCS: {{class: UnifiedCompactionStrategy, target_sstable_size: 1MiB, min_sstable_size: 512KiB}}\n\
         phases: {phases}\n"
    );
    parse("small", &text).unwrap()
}

fn strategy<'a>(all: &'a [NamedStrategy], name: &str) -> &'a NamedStrategy {
    all.iter().find(|strategy| strategy.name == name).unwrap()
}

#[test]
fn no_row_is_lost_and_no_deleted_row_returns() {
    for pattern in [Pattern::Sequential, Pattern::Uniform, Pattern::Gauss, Pattern::Zipf] {
        let pattern = format!("{pattern:?}").to_lowercase();
        let workload = small(&format!(
            "[{{writes: 60k, writes_per_s: 5k, pattern: {pattern}, deletes: 0.1}}, \
             {{writes: 20k, writes_per_s: max, pattern: uniform, major: true}}]"
        ));
        for strategy in workload.strategies() {
            let mut world = World::new(&workload, &strategy, RunOptions::default()).unwrap();
            world.run_phases();
            world.check_content();
            let outcome = world.finish();
            assert!(outcome.is_settled && outcome.jobs > 0, "{pattern} {}", strategy.name);
            assert!((outcome.writes - 80_000.0).abs() < 2.0, "{}", outcome.writes);
        }
    }
}

#[test]
fn a_seed_gives_the_same_result_again() {
    let workload = small("[{writes: 50k, writes_per_s: 5k, pattern: zipf, reads_per_s: 100}]");
    for strategy in workload.strategies() {
        let run = |seed| {
            let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
            let outcome = run(&workload, &strategy, options).unwrap();
            yaml_serde::to_string(&outcome).unwrap()
        };
        assert_eq!(run(7), run(7), "{}", strategy.name);
        assert_ne!(run(7), run(8), "{}", strategy.name);
    }
}

#[test]
fn tombstones_go_after_their_grace_with_the_rows_that_they_delete() {
    let text = "table: {partitions: 20000, row_bytes: 300, gc_grace: 60s}\n\
                node: {memory: 16MB, flush_bytes: 400kB}\n\
                phases:\n- {writes: 20k, writes_per_s: 2k, pattern: sequential}\n\
                - {writes: 20k, writes_per_s: 2k, pattern: sequential, deletes: 1}\n\
                - {duration: 10m, major: true}\n";
    let workload = parse("deletes", text).unwrap();
    for strategy in workload.strategies().iter().take(3) {
        let outcome = run(&workload, strategy, RunOptions::default()).unwrap();
        assert_eq!((outcome.end_disk_bytes, outcome.end_sstables), (0.0, 0.0), "{}", strategy.name);
        assert!(outcome.peak_disk_bytes > 5e6, "{}", outcome.peak_disk_bytes);
    }
}

#[test]
fn a_coarser_sample_gives_about_the_same_figures() {
    let workload = small("[{writes: 150k, writes_per_s: 5k, pattern: uniform}]");
    for strategy in workload.strategies() {
        let figures = |precision| {
            let outcome = run(&workload, &strategy, RunOptions { precision, seed: None }).unwrap();
            [outcome.compacted_bytes, outcome.peak_disk_bytes, outcome.mean_disk_bytes]
        };
        // 20,000 rows, and a sample of 5,000.
        for (exact, coarse) in figures(1.0).into_iter().zip(figures(0.0125)) {
            // Hybrid decides by estimated overlaps, so that a small difference changes later merges: 18 %
            // more written and 21 % less peak were seen, and at most 1 % of STCS, TWCS and UCS.
            let limit = if strategy.name == "Hybrid" { 0.3 } else { 0.15 };
            assert!((coarse / exact - 1.0).abs() < limit, "{}: {exact} {coarse}", strategy.name);
        }
    }
}

#[test]
fn shards_share_the_table() {
    let one = small("[{writes: 80k, writes_per_s: 8k, pattern: sequential}]");
    let mut four = one.clone();
    four.node.shards = 4;
    four.table.partitions.0 *= 4.0;
    four.node.memory.0 *= 4.0;
    four.phases[0].writes = Some(crate::quantity::Count(320e3));
    four.phases[0].writes_per_s = crate::quantity::Rate::PerSecond(32e3);
    let run = |workload: &Workload| run(workload, &workload.strategies()[0], RunOptions::default()).unwrap();
    let (one, four) = (run(&one), run(&four));
    assert!((four.written_bytes() / one.written_bytes() / 4.0 - 1.0).abs() < 0.05);
    assert!((four.peak_disk_bytes / one.peak_disk_bytes / 4.0 - 1.0).abs() < 0.1);
}

#[test]
fn options_that_are_not_simulated_are_refused() {
    let workload = small("[{writes: 50k, writes_per_s: 5k}]");
    let all = workload.strategies();
    let mut refused = strategy(&all, "STCS").clone();
    refused.options.insert("provide_overlapping_tombstones".to_string(), "row".to_string());
    let error = run(&workload, &refused, RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("provide_overlapping_tombstones"), "{error}");
    let mut unknown = strategy(&all, "LCS").clone();
    unknown.options.insert("sstable_size_mb".to_string(), "1".to_string());
    assert!(
        run(&workload, &unknown, RunOptions::default()).unwrap_err().to_string().contains("strategies.LCS")
    );
}
