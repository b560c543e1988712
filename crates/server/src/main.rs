//! The `messina` program: one subcommand for each thing it does.
//!
//! `messina bench engine`: how fast is the storage engine, and where is the limit?

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::bench::BenchCommand;

/// Allocations on a shard are freed on the same shard, nearly always; mimalloc is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "messina", version, about = "A wide-column database")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures parts of the database on this machine.
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench(command) => command.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messina: {error}");
            ExitCode::FAILURE
        }
    }
}
