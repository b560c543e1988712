//! The benchmarks of the program `messina-bench`. Each benchmark measures the answer to one question, and the
//! documentation of each explains its numbers. It is also a library, so that `bench/peers`, outside the
//! workspace, can use the same workload and report.
//!
//! - [`engine`]: how fast does the storage engine write, read, flush, scan and replay on one core?
//! - [`batches`]: what does a logged batch over two shards cost?
//! - [`codecs`]: what does each codec cost and save, at each chunk length?
//! - [`chunks`]: how many bytes are read from disk for one small partition?
//! - [`compaction`]: what do the compaction strategies cost?
//! - [`reads`]: what do reads cost of large partitions, of many partitions, or in reverse?
//! - [`levels`]: does an important workload keep its latency and goodput next to others and under overload?
//! - [`io`]: how long do reads wait for the disk with and without the I/O scheduler, and what does scheduling
//!   cost?
//! - [`world`]: an engine with one table, and operations on its shard;
//! - [`limits`]: the limits of the hardware: memory, codecs and the disk alone, measured in the same run;
//! - [`workload`]: the rows, the same for all systems that are compared;
//! - [`stopwatch`]: wall time and CPU time;
//! - [`machine`]: the machine of a measurement, and pinning the process to one core;
//! - [`report`]: a table for users, and one line of JSON per figure for programs.
//!
//! `bench/peers` runs the same work on other engines with the same workload and report.

pub mod batches;
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

/// An error with a message for users. No code depends on its kind.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Writes, point reads, flush, scan and replay of the storage engine, on one core.
    Engine(engine::EngineArguments),
    /// Writes of two rows of two shards: alone, as an unlogged batch, and as a logged batch.
    Batches(batches::BatchesArguments),
    /// Space, flush, reads and stalls by codec and chunk length, on real text.
    Codecs(codecs::CodecsArguments),
    /// Bytes read from disk for a partition of 310 bytes, by chunk length.
    Chunks(chunks::ChunksArguments),
    /// Cost of the compaction strategies on published examples, and speed of merging SSTables.
    #[command(subcommand)]
    Compaction(compaction::CompactionCommand),
    /// Requests, latency and memory of reads of large partitions, of many concurrent reads, and of reverse
    /// reads.
    Reads(reads::ReadsArguments),
    /// Latency of an interactive service level next to an analytical one, and goodput under overload.
    Levels(levels::LevelsArguments),
    /// Latency of disk reads during compaction, with the I/O scheduler and without; cost of scheduling.
    Io(io::IoArguments),
}

impl BenchCommand {
    pub fn run(self) -> Result<(), BenchError> {
        match self {
            Self::Engine(arguments) => engine::run(&arguments),
            Self::Batches(arguments) => batches::run(&arguments),
            Self::Codecs(arguments) => codecs::run(&arguments),
            Self::Chunks(arguments) => chunks::run(&arguments),
            Self::Compaction(command) => command.run(),
            Self::Reads(arguments) => reads::run(&arguments),
            Self::Levels(arguments) => levels::run(&arguments),
            Self::Io(arguments) => io::run(&arguments),
        }
    }
}
