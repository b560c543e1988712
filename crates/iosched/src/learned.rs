//! Estimates a disk's rates from the requests that it serves in production.
//!
//! 1. Time is divided into windows. At the end of a window, the traffic of all shards gives the disk's
//!    position on the [`Plane`], and the latencies of this shard's short reads are added there.
//! 2. A window is busy if its requests took [`BUSY_TIMES`] as long as requests take on a disk with little
//!    load. The traffic of a busy window is all that the disk can serve. The latency under little load is the
//!    smallest mean of any window, kept by direction and size.
//! 3. Busy windows lie on the line of the [`DiskModel`]. Damped least squares fits the costs of requests and
//!    bytes such that the cost of each window equals its length; older windows weigh less. Costs that busy
//!    windows cannot separate change in proportion.
//!
//! A disk that is never busy is not fitted; only the greatest rates observed are known. A rate is reported
//! only after [`BUSY_WINDOWS_MIN`] busy windows, and only if they determine it: at least [`DETERMINED`] of it
//! must come from them and not from the previous model. Requests that the page cache may have answered carry
//! no information about the disk and are ignored.
//!
//! State is bounded: a plane, the sums of a 4 × 4 system, and a mean for each size. Shards share no state;
//! their reports are added.

use crate::model::{Direction, DiskModel};
use crate::plane::{Plane, PlaneCell};

/// Minimal length of a window. It ends with the first request that completes after that.
pub const WINDOW_NS: u64 = 100_000_000;
/// A window is busy from this ratio of its latency to the latency under little load.
pub const BUSY_TIMES: f64 = 3.0;
/// The longest read whose latency is added to the plane, in bytes.
pub const SHORT_READ_BYTES: u64 = 64 << 10;

/// With fewer busy windows no rate is fitted.
pub const BUSY_WINDOWS_MIN: u64 = 10;

/// A rate is known if at least this part of it comes from busy windows and the remainder from the previous
/// model. The part is the diagonal element of the resolution matrix of the damped least squares.
const DETERMINED: f64 = 0.8;
/// A longer window contains a pause and is ignored.
const WHOLE_NS: u64 = 2 * WINDOW_NS;
/// The smallest number of requests of a kind whose mean is used.
const REQUESTS_MIN: u64 = 4;
/// The smallest mean of a kind grows by this part per window, so that an outdated minimum is forgotten.
const FORGOTTEN: f64 = 1.0 / 512.0;
/// Decay: each busy window multiplies the weight of the earlier ones by this factor.
const KEPT: f64 = 0.999;
/// Damping: the weight of the previous model where busy windows do not determine a cost.
const HOLD: f64 = 0.01;
/// The common factor of all fitted costs is at least a 64th of the previous model's costs and at most 64
/// times them. A single cost differs from that factor by at most a factor of 8.
const MULTIPLE_MAX: f64 = 64.0;
/// A kind of cost counts as observed if it makes up this part of the cost of busy windows.
const SEEN_PART: f64 = 0.02;
/// Number of size classes: powers of two, from 4 KiB.
const SIZES: usize = 13;

/// Requests of all shards that bypassed the page cache and completed since the start, and the bytes that they
/// moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    pub direction: Direction,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Requests of all shards in flight when it was started, including itself.
    pub in_flight: u64,
    /// Time from its start to its completion.
    pub latency_ns: u64,
}

/// Estimate of one of the four rates of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// The greatest rate of any window, per second.
    pub greatest_s: f64,
    /// The fitted rate of the disk with no other load, per second; `None` if busy windows do not determine
    /// it.
    pub fitted_s: Option<f64>,
}

/// Estimates for a disk, by one shard or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// Latency of short reads by load.
    pub plane: Plane,
    /// Number of windows without a pause.
    pub windows: u64,
    /// Number of windows in which the disk was busy.
    pub busy_windows: u64,
    /// Small reads per second.
    pub read_iops: Rate,
    /// Bytes per second of large reads.
    pub read_bandwidth: Rate,
    /// Small writes per second.
    pub write_iops: Rate,
    /// Bytes per second of large writes.
    pub write_bandwidth: Rate,
}

impl Learned {
    /// Adds the estimates of another shard for the same disk. Fitted rates are averaged, weighted by the
    /// number of busy windows.
    pub fn merge(&mut self, other: &Self) {
        self.plane.merge(&other.plane);
        let weights = (self.busy_windows as f64, other.busy_windows as f64);
        let rates = [
            (&mut self.read_iops, &other.read_iops),
            (&mut self.read_bandwidth, &other.read_bandwidth),
            (&mut self.write_iops, &other.write_iops),
            (&mut self.write_bandwidth, &other.write_bandwidth),
        ];
        for (mine, others) in rates {
            mine.greatest_s = mine.greatest_s.max(others.greatest_s);
            mine.fitted_s = match (mine.fitted_s, others.fitted_s) {
                (Some(a), Some(b)) => Some((a * weights.0 + b * weights.1) / (weights.0 + weights.1)),
                (a, b) => a.or(b),
            };
        }
        self.windows += other.windows;
        self.busy_windows += other.busy_windows;
    }

    /// The model; `None` unless all four rates were fitted.
    pub fn model(&self) -> Option<DiskModel> {
        let rate = |rate: &Rate| rate.fitted_s.map(|fitted_s| (fitted_s as u64).max(1));
        Some(DiskModel {
            read_iops: rate(&self.read_iops)?,
            read_bandwidth_bytes_s: rate(&self.read_bandwidth)?,
            write_iops: rate(&self.write_iops)?,
            write_bandwidth_bytes_s: rate(&self.write_bandwidth)?,
            ..DiskModel::NOMINAL
        })
    }
}

/// Requests of one direction and size.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    requests: u64,
    latency_ns: u64,
    /// The smallest mean of any window; 0: no window yet.
    least_ns: f64,
}

/// Estimator of one shard. See the head of the file.
#[derive(Debug)]
pub struct Learner {
    believed: DiskModel,
    began_ns: u64,
    traffic: Traffic,
    seen: PlaneCell,
    kinds: [[Kind; SIZES]; 2],
    plane: Plane,
    windows: u64,
    busy_windows: u64,
    greatest_s: [f64; 4],
    /// Sums over busy windows. `sums`: cost by the previous model, as a part of the window's length;
    /// `products`: products of two such costs.
    sums: [f64; 4],
    products: [[f64; 4]; 4],
}

impl Learner {
    /// `believed` is the previous model, in units of which the fit is expressed. Any model works; the closer
    /// it is, the fewer windows are needed.
    pub fn new(believed: DiskModel) -> Self {
        Self {
            believed,
            began_ns: 0,
            traffic: Traffic::default(),
            seen: PlaneCell::default(),
            kinds: Default::default(),
            plane: Plane::default(),
            windows: 0,
            busy_windows: 0,
            greatest_s: [0.0; 4],
            sums: [0.0; 4],
            products: [[0.0; 4]; 4],
        }
    }

    /// Records a request that completed at `now_ns`. `traffic` returns the traffic of all shards; it is
    /// called once per window.
    #[inline]
    pub fn observe(&mut self, observation: Observation, now_ns: u64, traffic: impl FnOnce() -> Traffic) {
        if now_ns.saturating_sub(self.began_ns) >= WINDOW_NS {
            self.close(now_ns, traffic());
        }
        let Observation { direction, bytes, in_flight, latency_ns } = observation;
        let size = (bytes.max(1).ilog2().saturating_sub(12) as usize).min(SIZES - 1);
        let kind = &mut self.kinds[direction as usize][size];
        kind.requests += 1;
        kind.latency_ns += latency_ns;
        if direction == Direction::Read && bytes <= SHORT_READ_BYTES {
            self.seen.in_flight += in_flight;
            self.seen.latencies.add(latency_ns);
        }
    }

    /// The estimates so far.
    pub fn learned(&self) -> Learned {
        let fitted = self.fitted();
        let believed = [
            self.believed.read_iops,
            self.believed.read_bandwidth_bytes_s,
            self.believed.write_iops,
            self.believed.write_bandwidth_bytes_s,
        ];
        let rate = |at: usize| Rate {
            greatest_s: self.greatest_s[at],
            fitted_s: fitted.and_then(|fitted| fitted[at]).map(|multiple| believed[at] as f64 / multiple),
        };
        Learned {
            plane: self.plane.clone(),
            windows: self.windows,
            busy_windows: self.busy_windows,
            read_iops: rate(0),
            read_bandwidth: rate(1),
            write_iops: rate(2),
            write_bandwidth: rate(3),
        }
    }

    #[cold]
    fn close(&mut self, now_ns: u64, traffic: Traffic) {
        let took_ns = now_ns - self.began_ns;
        let before = std::mem::replace(&mut self.traffic, traffic);
        self.began_ns = now_ns;
        let (slowed, judged) = self.slowed();
        let amounts = [
            traffic.reads - before.reads,
            traffic.read_bytes - before.read_bytes,
            traffic.writes - before.writes,
            traffic.write_bytes - before.write_bytes,
        ];
        let rates = amounts.map(|amount| amount as f64 * 1e9 / took_ns as f64);
        if self.seen.latencies.count() > 0 {
            self.seen.windows = 1;
            self.plane.add(rates[0], rates[3], &self.seen);
            self.seen.windows = 0;
            self.seen.in_flight = 0;
            self.seen.latencies.clear();
        }
        if took_ns > WHOLE_NS {
            return;
        }
        self.windows += 1;
        for (greatest, rate) in self.greatest_s.iter_mut().zip(rates) {
            *greatest = greatest.max(rate);
        }
        if judged && slowed >= BUSY_TIMES {
            self.busy(rates);
        }
    }

    /// The mean latency in the window divided by the latency under little load, and whether enough requests
    /// were seen to judge it.
    fn slowed(&mut self) -> (f64, bool) {
        let (mut took_ns, mut least_ns) = (0.0, 0.0);
        for kind in self.kinds.iter_mut().flatten() {
            let requests = std::mem::take(&mut kind.requests);
            let latency_ns = std::mem::take(&mut kind.latency_ns) as f64;
            if requests < REQUESTS_MIN {
                continue;
            }
            let mean_ns = latency_ns / requests as f64;
            if kind.least_ns == 0.0 || mean_ns < kind.least_ns {
                kind.least_ns = mean_ns;
            } else {
                kind.least_ns *= 1.0 + FORGOTTEN;
            }
            took_ns += latency_ns;
            least_ns += kind.least_ns * requests as f64;
        }
        (took_ns / least_ns.max(1.0), least_ns > 0.0)
    }

    fn busy(&mut self, rates: [f64; 4]) {
        let parts = [
            rates[0] / self.believed.read_iops as f64,
            rates[1] / self.believed.read_bandwidth_bytes_s as f64,
            rates[2] / self.believed.write_iops as f64,
            rates[3] / self.believed.write_bandwidth_bytes_s as f64,
        ];
        self.busy_windows += 1;
        for (row, part) in parts.into_iter().enumerate() {
            self.sums[row] = self.sums[row] * KEPT + part;
            for (column, other) in parts.into_iter().enumerate() {
                self.products[row][column] = self.products[row][column] * KEPT + part * other;
            }
        }
    }

    /// The ratio of each fitted cost to the previous model's; `None` where busy windows do not determine it.
    fn fitted(&self) -> Option<[Option<f64>; 4]> {
        if self.busy_windows < BUSY_WINDOWS_MIN {
            return None;
        }
        let cost: f64 = self.sums.iter().sum();
        let square: f64 = self.products.iter().flatten().sum();
        // The single factor for all costs that fits best.
        let multiple = (cost / square).clamp(1.0 / MULTIPLE_MAX, MULTIPLE_MAX);
        let hold = HOLD * (0..4).map(|at| self.products[at][at]).sum::<f64>() / 4.0;
        let mut fixed = [None; 4];
        let multiples = loop {
            let (mut matrix, mut right) = (self.products, self.sums);
            for at in 0..4 {
                matrix[at][at] += hold;
                right[at] += hold * multiple;
                if let Some(value) = fixed[at] {
                    (matrix[at], right[at]) = ([0.0; 4], value);
                    matrix[at][at] = 1.0;
                }
            }
            let solved = solve(matrix, right);
            // A cost that differs from the common factor by more than a factor of 8 (or is negative) is fixed
            // at that bound, and the others are fitted again.
            let wrong = (0..4).find(|at| !(multiple / 8.0..=multiple * 8.0).contains(&solved[*at]));
            match wrong.filter(|at| fixed[*at].is_none()) {
                Some(at) => fixed[at] = Some(solved[at].clamp(multiple / 8.0, multiple * 8.0)),
                None => break solved,
            }
        };
        let mut matrix = self.products;
        (0..4).for_each(|at| matrix[at][at] += hold);
        let is_determined = |at: usize| {
            let mut unit = [0.0; 4];
            unit[at] = 1.0;
            1.0 - hold * solve(matrix, unit)[at] >= DETERMINED
        };
        let is_seen = |at: usize| self.sums[at] * multiples[at] >= SEEN_PART * cost * multiple;
        let is_known = |at: usize| fixed[at].is_none() && is_seen(at) && is_determined(at);
        Some(std::array::from_fn(|at| is_known(at).then_some(multiples[at])))
    }
}

/// Solves a linear system by Gaussian elimination with partial pivoting. The diagonal of the matrix is
/// positive.
fn solve(mut matrix: [[f64; 4]; 4], mut right: [f64; 4]) -> [f64; 4] {
    for step in 0..4 {
        let largest = |a: &usize, b: &usize| matrix[*a][step].abs().total_cmp(&matrix[*b][step].abs());
        let pivot = (step..4).max_by(largest).unwrap_or(step);
        matrix.swap(step, pivot);
        right.swap(step, pivot);
        for row in step + 1..4 {
            let above = matrix[step];
            let factor = matrix[row][step] / above[step];
            matrix[row].iter_mut().zip(above).skip(step).for_each(|(here, above)| *here -= factor * above);
            right[row] -= factor * right[step];
        }
    }
    let mut solved = [0.0; 4];
    for row in (0..4).rev() {
        let known: f64 = (row + 1..4).map(|column| matrix[row][column] * solved[column]).sum();
        solved[row] = (right[row] - known) / matrix[row][row];
    }
    solved
}
