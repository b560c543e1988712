//! Token bucket for several threads that serves them in the order of their requests.
//!
//! Two counters only rise: `taken` is the number of tokens ever requested, `given` the number that has
//! flowed. A caller adds its request to `taken`, and owns the tokens once `given` reaches the resulting value
//! of `taken`. Callers are thus served in order without a list of them. `given` exceeds `taken` by at most
//! the limit; the difference is the content of the bucket.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bucket of tokens. The caller chooses the unit: nanoseconds of a disk, or bytes.
#[derive(Debug)]
pub struct TokenBucket {
    taken: AtomicU64,
    given: AtomicU64,
    refilled_at_ns: AtomicU64,
    /// Tokens per second; 0: unlimited.
    rate_per_s: AtomicU64,
    limit: AtomicU64,
}

impl TokenBucket {
    /// An empty bucket. A rate of 0 means unlimited.
    pub fn new(rate_per_s: u64, limit: u64) -> Self {
        Self {
            taken: AtomicU64::new(0),
            given: AtomicU64::new(0),
            refilled_at_ns: AtomicU64::new(0),
            rate_per_s: AtomicU64::new(rate_per_s),
            limit: AtomicU64::new(limit),
        }
    }

    /// Changes the rate and the limit from now on.
    pub fn set_rate(&self, rate_per_s: u64, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.rate_per_s.store(rate_per_s, Ordering::Relaxed);
    }

    /// Tokens per second; 0: unlimited.
    pub fn rate_per_s(&self) -> u64 {
        self.rate_per_s.load(Ordering::Relaxed)
    }

    /// Adds the tokens that have flowed since the last call.
    pub fn refill(&self, now_ns: u64) {
        let rate = self.rate_per_s();
        let since_ns = self.refilled_at_ns.load(Ordering::Relaxed);
        if rate == 0 || now_ns <= since_ns {
            return;
        }
        let tokens = u128::from(now_ns - since_ns) * u128::from(rate) / 1_000_000_000;
        if tokens == 0 {
            return;
        }
        // A fraction of a token that has flowed is kept for the next call.
        let took_ns = (tokens * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
        let claimed = self.refilled_at_ns.compare_exchange(
            since_ns,
            since_ns + took_ns,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if claimed.is_err() {
            return;
        }
        self.give_back(u64::try_from(tokens).unwrap_or(u64::MAX));
    }

    /// Takes `tokens` if the bucket holds them and no other caller waits.
    pub fn try_take(&self, tokens: u64) -> bool {
        if self.rate_per_s() == 0 {
            return true;
        }
        let mut taken = self.taken.load(Ordering::Relaxed);
        while self.given.load(Ordering::Relaxed) >= taken.saturating_add(tokens) {
            match self.taken.compare_exchange_weak(
                taken,
                taken + tokens,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => taken = now,
            }
        }
        false
    }

    /// Takes `tokens`, which may still have to flow, and returns their place. They have flowed once
    /// [`TokenBucket::missing`] of that place is 0.
    pub fn take(&self, tokens: u64) -> u64 {
        if self.rate_per_s() == 0 {
            return 0;
        }
        self.taken.fetch_add(tokens, Ordering::Relaxed) + tokens
    }

    /// The number of tokens that must still flow until `place` is reached.
    pub fn missing(&self, place: u64) -> u64 {
        if self.rate_per_s() == 0 {
            return 0;
        }
        place.saturating_sub(self.given.load(Ordering::Relaxed))
    }

    /// The number of tokens that were taken and have not flowed.
    pub fn owed(&self) -> u64 {
        self.missing(self.taken.load(Ordering::Relaxed))
    }

    /// Returns tokens that were taken; the next caller gets them. Tokens beyond the bucket's limit are lost.
    pub fn give_back(&self, tokens: u64) {
        let full = self.taken.load(Ordering::Relaxed).saturating_add(self.limit.load(Ordering::Relaxed));
        let room = full.saturating_sub(self.given.load(Ordering::Relaxed));
        self.given.fetch_add(tokens.min(room), Ordering::Relaxed);
    }

    /// The time in nanoseconds in which `tokens` flow.
    pub fn flow_ns(&self, tokens: u64) -> u64 {
        let rate = u128::from(self.rate_per_s().max(1));
        u64::try_from((u128::from(tokens) * 1_000_000_000).div_ceil(rate)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_flow_at_the_rate_up_to_the_limit() {
        let bucket = TokenBucket::new(1000, 10);
        assert!(!bucket.try_take(1), "it begins empty");
        bucket.refill(5_000_000);
        assert!(bucket.try_take(5));
        assert!(!bucket.try_take(1));
        bucket.refill(1_000_000_000);
        assert!(bucket.try_take(10));
        assert!(!bucket.try_take(1), "what is above the limit is lost");
    }

    #[test]
    fn parts_of_tokens_are_not_lost() {
        let bucket = TokenBucket::new(3, 100);
        // Eleven refills make one token.
        (0..=110).for_each(|step| bucket.refill(step * 30_303_031));
        assert!(bucket.try_take(10));
        assert!(!bucket.try_take(1));
    }

    #[test]
    fn the_first_waiter_is_served_first() {
        let bucket = TokenBucket::new(1_000_000_000, 100);
        let (first, second) = (bucket.take(50), bucket.take(30));
        bucket.refill(49);
        assert_eq!((bucket.missing(first), bucket.missing(second)), (1, 31));
        bucket.refill(60);
        assert_eq!((bucket.missing(first), bucket.missing(second)), (0, 20));
        assert!(!bucket.try_take(1), "somebody waits");
        assert_eq!(bucket.flow_ns(bucket.missing(second)), 20);
        bucket.give_back(20);
        assert_eq!(bucket.missing(second), 0);
    }

    #[test]
    fn without_a_rate_no_request_waits() {
        let bucket = TokenBucket::new(0, 0);
        assert!(bucket.try_take(u64::MAX));
        assert_eq!(bucket.missing(bucket.take(1 << 40)), 0);
    }
}
