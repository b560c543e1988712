//! Rate at which reads of single partitions open an SSTable: an exponentially decayed mean over about two
//! hours.
//!
//! Reads and elapsed time decay by the same exponential, so the rate is unbiased from the first call, at any
//! interval of calls. An SSTable has no rate until it has been observed for ten minutes, so a new one is not
//! taken for cold.

/// Time in which weights fall to 1/e.
const DECAY_S: f64 = 7200.0;
/// Observation time before which there is no rate.
const WATCHED_S: f64 = 600.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRate {
    /// The counter and the time at the last call of [`Self::observe`].
    reads: u64,
    at_s: u32,
    /// Reads and elapsed time, both decayed.
    decayed_reads: f64,
    decayed_s: f64,
    /// Elapsed time without decay.
    watched_s: f64,
}

impl ReadRate {
    /// `reads` is the SSTable's current counter.
    pub(super) fn new(reads: u64, now_s: u32) -> Self {
        Self { reads, at_s: now_s, decayed_reads: 0.0, decayed_s: 0.0, watched_s: 0.0 }
    }

    /// Reads per second, if the SSTable has been observed for long enough.
    pub(super) fn observe(&mut self, reads: u64, now_s: u32) -> Option<f64> {
        // If the clock was set back, the reads count and the time does not.
        let passed_s = f64::from(now_s.saturating_sub(self.at_s));
        let weight = (-passed_s / DECAY_S).exp();
        self.decayed_reads = self.decayed_reads * weight + reads.saturating_sub(self.reads) as f64;
        self.decayed_s = self.decayed_s * weight + passed_s;
        self.watched_s += passed_s;
        (self.reads, self.at_s) = (reads, now_s);
        (self.watched_s >= WATCHED_S).then(|| self.decayed_reads / self.decayed_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_a_change_is_followed_within_hours() {
        let mut rate = ReadRate::new(1000, 0);
        let mut reads = 1000;
        let mut found = None;
        for minute in 1..=240 {
            reads += 300;
            found = rate.observe(reads, minute * 60);
            assert_eq!(found.is_some(), minute >= 10, "minute {minute}: {found:?}");
            if let Some(per_s) = found {
                assert!((per_s - 5.0).abs() < 0.05, "minute {minute}: {per_s}");
            }
        }
        assert!(found.is_some());
        let silent = (241..=241 + 480).map(|minute| rate.observe(reads, minute * 60)).last().flatten();
        assert!(silent.is_some_and(|per_s| per_s < 0.15), "{silent:?}");
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_read() {
        let mut rate = ReadRate::new(0, 10_000);
        assert_eq!(rate.observe(600, 5000), None);
        let per_s = rate.observe(600, 5600).expect("it was watched");
        assert!((0.9..1.0).contains(&per_s), "{per_s}");
    }
}
