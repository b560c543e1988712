//! `messina-bench compaction merge`: measures the speed of merging two and four SSTables on one core.
//!
//! The rows have 300 bytes (keys and value) and 600 MB in total, compressed by LZ4 in chunks of 16 KiB. The
//! engine writes them, flushes them into one SSTable per input, and merges these by a major compaction into
//! one. By default the inputs have different rows, assigned round robin: the merge switches between inputs at
//! each row and writes everything again. With "overwrites", all inputs have the same rows, of which only the
//! newest remain.
//!
//! MB are 10^6 bytes of the inputs' Data.db before compression (`merge-…`), or of keys and values (`…-user`).
//! The latter can be compared with other databases: `bench/merge.sh` gives the same SSTables to Cassandra and
//! the same rows to RocksDB.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::TableSettings;
use clap::{Args, ValueEnum};
use engine::node::compaction as compactions;
use engine::shard::EngineShard;
use engine::{EngineError, EngineOptions};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, CqlType, Liveness, Mutation, PartitionKey, TableSchema,
};
use runtime::{BackendChoice, DiskOptions};
use serde_json::Value;

use super::{CLIENTS, value_column};
use crate::BenchError;
use crate::engine::Scratch;
use crate::machine::{self, Machine};
use crate::report::{self, PROFILE, Report, Sample};
use crate::stopwatch::{Spent, Stopwatch};
use crate::workload::{KEY_BYTES, Workload};
use crate::world::World;

/// Number of rows of all inputs together at scale 1.
const ROWS: u64 = 2_000_000;
/// Bytes of a row: keys and value.
pub const ROW_BYTES: usize = 300;
const CLUSTERING_BYTES: usize = 8;
const SEED: u64 = 300;

#[derive(Args, Clone, Debug)]
pub struct MergeArguments {
    /// Size relative to 600 MB of rows, all inputs together.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// The cases to run; default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub cases: Vec<Case>,
    /// Rows per partition; 1: the table has no clustering column.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub partition_rows: u64,
    /// Number of merges per case.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory of the inputs. They are created if they do not exist, and kept. Without it they are created
    /// and removed.
    #[arg(long)]
    pub inputs: Option<PathBuf>,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end. It
    /// must be on the same file system as `--inputs`.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/merge.ndjson")]
    pub results: PathBuf,
}

/// The number of inputs, and whether they have the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Case {
    #[value(name = "2")]
    Two,
    #[value(name = "4")]
    Four,
    #[value(name = "2-overwrites")]
    TwoOverwrites,
    #[value(name = "4-overwrites")]
    FourOverwrites,
}

impl Case {
    pub fn name(self) -> String {
        self.to_possible_value().expect("no case is hidden").get_name().to_string()
    }

    pub fn inputs(self) -> u64 {
        match self {
            Self::Two | Self::TwoOverwrites => 2,
            Self::Four | Self::FourOverwrites => 4,
        }
    }

    fn is_overwrites(self) -> bool {
        matches!(self, Self::TwoOverwrites | Self::FourOverwrites)
    }

    /// The index among all rows of the `number`th row of an input.
    pub fn row(self, input: u64, number: u64) -> u64 {
        if self.is_overwrites() { number } else { number * self.inputs() + input }
    }
}

impl MergeArguments {
    pub fn cases(&self) -> Vec<Case> {
        if self.cases.is_empty() { Case::value_variants().to_vec() } else { self.cases.clone() }
    }

    /// The total number of rows; each input has the same number.
    pub fn rows(&self) -> u64 {
        ((ROWS as f64 * self.scale) as u64).max(1000).next_multiple_of(4)
    }

    pub fn has_clustering(&self) -> bool {
        self.partition_rows > 1
    }

    pub fn workload(&self) -> Workload {
        let clustering_bytes = if self.has_clustering() { CLUSTERING_BYTES } else { 0 };
        Workload::new(self.rows(), ROW_BYTES - KEY_BYTES - clustering_bytes, SEED)
    }

    /// The settings recorded with the results.
    pub fn settings(&self, core: usize) -> Vec<(&'static str, Value)> {
        vec![
            ("scale", self.scale.into()),
            ("partition_rows", self.partition_rows.into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ]
    }

    /// Prints the report and appends it to the results file.
    pub fn publish(
        &self,
        bench: &str,
        report: &Report,
        machine: &Machine,
        core: usize,
    ) -> Result<(), BenchError> {
        println!("\n{}", report.table());
        if self.results.as_os_str() != "none" {
            let lines = report.lines(bench, &machine::commit(), machine, &self.settings(core));
            report::append(&self.results, &lines)?;
            println!("appended to {}", self.results.display());
        }
        Ok(())
    }

    fn table(&self) -> Arc<TableSchema> {
        let mut table = TableSchema::builder("bench", "rows").partition_key("key", CqlType::Blob);
        if self.has_clustering() {
            table = table.clustering("number", CqlType::BigInt);
        }
        table.regular("value", CqlType::Blob).build().expect("a key and a column")
    }

    pub(super) fn open(&self, dir: &Path) -> Result<World, BenchError> {
        self.open_on(DiskOptions::default(), dir)
    }

    /// The same with the measured limits of a disk.
    pub(crate) fn open_on(&self, disk: DiskOptions, dir: &Path) -> Result<World, BenchError> {
        let mut options = EngineOptions::new(dir);
        // All rows of an input stay in one memtable, which may use a quarter of the memory.
        options.memory_bytes = (4 * self.rows() / 2 * 1200).max(512 << 20);
        options.commitlog_total_bytes = options.commitlog_total_bytes.max(options.memory_bytes);
        options.compaction.is_automatic = false;
        World::open_on(disk, options, BackendChoice::Auto, &self.table(), &TableSettings::default())
    }
}

/// Runs the merges and prints the results.
pub fn run(arguments: &MergeArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let scratch = Scratch::make(&arguments.dir)?;
    let made = scratch.0.join("inputs");
    println!(
        "{} rows of {ROW_BYTES} bytes, {} to a partition, {} runs, {}, on core {core}, load {}",
        arguments.rows(),
        arguments.partition_rows,
        arguments.runs,
        machine.cpu,
        machine.load
    );
    let mut report = Report::default();
    for case in arguments.cases() {
        let inputs = arguments.inputs.as_ref().unwrap_or(&made).join(case.name());
        if !inputs.exists() {
            let unfinished = inputs.with_extension("making");
            if unfinished.exists() {
                fs::remove_dir_all(&unfinished)?;
            }
            make_inputs(arguments, case, &unfinished)?;
            fs::rename(&unfinished, &inputs)?;
        }
        for _ in 0..arguments.runs {
            measure(arguments, case, &inputs, &scratch.0.join("world"), &mut report)?;
        }
        if arguments.inputs.is_none() {
            fs::remove_dir_all(&inputs)?;
        }
    }
    arguments.publish("merge/messina", &report, &machine, core)
}

/// Writes the rows, and flushes after the rows of each input.
pub(crate) fn make_inputs(arguments: &MergeArguments, case: Case, dir: &Path) -> Result<(), BenchError> {
    let world = arguments.open(dir)?;
    let workload = Arc::new(arguments.workload());
    let each = arguments.rows() / case.inputs();
    for input in 0..case.inputs() {
        let (table, rows, arguments) = (world.table.clone(), workload.clone(), arguments.clone());
        let value = value_column(&table);
        world.on_shard(CLIENTS, each, move |engine, number| {
            let row = case.row(input, number);
            let key = rows.key(row / arguments.partition_rows);
            let timestamp_us = 1 + (input * each + number) as i64;
            let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&key[..]));
            let clustering = (row % arguments.partition_rows).to_be_bytes();
            let clustering = arguments.has_clustering().then_some(&clustering[..]);
            let written = mutation.row_mut(ClusteringPrefix::new(clustering));
            written.liveness = Liveness::new(timestamp_us);
            let cell = ColumnCell::live(timestamp_us, rows.value(input * each + number));
            written.push(value, ColumnData::Simple(cell));
            async move { engine.apply(mutation).await }
        })?;
        world.engine.flush(vec![world.table.id])?;
    }
    let Inputs { sstables, .. } = inputs_of(&world)?;
    world.close()?;
    if sstables != case.inputs() {
        return Err(format!("{sstables} SSTables were flushed, not {}", case.inputs()).into());
    }
    Ok(())
}

struct Inputs {
    sstables: u64,
    plain_bytes: u64,
    disk_bytes: u64,
}

fn inputs_of(world: &World) -> Result<Inputs, EngineError> {
    let id = world.table.id;
    let counted = world.engine.ask(0, move |shard| async move {
        let sstables = EngineShard::of(&shard)?.table(id)?.sstables();
        Ok(Inputs {
            sstables: sstables.len() as u64,
            plain_bytes: sstables.iter().map(|sstable| sstable.uncompressed_bytes()).sum(),
            disk_bytes: sstables.iter().map(|sstable| sstable.data_bytes()).sum(),
        })
    });
    counted.wait()
}

/// Merges the inputs once; the input files are kept.
fn measure(
    arguments: &MergeArguments,
    case: Case,
    inputs: &Path,
    dir: &Path,
    report: &mut Report,
) -> Result<(), BenchError> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    link(inputs, dir)?;
    let world = arguments.open(dir)?;
    let before = inputs_of(&world)?;
    if before.sstables != case.inputs() {
        let what = format!(
            "{} has {} SSTables, not {}; remove it, so that it is made anew",
            inputs.display(),
            before.sstables,
            case.inputs()
        );
        return Err(what.into());
    }
    let id = world.table.id;
    let watch = Stopwatch::start();
    world.engine.ask(0, move |shard| async move { compactions::major(&shard, id, false).await }).wait()?;
    let spent = watch.spent();
    let after = inputs_of(&world)?;
    let left = if case.is_overwrites() { arguments.rows() / case.inputs() } else { arguments.rows() };
    let (found, _) = world.scan()?;
    if (after.sstables, found) != (1, left) {
        return Err(
            format!("{} SSTables with {found} rows came out, not 1 with {left}", after.sstables).into()
        );
    }
    fs::remove_dir_all(world.close()?)?;
    let name = case.name();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let user_bytes = arguments.rows() * ROW_BYTES as u64;
    report.add_rate(&format!("merge-{name}"), "MB/s", mb(before.plain_bytes), spent);
    report.add_rate(&format!("merge-{name}-user"), "MB/s", mb(user_bytes), spent);
    report.add(&format!("merge-{name}-per-cpu-s"), "MB/s", per_cpu_s(mb(before.plain_bytes), spent));
    let size = |bytes: u64| Sample { value: mb(bytes), cpu_us: None };
    report.add(&format!("input-{name}"), "MB", size(before.plain_bytes));
    report.add(&format!("input-{name}-disk"), "MB", size(before.disk_bytes));
    report.add(&format!("output-{name}-disk"), "MB", size(after.disk_bytes));
    Ok(())
}

/// The rate if nothing had to be waited for: MB per second of CPU time.
fn per_cpu_s(mb: f64, spent: Spent) -> Sample {
    Sample { value: mb / spent.cpu_s.max(1e-9), cpu_us: None }
}

/// Copies the directory of a closed engine. SSTable files are hard links, since they are immutable.
pub(crate) fn link(from: &Path, to: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let is_of_sstable = || entry.file_name().to_string_lossy().ends_with(".db");
        if entry.file_type()?.is_dir() {
            link(&from, &to)?;
        } else if is_of_sstable() {
            fs::hard_link(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
