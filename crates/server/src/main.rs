//! The `messina` program: one subcommand for each thing it does. Without one it serves.

mod allocator;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use server::bench::BenchCommand;
use server::cql_server;
use server::iotune::IotuneArguments;
use server::nodetool::{self, NodetoolArguments};
use server::serve::{self, ServeArguments};
use server::shell::ShellCommand;
use server::sstable_tool::SstableCommand;

#[derive(Parser)]
#[command(
    name = "messina",
    version,
    about = "A wide-column database",
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node; what `messina` alone does.
    #[command(args_override_self = true)]
    Serve(ServeArguments),
    /// Looks after a running node.
    // It has a help of its own, as people know it.
    #[command(disable_help_flag = true)]
    Nodetool(NodetoolArguments),
    /// Measures parts of the database on this machine.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Measures a disk for the I/O scheduler, and writes io_properties.yaml.
    Iotune(IotuneArguments),
    Shell(ShellCommand),
    #[command(subcommand)]
    Sstable(SstableCommand),
    /// Prints the version.
    Version,
}

/// The command line; `nodetool` has two options that the peers write with one dash.
fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "nodetool") {
        for word in &mut words {
            if word == "-pw" {
                *word = "--password".into();
            } else if word == "-pwf" {
                *word = "--password-file".into();
            }
        }
    }
    words
}

fn main() -> ExitCode {
    allocator::give_back_soon();
    let arguments = Arguments::parse_from(words());
    let done: Result<(), Box<dyn Error + Send + Sync>> = match arguments.command {
        None => serve::run(&arguments.serve, cql_server::start).map_err(Into::into),
        Some(Command::Serve(serve)) => serve::run(&serve, cql_server::start).map_err(Into::into),
        Some(Command::Nodetool(arguments)) => nodetool::run(&arguments).map_err(Into::into),
        Some(Command::Bench(command)) => command.run(),
        Some(Command::Iotune(arguments)) => arguments.run(),
        Some(Command::Shell(command)) => return command.run(),
        Some(Command::Sstable(command)) => return command.run(),
        Some(Command::Version) => {
            println!("messina {}", server::VERSION);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messina: {error}");
            ExitCode::FAILURE
        }
    }
}
