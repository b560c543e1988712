//! `messina bench reads`: what do reads cost, where partitions are large, where many come at once, and where they come backwards?
//!
//! - `large_partition`: requests and bytes of one row out of one very large partition, cold and with a warm index;
//! - `throughput`: many such reads at a time, with the index cached and not;
//! - `reverse`: pages and whole partitions forward, backwards, and backwards by the old method;
//! - `storm`: a thousand reads of large partitions at once against a server of 512 MiB;
//! - `time_slice`: how many SSTables does a slice of a time series open?
//! - `matrix`: kinds of partitions by policies of the caches;
//! - `points`: point reads on one core, beside what the disk can do;
//! - `wide`: the tables of all of them, and a quick way to large SSTables.
//!
//! All but the storm run on the engine's shard, which is tied to one core; the storm starts a server of its own.

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

use super::BenchError;
use super::engine::{BackendArgument, Scratch};
use super::machine::{self, Machine};
use super::report::{self, Report, Sample, json};
use crate::plot::Lines;

#[derive(Args, Clone, Debug)]
pub struct ReadsArguments {
    #[arg(value_enum)]
    pub which: Which,
    /// Of the documents' data: 1.0 is a partition of 10 GB for `large-partition`.
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// Made if it is not there; what the benchmark makes in it is removed.
    #[arg(long, default_value = "bench-data")]
    pub dir: PathBuf,
    /// The core to run on; by default the last one the process may use. Not for `storm`, which takes two.
    #[arg(long)]
    pub core: Option<usize>,
    /// How I/O is done. By `threads` the kernel counts requests as well as bytes.
    #[arg(long, value_enum, default_value_t = BackendArgument::Auto)]
    pub backend: BackendArgument,
    /// Seconds of each part of `storm`.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Where the figures are appended, a line of JSON each; `none`: nowhere.
    #[arg(long, default_value = "bench/results/reads.ndjson")]
    pub results: PathBuf,
    /// Where the plots go.
    #[arg(long, default_value = "bench/results/reads")]
    pub plots: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// One row out of one partition of 10 GB: requests and bytes, cold and hot.
    LargePartition,
    /// Random rows out of large partitions, 100 at a time, index cache off and on.
    LargePartitionThroughput,
    /// Pages and whole partitions of 10 to 110 MB, forward, reversed, and reversed by the old method.
    Reverse,
    /// 1,000 readers of whole partitions of 100 MB against a server with 512 MiB.
    Storm,
    /// SSTables that a slice of a time series opens.
    TimeSlice,
    /// Small, large and mixed partitions, with and without a scan, by cache policy.
    Matrix,
    /// Point reads hot and cold on one core, with fio as the limit.
    Points,
}

/// What the parts share.
struct Bench {
    arguments: ReadsArguments,
    dir: PathBuf,
    report: Report,
}

/// Runs one of them, prints the figures and draws what it has to draw.
pub fn run(arguments: &ReadsArguments) -> Result<(), BenchError> {
    let machine = Machine::look();
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
        let settings = [
            ("scale", arguments.scale.to_string()),
            ("core", core.map_or("null".to_string(), |core| core.to_string())),
            ("profile", json(if cfg!(debug_assertions) { "debug" } else { "optimized" })),
        ];
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

    /// An empty directory for the next world.
    fn empty_dir(&self) -> Result<&Path, BenchError> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)?;
        }
        Ok(&self.dir)
    }
}

/// Of some values the one that `part` of them do not exceed; 0 of none.
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
