//! The merges of `messina-bench compaction merge` by RocksDB, with settings that mean the same.
//!
//! LZ4, 16 KiB blocks, bloom filter of 10 bits, one background thread on the same core, direct I/O, nothing
//! limited. Each input is a file of level 0, flushed from a memtable that holds it; a full compaction makes
//! one file of them. Its keys are those of Messina's rows, with the clustering behind the partition's key.

use bench::BenchError;
use bench::compaction::merge::{Case, MergeArguments, ROW_BYTES};
use bench::engine::Scratch;
use bench::machine::{self, Machine};
use bench::report::{Report, Sample};
use bench::stopwatch::Stopwatch;
use bench::workload::Workload;
use rocksdb::{
    BlockBasedOptions, DB, DBCompressionType, FlushOptions, IteratorMode, LiveFile, Options, WriteOptions,
};

/// Runs the merges and prints the figures.
pub fn run(arguments: &MergeArguments) -> Result<(), BenchError> {
    let machine = Machine::look();
    let core = machine::pin_process(arguments.core)?;
    let scratch = Scratch::make(&arguments.dir)?;
    let workload = arguments.workload();
    let mut report = Report::default();
    for case in arguments.cases() {
        for _ in 0..arguments.runs {
            let path = scratch.0.join("rocksdb");
            measure(arguments, case, &workload, &path, &mut report)?;
            DB::destroy(&Options::default(), &path)?;
        }
    }
    arguments.publish("merge/rocksdb", &report, &machine, core)
}

fn options(arguments: &MergeArguments) -> Options {
    let all_bytes = arguments.rows() as usize * 2 * ROW_BYTES;
    let mut table = BlockBasedOptions::default();
    table.set_block_size(16 * 1024);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(all_bytes.max(64 << 20));
    options.set_max_background_jobs(1);
    options.set_disable_auto_compactions(true);
    options.set_level_zero_slowdown_writes_trigger(1000);
    options.set_level_zero_stop_writes_trigger(1000);
    options.set_target_file_size_base(1 << 40);
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options
}

fn measure(
    arguments: &MergeArguments,
    case: Case,
    workload: &Workload,
    path: &std::path::Path,
    report: &mut Report,
) -> Result<(), BenchError> {
    let db = DB::open(&options(arguments), path)?;
    let each = arguments.rows() / case.inputs();
    let mut without_log = WriteOptions::default();
    without_log.disable_wal(true);
    let mut flush = FlushOptions::default();
    flush.set_wait(true);
    for input in 0..case.inputs() {
        for number in 0..each {
            let row = case.row(input, number);
            let mut key = workload.key(row / arguments.partition_rows).to_vec();
            if arguments.has_clustering() {
                key.extend_from_slice(&(row % arguments.partition_rows).to_be_bytes());
            }
            db.put_opt(key, workload.value(input * each + number), &without_log)?;
        }
        db.flush_opt(&flush)?;
    }
    let files = db.live_files()?;
    if files.len() as u64 != case.inputs() {
        return Err(format!("RocksDB flushed {} files, not {}", files.len(), case.inputs()).into());
    }
    let mb = |bytes: f64| bytes / 1e6;
    let disk_mb = |files: &[LiveFile]| mb(files.iter().map(|file| file.size as f64).sum());
    let input_disk_mb = disk_mb(&files);
    let watch = Stopwatch::start();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let spent = watch.spent();
    let files = db.live_files()?;
    let left = (0..case.inputs()).map(|input| case.row(input, each - 1)).max().unwrap_or(0) + 1;
    let found = db.iterator(IteratorMode::Start).count() as u64;
    if (files.len(), found) != (1, left) {
        return Err(format!("{} files with {found} rows came out, not 1 with {left}", files.len()).into());
    }
    let name = case.name();
    let user_mb = mb((arguments.rows() * ROW_BYTES as u64) as f64);
    let size = |value: f64| Sample { value, cpu_us: None };
    report.add_rate(&format!("merge-{name}-user"), "MB/s", user_mb, spent);
    report.add(&format!("input-{name}-disk"), "MB", size(input_disk_mb));
    report.add(&format!("output-{name}-disk"), "MB", size(disk_mb(&files)));
    Ok(())
}
