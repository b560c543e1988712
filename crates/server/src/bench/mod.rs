//! `messina bench`: programs that answer one question each with a number, and say what the number means.
//!
//! - [`engine`]: how fast does the storage engine write, read, flush, scan and replay on one core?
//! - [`limits`]: how fast could it be? Memory, codecs and the disk alone, measured in the same run;
//! - [`workload`]: the rows, the same for everything that is compared;
//! - [`stopwatch`]: wall time and CPU time;
//! - [`machine`]: where a number was measured, and tying the process to one core;
//! - [`report`]: a table for people, a line of JSON per figure for machines.
//!
//! `bench/peers` does the same work on other engines with the same workload and report.

pub mod engine;
pub mod limits;
pub mod machine;
pub mod report;
pub mod stopwatch;
pub mod workload;

use clap::Subcommand;

/// What went wrong, for people; nothing acts on the kind.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Writes, point reads, flush, scan and replay of the storage engine, on one core.
    Engine(engine::EngineArguments),
}

impl BenchCommand {
    pub fn run(self) -> Result<(), BenchError> {
        match self {
            Self::Engine(arguments) => engine::run(&arguments),
        }
    }
}
