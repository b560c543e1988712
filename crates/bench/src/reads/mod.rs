//! `messina-bench reads`: measures the cost of reads of large partitions, of many concurrent reads, and of
//! reverse reads.
//!
//! - `large_partition`: requests and bytes for one row of one very large partition, cold and with a warm
//!   index;
//! - `throughput`: many such reads at a time, with and without a cached index;
//! - `reverse`: pages and whole partitions forward, in reverse, and in reverse by the old method;
//! - `storm`: a thousand concurrent reads of large partitions from a server with 512 MiB;
//! - `time_slice`: the number of SSTables that a slice of a time series opens;
//! - `matrix`: kinds of partitions by cache policies;
//! - `points`: point reads on one core, compared to the limit of the disk;
//! - `wide`: the tables of these parts, and a fast way to make large SSTables.
//!
//! All parts except the storm run on the engine's shard, which is pinned to one core. The storm starts a
//! server process.

mod large_partition;
mod matrix;
mod points;
mod reverse;
mod storm;
mod storm_client;
mod throughput;
mod time_slice;
mod wide;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use messina::plot::Lines;

use super::BenchError;
use super::engine::{BackendArgument, Scratch};
use super::machine::{self, Machine};
use super::report::{self, PROFILE, Report, Sample};

#[derive(Args, Clone, Debug)]
pub struct ReadsArguments {
    #[arg(value_enum)]
    pub which: Which,
    /// Size of the data relative to the published size: at 1.0, `large-partition` has a partition of 10 GB.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Directory for data; created if it does not exist. Files of the benchmark are removed at the end.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last core available to the process. Not used by `storm`, which
    /// needs two.
    #[arg(long)]
    pub core: Option<usize>,
    /// The I/O backend. With `threads`, the kernel counts requests as well as bytes.
    #[arg(long, value_enum, default_value_t = BackendArgument::Auto)]
    pub backend: BackendArgument,
    /// Duration of each part of `storm`, in seconds.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// File to which results are appended, one JSON object per line; `none`: no file.
    #[arg(long, default_value = "bench/results/reads.ndjson")]
    pub results: PathBuf,
    /// Directory of the plots.
    #[arg(long, default_value = "bench/results/reads")]
    pub plots: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// One row of one partition of 10 GB: requests and bytes, cold and hot.
    LargePartition,
    /// Random rows of large partitions, 100 at a time, with the index cache off and on.
    LargePartitionThroughput,
    /// Pages and whole partitions of 10 to 110 MB, forward, reversed, and reversed by the old method.
    Reverse,
    /// 1,000 readers of whole partitions of 100 MB on a server with 512 MiB.
    Storm,
    /// SSTables that a slice of a time series opens.
    TimeSlice,
    /// Small, large and mixed partitions, with and without a scan, by cache policy.
    Matrix,
    /// Hot and cold point reads on one core, with fio as the limit.
    Points,
}

/// State shared by the parts.
struct Bench {
    arguments: ReadsArguments,
    dir: PathBuf,
    report: Report,
}

/// Runs one part, prints the results and draws its plots.
pub fn run(arguments: &ReadsArguments) -> Result<(), BenchError> {
    let machine = Machine::read();
    let core = match arguments.which {
        Which::Storm => None,
        _ => Some(machine::pin_process(arguments.core)?),
    };
    let scratch = Scratch::make(&arguments.dir)?;
    let name = arguments.which.to_possible_value().expect("none is hidden").get_name().to_string();
    println!("{name} at scale {}, load {}", arguments.scale, machine.load);
    let mut bench =
        Bench { arguments: arguments.clone(), dir: scratch.0.join("world"), report: Report::default() };
    match arguments.which {
        Which::LargePartition => large_partition::run(&mut bench)?,
        Which::LargePartitionThroughput => throughput::run(&mut bench)?,
        Which::Reverse => reverse::run(&mut bench)?,
        Which::Storm => storm::run(&mut bench)?,
        Which::TimeSlice => time_slice::run(&mut bench)?,
        Which::Matrix => matrix::run(&mut bench)?,
        Which::Points => points::run(&mut bench)?,
    }
    println!("\n{}", bench.report.table());
    if arguments.results.as_os_str() != "none" {
        let settings =
            [("scale", arguments.scale.into()), ("core", core.into()), ("profile", PROFILE.into())];
        let lines = bench.report.lines(&format!("reads/{name}"), &machine::commit(), &machine, &settings);
        report::append(&arguments.results, &lines)?;
        println!("appended to {}", arguments.results.display());
    }
    Ok(())
}

impl Bench {
    fn scaled(&self, count: u64, least: u64) -> u64 {
        ((count as f64 * self.arguments.scale) as u64).max(least)
    }

    fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        self.report.add(name, unit, Sample { value, cpu_us: None });
    }

    fn value_of(&self, name: &str) -> f64 {
        self.report.get(name).map_or(0.0, |figure| figure.spread().1)
    }

    fn draw(&self, name: &str, plot: &Lines) -> Result<(), BenchError> {
        fs::create_dir_all(&self.arguments.plots)?;
        let path = self.arguments.plots.join(format!("{name}.svg"));
        fs::write(&path, plot.svg())?;
        println!("drawn into {}", path.display());
        Ok(())
    }

    /// Empties the directory for the next engine.
    fn empty_dir(&self) -> Result<&Path, BenchError> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        Ok(&self.dir)
    }
}

/// The percentile `part` (from 0.0 to 1.0) of the values; 0 if there are none.
fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| percentile(&mut values, part)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(percentile(&mut [], 0.5), 0.0);
    }
}
