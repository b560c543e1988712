//! Generic cell rate algorithm (GCRA, ITU-T I.371, virtual scheduling form): limits a flow of requests to a
//! rate.
//!
//! The state is one instant, at which the next request may start. Each request moves the instant forward by
//! the request's cost at the flow's rate. Before that, the instant is limited to an interval around the
//! current time. Its lower bound is the current time minus the burst allowance, which limits what the flow
//! may use at once after a pause. Its upper bound is the current time plus the allowed debt, so that a flow
//! that used far more than its rate is not blocked for long.

use std::sync::atomic::{AtomicU64, Ordering};

/// Rate limiter of one flow of requests. See the head of the file. Threads that charge at the same time may
/// overwrite each other; one of the requests is then free of charge.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    until_ns: AtomicU64,
}

impl RateLimiter {
    /// The time at which the next request may start.
    pub fn until_ns(&self) -> u64 {
        self.until_ns.load(Ordering::Relaxed)
    }

    /// Charges a request that started now. `after_ns` is its cost at the flow's rate, `left_ns` the burst
    /// allowance, `owed_ns` the largest debt from earlier requests.
    pub fn charge(&self, after_ns: u64, left_ns: u64, owed_ns: u64, now_ns: u64) {
        let from_ns = self.until_ns().clamp(now_ns.saturating_sub(left_ns), now_ns + owed_ns);
        self.until_ns.store(from_ns + after_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_what_it_left_and_no_more() {
        let rate_limiter = RateLimiter::default();
        let mut started = 0;
        // A pause, and then requests of 100 ns each, as fast as the limiter allows.
        for now_ns in 10_000..20_000 {
            while rate_limiter.until_ns() <= now_ns {
                rate_limiter.charge(100, 500, 1000, now_ns);
                started += 1;
            }
        }
        assert_eq!(started, 10_000 / 100 + 500 / 100);
    }

    #[test]
    fn a_class_owes_little_after_much_use() {
        let rate_limiter = RateLimiter::default();
        (0..1000).for_each(|_| rate_limiter.charge(100, 500, 1000, 10_000));
        assert_eq!(rate_limiter.until_ns(), 10_000 + 1000 + 100);
    }
}
