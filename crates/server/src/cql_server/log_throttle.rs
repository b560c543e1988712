//! Limits the rate of a log line that many requests could cause.

use std::cell::Cell;

/// The time of the last line, and the number of lines suppressed since.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    last_us: Cell<Option<u64>>,
    left_out: Cell<u64>,
}

impl LogThrottle {
    /// Whether a line may be written now, at least `pause_us` after the last one. If so, returns the number
    /// of lines suppressed since.
    pub fn admit(&self, now_us: u64, pause_us: u64) -> Option<u64> {
        if self.last_us.get().is_some_and(|last_us| now_us < last_us.saturating_add(pause_us)) {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.last_us.set(Some(now_us));
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_within_a_pause_are_counted_and_left_out() {
        let throttle = LogThrottle::default();
        let admitted = [5, 6, 14, 15, 16, 40].map(|now_us| throttle.admit(now_us, 10));
        assert_eq!(admitted, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
