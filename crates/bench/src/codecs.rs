//! `messina-bench codecs`: measures the cost and the savings of each codec at each chunk length, on real
//! text.
//!
//! The method is that of "Compression in ScyllaDB" (2019), part 2. The table is `(a int, b int, c text,
//! PRIMARY KEY (a, b))` with about 10 MB of text in 10 partitions. It is flushed ten times, then, after a
//! restart, completely read ten times bypassing the cache. Differences:
//! - One shard runs on one core, so that a rate is that of a core.
//! - The text is a file given by the user; `bench/codecs.sh` uses Debian's package descriptions.
//! - The codec alone is measured in the same run, on the same text in the same chunks. This is the limit of a
//!   core.
//!
//! MB are 10^6 bytes of Data.db before compression. A stall is a poll that takes 1 ms or more.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use engine::EngineOptions;
use messina::plot::{Bar, Bars};
use model::{
    Cell as ColumnCell, ClusteringPrefix, Codec, ColumnData, Compression, CqlType, Liveness, Mutation,
    PartitionKey, TableSchema,
};
use runtime::BackendChoice;
use sstable::codec::{Compressor, Decompressor, Method, class_and_options};

use super::BenchError;
use super::engine::Scratch;
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample};
use super::stopwatch::{Spent, Stopwatch};
use super::world::{self, World};

const CHUNK_KIB: [u32; 3] = [4, 16, 64];
const PARTITIONS: usize = 10;
const ROW_BYTES: usize = 1000;
const ZSTD_LEVELS: [i32; 5] = [1, 3, 5, 7, 9];

#[derive(Args, Clone, Debug)]
pub struct CodecsArguments {
    /// File with the text.
    #[arg(long)]
    pub text: PathBuf,
    /// Number of megabytes of the text to use.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub megabytes: u32,
    /// Number of flushes and of reads per setting.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Run only settings whose name begins with this text: `none`, `LZ4`, `"Zstd 3 16 KiB"`.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/codecs.ndjson")]
    pub results: PathBuf,
    /// Directory of the four plots.
    #[arg(long, default_value = "bench/results/codecs")]
    pub plots: PathBuf,
}

/// A compression setting.
struct Setting {
    name: String,
    compression: Option<Compression>,
}

fn codecs() -> Vec<(String, Codec)> {
    let plain = [("LZ4", Codec::Lz4), ("Snappy", Codec::Snappy), ("Deflate", Codec::Deflate)];
    let plain = plain.into_iter().map(|(name, codec)| (name.to_string(), codec));
    plain.chain(ZSTD_LEVELS.map(|level| (format!("Zstd {level}"), Codec::Zstd { level }))).collect()
}

fn settings() -> Vec<Setting> {
    let mut settings = vec![Setting { name: "none".to_string(), compression: None }];
    for (name, codec) in codecs() {
        for kib in CHUNK_KIB {
            let compression = Some(Compression::new(codec, kib << 10));
            settings.push(Setting { name: format!("{name} {kib} KiB"), compression });
        }
    }
    settings
}

/// Runs the benchmark, prints the results and draws the plots.
pub fn run(arguments: &CodecsArguments) -> Result<(), BenchError> {
    let path = &arguments.text;
    let mut text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let wanted = arguments.megabytes as usize * 1_000_000;
    if text.len() < wanted {
        return Err(format!("{} has {} bytes, {wanted} are wanted", path.display(), text.len()).into());
    }
    text.truncate(wanted);
    let text = Arc::new(text);
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    let dir = Scratch::make(&arguments.dir)?;
    println!("{} MB of {}, {} times, on core {core}", arguments.megabytes, path.display(), arguments.repeats);
    let mut report = Report::default();
    for setting in settings().into_iter().filter(|setting| setting.name.starts_with(&arguments.only)) {
        measure_codec_alone(&mut report, &setting, &text);
        measure(&mut report, &setting, &text, arguments.repeats, &dir.0)?;
        eprintln!("{}", setting.name);
    }
    println!("\n{}", report.table());
    draw(&report, &arguments.plots)?;
    println!("drawn into {}", arguments.plots.display());
    if arguments.results.as_os_str() != "none" {
        let settings = [
            ("megabytes", arguments.megabytes.into()),
            ("text", path.file_name().unwrap_or_default().to_string_lossy().into()),
            ("core", core.into()),
            ("profile", PROFILE.into()),
        ];
        let lines = report.lines("codecs", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

/// Measures only compression and only decompression of the text, divided into the chunks of the SSTable.
fn measure_codec_alone(report: &mut Report, setting: &Setting, text: &[u8]) {
    let Some(compression) = &setting.compression else { return };
    let chunk_bytes = compression.chunk_bytes as usize;
    let megabytes = text.len() as f64 / 1e6;
    let mut compressor = Compressor::new(compression.codec, None);
    let bound = compressor.bound(chunk_bytes);
    let mut stored: Vec<Vec<u8>> = vec![];
    let mut out = vec![0; bound];
    // The first round warms up, and its output is kept for decompression.
    for chunk in text.chunks(chunk_bytes) {
        let bytes = compressor.compress(chunk, &mut out);
        stored.push(out[..bytes].to_vec());
    }
    let watch = Stopwatch::start();
    for chunk in text.chunks(chunk_bytes) {
        std::hint::black_box(compressor.compress(chunk, &mut out));
    }
    report.add_rate(&format!("compress-only/{}", setting.name), "MB/s", megabytes, watch.spent());
    let (class, _) = class_and_options(compression.codec, false);
    let (method, _) = Method::named(class).expect("what is written is read");
    let decompressor = Decompressor::new(method);
    let mut chunk = vec![0; chunk_bytes];
    for measured in [false, true] {
        let watch = Stopwatch::start();
        for (payload, original) in stored.iter().zip(text.chunks(chunk_bytes)) {
            let room = &mut chunk[..original.len()];
            decompressor.decompress(payload, room).expect("compressed above");
            std::hint::black_box(room);
        }
        if measured {
            let name = format!("decompress-only/{}", setting.name);
            report.add_rate(&name, "MB/s", megabytes, watch.spent());
        }
    }
}

fn measure(
    report: &mut Report,
    setting: &Setting,
    text: &Arc<Vec<u8>>,
    repeats: u32,
    dir: &Path,
) -> Result<(), BenchError> {
    let dir = dir.join("world");
    let name = &setting.name;
    let open = || {
        let mut options = EngineOptions::new(&dir);
        options.memory_bytes = (text.len() as u64 * 16).max(512 << 20);
        options.commitlog_total_bytes = options.commitlog_total_bytes.max(options.memory_bytes);
        let mut table = TableSchema::builder("bench", "text")
            .partition_key("a", CqlType::Int)
            .clustering("b", CqlType::Int)
            .regular("c", CqlType::Text)
            .build()
            .expect("two keys and a column");
        Arc::get_mut(&mut table).expect("nobody else has it").options.compression =
            setting.compression.clone();
        World::open(options, BackendChoice::Auto, &table, &world::uncompacted())
    };
    let bench = open()?;
    let mut megabytes = 0.0;
    for number in 0..repeats {
        write(&bench, text)?;
        let before = bench.flushed()?;
        let stalls_before = bench.stalls()?;
        let watch = Stopwatch::start();
        bench.engine.flush(vec![bench.table.id])?;
        let spent = watch.spent();
        let after = bench.flushed()?;
        if after.flushes - before.flushes != 1 {
            return Err("the text was not flushed in one go: too little memory".into());
        }
        megabytes = (after.uncompressed_bytes - before.uncompressed_bytes) as f64 / 1e6;
        report.add_rate(&format!("flush/{name}"), "MB/s", megabytes, spent);
        let stalls = bench.stalls()? - stalls_before;
        report.add(&format!("stalls/{name}"), "", Sample { value: stalls as f64, cpu_us: None });
        if number == 0 {
            let data_mb = (after.data_bytes - before.data_bytes) as f64 / 1e6;
            report.add(&format!("space/{name}"), "MB", Sample { value: data_mb, cpu_us: None });
        }
        if number + 1 < repeats {
            bench.engine.truncate(bench.table.id)?;
        }
    }
    bench.close()?;
    let bench = open()?;
    let rows = text.chunks(ROW_BYTES).count() as u64;
    for _ in 0..repeats {
        let (found, spent) = bench.scan()?;
        if found != rows {
            return Err(format!("{name}: {found} of {rows} rows were read").into());
        }
        report.add_rate(&format!("read/{name}"), "MB/s", megabytes, spent);
    }
    for _ in 0..repeats {
        let (_, spent) = bench.merge()?;
        report.add_rate(&format!("scan/{name}"), "MB/s", megabytes, spent);
    }
    if setting.compression.is_some() {
        report.bound(&format!("flush/{name}"), &[&format!("compress-only/{name}")]);
        report.bound(&format!("scan/{name}"), &[&format!("decompress-only/{name}")]);
        report.bound(&format!("read/{name}"), &[&format!("decompress-only/{name}")]);
    }
    fs::remove_dir_all(bench.close()?)?;
    Ok(())
}

/// Writes the text as rows of [`ROW_BYTES`], spread over the partitions.
fn write(bench: &World, text: &Arc<Vec<u8>>) -> Result<Spent, BenchError> {
    let (table, text) = (bench.table.clone(), text.clone());
    let value = table.column_named("c").expect("made above").id;
    let rows = text.chunks(ROW_BYTES).count();
    let in_partition = rows.div_ceil(PARTITIONS);
    bench.on_shard(16, rows as u64, move |engine, number| {
        let number = number as usize;
        let key = ((number / in_partition) as i32).to_be_bytes();
        let mut mutation = Mutation::new(table.clone(), PartitionKey::new(&key[..]));
        let clustering = (number % in_partition) as i32;
        let row = mutation.row_mut(ClusteringPrefix::new([&clustering.to_be_bytes()[..]]));
        let timestamp_us = 1_700_000_000_000_000 + number as i64;
        row.liveness = Liveness::new(timestamp_us);
        let piece = &text[number * ROW_BYTES..text.len().min((number + 1) * ROW_BYTES)];
        row.push(value, ColumnData::Simple(ColumnCell::live(timestamp_us, piece)));
        async move { engine.apply(mutation).await }
    })
}

/// Draws the four plots of the publication: space, flush, read, stalls.
fn draw(report: &Report, dir: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(dir)?;
    let plots = [
        ("space", "MB on disk", "Space"),
        ("flush", "MB/s, mean and standard deviation", "Flush"),
        ("read", "MB/s, mean and standard deviation", "Reading everything"),
        ("stalls", "polls of 1 ms or more in a flush", "Stalls"),
    ];
    for (figure, y, title) in plots {
        let bar = |name: String| {
            let figure = report.get(&format!("{figure}/{name}"))?;
            Some(Bar::of(&figure.samples.iter().map(|sample| sample.value).collect::<Vec<_>>()))
        };
        let none = CHUNK_KIB.map(|_| bar("none".to_string())).to_vec();
        let mut series = vec![("none".to_string(), none)];
        for (name, _) in codecs() {
            let bars = CHUNK_KIB.map(|kib| bar(format!("{name} {kib} KiB"))).to_vec();
            series.push((name, bars));
        }
        let plot = Bars {
            title: format!("{title}, by codec and chunk length"),
            y: y.to_string(),
            groups: CHUNK_KIB.map(|kib| format!("{kib} KiB")).to_vec(),
            series,
        };
        fs::write(dir.join(format!("{figure}.svg")), plot.svg())?;
    }
    Ok(())
}
