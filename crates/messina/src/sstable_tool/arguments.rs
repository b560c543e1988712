//! The subcommands of `messina sstable` and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use shell::Format as RowsFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Shows, checks, repairs and converts SSTables, without a server.
///
/// FILES are Data.db files, any other component of an SSTable, or directories, which stand for all SSTables
/// in them. Nothing is ever changed in place.
#[derive(Subcommand, Debug)]
pub enum SSTableCommand {
    /// Prints the content as JSON, as Cassandra's sstabledump does.
    Dump(DumpArguments),
    /// Prints Statistics.db, as Cassandra's sstablemetadata does.
    Metadata(ShowArguments),
    /// Prints the entries of Index.db and the blocks of large partitions.
    Index(ShowArguments),
    /// Prints CompressionInfo.db.
    CompressionInfo(CompressionArguments),
    /// Prints Summary.db.
    Summary(ShowArguments),
    /// Checks SSTables and reports all damage.
    Verify(VerifyArguments),
    /// Writes the readable content of damaged SSTables into another directory.
    Scrub(ScrubArguments),
    /// Rewrites SSTables as several smaller ones of a given size.
    Split(SplitArguments),
    /// Runs a SELECT on SSTables.
    Query(QueryArguments),
    /// Rewrites SSTables in another version or compression.
    Export(ExportArguments),
    /// Tries each codec and chunk length on samples of a table's data, and advises one.
    Advise(AdviseArguments),
    /// Counts tombstones: how many, how old, in which partitions, and which of them other SSTables keep.
    Tombstones(TombstonesArguments),
    /// Lists the SSTables of a directory and all directories below it, by table.
    Ls(LsArguments),
}

#[derive(Args, Debug)]
pub struct DumpArguments {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Only this partition, by its key as the dump shows it (values separated by colons).
    #[arg(short, long = "key", value_name = "KEY")]
    pub key: Vec<String>,
    /// All partitions but this one.
    #[arg(short = 'x', long = "exclude", value_name = "KEY")]
    pub exclude: Vec<String>,
    /// A line for each row, in Cassandra's internal notation of rows.
    #[arg(short = 'd', long, conflicts_with_all = ["lines", "keys"])]
    pub internal: bool,
    /// A JSON object in one line for each partition.
    #[arg(short = 'l', long)]
    pub lines: bool,
    /// Only the partition keys.
    #[arg(short = 'e', long)]
    pub keys: bool,
    /// Times as numbers.
    #[arg(short = 't', long)]
    pub raw_times: bool,
}

#[derive(Args, Debug)]
pub struct ShowArguments {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct TombstonesArguments {
    #[command(flatten)]
    pub show: ShowArguments,
    /// The table's gc_grace_seconds. Tombstones older than that may be dropped.
    #[arg(long, value_name = "SECONDS", default_value_t = 864_000)]
    pub gc_grace: u32,
}

#[derive(Args, Debug)]
pub struct CompressionArguments {
    #[command(flatten)]
    pub show: ShowArguments,
    /// The position of each chunk, too.
    #[arg(long)]
    pub chunks: bool,
}

#[derive(Args, Debug)]
pub struct VerifyArguments {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Also decode every row and compare it with the promoted index.
    #[arg(short, long)]
    pub extended: bool,
}

#[derive(Args, Debug)]
pub struct OutputArguments {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The directory to write to, which must not be a directory that is read. It is made if it does not
    /// exist.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
pub struct ScrubArguments {
    #[command(flatten)]
    pub output: OutputArguments,
    /// Keep rows with values that are not valid for their column's type.
    #[arg(short, long)]
    pub no_validate: bool,
}

#[derive(Args, Debug)]
pub struct SplitArguments {
    #[command(flatten)]
    pub output: OutputArguments,
    /// A new SSTable begins when Data.db has this number of megabytes.
    #[arg(short, long, value_name = "MB", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WrittenVersion {
    /// For Cassandra 3.11 to 5.0 and ScyllaDB.
    Me,
    /// For Cassandra 4.0 to 5.0.
    Nb,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    None,
    Lz4,
    Snappy,
    Deflate,
    Zstd,
}

#[derive(Args, Debug)]
pub struct ExportArguments {
    #[command(flatten)]
    pub output: OutputArguments,
    /// The version to write.
    #[arg(long, value_enum, default_value_t = WrittenVersion::Me)]
    pub format: WrittenVersion,
    /// The compression to write [default: that of the source].
    #[arg(long, value_enum)]
    pub compression: Option<Codec>,
    /// Kilobytes of data in a compressed chunk: 4, 8, 16, ….
    #[arg(long, value_name = "KB", default_value_t = 16, requires = "compression")]
    pub chunk_kb: u32,
    /// Level of zstd.
    #[arg(long, default_value_t = 3, requires = "compression", allow_negative_numbers = true)]
    pub level: i32,
}

#[derive(Args, Debug)]
pub struct QueryArguments {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The statements.
    #[arg(short = 'e', long = "execute", value_name = "CQL")]
    pub execute: String,
    /// A file with the table's CREATE TABLE, for the names of its key columns.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "table")]
    pub format: RowsFormat,
}

#[derive(Args, Debug)]
pub struct LsArguments {
    /// A directory of a table or a keyspace, or a data directory.
    pub dir: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct AdviseArguments {
    /// SSTables of one table.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Reads of a partition for each write of as many bytes.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = reads_per_write)]
    pub reads_per_write: f64,
    /// A read returns a whole partition, or this number of kilobytes of a larger one.
    #[arg(long, value_name = "KB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub read_kb: u64,
    /// Megabytes of data to sample.
    #[arg(long, value_name = "MB", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub sample_mb: u64,
    /// Megabytes of memory that the offsets of the table's chunks may take.
    #[arg(long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub offsets_mb: u64,
    /// An operation may cost this percentage more than with the cheapest setting, if the data are smaller.
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub extra_cost: u32,
    /// All settings, not only those beside the chosen one.
    #[arg(long)]
    pub all: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

fn reads_per_write(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("a number from 0 to 1000000000".to_string()),
    }
}
