//! `messina bench io`: how long do small reads wait beside a compaction that takes all it gets, with the I/O scheduler and without?
//!
//! 1. `simulated`: a disk of known speed in virtual time, before it the scheduler that runs everywhere; the same figures on every machine.
//! 2. `disk`: the disk below `--dir`, as [`crate::iotune`] finds it, or as `--io-properties` says; the same loads.
//! 3. `engine`: point reads from the disk while the engine compacts what they read, without a limit.
//! 4. `overhead`: what scheduling costs where there is nothing to schedule: point reads from the cache.
//!
//! Reads are 4 KiB anywhere in a file, at random times of a steady rate. The compaction reads and writes 1 MiB at a time, many at once, in its class of
//! 200 shares beside 1000. "Off" lets all requests straight through to the disk, whole.

mod disk;
mod engine;
mod loads;
mod overhead;
mod rounds;
mod simulated;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use runtime::{DiskModel, DiskOptions};

use super::BenchError;
use super::machine::{self, Machine};
use super::report::{self, Report, json};
use loads::Curve;

#[derive(Args, Clone, Debug)]
pub struct IoArguments {
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub parts: Vec<Part>,
    /// How long each load runs, on the real disk; in virtual time half of it.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// How often each load runs on the real disk, alone, with the scheduler and without in turn; the medians count. Rounds in which others had the core
    /// for more than a hundredth of the time are repeated, twice as many at most.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Of the engine's rows: 600 MB.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// What the disk can do; without, it is measured for 20 s.
    #[arg(long, value_name = "FILE")]
    pub io_properties: Option<PathBuf>,
    /// What part of that the scheduler gives out.
    #[arg(long, default_value_t = 0.9)]
    pub rate_factor: f64,
    /// How much work the real disk may have ahead of it, in milliseconds: `io_latency_goal`.
    #[arg(long, default_value_t = runtime::LATENCY_GOAL_NS as f64 / 1e6, value_name = "MS")]
    pub latency_goal: f64,
    /// Of the scratch file on the real disk, in MiB.
    #[arg(long, default_value_t = 2048)]
    pub file_mib: u64,
    /// Runs of the engine's compaction, and of point reads from the cache with and without scheduling.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Made if it is not there; what the benchmark makes in it is removed.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last one the process may use.
    #[arg(long)]
    pub core: Option<usize>,
    /// Where the figures are appended, a line of JSON each; `none`: nowhere.
    #[arg(long, default_value = "bench/results/io.ndjson")]
    pub results: PathBuf,
    /// Where p95 over load is drawn.
    #[arg(long, default_value = "bench/results/io")]
    pub plots: PathBuf,
}

impl IoArguments {
    /// The real disk as it is scheduled.
    fn disk(&self, model: DiskModel) -> DiskOptions {
        DiskOptions {
            model: Some(model.scaled(self.rate_factor)),
            latency_goal_ns: (self.latency_goal * 1e6) as u64,
            under_way_goals: 1,
            ..DiskOptions::default()
        }
    }
}

/// See the head of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Simulated,
    Disk,
    Engine,
    Overhead,
}

/// Runs the benchmark, prints the figures and draws the plots.
pub fn run(arguments: &IoArguments) -> Result<(), BenchError> {
    let machine = Machine::look();
    let core = machine::pin_process(arguments.core)?;
    fs::create_dir_all(&arguments.dir)?;
    let is_wanted = |part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let mut report = Report::default();
    if is_wanted(Part::Simulated) {
        let curve = simulated::run(arguments)?;
        publish(&curve, arguments, &mut report)?;
    }
    let mut settings = vec![
        ("seconds", arguments.seconds.to_string()),
        ("rounds", arguments.rounds.to_string()),
        ("scale", arguments.scale.to_string()),
        ("rate_factor", arguments.rate_factor.to_string()),
        ("latency_goal_ms", arguments.latency_goal.to_string()),
        ("core", core.to_string()),
        ("profile", json(if cfg!(debug_assertions) { "debug" } else { "optimized" })),
    ];
    if is_wanted(Part::Disk) || is_wanted(Part::Engine) {
        let (scratch, model) = disk::prepare(arguments)?;
        println!("the disk of {}: {}", arguments.dir.display(), crate::disk_model::show(&model));
        settings.push(("disk", json(&crate::disk_model::show(&model))));
        if is_wanted(Part::Disk) {
            let curve = disk::run(arguments, core, scratch, model)?;
            publish(&curve, arguments, &mut report)?;
        } else {
            scratch.close()?;
        }
        if is_wanted(Part::Engine) {
            engine::run(arguments, arguments.disk(model), &mut report)?;
        }
    }
    if is_wanted(Part::Overhead) {
        overhead::run(arguments, &mut report)?;
    }
    if arguments.results.as_os_str() != "none" {
        let lines = report.lines("io", &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

/// Prints a curve, draws it, and takes its figures into the report.
fn publish(curve: &Curve, arguments: &IoArguments, report: &mut Report) -> Result<(), BenchError> {
    println!("\n{}", curve.table());
    curve.add_to(report);
    fs::create_dir_all(&arguments.plots)?;
    let path: &Path = &arguments.plots.join(format!("{}.svg", curve.place));
    fs::write(path, curve.plot().svg())?;
    println!("drawn into {}", path.display());
    Ok(())
}

/// What a file says of the disk of a directory.
fn model_of_file(path: &Path, dir: &Path) -> Result<DiskModel, BenchError> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let model =
        crate::disk_model::in_text(&text, dir).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(model
        .ok_or_else(|| format!("{} names no directory on the disk of {}", path.display(), dir.display()))?)
}
