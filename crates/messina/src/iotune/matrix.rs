//! `--matrix`: latency of reads of 4 KiB at steps of the read rate and of the rate of writes of 128 KiB.
//!
//! The result is two heat maps, of p50 and p95, with the model's line. A point counts as reached if both
//! loads got 97 % of their rate, within the limits of chance; other points stay white.

use std::fs;
use std::path::Path;

use runtime::{Direction, DiskModel, IoClass};

use super::measure::{MeasuredRates, ShardLoad};
use super::scratch::ScratchDisk;
use super::{IotuneError, SMALL_BYTES};
use crate::plot::HeatMap;

const WRITE_BYTES: usize = 128 << 10;
/// A point counts as reached from this part of its rates.
const REACHED: f64 = 0.97;
/// The loads may have this multiple of the in-flight requests that found the disk's rates.
const DEEPER: usize = 4;

/// Settings of a measurement of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Steps along each axis.
    pub steps: usize,
    pub point_us: u64,
    /// Requests in flight, of all shards together.
    pub small_depth: usize,
    pub large_depth: usize,
}

impl Matrix {
    /// Measures all points, prints each result, and draws `iotune-p50.svg` and `iotune-p95.svg` beside
    /// `output`.
    pub fn run(&self, disk: &ScratchDisk, model: &DiskModel, output: &Path) -> Result<(), IotuneError> {
        let points = self.steps * self.steps;
        let minutes = (points as u64 * self.point_us) as f64 / 60e6;
        println!("{points} points of reads and writes, {minutes:.1} minutes");
        let mut p50 = vec![vec![None; self.steps]; self.steps];
        let mut p95 = p50.clone();
        for row in 0..self.steps {
            for column in 0..self.steps {
                let (reads_s, write_bytes_s) = self.wanted(model, row, column);
                let loads = vec![self.reads(disk, reads_s), self.writes(disk, write_bytes_s)];
                let outcomes = disk.measure(loads, self.point_us)?;
                let (reads, writes) = (&outcomes[0], &outcomes[1]);
                let writes_s = write_bytes_s / WRITE_BYTES as f64;
                let reached = is_reached(reads, reads_s) && is_reached(writes, writes_s);
                let (half_us, most_us) = (reads.percentile_us(0.5), reads.percentile_us(0.95));
                println!(
                    "{:4} of {points}: {:7.0} reads/s, {:6.1} MB/s written: p50 {half_us:.0} us, p95 {most_us:.0} us{}",
                    row * self.steps + column + 1,
                    reads.requests_s(),
                    writes.bytes_s() / 1e6,
                    if reached { "" } else { " (not reached)" },
                );
                if reached {
                    (p50[row][column], p95[row][column]) = (Some(half_us), Some(most_us));
                }
            }
        }
        for (name, cells) in [("p50", p50), ("p95", p95)] {
            let path = output.with_file_name(format!("iotune-{name}.svg"));
            fs::write(&path, heat_map(name, cells, model).svg())
                .map_err(|error| format!("{}: {error}", path.display()))?;
            println!("written to {}", path.display());
        }
        Ok(())
    }

    /// The rates of a point: the middle of its cell.
    fn wanted(&self, model: &DiskModel, row: usize, column: usize) -> (f64, f64) {
        let part = |step: usize| (step as f64 + 0.5) / self.steps as f64;
        (part(row) * model.read_iops as f64, part(column) * model.write_bandwidth_bytes_s as f64)
    }

    fn reads(&self, disk: &ScratchDisk, reads_s: f64) -> ShardLoad {
        ShardLoad {
            direction: Direction::Read,
            bytes: SMALL_BYTES,
            sequential: false,
            depth: (DEEPER * self.small_depth).div_ceil(disk.shards() as usize),
            rate: Some(reads_s / f64::from(disk.shards())),
            class: IoClass::Maintenance,
        }
    }

    fn writes(&self, disk: &ScratchDisk, bytes_s: f64) -> ShardLoad {
        ShardLoad {
            direction: Direction::Write,
            bytes: WRITE_BYTES,
            sequential: true,
            depth: (DEEPER * self.large_depth).div_ceil(disk.shards() as usize),
            rate: Some(bytes_s / WRITE_BYTES as f64 / f64::from(disk.shards())),
            class: IoClass::Maintenance,
        }
    }
}

/// Requests arrive at random times. By chance there may be fewer than the rate demands, rarely by more than
/// twice the square root.
fn is_reached(outcome: &MeasuredRates, requests_s: f64) -> bool {
    let wanted = requests_s * outcome.measured_us as f64 / 1e6;
    outcome.requests as f64 >= REACHED * wanted - 2.0 * wanted.sqrt()
}

fn heat_map(name: &str, cells: Vec<Vec<Option<f64>>>, model: &DiskModel) -> HeatMap {
    let (x_end, y_end) = (model.write_bandwidth_bytes_s as f64 / 1e6, model.read_iops as f64);
    HeatMap {
        title: format!("Latency of reads, {name}"),
        x: "writes of 128 KiB, MB/s".into(),
        y: "reads of 4 KiB, 1/s".into(),
        x_end,
        y_end,
        cells,
        unit: "us".into(),
        line: Some([(0.0, y_end), (x_end, 0.0)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_by_chance_is_forgiven_and_no_more() {
        let reached = |requests, requests_s| {
            let outcome = MeasuredRates { requests, measured_us: 2_000_000, ..MeasuredRates::default() };
            is_reached(&outcome, requests_s)
        };
        assert!(reached(178, 100.0) && !reached(160, 100.0));
        assert!(reached(193_600, 100_000.0) && !reached(192_000, 100_000.0));
    }
}
