//! Admission of requests: an arriving request begins, is delayed, or is refused at once. Pure.
//!
//! Overload is detected by three values: bytes and number of the shard's requests in flight, and the
//! estimated wait at the request's service level. [`ServiceRate`] measures the rate at which the level's
//! requests end while there are any; by Little's law, that rate and the number in flight give the wait of one
//! more request. The best rate of the last second counts, so that a level with few requests is not taken for
//! a slow one.
//!
//! - Interactive requests are refused when they would wait for more than a third of their timeout, or 50 ms:
//!   a late answer is useless, and the client can retry a refused request elsewhere.
//! - All others are delayed: their connection is not read, so the client's writes block, and nothing fails.
//!
//! A few requests of each level always begin; otherwise a rate that was measured wrongly would never be
//! corrected.

use std::fmt;

use catalog::Workload;

/// This number of requests of a level begin whatever its rate.
pub const REQUESTS_ALWAYS: u32 = 32;
/// Limit of the wait of an interactive request. As in ScyllaDB.
const INTERACTIVE_WAIT_US_MAX: u64 = 50_000;
/// Divisor: the wait may take this part of the timeout. The remainder is for the work itself and for a stall
/// of the shard.
const WAIT_PART: u64 = 3;
/// Limit of the wait of other requests inside the node. Unread requests, which wait in the socket, cost no
/// memory.
const OTHER_WAIT_US_MAX: u64 = 500_000;

/// A window ends when it has this length and [`ENDED_MIN`] requests have ended in it, at the latest after
/// [`COUNTS_US`].
const WINDOW_US: u64 = 100_000;
const ENDED_MIN: u64 = 16;
const COUNTS_US: u64 = 1_000_000;
const WINDOWS: usize = 10;

/// Rate at which requests of a level end on a shard.
#[derive(Clone, Debug, Default)]
pub struct ServiceRate {
    in_flight: u32,
    /// The time up to which the window is accounted.
    looked_us: u64,
    window_began_us: u64,
    /// Of the window: the time with requests in flight, and the number of requests that ended.
    busy_us: u64,
    ended: u64,
    /// Of the latest windows: the time of their end, and requests per second of busy time.
    rates: [(u64, u64); WINDOWS],
    next: usize,
}

impl ServiceRate {
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub fn began(&mut self, now_us: u64) {
        self.observe(now_us);
        self.in_flight += 1;
    }

    /// # Panics
    /// No request is in flight.
    pub fn ended(&mut self, now_us: u64) {
        assert!(self.in_flight > 0, "what ends has begun");
        self.ended += 1;
        self.observe(now_us);
        self.in_flight -= 1;
    }

    /// A request waits for something other than the CPU, and does not count as in flight meanwhile.
    ///
    /// # Panics
    /// None is under way.
    pub fn idle(&mut self, now_us: u64) {
        assert!(self.in_flight > 0, "a request that becomes idle was in flight");
        self.observe(now_us);
        self.in_flight -= 1;
    }

    fn observe(&mut self, now_us: u64) {
        if self.in_flight > 0 {
            self.busy_us += now_us.saturating_sub(self.looked_us);
        }
        self.looked_us = now_us;
        let age_us = now_us.saturating_sub(self.window_began_us);
        if age_us < WINDOW_US || self.ended < ENDED_MIN && age_us < COUNTS_US {
            return;
        }
        // A window without requests has no rate.
        if let Some(per_s) = (self.ended * 1_000_000).checked_div(self.busy_us) {
            self.rates[self.next] = (now_us, per_s.max(1));
            self.next = (self.next + 1) % WINDOWS;
        }
        (self.window_began_us, self.busy_us, self.ended) = (now_us, 0, 0);
    }

    /// Requests per second; `None`: there were no requests lately.
    pub fn rate_per_s(&self, now_us: u64) -> Option<u64> {
        let counts = |(at_us, _): &&(u64, u64)| *at_us + COUNTS_US > now_us;
        self.rates.iter().filter(counts).map(|(_, rate)| *rate).filter(|rate| *rate > 0).max()
    }

    /// How long one more request would wait.
    pub fn wait_us(&self, now_us: u64) -> Option<u64> {
        Some(u64::from(self.in_flight) * 1_000_000 / self.rate_per_s(now_us)?)
    }
}

/// Limits of the requests in flight on a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub request_bytes_max: usize,
    /// Of all connections together; beyond it every request is refused.
    pub requests_max: u32,
}

/// Requests in flight on a shard, and of the request's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLoad {
    pub request_bytes: usize,
    pub requests: u32,
    pub level_requests: u32,
    /// See [`ServiceRate::wait_us`].
    pub level_wait_us: Option<u64>,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    Begin,
    /// The connection is not read until the load has fallen.
    Delay,
    Refuse(ShedReason),
}

/// Why a request is refused; `Display` is the text for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    TooManyRequests(u32),
    TooManyBytes,
    WouldWait { wait_us: u64, wait_us_max: u64 },
}

impl fmt::Display for ShedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRequests(requests) => write!(
                f,
                "too many in-flight requests (configured via max_concurrent_requests_per_shard): {requests}"
            ),
            Self::TooManyBytes => f.write_str(
                "request shed due to coordinator overload: too many bytes of requests \
                 (configured via native_transport_max_concurrent_requests_in_bytes)",
            ),
            Self::WouldWait { wait_us, wait_us_max } => write!(
                f,
                "request shed due to coordinator overload: it would wait {} ms, and may wait {} ms",
                wait_us / 1000,
                wait_us_max / 1000
            ),
        }
    }
}

/// Decides on a request of `bytes` bytes.
pub fn decide(
    load: &ShardLoad,
    limits: &Limits,
    workload: Workload,
    timeout_us: u64,
    bytes: usize,
) -> AdmissionDecision {
    if load.requests >= limits.requests_max {
        return AdmissionDecision::Refuse(ShedReason::TooManyRequests(load.requests));
    }
    let wait_us_max = match workload {
        Workload::Interactive => INTERACTIVE_WAIT_US_MAX,
        Workload::Batch | Workload::Unspecified => OTHER_WAIT_US_MAX,
    };
    let wait_us_max = wait_us_max.min(timeout_us / WAIT_PART);
    let wait_us = load.level_wait_us.filter(|_| load.level_requests >= REQUESTS_ALWAYS).unwrap_or(0);
    // A request that is the only one always fits.
    let is_large = load.requests > 0 && load.request_bytes + bytes > limits.request_bytes_max;
    match workload {
        _ if !is_large && wait_us <= wait_us_max => AdmissionDecision::Begin,
        Workload::Interactive if is_large => AdmissionDecision::Refuse(ShedReason::TooManyBytes),
        Workload::Interactive => AdmissionDecision::Refuse(ShedReason::WouldWait { wait_us, wait_us_max }),
        Workload::Batch | Workload::Unspecified => AdmissionDecision::Delay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `interactive 30ms | 40 of 1000/s | 5 bytes, 60 requests`: a level's workload and timeout; its requests
    /// in flight and rate; the shard's bytes and requests. Limits are 100 bytes and 100 requests.
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let [level, service_rate, shard] = text.split('|').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let words = |text: &str| -> Vec<u64> {
            let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
            numbers.map(|word| word.parse().unwrap()).collect()
        };
        let (workload, timeout) = level.trim().split_once(' ').unwrap();
        let (service_rate, shard) = (words(service_rate), words(shard));
        let load = ShardLoad {
            request_bytes: shard[0] as usize,
            requests: shard[1] as u32,
            level_requests: service_rate[0] as u32,
            level_wait_us: service_rate.get(1).map(|rate| service_rate[0] * 1_000_000 / rate),
        };
        let limits = Limits { request_bytes_max: 100, requests_max: 100 };
        let workload = Workload::from_name(workload).unwrap();
        let admission = decide(&load, &limits, workload, words(timeout)[0] * 1000, 10);
        let found = match admission {
            AdmissionDecision::Begin => "begin".to_string(),
            AdmissionDecision::Delay => "delay".to_string(),
            AdmissionDecision::Refuse(reason) => reason.to_string(),
        };
        assert!(found.contains(expect), "{text}: {found}");
    }

    #[test]
    fn what_would_be_late_is_refused_or_delayed() {
        check("interactive 30ms | 14 of 1000/s | 0 bytes, 14 requests", "begin");
        check("interactive 60ms | 33 of 2000/s | 0 bytes, 33 requests", "begin");
        check(
            "interactive 30ms | 40 of 2000/s | 0 bytes, 40 requests",
            "it would wait 20 ms, and may wait 10 ms",
        );
        check(
            "interactive 5000ms | 90 of 1000/s | 0 bytes, 90 requests",
            "it would wait 90 ms, and may wait 50 ms",
        );
        check("batch 30ms | 40 of 2000/s | 0 bytes, 40 requests", "delay");
        check("unspecified 30ms | 40 of 2000/s | 0 bytes, 40 requests", "delay");
        check("batch 5000ms | 90 of 1000/s | 0 bytes, 90 requests", "begin");
        check("batch 5000ms | 90 of 100/s | 0 bytes, 90 requests", "delay");
    }

    #[test]
    fn some_always_begin() {
        check("interactive 30ms | 31 of 1/s | 0 bytes, 31 requests", "begin");
        check("interactive 30ms | 32 of 1/s | 0 bytes, 32 requests", "it would wait 32000 ms");
        check("interactive 30ms | 90 | 0 bytes, 90 requests", "begin");
    }

    #[test]
    fn bytes_and_requests_are_bounded() {
        check("interactive 30ms | 1 | 91 bytes, 1 requests", "too many bytes");
        check("batch 30ms | 1 | 91 bytes, 1 requests", "delay");
        check("batch 30ms | 1 | 90 bytes, 1 requests", "begin");
        check("interactive 30ms | 0 | 91 bytes, 0 requests", "begin");
        check("batch 30ms | 1 | 0 bytes, 100 requests", "too many in-flight requests (configured");
        check("interactive 30ms | 1 | 0 bytes, 100 requests", "per_shard): 100");
    }

    #[test]
    fn a_pace_is_of_busy_time_and_the_best_of_a_second() {
        let mut service_rate = ServiceRate::default();
        let mut now_us = 10_000_000;
        assert_eq!(service_rate.wait_us(now_us), None);
        // One at a time: each takes 1 ms, followed by 9 ms without requests. The rate is 1000/s, not 100/s.
        for _ in 0..100 {
            service_rate.began(now_us);
            service_rate.ended(now_us + 1000);
            now_us += 10_000;
        }
        assert_eq!(service_rate.rate_per_s(now_us), Some(1000));
        (0..50).for_each(|_| service_rate.began(now_us));
        assert_eq!((service_rate.in_flight(), service_rate.wait_us(now_us)), (50, Some(50_000)));
        // Slower from now on; the new rate counts after a second.
        let slower = |service_rate: &mut ServiceRate, now_us: &mut u64, times: u64| {
            for _ in 0..times {
                *now_us += 4_000;
                service_rate.ended(*now_us);
                service_rate.began(*now_us);
            }
        };
        slower(&mut service_rate, &mut now_us, 40);
        assert_eq!(service_rate.rate_per_s(now_us), Some(1000));
        slower(&mut service_rate, &mut now_us, 300);
        assert_eq!(service_rate.rate_per_s(now_us), Some(250));
        // Long requests: few end in a second.
        for _ in 0..20 {
            now_us += 500_000;
            service_rate.ended(now_us);
            service_rate.began(now_us);
        }
        assert_eq!(service_rate.rate_per_s(now_us), Some(2));
        // After a long time without requests the rate is unknown.
        assert_eq!(service_rate.rate_per_s(now_us + 10_000_000), None);
        // Requests set aside do not add to the wait, and their time is not charged to the level.
        let mut service_rate = ServiceRate::default();
        service_rate.began(now_us);
        (0..40).for_each(|_| service_rate.began(now_us));
        (0..40).for_each(|_| service_rate.idle(now_us));
        for _ in 0..100 {
            now_us += 1000;
            service_rate.ended(now_us);
            service_rate.began(now_us);
        }
        assert_eq!((service_rate.in_flight(), service_rate.wait_us(now_us)), (1, Some(1000)));
    }
}
