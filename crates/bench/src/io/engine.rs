//! Point reads from disk while the engine compacts the same data, with the I/O scheduler and without.
//!
//! Four SSTables, one shard, one core: the compaction is limited by the CPU as much as by the disk, and reads
//! wait for both. The latency of a read is measured from the time when it was due.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use engine::node::compaction as compactions;
use runtime::DiskOptions;

use super::IoArguments;
use crate::BenchError;
use crate::compaction::latency::{Kind, Load, percentile};
use crate::compaction::merge::{self, Case, MergeArguments};
use crate::engine::Scratch;
use crate::report::{Report, Sample, number};
use crate::stopwatch::Stopwatch;
use crate::world::World;

const READS_S: u64 = 1000;
const WARM_UP_S: u64 = 1;
const ALONE_S: u64 = 4;

pub fn run(arguments: &IoArguments, disk: DiskOptions, report: &mut Report) -> Result<(), BenchError> {
    let scratch = Scratch::make(&arguments.dir)?;
    let data = MergeArguments {
        scale: arguments.scale,
        cases: vec![Case::Four],
        partition_rows: 1,
        runs: 1,
        inputs: None,
        dir: arguments.dir.clone(),
        core: None,
        results: PathBuf::from("none"),
    };
    let inputs = scratch.0.join("inputs");
    merge::make_inputs(&data, Case::Four, &inputs)?;
    println!(
        "\nengine: {} rows in four SSTables, {READS_S} reads/s of any, {} runs",
        data.rows(),
        arguments.runs
    );
    for _ in 0..arguments.runs {
        for bypassed in [false, true] {
            let dir = scratch.0.join("world");
            merge::link(&inputs, &dir)?;
            let world = data.open_on(disk, &dir)?;
            measure(&data, &world, bypassed, report)?;
            fs::remove_dir_all(world.close()?)?;
        }
    }
    let value = |name: &str| report.get(name).map_or(f64::NAN, |figure| figure.spread().1);
    println!(
        "{:>14} | {:>22} | {:>22} | {:>24}",
        "", "alone p50, p95, p99 us", "beside p50, p95, p99", "compaction alone, beside"
    );
    for name in ["on", "off"] {
        let of = |phase: &str| {
            ["p50", "p95", "p99"]
                .map(|what| format!("{:.0}", value(&format!("engine/{name}/{phase}/{what}"))))
                .join(", ")
        };
        println!(
            "{:>14} | {:>22} | {:>22} | {:>8}, {:>8} MB/s",
            format!("scheduler {name}"),
            of("alone"),
            of("beside"),
            number(value(&format!("engine/{name}/compaction-alone"))),
            number(value(&format!("engine/{name}/compaction-beside"))),
        );
    }
    Ok(())
}

fn measure(
    data: &MergeArguments,
    world: &World,
    bypassed: bool,
    report: &mut Report,
) -> Result<(), BenchError> {
    let set = world.engine.ask(0, move |shard| async move {
        shard.disk().set_bypassed(bypassed);
        Ok(())
    });
    set.wait()?;
    let load =
        Load { table: world.table.id, workload: Arc::new(data.workload()), per_s: READS_S, kind: Kind::Disk };
    load.run_for_s(world, WARM_UP_S)?;
    let alone = load.run_for_s(world, ALONE_S)?;
    let (id, reading) = (world.table.id, load.clone());
    let mut watch = Stopwatch::start();
    let beside = world.engine.ask(0, move |shard| async move {
        let merging = shard.clone();
        reading.run(&shard, async move { compactions::major(&merging, id, false).await }).await
    });
    let beside = beside.wait()?;
    let beside_s = watch.spent().wall_s;
    watch = Stopwatch::start();
    // Compact the output once more, without concurrent reads.
    world.engine.ask(0, move |shard| async move { compactions::major(&shard, id, false).await }).wait()?;
    let alone_s = watch.spent().wall_s;
    let name = if bypassed { "off" } else { "on" };
    let mut add = |what: String, unit, value| {
        report.add(&format!("engine/{name}/{what}"), unit, Sample { value, cpu_us: None });
    };
    for (phase, latencies) in [("alone", &alone), ("beside", &beside)] {
        for (what, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            add(format!("{phase}/{what}"), "us", percentile(latencies, share));
        }
    }
    let user_mb = (data.rows() * merge::ROW_BYTES as u64) as f64 / 1e6;
    add("compaction-beside".to_string(), "MB/s", user_mb / beside_s);
    add("compaction-alone".to_string(), "MB/s", user_mb / alone_s);
    Ok(())
}
