//! Real processes, killed: `ledger --kills 50` says whether everything acknowledged was there after each restart.
//!
//! The process is the server, `messina`, and its clients are threads of the ledger: they write in every way that CQL and the admin API
//! have ([`work`]), and note what they ask for before they ask and what is acknowledged when it is. At a random moment the server gets
//! SIGKILL; one time in four another one is killed while that recovers. Then it is started again, and each kind of work compares what
//! is there with its notes ([`campaign`]). With `--engine` the process is a small program around the engine instead, which
//! writes single rows ([`engine_rows`]).
//!
//! A SIGKILL loses nothing that the process had given to the operating system, so every `commitlog_sync` has to keep every
//! acknowledged write. What a loss of power may take is the simulation's matter.

mod campaign;
mod client;
mod engine_rows;
mod known;
mod node;
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
    /// As `io_backend` has it.
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
    /// As `commitlog_sync` has it.
    fn option(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Group => "group",
            Self::Periodic => "periodic",
        }
    }
}

/// What the ledger does wrong on purpose, so that it is seen to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Break {
    /// Each kind of work notes one acknowledgement that never came: each has to miss it.
    LoseOne,
}

#[derive(Parser)]
#[command(about = "Kills a node again and again and checks that nothing acknowledged is lost")]
struct Args {
    #[arg(long, default_value_t = 50)]
    kills: u64,
    /// A directory of its own is made below this one, and removed if all went well.
    #[arg(long, default_value = "target/ledger")]
    dir: PathBuf,
    /// The server; by default `messina` beside this program.
    #[arg(long)]
    messina: Option<PathBuf>,
    /// By default one or two, drawn for each data directory; with --engine one.
    #[arg(long)]
    shards: Option<u32>,
    /// By default drawn for each data directory; with --engine always batch.
    #[arg(long, value_enum)]
    sync: Option<Sync>,
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,
    /// Decides what is drawn, what is written, and when to kill.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many kills to a data directory; then a new one begins.
    #[arg(long, default_value_t = 25)]
    kills_per_dir: u64,
    #[arg(long = "break", value_enum)]
    broken: Option<Break>,
    /// Writes single rows through the engine, without a server.
    #[arg(long)]
    engine: bool,
    /// For the use of --engine: be the child, and give writes numbers from here on.
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
