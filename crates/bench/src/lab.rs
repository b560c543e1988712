//! `messina-bench lab`: compares the lab with the engine on the same scaled workloads.
//!
//! The engine runs as in production, but on a simulated disk and in virtual time (`runtime::sim`), so that a
//! run is the same on every machine: its rate is kept, and bytes and space can be compared exactly. The lab gets
//! from the engine the size of rows and of flushes and predicts the bytes that compactions write and the peak of
//! the disk space. Differences are printed, and recorded with the engine's figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::lab::{NamedStrategy, Outcome, RunOptions, workload};
use base::rng::Rng;
use catalog::{Keyspace, TableSettings};
use clap::Args;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions, node, recover};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, CqlType, Liveness, Mutation, PartitionKey, TableId,
    TableSchema, Tombstone,
};
use runtime::sim::{SimNode, SimOptions, SimWorld};
use runtime::{IoClass, Shard};

use super::BenchError;
use super::machine::{self, Machine};
use super::report::{self, Report, Sample, json};
use super::workload::Workload;

const VALUE_BYTES: usize = 250;
/// Rows written between two sleeps.
const BATCH: u64 = 25;
/// Looks at the disk space in one flush, about.
const LOOKS: u64 = 40;
const SEED: u64 = 21;
/// Virtual time for compactions after the last write, in microseconds.
const QUIET_WITHIN_US: u64 = 600_000_000;

#[derive(Args, Clone, Debug)]
pub struct LabArguments {
    /// Size of the data relative to the default of 150,000 rows.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/lab.ndjson")]
    pub results: PathBuf,
}

/// One workload with one strategy, in both worlds.
#[derive(Clone, Copy, Debug)]
struct Trial {
    name: &'static str,
    strategy: &'static str,
    options: &'static [(&'static str, &'static str)],
    /// Distinct rows; of a series, all rows.
    rows: u64,
    writes: u64,
    per_s: u64,
    load: Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Sequential,
    Uniform,
    /// Uniform; one write in five deletes.
    Deletes,
    /// Rows of partitions, each with a TTL in seconds.
    Series(u64),
}

const STCS: &[(&str, &str)] = &[("class", "SizeTieredCompactionStrategy"), ("min_sstable_size", "65536")];
const LCS: &[(&str, &str)] =
    &[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1"), ("min_sstable_size", "65536")];
const HYBRID: &[(&str, &str)] =
    &[("class", "IncrementalCompactionStrategy"), ("sstable_size_in_mb", "1"), ("min_sstable_size", "65536")];
const TWCS: &[(&str, &str)] = &[
    ("class", "TimeWindowCompactionStrategy"),
    ("compaction_window_unit", "MINUTES"),
    ("compaction_window_size", "1"),
    ("expired_sstable_check_frequency_seconds", "10"),
    ("min_sstable_size", "65536"),
];

fn trials(scale: f64) -> Vec<Trial> {
    let scaled = |count: u64| ((count as f64 * scale) as u64).max(2000);
    let mut trials = vec![];
    for (strategy, options) in [("STCS", STCS), ("LCS", LCS), ("Hybrid", HYBRID)] {
        let rows = scaled(150_000);
        let trial =
            |name, rows, writes, load| Trial { name, strategy, options, rows, writes, per_s: 2000, load };
        trials.push(trial("example1", rows, rows, Load::Sequential));
        trials.push(trial("example2", rows / 8, 15 * rows / 8, Load::Sequential));
        trials.push(trial("example3", rows / 4, rows, Load::Uniform));
        trials.push(trial("write-delete", rows / 2, rows, Load::Deletes));
    }
    for (strategy, options) in [("STCS", STCS), ("TWCS", TWCS)] {
        let rows = scaled(150_000);
        // Twenty windows of a minute, five of which are live at once.
        let (per_s, load) = (rows.div_ceil(1200), Load::Series(300));
        trials.push(Trial { name: "timeseries", strategy, options, rows, writes: rows, per_s, load });
    }
    trials
}

/// What the engine did.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    flushes: u64,
    /// Uncompressed bytes of all flushed rows.
    row_bytes: u64,
    flushed_bytes: u64,
    compacted_bytes: u64,
    peak_bytes: u64,
    end_bytes: u64,
}

/// The figures that are compared, of the engine and of the lab.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    pub figure: &'static str,
    pub engine: f64,
    pub lab: f64,
}

impl Difference {
    /// How far the lab is off, as a fraction of the engine's figure.
    pub fn share(&self) -> f64 {
        self.lab / self.engine.max(1.0) - 1.0
    }
}

pub fn run(arguments: &LabArguments) -> Result<(), BenchError> {
    let machine = Machine::look();
    let mut report = Report::default();
    for trial in trials(arguments.scale) {
        let differences = compare(&trial)?;
        for difference in differences {
            let name = |what: &str| format!("{}/{}/{}/{what}", trial.name, trial.strategy, difference.figure);
            let mut add = |name: String, unit, value| report.add(&name, unit, Sample { value, cpu_us: None });
            add(name("engine"), "MB", difference.engine / 1e6);
            add(name("lab"), "MB", difference.lab / 1e6);
            add(name("difference"), "%", difference.share() * 100.0);
        }
        eprintln!("{} with {} done", trial.name, trial.strategy);
    }
    println!("{}", report.table());
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("scale", arguments.scale.to_string()),
            ("profile", json(if cfg!(debug_assertions) { "debug" } else { "optimized" })),
        ];
        let lines = report.lines("lab", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

fn compare(trial: &Trial) -> Result<Vec<Difference>, BenchError> {
    let engine = in_engine(trial)?;
    let lab = in_lab(trial, &engine)?;
    let difference = |figure, engine: u64, lab: f64| Difference { figure, engine: engine as f64, lab };
    Ok(vec![
        difference(
            "written",
            engine.flushed_bytes + engine.compacted_bytes,
            lab.flushed_bytes + lab.compacted_bytes,
        ),
        difference("peak", engine.peak_bytes, lab.peak_disk_bytes),
        difference("end", engine.end_bytes, lab.end_disk_bytes),
    ])
}

fn table() -> TableSchema {
    let mut table = TableSchema::builder("lab", "rows")
        .partition_key("key", CqlType::Blob)
        .clustering("at", CqlType::BigInt)
        .regular("value", CqlType::Blob)
        .build()
        .expect("two keys and a column");
    let schema = Arc::get_mut(&mut table).expect("nobody else has it");
    schema.options.gc_grace_s = 0;
    (*table).clone()
}

/// Runs the trial in the engine, in a simulated world.
fn in_engine(trial: &Trial) -> Result<Measured, BenchError> {
    let world = SimWorld::new(SimOptions::default());
    let simulated = world.start_node(|_| async {})?;
    let options: std::collections::BTreeMap<String, String> =
        trial.options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let opened: Result<TableId, EngineError> = world.block_on(&simulated, 0, move |shard| async move {
        let mut engine = EngineOptions::new("/data");
        // A quarter of it is for memtables.
        engine.memory_bytes = 8 << 20;
        engine.commitlog_segment_bytes = 1 << 20;
        engine.commitlog_total_bytes = 64 << 20;
        Box::pin(recover::open(&shard, engine)).await?;
        node::change_schema(&shard, |catalog| catalog.create_keyspace(Keyspace::simple("lab")?)).await?;
        let table = Arc::new(table());
        let id = table.id;
        let settings = TableSettings { compaction: options, ..TableSettings::default() };
        node::change_schema(&shard, move |catalog| catalog.create_table(table, settings)).await?;
        Ok(id)
    })?;
    let id = opened?;
    let rows = Arc::new(Workload::new(trial.rows, VALUE_BYTES, SEED));
    let dir = Path::new("/data/data/lab");
    let mut peak_bytes = 0;
    let chunk = (trial.writes / (LOOKS * 40)).max(BATCH);
    let mut next = 0;
    while next < trial.writes {
        let end = (next + chunk).min(trial.writes);
        write(&world, &simulated, *trial, id, rows.clone(), next..end)?;
        peak_bytes = peak_bytes.max(world.disk().used_bytes_in(dir));
        next = end;
    }
    let flushed =
        world.block_on(&simulated, 0, move |shard| async move { node::flush(&shard, vec![id]).await })?;
    flushed?;
    let ends_us = world.now_us() + QUIET_WITHIN_US;
    let mut quiet_looks = 0;
    while quiet_looks < 20 {
        if world.now_us() > ends_us {
            return Err("compactions did not end within ten minutes".into());
        }
        world.run_for_us(50_000)?;
        peak_bytes = peak_bytes.max(world.disk().used_bytes_in(dir));
        let running = world.block_on(&simulated, 0, |shard| async move {
            let report = EngineShard::of(&shard)?.compactions().report();
            Ok::<_, EngineError>(report.running.len())
        })?;
        quiet_looks = if running? == 0 { quiet_looks + 1 } else { 0 };
    }
    let end_bytes = world.disk().used_bytes_in(dir);
    let measured = world.block_on(&simulated, 0, move |shard| async move {
        let report = EngineShard::of(&shard)?.report();
        Ok::<_, EngineError>(Measured {
            flushes: report.flushes.flushes,
            row_bytes: report.flushes.uncompressed_bytes,
            flushed_bytes: report.runtime.io_of(IoClass::MemtableFlush).write_bytes,
            compacted_bytes: report.runtime.io_of(IoClass::Compaction).write_bytes,
            peak_bytes,
            end_bytes,
        })
    })?;
    Ok(measured?)
}

/// Writes some of the trial's operations at its rate.
fn write(
    world: &SimWorld,
    simulated: &SimNode,
    trial: Trial,
    id: TableId,
    rows: Arc<Workload>,
    numbers: std::ops::Range<u64>,
) -> Result<(), BenchError> {
    let written = world.block_on(simulated, 0, move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let schema = engine.table(id)?.schema();
        let value = schema.column_named("value").expect("the table has it").id;
        for number in numbers {
            let mut rng = Rng::new(SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let row = match trial.load {
                Load::Sequential | Load::Series(_) => number % trial.rows,
                Load::Uniform | Load::Deletes => rng.below(trial.rows),
            };
            let (timestamp_us, now_s) = (shard.wall_us(), shard.wall_s());
            let partition = if let Load::Series(_) = trial.load { row % 100 } else { row };
            let clustering = if let Load::Series(_) = trial.load { timestamp_us + number as i64 } else { 0 };
            let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(&rows.key(partition)[..]));
            let written = mutation.row_mut(ClusteringPrefix::new([&clustering.to_be_bytes()[..]]));
            if trial.load == Load::Deletes && rng.below(5) == 0 {
                written.deletion = Tombstone::new(timestamp_us, now_s);
            } else if let Load::Series(ttl_s) = trial.load {
                written.liveness = Liveness::expiring(timestamp_us, ttl_s as u32, now_s);
                let cell = ColumnCell::expiring(timestamp_us, ttl_s as u32, now_s, rows.value(row));
                written.push(value, ColumnData::Simple(cell));
            } else {
                written.liveness = Liveness::new(timestamp_us);
                written.push(value, ColumnData::Simple(ColumnCell::live(timestamp_us, rows.value(row))));
            }
            engine.apply(mutation).await?;
            if number % BATCH == BATCH - 1 {
                shard.sleep_us(BATCH * 1_000_000 / trial.per_s).await;
            }
        }
        Ok::<(), EngineError>(())
    })?;
    Ok(written?)
}

/// Runs the trial in the lab, with the sizes that the engine has measured. CPU and disk are so fast that
/// compaction keeps up, as in the simulated world.
fn in_lab(trial: &Trial, engine: &Measured) -> Result<Outcome, BenchError> {
    let mean_bytes = engine.row_bytes as f64 / trial.writes as f64;
    let row_bytes = match trial.load {
        Load::Sequential | Load::Series(_) => mean_bytes,
        // Some rows are written twice within a memtable, so the size is taken from a run in which none is.
        Load::Uniform | Load::Deletes => {
            let once = Trial { rows: 4000, writes: 4000, load: Load::Sequential, ..*trial };
            in_engine(&once)?.row_bytes as f64 / 4000.0
        }
    };
    let tombstone_bytes = ((mean_bytes - 0.8 * row_bytes) / 0.2).max(20.0);
    let deletes = if trial.load == Load::Deletes { 0.2 } else { 0.0 };
    let flush_bytes = engine.row_bytes as f64 / engine.flushes as f64;
    let pattern = match trial.load {
        Load::Sequential => "sequential",
        Load::Uniform | Load::Deletes => "uniform",
        Load::Series(_) => "append",
    };
    let (partitions, ttl) = match trial.load {
        Load::Series(ttl_s) => (100, format!("ttl: {ttl_s}s, ")),
        _ => (trial.rows, String::new()),
    };
    let text = format!(
        "table: {{partitions: {partitions}, row_bytes: {row_bytes:.3}, tombstone_bytes: {tombstone_bytes:.1}, {ttl}gc_grace: 0s, \
         disk_ratio: {:.4}}}\n\
         node:\n  memory: 8MiB\n  flush_bytes: {flush_bytes:.0}\n  commitlog_total: 1GB\n  \
         cpu: {{write_us: 0.01, read_us: 0.01, read_sstable_us: 0.01, flush_ms_per_mb: 0.01, \
         merge_in_ms_per_mb: 0.01, merge_out_ms_per_mb: 0.01}}\n\
         phases: [{{writes: {}, writes_per_s: {}, pattern: {pattern}, deletes: {deletes}}}]\n",
        engine.flushed_bytes as f64 / engine.row_bytes as f64,
        trial.writes,
        trial.per_s,
    );
    let workload = workload::parse(trial.name, &text)?;
    let strategy = NamedStrategy {
        name: trial.strategy.to_string(),
        options: trial.options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    };
    Ok(::lab::run(&workload, &strategy, RunOptions::default())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes written and peak space of small workloads, within 15 %.
    #[test]
    fn the_lab_agrees_with_the_engine() {
        for trial in
            trials(0.15).iter().filter(|trial| trial.name == "example1" || trial.name == "timeseries")
        {
            for difference in compare(trial).unwrap() {
                assert!(
                    difference.share().abs() <= 0.15,
                    "{} with {}: {difference:?}",
                    trial.name,
                    trial.strategy
                );
            }
        }
    }
}
