//! An SSTable written anew: whole, for another version or compression, or in pieces of a size.
//!
//! What is written has the source's content to the last timestamp; its level, repair time and host stay. Nothing
//! is copied byte by byte, so a file that says something it should not cannot be passed on.

use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use model::{Codec, Compression, TableSchema};
use reader::{Fragment, ReadError};
use runtime::{FileError, Files, IoClass, Shard};

use crate::component::compression_info::CompressionInfo;
use crate::dump::{HeaderError, schema_of_header};
use crate::name::{Generation, SstableName};
use crate::read::SSTable;
use crate::version::Version;
use crate::write::{SSTableWriter, WriteError, WriteOptions, Written};

/// What Cassandra's compressors do unless told otherwise.
const ZSTD_LEVEL_DEFAULT: i32 = 3;
const LZ4_HIGH_LEVEL_DEFAULT: i32 = 9;

/// Fragments between two looks at whether the turn is over.
const FRAGMENTS_A_CHECK: u64 = 16;

/// How what is written is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressionChoice {
    /// As the source, without its dictionary if it has one.
    AsSource,
    Use(Option<Compression>),
}

/// What is to become of an SSTable.
#[derive(Clone, Debug)]
pub struct RewritePlan {
    pub version: Version,
    pub compression: CompressionChoice,
    /// A new SSTable is begun with the next partition once Data.db has about so many bytes.
    pub split_bytes: Option<u64>,
    /// What made it, as Messina.db says.
    pub origin: &'static str,
}

/// Why an SSTable could not be written anew. Those of its pieces that are finished stay.
#[derive(Debug)]
pub enum RewriteError {
    Header(HeaderError),
    Read(ReadError),
    Write(WriteError),
    File(FileError),
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "its header describes no table: {error}"),
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RewriteError {}

impl From<HeaderError> for RewriteError {
    fn from(error: HeaderError) -> Self {
        Self::Header(error)
    }
}

impl From<ReadError> for RewriteError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<WriteError> for RewriteError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<FileError> for RewriteError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The first number that no SSTable in `dir` has, sealed or not.
pub async fn next_generation(files: &Files, dir: &Path) -> Result<u64, FileError> {
    let mut last = 0;
    for entry in files.read_dir(dir).await? {
        if let Ok((SstableName { generation: Generation::Number(number), .. }, _)) =
            SstableName::parse_file_name(&entry.name)
        {
            last = last.max(number);
        }
    }
    Ok(last + 1)
}

/// The compression of a source, and what cannot be kept of it.
fn compression_of(info: &CompressionInfo) -> (Compression, Option<String>) {
    let option = |wanted: &str| {
        let value = info.options.iter().find(|(name, _)| name == wanted)?;
        std::str::from_utf8(&value.1).ok().map(str::trim)
    };
    let level = |name: &str| option(name)?.parse::<i32>().ok();
    let name = info.compressor.rsplit('.').next().unwrap_or_default();
    let is_high = option("lz4_compressor_type").is_some_and(|kind| kind.eq_ignore_ascii_case("high"));
    let codec = match name {
        "SnappyCompressor" => Codec::Snappy,
        "DeflateCompressor" => Codec::Deflate,
        "ZstdCompressor" | "ZstdWithDictsCompressor" => {
            Codec::Zstd { level: level("compression_level").unwrap_or(ZSTD_LEVEL_DEFAULT) }
        }
        "NoopCompressor" => Codec::Noop,
        _ if is_high => {
            Codec::Lz4High { level: level("lz4_high_compressor_level").unwrap_or(LZ4_HIGH_LEVEL_DEFAULT) }
        }
        _ => Codec::Lz4,
    };
    let compression = Compression {
        max_compressed_bytes: info.max_compressed_bytes,
        ..Compression::new(codec, info.chunk_bytes)
    };
    let has_dictionary = name.contains("WithDicts");
    let note = || format!("{name} has a compression dictionary; what is written has none");
    (compression, has_dictionary.then(note))
}

/// Options for a writer of what `table` contains, and what is not as in `table`.
pub(super) fn write_options(
    table: &SSTable,
    schema: &TableSchema,
    plan: &RewritePlan,
    class: IoClass,
) -> (WriteOptions, Option<String>) {
    let (compression, note) = match (&plan.compression, table.compression_info()) {
        (CompressionChoice::Use(compression), info) => {
            (compression.clone(), info.and_then(|info| compression_of(info).1))
        }
        (CompressionChoice::AsSource, Some(info)) => {
            let (compression, note) = compression_of(info);
            (Some(compression), note)
        }
        (CompressionChoice::AsSource, None) => (None, None),
    };
    let (statistics, stats) = (table.statistics(), table.stats());
    let defaults = WriteOptions::for_table(schema, plan.origin, class);
    let options = WriteOptions {
        compression,
        bloom_filter_fp_chance: match statistics.validation.bloom_filter_fp_chance {
            chance if chance > 0.0 && chance.is_finite() => {
                chance.max(crate::component::filter::FP_CHANCE_MIN)
            }
            _ => 1.0,
        },
        min_index_interval: match table.summary() {
            Some(summary) => summary.min_index_interval().max(1),
            None => defaults.min_index_interval,
        },
        expected_partitions: table.partition_count(),
        delta_bases: statistics.header.bases,
        host_id: stats.originating_host_id,
        run_id: table.messina().and_then(|messina| messina.run_id),
        level: stats.sstable_level,
        repaired_at_ms: stats.repaired_at_ms,
        ..defaults
    };
    (options, note)
}

/// Writes `table` anew into `dir`, with numbers from the first free one on. Gives what was written, and what is not
/// as in the source. `progress` gets the bytes before compression that have been read, and all.
///
/// # Errors
/// The source cannot be read to its end (`scrub` takes what it can), or `dir` not be written.
pub async fn rewrite(
    shard: &Shard,
    table: &Rc<SSTable>,
    dir: &Path,
    plan: &RewritePlan,
    mut progress: impl FnMut(u64, u64),
) -> Result<(Vec<Written>, Option<String>), RewriteError> {
    let class = IoClass::Maintenance;
    let schema: Arc<TableSchema> = schema_of_header(&table.statistics().header)?;
    let (options, note) = write_options(table, &schema, plan, class);
    let mut scan = table.positioned_scan(&schema, class)?;
    let mut number = next_generation(shard.files(), dir).await?;
    let mut written = vec![];
    let mut writer: Option<SSTableWriter> = None;
    let ratio = table.data_bytes() as f64 / table.uncompressed_bytes().max(1) as f64;
    let mut fragments = 0u64;
    let result = loop {
        let (fragment, position) = match scan.next().await {
            Ok(Some(next)) => next,
            Ok(None) => break Ok(()),
            Err(error) => break Err(RewriteError::Read(error)),
        };
        let open = match writer.take() {
            Some(open) => open,
            None => {
                let name = SstableName::big(plan.version, Generation::Number(number));
                number += 1;
                let create = SSTableWriter::create(shard.files(), dir, name, schema.clone(), options.clone());
                create.await?
            }
        };
        let open = writer.insert(open);
        let is_end = fragment == Fragment::PartitionEnd;
        if let Err(error) = push(open, fragment).await {
            break Err(error.into());
        }
        fragments += 1;
        if fragments.is_multiple_of(FRAGMENTS_A_CHECK) && shard.need_preempt() {
            progress(position, table.uncompressed_bytes());
            shard.yield_now().await;
        }
        let stored = (open.uncompressed_bytes() as f64 * ratio) as u64;
        if is_end && plan.split_bytes.is_some_and(|most| stored >= most) {
            let full = writer.take().expect("it is open");
            written.extend(full.finish().await?);
        }
    };
    match (result, writer) {
        (Ok(()), Some(writer)) => written.extend(writer.finish().await?),
        (Ok(()), None) => {}
        (Err(error), Some(writer)) => {
            writer.abort().await?;
            return Err(error);
        }
        (Err(error), None) => return Err(error),
    }
    progress(table.uncompressed_bytes(), table.uncompressed_bytes());
    Ok((written, note))
}

/// Takes a fragment, and writes out what has gathered.
pub(super) async fn push(writer: &mut SSTableWriter, fragment: Fragment) -> Result<(), WriteError> {
    writer.push(fragment)?;
    if writer.wants_write() {
        writer.write_out().await?;
    }
    Ok(())
}
