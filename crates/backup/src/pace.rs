//! The rate limit of a backup: a token bucket that may be in debt. [`Pace::due_us`] is pure; [`Pace::spend`]
//! waits.

use std::time::Duration;

use crate::clock;

/// Bytes per second that a backup reads from the node's disk, or a restore from its target.
#[derive(Clone, Debug)]
pub struct Pace {
    bytes_per_s: Option<u64>,
    /// When the bytes spent so far have been paid for.
    paid_until_us: i64,
}

impl Pace {
    /// `bytes_per_s`: 0 means no limit.
    pub fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: (bytes_per_s > 0).then_some(bytes_per_s), paid_until_us: 0 }
    }

    /// Counts `bytes` at `now_us`, and returns for how many microseconds the caller is to wait.
    pub fn due_us(&mut self, bytes: u64, now_us: i64) -> u64 {
        let Some(bytes_per_s) = self.bytes_per_s else { return 0 };
        let cost_us = u128::from(bytes) * 1_000_000 / u128::from(bytes_per_s);
        self.paid_until_us = self.paid_until_us.max(now_us).saturating_add(cost_us as i64);
        (self.paid_until_us - now_us) as u64
    }

    /// Counts `bytes`, and waits as long as the rate requires.
    pub fn spend(&mut self, bytes: u64) {
        let due_us = self.due_us(bytes, clock::now_us());
        if due_us > 0 {
            clock::sleep(Duration::from_micros(due_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_time_and_saves_nothing_while_idle() {
        let mut pace = Pace::new(1_000_000);
        assert_eq!(pace.due_us(500_000, 0), 500_000);
        assert_eq!(pace.due_us(500_000, 500_000), 500_000);
        assert_eq!(pace.due_us(500_000, 600_000), 900_000);
        assert_eq!(pace.due_us(500_000, 60_000_000), 500_000);
        assert_eq!(Pace::new(0).due_us(u64::MAX, 0), 0);
    }
}
