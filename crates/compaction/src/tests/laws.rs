//! Laws of every strategy for any workload.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};

use crate::testing::{Cell, MB, World};
use crate::unified::scaling::Scaling;
use crate::unified::shards::Sharding;
use crate::{
    DateTiered, Incremental, IncrementalOptions, Leveled, SizeTiered, Strategy, TimeWindow, Unified,
};

fn strategies() -> Vec<Box<dyn Strategy>> {
    let mut leveled = Leveled::new(4 * MB, 4);
    leveled.single_sstable_uplevel = true;
    let mut dates = DateTiered::default();
    (dates.base_us, dates.max_window_us) = (50_000_000, 800_000_000);
    let unified = |scaling: i32| {
        let sharding = Sharding { min_sstable_bytes: 0, target_sstable_bytes: 4 * MB, ..Sharding::default() };
        Box::new(Unified { scaling: vec![Scaling(scaling)], sharding, ..Unified::default() })
    };
    vec![
        Box::new(SizeTiered::default()),
        Box::new(Leveled::new(4 * MB, 10)),
        Box::new(leveled),
        Box::new(Incremental::new(IncrementalOptions {
            fragment_bytes: 4 * MB,
            ..IncrementalOptions::default()
        })),
        Box::new(TimeWindow::new(100_000_000)),
        Box::new(dates),
        unified(2),
        unified(-2),
    ]
}

/// A write: partition, row, kind, and delay in seconds.
fn write() -> impl proptest::strategy::Strategy<Value = (u32, u32, u8, i64)> {
    (0..300u32, 0..3u32, 0..10u8, 0..200i64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn plans_come_to_an_end_change_no_read_and_keep_levels_and_runs_disjoint(
        flushes in prop::collection::vec(prop::collection::vec(write(), 1..40), 1..25),
        which in 0..8usize,
        gc_grace_s in prop::sample::select(vec![0u32, 100, 864_000]),
        enforce_min_threshold: bool,
        busy in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut strategy = strategies().swap_remove(which);
        let mut world = World::new(MB / 2);
        world.gc_grace_s = gc_grace_s;
        world.enforce_min_threshold = enforce_min_threshold;
        let half = flushes.len() / 2;
        for (n, writes) in flushes.into_iter().enumerate() {
            world.now_us += 37_000_000;
            let now_us = world.now_us;
            world.flush(&*strategy, writes.into_iter().map(|(partition, row, what, late_s)| {
                let at_us = now_us - late_s * 1_000_000;
                let cell = match what {
                    0..3 => Cell::delete(at_us),
                    3..5 => Cell::expiring(at_us, u64::from(what), 60),
                    _ => Cell::write(at_us, u64::from(what)),
                };
                ((partition * 200, row), cell)
            }));
            if n == half {
                // Some SSTables are taken by jobs that do not end.
                let sstables = world.sstables();
                for index in &busy {
                    world.set_compacting(sstables[index.index(sstables.len())].id, true);
                }
            }
            world.run_until_quiet(&mut *strategy);
            world.check_disjoint();
        }
        for sstable in world.sstables() {
            world.set_compacting(sstable.id, false);
        }
        world.run_until_quiet(&mut *strategy);
        world.now_us += 90_000_000_000;
        world.run_until_quiet(&mut *strategy);
        world.check_disjoint();
        let sstables = world.sstables();
        for plan in strategy.major(&world.view(&sstables), true) {
            world.run_plan(&mut *strategy, &plan);
        }
        world.check_disjoint();
        let sstables = world.sstables();
        let view = world.view(&sstables);
        prop_assert!(strategy.backlog_bytes(&view).is_finite() && strategy.backlog_bytes(&view) >= 0.0);
        let _ = strategy.pending(&view);
    }
}

/// Writes distinct partitions, flush by flush. Returns the write amplification.
fn write_amplification(mut strategy: Box<dyn Strategy>, flushes: u32) -> (f64, World) {
    let mut world = World::new(MB / 8);
    world.checks_reads = false;
    world.enforce_min_threshold = true;
    for flush in 0..flushes {
        // The positions have a full period over the partitions and are spread over the ring.
        let place = |n: u32| ((flush * 80 + n) * 40_503) % 65_536;
        world.flush(&*strategy, (0..80).map(|n| ((place(n), 0), Cell::write(1, 1))));
        world.now_us += 7_200_000_000;
        world.run_until_quiet(&mut *strategy);
    }
    let totals = &world.totals;
    ((totals.flushed_bytes + totals.compacted_bytes) as f64 / totals.flushed_bytes as f64, world)
}

#[test]
fn tiers_write_each_row_once_per_tier_and_levels_at_least_twice_as_much() {
    let mut sized = SizeTiered::default();
    sized.tiering.min_sstable_bytes = 0;
    // 256 flushes make four tiers of four: each row is flushed once and merged four times.
    let (tiered, world) = write_amplification(Box::new(sized), 256);
    assert!((tiered - 5.0).abs() < 0.01, "{tiered}");
    assert!(world.totals.peak_bytes >= 2 * world.bytes(), "the last merge needs the space twice");

    let (leveled, world) = write_amplification(Box::new(Leveled::new(2 * MB, 10)), 256);
    println!("write amplification: tiers {tiered:.1}, levels {leveled:.1}");
    assert!(leveled >= 2.0 * tiered, "{leveled}");
    assert!(world.totals.peak_bytes < world.bytes() * 3 / 2, "{} {}", world.totals.peak_bytes, world.bytes());
    let levels = world.sstables().iter().map(|sstable| sstable.level).max();
    assert!(levels >= Some(2), "{levels:?}");
    let read = (0..65_536).step_by(97).map(|place| world.sstables_of(place)).max();
    assert!(read <= Some(4), "{read:?}");

    let sharding = Sharding { min_sstable_bytes: 0, target_sstable_bytes: 32 * MB, ..Sharding::default() };
    let unified = Unified { sharding, ..Unified::default() };
    let (dense, _) = write_amplification(Box::new(unified), 256);
    println!("write amplification: densities, T4, {dense:.1}");
    assert!((tiered * 0.7..tiered * 1.3).contains(&dense), "{dense}");
}

#[test]
fn ten_thousand_sstables_are_decided_in_a_moment() {
    let mut table = crate::testing::Table::new(&vec!["9 dead0.5"; 10_000].join(","));
    table.enforce_min_threshold = false;
    for (n, sstable) in table.sstables.iter_mut().enumerate() {
        let place = (n as u32 * 6) % 60_000;
        sstable.first = crate::testing::key(place).clone();
        sstable.last = crate::testing::key(place + 5000).clone();
        sstable.data_bytes = 1 << (n % 40);
        (sstable.min_timestamp_us, sstable.max_timestamp_us) = (n as i64 * 1_000_000, n as i64 * 1_000_100);
        sstable.level = n as u32 % 4;
        sstable.compacting = n % 7 == 0;
    }
    for mut strategy in strategies() {
        let plan = strategy.next(&table.view());
        let is_free = |id| table.view().find(id).is_some_and(|sstable| sstable.is_free());
        assert!(plan.into_iter().flat_map(|plan| plan.inputs).all(is_free), "{}", strategy.name());
        strategy.pending(&table.view());
        strategy.backlog_bytes(&table.view());
    }
}
