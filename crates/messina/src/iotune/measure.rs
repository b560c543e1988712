//! Generates load on a disk, at full speed or at a given rate, and measures it.
//!
//! Each shard keeps a number of requests to a scratch file in flight, past the page cache. Only requests that
//! complete inside the window count. For a load that is the only one of its class and direction, the bytes
//! are those that its class moved inside the window, so parts of a request count too. With a rate, requests
//! begin at random times with that average rate, independent of the completion of earlier requests, as far as
//! the limit in flight allows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::rng::Rng;
use iosched::Latencies;
use runtime::{CpuGroup, Direction, File, FileError, IoBuf, IoClass, IoStats, JoinHandle, Shard};

/// The load by one shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardLoad {
    pub direction: Direction,
    pub bytes: usize,
    /// Whether requests are consecutive, each shard in its own part of the file; otherwise they are at random
    /// places.
    pub sequential: bool,
    /// Requests in flight.
    pub depth: usize,
    /// Requests per second; `None`: as many as the disk serves.
    pub rate: Option<f64>,
    pub class: IoClass,
}

/// The file's length and the times of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub file_bytes: u64,
    pub shards: u64,
    pub warm_up_us: u64,
    pub measure_us: u64,
}

/// The result, of one shard or of all.
#[derive(Clone, Debug, Default)]
pub struct MeasuredRates {
    pub requests: u64,
    pub bytes: u64,
    pub measured_us: u64,
    pub latencies: Latencies,
}

impl MeasuredRates {
    /// The sum over all shards.
    pub fn sum(outcomes: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self { measured_us: 1, ..Self::default() };
        for outcome in outcomes {
            sum.requests += outcome.requests;
            sum.bytes += outcome.bytes;
            sum.measured_us = outcome.measured_us.max(1);
            sum.latencies.merge(&outcome.latencies);
        }
        sum
    }

    pub fn requests_s(&self) -> f64 {
        self.requests as f64 * 1e6 / self.measured_us as f64
    }

    pub fn bytes_s(&self) -> f64 {
        self.bytes as f64 * 1e6 / self.measured_us as f64
    }

    /// The latency in microseconds that a fraction `share` of the requests did not exceed.
    pub fn percentile_us(&self, share: f64) -> f64 {
        self.latencies.percentile_ns(share) as f64 / 1e3
    }
}

/// Runs several loads concurrently on this shard; returns an outcome for each.
pub async fn run(
    shard: &Shard,
    file: &File,
    loads: &[ShardLoad],
    window: Window,
) -> Result<Vec<MeasuredRates>, FileError> {
    let from_us = shard.now_us() + window.warm_up_us;
    let until_us = from_us + window.measure_us;
    let before = moved_at(shard, from_us);
    let after = moved_at(shard, until_us);
    let mut running = vec![];
    for load in loads {
        let outcome = Rc::new(RefCell::new(MeasuredRates {
            measured_us: window.measure_us,
            ..MeasuredRates::default()
        }));
        let next = Rc::new(Cell::new(0));
        let workers: Vec<_> = (0..load.depth.max(1))
            .map(|_| {
                let worker = Worker {
                    shard: shard.clone(),
                    file: file.clone(),
                    load: *load,
                    window,
                    next: Rc::clone(&next),
                    outcome: Rc::clone(&outcome),
                };
                shard.spawn(load.class.group(), worker.work(from_us, until_us))
            })
            .collect();
        running.push((workers, outcome));
    }
    let mut outcomes = vec![];
    for (workers, outcome) in running {
        for worker in workers {
            worker.await?;
        }
        outcomes.push(outcome.borrow().clone());
    }
    let (before, after) = (before.await, after.await);
    for (load, outcome) in loads.iter().zip(&mut outcomes) {
        let same = |other: &&ShardLoad| (other.class, other.direction) == (load.class, load.direction);
        if loads.iter().filter(same).count() == 1 {
            outcome.bytes = moved(&after, load) - moved(&before, load);
        }
    }
    Ok(outcomes)
}

/// The statistics of each I/O class at a future time.
fn moved_at(shard: &Shard, at_us: u64) -> JoinHandle<Vec<IoStats>> {
    let clock = shard.clone();
    shard.spawn(CpuGroup::Statement, async move {
        clock.sleep_us(at_us.saturating_sub(clock.now_us())).await;
        clock.io_stats()
    })
}

fn moved(stats: &[IoStats], load: &ShardLoad) -> u64 {
    let of_class = stats.iter().find(|stats| stats.class == load.class);
    of_class.map_or(0, |stats| match load.direction {
        Direction::Read => stats.counters.read_bytes,
        Direction::Write => stats.counters.write_bytes,
    })
}

/// A task that keeps one request in flight.
struct Worker {
    shard: Shard,
    file: File,
    load: ShardLoad,
    window: Window,
    /// The next position of a sequential load.
    next: Rc<Cell<u64>>,
    outcome: Rc<RefCell<MeasuredRates>>,
}

impl Worker {
    async fn work(self, from_us: u64, until_us: u64) -> Result<(), FileError> {
        let Self { shard, file, load, .. } = &self;
        let mut rng = Rng::new(shard.random_u64());
        let mut buf = IoBuf::new();
        if load.direction == Direction::Write {
            buf.resize_zeroed(load.bytes);
            // A disk may be faster with zeros.
            rng.fill(&mut buf);
        }
        let pause_us = load.rate.map(|rate| 1e6 * load.depth.max(1) as f64 / rate.max(1.0));
        let mut due_us = shard.now_us() as f64;
        loop {
            if let Some(pause_us) = pause_us {
                let uniform = (rng.below(1 << 32) as f64 + 1.0) / (1_u64 << 32) as f64;
                due_us += -uniform.ln() * pause_us;
                let now_us = shard.now_us();
                if (due_us as u64) > now_us {
                    shard.sleep_us(due_us as u64 - now_us).await;
                }
            }
            let began_us = shard.now_us();
            if began_us >= until_us {
                return Ok(());
            }
            let at = self.place(&mut rng);
            match load.direction {
                Direction::Read => drop(file.read_at(at, load.bytes, load.class).await?),
                Direction::Write => buf = file.write_at(at, buf, load.class).await?,
            }
            let ended_us = shard.now_us();
            if (from_us..=until_us).contains(&ended_us) {
                let outcome = &mut *self.outcome.borrow_mut();
                outcome.requests += 1;
                outcome.bytes += load.bytes as u64;
                outcome.latencies.add((ended_us - began_us) * 1000);
            }
        }
    }

    fn place(&self, rng: &mut Rng) -> u64 {
        let bytes = self.load.bytes as u64;
        if !self.load.sequential {
            return rng.below((self.window.file_bytes / bytes).max(1)) * bytes;
        }
        let places = (self.window.file_bytes / self.window.shards / bytes).max(1);
        let number = self.next.get();
        self.next.set((number + 1) % places);
        (u64::from(self.shard.id()) * places + number) * bytes
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use runtime::OpenOptions;
    use runtime::sim::{FaultPlan, SimOptions, SimWorld};
    use runtime::{DiskModel, DiskOptions};

    use super::*;

    const DISK: DiskModel = DiskModel {
        read_bandwidth_bytes_s: 800_000_000,
        write_bandwidth_bytes_s: 400_000_000,
        read_iops: 20_000,
        write_iops: 10_000,
        ..DiskModel::NOMINAL
    };

    fn measure(loads: Vec<ShardLoad>) -> Vec<MeasuredRates> {
        let faults = FaultPlan { disk_speed: Some(DISK), disk_channels: 4, ..FaultPlan::default() };
        let disk = DiskOptions { latency_goal_ns: 1 << 60, ..DiskOptions::default() };
        let world = SimWorld::new(SimOptions { faults, disk, by_shares: true, ..SimOptions::default() });
        world.disk().write(Path::new("/d/scratch"), &vec![1; 16 << 20]).unwrap();
        let node = world.start_node(|_| async {}).unwrap();
        let window = Window { file_bytes: 16 << 20, shards: 1, warm_up_us: 20_000, measure_us: 300_000 };
        world
            .block_on(&node, 0, |shard| async move {
                let options = OpenOptions::read_write().with_direct(true);
                let file = shard.files().open(Path::new("/d/scratch"), options).await.unwrap();
                run(&shard, &file, &loads, window).await.unwrap()
            })
            .unwrap()
    }

    fn load(direction: Direction, bytes: usize, rate: Option<f64>) -> ShardLoad {
        ShardLoad {
            direction,
            bytes,
            sequential: bytes > 65536,
            depth: 32,
            rate,
            class: IoClass::Maintenance,
        }
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.05, "{found} is not near {expected}");
    }

    #[test]
    fn a_known_disk_is_found_as_it_is() {
        let per_s = |cost_ns: u64| 1e9 / cost_ns as f64;
        for (direction, bytes) in
            [(Direction::Write, 1 << 20), (Direction::Read, 4096), (Direction::Write, 4096)]
        {
            let outcome = measure(vec![load(direction, bytes, None)]).remove(0);
            near(outcome.requests_s(), per_s(DISK.cost_ns(direction, bytes as u64)));
            near(outcome.bytes_s(), outcome.requests_s() * bytes as f64);
        }
    }

    #[test]
    fn a_rate_is_kept_if_the_disk_can() {
        let loads =
            vec![load(Direction::Read, 4096, Some(5_000.0)), load(Direction::Write, 131_072, Some(500.0))];
        let outcomes = measure(loads);
        assert!((outcomes[0].requests_s() / 5_000.0 - 1.0).abs() < 0.1, "{}", outcomes[0].requests_s());
        assert!((outcomes[1].requests_s() / 500.0 - 1.0).abs() < 0.25, "{}", outcomes[1].requests_s());
        let too_much = measure(vec![load(Direction::Read, 4096, Some(50_000.0))]).remove(0);
        assert!(too_much.requests_s() < 20_000.0);
    }
}
