//! State that all clients of a simulated node share: the first failure, the history, the order of events, and
//! the clocks.

use std::cell::{Cell, RefCell};
use std::fmt;

use runtime::sim::SimClock;

use crate::client::History;

/// Counts of operations, for the summary. Equal for equal seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: u64,
    pub answers: u64,
    /// Requests whose connection ended before their answer arrived.
    pub unanswered: u64,
    /// Error answers that have a reason.
    pub refused: u64,
    pub writes: u64,
    pub reads: u64,
    pub conditional: u64,
    pub counted: u64,
    pub paged: u64,
    pub schema_changes: u64,
    pub rude: u64,
    pub crashes: u64,
    pub restarts: u64,
    pub clock_jumps: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.answers += other.answers;
        self.unanswered += other.unanswered;
        self.refused += other.refused;
        self.writes += other.writes;
        self.reads += other.reads;
        self.conditional += other.conditional;
        self.counted += other.counted;
        self.paged += other.paged;
        self.schema_changes += other.schema_changes;
        self.rude += other.rude;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.clock_jumps += other.clock_jumps;
    }
}

/// Active faults, which explain errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excuses {
    /// Reads, writes or syncs fail.
    pub io: bool,
    /// The disk has a limited size.
    pub no_space: bool,
    /// Connections break.
    pub network: bool,
    /// The node has little memory, a low limit of concurrent requests, or a service level that ends requests.
    pub is_small: bool,
    /// The node is being stopped.
    pub is_stopping: bool,
    /// Idle connections are closed.
    pub idle: bool,
    /// Clients vanish without closing their connections.
    pub vanishing: bool,
}

/// The checkers of a served world. Each guards a promise, and `sim --server --break` shows that each can
/// fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// Each request gets one answer within its time, or its connection ends.
    Answers,
    /// The server closes a connection only for a reason, and then within its time.
    Connections,
    /// Every error of a client has a reason.
    Errors,
    /// A read shows acknowledged writes, no refused write, and each write whole or not at all.
    Reads,
    /// The same for the first read of each table after a restart.
    Restart,
    /// After a restart all partitions of a logged batch have their part, or none.
    Batches,
    /// Conditional statements are linearizable.
    Linear,
    /// A counter has each addition once.
    Counters,
    /// The pages of a read are together what one read returns.
    Pages,
    /// Schema changes have their effect.
    Schema,
    /// Passwords, roles and service levels are as their last change says.
    Access,
    /// Nothing is kept of disconnected clients.
    Leftovers,
    /// The node starts, and stops.
    Starts,
    /// Every operation ends.
    Ends,
    /// No assertion of the node fails.
    Panics,
    /// The same seed ends the same.
    Same,
}

impl Checker {
    pub const ALL: [Self; 16] = [
        Self::Answers,
        Self::Connections,
        Self::Errors,
        Self::Reads,
        Self::Restart,
        Self::Batches,
        Self::Linear,
        Self::Counters,
        Self::Pages,
        Self::Schema,
        Self::Access,
        Self::Leftovers,
        Self::Starts,
        Self::Ends,
        Self::Panics,
        Self::Same,
    ];
}

/// The failure of a seed: the checker that detected it, and its text.
#[derive(Clone, Debug)]
pub struct Failure {
    pub checker: Checker,
    pub text: String,
}

impl Failure {
    pub fn new(checker: Checker, text: impl Into<String>) -> Self {
        Self { checker, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:?}] {}", self.checker, self.text)
    }
}

/// A point in the order of events, with the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventTime {
    pub stamp: u64,
    pub now_us: u64,
}

/// A change of the wall clock: its lead over the monotonic clock from then on.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: EventTime,
    ahead_us: i64,
}

/// See the head of this file.
pub struct Notes {
    pub history: History,
    pub counts: Cell<Counts>,
    pub excuses: Cell<Excuses>,
    failure: RefCell<Option<Failure>>,
    stamp: Cell<u64>,
    now_us: Box<dyn Fn() -> u64>,
    jumps: RefCell<Vec<Jump>>,
    /// Digest of all lines of the history.
    digest: Cell<u64>,
}

impl Notes {
    /// `wall_start_us`: the wall clock at time 0 of the monotonic clock.
    pub fn new(history: History, now_us: impl Fn() -> u64 + 'static, wall_start_us: i64) -> Self {
        let begin = Jump { at: EventTime { stamp: 0, now_us: 0 }, ahead_us: wall_start_us };
        Self {
            history,
            counts: Cell::default(),
            excuses: Cell::default(),
            failure: RefCell::default(),
            stamp: Cell::new(0),
            now_us: Box::new(now_us),
            jumps: RefCell::new(vec![begin]),
            digest: Cell::new(0),
        }
    }

    pub fn note(&self, what: impl Into<String>) {
        // Fillers of long texts carry no information.
        let line = format!("{} {}", (self.now_us)(), what.into()).replace(&"x".repeat(16), "");
        let hash = base::murmur3::hash128(line.as_bytes()).0 as u64;
        self.digest.set(self.digest.get().rotate_left(7) ^ hash);
        self.history.note(line);
    }

    /// Digest of the whole history.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    pub fn count(&self, of: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        of(&mut counts);
        self.counts.set(counts);
    }

    pub fn excuse(&self, of: impl FnOnce(&mut Excuses)) {
        let mut excuses = self.excuses.get();
        of(&mut excuses);
        self.excuses.set(excuses);
    }

    /// Records a broken promise; the first one is reported.
    pub fn fail(&self, checker: Checker, what: impl Into<String>) {
        let failure = Failure::new(checker, what);
        self.note(format!("FAILED: {failure}"));
        self.failure.borrow_mut().get_or_insert(failure);
    }

    pub fn check<T>(&self, checker: Checker, result: Result<T, String>) {
        if let Err(what) = result {
            self.fail(checker, what);
        }
    }

    /// # Errors
    /// The first failure since the last call.
    pub fn take_failure(&self) -> Result<(), Failure> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// A new point in the order of events, after all earlier ones.
    pub fn moment(&self) -> EventTime {
        self.stamp.set(self.stamp.get() + 1);
        EventTime { stamp: self.stamp.get(), now_us: (self.now_us)() }
    }

    /// Sets the wall clock by `by_us` microseconds.
    pub fn jump(&self, clock: &SimClock, by_us: i64) {
        clock.set_wall_by_us(by_us);
        let mut jumps = self.jumps.borrow_mut();
        let ahead_us = jumps.last().map_or(0, |last| last.ahead_us) + by_us;
        jumps.push(Jump { at: self.moment(), ahead_us });
        drop(jumps);
        self.count(|counts| counts.clock_jumps += 1);
        self.note(format!("the wall clock jumps by {} s", by_us / 1_000_000));
    }

    /// The least and the greatest second that the wall clock showed between two moments.
    pub fn wall_s(&self, from: EventTime, to: EventTime) -> (i64, i64) {
        let jumps = self.jumps.borrow();
        let mut found: Option<(i64, i64)> = None;
        for (at, jump) in jumps.iter().enumerate() {
            let until = jumps.get(at + 1).map_or(u64::MAX, |next| next.at.stamp);
            if until < from.stamp || jump.at.stamp > to.stamp {
                continue;
            }
            let least = (from.now_us.max(jump.at.now_us) as i64 + jump.ahead_us).div_euclid(1_000_000);
            let until_us = jumps.get(at + 1).map_or(to.now_us, |next| next.at.now_us.min(to.now_us));
            let most = (until_us as i64 + jump.ahead_us).div_euclid(1_000_000);
            found = Some(found.map_or((least, most), |(a, b)| (a.min(least), b.max(most))));
        }
        found.unwrap_or((i64::MIN, i64::MAX))
    }
}
