//! `bench-peers`: Messina and other engines do the same work in turn, in one process on one core.
//!
//! - `bench-peers engine`: the storage engine beside RocksDB;
//! - `bench-peers merge`: the merges of `messina-bench compaction merge`, by RocksDB alone.

mod merge;
mod rocks;
mod side_by_side;

use std::process::ExitCode;
use std::sync::Arc;

use bench::compaction::merge::MergeArguments;
use bench::engine::{EngineArguments, Phase, Scratch, run_once};
use bench::machine::Machine;
use bench::report::Report;
use bench::{BenchError, limits};
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "bench-peers", about = "Messina beside other engines")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The storage engine beside RocksDB.
    Engine(EngineArguments),
    /// How fast RocksDB merges files.
    Merge(MergeArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Engine(arguments) => engine(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn engine(arguments: &EngineArguments) -> Result<(), BenchError> {
    let machine = Machine::look();
    let core = arguments.pin()?;
    let workload = Arc::new(arguments.workload());
    let dir = Scratch::make(&arguments.dir)?;
    println!("{} rows, {} runs in turn, load {}", workload.rows, arguments.runs, machine.load);
    let (mut report, mut ours, mut theirs) = (Report::default(), Report::default(), Report::default());
    let mut backend = String::new();
    for number in 1..=arguments.runs {
        println!("run {number}");
        if arguments.wants(Phase::Limits) {
            let concurrency = usize::from(arguments.concurrency);
            limits::measure(&mut report, &workload, concurrency, arguments.backend.into(), &dir.0)?;
        }
        backend = run_once(&mut ours, arguments, &workload, &dir.0)?;
        rocks::run_once(&mut theirs, arguments, &workload, &dir.0)?;
    }
    println!("I/O by {backend}");
    println!("\n{}", side_by_side::table(&ours, &theirs));
    for (name, of) in [("messina", &ours), ("rocksdb", &theirs)] {
        for figure in &of.figures {
            for sample in &figure.samples {
                report.add(&format!("{name}/{}", figure.name), figure.unit, *sample);
            }
        }
    }
    arguments.publish("engine-vs-rocksdb", &report, &machine, &arguments.settings(core, &backend))
}
