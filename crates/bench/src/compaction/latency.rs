//! `messina-bench compaction latency`: measures the latency of point reads with and without a compaction of
//! their table.
//!
//! The table has four SSTables with different rows, on one shard of one core. Reads arrive at a steady rate.
//! The latency of a read is measured from the time when it was due, so that a pause of the shard is visible
//! in all reads that wait for it. The reads first run without other work, then during a major compaction of
//! the table until the compaction ends. There are two kinds of reads: "cached" reads a small set of rows that
//! were read before, "disk" reads any row, bypassing the caches.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use clap::Args;
use engine::node::compaction as compactions;
use engine::shard::EngineShard;
use engine::{EngineError, ReadCommand};
use model::{PartitionKey, PartitionRange, TableId};
use runtime::{CpuGroup, Shard};

use super::CLIENTS;
use super::merge::{self, Case, MergeArguments};
use crate::BenchError;
use crate::engine::Scratch;
use crate::machine::{self, Machine};
use crate::report::{self, PROFILE, Report, Sample};
use crate::stopwatch::Stopwatch;
use crate::workload::{Picks, Workload};
use crate::world::World;

/// Number of rows that cached reads use.
const HOT_ROWS: u64 = 20_000;
/// Duration of reads before the measurement, in seconds.
const WARM_UP_S: u64 = 3;

#[derive(Args, Clone, Debug)]
pub struct LatencyArguments {
    /// Size relative to 1.2 GB of rows.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Reads per second of cached rows.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub cached_per_s: u64,
    /// Reads per second that bypass the caches.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub disk_per_s: u64,
    /// Duration of reads without a compaction, in seconds.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..))]
    pub duration_s: u64,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/latency.ndjson")]
    pub results: PathBuf,
}

/// The kind of reads: which rows, and from where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cached,
    Disk,
}

/// Runs the benchmark and prints the results.
pub fn run(arguments: &LatencyArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let scratch = Scratch::make(&arguments.dir)?;
    let data = MergeArguments {
        scale: 2.0 * arguments.scale,
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
    println!("{} rows, {} runs, on core {core}, load {}", data.rows(), arguments.runs, machine.load);
    let mut report = Report::default();
    for _ in 0..arguments.runs {
        for kind in [Kind::Cached, Kind::Disk] {
            let dir = scratch.0.join("world");
            merge::link(&inputs, &dir)?;
            let world = data.open(&dir)?;
            measure(arguments, &data, &world, kind, &mut report)?;
            std::fs::remove_dir_all(world.close()?)?;
        }
    }
    println!("\n{}", report.table());
    for kind in [Kind::Cached, Kind::Disk] {
        let p99 = |phase: &str| {
            report.get(&format!("{}/{phase}/p99", kind.name())).map_or(f64::NAN, |figure| figure.spread().1)
        };
        let (without, with) = (p99("without"), p99("with"));
        println!(
            "{}: p99 {without:.0} us without, {with:.0} us with a compaction: {:.2} times",
            kind.name(),
            with / without
        );
    }
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("scale", arguments.scale.into()),
            ("cached_per_s", arguments.cached_per_s.into()),
            ("disk_per_s", arguments.disk_per_s.into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines = report.lines("latency", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Disk => "disk",
        }
    }
}

fn measure(
    arguments: &LatencyArguments,
    data: &MergeArguments,
    world: &World,
    kind: Kind,
    report: &mut Report,
) -> Result<(), BenchError> {
    let workload = Arc::new(data.workload());
    let per_s = match kind {
        Kind::Cached => arguments.cached_per_s,
        Kind::Disk => arguments.disk_per_s,
    };
    let load = Load { table: world.table.id, workload, per_s, kind };
    if kind == Kind::Cached {
        let (table, rows) = (load.table, load.workload.clone());
        world.on_shard(CLIENTS, HOT_ROWS.min(data.rows()), move |engine, row| {
            let command = ReadCommand::new(table, PartitionRange::Key(PartitionKey::new(&rows.key(row)[..])));
            async move { engine.read(&command).await.map(drop) }
        })?;
    }
    load.run_for_s(world, WARM_UP_S)?;
    let without = load.run_for_s(world, arguments.duration_s)?;
    let stalls_before = world.stalls()?;
    let (id, reading) = (world.table.id, load.clone());
    let watch = Stopwatch::start();
    let with = world.engine.ask(0, move |shard| async move {
        let merging = shard.clone();
        reading.run(&shard, async move { compactions::major(&merging, id, false).await }).await
    });
    let with = with.wait()?;
    let merged_s = watch.spent().wall_s;
    let stalls = (world.stalls()? - stalls_before) as f64;
    report.add(&format!("{}/with/stalls", kind.name()), "", Sample { value: stalls, cpu_us: None });
    for (phase, latencies) in [("without", without), ("with", with)] {
        let name = |what: &str| format!("{}/{phase}/{what}", kind.name());
        for (what, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
            let value = percentile(&latencies, share);
            report.add(&name(what), "us", Sample { value, cpu_us: None });
        }
        report.add(&name("reads"), "", Sample { value: latencies.len() as f64, cpu_us: None });
    }
    let user_mb = (data.rows() * merge::ROW_BYTES as u64) as f64 / 1e6;
    let value = user_mb / merged_s;
    report.add(&format!("{}/merge-user", kind.name()), "MB/s", Sample { value, cpu_us: None });
    Ok(())
}

/// The percentile `share` (from 0.0 to 1.0) of sorted values.
pub(crate) fn percentile(rising: &[u32], share: f64) -> f64 {
    let at = (rising.len() as f64 * share).ceil() as usize;
    rising.get(at.saturating_sub(1)).copied().map_or(0.0, f64::from)
}

/// State shared by the clients of a load.
struct Reading {
    picks: RefCell<Picks>,
    next: Cell<u64>,
    is_over: Cell<bool>,
    latencies: RefCell<Vec<u32>>,
}

/// A load of point reads at a steady rate.
#[derive(Clone)]
pub(crate) struct Load {
    pub table: TableId,
    pub workload: Arc<Workload>,
    pub per_s: u64,
    pub kind: Kind,
}

impl Load {
    /// Reads for some seconds, without other work; returns the same as [`Self::run`].
    pub fn run_for_s(&self, world: &World, seconds: u64) -> Result<Vec<u32>, EngineError> {
        let load = self.clone();
        let read = world.engine.ask(0, move |shard| async move {
            let clock = shard.clone();
            let pause = async move {
                clock.sleep_us(seconds * 1_000_000).await;
                Ok(())
            };
            load.run(&shard, pause).await
        });
        read.wait()
    }

    /// Reads while `work` runs. Returns the latencies in microseconds from the time when each read was due,
    /// sorted.
    pub async fn run(
        self,
        shard: &Shard,
        work: impl Future<Output = Result<(), EngineError>>,
    ) -> Result<Vec<u32>, EngineError> {
        let engine = EngineShard::of(shard)?;
        let begun_us = shard.now_us();
        let state = Rc::new(Reading {
            picks: RefCell::new(self.workload.picks(begun_us)),
            next: Cell::new(0),
            is_over: Cell::new(false),
            latencies: RefCell::default(),
        });
        let client = |_| {
            let (engine, state, load, shard) = (engine.clone(), state.clone(), self.clone(), shard.clone());
            shard.clone().spawn(CpuGroup::Statement, async move {
                while !state.is_over.get() {
                    let due_us = begun_us + state.next.replace(state.next.get() + 1) * 1_000_000 / load.per_s;
                    shard.sleep_us(due_us.saturating_sub(shard.now_us())).await;
                    if state.is_over.get() {
                        break;
                    }
                    let row = state.picks.borrow_mut().pick();
                    let row = if load.kind == Kind::Cached { row % HOT_ROWS } else { row };
                    let key = PartitionKey::new(&load.workload.key(row)[..]);
                    let mut command = ReadCommand::new(load.table, PartitionRange::Key(key));
                    command.bypass_cache = load.kind == Kind::Disk;
                    let page = engine.read(&command).await?;
                    if page.row_count() != 1 {
                        return Err(EngineError::Invalid(format!("row {row} was not found")));
                    }
                    let took_us = shard.now_us().saturating_sub(due_us);
                    state.latencies.borrow_mut().push(u32::try_from(took_us).unwrap_or(u32::MAX));
                }
                Ok::<(), EngineError>(())
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let worked = work.await;
        state.is_over.set(true);
        for client in clients {
            client.await?;
        }
        worked?;
        let mut latencies = state.latencies.take();
        latencies.sort_unstable();
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let rising: Vec<u32> = (1..=1000).collect();
        assert_eq!(
            [0.5, 0.99, 0.999, 1.0].map(|share| percentile(&rising, share)),
            [500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!(percentile(&[7], 0.5), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
