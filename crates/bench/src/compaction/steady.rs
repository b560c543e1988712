//! `messina-bench compaction steady`: measures how even the throughput of writes is while compaction keeps
//! up.
//!
//! Clients write random rows on one shard of one core, at maximum speed or at `--per-s`. The measurement runs
//! three times: with the controller, which sets the CPU shares of compaction by its backlog; with compaction
//! throttled to a fixed rate, as in Cassandra; and with compaction at maximum speed regardless of its
//! backlog. Writes are counted in intervals of half a second. The result is the coefficient of variation of
//! these counts: standard deviation divided by mean.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use catalog::TableSettings;
use clap::Args;
use engine::shard::EngineShard;
use engine::{CompactionOptions, EngineError, EngineOptions};
use messina::plot::{Line, Lines};
use model::{Cell as ColumnCell, ClusteringPrefix, ColumnData, Liveness, Mutation, PartitionKey};
use runtime::{BackendChoice, CpuGroup, IoClass};

use super::strategies::StrategyArgument;
use super::{CLIENTS, narrow_table, value_column};
use crate::BenchError;
use crate::engine::Scratch;
use crate::machine::{self, Machine};
use crate::report::{self, PROFILE, Report, Sample};
use crate::workload::Workload;
use crate::world::World;

const BUCKET_US: u64 = 500_000;
const ROWS: u64 = 2_000_000;
const VALUE_BYTES: usize = 284;
/// Approximate bytes of Data.db per flush.
const FLUSH_BYTES: u64 = 16 << 20;
const SEED: u64 = 4;

#[derive(Args, Clone, Debug)]
pub struct SteadyArguments {
    /// Duration of the writes with each setting, in seconds.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..))]
    pub duration_s: u64,
    /// Seconds at the beginning that are not counted, because there is nothing to compact yet.
    #[arg(long, default_value_t = 15)]
    pub warm_up_s: u64,
    /// Rows per second; 0: unlimited.
    #[arg(long, default_value_t = 0)]
    pub per_s: u64,
    /// The fixed rate in MB/s read by compaction.
    #[arg(long, default_value_t = 64)]
    pub fixed_mb_per_s: u64,
    #[arg(long, value_enum, default_value = "stcs")]
    pub strategy: StrategyArgument,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/steady.ndjson")]
    pub results: PathBuf,
    #[arg(long, default_value = "bench/results/steady.svg")]
    pub plot: PathBuf,
}

/// The three ways to limit compaction.
fn settings(arguments: &SteadyArguments) -> [(&'static str, CompactionOptions); 3] {
    let options = CompactionOptions::default();
    let unheld = CompactionOptions { static_shares: options.max_shares, ..options.clone() };
    let throughput_bytes_per_s = arguments.fixed_mb_per_s * 1_000_000;
    [
        ("controller", options),
        ("fixed-rate", CompactionOptions { throughput_bytes_per_s, ..unheld.clone() }),
        ("unheld", unheld),
    ]
}

/// Runs the benchmark, prints the results and draws the curves.
pub fn run(arguments: &SteadyArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let scratch = Scratch::make(&arguments.dir)?;
    println!(
        "{} s of writes with each setting, {}, on core {core}, load {}",
        arguments.duration_s,
        arguments.strategy.name(),
        machine.load
    );
    let mut report = Report::default();
    let mut lines = vec![];
    for (name, options) in settings(arguments) {
        let counts = measure(arguments, name, options, &scratch.0.join("world"), &mut report)?;
        let rate = |count: &u64| *count as f64 * 1e6 / BUCKET_US as f64;
        let points =
            (0..).zip(&counts).map(|(at, count)| (f64::from(at) * BUCKET_US as f64 / 1e6, rate(count)));
        lines.push(Line { name: name.to_string(), points: points.collect() });
        eprintln!("{name} done");
    }
    println!("\n{}", report.table());
    let plot = Lines {
        title: "writes while compaction keeps up".to_string(),
        x: "seconds".to_string(),
        y: "rows/s".to_string(),
        lines,
        log_y: false,
        dots: false,
    };
    if let Some(dir) = arguments.plot.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(&arguments.plot, plot.svg())?;
    println!("drawn into {}", arguments.plot.display());
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("duration_s", arguments.duration_s.into()),
            ("per_s", arguments.per_s.into()),
            ("fixed_mb_per_s", arguments.fixed_mb_per_s.into()),
            ("strategy", arguments.strategy.name().into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines = report.lines("steady", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

/// Writes for the configured time; returns the number of rows in each [`BUCKET_US`].
fn measure(
    arguments: &SteadyArguments,
    name: &str,
    compaction: CompactionOptions,
    dir: &Path,
    report: &mut Report,
) -> Result<Vec<u64>, BenchError> {
    let mut options = EngineOptions::new(dir);
    // A quarter of it is for memtables; a row of 300 bytes takes about twice its size in memory.
    options.memory_bytes = FLUSH_BYTES * 2 * 4;
    options.compaction = compaction;
    let settings = TableSettings { compaction: arguments.strategy.options(), ..TableSettings::default() };
    let world = World::open(options, BackendChoice::Auto, &narrow_table(), &settings)?;
    let counts = write(&world, arguments)?;
    let compacted_mb = world.io_of(IoClass::Compaction)?.write_bytes as f64 / 1e6;
    let id = world.table.id;
    let pending = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        Ok((engine.compactions().table_needs(id).pending, engine.table(id)?.sstables().len()))
    });
    let (pending, sstables) = pending.wait()?;
    fs::remove_dir_all(world.close()?)?;
    let skipped = (arguments.warm_up_s * 1_000_000 / BUCKET_US) as usize;
    let spread = Spread::of(counts.get(skipped..).unwrap_or_default());
    let mut add = |what: &str, unit: &'static str, value: f64| {
        report.add(&format!("{what}/{name}"), unit, Sample { value, cpu_us: None });
    };
    let per_s = 1e6 / BUCKET_US as f64;
    add("writes", "/s", spread.mean * per_s);
    add("variation", "", spread.variation);
    add("least-half-second", "/s", spread.least * per_s);
    add("compaction-written", "MB", compacted_mb);
    add("pending-at-end", "", pending as f64);
    add("sstables-at-end", "", sstables as f64);
    Ok(counts)
}

/// The variation of counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    /// Standard deviation divided by mean.
    variation: f64,
    least: f64,
}

impl Spread {
    fn of(counts: &[u64]) -> Self {
        if counts.is_empty() {
            return Self { mean: 0.0, variation: 0.0, least: 0.0 };
        }
        let number = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / number;
        let variance = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>() / number;
        let least = counts.iter().min().copied().unwrap_or(0) as f64;
        Self { mean, variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }, least }
    }
}

fn write(world: &World, arguments: &SteadyArguments) -> Result<Vec<u64>, BenchError> {
    let (table, per_s, for_us) = (world.table.clone(), arguments.per_s, arguments.duration_s * 1_000_000);
    let workload = Arc::new(Workload::new(ROWS, VALUE_BYTES, SEED));
    let value = value_column(&table);
    let written = world.engine.ask(0, move |shard| async move {
        let engine = EngineShard::of(&shard)?;
        let begun_us = shard.now_us();
        let counts = Rc::new(RefCell::new(vec![0u64; for_us.div_ceil(BUCKET_US) as usize]));
        let (next, picks) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(workload.picks(1))));
        let client = |_| {
            let (engine, shard, table, workload) =
                (engine.clone(), shard.clone(), table.clone(), workload.clone());
            let (counts, next, picks) = (counts.clone(), next.clone(), picks.clone());
            shard.clone().spawn(CpuGroup::Statement, async move {
                loop {
                    let number: u64 = next.replace(next.get() + 1);
                    if let Some(due_us) = (number * 1_000_000).checked_div(per_s) {
                        shard.sleep_us((begun_us + due_us).saturating_sub(shard.now_us())).await;
                    }
                    let row = picks.borrow_mut().pick();
                    let timestamp_us = 1 + number as i64;
                    let mut mutation =
                        Mutation::new(table.clone(), PartitionKey::new(&workload.key(row)[..]));
                    let written = mutation.row_mut(ClusteringPrefix::new([]));
                    written.liveness = Liveness::new(timestamp_us);
                    let cell = ColumnCell::live(timestamp_us, workload.value(row));
                    written.push(value, ColumnData::Simple(cell));
                    engine.apply(mutation).await?;
                    let bucket = ((shard.now_us() - begun_us) / BUCKET_US) as usize;
                    match counts.borrow_mut().get_mut(bucket) {
                        Some(count) => *count += 1,
                        None => return Ok::<(), EngineError>(()),
                    }
                }
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for client in clients {
            client.await?;
        }
        Ok(counts.take())
    });
    Ok(written.wait()?)
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn variation_is_the_standard_deviation_over_the_mean() {
        assert_eq!(Spread::of(&[5, 5, 5]), Spread { mean: 5.0, variation: 0.0, least: 5.0 });
        assert_eq!(Spread::of(&[2, 4, 4, 4, 5, 5, 7, 9]), Spread { mean: 5.0, variation: 0.4, least: 2.0 });
        assert_eq!(Spread::of(&[]).mean, 0.0);
    }
}
