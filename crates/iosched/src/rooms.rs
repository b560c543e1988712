//! How much of what the disk has under way may be of one class: the less, the more others that read would have to wait for it.
//!
//! 1. A class that has started a read within [`READS_NS`] **reads**; somebody waits for what it asks, or its next request will come.
//!    Where nobody else reads, a class may have everything under way.
//! 2. Beside others that read a class has the part of its shares: a compaction with 200 beside statements with 1000 a
//!    sixth, so that a read finds little before it, whenever it comes. One request may always be under way.
//! 3. How much of the rest it has too, or whether it has to do with half its part, is found out by each class for those beside it. Its short reads that start while
//!    others have something under way are to take at most [`BESIDE_PERCENT`] of those that start where nobody else has anything under way or reads, at the
//!    95th percentile of both. Each that does gives the others a little, up to all; each that takes longer takes an eighth away. A disk that serves many at
//!    once, or has no queue of its own that a read could not pass, is used wholly that way, and one that serves them one after the other is kept
//!    nearly empty.
//! 4. Its requests are short while others read: the one that may always be under way is not long to wait for.
//! 5. Where half its part is still too much for one with more shares, a class is held back by time too ([`crate::pace`]): it has its shares of the disk's time, and what others leave
//!    of a part of all of it, down to half. One request after the other may be a third of a disk, and that is too much for one of which reads take two
//!    fifths.
//!
//! Atomic counters, for all shards; what one shard does the others see.

use std::array::from_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::pace::Pace;
use crate::shares::{CLASSES_MAX, SHARES_DEFAULT};

/// So long after a read more of its class are expected.
pub const READS_NS: u64 = 100_000_000;

/// What a short read beside others may take, in percent of what it takes alone. Reads are to take twice as long at most, and some of
/// that they wait before they start.
pub const BESIDE_PERCENT: u64 = 155;

/// What a class has at least, as a part of what its shares give.
const LEAST_PART: u64 = 2;

/// All that can be given, from half the part of the shares to everything, as counted here.
const ALL: u32 = 1 << 20;
/// With so much given a class has the part of its shares.
const OF_SHARES: u32 = ALL / 16;
/// With so much half of that, and with less it is held back by time.
const PACED: u32 = OF_SHARES / 8;
/// What all together may have at once of what they left, when they are held back by time, as a part of what may be under way.
const PACE_PART: u64 = 4;

/// So many short reads that started alone have to be known before a class has less than the part of its shares.
const ALONE_MIN: u32 = 64;
/// What is taken away by a short read that was too long, as a part of what is given.
const TAKEN_PART: u32 = 8;
/// What one that was not gives, so that one in twenty may be too long; and the least, from which it grows.
const GIVEN_PART: u32 = TAKEN_PART * 19;
const GIVEN_MIN: u32 = ALL / (256 * 1024);

/// The 95th percentile moves by this part of itself with each read, divided as 19 to 1 between up and down: at first, so that it is soon
/// about right, and in the end, when it has to be right, since what is known of reads alone is all there is while others have something under way.
const STEP_FIRST: u32 = 32;
const STEP_LAST: u32 = 256;
/// Between the two it becomes one part more with so many reads.
const STEP_READS: u32 = 16;
const STEPPED_READS: u32 = (STEP_LAST - STEP_FIRST) * STEP_READS;

#[derive(Debug)]
pub(crate) struct Rooms {
    shares: [AtomicU32; CLASSES_MAX],
    reads_until_ns: [AtomicU64; CLASSES_MAX],
    under_way_ns: [[AtomicU64; CLASSES_MAX]; 2],
    observed: [Observed; CLASSES_MAX],
    /// What a class has had of its shares of a lane's time, and what all have had of the part that is given out.
    paces: [[Pace; CLASSES_MAX]; 2],
    paces_of_all: [Pace; 2],
    options: RoomOptions,
}

/// What is known of the short reads of one class.
#[derive(Debug)]
struct Observed {
    /// What those take that start alone; 0: there was none.
    alone_p95_ns: AtomicU64,
    /// How many those were, up to [`STEPPED_READS`].
    alone_reads: AtomicU32,
    /// How much the others are given beside it, of [`ALL`].
    given: AtomicU32,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            alone_p95_ns: AtomicU64::new(0),
            alone_reads: AtomicU32::new(0),
            given: AtomicU32::new(OF_SHARES),
        }
    }
}

/// A class beside others that read.
struct Beside {
    shares: u64,
    /// With those of the others.
    all_shares: u64,
    /// The least that any of the others gives it, of [`ALL`].
    given: u32,
    /// And the least that any of those with more shares does.
    given_by_more: u32,
}

/// What is known of the disk from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomOptions {
    /// What may be under way.
    pub limit_ns: u64,
    /// After so long to look for room again, since what completes on another shard makes some and nobody tells.
    pub again_ns: u64,
    /// What requests cost is known, so that a class can be held back by time.
    pub is_paced: bool,
}

impl Rooms {
    pub fn new(options: RoomOptions) -> Self {
        Self {
            shares: from_fn(|_| AtomicU32::new(SHARES_DEFAULT)),
            reads_until_ns: Default::default(),
            under_way_ns: Default::default(),
            observed: Default::default(),
            paces: Default::default(),
            paces_of_all: Default::default(),
            options,
        }
    }

    pub fn set_shares(&self, class: usize, shares: u32) {
        self.shares[class].store(shares.max(1), Ordering::Relaxed);
    }

    /// The classes that read beside this one.
    fn others(&self, class: usize, now_ns: u64) -> impl Iterator<Item = usize> {
        let reads = move |other: &usize| self.reads_until_ns[*other].load(Ordering::Relaxed) > now_ns;
        (0..CLASSES_MAX).filter(move |other| *other != class).filter(reads)
    }

    /// Whether others read.
    pub fn is_beside(&self, class: usize, now_ns: u64) -> bool {
        self.others(class, now_ns).next().is_some()
    }

    /// `None` if no others read.
    fn beside(&self, class: usize, now_ns: u64) -> Option<Beside> {
        let shares = |class: usize| u64::from(self.shares[class].load(Ordering::Relaxed));
        let mut others = self.others(class, now_ns).peekable();
        others.peek()?;
        let mine = shares(class);
        let nobody = Beside { shares: mine, all_shares: mine, given: ALL, given_by_more: ALL };
        Some(others.fold(nobody, |beside, other| {
            let (its, given) = (shares(other), self.observed[other].given.load(Ordering::Relaxed));
            let by_more = if its > mine { given } else { ALL };
            Beside {
                shares: mine,
                all_shares: beside.all_shares + its,
                given: beside.given.min(given),
                given_by_more: beside.given_by_more.min(by_more),
            }
        }))
    }

    /// How much the class may have under way.
    pub fn part_ns(&self, class: usize, now_ns: u64) -> u64 {
        let limit_ns = self.options.limit_ns;
        let Some(Beside { shares, all_shares, given, .. }) = self.beside(class, now_ns) else {
            return limit_ns;
        };
        let of_shares_ns = scaled(limit_ns, shares, all_shares);
        match given.checked_sub(OF_SHARES) {
            Some(more) => {
                of_shares_ns + scaled(limit_ns - of_shares_ns, u64::from(more), u64::from(ALL - OF_SHARES))
            }
            None => {
                let least_ns = of_shares_ns / LEAST_PART;
                let more = given.saturating_sub(PACED);
                least_ns + scaled(of_shares_ns - least_ns, u64::from(more), u64::from(OF_SHARES - PACED))
            }
        }
    }

    /// Whether a class may have `cost_ns` more under way: `None`, or when to ask again, if nothing completes before.
    ///
    /// It has its part rounded to whole requests. Rounded down, a class that has room for 1.9 requests would have one, and of a slow disk, where few are under
    /// way, much less than its shares give.
    pub fn waits_until_ns(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        let under_way_ns = self.under_way_ns[lane][class].load(Ordering::Relaxed);
        if under_way_ns > 0 && under_way_ns + cost_ns / 2 > self.part_ns(class, now_ns) {
            return Some(now_ns + self.options.again_ns);
        }
        let until_ns = self.paces[lane][class].until_ns().min(self.paces_of_all[lane].until_ns());
        (until_ns > now_ns && self.is_beside(class, now_ns)).then_some(until_ns)
    }

    /// A class has had `cost_ns` more of the disk's time.
    fn pace(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) {
        let RoomOptions { limit_ns, is_paced, .. } = self.options;
        let Some(Beside { shares, all_shares, given_by_more, .. }) = self.beside(class, now_ns) else {
            return;
        };
        if is_paced && given_by_more < PACED {
            let of_shares_ns = scaled(limit_ns, shares, all_shares);
            self.paces[lane][class].charge(
                scaled(cost_ns, all_shares, shares),
                of_shares_ns,
                limit_ns,
                now_ns,
            );
        }
        // What it has counts for those that are held back because of its own reads too.
        let given = given_by_more.min(self.observed[class].given.load(Ordering::Relaxed));
        if !is_paced || given >= PACED {
            return;
        }
        // From the whole disk down to half of it, where nothing is given.
        let of_all_ns = scaled(cost_ns, 2 * u64::from(PACED), u64::from(PACED + given));
        self.paces_of_all[lane].charge(of_all_ns, limit_ns / PACE_PART, limit_ns, now_ns);
    }

    /// Whether no other class reads or has anything under way. `all_ns`: what all have under way.
    pub fn is_alone(&self, class: usize, all_ns: u64, now_ns: u64) -> bool {
        let mine_ns: u64 = self.under_way_ns.iter().map(|lane| lane[class].load(Ordering::Relaxed)).sum();
        mine_ns >= all_ns && !self.is_beside(class, now_ns)
    }

    pub fn started(&self, lane: usize, class: usize, cost_ns: u64, is_read: bool, now_ns: u64) {
        self.under_way_ns[lane][class].fetch_add(cost_ns, Ordering::Relaxed);
        self.pace(lane, class, cost_ns, now_ns);
        if is_read {
            let until_ns = &self.reads_until_ns[class];
            // Seldom, since other shards look at it.
            if until_ns.load(Ordering::Relaxed) < now_ns + READS_NS / 2 {
                until_ns.store(now_ns + READS_NS, Ordering::Relaxed);
            }
        }
    }

    pub fn completed(&self, lane: usize, class: usize, cost_ns: u64) {
        self.under_way_ns[lane][class].fetch_sub(cost_ns, Ordering::Relaxed);
    }

    /// A short read of a class took so long; `is_alone` as it was when it started. Shards that say so at the same time
    /// may overwrite each other: each moves the figures a little.
    pub fn observe(&self, class: usize, latency_ns: u64, is_alone: bool) {
        let observed = &self.observed[class];
        let alone_ns = observed.alone_p95_ns.load(Ordering::Relaxed);
        let alone_reads = observed.alone_reads.load(Ordering::Relaxed);
        if is_alone {
            let step_ns = alone_ns / u64::from(STEP_FIRST + alone_reads / STEP_READS) + 1;
            let moved_ns = match latency_ns.cmp(&alone_ns) {
                _ if alone_ns == 0 => latency_ns,
                std::cmp::Ordering::Greater => alone_ns + step_ns - step_ns / 20,
                _ => alone_ns - (step_ns / 20).min(alone_ns - 1),
            };
            observed.alone_p95_ns.store(moved_ns.max(1), Ordering::Relaxed);
            if alone_reads < STEPPED_READS {
                observed.alone_reads.store(alone_reads + 1, Ordering::Relaxed);
            }
        } else if alone_ns > 0 {
            let given = observed.given.load(Ordering::Relaxed);
            let is_too_long = latency_ns > alone_ns.saturating_mul(BESIDE_PERCENT) / 100;
            let least = if alone_reads < ALONE_MIN { OF_SHARES } else { 0 };
            let moved = match is_too_long {
                true => (given - given / TAKEN_PART).max(least),
                false => (given + (given / GIVEN_PART).max(GIVEN_MIN)).min(ALL),
            };
            observed.given.store(moved, Ordering::Relaxed);
        }
    }
}

fn scaled(ns: u64, by: u64, of: u64) -> u64 {
    (u128::from(ns) * u128::from(by) / u128::from(of)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(limit_ns: u64) -> Rooms {
        Rooms::new(RoomOptions { limit_ns, again_ns: limit_ns, is_paced: true })
    }

    #[test]
    fn what_may_be_under_way_is_divided_among_those_that_read() {
        let rooms = rooms(600);
        rooms.set_shares(1, 200);
        assert_eq!(rooms.part_ns(1, 0), 600);
        // Writes keep nobody waiting.
        rooms.started(0, 0, 10, false, 0);
        assert_eq!(rooms.part_ns(1, 0), 600);
        rooms.started(0, 0, 10, true, 1);
        rooms.started(0, 2, 10, true, 1);
        rooms.started(0, 1, 10, true, 1);
        assert_eq!([rooms.part_ns(0, 2), rooms.part_ns(1, 2)], [272, 54]);
        let later_ns = 2 + READS_NS;
        assert_eq!(rooms.part_ns(1, later_ns), 600);
    }

    #[test]
    fn who_is_alone() {
        let rooms = rooms(600);
        assert!(rooms.is_alone(0, 0, 0));
        rooms.started(0, 0, 10, true, 0);
        assert!(rooms.is_alone(0, 10, 1) && !rooms.is_alone(1, 10, 1));
        rooms.started(1, 1, 5, false, 1);
        assert!(!rooms.is_alone(0, 15, 1));
        rooms.completed(0, 0, 10);
        rooms.completed(1, 1, 5);
        assert!(rooms.is_alone(0, 0, 1) && !rooms.is_alone(1, 0, 1) && rooms.is_alone(1, 0, READS_NS));
    }

    #[test]
    fn one_request_always_has_room() {
        let rooms = rooms(100);
        rooms.started(0, 0, 10, true, 0);
        let waits_until_ns = |lane, cost_ns| rooms.waits_until_ns(lane, 1, cost_ns, 1);
        assert_eq!([waits_until_ns(0, 1000), waits_until_ns(1, 1000)], [None; 2]);
        rooms.started(0, 1, 40, true, 1);
        assert_eq!([waits_until_ns(0, 20), waits_until_ns(0, 22)], [None, Some(101)]);
        rooms.completed(0, 1, 40);
        assert_eq!(waits_until_ns(0, 1000), None);
    }

    #[test]
    fn the_rest_is_given_while_reads_do_not_take_much_longer() {
        let rooms = rooms(100_000);
        rooms.set_shares(1, 250);
        rooms.started(0, 0, 10, true, 0);
        let part_ns = || rooms.part_ns(1, 1);
        // Nothing is known of reads alone.
        (0..5000).for_each(|_| rooms.observe(0, 10, false));
        assert_eq!(part_ns(), 20_000);
        // 1 in 10 takes 300 us: that is within the 95th percentile, and not beyond it.
        (0..20_000).for_each(|at| rooms.observe(0, if at % 10 == 0 { 300_000 } else { 100_000 }, true));
        let alone_ns = rooms.observed[0].alone_p95_ns.load(Ordering::Relaxed);
        assert!((280_000..330_000).contains(&alone_ns), "{alone_ns}");
        (0..2000).for_each(|_| rooms.observe(0, 400_000, false));
        assert_eq!(part_ns(), 100_000);
        // One in fifty is within the 95th percentile.
        (0..5000).for_each(|at| rooms.observe(0, if at % 50 == 0 { 900_000 } else { 400_000 }, false));
        assert!((85_000..=100_000).contains(&part_ns()), "{}", part_ns());
        // One in four too long: next to nothing is given, and half of what the shares give is left.
        (0..1000).for_each(|at| rooms.observe(0, if at % 4 == 0 { 900_000 } else { 400_000 }, false));
        assert!((10_000..12_000).contains(&part_ns()), "{}", part_ns());
    }

    /// Reads of a class with five sixths of the shares take `used` of the disk, and one request of the other class after another is over as soon as it
    /// is started; how much of the time the second has.
    fn paced(rooms: &Rooms, used: f64) -> f64 {
        const TIME_NS: u64 = 100_000_000;
        rooms.set_shares(1, 200);
        let (mut reads_ns, mut beside_ns) = (0, 0);
        for now_ns in (1..TIME_NS).step_by(1000) {
            while (reads_ns as f64) < now_ns as f64 * used {
                rooms.started(0, 0, 10_000, true, now_ns);
                rooms.completed(0, 0, 10_000);
                reads_ns += 10_000;
            }
            while beside_ns < TIME_NS && rooms.waits_until_ns(0, 1, 50_000, now_ns).is_none() {
                rooms.started(0, 1, 50_000, true, now_ns);
                rooms.completed(0, 1, 50_000);
                beside_ns += 50_000;
            }
        }
        beside_ns as f64 / TIME_NS as f64
    }

    #[test]
    fn a_class_is_held_back_by_time_where_reads_take_too_long() {
        let late = || {
            let rooms = rooms(750_000);
            (0..1000).for_each(|_| rooms.observe(0, 100_000, true));
            (0..1000).for_each(|_| rooms.observe(0, 900_000, false));
            rooms
        };
        let near = |found: f64, due: f64| assert!((found - due).abs() < 0.02, "{found} is not near {due}");
        // What reads leave of half of the disk, and its shares where they leave less.
        near(paced(&late(), 0.1), 0.4);
        near(paced(&late(), 0.2), 0.3);
        near(paced(&late(), 0.4), 0.167);
        near(paced(&late(), 0.8), 0.167);
        // The class whose reads are late is not held back.
        let own = late();
        own.observed[1]
            .given
            .store(own.observed[0].given.swap(OF_SHARES, Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!(paced(&own, 0.4), 1.0);
        // Nor is one beside a class of as many shares, to which nothing but half of what is under way is due.
        let equals = late();
        equals.set_shares(0, 200);
        assert_eq!(paced(&equals, 0.4), 1.0);
        // Reads are in time, nobody reads, and the disk's time is not known.
        assert_eq!(paced(&rooms(750_000), 0.4), 1.0);
        assert_eq!(paced(&late(), 0.0), 1.0);
        let mut unknown = late();
        unknown.options.is_paced = false;
        assert_eq!(paced(&unknown, 0.4), 1.0);
    }
}
