//! The loads on a simulated disk of known speed, in virtual time.

use std::path::Path;

use messina::iotune::measure::{self, MeasuredRates, ShardLoad, Window};
use runtime::sim::{FaultPlan, SimOptions, SimWorld};
use runtime::{DiskModel, DiskOptions, IoClass, OpenOptions};

use super::IoArguments;
use super::loads::{Background, Curve};
use crate::BenchError;

/// An SSD of medium speed.
const DISK: DiskModel = DiskModel {
    read_bandwidth_bytes_s: 1_000_000_000,
    write_bandwidth_bytes_s: 500_000_000,
    read_iops: 100_000,
    write_iops: 50_000,
    ..DiskModel::NOMINAL
};
const CHANNELS: usize = 8;
const LATENCY_US: (u64, u64) = (30, 90);
const FILE_BYTES: u64 = 64 << 20;
/// Duration in microseconds of reads alone, and next to the compaction, before the measurement, so that their
/// p95 is known well.
const ALONE_US: u64 = 2_000_000;
const BESIDE_US: u64 = 3_000_000;
const SCRATCH: &str = "/d/scratch";

pub fn run(arguments: &IoArguments) -> Result<Curve, BenchError> {
    println!("simulated disk: {}, {CHANNELS} channels", server::disk_model::show(&DISK));
    let for_us = (arguments.seconds / 2.0 * 1e6) as u64;
    // There is no steal time in virtual time.
    Curve::measured("simulated", DISK, 1, || 0, |loads, beside| measure(arguments, loads, beside, for_us))
}

fn measure(
    arguments: &IoArguments,
    loads: Vec<ShardLoad>,
    beside: Background,
    for_us: u64,
) -> Result<Vec<MeasuredRates>, BenchError> {
    let faults = FaultPlan {
        disk_speed: Some(DISK),
        disk_channels: CHANNELS,
        latency_us_min: LATENCY_US.0,
        latency_us_max: LATENCY_US.1,
        ..FaultPlan::default()
    };
    let disk = DiskOptions {
        model: Some(DISK.scaled(arguments.rate_factor)),
        inflight_goals: 1,
        ..DiskOptions::default()
    };
    let world = SimWorld::new(SimOptions { seed: 1, faults, disk, by_shares: true, ..SimOptions::default() });
    world.disk().write(Path::new(SCRATCH), &vec![1; FILE_BYTES as usize])?;
    let node = world.start_node(|_| async {})?;
    let window =
        Window { file_bytes: FILE_BYTES, shards: 1, warm_up_us: for_us / 10, measure_us: for_us.max(1) };
    let outcomes = world.block_on(&node, 0, move |shard| async move {
        shard.disk().set_bypassed(beside == Background::Off);
        let options = OpenOptions::read_write().with_direct(true);
        let file = shard.files().open(Path::new(SCRATCH), options).await?;
        if beside == Background::On && loads[0].class == IoClass::Statement {
            // The scheduler first has to learn the latency of reads alone, and the amount of concurrent work
            // that does not increase it.
            let before = |measure_us| Window { measure_us, ..window };
            measure::run(&shard, &file, &loads[..1], before(ALONE_US)).await?;
            measure::run(&shard, &file, &loads, before(BESIDE_US)).await?;
        }
        measure::run(&shard, &file, &loads, window).await
    });
    Ok(outcomes??)
}

#[cfg(test)]
mod tests {
    use super::super::loads::Curve;
    use super::*;

    fn arguments() -> IoArguments {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            io: IoArguments,
        }
        Line::parse_from(["io", "--seconds", "0.3"]).io
    }

    #[test]
    fn reads_do_not_wait_for_compaction_at_any_load() {
        let curve: Curve = run(&arguments()).unwrap();
        let mut compared = 0;
        let (_, [_, Some(on_alone), Some(off_alone)]) = &curve.points[0] else { panic!("{curve:?}") };
        assert!(on_alone.used > 0.8, "nine tenths are given out: {on_alone:?}");
        assert!(off_alone.used > 0.95, "off, all: {off_alone:?}");
        for (reads_s, points) in &curve.points {
            let [Some(alone), Some(on), Some(off)] = points else { continue };
            compared += 1;
            assert!(on.p95_us <= 2.0 * alone.p95_us, "{reads_s}: {on:?} beside {alone:?}");
            assert!(off.p95_us >= 4.0 * on.p95_us, "{reads_s}: {off:?} beside {on:?}");
            assert!(on.used > 0.5, "what reads leave, the compaction has: {on:?}");
        }
        assert_eq!(compared, 5);
    }
}
