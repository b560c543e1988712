//! `messina-bench compaction`: measures the cost of compaction strategies on the workloads of published
//! comparisons.
//!
//! It uses the real engine with one shard and one table; clients are tasks on the shard, as in `bench
//! engine`. Data, memtables, SSTable sizes and thresholds are all smaller than in the publications by the
//! same factor. The numbers of tiers and levels, and the ratios, are therefore the same.
//!
//! - `examples`: Examples 1 to 3 of "Scylla's compaction strategies" (2017): write-only, overwrites, reads
//!   and updates;
//! - `series`: the time series of the same talk;
//! - `deletes`: writes and deletions 4:1, as in "Compaction 3.0 vs 4.0": does leveled compaction keep up?
//! - [`merge`]: the speed of merging two and four SSTables;
//! - [`latency`]: read latency during compaction;
//! - [`steady`]: variation of the write throughput during compaction;
//! - `strategies`: the strategies' options at this scale;
//! - `recorder`: disk space and SSTables over time.

mod deletes;
mod examples;
pub mod latency;
pub mod merge;
mod recorder;
mod series;
pub mod steady;
mod strategies;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::TableSettings;
use clap::{Args, Subcommand};
use engine::node::compaction as compactions;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions};
use messina::plot::{Line, Lines};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, ColumnId, CqlType, Liveness, Mutation, PartitionKey,
    TableSchema,
};
use runtime::{BackendChoice, IoClass};

use self::recorder::Trace;
use self::strategies::StrategyArgument;
use super::BenchError;
use super::engine::Scratch;
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample};
use super::stopwatch::{Spent, Stopwatch};
use super::workload::Workload;
use super::world::World;

/// Maximum duration of compactions after the last write, in seconds. After it the benchmark fails.
const QUIET_WITHIN_S: f64 = 600.0;
const CLIENTS: usize = 64;

#[derive(Subcommand, Clone, Debug)]
pub enum CompactionCommand {
    /// Write-only: every partition once, at a steady rate.
    Example1(ExampleArguments),
    /// Overwrites: the same partitions fifteen times, at maximum speed or at a steady rate.
    Example2(ExampleArguments),
    /// Updates of random partitions, then random reads; then the same after a major compaction.
    Example3(ExampleArguments),
    /// Rows of sensors with a TTL, window after window; some rows arrive late.
    Timeseries(ExampleArguments),
    /// Writes and deletions, 4:1, at a steady rate.
    WriteDelete(ExampleArguments),
    /// Speed of merging two and four SSTables.
    Merge(merge::MergeArguments),
    /// Latency of point reads with and without a concurrent compaction of their table.
    Latency(latency::LatencyArguments),
    /// Variation of the write throughput while compaction keeps up.
    Steady(steady::SteadyArguments),
}

#[derive(Args, Clone, Debug)]
pub struct ExampleArguments {
    /// Size of the data relative to the default, which takes some minutes; 1.0 is a tenth of the published
    /// size.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Writes per second in examples 1 and 2. Default: 40,000 in example 1, unlimited in example 2.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub writes_per_s: Option<u64>,
    /// Run only these strategies.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub strategies: Vec<StrategyArgument>,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/compaction.ndjson")]
    pub results: PathBuf,
    /// Directory of the plots.
    #[arg(long, default_value = "bench/results/compaction")]
    pub plots: PathBuf,
}

impl CompactionCommand {
    pub fn run(&self) -> Result<(), BenchError> {
        match self {
            Self::Example1(arguments) => example("example1", arguments, examples::write_only),
            Self::Example2(arguments) => example("example2", arguments, examples::overwrite),
            Self::Example3(arguments) => example("example3", arguments, examples::read_and_update),
            Self::Timeseries(arguments) => example("timeseries", arguments, series::run),
            Self::WriteDelete(arguments) => example("write-delete", arguments, deletes::run),
            Self::Merge(arguments) => merge::run(arguments),
            Self::Latency(arguments) => latency::run(arguments),
            Self::Steady(arguments) => steady::run(arguments),
        }
    }
}

/// Runs the example for each strategy, prints the results and draws the plots.
fn example(
    name: &str,
    arguments: &ExampleArguments,
    work: fn(&mut Bench) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let scratch = Scratch::make(&arguments.dir)?;
    let mut bench = Bench {
        dir: scratch.0.join("world"),
        scale: arguments.scale,
        writes_per_s: arguments.writes_per_s,
        strategies: strategies::chosen(&arguments.strategies),
        report: Report::default(),
        traces: vec![],
    };
    println!("{name} at scale {}, on core {core}, load {}", arguments.scale, machine.load);
    work(&mut bench)?;
    println!("\n{}", bench.report.table());
    bench.draw(name, &arguments.plots)?;
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("scale", arguments.scale.into()),
            ("writes_per_s", arguments.writes_per_s.into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines =
            bench.report.lines(&format!("compaction/{name}"), &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

/// State shared by the examples.
struct Bench {
    dir: PathBuf,
    scale: f64,
    writes_per_s: Option<u64>,
    strategies: Vec<StrategyArgument>,
    report: Report,
    traces: Vec<(String, Trace)>,
}

/// Approximate bytes of Data.db per flush. It is small, so that a small table has many tiers.
const FLUSH_BYTES: u64 = 4 << 20;

impl Bench {
    fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(1000)
    }

    fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        self.report.add(name, unit, Sample { value, cpu_us: None });
    }

    /// Opens an empty engine with a table that is compacted by `strategy`.
    fn open(&self, table: &TableSchema, strategy: StrategyArgument) -> Result<World, BenchError> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        let mut options = EngineOptions::new(&self.dir);
        // A quarter of it is for memtables; a row of 300 bytes takes about twice its size in memory.
        options.memory_bytes = FLUSH_BYTES * 2 * 4;
        options.commitlog_segment_bytes = 8 << 20;
        options.commitlog_total_bytes = 64 << 20;
        let settings = TableSettings { compaction: strategy.options(), ..TableSettings::default() };
        World::open(options, BackendChoice::Auto, table, &settings)
    }

    /// Waits until no compaction is running or pending; returns the duration in seconds.
    fn wait_until_quiet(&self, world: &World) -> Result<f64, BenchError> {
        let watch = Stopwatch::start();
        let mut quiet_looks = 0;
        while quiet_looks < 5 {
            if watch.spent().wall_s > QUIET_WITHIN_S {
                return Err(format!("compactions did not end within {QUIET_WITHIN_S} s").into());
            }
            let answer = world.engine.ask(0, |shard| async move {
                let report = EngineShard::of(&shard)?.compactions().report();
                Ok(report.running.len() as u64 + report.pending.iter().map(|(_, jobs)| jobs).sum::<u64>())
            });
            quiet_looks = if answer.wait()? == 0 { quiet_looks + 1 } else { 0 };
            world.sleep_us(50_000)?;
        }
        Ok(watch.spent().wall_s)
    }

    /// Runs a major compaction.
    fn major(&self, world: &World) -> Result<(), BenchError> {
        let id = world.table.id;
        world
            .engine
            .ask(0, move |shard| async move { compactions::major(&shard, id, false).await })
            .wait()?;
        Ok(())
    }

    /// Adds the bytes written by each I/O class, and their ratio to the users' data.
    fn add_written(&mut self, world: &World, strategy: &str, user_bytes: f64) -> Result<(), BenchError> {
        let log = world.io_of(IoClass::CommitLog)?.write_bytes as f64;
        let flush = world.io_of(IoClass::MemtableFlush)?.write_bytes as f64;
        let compaction = world.io_of(IoClass::Compaction)?.write_bytes as f64;
        self.add(&format!("log-written/{strategy}"), "MB", log / 1e6);
        self.add(&format!("flush-written/{strategy}"), "MB", flush / 1e6);
        self.add(&format!("compaction-written/{strategy}"), "MB", compaction / 1e6);
        self.add(&format!("written/{strategy}"), "MB", (log + flush + compaction) / 1e6);
        self.add(&format!("write-amplification/{strategy}"), "", (flush + compaction) / user_bytes);
        Ok(())
    }

    /// Adds the peak of the disk space, and its ratio to the live data.
    fn add_space(&mut self, trace: &Trace, strategy: &str, live_bytes: f64) {
        self.add(&format!("peak-space/{strategy}"), "MB", trace.peak_disk_bytes() / 1e6);
        self.add(&format!("end-space/{strategy}"), "MB", trace.end_disk_bytes() / 1e6);
        self.add(&format!("peak-over-live/{strategy}"), "", trace.peak_disk_bytes() / live_bytes);
    }

    /// Draws plots over time for all strategies: disk space, SSTables, SSTables in level 0, and pending
    /// compactions.
    fn draw(&self, name: &str, dir: &Path) -> Result<(), BenchError> {
        fs::create_dir_all(dir)?;
        type Of = fn(&recorder::Sample) -> f64;
        let plots: [(&str, &str, Of); 4] = [
            ("disk", "MB on disk", |moment| moment.disk_bytes / 1e6),
            ("sstables", "SSTables", |moment| moment.sstables),
            ("unleveled", "SSTables in level 0", |moment| moment.unleveled),
            ("pending", "compactions to be done", |moment| moment.pending),
        ];
        for (plot, y, of) in plots {
            let line = |(strategy, trace): &(String, Trace)| Line {
                name: strategy.clone(),
                points: trace.samples.iter().map(|moment| (moment.at_s, of(moment))).collect(),
            };
            let plot_of = Lines {
                title: format!("{name}: {y}"),
                x: "seconds".to_string(),
                y: y.to_string(),
                lines: self.traces.iter().map(line).collect(),
                log_y: false,
                dots: false,
            };
            fs::write(dir.join(format!("{name}-{plot}.svg")), plot_of.svg())?;
        }
        println!("drawn into {}", dir.display());
        Ok(())
    }
}

/// A table with one row per partition: key and value.
fn narrow_table() -> Arc<TableSchema> {
    let table = TableSchema::builder("bench", "rows").partition_key("key", CqlType::Blob);
    table.regular("value", CqlType::Blob).build().expect("a key and a column")
}

fn value_column(table: &TableSchema) -> ColumnId {
    table.column_named("value").expect("the table has it").id
}

/// Writes `count` rows; the `n`th is the row `row_of(n)`. `per_s` limits the rate, in rows per second.
fn write(
    world: &World,
    workload: &Arc<Workload>,
    count: u64,
    per_s: Option<u64>,
    row_of: impl Fn(u64) -> u64 + Send + 'static,
) -> Result<Spent, BenchError> {
    let (table, workload) = (world.table.clone(), workload.clone());
    let value = value_column(&table);
    world.on_shard_made(CLIENTS, count, move || {
        let pace = Pacer::new(per_s);
        move |engine: std::rc::Rc<EngineShard>, number| {
            let row = row_of(number);
            let timestamp_us = 1 + number as i64;
            let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&workload.key(row)[..]));
            let written = mutation.row_mut(ClusteringPrefix::new([]));
            written.liveness = Liveness::new(timestamp_us);
            written.push(value, ColumnData::Simple(ColumnCell::live(timestamp_us, workload.value(row))));
            let pace = pace.clone();
            async move {
                pace.wait(&engine, number).await;
                engine.apply(mutation).await
            }
        }
    })
}

/// Spreads operations evenly over time.
#[derive(Clone)]
struct Pacer {
    per_s: Option<u64>,
    begun_us: std::rc::Rc<std::cell::Cell<Option<u64>>>,
}

impl Pacer {
    fn new(per_s: Option<u64>) -> Self {
        Self { per_s, begun_us: std::rc::Rc::default() }
    }

    /// Waits until operation `number` is due.
    async fn wait(&self, engine: &EngineShard, number: u64) {
        let Some(per_s) = self.per_s else { return };
        let now_us = engine.shard().now_us();
        let begun_us = self.begun_us.get().unwrap_or(now_us);
        self.begun_us.set(Some(begun_us));
        let due_us = begun_us + number * 1_000_000 / per_s;
        if due_us > now_us {
            engine.shard().sleep_us(due_us - now_us).await;
        }
    }
}

/// The mean number of SSTables that may contain a row, and that a read of the row opens.
fn sstables_per_read(
    world: &World,
    workload: &Arc<Workload>,
    rows: impl Iterator<Item = u64>,
) -> Result<f64, EngineError> {
    let (id, keys) = (world.table.id, rows.map(|row| workload.key(row)).collect::<Vec<_>>());
    let counted = world.engine.ask(0, move |shard| async move {
        let sstables = EngineShard::of(&shard)?.table(id)?.sstables();
        let opened = |key: &[u8; super::workload::KEY_BYTES]| {
            let key = PartitionKey::new(&key[..]);
            sstables.iter().filter(|sstable| sstable.may_contain(&key)).count()
        };
        Ok(keys.iter().map(opened).sum::<usize>() as f64 / keys.len().max(1) as f64)
    });
    counted.wait()
}
