//! `messina-bench chunks`: measures how many bytes are read from disk for one small partition, at each chunk
//! length.
//!
//! The question is that of "Selecting compression chunk sizes for ScyllaDB": partitions of 310 bytes are read
//! one at a time in random order, with nothing cached. Bytes are counted twice: by the engine, separately for
//! index and data, and by the kernel for the whole process. Both counts must agree.
//!
//! - The disk serves whole sectors, so a chunk costs its stored length and up to one sector at each end.
//! - A partition that straddles two chunks costs both: of partitions with 310 bytes, 30 % do at 1 KiB and 8 %
//!   at 4 KiB.
//! - "As it is" means chunks without compression, to show the effect of the chunk length alone.
//! - The index is the same at every chunk length. In the publication's deployment it is in memory.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::rng::Rng;
use clap::Args;
use engine::{EngineOptions, ReadCommand};
use messina::plot::{Line, Lines};
use model::{
    Cell as ColumnCell, ClusteringPrefix, Codec, ColumnData, Compression, CqlType, Liveness, Mutation,
    PartitionKey, PartitionRange, TableSchema,
};
use runtime::BackendChoice;

use super::BenchError;
use super::engine::Scratch;
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample, number};
use super::workload::Workload;
use super::world::{self, World, kernel_read_bytes};

const CHUNK_KIB: [u32; 4] = [64, 16, 4, 1];
/// With key, lengths, flags and times, a partition of one row has 310 bytes of Data.db.
const VALUE_BYTES: usize = 263;
const SEED: u64 = 310;

#[derive(Args, Clone, Debug)]
pub struct ChunksArguments {
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub partitions: u64,
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub reads: u64,
    /// Number of concurrent reads.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/chunks.ndjson")]
    pub results: PathBuf,
    #[arg(long, default_value = "bench/results/chunks.svg")]
    pub plot: PathBuf,
}

/// Runs the benchmark and prints the results.
pub fn run(arguments: &ChunksArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let dir = Scratch::make(&arguments.dir)?;
    let workload = Arc::new(Workload::new(arguments.partitions, VALUE_BYTES, SEED));
    let mut report = Report::default();
    let codecs = [("LZ4", Codec::Lz4), ("as it is", Codec::Noop)];
    for (name, codec) in codecs {
        for kib in CHUNK_KIB {
            let compression = Some(Compression::new(codec, kib << 10));
            let name = format!("{name} {kib} KiB");
            measure(&mut report, &name, compression, arguments, &workload, &dir.0.join("world"))?;
        }
    }
    measure(&mut report, "uncompressed", None, arguments, &workload, &dir.0.join("world"))?;
    println!("\n{}", report.table());
    let of = |figure: &str| report.get(figure).map_or(0.0, |figure| figure.spread().1);
    for (name, _) in codecs {
        for figure in ["data-bytes", "bytes"] {
            let (four, one) = (of(&format!("{figure}/{name} 4 KiB")), of(&format!("{figure}/{name} 1 KiB")));
            println!(
                "{name}: {} {figure} a request at 4 KiB, {} at 1 KiB: {:.2} times",
                number(four),
                number(one),
                four / one
            );
        }
    }
    let line = |name: &str, figure: &str| Line {
        name: format!("{name}: {figure}"),
        points: CHUNK_KIB
            .iter()
            .rev()
            .map(|kib| (f64::from(*kib), of(&format!("{figure}/{name} {kib} KiB"))))
            .collect(),
    };
    let plot = Lines {
        title: "Reads of partitions of 310 bytes, nothing cached".to_string(),
        x: "chunk length, KiB".to_string(),
        y: "bytes a request".to_string(),
        lines: codecs.iter().flat_map(|(name, _)| [line(name, "bytes"), line(name, "data-bytes")]).collect(),
        log_y: true,
        dots: true,
    };
    fs::write(&arguments.plot, plot.svg())?;
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("partitions", arguments.partitions.into()),
            ("reads", arguments.reads.into()),
            ("concurrency", arguments.concurrency.into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines = report.lines("chunks", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

fn measure(
    report: &mut Report,
    name: &str,
    compression: Option<Compression>,
    arguments: &ChunksArguments,
    workload: &Arc<Workload>,
    dir: &std::path::Path,
) -> Result<(), BenchError> {
    let open = || {
        let mut options = EngineOptions::new(dir);
        options.memory_bytes = (arguments.partitions * 8000).max(1 << 30);
        options.commitlog_total_bytes = options.commitlog_total_bytes.max(options.memory_bytes);
        let table = TableSchema::builder("bench", "small").partition_key("key", CqlType::Blob);
        let mut table = table.regular("value", CqlType::Blob).build().expect("a key and a column");
        Arc::get_mut(&mut table).expect("nobody else has it").options.compression = compression.clone();
        World::open(options, BackendChoice::Auto, &table, &world::uncompacted())
    };
    let bench = open()?;
    let (table, rows) = (bench.table.clone(), workload.clone());
    let value = table.column_named("value").expect("made above").id;
    bench.on_shard(64, workload.rows, move |engine, row| {
        let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&rows.key(row)[..]));
        let written = mutation.row_mut(ClusteringPrefix::new([]));
        let timestamp_us = 1_700_000_000_000_000 + row as i64;
        written.liveness = Liveness::new(timestamp_us);
        written.push(value, ColumnData::Simple(ColumnCell::live(timestamp_us, rows.value(row))));
        async move { engine.apply(mutation).await }
    })?;
    let before = bench.flushed()?;
    bench.engine.flush(vec![bench.table.id])?;
    let flushed = bench.flushed()?;
    let per_partition =
        (flushed.uncompressed_bytes - before.uncompressed_bytes) as f64 / workload.rows as f64;
    bench.close()?;

    let bench = open()?;
    let table = bench.table.id;
    let (before, kernel_before) = (bench.engine.report()?[0].disk_reads, kernel_read_bytes());
    let wrong = Arc::new(AtomicU64::new(0));
    let (rows, wrong_here) = (workload.clone(), wrong.clone());
    let spent = bench.on_shard_made(usize::from(arguments.concurrency), arguments.reads, move || {
        let rng = RefCell::new(Rng::new(SEED));
        move |engine: std::rc::Rc<engine::shard::EngineShard>, _| {
            let row = rng.borrow_mut().below(rows.rows);
            let key = PartitionKey::new(&rows.key(row)[..]);
            let mut command = ReadCommand::new(table, PartitionRange::Key(key));
            command.bypass_cache = true;
            let wrong = wrong_here.clone();
            async move {
                let page = engine.read(&command).await?;
                if page.row_count() != 1 {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        }
    })?;
    if wrong.load(Ordering::Relaxed) > 0 {
        return Err(format!("{} rows were not found", wrong.load(Ordering::Relaxed)).into());
    }
    let (after, kernel) = (bench.engine.report()?[0].disk_reads, kernel_read_bytes() - kernel_before);
    let data_bytes = after.data_bytes - before.data_bytes;
    let bytes = data_bytes + after.index_bytes - before.index_bytes;
    // The process reads few other bytes at the same time.
    if kernel > 0 && bytes.abs_diff(kernel) > kernel / 100 {
        return Err(format!("{name}: the engine counted {bytes} bytes, the kernel {kernel}").into());
    }
    let requests = after.data_requests + after.index_requests - before.data_requests - before.index_requests;
    let mut add = |figure: &str, unit: &'static str, count: u64| {
        let value = count as f64 / arguments.reads as f64;
        report.add(&format!("{figure}/{name}"), unit, Sample { value, cpu_us: None });
    };
    add("requests", "", requests);
    add("data-bytes", "B", data_bytes);
    add("bytes", "B", bytes);
    add("kernel-bytes", "B", kernel);
    report.add_rate(&format!("reads/{name}"), "/s", arguments.reads as f64, spent);
    fs::remove_dir_all(bench.close()?)?;
    println!("{name}: {per_partition:.0} bytes a partition");
    Ok(())
}
