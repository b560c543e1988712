//! State of one disk that all shards share: its remaining time, the work in flight, and the caps of classes.
//!
//! 1. A [`TokenBucket`] hands out the disk's time. It fills at one nanosecond per nanosecond and holds at
//!    most the latency goal. The disk is therefore never given more than the goal in advance, and no request
//!    waits longer than that inside the disk.
//! 2. Long requests are split, so that a short request never waits longer than a quarter of the goal for a
//!    long one. While other classes read, requests are split into the shortest parts that the disk serves
//!    efficiently.
//! 3. The work in flight is limited to a multiple of the goal. A disk as fast as its model reaches this limit
//!    only if its latency is that long. A slower disk reaches it, and further requests then wait in the
//!    queues, where the scheduler can still choose among them.
//! 4. While other classes read, a class may use only a quota of that limit ([`crate::quota`]).
//! 5. A class may have a cap in bytes per second. The cap holds on an idle disk, too.
//!
//! A disk without a measured model has neither the first nor the second limit. The third then uses the costs
//! of [`DiskModel::NOMINAL`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::bucket::TokenBucket;
use crate::learned::Traffic;
use crate::model::{Direction, DiskModel};
use crate::quota::{InflightQuota, QuotaOptions};
use crate::shares::CLASSES_MAX;

/// The longest time that a request may wait inside the disk because of other requests: one and a half time
/// slices of tasks.
pub const LATENCY_GOAL_NS: u64 = 750_000;

/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// Requests up to this length are never split. If a disk needs longer than the latency goal for one of them,
/// the goal is raised to that time.
pub const WHOLE_BYTES: u64 = 64 << 10;

/// In-flight limit of a disk that may be much faster than its model, as a multiple of the bucket's capacity.
const INFLIGHT_GOALS: u64 = 4;

/// Divisor: a request that is not short costs at most this part of the bucket's capacity.
const REQUEST_PART: u64 = 4;

/// Bounds of the burst that a class with a cap may use beyond its rate. The burst is one second of the cap,
/// within these bounds.
const CAP_BURST_BYTES_MAX: u64 = 10 << 20;
const CAP_BURST_BYTES_MIN: u64 = 128 << 10;

/// How a disk is shared and limited.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    /// The measured rates; `None`: not measured, and not throttled.
    pub model: Option<DiskModel>,
    /// See [`LATENCY_GOAL_NS`].
    pub latency_goal_ns: u64,
    /// The number of shards that use the disk; at least 1.
    pub shards: u32,
    /// In-flight limit, as a multiple of the latency goal; at least 1, which is enough for a disk that was
    /// measured on this machine.
    pub inflight_goals: u64,
    /// Whether a class may use only a quota of that limit while other classes read. Must be off for I/O whose
    /// completion is seen only when a task takes the result: a task that reads ahead would fill its quota
    /// with requests that completed long ago.
    pub uses_quotas: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            model: None,
            latency_goal_ns: LATENCY_GOAL_NS,
            shards: 1,
            inflight_goals: INFLIGHT_GOALS,
            uses_quotas: true,
        }
    }
}

/// One direction, or both directions if they share the disk's time.
#[derive(Debug)]
struct Lane {
    time: TokenBucket,
    inflight_ns: AtomicU64,
}

/// A disk, shared by all shards. See the head of the file.
#[derive(Debug)]
pub struct Disk {
    model: DiskModel,
    limit_ns: u64,
    inflight_goals: u64,
    wanted_goal_ns: u64,
    ahead_ns: u64,
    read_bytes_max: u64,
    write_bytes_max: u64,
    lanes: [Lane; 2],
    quota: Option<InflightQuota>,
    caps: [TokenBucket; CLASSES_MAX],
    is_bypassed: AtomicBool,
    /// Completed requests that bypassed the page cache: count and bytes of reads, then count and bytes of
    /// writes.
    traffic: [AtomicU64; 4],
    started: AtomicU64,
    completed: AtomicU64,
}

impl Disk {
    pub fn new(options: DiskOptions) -> Self {
        let model = options.model.unwrap_or(DiskModel::NOMINAL);
        let whole_ns = [Direction::Read, Direction::Write].map(|way| model.cost_ns(way, WHOLE_BYTES));
        let limit_ns = options.latency_goal_ns.max(whole_ns[0]).max(whole_ns[1]);
        let rate_per_s = if options.model.is_some() { 1_000_000_000 } else { 0 };
        let lane = || Lane { time: TokenBucket::new(rate_per_s, limit_ns), inflight_ns: AtomicU64::new(0) };
        let longest = |way, saturation_bytes: Option<u64>| match options.model {
            None => REQUEST_BYTES_MAX,
            Some(_) => {
                let enough = saturation_bytes.unwrap_or(REQUEST_BYTES_MAX).max(4096).next_power_of_two();
                longest(&model, way, limit_ns / REQUEST_PART).min(enough)
            }
        };
        Self {
            read_bytes_max: longest(Direction::Read, model.read_saturation_bytes),
            write_bytes_max: longest(Direction::Write, model.write_saturation_bytes),
            model,
            limit_ns,
            inflight_goals: options.inflight_goals.max(1),
            wanted_goal_ns: options.latency_goal_ns,
            ahead_ns: limit_ns / u64::from(options.shards.max(1)),
            lanes: [lane(), lane()],
            quota: options.uses_quotas.then(|| {
                InflightQuota::new(QuotaOptions {
                    limit_ns: limit_ns.saturating_mul(options.inflight_goals.max(1)),
                    again_ns: limit_ns,
                    is_paced: options.model.is_some(),
                })
            }),
            caps: std::array::from_fn(|_| TokenBucket::new(0, 0)),
            is_bypassed: AtomicBool::new(false),
            traffic: Default::default(),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
        }
    }

    /// Turns the bypass on or off. With the bypass on, a new request starts at once, whole and unordered, and
    /// is only counted. Requests that already wait are still started in order. For comparisons with an
    /// unscheduled disk.
    pub fn set_bypassed(&self, bypassed: bool) {
        self.is_bypassed.store(bypassed, Ordering::Relaxed);
    }

    /// See [`Disk::set_bypassed`].
    pub fn is_bypassed(&self) -> bool {
        self.is_bypassed.load(Ordering::Relaxed)
    }

    /// Requests of all shards that bypassed the page cache and completed since the start, and the bytes that
    /// they moved.
    pub fn traffic(&self) -> Traffic {
        let [reads, read_bytes, writes, write_bytes] =
            std::array::from_fn(|at| self.traffic[at].load(Ordering::Relaxed));
        Traffic { reads, read_bytes, writes, write_bytes }
    }

    /// The model in use; [`DiskModel::NOMINAL`] if the disk was not measured.
    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    /// Whether requests are throttled to the model's rates.
    pub fn is_throttled(&self) -> bool {
        self.lanes[0].time.rate_per_s() > 0
    }

    /// The latency goal in effect, in nanoseconds: longer than configured if the disk is too slow for that.
    pub fn latency_goal_ns(&self) -> u64 {
        self.limit_ns
    }

    /// Whether the latency goal in effect is longer than the configured one by more than a tenth.
    pub fn misses_latency_goal(&self) -> bool {
        self.is_throttled() && self.limit_ns > self.wanted_goal_ns.saturating_mul(11) / 10
    }

    /// Longer requests of this class must be split at the moment. A power of two, in bytes, at least 64 KiB.
    pub fn request_bytes_contended(&self, class: usize, direction: Direction, now_ns: u64) -> u64 {
        let is_contended = |quota: &InflightQuota| quota.is_contended(class, now_ns);
        match self.quota.as_ref().is_some_and(is_contended) && self.is_throttled() && !self.is_bypassed() {
            true => WHOLE_BYTES,
            false => self.request_bytes_max(direction),
        }
    }

    /// Longer requests must always be split. A power of two, in bytes, at least 64 KiB.
    pub fn request_bytes_max(&self, direction: Direction) -> u64 {
        match direction {
            _ if self.is_bypassed() => REQUEST_BYTES_MAX,
            Direction::Read => self.read_bytes_max,
            Direction::Write => self.write_bytes_max,
        }
    }

    /// Limits a class to `bytes_s` bytes per second, over all shards; `None` removes the limit.
    pub fn set_cap(&self, class: usize, bytes_s: Option<u64>) {
        let rate = bytes_s.unwrap_or(0);
        self.caps[class].set_rate(rate, rate.clamp(CAP_BURST_BYTES_MIN, CAP_BURST_BYTES_MAX));
    }

    /// The cap of a class, in bytes per second; `None`: no cap.
    pub fn cap_bytes_s(&self, class: usize) -> Option<u64> {
        Some(self.caps[class].rate_per_s()).filter(|rate| *rate > 0)
    }

    /// The cost of the requests in flight, in nanoseconds.
    pub fn inflight_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.inflight_ns.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn lane_of(&self, direction: Direction) -> usize {
        usize::from(self.model.duplex && direction == Direction::Write)
    }

    pub(crate) fn time(&self, lane: usize) -> &TokenBucket {
        &self.lanes[lane].time
    }

    /// The most time that one shard takes in advance: the bucket's capacity divided by the number of shards.
    pub(crate) fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    pub(crate) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    pub(crate) fn cap(&self, class: usize) -> &TokenBucket {
        &self.caps[class]
    }

    fn inflight_max_ns(&self) -> u64 {
        self.limit_ns.saturating_mul(self.inflight_goals)
    }

    /// Whether a request of this cost fits into the in-flight limit of a lane.
    pub(crate) fn fits_inflight_limit(&self, lane: usize, cost_ns: u64) -> bool {
        let inflight_ns = self.lanes[lane].inflight_ns.load(Ordering::Relaxed);
        inflight_ns == 0 || inflight_ns + cost_ns <= self.inflight_max_ns()
    }

    /// Whether a request of this cost fits into the quota of its class: `None` if it does, otherwise the time
    /// to check again if no request completes before.
    pub(crate) fn waits_until_ns(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        self.quota.as_ref()?.waits_until_ns(lane, class, cost_ns, now_ns)
    }

    /// Whether no other class reads or has requests in flight.
    pub(crate) fn is_uncontended(&self, class: usize, now_ns: u64) -> bool {
        self.quota.as_ref().is_none_or(|quota| quota.is_uncontended(class, self.inflight_ns(), now_ns))
    }

    /// Records the latency of a completed short read of a class.
    pub(crate) fn observe_read(&self, class: usize, latency_ns: u64, was_uncontended: bool) {
        self.quota.iter().for_each(|quota| quota.observe(class, latency_ns, was_uncontended));
    }

    /// Changes the shares by which the in-flight limit is divided, for all shards.
    pub(crate) fn set_shares(&self, class: usize, shares: u32) {
        self.quota.iter().for_each(|quota| quota.set_shares(class, shares));
    }

    /// Counts a started request. Returns the number of requests in flight, including this one.
    pub(crate) fn started(
        &self,
        lane: usize,
        class: usize,
        direction: Direction,
        cost_ns: u64,
        now_ns: u64,
    ) -> u64 {
        if let Some(quota) = &self.quota {
            quota.started(lane, class, cost_ns, direction == Direction::Read, now_ns);
        }
        self.lanes[lane].inflight_ns.fetch_add(cost_ns, Ordering::Relaxed);
        let started = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        // A request of another shard may have completed between the two operations.
        started.saturating_sub(self.completed.load(Ordering::Relaxed)).max(1)
    }

    pub(crate) fn completed(&self, lane: usize, class: usize, cost_ns: u64) {
        self.quota.iter().for_each(|quota| quota.completed(lane, class, cost_ns));
        self.lanes[lane].inflight_ns.fetch_sub(cost_ns, Ordering::Relaxed);
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a completed request that bypassed the page cache, and the bytes that it moved.
    pub(crate) fn moved(&self, direction: Direction, bytes: u64) {
        let [reads, read_bytes, writes, write_bytes] = &self.traffic;
        let (requests, moved_bytes) = match direction {
            Direction::Read => (reads, read_bytes),
            Direction::Write => (writes, write_bytes),
        };
        requests.fetch_add(1, Ordering::Relaxed);
        moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The longest request of 64 KiB << n that costs at most `limit_ns`; at least 64 KiB.
fn longest(model: &DiskModel, direction: Direction, limit_ns: u64) -> u64 {
    let mut bytes = WHOLE_BYTES;
    while bytes < REQUEST_BYTES_MAX && model.cost_ns(direction, bytes * 2) <= limit_ns {
        bytes *= 2;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(model: DiskModel) -> Disk {
        Disk::new(DiskOptions { model: Some(model), ..DiskOptions::default() })
    }

    #[test]
    fn requests_are_split_to_fit_the_latency_goal() {
        let fast = disk(DiskModel { read_bandwidth_bytes_s: 2 << 30, ..DiskModel::NOMINAL });
        assert_eq!(fast.request_bytes_max(Direction::Read), 256 << 10);
        assert_eq!(fast.request_bytes_max(Direction::Write), 128 << 10);
        assert!(!fast.misses_latency_goal());
    }

    #[test]
    fn requests_are_shorter_while_others_read() {
        let disk = disk(DiskModel::NOMINAL);
        let bytes = |class| disk.request_bytes_contended(class, Direction::Read, 1000);
        let long = disk.request_bytes_max(Direction::Read);
        assert!(long > WHOLE_BYTES);
        disk.started(0, 1, Direction::Write, 10_000, 1000);
        assert_eq!((bytes(1), bytes(0)), (long, long));
        disk.started(0, 1, Direction::Read, 10_000, 1000);
        assert_eq!((bytes(1), bytes(0)), (long, WHOLE_BYTES));
        disk.set_bypassed(true);
        assert_eq!(bytes(0), REQUEST_BYTES_MAX);
    }

    #[test]
    fn a_slow_disk_takes_64_kib_and_a_longer_goal() {
        let slow =
            disk(DiskModel { write_bandwidth_bytes_s: 10_000_000, write_iops: 100, ..DiskModel::NOMINAL });
        assert_eq!(slow.request_bytes_max(Direction::Write), 64 << 10);
        assert_eq!(slow.latency_goal_ns(), 10_000_000 + 6_553_600);
        assert!(slow.misses_latency_goal());
    }

    #[test]
    fn a_goal_is_missed_by_more_than_a_tenth() {
        let model = DiskModel { write_bandwidth_bytes_s: 10_000_000, write_iops: 100, ..DiskModel::NOMINAL };
        let misses = |latency_goal_ns| {
            let disk =
                Disk::new(DiskOptions { model: Some(model), latency_goal_ns, ..DiskOptions::default() });
            assert_eq!(disk.latency_goal_ns(), 16_553_600);
            disk.misses_latency_goal()
        };
        // Times 1.1, rounded down, these are 16,553,600 and 16,553,599.
        assert!(!misses(15_048_728));
        assert!(misses(15_048_727));
    }

    #[test]
    fn a_capped_class_may_be_a_second_ahead_within_bounds() {
        for (bytes_s, burst_bytes) in [(1000, 128 << 10), (1 << 20, 1 << 20), (1 << 30, 10 << 20)] {
            let disk = disk(DiskModel::NOMINAL);
            assert_eq!(disk.cap_bytes_s(3), None);
            disk.set_cap(3, Some(bytes_s));
            assert_eq!(disk.cap_bytes_s(3), Some(bytes_s));
            disk.cap(3).refill(86_400_000_000_000);
            assert!(disk.cap(3).try_take(burst_bytes), "{bytes_s}");
            assert!(!disk.cap(3).try_take(1), "{bytes_s}");
            disk.set_cap(3, None);
            assert_eq!(disk.cap_bytes_s(3), None);
            assert!(disk.cap(3).try_take(burst_bytes));
        }
    }

    #[test]
    fn traffic_is_counted_by_direction() {
        let disk = disk(DiskModel::NOMINAL);
        disk.moved(Direction::Read, 10);
        disk.moved(Direction::Write, 3);
        disk.moved(Direction::Write, 4);
        assert_eq!(disk.traffic(), Traffic { reads: 1, read_bytes: 10, writes: 2, write_bytes: 7 });
    }

    #[test]
    fn what_saturates_the_disk_is_long_enough() {
        let disk = disk(DiskModel { read_saturation_bytes: Some(100_000), ..DiskModel::NOMINAL });
        assert_eq!(disk.request_bytes_max(Direction::Read), 128 << 10);
    }

    #[test]
    fn an_unmeasured_disk_is_not_throttled() {
        let disk = Disk::new(DiskOptions::default());
        assert!(!disk.is_throttled() && !disk.misses_latency_goal());
        assert_eq!(disk.request_bytes_max(Direction::Read), REQUEST_BYTES_MAX);
    }
}
