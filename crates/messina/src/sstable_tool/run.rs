//! Finds the SSTables, and runs each tool on them, on one shard of a runtime of its own.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use model::types::CqlType;
use model::{Compression, TableSchema};
use reader::Fragment;
use runtime::{CpuGroup, IoClass, Runtime, RuntimeOptions, Shard};
use sstable::component::statistics::SerializationHeader;
use sstable::dump::{DumpOptions, JsonDump, JsonShape, LineDump, schema_of_header};
use sstable::name::Component;
use sstable::read::{ChunkCache, Depth, SSTable, SSTableError};
use sstable::tools::{
    self, CompressionChoice, Finding, Findings, RewritePlan, SSTablePath, SSTablePathError,
    compression_info_json, compression_info_text, index_json, index_text, metadata_json, metadata_text,
    summary_json, summary_text,
};
use sstable::version::Version;
use sstable::write::Written;

use super::arguments::{
    Codec, CompressionArguments, DumpArguments, ExportArguments, Format, OutputArguments, SSTableCommand,
    ScrubArguments, ShowArguments, SplitArguments, VerifyArguments, WrittenVersion,
};
use super::progress::Progress;
use super::{advise, listed, ls, query, tombstones};

const CACHE_BYTES: usize = 8 << 20;
pub const CLASS: IoClass = IoClass::Maintenance;
/// Fragments between two checks of the clock and of preemption.
pub const FRAGMENTS_A_CHECK: u64 = 1024;
const EXIT_FAILED: u8 = 1;
const EXIT_DAMAGED: u8 = 2;

/// Result of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Well,
    /// Damage was found, or data were left out.
    Damaged,
    /// Something could not be done, and was reported.
    Failed,
}

impl SSTableCommand {
    pub fn run(self) -> ExitCode {
        let ended =
            Runtime::start(RuntimeOptions::default(), |_| async {}).map_err(|error| error.to_string());
        let ended = ended.and_then(|runtime| {
            let call = move |shard: Shard| async move { Box::pin(run(&shard, self)).await };
            let ended = runtime.remote().call(0, CpuGroup::Statement, call).wait();
            drop(runtime.shutdown());
            ended.unwrap_or_else(|error| Err(error.to_string()))
        });
        match ended {
            Ok(End::Well) => ExitCode::SUCCESS,
            Ok(End::Damaged) => ExitCode::from(EXIT_DAMAGED),
            Ok(End::Failed) => ExitCode::from(EXIT_FAILED),
            Err(text) => {
                complain(&text);
                ExitCode::from(EXIT_FAILED)
            }
        }
    }
}

/// Prints a line on stderr.
pub fn complain(text: &str) {
    eprintln!("messina sstable: {text}");
}

async fn run(shard: &Shard, command: SSTableCommand) -> Result<End, String> {
    match command {
        SSTableCommand::Dump(arguments) => dump(shard, &arguments).await,
        SSTableCommand::Metadata(arguments) => metadata(shard, &arguments).await,
        SSTableCommand::Index(arguments) => index(shard, &arguments).await,
        SSTableCommand::CompressionInfo(arguments) => compression_info(shard, &arguments).await,
        SSTableCommand::Summary(arguments) => summary(shard, &arguments).await,
        SSTableCommand::Verify(arguments) => verify(shard, &arguments).await,
        SSTableCommand::Scrub(arguments) => scrub(shard, &arguments).await,
        SSTableCommand::Split(arguments) => split(shard, &arguments).await,
        SSTableCommand::Export(arguments) => export(shard, &arguments).await,
        SSTableCommand::Query(arguments) => query::run(shard, &arguments).await,
        SSTableCommand::Advise(arguments) => advise::run(shard, &arguments).await,
        SSTableCommand::Tombstones(arguments) => tombstones::run(shard, &arguments).await,
        SSTableCommand::Ls(arguments) => ls::run(shard, &arguments).await,
    }
}

/// Standard output of the tools. When its reader stops before the end (`| head`), the program ends.
pub struct Out(BufWriter<io::Stdout>);

impl Out {
    pub fn new() -> Self {
        Self(BufWriter::with_capacity(1 << 16, io::stdout()))
    }

    pub fn write(&mut self, text: &str) {
        Self::check(self.0.write_all(text.as_bytes()));
    }

    fn check(written: io::Result<()>) {
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => {
                complain(&format!("cannot write the output: {error}"));
                std::process::exit(i32::from(EXIT_FAILED));
            }
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        Self::check(self.0.flush());
    }
}

/// The SSTables of all paths, each once. Paths without an SSTable are reported and set `end`.
pub async fn places(shard: &Shard, paths: &[PathBuf], end: &mut End) -> Vec<SSTablePath> {
    let mut found = vec![];
    for path in paths {
        found.push(tools::find(shard.files(), path).await);
    }
    each_once(found, end)
}

/// Like [`places`], including SSTables that have lost their TOC.txt.
async fn damaged_places(shard: &Shard, paths: &[PathBuf], end: &mut End) -> Vec<SSTablePath> {
    let mut found = vec![];
    for path in paths {
        found.push(tools::find_damaged(shard.files(), path).await);
    }
    each_once(found, end)
}

fn each_once(found: Vec<Result<Vec<SSTablePath>, SSTablePathError>>, end: &mut End) -> Vec<SSTablePath> {
    let mut places: Vec<SSTablePath> = vec![];
    for found in found {
        match found {
            Ok(found) => {
                for place in found {
                    if !places.contains(&place) {
                        places.push(place);
                    }
                }
            }
            Err(error @ SSTablePathError::Unfinished { .. }) => {
                complain(&error.to_string());
                *end = End::Failed;
            }
            Err(error) => {
                complain(&error.to_string());
                *end = End::Failed;
            }
        }
    }
    places
}

/// Opens all files of an SSTable; `None` if it has vanished since it was listed, which is reported.
pub async fn open(shard: &Shard, place: &SSTablePath) -> Result<Option<Rc<SSTable>>, SSTableError> {
    let cache = ChunkCache::new(CACHE_BYTES);
    match SSTable::open(shard.files(), &place.dir, place.name, &cache, CLASS).await {
        Ok(table) => Ok(Some(table)),
        Err(error) => match shard.files().exists(&place.path(&Component::Toc)).await {
            Ok(false) => {
                complain(&format!("{place} was deleted meanwhile; it is left out"));
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// Opens one SSTable after the other and reports those that cannot be opened.
struct Tables<'a> {
    shard: &'a Shard,
    places: std::vec::IntoIter<SSTablePath>,
    end: End,
}

impl<'a> Tables<'a> {
    async fn of(shard: &'a Shard, paths: &[PathBuf]) -> Self {
        let mut end = End::Well;
        let places = places(shard, paths, &mut end).await.into_iter();
        Self { shard, places, end }
    }

    async fn next(&mut self) -> Option<Rc<SSTable>> {
        loop {
            let place = self.places.next()?;
            match open(self.shard, &place).await {
                Ok(Some(table)) => return Some(table),
                Ok(None) => {}
                Err(error) => self.failed(&Finding::from(&error).to_string()),
            }
        }
    }

    fn failed(&mut self, text: &str) {
        complain(text);
        self.end = End::Failed;
    }
}

pub fn schema_of(header: &SerializationHeader) -> Result<Arc<TableSchema>, String> {
    schema_of_header(header).map_err(|error| format!("its header describes no table: {error}"))
}

pub fn label(table: &SSTable) -> String {
    table.dir().join(table.name().to_string()).display().to_string()
}

async fn dump(shard: &Shard, arguments: &DumpArguments) -> Result<End, String> {
    let mut tables = Tables::of(shard, &arguments.files).await;
    let mut out = Out::new();
    while let Some(table) = tables.next().await {
        if let Err(error) = dump_one(shard, &table, arguments, &mut out).await {
            tables.failed(&format!("{}: {error}", label(&table)));
        }
    }
    Ok(tables.end)
}

/// Parses a key: values separated by colons, as dumps show them.
fn parse_key(schema: &TableSchema, text: &str) -> Result<model::PartitionKey, String> {
    let types: Vec<&CqlType> = schema.partition_key.iter().map(|column| &column.ty).collect();
    let parts: Vec<&str> = if types.len() == 1 { vec![text] } else { text.split(':').collect() };
    if parts.len() != types.len() {
        return Err(format!("key {text:?} has {} parts; the table's key has {}", parts.len(), types.len()));
    }
    let mut values = vec![];
    for (ty, part) in types.iter().zip(parts) {
        let bytes = ty
            .bytes_of(part)
            .or_else(|error| ty.bytes_of(&format!("'{}'", part.replace('\'', "''"))).map_err(|_| error));
        values.push(bytes.map_err(|error| format!("key {text:?}: {error}"))?);
    }
    Ok(model::PartitionKey::new(match &values[..] {
        [only] => only.clone(),
        values => model::key::composite_key(values.iter().map(Vec::as_slice)),
    }))
}

enum Dump {
    Json(JsonDump),
    Lines(LineDump),
}

async fn dump_one(
    shard: &Shard,
    table: &Rc<SSTable>,
    arguments: &DumpArguments,
    out: &mut Out,
) -> Result<(), String> {
    let schema = schema_of(&table.statistics().header)?;
    let now_s = u32::try_from(shard.wall_us() / 1_000_000).unwrap_or(0);
    let options = DumpOptions { raw_times: arguments.raw_times, now_s };
    let shape = if arguments.lines { JsonShape::Lines } else { JsonShape::Array };
    let parse = |texts: &[String]| {
        texts.iter().map(|text| parse_key(&schema, text)).collect::<Result<Vec<_>, String>>()
    };
    let (wanted, excluded) = (parse(&arguments.key)?, parse(&arguments.exclude)?);
    let mut dump = match arguments.internal {
        true => Dump::Lines(LineDump::new(schema.clone())),
        false => Dump::Json(JsonDump::shaped(schema.clone(), options, shape)),
    };
    let mut progress = Progress::new(label(table));
    let mut fragments = 0u64;
    if arguments.keys {
        let mut walk = table.walk_index(CLASS);
        let Dump::Json(json) = &mut dump else { unreachable!("-e and -d exclude each other") };
        while let Some(partition) = walk.next().await.map_err(|error| error.to_string())? {
            if (wanted.is_empty() || wanted.contains(&partition.key)) && !excluded.contains(&partition.key) {
                json.push_key(&partition.key);
            }
            fragments += 1;
            if fragments.is_multiple_of(FRAGMENTS_A_CHECK) {
                out.write(&json.take());
                let (done, total) = walk.progress();
                progress.at(done, total);
            }
        }
    } else {
        let mut scan = table.positioned_scan(&schema, CLASS).map_err(|error| error.to_string())?;
        let mut is_wanted = true;
        let mut left = wanted.len();
        while let Some((fragment, position)) = scan.next().await.map_err(|error| error.to_string())? {
            if let Fragment::PartitionStart { key, .. } = &fragment {
                is_wanted = (wanted.is_empty() || wanted.contains(key)) && !excluded.contains(key);
                if !is_wanted {
                    scan.skip_partition();
                }
            }
            if is_wanted {
                match &mut dump {
                    Dump::Json(json) => json.push_at(&fragment, Some(position)),
                    Dump::Lines(lines) => lines.push_at(&fragment, position),
                }
                if fragment == Fragment::PartitionEnd && !wanted.is_empty() {
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
            fragments += 1;
            if fragments.is_multiple_of(FRAGMENTS_A_CHECK) {
                match &mut dump {
                    Dump::Json(json) => out.write(&json.take()),
                    Dump::Lines(lines) => out.write(&lines.take()),
                }
                progress.at(position, table.uncompressed_bytes());
            }
        }
    }
    match dump {
        Dump::Json(json) => {
            out.write(&json.finish());
            if shape == JsonShape::Array {
                out.write("\n");
            }
        }
        Dump::Lines(mut lines) => out.write(&lines.take()),
    }
    Ok(())
}

async fn metadata(shard: &Shard, arguments: &ShowArguments) -> Result<End, String> {
    let mut tables = Tables::of(shard, &arguments.files).await;
    let now_s = u32::try_from(shard.wall_us() / 1_000_000).unwrap_or(0);
    let mut out = Out::new();
    while let Some(table) = tables.next().await {
        out.write(&match arguments.format {
            Format::Text => metadata_text(&table, now_s),
            Format::Json => metadata_json(&table, now_s),
        });
    }
    Ok(tables.end)
}

async fn index(shard: &Shard, arguments: &ShowArguments) -> Result<End, String> {
    let mut tables = Tables::of(shard, &arguments.files).await;
    let mut out = Out::new();
    while let Some(table) = tables.next().await {
        let schema = match schema_of(&table.statistics().header) {
            Ok(schema) => schema,
            Err(error) => {
                tables.failed(&format!("{}: {error}", label(&table)));
                continue;
            }
        };
        let printed = match arguments.format {
            Format::Text => {
                out.write(&format!("SSTable: {}\n", label(&table)));
                index_text(&table, &schema, CLASS, |text| out.write(text)).await
            }
            Format::Json => index_json(&table, &schema, CLASS, |text| out.write(text)).await,
        };
        if let Err(error) = printed {
            tables.failed(&Finding::from(&error).to_string());
        }
    }
    Ok(tables.end)
}

async fn summary(shard: &Shard, arguments: &ShowArguments) -> Result<End, String> {
    let mut tables = Tables::of(shard, &arguments.files).await;
    let mut out = Out::new();
    while let Some(table) = tables.next().await {
        for (component, why) in table.rebuilt() {
            complain(&format!("{}: {component} is rebuilt from Index.db: {why}", label(&table)));
        }
        match schema_of(&table.statistics().header) {
            Err(error) => tables.failed(&format!("{}: {error}", label(&table))),
            Ok(schema) => match arguments.format {
                Format::Text => {
                    out.write(&format!("SSTable: {}\n", label(&table)));
                    summary_text(&table, &schema, |text| out.write(text));
                }
                Format::Json => summary_json(&table, &schema, |text| out.write(text)),
            },
        }
    }
    Ok(tables.end)
}

async fn compression_info(shard: &Shard, arguments: &CompressionArguments) -> Result<End, String> {
    let mut tables = Tables::of(shard, &arguments.show.files).await;
    let mut out = Out::new();
    while let Some(table) = tables.next().await {
        let (file_bytes, chunks) = (table.data_bytes(), arguments.chunks);
        match (table.compression_info(), arguments.show.format) {
            (None, Format::Text) => out.write(&format!("SSTable: {}\nCompressor: -\n", label(&table))),
            (None, Format::Json) => out.write("null\n"),
            (Some(info), Format::Text) => {
                out.write(&format!("SSTable: {}\n", label(&table)));
                compression_info_text(info, table.dictionary_bytes(), file_bytes, chunks, |text| {
                    out.write(text)
                });
            }
            (Some(info), Format::Json) => {
                compression_info_json(info, table.dictionary_bytes(), file_bytes, chunks, |text| {
                    out.write(text)
                });
            }
        }
    }
    Ok(tables.end)
}

async fn verify(shard: &Shard, arguments: &VerifyArguments) -> Result<End, String> {
    let mut end = End::Well;
    let places = places(shard, &arguments.files, &mut end).await;
    let depth = if arguments.extended { Depth::Rows } else { Depth::Components };
    let mut out = Out::new();
    for place in places {
        let mut progress = Progress::new(place.to_string());
        let mut findings = Findings::new(
            |finding: &Finding| out.write(&format!("{finding}\n")),
            |done, total| progress.at(done, total),
        );
        let mut report = None;
        match open(shard, &place).await {
            Ok(None) => continue,
            Err(error) => findings.push(&Finding::from(&error)),
            Ok(Some(table)) => {
                for (component, why) in table.rebuilt() {
                    let file = place.path(component);
                    let detail = format!("it is rebuilt from Index.db when the SSTable is opened: {why}");
                    findings.push(&Finding { file, offset_bytes: None, detail });
                }
                match listed::contradictions(shard.files(), &place, table.components()).await {
                    Ok(found) => found.iter().for_each(|finding| findings.push(finding)),
                    Err(error) => return Err(error.to_string()),
                }
                match Box::pin(table.verify(depth, CLASS, &mut findings)).await {
                    Ok(checked) => report = Some(checked),
                    Err(error) => findings.push(&Finding::from(&error)),
                }
            }
        }
        let count = findings.count;
        drop(progress);
        out.write(&match (count, report) {
            (0, Some(report)) => {
                let rows = match depth {
                    Depth::Rows => format!(", {} rows", report.rows + report.static_rows),
                    Depth::Components => String::new(),
                };
                format!("{place}: sound, {} partitions{rows}\n", report.partitions)
            }
            (1, _) => format!("{place}: 1 finding\n"),
            (count, _) => format!("{place}: {count} findings\n"),
        });
        if count > 0 {
            end = end.max(End::Damaged);
        }
    }
    Ok(end)
}

/// The output directory of tools that write. It is made if needed, and must not be a directory that is read.
async fn output_dir(
    shard: &Shard,
    arguments: &OutputArguments,
    are_damaged: bool,
) -> Result<(PathBuf, Vec<SSTablePath>, End), String> {
    let mut end = End::Well;
    let places = match are_damaged {
        true => damaged_places(shard, &arguments.files, &mut end).await,
        false => places(shard, &arguments.files, &mut end).await,
    };
    let output = &arguments.output;
    std::fs::create_dir_all(output).map_err(|error| format!("{}: {error}", output.display()))?;
    let real =
        |path: &Path| std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()));
    let there = real(output)?;
    for place in &places {
        if real(&place.dir)? == there {
            return Err(format!(
                "{} contains the SSTables that are read; name another directory with --output",
                output.display()
            ));
        }
    }
    Ok((there, places, end))
}

fn print_written(out: &mut Out, written: &Written, dir: &Path) {
    out.write(&format!(
        "{}: {} partitions, {} rows, {} bytes\n",
        dir.join(written.name.to_string()).display(),
        written.partitions,
        written.rows,
        written.total_bytes
    ));
}

async fn split(shard: &Shard, arguments: &SplitArguments) -> Result<End, String> {
    let plan = |source: Version| RewritePlan {
        version: written_version(source),
        compression: CompressionChoice::AsSource,
        split_bytes: Some(arguments.size << 20),
        origin: "split",
    };
    rewrite(shard, &arguments.output, plan).await
}

/// The version to write: nb for sources of version na and later, otherwise me.
fn written_version(source: Version) -> Version {
    if source >= Version::Na { Version::Nb } else { Version::Me }
}

async fn export(shard: &Shard, arguments: &ExportArguments) -> Result<End, String> {
    let chunk_bytes = arguments.chunk_kb.checked_mul(1024).filter(|bytes| bytes.is_power_of_two());
    let chunk_bytes = chunk_bytes.filter(|bytes| *bytes <= 256 << 10);
    let chunk_bytes = chunk_bytes.ok_or("--chunk-kb is a power of two up to 256")?;
    let codec = |codec| CompressionChoice::Use(Some(Compression::new(codec, chunk_bytes)));
    let compression = match arguments.compression {
        None => CompressionChoice::AsSource,
        Some(Codec::None) => CompressionChoice::Use(None),
        Some(Codec::Lz4) => codec(model::Codec::Lz4),
        Some(Codec::Snappy) => codec(model::Codec::Snappy),
        Some(Codec::Deflate) => codec(model::Codec::Deflate),
        Some(Codec::Zstd) => codec(model::Codec::Zstd { level: arguments.level }),
    };
    let version = match arguments.format {
        WrittenVersion::Me => Version::Me,
        WrittenVersion::Nb => Version::Nb,
    };
    let plan = |_: Version| RewritePlan {
        version,
        compression: compression.clone(),
        split_bytes: None,
        origin: "export",
    };
    rewrite(shard, &arguments.output, plan).await
}

async fn rewrite(
    shard: &Shard,
    arguments: &OutputArguments,
    plan: impl Fn(Version) -> RewritePlan,
) -> Result<End, String> {
    let (dir, places, mut end) = output_dir(shard, arguments, false).await?;
    let mut out = Out::new();
    for place in places {
        let table = match open(shard, &place).await {
            Ok(Some(table)) => table,
            Ok(None) => continue,
            Err(error) => {
                complain(&Finding::from(&error).to_string());
                end = End::Failed;
                continue;
            }
        };
        let mut progress = Progress::new(place.to_string());
        let plan = plan(place.name.version);
        let done =
            Box::pin(tools::rewrite(shard, &table, &dir, &plan, |done, total| progress.at(done, total)));
        let done = done.await;
        drop(progress);
        match done {
            Ok((written, note)) => {
                if let Some(note) = note {
                    complain(&format!("{place}: {note}"));
                }
                written.iter().for_each(|written| print_written(&mut out, written, &dir));
            }
            Err(error) => {
                complain(&format!("{place}: {error} (`messina sstable scrub` keeps the readable data)"));
                end = End::Failed;
            }
        }
    }
    Ok(end)
}

async fn scrub(shard: &Shard, arguments: &ScrubArguments) -> Result<End, String> {
    let (dir, places, mut end) = output_dir(shard, &arguments.output, true).await?;
    let mut out = Out::new();
    for place in places {
        let cache = ChunkCache::new(CACHE_BYTES);
        let table = match SSTable::open_damaged(shard.files(), &place.dir, place.name, &cache, CLASS).await {
            Ok(table) => table,
            Err(error) => {
                complain(&Finding::from(&error).to_string());
                end = End::Failed;
                continue;
            }
        };
        for (component, why) in table.rebuilt() {
            complain(&format!("{place}: done without {component}: {why}"));
        }
        let plan = RewritePlan {
            version: written_version(place.name.version),
            compression: CompressionChoice::AsSource,
            split_bytes: None,
            origin: "scrub",
        };
        let mut progress = Progress::new(place.to_string());
        let progress_at = |done, total| progress.at(done, total);
        let done = Box::pin(tools::scrub(shard, &table, &dir, &plan, !arguments.no_validate, progress_at));
        let done = done.await;
        drop(progress);
        let report = match done {
            Ok(report) => report,
            Err(error) => {
                complain(&format!("{place}: {error}"));
                end = End::Failed;
                continue;
            }
        };
        if let Some(note) = &report.note {
            complain(&format!("{place}: {note}"));
        }
        report.losses.errors.iter().for_each(|error| out.write(&format!("{}\n", Finding::from(error))));
        report.written.iter().for_each(|written| print_written(&mut out, written, &dir));
        let losses = &report.losses;
        out.write(&format!(
            "{place}: kept {} partitions and {} rows ({} partitions out of order); lost {} partitions, {} rows and the unknown \
             content of {} gaps of {} damaged partitions\n",
            report.partitions,
            report.rows,
            report.out_of_order,
            losses.partitions,
            losses.rows,
            losses.gaps,
            losses.damaged_partitions
        ));
        if !report.is_complete() {
            end = end.max(End::Damaged);
        }
    }
    Ok(end)
}
