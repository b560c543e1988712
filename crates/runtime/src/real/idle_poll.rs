//! Decides whether an idle shard polls for work before it sleeps.
//!
//! Polling saves the wake-up if work arrives within the time of polling; otherwise it costs that time, which
//! at a light load is more than the work itself. The latest idle times predict the next one: after several
//! long ones in a row the shard sleeps at once, until an idle time is short again. That is known for idle
//! times without polling too.

/// After this number of consecutive idle times longer than polling, the shard sleeps at once.
const LONG_IN_A_ROW: u32 = 8;

/// The state of one shard.
#[derive(Debug, Default)]
pub(crate) struct IdlePoll {
    long_in_a_row: u32,
}

impl IdlePoll {
    pub(crate) fn pays(&self) -> bool {
        self.long_in_a_row < LONG_IN_A_ROW
    }

    /// Records an idle time that ended because there was work, whether the shard polled or slept. The wake-up
    /// is part of a sleep, so a sleep of twice the time of polling counts as short.
    pub(crate) fn was_idle(&mut self, idle_us: u64, poll_us: u64) {
        let is_short = idle_us <= poll_us.saturating_mul(2);
        self.long_in_a_row = if is_short { 0 } else { self.long_in_a_row.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_polls_until_idle_times_are_long_and_again_when_one_is_short() {
        let mut poll = IdlePoll::default();
        for _ in 0..LONG_IN_A_ROW {
            assert!(poll.pays());
            poll.was_idle(250, 20);
        }
        assert!(!poll.pays());
        poll.was_idle(41, 20);
        assert!(!poll.pays());
        poll.was_idle(40, 20);
        assert!(poll.pays());
    }
}
