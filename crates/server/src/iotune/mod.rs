//! `messina iotune`: what the disk below a directory can do, measured without destroying anything.
//!
//! 1. A scratch file, which has lost its name before the first byte is measured, so that it goes away whatever happens.
//! 2. The file is written whole; then, each for its part of the time: large sequential writes and reads, small random writes and
//!    reads, at full speed, past the page cache.
//! 3. `io_properties.yaml` is written, which [`crate::disk_model`] reads at the start of a node.
//! 4. With `--matrix`, reads of 4 KiB and writes of 128 KiB at steps of both rates: the latencies of reads on the plane of both, with the
//!    model's line. A point that was not reached stays white.

mod measure;

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use iosched::properties::{self, DiskEntry};
use runtime::{
    CpuGroup, Direction, DiskModel, DiskOptions, FileError, IoClass, OpenOptions, Runtime, RuntimeOptions,
    Shard,
};

use crate::config::units::{Bare, parse_bytes, parse_millis};
use crate::plot::HeatMap;
use measure::{Load, Outcome, Window};

/// Requests for bandwidth.
const LARGE_BYTES: usize = 1 << 20;
/// Requests for counts.
const SMALL_BYTES: usize = 4096;
/// Writes of the matrix.
const MATRIX_WRITE_BYTES: usize = 128 << 10;
/// A point counts as reached from this part of what was asked for on.
const REACHED: f64 = 0.97;
/// The scratch file takes no more of what is free.
const FREE_PART: u64 = 4;

/// Measures a disk for the I/O scheduler.
#[derive(Args, Clone, Debug)]
pub struct IotuneArguments {
    /// A directory on the disk.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// For all four measurements together.
    #[arg(long, value_name = "TIME", default_value = "40s")]
    duration: String,
    /// Of the scratch file; a quarter of the free space at most.
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    file_size: String,
    /// Threads that load the disk.
    #[arg(long, value_name = "N", default_value_t = 1)]
    shards: u32,
    /// Large requests at once.
    #[arg(long, value_name = "N", default_value_t = 16)]
    large_depth: usize,
    /// Small requests at once.
    #[arg(long, value_name = "N", default_value_t = 128)]
    small_depth: usize,
    /// Where to write the model.
    #[arg(long, value_name = "FILE", default_value = "io_properties.yaml")]
    output: PathBuf,
    /// Measures so many steps of reads times so many of writes too, and draws iotune-p50.svg and iotune-p95.svg beside the model.
    #[arg(long, value_name = "STEPS")]
    matrix: Option<usize>,
    /// For each point of the matrix.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    point_duration: String,
}

/// What ended a measurement.
type IotuneError = Box<dyn std::error::Error + Send + Sync>;

/// The disk with its load.
struct Bench {
    runtime: Runtime,
    file_bytes: u64,
}

impl IotuneArguments {
    pub fn run(&self) -> Result<(), IotuneError> {
        let duration_us = time_us("--duration", &self.duration)?;
        let point_us = time_us("--point-duration", &self.point_duration)?;
        let wanted_bytes = parse_bytes(&self.file_size, Bare::Refused)
            .ok_or_else(|| format!("--file-size {}: not a size", self.file_size))?;
        let bench = Bench::prepare(&self.dir, wanted_bytes, self.shards.clamp(1, 256))?;
        let measure =
            |what: &str, direction, bytes, depth: usize, part: f64| -> Result<Outcome, IotuneError> {
                println!("measuring {what} ...");
                let depth = depth.div_ceil(bench.shards() as usize);
                let load = Load { direction, bytes, sequential: bytes == LARGE_BYTES, depth, rate: None };
                Ok(bench.measure(vec![load], (duration_us as f64 * part) as u64)?.remove(0))
            };
        let write_bandwidth =
            measure("write bandwidth", Direction::Write, LARGE_BYTES, self.large_depth, 0.4)?;
        let read_bandwidth = measure("read bandwidth", Direction::Read, LARGE_BYTES, self.large_depth, 0.2)?;
        let write_iops = measure("small writes", Direction::Write, SMALL_BYTES, self.small_depth, 0.2)?;
        let read_iops = measure("small reads", Direction::Read, SMALL_BYTES, self.small_depth, 0.2)?;
        let model = DiskModel {
            read_bandwidth_bytes_s: at_least_one(read_bandwidth.bytes_s()),
            write_bandwidth_bytes_s: at_least_one(write_bandwidth.bytes_s()),
            read_iops: at_least_one(read_iops.requests_s()),
            write_iops: at_least_one(write_iops.requests_s()),
            ..DiskModel::NOMINAL
        };
        println!("{}", crate::disk_model::show(&model));
        let mountpoints = vec![fs::canonicalize(&self.dir)?];
        let text = properties::write(&[DiskEntry { mountpoints, model, physical_block_bytes: None }]);
        fs::write(&self.output, text).map_err(|error| format!("{}: {error}", self.output.display()))?;
        println!("written to {}; name it in the option io_properties_file", self.output.display());
        if let Some(steps) = self.matrix {
            self.matrix(&bench, &model, steps.clamp(2, 40), point_us)?;
        }
        bench.runtime.shutdown()?;
        Ok(())
    }

    fn matrix(
        &self,
        bench: &Bench,
        model: &DiskModel,
        steps: usize,
        point_us: u64,
    ) -> Result<(), IotuneError> {
        let mut p50 = vec![vec![None; steps]; steps];
        let mut p95 = p50.clone();
        let part = |step: usize| (step as f64 + 0.5) / steps as f64;
        for (row, reads_s) in (0..steps).map(|row| (row, part(row) * model.read_iops as f64)) {
            for column in 0..steps {
                let write_bytes_s = part(column) * model.write_bandwidth_bytes_s as f64;
                let shards = bench.shards() as f64;
                let depth = |depth: usize| depth.div_ceil(bench.shards() as usize);
                let reads = Load {
                    direction: Direction::Read,
                    bytes: SMALL_BYTES,
                    sequential: false,
                    depth: depth(4 * self.small_depth),
                    rate: Some(reads_s / shards),
                };
                let writes = Load {
                    direction: Direction::Write,
                    bytes: MATRIX_WRITE_BYTES,
                    sequential: true,
                    depth: depth(4 * self.large_depth),
                    rate: Some(write_bytes_s / MATRIX_WRITE_BYTES as f64 / shards),
                };
                let outcomes = bench.measure(vec![reads, writes], point_us)?;
                let reached = outcomes[0].requests_s() >= REACHED * reads_s
                    && outcomes[1].bytes_s() >= REACHED * write_bytes_s;
                let latencies = &outcomes[0].latencies_us;
                let (half, most) = (latencies.percentile(0.5), latencies.percentile(0.95));
                println!(
                    "{:7.0} reads/s, {:5.0} MB/s writes: p50 {half} us, p95 {most} us{}",
                    outcomes[0].requests_s(),
                    outcomes[1].bytes_s() / 1e6,
                    if reached { "" } else { " (not reached)" },
                );
                if reached {
                    (p50[row][column], p95[row][column]) = (Some(half as f64), Some(most as f64));
                }
            }
        }
        for (name, cells) in [("p50", p50), ("p95", p95)] {
            let (x_end, y_end) = (model.write_bandwidth_bytes_s as f64 / 1e6, model.read_iops as f64);
            let map = HeatMap {
                title: format!("Latency of reads, {name}"),
                x: "writes of 128 KiB, MB/s".into(),
                y: "reads of 4 KiB, 1/s".into(),
                x_end,
                y_end,
                cells,
                unit: "us".into(),
                line: Some([(0.0, y_end), (x_end, 0.0)]),
            };
            let path = self.output.with_file_name(format!("iotune-{name}.svg"));
            fs::write(&path, map.svg()).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("written to {}", path.display());
        }
        Ok(())
    }
}

impl Bench {
    /// Makes the scratch file and fills it.
    fn prepare(dir: &Path, wanted_bytes: u64, shards: u32) -> Result<Self, IotuneError> {
        // Nothing may hold the load back.
        let disk = DiskOptions { latency_goal_ns: 1 << 60, ..DiskOptions::default() };
        let runtime =
            Runtime::start(RuntimeOptions { shards, disk, ..RuntimeOptions::default() }, |_| async {})?;
        let path = dir.join(format!(".messina-iotune-{}", std::process::id()));
        let remote = runtime.remote();
        let to = path.clone();
        let made = remote.call(0, CpuGroup::Statement, move |shard| async move {
            let files = shard.files();
            let free_bytes = files.free_bytes(to.parent().unwrap_or(&to)).await?;
            let align = (LARGE_BYTES as u64) * u64::from(shards);
            let file_bytes = wanted_bytes.min(free_bytes / FREE_PART) / align * align;
            let options = OpenOptions::create_new().with_direct(true);
            let file = files.open(&to, options).await?;
            if file_bytes > 0 {
                file.allocate(0, file_bytes).await?;
            }
            Ok::<_, FileError>((file_bytes, file.is_direct()))
        });
        let made = made.wait()?;
        let opened: Result<Vec<_>, _> = (0..shards)
            .map(|shard| {
                let path = path.clone();
                remote
                    .call(shard, CpuGroup::Statement, move |shard| async move {
                        let options = OpenOptions::read_write().with_direct(true);
                        let file = shard.files().open(&path, options).await?;
                        shard.set_local(std::rc::Rc::new(file));
                        Ok::<_, FileError>(())
                    })
                    .wait()
            })
            .collect();
        // From here on nobody finds it any more.
        let removed = fs::remove_file(&path);
        let (file_bytes, is_direct) = made?;
        opened?.into_iter().collect::<Result<(), _>>()?;
        removed?;
        if file_bytes < 64 << 20 {
            return Err(format!("{}: there must be 256 MiB free at least", dir.display()).into());
        }
        if !is_direct {
            println!("this file system has no direct I/O: what is measured is memory as well as disk");
        }
        println!("filling {} MiB in {} ...", file_bytes >> 20, dir.display());
        let bench = Self { runtime, file_bytes };
        bench.fill()?;
        Ok(bench)
    }

    fn shards(&self) -> u32 {
        self.runtime.remote().shard_count()
    }

    /// Writes every byte once.
    fn fill(&self) -> Result<(), IotuneError> {
        let part_bytes = self.file_bytes / u64::from(self.shards());
        let filled = self.on_all(move |shard| async move {
            let file = scratch(&shard);
            let mut buf = runtime::IoBuf::zeroed(LARGE_BYTES);
            base::rng::Rng::new(shard.random_u64()).fill(&mut buf);
            let from = u64::from(shard.id()) * part_bytes;
            for at in (from..from + part_bytes).step_by(LARGE_BYTES) {
                buf = file.write_at(at, buf, IoClass::Maintenance).await?;
            }
            file.sync_data().await
        });
        filled.map(drop)
    }

    /// Loads the disk from all shards; an outcome for each load.
    fn measure(&self, loads: Vec<Load>, for_us: u64) -> Result<Vec<Outcome>, IotuneError> {
        let warm_up_us = for_us / 10;
        let window = Window {
            file_bytes: self.file_bytes,
            shards: u64::from(self.shards()),
            warm_up_us,
            measure_us: (for_us - warm_up_us).max(1),
        };
        let loads = Arc::new(loads);
        let outcomes = self.on_all(move |shard| {
            let loads = Arc::clone(&loads);
            async move { measure::run(&shard, &scratch(&shard), &loads, window).await }
        })?;
        let count = outcomes.first().map_or(0, Vec::len);
        let of_load = |load: usize| Outcome::sum(outcomes.iter().map(|of_shard| of_shard[load].clone()));
        Ok((0..count).map(of_load).collect())
    }

    /// Runs `f` on all shards at once.
    fn on_all<T, F, Fut>(&self, f: F) -> Result<Vec<T>, IotuneError>
    where
        T: Send + 'static,
        F: Fn(Shard) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Result<T, FileError>> + 'static,
    {
        let remote = self.runtime.remote();
        let started: Vec<_> =
            (0..self.shards()).map(|shard| remote.call(shard, CpuGroup::Statement, f.clone())).collect();
        started.into_iter().map(|reply| Ok(reply.wait()??)).collect()
    }
}

/// The scratch file, as a shard has it open.
fn scratch(shard: &Shard) -> runtime::File {
    (*shard.local::<runtime::File>().expect("opened at the start")).clone()
}

fn time_us(flag: &str, text: &str) -> Result<u64, IotuneError> {
    let wrong = |text: &dyn Display| format!("{flag} {text}: {}", crate::config::units::DURATION_FORM);
    let millis = parse_millis(text, Bare::Seconds).filter(|millis| (100..=86_400_000).contains(millis));
    Ok(millis.ok_or_else(|| wrong(&text))? * 1000)
}

fn at_least_one(rate: f64) -> u64 {
    (rate as u64).max(1)
}
