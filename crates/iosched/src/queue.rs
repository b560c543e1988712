//! One shard's queue for a disk. Classes are served by weighted fair queueing, at the rate at which [`Disk`]
//! hands out its time.
//!
//! 1. [`IoQueue::start`] starts a request at once if no request waits and the disk has time; this is the
//!    common case.
//! 2. Otherwise the request is queued by [`IoQueue::push`], and [`IoQueue::next`] returns requests that may
//!    start, until it returns `None`. No further request may then start before [`IoQueue::wake_at_ns`],
//!    unless one completes.
//! 3. The class is chosen when disk time has arrived, not when it is requested: a shard takes the disk's time
//!    for whichever class is first at that moment. A shard takes some time in advance for all its waiting
//!    requests, so that a shard that polls rarely gets its part. It returns the time that it does not need.
//! 4. [`IoQueue::complete`] ends a request. It is charged for the bytes that it requested and corrected to
//!    the bytes that were moved: the difference is returned to the disk's time, to its class and to its cap.
//!    Counters count moved bytes.
//!
//! With I/O by helper threads, the completion of a request is seen only when a task takes its result, so that
//! two requests of one task can wait for each other. If no request starts or completes for [`STUCK_NS`], one
//! therefore starts beyond the in-flight limit.
//!
//! A class that becomes busy again is allowed [`FORGIVEN_NS`] of the disk's time to catch up: it may go first
//! for a moment, and no longer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::Disk;
use crate::learned::{Learned, Learner, Observation, SHORT_READ_BYTES};
use crate::model::Direction;
use crate::shares::{CLASSES_MAX, FairShares};

/// The most disk time that a class that was idle may use before the others.
pub const FORGIVEN_NS: u64 = 5_000_000;

/// If no request of a shard has started or completed for this time, the next one starts beyond the in-flight
/// limit. The requests in flight may depend on it: a task that reads ahead by helper threads takes the
/// results of its reads only after it has written the data that it already has.
pub const STUCK_NS: u64 = 20_000_000;

/// Counters of a class on one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Read requests that completed.
    pub reads: u64,
    /// Bytes that those reads moved, which may be fewer than requested.
    pub read_bytes: u64,
    /// Write requests that completed.
    pub writes: u64,
    /// Bytes that those writes moved.
    pub write_bytes: u64,
    /// Time that requests waited in the queue, in total.
    pub queued_ns: u64,
    /// Time that requests took on the disk, in total.
    pub executed_ns: u64,
    /// Time during which requests of the class waited and none was on the disk.
    pub starved_ns: u64,
    /// Cost by the model of the completed requests, in nanoseconds of the whole disk.
    pub consumed_ns: u64,
    /// The number of times that the class became busy after being idle.
    pub activations: u64,
    /// The time that the last request to start had waited.
    pub last_queued_ns: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Requests on the disk now.
    pub executing: u64,
}

/// Result of a request that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The request was dropped before it reached the disk.
    Cancelled,
    /// Bytes moved, at most the number requested. Only a request that bypassed the page cache (`is_direct`)
    /// measures the speed of the disk.
    Moved { bytes: u64, is_direct: bool },
}

/// A started request, to be passed to [`IoQueue::complete`].
#[derive(Debug)]
#[must_use = "the disk counts it as under way until it is completed"]
pub struct Ticket {
    class: u8,
    lane: u8,
    direction: Direction,
    /// No other class read or had requests in flight when this one started.
    is_uncontended: bool,
    bytes: u32,
    in_flight: u32,
    cost_ns: u64,
    started_at_ns: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    direction: Direction,
    bytes: u64,
    cost_ns: u64,
    since_ns: u64,
}

/// Disk time that a shard has requested from the bucket.
#[derive(Clone, Copy, Debug)]
struct RequestedTime {
    /// The part that has not arrived yet.
    tokens: u64,
    /// Place in the bucket at which all of it has arrived.
    place: u64,
}

#[derive(Debug)]
struct Lane<T> {
    fair: FairShares,
    queues: [VecDeque<Waiting<T>>; CLASSES_MAX],
    waiting: u64,
    waiting_ns: u64,
    /// Taken from the bucket and not used.
    in_hand_ns: u64,
    asked: Option<RequestedTime>,
    /// When a request was last started or completed.
    moved_at_ns: u64,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            fair: FairShares::default(),
            queues: std::array::from_fn(|_| VecDeque::new()),
            waiting: 0,
            waiting_ns: 0,
            in_hand_ns: 0,
            asked: None,
            moved_at_ns: 0,
        }
    }
}

/// The I/O queue of one shard. See the head of the file. `T` identifies a waiting request to the caller.
#[derive(Debug)]
pub struct IoQueue<T> {
    disk: Arc<Disk>,
    lanes: [Lane<T>; 2],
    stats: [ClassStats; CLASSES_MAX],
    starving_since_ns: [u64; CLASSES_MAX],
    wake_at_ns: Option<u64>,
    learner: Learner,
}

impl<T> IoQueue<T> {
    pub fn new(disk: Arc<Disk>) -> Self {
        Self {
            learner: Learner::new(*disk.model()),
            disk,
            lanes: [Lane::default(), Lane::default()],
            stats: [ClassStats::default(); CLASSES_MAX],
            starving_since_ns: [0; CLASSES_MAX],
            wake_at_ns: None,
        }
    }

    /// The disk that this queue feeds.
    pub fn disk(&self) -> &Arc<Disk> {
        &self.disk
    }

    /// Changes the shares of a class from now on.
    pub fn set_shares(&mut self, class: usize, shares: u32) {
        self.lanes.iter_mut().for_each(|lane| lane.fair.set_shares(class, shares));
        self.disk.set_shares(class, shares);
    }

    /// The shares of a class.
    pub fn shares(&self, class: usize) -> u32 {
        self.lanes[0].fair.shares(class)
    }

    /// The counters of a class.
    pub fn stats(&self, class: usize) -> &ClassStats {
        &self.stats[class]
    }

    /// This shard's estimates for the disk.
    pub fn learned(&self) -> Learned {
        self.learner.learned()
    }

    /// Resets the counters of a class, so that its number can be used for another. Requests that wait or run
    /// stay counted.
    pub fn reset_stats(&mut self, class: usize) {
        let ClassStats { waiting, executing, .. } = self.stats[class];
        self.stats[class] = ClassStats { waiting, executing, ..ClassStats::default() };
    }

    /// Whether any request waits.
    pub fn is_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| lane.waiting > 0)
    }

    /// The latest time for the next call of [`IoQueue::next`] after it returned `None`; `None` if no request
    /// waits.
    pub fn wake_at_ns(&self) -> Option<u64> {
        self.wake_at_ns
    }

    /// Starts a request if no other request waits and the disk has time for it.
    #[inline]
    pub fn start(&mut self, class: usize, direction: Direction, bytes: u64, now_ns: u64) -> Option<Ticket> {
        let at = self.disk.lane_of(direction);
        if self.disk.is_bypassed() {
            return Some(self.started(class, at, direction, bytes, 0, now_ns));
        }
        if self.lanes[at].waiting > 0 {
            return None;
        }
        let cost_ns = self.cost_ns(direction, bytes);
        if !self.disk.fits_inflight_limit(at, cost_ns)
            || self.disk.waits_until_ns(at, class, cost_ns, now_ns).is_some()
            || !self.cap_allows(class, now_ns)
        {
            return None;
        }
        let time = self.disk.time(at);
        time.refill(now_ns);
        if !time.try_take(cost_ns) {
            return None;
        }
        let fair = &mut self.lanes[at].fair;
        fair.wake(class, FORGIVEN_NS);
        fair.sleep(class);
        self.stats[class].activations += 1;
        self.stats[class].last_queued_ns = 0;
        Some(self.started(class, at, direction, bytes, cost_ns, now_ns))
    }

    /// Appends a request to the queue of its class. It must not be longer than [`Disk::request_bytes_max`].
    pub fn push(&mut self, class: usize, direction: Direction, bytes: u64, now_ns: u64, item: T) {
        let cost_ns = self.cost_ns(direction, bytes);
        let lane = &mut self.lanes[self.disk.lane_of(direction)];
        let stats = &mut self.stats[class];
        if lane.queues[class].is_empty() {
            lane.fair.wake(class, FORGIVEN_NS);
            stats.activations += 1;
        }
        if stats.waiting == 0 && stats.executing == 0 {
            self.starving_since_ns[class] = now_ns;
        }
        lane.queues[class].push_back(Waiting { item, direction, bytes, cost_ns, since_ns: now_ns });
        lane.waiting += 1;
        lane.waiting_ns += cost_ns;
        stats.waiting += 1;
        self.wake_at_ns = Some(self.wake_at_ns.map_or(now_ns, |at| at.min(now_ns)));
    }

    /// The next request that may start now.
    pub fn next(&mut self, now_ns: u64) -> Option<(T, Ticket)> {
        self.wake_at_ns = None;
        (0..2).find_map(|at| self.next_of(at, now_ns))
    }

    /// Ends a request that the disk has completed, or that was dropped before.
    pub fn complete(&mut self, ticket: Ticket, completion: Completion, now_ns: u64) {
        let (class, at) = (usize::from(ticket.class), usize::from(ticket.lane));
        let asked_bytes = u64::from(ticket.bytes);
        let (bytes, is_direct) = match completion {
            Completion::Cancelled => (0, false),
            Completion::Moved { bytes, is_direct } => (bytes.min(asked_bytes), is_direct),
        };
        let used_ns = match completion {
            // A request that used the bypass was not charged.
            Completion::Moved { .. } if ticket.cost_ns > 0 => {
                self.cost_ns(ticket.direction, bytes).min(ticket.cost_ns)
            }
            _ => 0,
        };
        self.disk.completed(at, class, ticket.cost_ns);
        self.refund(class, at, ticket.cost_ns - used_ns, asked_bytes - bytes);
        self.lanes[at].moved_at_ns = now_ns;
        let stats = &mut self.stats[class];
        stats.executing -= 1;
        stats.executed_ns += now_ns.saturating_sub(ticket.started_at_ns);
        if stats.executing == 0 && stats.waiting > 0 {
            self.starving_since_ns[class] = now_ns;
        }
        if completion != Completion::Cancelled {
            stats.consumed_ns += used_ns;
            match ticket.direction {
                Direction::Read => {
                    (stats.reads, stats.read_bytes) = (stats.reads + 1, stats.read_bytes + bytes)
                }
                Direction::Write => {
                    (stats.writes, stats.write_bytes) = (stats.writes + 1, stats.write_bytes + bytes);
                }
            }
        }
        if is_direct {
            self.disk.moved(ticket.direction, bytes);
        }
        let observation = Observation {
            direction: ticket.direction,
            bytes,
            in_flight: u64::from(ticket.in_flight),
            latency_ns: now_ns.saturating_sub(ticket.started_at_ns),
        };
        // A request that moved nothing failed or reached the end of its file.
        if observation.latency_ns > 0 && bytes > 0 {
            let is_scheduled = ticket.cost_ns > 0;
            if is_scheduled && ticket.direction == Direction::Read && observation.bytes <= SHORT_READ_BYTES {
                self.disk.observe_read(class, observation.latency_ns, ticket.is_uncontended);
            }
            if is_direct {
                self.learner.observe(observation, now_ns, || self.disk.traffic());
            }
        }
        if self.is_waiting() {
            self.wake_at(now_ns);
        }
    }

    /// Returns the part of a request's charge that it did not use.
    fn refund(&mut self, class: usize, at: usize, cost_ns: u64, bytes: u64) {
        if cost_ns > 0 {
            self.lanes[at].fair.refund(class, cost_ns);
            self.disk.time(at).give_back(cost_ns);
        }
        let cap = self.disk.cap(class);
        if bytes > 0 && cap.rate_per_s() > 0 {
            cap.give_back(bytes);
        }
    }

    fn cost_ns(&self, direction: Direction, bytes: u64) -> u64 {
        // A cost greater than the capacity of the bucket would never be granted.
        self.disk.model().cost_ns(direction, bytes).min(self.disk.limit_ns())
    }

    /// A class with a cap may go while it owes nothing, so it exceeds its cap by one request at most.
    fn cap_allows(&self, class: usize, now_ns: u64) -> bool {
        let cap = self.disk.cap(class);
        if cap.rate_per_s() == 0 {
            return true;
        }
        cap.refill(now_ns);
        cap.owed() == 0
    }

    fn wake_at(&mut self, at_ns: u64) {
        self.wake_at_ns = Some(self.wake_at_ns.map_or(at_ns, |earlier| earlier.min(at_ns)));
    }

    fn next_of(&mut self, at: usize, now_ns: u64) -> Option<(T, Ticket)> {
        if self.lanes[at].waiting == 0 {
            self.give_back(at);
            return None;
        }
        let class = self.next_class(at, now_ns)?;
        let cost_ns = self.first_of(at, class).cost_ns;
        if !self.is_stuck(at, class, now_ns) && !self.disk.fits_inflight_limit(at, cost_ns) {
            // Completions on other shards free quota too, without waking this shard.
            self.wake_at(now_ns + self.disk.limit_ns());
            return None;
        }
        if let Some(missing_ns) = self.missing_ns(at, cost_ns, now_ns) {
            self.wake_at(now_ns + missing_ns);
            return None;
        }
        let lane = &mut self.lanes[at];
        lane.in_hand_ns -= cost_ns;
        let first = lane.queues[class].pop_front().expect("it waits");
        lane.waiting -= 1;
        lane.waiting_ns -= cost_ns;
        if lane.queues[class].is_empty() {
            lane.fair.sleep(class);
        }
        let stats = &mut self.stats[class];
        stats.last_queued_ns = now_ns.saturating_sub(first.since_ns);
        stats.queued_ns += stats.last_queued_ns;
        stats.waiting -= 1;
        if stats.executing == 0 {
            stats.starved_ns += now_ns.saturating_sub(self.starving_since_ns[class]);
        }
        Some((first.item, self.started(class, at, first.direction, first.bytes, cost_ns, now_ns)))
    }

    fn first_of(&self, at: usize, class: usize) -> &Waiting<T> {
        self.lanes[at].queues[class].front().expect("it waits")
    }

    /// Whether no request has started or completed for [`STUCK_NS`], so that this class may exceed the limit.
    fn is_stuck(&self, at: usize, class: usize, now_ns: u64) -> bool {
        let since_ns = self.first_of(at, class).since_ns.max(self.lanes[at].moved_at_ns);
        now_ns.saturating_sub(since_ns) >= STUCK_NS
    }

    /// The class that goes next among those that their cap and their quota allow.
    fn next_class(&mut self, at: usize, now_ns: u64) -> Option<usize> {
        let mut among = u32::MAX;
        loop {
            let class = self.lanes[at].fair.next_among(among)?;
            let cost_ns = self.first_of(at, class).cost_ns;
            if !self.cap_allows(class, now_ns) {
                let cap = self.disk.cap(class);
                self.wake_at(now_ns + cap.flow_ns(cap.owed()));
            } else {
                match self.disk.waits_until_ns(at, class, cost_ns, now_ns) {
                    Some(until_ns) if !self.is_stuck(at, class, now_ns) => self.wake_at(until_ns),
                    _ => return Some(class),
                }
            }
            among &= !(1 << class);
        }
    }

    /// Obtains `cost_ns` of the disk's time. `None`: obtained; otherwise the nanoseconds until the next
    /// attempt.
    fn missing_ns(&mut self, at: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        let (lane, time) = (&mut self.lanes[at], self.disk.time(at));
        if lane.in_hand_ns >= cost_ns {
            return None;
        }
        time.refill(now_ns);
        if lane.asked.is_none() {
            let wanted_ns = lane.waiting_ns.min(self.disk.ahead_ns()).max(cost_ns) - lane.in_hand_ns;
            lane.asked = Some(RequestedTime { tokens: wanted_ns, place: time.take(wanted_ns) });
        }
        loop {
            let asked = lane.asked.as_mut().expect("was asked for");
            let missing_ns = time.missing(asked.place);
            let come_ns = asked.tokens.saturating_sub(missing_ns);
            asked.tokens -= come_ns;
            lane.in_hand_ns += come_ns;
            if asked.tokens == 0 {
                lane.asked = None;
            }
            if lane.in_hand_ns >= cost_ns {
                return None;
            }
            match lane.asked {
                // Only this part of the outstanding time is needed for the first request.
                Some(asked) => {
                    let needless_ns = asked.tokens.saturating_sub(cost_ns - lane.in_hand_ns);
                    return Some(time.flow_ns(missing_ns.saturating_sub(needless_ns)).max(1));
                }
                None => {
                    let wanted_ns = cost_ns - lane.in_hand_ns;
                    lane.asked = Some(RequestedTime { tokens: wanted_ns, place: time.take(wanted_ns) });
                }
            }
        }
    }

    /// Returns the time that was taken for requests that no longer wait; other shards can use it.
    fn give_back(&mut self, at: usize) {
        let (lane, time) = (&mut self.lanes[at], self.disk.time(at));
        let Some(asked) = lane.asked.take() else {
            if lane.in_hand_ns > 0 {
                time.give_back(std::mem::take(&mut lane.in_hand_ns));
            }
            return;
        };
        // The outstanding part is given up now: the place advances as if the time had arrived and been
        // returned.
        time.give_back(asked.tokens + std::mem::take(&mut lane.in_hand_ns));
    }

    fn started(
        &mut self,
        class: usize,
        at: usize,
        direction: Direction,
        bytes: u64,
        cost_ns: u64,
        now_ns: u64,
    ) -> Ticket {
        let is_uncontended = self.disk.is_uncontended(class, now_ns);
        let in_flight = self.disk.started(at, class, direction, cost_ns, now_ns);
        self.lanes[at].moved_at_ns = now_ns;
        self.lanes[at].fair.charge(class, cost_ns);
        let cap = self.disk.cap(class);
        if cap.rate_per_s() > 0 {
            cap.take(bytes);
        }
        self.stats[class].executing += 1;
        Ticket {
            class: class as u8,
            lane: at as u8,
            direction,
            is_uncontended,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            cost_ns,
            started_at_ns: now_ns,
        }
    }
}

impl<T> Drop for IoQueue<T> {
    fn drop(&mut self) {
        (0..2).for_each(|at| self.give_back(at));
    }
}
