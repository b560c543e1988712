//! The `messina` program: one subcommand for each task. Without a subcommand it serves.

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use messina::allocator;
use messina::backup_tool::BackupCommand;
use messina::iotune::IotuneArguments;
use messina::lab_tool::LabCommand;
use messina::nodetool::{self, NodetoolArguments};
use messina::sstable_tool::SSTableCommand;
use mimalloc::MiMalloc;
use server::cql_server;
use server::serve::{self, ServeArguments};
use shell::ShellCommand;
use stress::StressCommand;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
    /// Runs a node; the default of `messina` without a subcommand.
    #[command(args_override_self = true)]
    Serve(ServeArguments),
    /// Manages a running node.
    // nodetool uses -h for the host.
    #[command(disable_help_flag = true)]
    Nodetool(NodetoolArguments),
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Measures a disk for the I/O scheduler, and writes io_properties.yaml.
    Iotune(IotuneArguments),
    #[command(subcommand)]
    Lab(LabCommand),
    Shell(ShellCommand),
    #[command(subcommand)]
    Sstable(SSTableCommand),
    // The groups of options of cassandra-stress have one dash.
    Stress(StressCommand),
    /// Checks machine and configuration before production, for the node that `messina serve` would start with
    /// these arguments.
    #[command(args_override_self = true)]
    Doctor(ServeArguments),
    /// Writes completions of the command line for a shell to standard output.
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Writes manual pages: the one of `messina` to standard output, or all into a directory.
    Man {
        /// The directory, for one page for each command
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Prints the version.
    Version,
}

/// The words of the command line, with nodetool's options in the form that clap parses.
fn words() -> Vec<OsString> {
    let words: Vec<OsString> = std::env::args_os().collect();
    match words.get(1).is_some_and(|word| word == "nodetool") {
        true => nodetool::with_two_dashes(words.into_iter()).collect(),
        false => words,
    }
}

/// Ignores a reader that stops before the end (`| head`).
fn print(text: &[u8]) {
    drop(std::io::stdout().write_all(text));
}

/// Writes the manual page of the program, or those of all commands into a directory.
fn manual(dir: Option<&Path>) -> std::io::Result<()> {
    let command = Arguments::command();
    match dir {
        None => {
            let mut text = vec![];
            clap_mangen::Man::new(command).render(&mut text)?;
            print(&text);
            Ok(())
        }
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            clap_mangen::generate_to(command, dir)
        }
    }
}

fn main() -> ExitCode {
    allocator::set_purge_delay();
    let arguments = Arguments::parse_from(words());
    let done: Result<(), Box<dyn Error + Send + Sync>> = match arguments.command {
        None => serve::run(&arguments.serve, cql_server::start).map_err(Into::into),
        Some(Command::Serve(serve)) => serve::run(&serve, cql_server::start).map_err(Into::into),
        Some(Command::Doctor(serve)) => match serve::doctor(&serve) {
            Ok((report, is_ready)) => {
                print(report.as_bytes());
                return if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
            Err(error) => Err(error.into()),
        },
        Some(Command::Nodetool(arguments)) => nodetool::run(&arguments).map_err(Into::into),
        Some(Command::Backup(command)) => match command.run() {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Some(Command::Iotune(arguments)) => arguments.run(),
        Some(Command::Lab(command)) => command.run(),
        Some(Command::Shell(command)) => return command.run(),
        Some(Command::Sstable(command)) => return command.run(),
        Some(Command::Stress(command)) => command.run(),
        Some(Command::Completion { shell }) => {
            let mut text = vec![];
            clap_complete::generate(shell, &mut Arguments::command(), "messina", &mut text);
            print(&text);
            Ok(())
        }
        Some(Command::Man { dir }) => manual(dir.as_deref()).map_err(Into::into),
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
