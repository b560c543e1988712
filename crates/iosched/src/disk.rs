//! A disk as all shards share it: how much of its time is left, how much it has to do, what classes may use of it.
//!
//! 1. Its time is a [`TokenBucket`] that flows at one nanosecond a nanosecond and holds at most the latency goal: the
//!    disk is never given more than this ahead of what it can do, so no request waits longer inside it.
//! 2. Long requests are split, so that a short one never waits behind a long one for more than a quarter of the goal; into parts as
//!    short as the disk serves well, while others read.
//! 3. What was started and has not completed is bounded too, by some times the goal. A disk as fast as its model gets there
//!    only if its latency is as long; one that is slower does, and then requests wait here, where they can be chosen from.
//! 4. Of that bound a class may have a part only while others read ([`crate::rooms`]).
//! 5. A class may have a cap in bytes per second. It holds when the disk is idle as well.
//!
//! Without a measured model the first and the second are left out, and the third orders requests by the costs of
//! [`DiskModel::NOMINAL`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::bucket::TokenBucket;
use crate::learned::Traffic;
use crate::model::{Direction, DiskModel};
use crate::rooms::{RoomOptions, Rooms};
use crate::shares::CLASSES_MAX;

/// How long a request may wait inside the disk because of others: one and a half times a turn of tasks.
pub const LATENCY_GOAL_NS: u64 = 750_000;

/// No request is longer.
pub const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// No request needs to be shorter; a disk so slow that this takes longer than the latency goal has a longer one.
pub const WHOLE_BYTES: u64 = 64 << 10;

/// What may be under way on a disk that may be much faster than it is taken for, in times of what the bucket holds.
const UNDER_WAY_GOALS: u64 = 4;

/// A request takes this part of what the bucket holds, unless it is short.
const REQUEST_PART: u64 = 4;

/// A class with a cap may be so far ahead of it.
const CAP_BURST_BYTES_MAX: u64 = 10 << 20;
const CAP_BURST_BYTES_MIN: u64 = 128 << 10;

/// How a disk is to be used.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    /// `None`: not measured, and not throttled.
    pub model: Option<DiskModel>,
    /// See [`LATENCY_GOAL_NS`].
    pub latency_goal_ns: u64,
    /// How many shards use it; at least 1.
    pub shards: u32,
    /// What may be under way, in times of the latency goal; at least 1, which is enough for a disk that was measured here.
    pub under_way_goals: u64,
    /// A class may have a part of that only, while others read. Not where the end of a request is only seen when somebody
    /// takes its result: a task that reads ahead would fill its part with what has long come.
    pub divides_room: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            model: None,
            latency_goal_ns: LATENCY_GOAL_NS,
            shards: 1,
            under_way_goals: UNDER_WAY_GOALS,
            divides_room: true,
        }
    }
}

/// One direction, or both where they share the disk.
#[derive(Debug)]
struct Lane {
    time: TokenBucket,
    under_way_ns: AtomicU64,
}

/// A disk, for all shards. See the head of the file.
#[derive(Debug)]
pub struct Disk {
    model: DiskModel,
    limit_ns: u64,
    under_way_goals: u64,
    wanted_goal_ns: u64,
    ahead_ns: u64,
    read_bytes_max: u64,
    write_bytes_max: u64,
    lanes: [Lane; 2],
    rooms: Option<Rooms>,
    caps: [TokenBucket; CLASSES_MAX],
    is_bypassed: AtomicBool,
    /// Requests and moved bytes of reads, then of writes, that went past the page cache and completed.
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
        let lane = || Lane { time: TokenBucket::new(rate_per_s, limit_ns), under_way_ns: AtomicU64::new(0) };
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
            under_way_goals: options.under_way_goals.max(1),
            wanted_goal_ns: options.latency_goal_ns,
            ahead_ns: limit_ns / u64::from(options.shards.max(1)),
            lanes: [lane(), lane()],
            rooms: options.divides_room.then(|| {
                Rooms::new(RoomOptions {
                    limit_ns: limit_ns.saturating_mul(options.under_way_goals.max(1)),
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

    /// From now on all requests go straight through, whole and unordered, or no longer. They are counted, and no more. To compare with; what
    /// waits already goes on in order.
    pub fn set_bypassed(&self, bypassed: bool) {
        self.is_bypassed.store(bypassed, Ordering::Relaxed);
    }

    /// See [`Disk::set_bypassed`].
    pub fn is_bypassed(&self) -> bool {
        self.is_bypassed.load(Ordering::Relaxed)
    }

    /// Requests of all shards past the page cache that completed since the start, and the bytes that they moved.
    pub fn traffic(&self) -> Traffic {
        let [reads, read_bytes, writes, write_bytes] =
            std::array::from_fn(|at| self.traffic[at].load(Ordering::Relaxed));
        Traffic { reads, read_bytes, writes, write_bytes }
    }

    /// The model in use.
    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    /// Whether requests wait for the model's rates.
    pub fn is_throttled(&self) -> bool {
        self.lanes[0].time.rate_per_s() > 0
    }

    /// The latency goal that holds: longer than asked for if the disk is too slow for it.
    pub fn latency_goal_ns(&self) -> u64 {
        self.limit_ns
    }

    /// Whether the disk is too slow for the latency goal that was asked for, by more than a tenth.
    pub fn misses_latency_goal(&self) -> bool {
        self.is_throttled() && self.limit_ns > self.wanted_goal_ns.saturating_mul(11) / 10
    }

    /// Requests of a class that are longer are to be split now. A power of two, at least 64 KiB.
    pub fn request_bytes_beside(&self, class: usize, direction: Direction, now_ns: u64) -> u64 {
        let is_beside = |rooms: &Rooms| rooms.is_beside(class, now_ns);
        match self.rooms.as_ref().is_some_and(is_beside) && self.is_throttled() && !self.is_bypassed() {
            true => WHOLE_BYTES,
            false => self.request_bytes_max(direction),
        }
    }

    /// Requests that are longer must be split, always. A power of two, at least 64 KiB.
    pub fn request_bytes_max(&self, direction: Direction) -> u64 {
        match direction {
            _ if self.is_bypassed() => REQUEST_BYTES_MAX,
            Direction::Read => self.read_bytes_max,
            Direction::Write => self.write_bytes_max,
        }
    }

    /// A class may use so many bytes per second, of all shards together; `None`: as many as it gets.
    pub fn set_cap(&self, class: usize, bytes_s: Option<u64>) {
        let rate = bytes_s.unwrap_or(0);
        self.caps[class].set_rate(rate, rate.clamp(CAP_BURST_BYTES_MIN, CAP_BURST_BYTES_MAX));
    }

    /// The cap of a class, in bytes per second.
    pub fn cap_bytes_s(&self, class: usize) -> Option<u64> {
        Some(self.caps[class].rate_per_s()).filter(|rate| *rate > 0)
    }

    /// The cost of what was started and has not completed.
    pub fn under_way_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.under_way_ns.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn lane_of(&self, direction: Direction) -> usize {
        usize::from(self.model.duplex && direction == Direction::Write)
    }

    pub(crate) fn time(&self, lane: usize) -> &TokenBucket {
        &self.lanes[lane].time
    }

    /// How much a shard takes in advance at most: all shards together no more than the bucket holds.
    pub(crate) fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    pub(crate) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    pub(crate) fn cap(&self, class: usize) -> &TokenBucket {
        &self.caps[class]
    }

    fn under_way_max_ns(&self) -> u64 {
        self.limit_ns.saturating_mul(self.under_way_goals)
    }

    /// Whether the disk has less to do than it may.
    pub(crate) fn has_room(&self, lane: usize, cost_ns: u64) -> bool {
        let under_way_ns = self.lanes[lane].under_way_ns.load(Ordering::Relaxed);
        under_way_ns == 0 || under_way_ns + cost_ns <= self.under_way_max_ns()
    }

    /// Whether it has less to do of this class than it may: `None`, or when to ask again, if nothing completes before.
    pub(crate) fn waits_until_ns(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        self.rooms.as_ref()?.waits_until_ns(lane, class, cost_ns, now_ns)
    }

    /// Whether no other class reads or has anything under way.
    pub(crate) fn is_alone(&self, class: usize, now_ns: u64) -> bool {
        self.rooms.as_ref().is_none_or(|rooms| rooms.is_alone(class, self.under_way_ns(), now_ns))
    }

    /// A short read of a class took so long.
    pub(crate) fn observe_read(&self, class: usize, latency_ns: u64, was_alone: bool) {
        self.rooms.iter().for_each(|rooms| rooms.observe(class, latency_ns, was_alone));
    }

    /// Changes the shares by which what may be under way is divided, for all shards.
    pub(crate) fn set_shares(&self, class: usize, shares: u32) {
        self.rooms.iter().for_each(|rooms| rooms.set_shares(class, shares));
    }

    /// Counts a request; how many are under way with it.
    pub(crate) fn started(
        &self,
        lane: usize,
        class: usize,
        direction: Direction,
        cost_ns: u64,
        now_ns: u64,
    ) -> u64 {
        if let Some(rooms) = &self.rooms {
            rooms.started(lane, class, cost_ns, direction == Direction::Read, now_ns);
        }
        self.lanes[lane].under_way_ns.fetch_add(cost_ns, Ordering::Relaxed);
        let started = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        // Another shard's request may have completed between the two.
        started.saturating_sub(self.completed.load(Ordering::Relaxed)).max(1)
    }

    pub(crate) fn completed(&self, lane: usize, class: usize, cost_ns: u64) {
        self.rooms.iter().for_each(|rooms| rooms.completed(lane, class, cost_ns));
        self.lanes[lane].under_way_ns.fetch_sub(cost_ns, Ordering::Relaxed);
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a completed request past the page cache and the bytes that it moved.
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

/// The longest request of 64 KiB << n that costs at most `limit_ns`, or 64 KiB.
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
        let bytes = |class| disk.request_bytes_beside(class, Direction::Read, 1000);
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
    fn what_saturates_the_disk_is_long_enough() {
        let disk = disk(DiskModel { read_saturation_bytes: Some(100_000), ..DiskModel::NOMINAL });
        assert_eq!(disk.request_bytes_max(Direction::Read), 128 << 10);
    }

    #[test]
    fn a_disk_nobody_measured_is_not_throttled() {
        let disk = Disk::new(DiskOptions::default());
        assert!(!disk.is_throttled() && !disk.misses_latency_goal());
        assert_eq!(disk.request_bytes_max(Direction::Read), REQUEST_BYTES_MAX);
    }
}
