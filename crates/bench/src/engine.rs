//! `messina-bench engine`: measures how fast the storage engine writes, reads, flushes, scans and replays on
//! one core.
//!
//! How it works:
//! 1. The process is pinned to one core before any thread starts, so that helper threads and the shard share
//!    the core.
//! 2. The clients are tasks on the engine's shard and call [`EngineShard`] directly, `--concurrency` at a
//!    time.
//! 3. There is one table without clustering columns: a partition is a row with one value. Rows come from
//!    [`Workload`].
//! 4. Each run begins with an empty directory: write, read from the memtable, flush, read from the SSTable
//!    with a warm cache, read bypassing the cache with direct I/O, scan bypassing the cache. For the replay,
//!    another directory is written, abandoned without a flush, and opened again. `batch`, and writes through
//!    [`engine::Engine::apply`] from another thread, have short phases of their own.
//! 5. Every answer is checked for the right row; one in [`CHECKED`] is compared byte by byte.
//!
//! Rates count rows, or MB (10^6 bytes) of the data named beside the phase. `flush` and `scan` count
//! uncompressed Data.db, `replay` counts entries of the log. `*-user` rates count keys and values only, so
//! that they can be compared with other engines. `replay-flush` counts the rows of a complete start after a
//! crash.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use engine::commitlog::SyncMode;
use engine::shard::EngineShard;
use engine::{EngineOptions, Page, ReadCommand};
use model::{
    Cell as ColumnCell, ClusteringPrefix, ColumnData, ColumnId, CqlType, Liveness, Mutation, PartitionKey,
    PartitionRange, TableSchema,
};
use runtime::BackendChoice;
use serde_json::Value;

use super::BenchError;
use super::limits::{self, measure as measure_limits};
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample};
use super::stopwatch::{Spent, Stopwatch};
use super::workload::Workload;
use super::world::{self, World};

/// One answer in this number is compared byte by byte.
pub const CHECKED: u64 = 64;
/// Maximum number of writes in the `batch` phase and in the `remote` phase.
pub const BATCH_WRITES: u64 = 20_000;
const REMOTE_WRITES: u64 = 200_000;
/// Maximum number of reads that bypass the cache.
pub const COLD_READS: u64 = 20_000;
const SEED: u64 = 20_260_101;

#[derive(Args, Clone, Debug)]
pub struct EngineArguments {
    /// Rows written in each run.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub rows: u64,
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long, conflicts_with = "no_pin")]
    pub core: Option<usize>,
    /// Run on all cores.
    #[arg(long)]
    pub no_pin: bool,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// The I/O backend.
    #[arg(long, value_enum, default_value_t = BackendArgument::Auto)]
    pub backend: BackendArgument,
    /// Run only these phases, and the phases that they need.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Phase>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/engine.ndjson")]
    pub results: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArgument {
    Auto,
    IoUring,
    LinuxAio,
    Threads,
}

impl From<BackendArgument> for BackendChoice {
    fn from(argument: BackendArgument) -> Self {
        match argument {
            BackendArgument::Auto => Self::Auto,
            BackendArgument::IoUring => Self::IoUring,
            BackendArgument::LinuxAio => Self::LinuxAio,
            BackendArgument::Threads => Self::Threads,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Limits of memory, codecs and disk.
    Limits,
    Write,
    /// Point reads of rows in the memtable.
    ReadMemtable,
    Flush,
    /// Point reads from the SSTable with its chunks in the cache, without the row cache.
    ReadCached,
    /// Point reads of rows in the row cache.
    ReadRowCache,
    /// Point reads from disk.
    ReadCold,
    Scan,
    /// Replay of the commit log after a crash.
    Replay,
    /// Writes with `batch` sync.
    Batch,
    /// Writes from another thread.
    Remote,
}

impl EngineArguments {
    pub fn wants(&self, phase: Phase) -> bool {
        self.only.is_empty() || self.only.contains(&phase)
    }

    pub fn workload(&self) -> Workload {
        Workload::new(self.rows, self.value_bytes, SEED)
    }

    /// Pins the process to its core, unless disabled, and returns the core.
    pub fn pin(&self) -> Result<Option<usize>, BenchError> {
        if self.no_pin { Ok(None) } else { Ok(Some(machine::pin_process(self.core)?)) }
    }

    /// The settings that are recorded with every result.
    pub fn settings(&self, core: Option<usize>, backend: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("rows", self.rows.into()),
            ("key_bytes", super::workload::KEY_BYTES.into()),
            ("value_bytes", self.value_bytes.into()),
            ("concurrency", self.concurrency.into()),
            ("core", core.into()),
            ("backend", backend.into()),
            ("profile", PROFILE.into()),
        ]
    }

    /// Prints the report and appends it to the results file.
    pub fn publish(
        &self,
        bench: &str,
        report: &Report,
        machine: &Machine,
        settings: &[(&'static str, Value)],
    ) -> Result<(), BenchError> {
        println!("\n{}", report.table());
        if self.results.as_os_str() != "none" {
            report::append(&self.results, &report.lines(bench, &machine::commit(), machine, settings))?;
            println!("appended to {}", self.results.display());
        }
        Ok(())
    }
}

/// Runs the benchmark and prints the results.
pub fn run(arguments: &EngineArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = arguments.pin()?;
    let workload = Arc::new(arguments.workload());
    let dir = Scratch::make(&arguments.dir)?;
    println!(
        "{} rows of {} bytes, {} clients, {} runs, {} ({} cores), load {}, {}",
        workload.rows,
        super::workload::KEY_BYTES + workload.value_bytes,
        arguments.concurrency,
        arguments.runs,
        machine.cpu,
        machine.cores,
        machine.load,
        core.map_or("on any core".to_string(), |core| format!("on core {core}")),
    );
    let mut report = Report::default();
    let mut backend = String::new();
    for number in 1..=arguments.runs {
        println!("run {number}");
        if arguments.wants(Phase::Limits) {
            let concurrency = usize::from(arguments.concurrency);
            measure_limits(&mut report, &workload, concurrency, arguments.backend.into(), &dir.0)?;
        }
        backend = run_once(&mut report, arguments, &workload, &dir.0)?;
    }
    println!("I/O by {backend}");
    arguments.publish("engine", &report, &machine, &arguments.settings(core, &backend))
}

/// A directory of the benchmark, removed with its contents when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn make(parent: &Path) -> Result<Self, BenchError> {
        let dir = parent.join(format!("engine-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}; remove it by hand", self.0.display());
        }
    }
}

/// Runs all selected phases once below `dir`. Returns the name of the I/O backend.
pub fn run_once(
    report: &mut Report,
    arguments: &EngineArguments,
    workload: &Arc<Workload>,
    dir: &Path,
) -> Result<String, BenchError> {
    let periodic = EngineOptions::new("").commitlog_sync;
    let open = |name: &str, sync: SyncMode| Bench::open(arguments, workload, dir.join(name), sync);
    let rows = workload.rows;
    let user_mb = workload.user_bytes() as f64 / 1e6;

    let bench = open("main", periodic)?;
    let backend = bench.world.engine.backend();
    let spent = bench.write(rows)?;
    if arguments.wants(Phase::Write) {
        report.add_rate("write", "/s", rows as f64, spent);
        report.bound("write", &[limits::MAP_INSERT]);
        let row_bytes = bench.world.engine.report()?[0].dirty_bytes as f64 / rows as f64;
        report.add("memtable-row", "bytes", Sample { value: row_bytes, cpu_us: None });
    }
    if arguments.wants(Phase::ReadMemtable) {
        let spent = bench.read(rows, false)?;
        report.add_rate("read-memtable", "/s", rows as f64, spent);
        report.bound("read-memtable", &[limits::MAP_GET]);
    }
    let on_disk = [Phase::Flush, Phase::ReadCached, Phase::ReadRowCache, Phase::ReadCold, Phase::Scan];
    if on_disk.into_iter().any(|phase| arguments.wants(phase)) {
        let before = bench.world.flushed()?;
        let watch = Stopwatch::start();
        bench.world.engine.flush(vec![bench.world.table.id])?;
        let spent = watch.spent();
        let flushed = bench.world.flushed()?;
        let flushes = flushed.flushes - before.flushes;
        if flushes != 1 {
            return Err(format!("{flushes} flushes where one was expected: too little memory").into());
        }
        let data_mb = (flushed.uncompressed_bytes - before.uncompressed_bytes) as f64 / 1e6;
        if arguments.wants(Phase::Flush) {
            report.add_rate("flush", "MB/s", data_mb, spent);
            report.bound("flush", &[limits::LZ4_COMPRESS, limits::DISK_WRITE]);
            report.add_rate("flush-user", "MB/s", user_mb, spent);
        }
        if arguments.wants(Phase::ReadCached) {
            let reads = (rows / 2).max(1);
            bench.keep_rows(false)?;
            bench.read(reads, false)?;
            let spent = bench.read(reads, false)?;
            report.add_rate("read-cached", "/s", reads as f64, spent);
            report.bound("read-cached", &[limits::MAP_GET]);
            bench.keep_rows(true)?;
        }
        if arguments.wants(Phase::ReadRowCache) {
            let reads = (rows / 2).max(1);
            // Both rounds pick the same rows, so the second round finds the rows cached by the first.
            bench.read(reads, false)?;
            let before = bench.world.engine.report()?[0].row_cache;
            let spent = bench.read(reads, false)?;
            let after = bench.world.engine.report()?[0].row_cache;
            let misses = after.misses - before.misses;
            if misses * 100 > reads {
                return Err(
                    format!("{misses} of {reads} rows were not in the row cache: too little memory").into()
                );
            }
            report.add_rate("read-row-cache", "/s", reads as f64, spent);
            report.bound("read-row-cache", &[limits::MAP_GET]);
            let row_bytes = after.bytes as f64 / after.partitions.max(1) as f64;
            report.add("row-cache-row", "bytes", Sample { value: row_bytes, cpu_us: None });
        }
        if arguments.wants(Phase::ReadCold) {
            let reads = rows.min(COLD_READS);
            let spent = bench.read(reads, true)?;
            report.add_rate("read-cold", "/s", reads as f64, spent);
            report.bound("read-cold", &[limits::DISK_RANDOM_READ]);
        }
        if arguments.wants(Phase::Scan) {
            let spent = bench.scan()?;
            report.add_rate("scan", "MB/s", data_mb, spent);
            report.bound("scan", &[limits::LZ4_DECOMPRESS, limits::DISK_READ]);
            report.add_rate("scan-user", "MB/s", user_mb, spent);
        }
    }
    bench.close()?;

    if arguments.wants(Phase::Replay) {
        let bench = open("replay", periodic)?;
        bench.write(rows)?;
        let dir = bench.world.dir.clone();
        // As after a crash: no flush and no clean shutdown.
        drop(bench.world);
        let bench = Bench::open(arguments, workload, dir, periodic)?;
        let opened = bench.world.engine.open_report();
        if opened.replay.entries < rows {
            return Err(format!("{} of {rows} rows were replayed", opened.replay.entries).into());
        }
        let wall_s = opened.replay_us as f64 / 1e6;
        let rate = |count: f64| Sample { value: count / wall_s, cpu_us: None };
        report.add("replay", "MB/s", rate(opened.replay.bytes as f64 / 1e6));
        report.bound("replay", &[limits::CRC32, limits::DISK_READ]);
        report.add("replay-rows", "/s", rate(opened.replay.entries as f64));
        report.bound("replay-rows", &[limits::MAP_INSERT]);
        // Duration of a complete start after a crash: replay, then flush.
        let value = rows as f64 * 1e6 / (opened.replay_us + opened.flush_us) as f64;
        report.add("replay-flush", "/s", Sample { value, cpu_us: None });
        bench.close()?;
    }
    if arguments.wants(Phase::Batch) {
        let writes = rows.min(BATCH_WRITES);
        let bench = open("batch", SyncMode::Batch)?;
        let spent = bench.write(writes)?;
        report.add_rate("write-batch", "/s", writes as f64, spent);
        report.bound("write-batch", &[limits::SYNCED_WRITES]);
        bench.close()?;
    }
    if arguments.wants(Phase::Remote) {
        let writes = rows.min(REMOTE_WRITES);
        let bench = open("remote", periodic)?;
        let spent = bench.write_from_here(writes)?;
        report.add_rate("write-remote", "/s", writes as f64, spent);
        bench.close()?;
    }
    Ok(backend)
}

/// Memory in bytes that is sufficient for all rows both in the memtable, which may use a quarter, and in the
/// cache, which may use another quarter.
pub fn memory_bytes(workload: &Workload) -> u64 {
    (4 * workload.rows * (600 + 2 * workload.value_bytes as u64)).max(512 << 20)
}

/// An open engine with the benchmark's table.
struct Bench {
    world: World,
    value: ColumnId,
    workload: Arc<Workload>,
    concurrency: usize,
}

impl Bench {
    /// Opens a directory. Memory and commit log are large enough for all rows, so that no automatic flush
    /// occurs.
    fn open(
        arguments: &EngineArguments,
        workload: &Arc<Workload>,
        dir: PathBuf,
        commitlog_sync: SyncMode,
    ) -> Result<Self, BenchError> {
        let mut options = EngineOptions::new(&dir);
        options.memory_bytes = memory_bytes(workload);
        options.commitlog_total_bytes = options.commitlog_total_bytes.max(memory_bytes(workload));
        options.commitlog_sync = commitlog_sync;
        let table = TableSchema::builder("bench", "rows").partition_key("key", CqlType::Blob);
        let table = table.regular("value", CqlType::Blob).build().expect("a key and a column");
        let world = World::open(options, arguments.backend.into(), &table, &world::uncompacted())?;
        let value = world.table.column_named("value").expect("made above").id;
        let concurrency = usize::from(arguments.concurrency);
        Ok(Self { world, value, workload: workload.clone(), concurrency })
    }

    /// Switches the row cache on or off.
    fn keep_rows(&self, is_on: bool) -> Result<(), BenchError> {
        let set = self.world.engine.ask(0, move |shard| async move {
            EngineShard::of(&shard)?.row_cache().set_on(is_on);
            Ok(())
        });
        Ok(set.wait()?)
    }

    fn close(self) -> Result<(), BenchError> {
        Ok(fs::remove_dir_all(self.world.close()?)?)
    }

    /// Writes the first `rows` rows by tasks on the shard.
    fn write(&self, rows: u64) -> Result<Spent, BenchError> {
        let (table, value, workload) = (self.world.table.clone(), self.value, self.workload.clone());
        self.world.on_shard(self.concurrency, rows, move |engine, row| {
            let mutation = mutation(&table, value, &workload, row);
            async move { engine.apply(mutation).await }
        })
    }

    /// Reads random rows by tasks on the shard, and checks the answers.
    fn read(&self, reads: u64, bypass_cache: bool) -> Result<Spent, BenchError> {
        let (table, value, workload) = (self.world.table.clone(), self.value, self.workload.clone());
        let picks = self.workload.picks(2);
        // Number of rows that were not read as written.
        let wrong = Arc::new(AtomicU64::new(0));
        let wrong_here = wrong.clone();
        let make = move || {
            let picks = RefCell::new(picks);
            move |engine: Rc<EngineShard>, number: u64| {
                let row = picks.borrow_mut().pick();
                let key = PartitionKey::new(&workload.key(row)[..]);
                let mut command = ReadCommand::new(table.id, PartitionRange::Key(key));
                command.bypass_cache = bypass_cache;
                let (workload, wrong) = (workload.clone(), wrong_here.clone());
                async move {
                    let page = engine.read(&command).await?;
                    if !is_row(&page, value, &workload, row, number.is_multiple_of(CHECKED)) {
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                }
            }
        };
        let spent = self.world.on_shard_made(self.concurrency, reads, make)?;
        match wrong.load(Ordering::Relaxed) {
            0 => Ok(spent),
            wrong => Err(format!("{wrong} of {reads} rows were not read as they were written").into()),
        }
    }

    /// Scans all rows, bypassing the cache.
    fn scan(&self) -> Result<Spent, BenchError> {
        let wanted = self.workload.rows;
        let (rows, spent) = self.world.scan()?;
        if rows != wanted {
            return Err(format!("the scan found {rows} of {wanted} rows").into());
        }
        Ok(spent)
    }

    /// Writes from this thread, with as many writes in flight as there are clients.
    fn write_from_here(&self, rows: u64) -> Result<Spent, BenchError> {
        let watch = Stopwatch::start();
        let mut under_way = VecDeque::with_capacity(self.concurrency);
        for row in 0..rows {
            if under_way.len() == self.concurrency {
                under_way.pop_front().map_or(Ok(()), engine::Pending::wait)?;
            }
            under_way.push_back(self.world.engine.apply(mutation(
                &self.world.table,
                self.value,
                &self.workload,
                row,
            )));
        }
        under_way.into_iter().try_for_each(engine::Pending::wait)?;
        Ok(watch.spent())
    }
}

/// The write of row `row`.
pub fn mutation(table: &Arc<TableSchema>, value: ColumnId, workload: &Workload, row: u64) -> Mutation {
    let timestamp_us = 1 + row as i64;
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&workload.key(row)[..]));
    let written = mutation.row_mut(ClusteringPrefix::new([]));
    written.liveness = Liveness::new(timestamp_us);
    written.push(value, ColumnData::Simple(ColumnCell::live(timestamp_us, workload.value(row))));
    mutation
}

/// Whether the page contains exactly row `row`.
fn is_row(page: &Page, value: ColumnId, workload: &Workload, row: u64, every_byte: bool) -> bool {
    let [partition] = &page.partitions[..] else { return false };
    let [found] = &partition.rows[..] else { return false };
    let [(id, ColumnData::Simple(cell))] = found.row.cells() else { return false };
    *id == value
        && cell.timestamp_us == 1 + row as i64
        && (!every_byte || *cell.value == *workload.value(row))
}
