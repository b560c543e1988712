//! Kills real processes: `ledger --kills 50` checks that everything acknowledged is present after each
//! restart.
//!
//! The process is the server, `messina`. Its clients are threads of the ledger: they write in every way that
//! CQL and the admin API offer ([`work`]), note each request before it is sent and each acknowledgement when
//! it arrives. At a random moment the server gets SIGKILL; one time in four another server is killed during
//! its recovery. Then the server is started again, and each kind of work compares the content with its notes
//! ([`campaign`]). With `--engine` the process is a small program around the engine instead, which writes
//! single rows ([`engine_rows`]).
//!
//! A SIGKILL loses nothing that the process had written to the operating system, so every `commitlog_sync`
//! must keep every acknowledged write. Power losses are covered by the simulation.

mod campaign;
mod client;
mod engine_rows;
mod node_process;
mod tracked_value;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use runtime::BackendChoice;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    Auto,
    IoUring,
    LinuxAio,
    Threads,
}

impl Backend {
    /// The value of `io_backend`.
    fn option(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::LinuxAio => "linux_aio",
            Self::Threads => "threads",
        }
    }
}

impl From<Backend> for BackendChoice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::IoUring => Self::IoUring,
            Backend::LinuxAio => Self::LinuxAio,
            Backend::Threads => Self::Threads,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sync {
    Batch,
    Group,
    Periodic,
}

impl Sync {
    /// The value of `commitlog_sync`.
    fn option(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Group => "group",
            Self::Periodic => "periodic",
        }
    }
}

/// A fault that the ledger makes on purpose, to show that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Break {
    /// Each kind of work notes one acknowledgement that never came, and must report it missing.
    LoseOne,
}

#[derive(Parser)]
#[command(about = "Kills a node again and again and checks that nothing acknowledged is lost")]
struct Args {
    #[arg(long, default_value_t = 50)]
    kills: u64,
    /// Data directories are made below this one, and removed after success.
    #[arg(long, default_value = "target/ledger")]
    dir: PathBuf,
    /// The server [default: `messina` beside this program].
    #[arg(long)]
    messina: Option<PathBuf>,
    /// Shards [default: one or two, drawn for each data directory; with --engine one].
    #[arg(long)]
    shards: Option<u32>,
    /// Sync of the commit log [default: drawn for each data directory; with --engine always batch].
    #[arg(long, value_enum)]
    sync: Option<Sync>,
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// Seed of all random decisions: options, writes, times of kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kills of a data directory before a new one begins.
    #[arg(long, default_value_t = 25)]
    kills_per_dir: u64,
    #[arg(long = "break", value_enum)]
    broken: Option<Break>,
    /// Write single rows through the engine, without a server.
    #[arg(long)]
    engine: bool,
    /// Used by --engine itself: be the child, and number writes from here on.
    #[arg(long, hide = true)]
    child: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.child {
        Some(first) => engine_rows::child(&args, first),
        None if args.engine => engine_rows::parent(&args),
        None => campaign::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ledger: {error}");
            ExitCode::FAILURE
        }
    }
}
