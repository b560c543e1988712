//! In-flight quotas: limits the part of the disk's in-flight limit that one class may use while other classes
//! read. The more the requests of a class delay the reads of others, the smaller its quota.
//!
//! 1. A class **reads** if it has started a read within [`READING_WINDOW_NS`]: a task waits for that read, or
//!    further reads will follow. A class may use the whole limit while no other class reads.
//! 2. While others read, the quota of a class is proportional to its shares. A compaction with 200 shares
//!    next to statements with 1000 has a sixth of the limit, so that a read finds few requests ahead of it at
//!    any time. One request may always be in flight.
//! 3. Each reading class adjusts the quotas of the others by feedback. Its short reads that start while
//!    others have requests in flight should take at most [`CONTENDED_LATENCY_PERCENT`] of the time of its
//!    reads that start alone, with no other class reading or in flight; both times are 95th percentiles. A
//!    read within the bound grants the others slightly more, up to the whole limit; a read beyond it takes
//!    away an eighth of the grant, down to half the quota by shares. A disk that serves many requests in
//!    parallel, or has no queue of its own that a read could not pass, is thus used fully. A disk that serves
//!    requests one after the other is kept nearly empty.
//! 4. The requests of a class are split into short ones while others read, because the one that may always be
//!    in flight delays a read.
//! 5. If half the quota is still too much for a class with more shares, the other class is also limited by
//!    rate ([`crate::rate_limiter`]). It may start a request if it is within its shares of the disk's time,
//!    or if all classes together are within a part of the disk's time; that part falls from the whole to half
//!    as the grant falls. Without the limit one request after the other could use a third of a disk, which is
//!    too much if reads use two fifths of it.
//!
//! The state is atomic counters for all shards; each shard sees the updates of the others.

use std::array::from_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::rate_limiter::RateLimiter;
use crate::shares::{CLASSES_MAX, SHARES_DEFAULT};

/// A class counts as reading for this time after a read.
pub const READING_WINDOW_NS: u64 = 100_000_000;

/// The time that a short read may take while others have requests in flight, in percent of its time alone.
/// The aim is a factor of two at most; part of it is the time that reads wait before they start.
pub const CONTENDED_LATENCY_PERCENT: u64 = 155;

/// Divisor of the quota by shares that gives the smallest quota.
const LEAST_PART: u64 = 2;

/// The greatest grant. A grant of 0 means half the quota by shares, this one the whole limit.
const ALL: u32 = 1 << 20;
/// With this grant a class has exactly the quota of its shares.
const OF_SHARES: u32 = ALL / 16;
/// With this grant or less a class has half the quota of its shares; with less it is also limited by rate.
const PACED: u32 = OF_SHARES / 8;
/// Divisor: the burst allowance of the rate limit for all classes together is this part of the in-flight
/// limit.
const PACE_PART: u64 = 4;

/// The number of short reads that must have started alone before a class may get less than the quota of its
/// shares.
const ALONE_MIN: u32 = 64;
/// Divisor: a short read that took too long takes away this part of the grant.
const GRANT_DECREASE_DIVISOR: u32 = 8;
/// Divisor: a short read within the bound adds this part, so that the grant is stable if one in twenty is too
/// long. `GIVEN_MIN` is the smallest addition, from which a grant of 0 grows.
const GRANT_INCREASE_DIVISOR: u32 = GRANT_DECREASE_DIVISOR * 19;
const GIVEN_MIN: u32 = ALL / (256 * 1024);

/// Divisors that give the step by which one read moves the estimate of the 95th percentile. A read longer
/// than the estimate raises it by 19/20 of the step, a shorter one lowers it by 1/20. The first step is
/// large, so that the estimate is soon approximately right. The last is small, because the estimate must stay
/// right while others have requests in flight and no read starts alone.
const STEP_FIRST: u32 = 32;
const STEP_LAST: u32 = 256;
/// The divisor rises from the first to the last by one per this number of reads.
const STEP_READS: u32 = 16;
const STEPPED_READS: u32 = (STEP_LAST - STEP_FIRST) * STEP_READS;

#[derive(Debug)]
pub(crate) struct InflightQuota {
    shares: [AtomicU32; CLASSES_MAX],
    reads_until_ns: [AtomicU64; CLASSES_MAX],
    inflight_ns: [[AtomicU64; CLASSES_MAX]; 2],
    observed: [Observed; CLASSES_MAX],
    /// Rate limits on the time of a lane: `rate_limiters` of a class to its shares, `rate_limiters_of_all` of
    /// all limited classes together.
    rate_limiters: [[RateLimiter; CLASSES_MAX]; 2],
    rate_limiters_of_all: [RateLimiter; 2],
    options: QuotaOptions,
}

/// Statistics of the short reads of one class.
#[derive(Debug)]
struct Observed {
    /// 95th percentile of the latency of reads that started alone; 0: none yet.
    uncontended_p95_ns: AtomicU64,
    /// The number of those reads, up to [`STEPPED_READS`].
    alone_reads: AtomicU32,
    /// The grant to the other classes while this one reads, from 0 to [`ALL`].
    given: AtomicU32,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            uncontended_p95_ns: AtomicU64::new(0),
            alone_reads: AtomicU32::new(0),
            given: AtomicU32::new(OF_SHARES),
        }
    }
}

/// A class in contention with others that read.
struct Contention {
    shares: u64,
    /// Sum of its shares and the shares of the reading classes.
    all_shares: u64,
    /// The smallest grant of the others, from 0 to [`ALL`].
    given: u32,
    /// The smallest grant of those others that have more shares than this class.
    grant_by_more_shares: u32,
}

/// Properties of the disk, constant after the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaOptions {
    /// In-flight limit, as a cost.
    pub limit_ns: u64,
    /// The delay after which a class checks its quota again: completions on other shards free quota without
    /// waking this shard.
    pub again_ns: u64,
    /// Whether the costs of requests are measured, so that a class can be limited by rate.
    pub is_paced: bool,
}

impl InflightQuota {
    pub fn new(options: QuotaOptions) -> Self {
        Self {
            shares: from_fn(|_| AtomicU32::new(SHARES_DEFAULT)),
            reads_until_ns: Default::default(),
            inflight_ns: Default::default(),
            observed: Default::default(),
            rate_limiters: Default::default(),
            rate_limiters_of_all: Default::default(),
            options,
        }
    }

    pub fn set_shares(&self, class: usize, shares: u32) {
        self.shares[class].store(shares.max(1), Ordering::Relaxed);
    }

    /// The other classes that read.
    fn others(&self, class: usize, now_ns: u64) -> impl Iterator<Item = usize> {
        let reads = move |other: &usize| self.reads_until_ns[*other].load(Ordering::Relaxed) > now_ns;
        (0..CLASSES_MAX).filter(move |other| *other != class).filter(reads)
    }

    /// Whether other classes read.
    pub fn is_contended(&self, class: usize, now_ns: u64) -> bool {
        self.others(class, now_ns).next().is_some()
    }

    /// The contention of a class; `None` if no others read.
    fn beside(&self, class: usize, now_ns: u64) -> Option<Contention> {
        let shares = |class: usize| u64::from(self.shares[class].load(Ordering::Relaxed));
        let mut others = self.others(class, now_ns).peekable();
        others.peek()?;
        let mine = shares(class);
        let nobody = Contention { shares: mine, all_shares: mine, given: ALL, grant_by_more_shares: ALL };
        Some(others.fold(nobody, |beside, other| {
            let (its, given) = (shares(other), self.observed[other].given.load(Ordering::Relaxed));
            let by_more = if its > mine { given } else { ALL };
            Contention {
                shares: mine,
                all_shares: beside.all_shares + its,
                given: beside.given.min(given),
                grant_by_more_shares: beside.grant_by_more_shares.min(by_more),
            }
        }))
    }

    /// The quota of a class: the cost that it may have in flight.
    pub fn quota_ns(&self, class: usize, now_ns: u64) -> u64 {
        let limit_ns = self.options.limit_ns;
        let Some(Contention { shares, all_shares, given, .. }) = self.beside(class, now_ns) else {
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

    /// Whether a class may have `cost_ns` more in flight: `None` if it may, otherwise the time to check again
    /// if no request completes before.
    ///
    /// The quota is rounded to whole requests. If it were rounded down, a class with a quota of 1.9 requests
    /// would have one. On a slow disk, with few requests in flight, that is much less than its shares give.
    pub fn waits_until_ns(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) -> Option<u64> {
        let inflight_ns = self.inflight_ns[lane][class].load(Ordering::Relaxed);
        if inflight_ns > 0 && inflight_ns + cost_ns / 2 > self.quota_ns(class, now_ns) {
            return Some(now_ns + self.options.again_ns);
        }
        let until_ns =
            self.rate_limiters[lane][class].until_ns().min(self.rate_limiters_of_all[lane].until_ns());
        (until_ns > now_ns && self.is_contended(class, now_ns)).then_some(until_ns)
    }

    /// Charges a class `cost_ns` of the disk's time.
    fn rate_limiter(&self, lane: usize, class: usize, cost_ns: u64, now_ns: u64) {
        let QuotaOptions { limit_ns, is_paced, .. } = self.options;
        let Some(Contention { shares, all_shares, grant_by_more_shares, .. }) = self.beside(class, now_ns)
        else {
            return;
        };
        if is_paced && grant_by_more_shares < PACED {
            let of_shares_ns = scaled(limit_ns, shares, all_shares);
            self.rate_limiters[lane][class].charge(
                scaled(cost_ns, all_shares, shares),
                of_shares_ns,
                limit_ns,
                now_ns,
            );
        }
        // The common limit counts this class too, even if the limit protects the class's own reads.
        let given = grant_by_more_shares.min(self.observed[class].given.load(Ordering::Relaxed));
        if !is_paced || given >= PACED {
            return;
        }
        // The limit falls from the whole disk to half of it, which it reaches with a grant of 0.
        let of_all_ns = scaled(cost_ns, 2 * u64::from(PACED), u64::from(PACED + given));
        self.rate_limiters_of_all[lane].charge(of_all_ns, limit_ns / PACE_PART, limit_ns, now_ns);
    }

    /// Whether no other class reads or has requests in flight. `all_ns`: the cost that all classes have in
    /// flight.
    pub fn is_uncontended(&self, class: usize, all_ns: u64, now_ns: u64) -> bool {
        let mine_ns: u64 = self.inflight_ns.iter().map(|lane| lane[class].load(Ordering::Relaxed)).sum();
        mine_ns >= all_ns && !self.is_contended(class, now_ns)
    }

    /// Counts a started request and charges it to the rate limits.
    pub fn started(&self, lane: usize, class: usize, cost_ns: u64, is_read: bool, now_ns: u64) {
        self.inflight_ns[lane][class].fetch_add(cost_ns, Ordering::Relaxed);
        self.rate_limiter(lane, class, cost_ns, now_ns);
        if is_read {
            let until_ns = &self.reads_until_ns[class];
            // Stored rarely, because other shards read this cache line.
            if until_ns.load(Ordering::Relaxed) < now_ns + READING_WINDOW_NS / 2 {
                until_ns.store(now_ns + READING_WINDOW_NS, Ordering::Relaxed);
            }
        }
    }

    pub fn completed(&self, lane: usize, class: usize, cost_ns: u64) {
        self.inflight_ns[lane][class].fetch_sub(cost_ns, Ordering::Relaxed);
    }

    /// Records the latency of a short read; `is_uncontended` is the state when it started. Shards that call
    /// this at the same time may overwrite each other's update, which is harmless, since one read changes
    /// little.
    pub fn observe(&self, class: usize, latency_ns: u64, is_uncontended: bool) {
        let observed = &self.observed[class];
        let alone_ns = observed.uncontended_p95_ns.load(Ordering::Relaxed);
        let alone_reads = observed.alone_reads.load(Ordering::Relaxed);
        if is_uncontended {
            let step_ns = alone_ns / u64::from(STEP_FIRST + alone_reads / STEP_READS) + 1;
            let moved_ns = match latency_ns.cmp(&alone_ns) {
                _ if alone_ns == 0 => latency_ns,
                std::cmp::Ordering::Greater => alone_ns + step_ns - step_ns / 20,
                _ => alone_ns - (step_ns / 20).min(alone_ns - 1),
            };
            observed.uncontended_p95_ns.store(moved_ns.max(1), Ordering::Relaxed);
            if alone_reads < STEPPED_READS {
                observed.alone_reads.store(alone_reads + 1, Ordering::Relaxed);
            }
        } else if alone_ns > 0 {
            let given = observed.given.load(Ordering::Relaxed);
            let is_too_long = latency_ns > alone_ns.saturating_mul(CONTENDED_LATENCY_PERCENT) / 100;
            let least = if alone_reads < ALONE_MIN { OF_SHARES } else { 0 };
            let moved = match is_too_long {
                true => (given - given / GRANT_DECREASE_DIVISOR).max(least),
                false => (given + (given / GRANT_INCREASE_DIVISOR).max(GIVEN_MIN)).min(ALL),
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

    fn quota(limit_ns: u64) -> InflightQuota {
        InflightQuota::new(QuotaOptions { limit_ns, again_ns: limit_ns, is_paced: true })
    }

    #[test]
    fn the_inflight_limit_is_divided_among_the_readers() {
        let quota = quota(600);
        quota.set_shares(1, 200);
        assert_eq!(quota.quota_ns(1, 0), 600);
        // A class that only writes does not count as reading.
        quota.started(0, 0, 10, false, 0);
        assert_eq!(quota.quota_ns(1, 0), 600);
        quota.started(0, 0, 10, true, 1);
        quota.started(0, 2, 10, true, 1);
        quota.started(0, 1, 10, true, 1);
        assert_eq!([quota.quota_ns(0, 2), quota.quota_ns(1, 2)], [272, 54]);
        let later_ns = 2 + READING_WINDOW_NS;
        assert_eq!(quota.quota_ns(1, later_ns), 600);
    }

    #[test]
    fn who_is_alone() {
        let quota = quota(600);
        assert!(quota.is_uncontended(0, 0, 0));
        quota.started(0, 0, 10, true, 0);
        assert!(quota.is_uncontended(0, 10, 1) && !quota.is_uncontended(1, 10, 1));
        quota.started(1, 1, 5, false, 1);
        assert!(!quota.is_uncontended(0, 15, 1));
        quota.completed(0, 0, 10);
        quota.completed(1, 1, 5);
        assert!(
            quota.is_uncontended(0, 0, 1)
                && !quota.is_uncontended(1, 0, 1)
                && quota.is_uncontended(1, 0, READING_WINDOW_NS)
        );
    }

    #[test]
    fn one_request_always_has_room() {
        let quota = quota(100);
        quota.started(0, 0, 10, true, 0);
        let waits_until_ns = |lane, cost_ns| quota.waits_until_ns(lane, 1, cost_ns, 1);
        assert_eq!([waits_until_ns(0, 1000), waits_until_ns(1, 1000)], [None; 2]);
        quota.started(0, 1, 40, true, 1);
        assert_eq!([waits_until_ns(0, 20), waits_until_ns(0, 22)], [None, Some(101)]);
        quota.completed(0, 1, 40);
        assert_eq!(waits_until_ns(0, 1000), None);
    }

    #[test]
    fn the_rest_is_given_while_reads_do_not_take_much_longer() {
        let quota = quota(100_000);
        quota.set_shares(1, 250);
        quota.started(0, 0, 10, true, 0);
        let quota_ns = || quota.quota_ns(1, 1);
        // No latency of reads alone is known yet.
        (0..5000).for_each(|_| quota.observe(0, 10, false));
        assert_eq!(quota_ns(), 20_000);
        // One in ten takes 300 us, so the 95th percentile is 300 us.
        (0..20_000).for_each(|at| quota.observe(0, if at % 10 == 0 { 300_000 } else { 100_000 }, true));
        let alone_ns = quota.observed[0].uncontended_p95_ns.load(Ordering::Relaxed);
        assert!((280_000..330_000).contains(&alone_ns), "{alone_ns}");
        (0..2000).for_each(|_| quota.observe(0, 400_000, false));
        assert_eq!(quota_ns(), 100_000);
        // One in fifty is within the bound of the 95th percentile.
        (0..5000).for_each(|at| quota.observe(0, if at % 50 == 0 { 900_000 } else { 400_000 }, false));
        assert!((85_000..=100_000).contains(&quota_ns()), "{}", quota_ns());
        // One in four is too long: the grant falls almost to 0, and half of the quota by shares is left.
        (0..1000).for_each(|at| quota.observe(0, if at % 4 == 0 { 900_000 } else { 400_000 }, false));
        assert!((10_000..12_000).contains(&quota_ns()), "{}", quota_ns());
    }

    /// Simulates two classes. Reads of the first, with five sixths of the shares, use `used` of the disk's
    /// time. The second always has one request, which completes as soon as it starts. Returns the part of the
    /// time that the second class gets.
    fn paced(quota: &InflightQuota, used: f64) -> f64 {
        const TIME_NS: u64 = 100_000_000;
        quota.set_shares(1, 200);
        let (mut reads_ns, mut beside_ns) = (0, 0);
        for now_ns in (1..TIME_NS).step_by(1000) {
            while (reads_ns as f64) < now_ns as f64 * used {
                quota.started(0, 0, 10_000, true, now_ns);
                quota.completed(0, 0, 10_000);
                reads_ns += 10_000;
            }
            while beside_ns < TIME_NS && quota.waits_until_ns(0, 1, 50_000, now_ns).is_none() {
                quota.started(0, 1, 50_000, true, now_ns);
                quota.completed(0, 1, 50_000);
                beside_ns += 50_000;
            }
        }
        beside_ns as f64 / TIME_NS as f64
    }

    #[test]
    fn a_class_is_held_back_by_time_where_reads_take_too_long() {
        let late = || {
            let quota = quota(750_000);
            (0..1000).for_each(|_| quota.observe(0, 100_000, true));
            (0..1000).for_each(|_| quota.observe(0, 900_000, false));
            quota
        };
        let near = |found: f64, due: f64| assert!((found - due).abs() < 0.02, "{found} is not near {due}");
        // The second class gets the part of half the disk that reads leave, or its shares if that is more.
        near(paced(&late(), 0.1), 0.4);
        near(paced(&late(), 0.2), 0.3);
        near(paced(&late(), 0.4), 0.167);
        near(paced(&late(), 0.8), 0.167);
        // The class whose reads are late is not limited.
        let own = late();
        own.observed[1]
            .given
            .store(own.observed[0].given.swap(OF_SHARES, Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!(paced(&own, 0.4), 1.0);
        // A class next to one with as many shares is not limited either, because the other may claim only
        // half of the in-flight limit.
        let equals = late();
        equals.set_shares(0, 200);
        assert_eq!(paced(&equals, 0.4), 1.0);
        // No limit if the reads are in time, if no class reads, or if the costs are not measured.
        assert_eq!(paced(&quota(750_000), 0.4), 1.0);
        assert_eq!(paced(&late(), 0.0), 1.0);
        let mut unknown = late();
        unknown.options.is_paced = false;
        assert_eq!(paced(&unknown, 0.4), 1.0);
    }
}
