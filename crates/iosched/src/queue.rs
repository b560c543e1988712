//! One shard's queue in front of a disk: classes with shares, in virtual time, as fast as the [`Disk`] gives its time out.
//!
//! 1. [`IoQueue::start`] lets a request go at once if nobody waits and the disk has time; this is the usual case.
//! 2. Otherwise [`IoQueue::push`], and [`IoQueue::next`] gives who may go, until it says `None`. Then nobody may go before
//!    [`IoQueue::wake_at_ns`], unless something completes.
//! 3. Which class is decided when time has come and not before: a shard takes the disk's time for whoever is first then. It
//!    takes some in advance for all that wait, so that one that looks rarely is not left behind; what it does not
//!    need it gives back.
//! 4. [`IoQueue::complete`] when the disk is done. A request is booked with the bytes it asks for and corrected to the bytes
//!    that were moved: what it did not use goes back to the disk's time, to its class and to the cap. Counters count moved bytes.
//!
//! Where the end of a request is only seen when somebody takes its result (I/O by helper threads), two requests of one task can wait
//! for each other: if nothing moves for [`STUCK_NS`], one goes without room.
//!
//! A class that becomes busy again is forgiven [`FORGIVEN_NS`] of the disk: it may go first for a moment, and no longer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::Disk;
use crate::learned::{Learned, Learner, Observation, SHORT_READ_BYTES};
use crate::model::Direction;
use crate::shares::{CLASSES_MAX, FairShares};

/// How much of the disk a class that was idle may have before the others, at most.
pub const FORGIVEN_NS: u64 = 5_000_000;

/// If nothing of a shard was started or completed for so long, the next request goes without room. Who holds the room may be
/// waiting for this very request: a task that reads ahead by helper threads takes its reads off only when it has written what
/// it had.
pub const STUCK_NS: u64 = 20_000_000;

/// What a class did and has to do, on one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Read requests that completed.
    pub reads: u64,
    /// Bytes that they moved, which may be fewer than they asked for.
    pub read_bytes: u64,
    /// Write requests that completed.
    pub writes: u64,
    /// Bytes that they moved.
    pub write_bytes: u64,
    /// Time that requests waited in the queue, added up.
    pub queued_ns: u64,
    /// Time that the disk took, added up.
    pub executed_ns: u64,
    /// Time in which requests waited and the disk had none of this class.
    pub starved_ns: u64,
    /// Parts of the whole disk that completed requests took, as nanoseconds by the model.
    pub consumed_ns: u64,
    /// Times it had something to do after having had nothing.
    pub activations: u64,
    /// How long the last request that was started had waited.
    pub last_queued_ns: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Requests that the disk has now.
    pub executing: u64,
}

/// What became of a request that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody wanted it any more: the disk never had it.
    Cancelled,
    /// So many bytes were moved, at most those that were asked for. Only what goes past the page cache says how fast the disk is.
    Moved { bytes: u64, is_direct: bool },
}

/// A request that was started; give it to [`IoQueue::complete`].
#[derive(Debug)]
#[must_use = "the disk counts it as under way until it is completed"]
pub struct Ticket {
    class: u8,
    lane: u8,
    direction: Direction,
    /// No other class read or had anything under way when it started.
    is_alone: bool,
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

/// The disk's time that a shard has asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Of this much nothing has come yet.
    tokens: u64,
    /// All of it has come when the bucket has got here.
    place: u64,
}

#[derive(Debug)]
struct Lane<T> {
    fair: FairShares,
    queues: [VecDeque<Waiting<T>>; CLASSES_MAX],
    waiting: u64,
    waiting_ns: u64,
    /// Taken from the bucket, and not used.
    in_hand_ns: u64,
    asked: Option<Asked>,
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

/// See the head of the file. `T` is what the caller knows a waiting request by.
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

    /// The disk behind it.
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

    /// What a class did so far.
    pub fn stats(&self, class: usize) -> &ClassStats {
        &self.stats[class]
    }

    /// What this shard has learned of the disk.
    pub fn learned(&self) -> Learned {
        self.learner.learned()
    }

    /// Forgets what a class did, for another use of its number. What it has to do stays.
    pub fn reset_stats(&mut self, class: usize) {
        let ClassStats { waiting, executing, .. } = self.stats[class];
        self.stats[class] = ClassStats { waiting, executing, ..ClassStats::default() };
    }

    /// Whether anybody waits.
    pub fn is_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| lane.waiting > 0)
    }

    /// When to call [`IoQueue::next`] again at the latest, after it said `None`; `None` if nobody waits.
    pub fn wake_at_ns(&self) -> Option<u64> {
        self.wake_at_ns
    }

    /// Starts a request if nobody waits and the disk has time for it.
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
        if !self.disk.has_room(at, cost_ns)
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

    /// Puts a request at the end of its class. It must not be longer than [`Disk::request_bytes_max`].
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

    /// Who may go now.
    pub fn next(&mut self, now_ns: u64) -> Option<(T, Ticket)> {
        self.wake_at_ns = None;
        (0..2).find_map(|at| self.next_of(at, now_ns))
    }

    /// The disk is done with a request, or will not get it.
    pub fn complete(&mut self, ticket: Ticket, outcome: Outcome, now_ns: u64) {
        let (class, at) = (usize::from(ticket.class), usize::from(ticket.lane));
        let asked_bytes = u64::from(ticket.bytes);
        let (bytes, is_direct) = match outcome {
            Outcome::Cancelled => (0, false),
            Outcome::Moved { bytes, is_direct } => (bytes.min(asked_bytes), is_direct),
        };
        let used_ns = match outcome {
            // A bypassed request was not booked.
            Outcome::Moved { .. } if ticket.cost_ns > 0 => {
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
        if outcome != Outcome::Cancelled {
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
        // A request that moved nothing failed or met the end of its file.
        if observation.latency_ns > 0 && bytes > 0 {
            let is_scheduled = ticket.cost_ns > 0;
            if is_scheduled && ticket.direction == Direction::Read && observation.bytes <= SHORT_READ_BYTES {
                self.disk.observe_read(class, observation.latency_ns, ticket.is_alone);
            }
            if is_direct {
                self.learner.observe(observation, now_ns, || self.disk.traffic());
            }
        }
        if self.is_waiting() {
            self.wake_at(now_ns);
        }
    }

    /// A request used less than it was booked with.
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
        // More than the bucket holds would never come.
        self.disk.model().cost_ns(direction, bytes).min(self.disk.limit_ns())
    }

    /// A class with a cap may go while it owes nothing; so it is over its cap by one request at most.
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
        if !self.is_stuck(at, class, now_ns) && !self.disk.has_room(at, cost_ns) {
            // What completes elsewhere makes room too, and nobody tells.
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

    /// Whether nothing has moved for so long that the class goes without room.
    fn is_stuck(&self, at: usize, class: usize, now_ns: u64) -> bool {
        let since_ns = self.first_of(at, class).since_ns.max(self.lanes[at].moved_at_ns);
        now_ns.saturating_sub(since_ns) >= STUCK_NS
    }

    /// The class that goes next among those that their caps and what they have under way allow.
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

    /// Gets `cost_ns` of the disk's time in hand, or says when to look again.
    fn missing_ns(&mut self, at: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        let (lane, time) = (&mut self.lanes[at], self.disk.time(at));
        if lane.in_hand_ns >= cost_ns {
            return None;
        }
        time.refill(now_ns);
        if lane.asked.is_none() {
            let wanted_ns = lane.waiting_ns.min(self.disk.ahead_ns()).max(cost_ns) - lane.in_hand_ns;
            lane.asked = Some(Asked { tokens: wanted_ns, place: time.take(wanted_ns) });
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
                // Of what is still to come, only so much is needed for the first.
                Some(asked) => {
                    let needless_ns = asked.tokens.saturating_sub(cost_ns - lane.in_hand_ns);
                    return Some(time.flow_ns(missing_ns.saturating_sub(needless_ns)).max(1));
                }
                None => {
                    let wanted_ns = cost_ns - lane.in_hand_ns;
                    lane.asked = Some(Asked { tokens: wanted_ns, place: time.take(wanted_ns) });
                }
            }
        }
    }

    /// Nobody waits: what was taken for those who did goes to other shards.
    fn give_back(&mut self, at: usize) {
        let (lane, time) = (&mut self.lanes[at], self.disk.time(at));
        let Some(asked) = lane.asked.take() else {
            if lane.in_hand_ns > 0 {
                time.give_back(std::mem::take(&mut lane.in_hand_ns));
            }
            return;
        };
        // What is still to come is given up now: the place moves on as if it had come and gone back.
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
        let is_alone = self.disk.is_alone(class, now_ns);
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
            is_alone,
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
