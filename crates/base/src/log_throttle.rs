//! Rate limit of a log line whose cause can repeat. "Now" is an argument.

use std::cell::Cell;

/// The time of the last line, and the number of lines left out since.
#[derive(Debug, Default)]
pub struct LogThrottle {
    last_us: Cell<Option<u64>>,
    left_out: Cell<u64>,
}

impl LogThrottle {
    /// Admits a line if the last one is at least `pause_us` old, and returns the number of lines left out
    /// since.
    pub fn admit(&self, now_us: u64, pause_us: u64) -> Option<u64> {
        if self.last_us.get().is_some_and(|last_us| now_us < last_us.saturating_add(pause_us)) {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.last_us.set(Some(now_us));
        Some(self.left_out.take())
    }

    /// As [`Self::admit`]. Returns a text for the end of the line, which is empty if no line was left out.
    pub fn admit_text(&self, now_us: u64, pause_us: u64) -> Option<String> {
        Some(match self.admit(now_us, pause_us)? {
            0 => String::new(),
            left_out => format!(" ({left_out} more since the last such line)"),
        })
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
        assert_eq!(throttle.admit_text(50, 10).as_deref(), Some(""));
        assert_eq!(throttle.admit_text(51, 10), None);
        assert_eq!(throttle.admit_text(60, 10).as_deref(), Some(" (1 more since the last such line)"));
    }
}
