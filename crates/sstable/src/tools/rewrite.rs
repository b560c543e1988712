//! Rewrites an SSTable: as a whole, for another version or compression, or in pieces of a given size.
//!
//! The output has the same content as the source, including all timestamps, and the same level, repair time
//! and host. Everything is decoded and encoded again and no bytes are copied, so invalid content cannot be
//! passed on.

use std::fmt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use model::{Codec, Compression, TableSchema};
use reader::{Fragment, ReadError};
use runtime::{FileError, Files, IoClass, Shard};

use crate::component::compression_info::CompressionInfo;
use crate::dump::{HeaderError, schema_of_header};
use crate::name::{Generation, SSTableName};
use crate::read::SSTable;
use crate::version::Version;
use crate::write::{SSTableWriter, Spacing, WriteError, WriteOptions, Written};

/// Default level of Cassandra's zstd compressor.
const ZSTD_LEVEL_DEFAULT: i32 = 3;
const LZ4_HIGH_LEVEL_DEFAULT: i32 = 9;

/// Number of fragments between two checks whether the task should yield.
const FRAGMENTS_A_CHECK: u64 = 16;

/// Compression of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressionChoice {
    /// The source's compression, without its dictionary.
    AsSource,
    Use(Option<Compression>),
}

/// What to write.
#[derive(Clone, Debug)]
pub struct RewritePlan {
    /// Version of the output.
    pub version: Version,
    pub compression: CompressionChoice,
    /// Ends an SSTable after the partition with which Data.db reaches about this number of bytes.
    pub split_bytes: Option<u64>,
    /// The kind of job that writes, for Messina.db.
    pub origin: &'static str,
}

/// Rewriting an SSTable failed. Pieces that are finished remain.
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

/// The first generation number after those of all SSTables in `dir`, sealed or not.
pub async fn next_generation(files: &Files, dir: &Path) -> Result<u64, FileError> {
    let mut last = 0;
    for entry in files.read_dir(dir).await? {
        if let Ok((SSTableName { generation: Generation::Number(number), .. }, _)) =
            SSTableName::parse_file_name(&entry.name)
        {
            last = last.max(number);
        }
    }
    Ok(last + 1)
}

/// The compression of a source, and a note about its part that cannot be kept.
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
    let note = || format!("{name} has a compression dictionary; the written SSTable has none");
    (compression, has_dictionary.then(note))
}

/// Write options for the content of `table`, and a note about differences from `table`.
pub(super) fn write_options(
    sstable: &SSTable,
    schema: &TableSchema,
    plan: &RewritePlan,
    class: IoClass,
) -> (WriteOptions, Option<String>) {
    let (compression, note) = match (&plan.compression, sstable.compression_info()) {
        (CompressionChoice::Use(compression), info) => {
            (compression.clone(), info.and_then(|info| compression_of(info).1))
        }
        (CompressionChoice::AsSource, Some(info)) => {
            let (compression, note) = compression_of(info);
            (Some(compression), note)
        }
        (CompressionChoice::AsSource, None) => (None, None),
    };
    let (statistics, stats) = (sstable.statistics(), sstable.stats());
    let defaults = WriteOptions::for_table(schema, plan.origin, class);
    let options = WriteOptions {
        compression,
        bloom_filter_fp_chance: match statistics.validation.bloom_filter_fp_chance {
            chance if chance > 0.0 && chance.is_finite() => {
                chance.max(crate::component::filter::FP_CHANCE_MIN)
            }
            _ => 1.0,
        },
        summary: match sstable.summary() {
            Some(summary) => {
                let min_index_interval = summary.min_index_interval().max(1);
                Spacing { min_index_interval, ..defaults.summary }
            }
            None => defaults.summary,
        },
        expected_partitions: sstable.partition_count(),
        delta_bases: statistics.header.bases,
        host_id: stats.originating_host_id,
        run_id: sstable.messina().and_then(|messina| messina.run_id),
        level: stats.sstable_level,
        repaired_at_ms: stats.repaired_at_ms,
        ..defaults
    };
    (options, note)
}

/// Rewrites `table` into `dir`, with generation numbers from the first free one on. Returns the written
/// SSTables, and a note about differences from the source. `progress` gets the number of uncompressed bytes
/// that were read, and of all.
///
/// # Errors
/// The source cannot be read to its end (`scrub` keeps its readable part), or `dir` cannot be written.
pub async fn rewrite(
    shard: &Shard,
    sstable: &Rc<SSTable>,
    dir: &Path,
    plan: &RewritePlan,
    mut progress: impl FnMut(u64, u64),
) -> Result<(Vec<Written>, Option<String>), RewriteError> {
    let class = IoClass::Maintenance;
    let schema: Arc<TableSchema> = schema_of_header(&sstable.statistics().header)?;
    let (options, note) = write_options(sstable, &schema, plan, class);
    let mut scan = sstable.positioned_scan(&schema, class)?;
    let mut number = next_generation(shard.files(), dir).await?;
    let mut written = vec![];
    let mut writer: Option<SSTableWriter> = None;
    let ratio = sstable.data_bytes() as f64 / sstable.uncompressed_bytes().max(1) as f64;
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
                let name = SSTableName::big(plan.version, Generation::Number(number));
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
            progress(position, sstable.uncompressed_bytes());
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
    progress(sstable.uncompressed_bytes(), sstable.uncompressed_bytes());
    Ok((written, note))
}

/// Pushes a fragment, and writes full buffers.
pub(super) async fn push(writer: &mut SSTableWriter, fragment: Fragment) -> Result<(), WriteError> {
    writer.push(fragment)?;
    if writer.wants_write() {
        writer.write_out().await?;
    }
    Ok(())
}
