//! `messina bench`: programs that answer one question each with a number, and say what the number means.
//!
//! - [`engine`]: how fast does the storage engine write, read, flush, scan and replay on one core?
//! - [`codecs`]: what does each codec cost and save, at each chunk length?
//! - [`chunks`]: how much is read from disk for one small partition?
//! - [`compaction`]: what do the compaction strategies cost?
//! - [`reads`]: what do reads cost where partitions are large, many, or read backwards?
//! - [`levels`]: does an important workload keep its latency and goodput beside others and under too much?
//! - [`io`]: what do reads wait for at the disk, with the I/O scheduler and without, and what does scheduling cost?
//! - [`world`]: an engine with one table, and work done on its shard;
//! - [`limits`]: how fast could it be? Memory, codecs and the disk alone, measured in the same run;
//! - [`workload`]: the rows, the same for everything that is compared;
//! - [`stopwatch`]: wall time and CPU time;
//! - [`machine`]: where a number was measured, and tying the process to one core;
//! - [`report`]: a table for people, a line of JSON per figure for machines.
//!
//! `bench/peers` does the same work on other engines with the same workload and report.

pub mod chunks;
pub mod codecs;
pub mod compaction;
pub mod engine;
pub mod io;
pub mod levels;
pub mod limits;
pub mod machine;
pub mod reads;
pub mod report;
pub mod stopwatch;
pub mod workload;
pub mod world;

use clap::Subcommand;

/// What went wrong, for people; nothing acts on the kind.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Writes, point reads, flush, scan and replay of the storage engine, on one core.
    Engine(engine::EngineArguments),
    /// Space, flush, reading and stalls by codec and chunk length, on real text.
    Codecs(codecs::CodecsArguments),
    /// Bytes read from disk for a partition of 310 bytes, by chunk length.
    Chunks(chunks::ChunksArguments),
    /// What the compaction strategies cost on the documents' examples, and how fast SSTables are merged.
    #[command(subcommand)]
    Compaction(compaction::CompactionCommand),
    /// Requests, latency and memory of reads of large partitions, many at once, and backwards.
    Reads(reads::ReadsArguments),
    /// Latency of an interactive service level beside an analytical one, and goodput under overload.
    Levels(levels::LevelsArguments),
    /// Latency of reads beside compaction at the disk, with the I/O scheduler and without; what scheduling costs.
    Io(io::IoArguments),
}

impl BenchCommand {
    pub fn run(self) -> Result<(), BenchError> {
        match self {
            Self::Engine(arguments) => engine::run(&arguments),
            Self::Codecs(arguments) => codecs::run(&arguments),
            Self::Chunks(arguments) => chunks::run(&arguments),
            Self::Compaction(command) => command.run(),
            Self::Reads(arguments) => reads::run(&arguments),
            Self::Levels(arguments) => levels::run(&arguments),
            Self::Io(arguments) => io::run(&arguments),
        }
    }
}
