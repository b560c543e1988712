//! Decides whether a client takes its large answers fast enough. Pure.
//!
//! A large answer holds memory that other requests may wait for. In each period, which is the write timeout,
//! the client must take a sixteenth of the bytes that waited for it when its last large answer was added, and
//! at least 64 KiB. A client that took less is too slow if other requests wait for memory at the end of the
//! period; otherwise a new period begins.
//!
//! A client that takes nothing therefore blocks others for at most two periods, and a client that takes just
//! enough for sixteen.

/// Minimal bytes per period, whatever the answer's size.
const LEAST_BYTES: u64 = 64 << 10;
/// Divisor: the part of the answer that must be taken in a period.
const PART: u64 = 16;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taking {
    /// Bytes of large answers that waited when the last of them was added.
    answer_bytes: u64,
    period_began_us: u64,
    /// In this period.
    taken_bytes: u64,
}

/// The decision on the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakingVerdict {
    /// Judge again after this number of microseconds.
    WaitUs(u64),
    TooSlow {
        taken_bytes: u64,
        least_bytes: u64,
    },
}

impl Taking {
    /// Starts the first period, with `answer_bytes` of large answers waiting.
    pub fn begin(now_us: u64, answer_bytes: u64) -> Self {
        Self { answer_bytes, period_began_us: now_us, taken_bytes: 0 }
    }

    /// Another large answer was added; `answer_bytes` wait now.
    #[must_use]
    pub fn with_more(self, answer_bytes: u64) -> Self {
        Self { answer_bytes, ..self }
    }

    #[must_use]
    pub fn took(self, bytes: u64) -> Self {
        Self { taken_bytes: self.taken_bytes + bytes, ..self }
    }

    fn least_bytes(&self) -> u64 {
        (self.answer_bytes / PART).max(LEAST_BYTES)
    }

    /// Must be called while large answers wait and the socket takes nothing.
    pub fn judge(&mut self, now_us: u64, period_us: u64, others_wait: bool) -> TakingVerdict {
        let end_us = self.period_began_us.saturating_add(period_us);
        if now_us < end_us {
            return TakingVerdict::WaitUs(end_us - now_us);
        }
        let least_bytes = self.least_bytes();
        if self.taken_bytes < least_bytes && others_wait {
            return TakingVerdict::TooSlow { taken_bytes: self.taken_bytes, least_bytes };
        }
        (self.period_began_us, self.taken_bytes) = (now_us, 0);
        TakingVerdict::WaitUs(period_us.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_US: u64 = 2_000_000;
    const MIB: u64 = 1 << 20;

    #[test]
    fn a_client_that_takes_too_little_is_too_slow_when_others_wait() {
        let mut taking = Taking::begin(5, 32 * MIB);
        assert_eq!(taking.judge(1_000_005, PERIOD_US, true), TakingVerdict::WaitUs(1_000_000));
        // No other request waits: a new period begins, and the missing bytes are forgiven.
        assert_eq!(taking.judge(2_000_005, PERIOD_US, false), TakingVerdict::WaitUs(PERIOD_US));
        taking = taking.took(2 * MIB);
        assert_eq!(taking.judge(4_000_005, PERIOD_US, true), TakingVerdict::WaitUs(PERIOD_US));
        taking = taking.took(2 * MIB - 1);
        assert_eq!(
            taking.judge(6_000_005, PERIOD_US, true),
            TakingVerdict::TooSlow { taken_bytes: 2 * MIB - 1, least_bytes: 2 * MIB }
        );
    }

    #[test]
    fn a_small_rest_is_judged_as_the_whole_was() {
        let mut taking = Taking::begin(0, 300 << 10).took(LEAST_BYTES);
        assert_eq!(taking.judge(PERIOD_US, PERIOD_US, true), TakingVerdict::WaitUs(PERIOD_US));
        assert!(matches!(taking.judge(2 * PERIOD_US, PERIOD_US, true), TakingVerdict::TooSlow { .. }));
        let mut taking = Taking::begin(0, 300 << 10).with_more(64 * MIB).took(LEAST_BYTES);
        let too_slow = TakingVerdict::TooSlow { taken_bytes: LEAST_BYTES, least_bytes: 4 * MIB };
        assert_eq!(taking.judge(PERIOD_US, PERIOD_US, true), too_slow);
    }
}
