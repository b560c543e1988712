//! `messina-bench lab`: compares the lab with the engine on the same scaled workloads.
//!
//! The engine runs as in production, but on a simulated disk and in virtual time (`runtime::sim`), so that a
//! run is the same on every machine: its rate is kept, and bytes and space can be compared exactly. The lab
//! gets from the engine the sizes of a row, a tombstone and a flush, and predicts the bytes that flushes and
//! compactions write and the peak of the disk space. Differences are printed, and recorded with the engine's
//! figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::lab::{NamedStrategy, RunOptions, SimulationResult, workload};
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
use super::report::{self, PROFILE, Report, Sample};
use super::workload::Workload;

const VALUE_BYTES: usize = 250;
/// Rows written at once.
const BATCH: u64 = 25;
/// Batches between two checks of the number of flushes.
const BATCHES_A_STEP: u64 = 8;
/// Virtual time between two checks of the disk space, in microseconds; a merge takes 10 to 30 ms.
const LOOK_US: u64 = 2500;
/// Compaction has come to an end if no job runs for this virtual time, in microseconds.
const QUIET_US: u64 = 1_000_000;
/// Rows of the runs that measure sizes.
const ONCE: u64 = 4000;
/// Virtual time for compactions after the last write, in microseconds.
const QUIET_WITHIN_US: u64 = 600_000_000;

#[derive(Args, Clone, Debug)]
pub struct LabArguments {
    /// Size of the data relative to the default of 150,000 rows.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Seed of the rows, their order and the lab.
    #[arg(long, default_value_t = 21)]
    pub seed: u64,
    /// Run only trials whose name contains this text: `LCS`, `example1/`.
    #[arg(long, default_value = "")]
    pub only: String,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/lab.ndjson")]
    pub results: PathBuf,
}

/// The compared figures: bytes written by flushes and compactions, the largest space, the space at the end.
const FIGURES: [&str; 3] = ["written", "peak", "end"];

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
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Sequential,
    Uniform,
    /// Uniform; one write in five deletes.
    Deletes,
    /// Sequential; all writes delete. To measure the size of a tombstone.
    Tombstones,
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

fn trials(scale: f64, seed: u64) -> Vec<Trial> {
    let scaled = |count: u64| ((count as f64 * scale) as u64).max(2000);
    let mut trials = vec![];
    for (strategy, options) in [("STCS", STCS), ("LCS", LCS), ("Hybrid", HYBRID)] {
        let rows = scaled(150_000);
        let trial = |name, rows, writes, load| Trial {
            name,
            strategy,
            options,
            rows,
            writes,
            per_s: 2000,
            load,
            seed,
        };
        trials.push(trial("example1", rows, rows, Load::Sequential));
        trials.push(trial("example2", rows / 8, 15 * rows / 8, Load::Sequential));
        trials.push(trial("example3", rows / 4, rows, Load::Uniform));
        trials.push(trial("write-delete", rows / 2, rows, Load::Deletes));
    }
    for (strategy, options) in [("STCS", STCS), ("TWCS", TWCS)] {
        let rows = scaled(150_000);
        // Twenty windows of a minute, five of which are live at once.
        let (per_s, load) = (rows.div_ceil(1200), Load::Series(300));
        trials.push(Trial { name: "time-series", strategy, options, rows, writes: rows, per_s, load, seed });
    }
    trials
}

/// What the engine did.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Writes that fill a memtable.
    writes_per_flush: f64,
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

/// The difference that issue 21 allows for bytes written and peak space.
const ALLOWED: f64 = 0.15;

pub fn run(arguments: &LabArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let mut report = Report::default();
    let (mut compared, mut within) = (0, 0);
    println!("MB in the engine and in the lab, and the lab's difference.\n");
    println!("| workload     | strategy | {} |", FIGURES.map(|figure| format!("{figure:^23}")).join(" | "));
    println!("|--------------|----------|{}", "-------------------------|".repeat(FIGURES.len()));
    let is_wanted = |trial: &Trial| format!("{}/{}", trial.name, trial.strategy).contains(&arguments.only);
    for trial in trials(arguments.scale, arguments.seed).into_iter().filter(is_wanted) {
        let differences = compare(&trial)?;
        let mut cells = vec![];
        for difference in &differences {
            let name = |what: &str| format!("{}/{}/{}/{what}", trial.name, trial.strategy, difference.figure);
            let mut add = |name: String, unit, value| report.add(&name, unit, Sample { value, cpu_us: None });
            let (engine, lab, percent) =
                (difference.engine / 1e6, difference.lab / 1e6, difference.share() * 100.0);
            add(name("engine"), "MB", engine);
            add(name("lab"), "MB", lab);
            add(name("difference"), "%", percent);
            cells.push(format!("{engine:7.1} {lab:7.1} {percent:+5.0} %"));
            compared += 1;
            within += usize::from(difference.share().abs() <= ALLOWED);
        }
        println!("| {:12} | {:8} | {} |", trial.name, trial.strategy, cells.join(" | "));
    }
    println!("\n{within} of {compared} figures differ by at most {:.0} %.", ALLOWED * 100.0);
    if arguments.results.as_os_str() != "none" {
        let settings =
            [("scale", arguments.scale.into()), ("seed", arguments.seed.into()), ("profile", PROFILE.into())];
        let lines = report.lines("lab", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

fn compare(trial: &Trial) -> Result<Vec<Difference>, BenchError> {
    let engine = in_engine(trial)?;
    let lab = in_lab(trial, &engine)?;
    let pairs = [
        (engine.flushed_bytes + engine.compacted_bytes, lab.flushed_bytes + lab.compacted_bytes),
        (engine.peak_bytes, lab.peak_disk_bytes),
        (engine.end_bytes, lab.end_disk_bytes),
    ];
    let all = FIGURES.into_iter().zip(pairs);
    Ok(all.map(|(figure, (engine, lab))| Difference { figure, engine: engine as f64, lab }).collect())
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
    let rows = Arc::new(Workload::new(trial.rows, VALUE_BYTES, trial.seed));
    let dir = Path::new("/data/data/lab");
    let mut peak_bytes = 0;
    let before = counters(&world, &simulated)?;
    let (step, begun_us) = (BATCH * BATCHES_A_STEP, world.now_us());
    let (mut next, mut flushes, mut writes_per_flush) = (0, 0, trial.writes as f64);
    while next < trial.writes {
        let end = (next + step).min(trial.writes);
        while next < end {
            let batch = next..(next + BATCH).min(end);
            next = batch.end;
            let until_us = begun_us + next * 1_000_000 / trial.per_s;
            write(&world, &simulated, *trial, id, rows.clone(), batch)?;
            while world.now_us() < until_us {
                world.run_for_us(LOOK_US.min(until_us - world.now_us()))?;
                peak_bytes = peak_bytes.max(world.disk().used_bytes_in(dir));
            }
        }
        let reports =
            world.block_on(&simulated, 0, |shard| async move { node::table_reports(&shard).await })??;
        let ours = reports.into_iter().flatten().find(|report| report.id == id);
        let flushed = ours.map_or(0, |report| report.flushes);
        if flushed > flushes {
            (flushes, writes_per_flush) = (flushed, next as f64 / flushed as f64);
        }
    }
    let flushed =
        world.block_on(&simulated, 0, move |shard| async move { node::flush(&shard, vec![id]).await })?;
    flushed?;
    let ends_us = world.now_us() + QUIET_WITHIN_US;
    let mut quiet_us = 0;
    while quiet_us < QUIET_US {
        if world.now_us() > ends_us {
            return Err("compactions did not end within ten minutes".into());
        }
        for _ in 0..20 {
            world.run_for_us(LOOK_US)?;
            peak_bytes = peak_bytes.max(world.disk().used_bytes_in(dir));
        }
        let running = world.block_on(&simulated, 0, |shard| async move {
            let report = EngineShard::of(&shard)?.compactions().report();
            Ok::<_, EngineError>(report.running.len())
        })?;
        quiet_us = if running? == 0 { quiet_us + 20 * LOOK_US } else { 0 };
    }
    let end_bytes = world.disk().used_bytes_in(dir);
    let after = counters(&world, &simulated)?;
    let [row_bytes, flushed_bytes, compacted_bytes] = [0, 1, 2].map(|at| after[at] - before[at]);
    Ok(Measured { writes_per_flush, row_bytes, flushed_bytes, compacted_bytes, peak_bytes, end_bytes })
}

/// Bytes of rows flushed, and bytes written by flushes and by compactions, of all tables. Subtracting those
/// before the load leaves out the flushes of system tables that a start and a CREATE TABLE cause.
fn counters(world: &SimWorld, simulated: &SimNode) -> Result<[u64; 3], BenchError> {
    let counters = world.block_on(simulated, 0, move |shard| async move {
        let report = EngineShard::of(&shard)?.report();
        Ok::<_, EngineError>([
            report.flushes.uncompressed_bytes,
            report.runtime.io_of(IoClass::MemtableFlush).write_bytes,
            report.runtime.io_of(IoClass::Compaction).write_bytes,
        ])
    })?;
    Ok(counters?)
}

/// Writes some of the trial's operations.
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
            let mut rng = Rng::new(trial.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let row = match trial.load {
                Load::Sequential | Load::Tombstones | Load::Series(_) => number % trial.rows,
                Load::Uniform | Load::Deletes => rng.below(trial.rows),
            };
            let (timestamp_us, now_s) = (shard.wall_us(), shard.wall_s());
            let partition = if let Load::Series(_) = trial.load { row % 100 } else { row };
            let clustering = if let Load::Series(_) = trial.load { timestamp_us + number as i64 } else { 0 };
            let mut mutation = Mutation::new(schema.clone(), PartitionKey::new(&rows.key(partition)[..]));
            let written = mutation.row_mut(ClusteringPrefix::new([&clustering.to_be_bytes()[..]]));
            if trial.load == Load::Tombstones || (trial.load == Load::Deletes && rng.below(5) == 0) {
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
        }
        Ok::<(), EngineError>(())
    })?;
    Ok(written?)
}

/// Runs the trial in the lab, with the sizes that the engine has measured. CPU and disk are so fast that
/// compaction keeps up, as in the simulated world.
fn in_lab(trial: &Trial, engine: &Measured) -> Result<SimulationResult, BenchError> {
    // Rows that are written twice within a memtable are flushed once, so sizes are those of a run in which no
    // row is written twice.
    let size_of = |load| {
        let once = Trial { rows: ONCE, writes: ONCE, load, ..*trial };
        in_engine(&once).map(|measured| measured.row_bytes as f64 / ONCE as f64)
    };
    let row_bytes = match trial.load {
        Load::Sequential | Load::Uniform | Load::Deletes => size_of(Load::Sequential)?,
        Load::Tombstones | Load::Series(_) => engine.row_bytes as f64 / trial.writes as f64,
    };
    let tombstone_bytes = match trial.load {
        Load::Deletes => size_of(Load::Tombstones)?,
        // A row whose TTL is over stays as a tombstone.
        Load::Series(_) => row_bytes - VALUE_BYTES as f64,
        _ => 40.0,
    };
    let deletes = if trial.load == Load::Deletes { 0.2 } else { 0.0 };
    let flush_bytes = engine.row_bytes as f64 * engine.writes_per_flush / trial.writes as f64;
    let pattern = match trial.load {
        Load::Sequential | Load::Tombstones => "sequential",
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
    Ok(::lab::run(&workload, &strategy, RunOptions { seed: Some(trial.seed), ..RunOptions::default() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes written and peak space of small workloads, within 15 %. Leveled compaction is left out: in a
    /// table of few SSTables, whether a level is pushed up a flush earlier or later changes the bytes written
    /// by 20 %.
    #[test]
    fn the_lab_agrees_with_the_engine() {
        for trial in
            trials(0.3, 21).iter().filter(|trial| trial.name == "example1" && trial.strategy != "LCS")
        {
            for difference in compare(trial).unwrap() {
                assert!(
                    difference.share().abs() <= ALLOWED,
                    "{} with {}: {difference:?}",
                    trial.name,
                    trial.strategy
                );
            }
        }
    }
}
