//! `messina-bench io`: measures how long small reads wait while a compaction takes all the bandwidth it gets,
//! with the I/O scheduler and without.
//!
//! 1. `simulated`: a disk of known speed in virtual time, with the usual scheduler; the results are the same
//!    on every machine.
//! 2. `disk`: the disk of `--dir` with the same loads. Its speed is measured by [`messina::iotune`] or given
//!    by `--io-properties`.
//! 3. `engine`: point reads from disk while the engine compacts the same data, without a limit.
//! 4. `overhead`: the cost of scheduling when there is no I/O to schedule: point reads from the cache.
//!
//! Reads have 4 KiB at random offsets of a file, at random times of a steady rate. The compaction reads and
//! writes 1 MiB at a time, many in flight, in its class with 200 shares next to 1000. "Off" passes all
//! requests directly to the disk, without splitting them.

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
use super::report::{self, PROFILE, Report};
use loads::Curve;

#[derive(Args, Clone, Debug)]
pub struct IoArguments {
    /// Run only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub parts: Vec<Part>,
    /// Duration of each load on the real disk, in seconds; half of it in virtual time.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Number of runs of each load on the real disk: alone, with and without the scheduler, in turn. The
    /// medians are reported. A round is repeated if other virtual machines used the core for more than 1 % of
    /// the time; at most twice this number of rounds is run.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Size of the engine's data relative to 600 MB.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// File with the properties of the disk. Without it, the disk is measured for 20 s.
    #[arg(long, value_name = "FILE")]
    pub io_properties: Option<PathBuf>,
    /// Fraction of the disk's speed that the scheduler uses.
    #[arg(long, default_value_t = 0.9)]
    pub rate_factor: f64,
    /// Maximum duration of the work queued in the real disk, in milliseconds: `io_latency_goal`.
    #[arg(long, default_value_t = runtime::LATENCY_GOAL_NS as f64 / 1e6, value_name = "MS")]
    pub latency_goal: f64,
    /// Size of the scratch file on the real disk, in MiB.
    #[arg(long, default_value_t = 2048)]
    pub file_mib: u64,
    /// Number of runs of the engine's compaction, and of point reads from the cache with and without
    /// scheduling.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process.
    #[arg(long)]
    pub core: Option<usize>,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/io.ndjson")]
    pub results: PathBuf,
    /// Directory of the plots of p95 by load.
    #[arg(long, default_value = "bench/results/io")]
    pub plots: PathBuf,
}

impl IoArguments {
    /// The scheduler's options for the real disk.
    fn disk(&self, model: DiskModel) -> DiskOptions {
        DiskOptions {
            model: Some(model.scaled(self.rate_factor)),
            latency_goal_ns: (self.latency_goal * 1e6) as u64,
            inflight_goals: 1,
            ..DiskOptions::default()
        }
    }
}

/// The parts of the benchmark; see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Simulated,
    Disk,
    Engine,
    Overhead,
}

/// Runs the benchmark, prints the results and draws the plots.
pub fn run(arguments: &IoArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = machine::pin_process(arguments.core)?;
    fs::create_dir_all(&arguments.dir)?;
    let is_wanted = |part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let mut report = Report::default();
    if is_wanted(Part::Simulated) {
        let curve = simulated::run(arguments)?;
        publish(&curve, arguments, &mut report)?;
    }
    let mut settings = vec![
        ("seconds", arguments.seconds.into()),
        ("rounds", arguments.rounds.into()),
        ("scale", arguments.scale.into()),
        ("rate_factor", arguments.rate_factor.into()),
        ("latency_goal_ms", arguments.latency_goal.into()),
        ("core", core.into()),
        ("profile", PROFILE.into()),
    ];
    if is_wanted(Part::Disk) || is_wanted(Part::Engine) {
        let (scratch, model) = disk::prepare(arguments)?;
        println!("the disk of {}: {}", arguments.dir.display(), server::disk_model::show(&model));
        settings.push(("disk", server::disk_model::show(&model).into()));
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

/// Prints a curve, draws it, and adds its figures to the report.
fn publish(curve: &Curve, arguments: &IoArguments, report: &mut Report) -> Result<(), BenchError> {
    println!("\n{}", curve.table());
    curve.add_to(report);
    fs::create_dir_all(&arguments.plots)?;
    let path: &Path = &arguments.plots.join(format!("{}.svg", curve.place));
    fs::write(path, curve.plot().svg())?;
    println!("drawn into {}", path.display());
    Ok(())
}

/// Reads the model of a directory's disk from a file.
fn model_of_file(path: &Path, dir: &Path) -> Result<DiskModel, BenchError> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let model =
        server::disk_model::in_text(&text, dir).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(model
        .ok_or_else(|| format!("{} names no directory on the disk of {}", path.display(), dir.display()))?)
}
