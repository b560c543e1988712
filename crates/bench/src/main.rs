//! The program `messina-bench`, with one subcommand per benchmark.

use std::process::ExitCode;

use bench::{BenchCommand, BenchError};
use clap::{Parser, Subcommand};
use messina::allocator;
use mimalloc::MiMalloc;
use server::cql_server;
use server::serve::{self, ServeArguments};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures parts of the database on this machine.
#[derive(Parser)]
#[command(name = "messina-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Bench(BenchCommand),
    /// Runs a node, like `messina serve`. Benchmarks with clients start this program again as a server, so
    /// that they measure the server they were built with.
    #[command(hide = true)]
    Serve(ServeArguments),
}

fn main() -> ExitCode {
    allocator::set_purge_delay();
    let done: Result<(), BenchError> = match Arguments::parse().command {
        Command::Bench(command) => command.run(),
        Command::Serve(arguments) => serve::run(&arguments, cql_server::start).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messina-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
