//! The loads of `bench io`, and their curves: reads alone, and during a compaction with the scheduler on and
//! off.

use std::array::from_fn;
use std::fmt::Write;

use messina::iotune::measure::{MeasuredRates, ShardLoad};
use messina::iotune::{LARGE_BYTES, SMALL_BYTES};
use messina::plot::{Line, Lines};
use runtime::{Direction, DiskModel, IoClass};

use super::rounds::{self, Round};
use crate::BenchError;
use crate::report::{Report, Sample};
use crate::stopwatch::Stopwatch;

/// Reads per second, as fractions of the disk's maximum; 0: the compaction alone.
pub const READS: [f64; 6] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4];
/// Requests of the compaction in flight, in each direction.
const COMPACTION_DEPTH: usize = 16;
/// Maximum number of reads in flight, so that a late read does not delay the others.
const READ_DEPTH: usize = 256;

/// The work that runs at the same time as the reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    Nothing,
    /// A compaction, with the scheduler.
    On,
    /// A compaction, without the scheduler.
    Off,
}

impl Background {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::On, Self::Off];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// The results of one load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    pub reads_s: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    /// Bytes per second read and written by the compaction.
    pub compacted_bytes_s: f64,
    /// Fraction of the disk's time in use, computed by its model as if the compaction's requests were not
    /// split.
    pub used: f64,
    /// Fraction of the rounds' time during which other virtual machines used the core.
    pub stolen: f64,
}

/// Points by ascending read rates; for each rate: alone, on, off.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name used in figures and files.
    pub place: &'static str,
    pub disk: DiskModel,
    pub points: Vec<(f64, [Option<Point>; 3])>,
}

/// The loads of `reads_s` reads per second and the work beside them. The first load is the reads, if there
/// are any.
fn loads(reads_s: f64, beside: Background) -> Vec<ShardLoad> {
    let mut loads = vec![];
    if reads_s > 0.0 {
        loads.push(ShardLoad {
            direction: Direction::Read,
            bytes: SMALL_BYTES,
            sequential: false,
            depth: READ_DEPTH,
            rate: Some(reads_s),
            class: IoClass::Statement,
        });
    }
    if beside != Background::Nothing {
        loads.extend([Direction::Read, Direction::Write].map(|direction| ShardLoad {
            direction,
            bytes: LARGE_BYTES,
            sequential: true,
            depth: COMPACTION_DEPTH,
            rate: None,
            class: IoClass::Compaction,
        }));
    }
    loads
}

impl Curve {
    /// Measures all points by `measure`, which runs loads and returns their results. Each point is measured
    /// alone, on and off in turn, because the speed of disk and core may change. The least disturbed `rounds`
    /// rounds are used. `stolen_us` returns the steal time of the core so far, in microseconds.
    pub fn measured(
        place: &'static str,
        disk: DiskModel,
        rounds: u32,
        stolen_us: impl Fn() -> u64,
        mut measure: impl FnMut(Vec<ShardLoad>, Background) -> Result<Vec<MeasuredRates>, BenchError>,
    ) -> Result<Self, BenchError> {
        let mut points = vec![];
        for part in READS {
            let reads_s = part * disk.read_iops as f64;
            let rounds = rounds::least_disturbed(rounds, || {
                let (watch, before_us) = (Stopwatch::start(), stolen_us());
                let mut measured = [None; 3];
                for (beside, point) in Background::ALL.into_iter().zip(&mut measured) {
                    let loads = loads(reads_s, beside);
                    if !loads.is_empty() {
                        *point = Some(Point::of(&disk, reads_s > 0.0, &measure(loads, beside)?));
                    }
                }
                let stolen = stolen_us().saturating_sub(before_us) as f64 / 1e6 / watch.spent().wall_s;
                Ok(Round { measured, stolen })
            })?;
            points.push((reads_s, from_fn(|at| Point::median(&rounds, at))));
        }
        Ok(Self { place, disk, points })
    }

    /// The table for users.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}: latency of reads in us, and MB/s read and written by a compaction beside them\n",
            self.place
        );
        writeln!(
            text,
            "{:>9} | {:^22} | {:^38} | {:^38}",
            "reads/s", "alone", "scheduler on", "scheduler off"
        )
        .expect("a string takes everything");
        let of_compaction = format!("{:>6} {:>7} {:>7} {:>8} {:>6}", "p50", "p95", "p99", "MB/s", "disk");
        writeln!(
            text,
            "{:>9} | {:>6} {:>7} {:>7} | {of_compaction} | {of_compaction}",
            "", "p50", "p95", "p99"
        )
        .expect("a string takes everything");
        for (reads_s, [alone, on, off]) in &self.points {
            let latencies = |point: &Option<Point>| match point {
                Some(point) if point.reads_s > 0.0 => {
                    format!("{:>6.0} {:>7.0} {:>7.0}", point.p50_us, point.p95_us, point.p99_us)
                }
                _ => format!("{:>22}", ""),
            };
            let beside = |point: &Option<Point>| {
                let Point { compacted_bytes_s, used, .. } = point.unwrap_or_default();
                format!("{} {:>8.1} {:>5.0}%", latencies(point), compacted_bytes_s / 1e6, used * 100.0)
            };
            let (alone, on, off) = (latencies(alone), beside(on), beside(off));
            writeln!(text, "{reads_s:>9.0} | {alone} | {on} | {off}").expect("a string takes everything");
        }
        for (reads_s, points) in &self.points {
            if let [Some(alone), Some(on), Some(off)] = points {
                let stolen = match on.stolen > 0.0 {
                    true => format!("; others had the core for {:.1} % of the time", on.stolen * 100.0),
                    false => String::new(),
                };
                writeln!(
                    text,
                    "{reads_s:.0} reads/s: p95 on is {:.2} times alone, off {:.2} times on{stolen}",
                    on.p95_us / alone.p95_us,
                    off.p95_us / on.p95_us
                )
                .expect("a string takes everything");
            }
        }
        text
    }

    /// Adds a figure for each value.
    pub fn add_to(&self, report: &mut Report) {
        for (reads_s, points) in &self.points {
            for (beside, point) in Background::ALL.into_iter().zip(points) {
                let Some(point) = point else { continue };
                let percent = reads_s / self.disk.read_iops as f64 * 100.0;
                let name =
                    |what: &str| format!("{}/{percent:.0}% reads/{}/{what}", self.place, beside.name());
                let mut add =
                    |what: &str, unit, value| report.add(&name(what), unit, Sample { value, cpu_us: None });
                if *reads_s > 0.0 {
                    add("reads", "1/s", point.reads_s);
                    add("p50", "us", point.p50_us);
                    add("p95", "us", point.p95_us);
                    add("p99", "us", point.p99_us);
                }
                if beside != Background::Nothing {
                    add("compaction", "MB/s", point.compacted_bytes_s / 1e6);
                }
                add("disk", "%", point.used * 100.0);
                add("stolen", "%", point.stolen * 100.0);
            }
        }
    }

    /// Plots p95 by load.
    pub fn plot(&self) -> Lines {
        let line = |at: usize, name: &str| Line {
            name: name.to_string(),
            points: self
                .points
                .iter()
                .filter(|(reads_s, _)| *reads_s > 0.0)
                .filter_map(|(reads_s, points)| Some((*reads_s, points[at]?.p95_us)))
                .collect(),
        };
        Lines {
            title: format!("p95 of reads of 4 KiB ({})", self.place),
            x: "reads, 1/s".to_string(),
            y: "us".to_string(),
            lines: vec![
                line(0, "alone"),
                line(1, "beside a compaction, scheduler on"),
                line(2, "beside a compaction, scheduler off"),
            ],
            log_y: true,
            dots: true,
        }
    }
}

impl Point {
    /// The medians over all rounds of the measurement with index `at`.
    fn median(rounds: &[Round<[Option<Self>; 3]>], at: usize) -> Option<Self> {
        let points: Option<Vec<Self>> = rounds.iter().map(|round| round.measured[at]).collect();
        let points = points?;
        let of = |value: fn(&Self) -> f64| rounds::median(points.iter().map(value));
        Some(Self {
            reads_s: of(|point| point.reads_s),
            p50_us: of(|point| point.p50_us),
            p95_us: of(|point| point.p95_us),
            p99_us: of(|point| point.p99_us),
            compacted_bytes_s: of(|point| point.compacted_bytes_s),
            used: of(|point| point.used),
            stolen: rounds::median(rounds.iter().map(|round| round.stolen)),
        })
    }

    fn of(disk: &DiskModel, has_reads: bool, outcomes: &[MeasuredRates]) -> Self {
        let (reads, compaction) = outcomes.split_at(usize::from(has_reads));
        let mut point = Self {
            compacted_bytes_s: compaction.iter().map(MeasuredRates::bytes_s).sum(),
            ..Self::default()
        };
        if let [reads] = reads {
            point.reads_s = reads.requests_s();
            [point.p50_us, point.p95_us, point.p99_us] =
                [0.5, 0.95, 0.99].map(|share| reads.percentile_us(share));
            point.used = reads.requests_s() * disk.cost_ns(Direction::Read, SMALL_BYTES as u64) as f64 / 1e9;
        }
        for (outcome, direction) in compaction.iter().zip([Direction::Read, Direction::Write]) {
            let cost_ns = disk.cost_ns(direction, LARGE_BYTES as u64) as f64 / LARGE_BYTES as f64;
            point.used += outcome.bytes_s() * cost_ns / 1e9;
        }
        point
    }
}
