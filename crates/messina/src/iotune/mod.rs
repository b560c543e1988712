//! `messina iotune`: measures the disk of a directory without destroying data.
//!
//! 1. A [`scratch`] file without a name is written in full, in at most half of `--duration`.
//! 2. Large sequential writes and reads, and small random writes and reads, are measured one after the other,
//!    at full speed, past the page cache.
//! 3. `io_properties.yaml` is written. [`server::disk_model`] reads it at the start of a node.
//! 4. With `--matrix`, the latencies of reads are measured over the plane of reads and writes: `matrix`.
//!
//! Any user with write permission for the directory may run it.

mod matrix;
pub mod measure;
pub mod scratch;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use iosched::properties::{self, DiskEntry};
use runtime::{Direction, DiskModel, IoClass};

use matrix::Matrix;
use measure::{MeasuredRates, ShardLoad};
use scratch::ScratchDisk;
use server::config::units::{DefaultUnit, parse_bytes, parse_millis};

/// Size of the requests that measure bandwidth.
pub const LARGE_BYTES: usize = 1 << 20;
/// Size of the requests that measure requests per second.
pub const SMALL_BYTES: usize = 4096;

/// Measures a disk for the I/O scheduler.
#[derive(Args, Clone, Debug)]
pub struct IotuneArguments {
    /// A directory on the disk.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Time of all four measurements together.
    #[arg(long, value_name = "TIME", default_value = "40s")]
    duration: String,
    /// Size of the scratch file; at most a quarter of the free space.
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    file_size: String,
    /// Threads that load the disk.
    #[arg(long, value_name = "N", default_value_t = 1)]
    shards: u32,
    /// Large requests in flight.
    #[arg(long, value_name = "N", default_value_t = 16)]
    large_depth: usize,
    /// Small requests in flight.
    #[arg(long, value_name = "N", default_value_t = 128)]
    small_depth: usize,
    /// The file to write the model to.
    #[arg(long, value_name = "FILE", default_value = "io_properties.yaml")]
    output: PathBuf,
    /// Also measure this number of steps of the read rate times as many of the write rate, and draw
    /// iotune-p50.svg and iotune-p95.svg beside the model.
    #[arg(long, value_name = "STEPS")]
    matrix: Option<usize>,
    /// Time of each point of the matrix.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    point_duration: String,
}

/// Why a measurement failed.
pub type IotuneError = Box<dyn std::error::Error + Send + Sync>;

impl IotuneArguments {
    /// Measures, prints the results, and writes the model.
    pub fn run(&self) -> Result<(), IotuneError> {
        let duration_us = time_us("--duration", &self.duration)?;
        let point_us = time_us("--point-duration", &self.point_duration)?;
        let wanted_bytes = parse_bytes(&self.file_size, DefaultUnit::Refused)
            .ok_or_else(|| format!("--file-size {}: not a size", self.file_size))?;
        // An output that cannot be written must be reported before the measurement, not a minute later.
        let unfinished = self.output.with_added_extension("part");
        fs::write(&unfinished, "").map_err(|error| format!("--output {}: {error}", unfinished.display()))?;
        let measured = self.measure(wanted_bytes, duration_us, point_us, &unfinished);
        if measured.is_err() {
            // If the removal fails too, the first error is more useful.
            drop(fs::remove_file(&unfinished));
        }
        measured
    }

    fn measure(
        &self,
        wanted_bytes: u64,
        duration_us: u64,
        point_us: u64,
        unfinished: &Path,
    ) -> Result<(), IotuneError> {
        let depths = Depths { small: self.small_depth, large: self.large_depth };
        let disk = prepare(&self.dir, wanted_bytes, duration_us, self.shards.clamp(1, 256))?;
        let model = find_model(&disk, depths, duration_us)?;
        println!("{}", server::disk_model::show(&model));
        let mountpoints = vec![fs::canonicalize(&self.dir)?];
        let text = properties::write(&[DiskEntry { mountpoints, model, physical_block_bytes: None }]);
        fs::write(unfinished, text)
            .and_then(|()| fs::rename(unfinished, &self.output))
            .map_err(|error| format!("{}: {error}", self.output.display()))?;
        println!("written to {}; name it in the option io_properties_file", self.output.display());
        if let Some(steps) = self.matrix {
            let matrix = Matrix {
                steps: steps.clamp(2, 40),
                point_us,
                small_depth: self.small_depth,
                large_depth: self.large_depth,
            };
            matrix.run(&disk, &model, &self.output)?;
        }
        disk.close()
    }
}

/// Requests in flight, of all shards together.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    pub small: usize,
    pub large: usize,
}

impl Default for Depths {
    fn default() -> Self {
        Self { small: 128, large: 16 }
    }
}

/// A scratch file, filled within a part of the time of all measurements.
pub fn prepare(
    dir: &Path,
    wanted_bytes: u64,
    duration_us: u64,
    shards: u32,
) -> Result<ScratchDisk, IotuneError> {
    let fill_us = duration_us / 2;
    println!("filling a scratch file in {}, at most {} s ...", dir.display(), fill_us.div_ceil(1_000_000));
    let disk = ScratchDisk::make(dir, wanted_bytes, fill_us, shards)?;
    println!("filled {} MiB", disk.file_bytes() >> 20);
    if !disk.is_direct()? {
        println!("this file system has no direct I/O: the measurement includes the page cache");
    }
    Ok(disk)
}

/// Measures the disk's rate of each kind of request alone, within `duration_us` for all four, and prints the
/// progress.
pub fn find_model(disk: &ScratchDisk, depths: Depths, duration_us: u64) -> Result<DiskModel, IotuneError> {
    let measure = |what: &str, direction, bytes, depth: usize, tenths: u64| {
        let for_us = duration_us * tenths / 10;
        println!("measuring {what} for {:.1} s ...", for_us as f64 / 1e6);
        let depth = depth.div_ceil(disk.shards() as usize);
        let sequential = bytes == LARGE_BYTES;
        let load = ShardLoad { direction, bytes, sequential, depth, rate: None, class: IoClass::Maintenance };
        let outcome = disk.measure(vec![load], for_us)?.remove(0);
        println!(
            "  {:.0}/s, {:.1} MB/s, p50 {:.0} us, p95 {:.0} us",
            outcome.requests_s(),
            outcome.bytes_s() / 1e6,
            outcome.percentile_us(0.5),
            outcome.percentile_us(0.95)
        );
        Ok::<MeasuredRates, IotuneError>(outcome)
    };
    let write_bandwidth = measure("write bandwidth", Direction::Write, LARGE_BYTES, depths.large, 4)?;
    let read_bandwidth = measure("read bandwidth", Direction::Read, LARGE_BYTES, depths.large, 2)?;
    let write_iops = measure("small writes", Direction::Write, SMALL_BYTES, depths.small, 2)?;
    let read_iops = measure("small reads", Direction::Read, SMALL_BYTES, depths.small, 2)?;
    Ok(DiskModel {
        read_bandwidth_bytes_s: at_least_one(read_bandwidth.bytes_s()),
        write_bandwidth_bytes_s: at_least_one(write_bandwidth.bytes_s()),
        read_iops: at_least_one(read_iops.requests_s()),
        write_iops: at_least_one(write_iops.requests_s()),
        ..DiskModel::NOMINAL
    })
}

fn time_us(flag: &str, text: &str) -> Result<u64, IotuneError> {
    let wrong = |text: &dyn Display| format!("{flag} {text}: {}", server::config::units::DURATION_FORM);
    let millis =
        parse_millis(text, DefaultUnit::Seconds).filter(|millis| (100..=86_400_000).contains(millis));
    Ok(millis.ok_or_else(|| wrong(&text))? * 1000)
}

fn at_least_one(rate: f64) -> u64 {
    (rate as u64).max(1)
}
