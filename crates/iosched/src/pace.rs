//! Holding a flow of requests to a rate: until when it has had what was due to it.
//!
//! One instant, that each request moves on by what it costs at the rate; who has come to it may go. It is no further back than what the flow may have at
//! once of what it left, and no further on than what it may owe, but for the last request: who has had much more than was due is not locked out
//! for long. (The generic cell rate algorithm, ITU-T I.371, in its form of a virtual time.)

use std::sync::atomic::{AtomicU64, Ordering};

/// See the head of the file. Threads that charge at the same time may overwrite each other: then a request was free.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    until_ns: AtomicU64,
}

impl Pace {
    /// Before this nothing is due.
    pub fn until_ns(&self) -> u64 {
        self.until_ns.load(Ordering::Relaxed)
    }

    /// A request started, of which the next is due `after_ns` later. At once the flow may have what it left in `left_ns`, and `owed_ns` is the most that it
    /// owes for those before.
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
        let pace = Pace::default();
        let mut started = 0;
        // Nothing for a while, and then as fast as it may go: each is 100 ns.
        for now_ns in 10_000..20_000 {
            while pace.until_ns() <= now_ns {
                pace.charge(100, 500, 1000, now_ns);
                started += 1;
            }
        }
        assert_eq!(started, 10_000 / 100 + 500 / 100);
    }

    #[test]
    fn who_has_had_much_more_owes_little() {
        let pace = Pace::default();
        (0..1000).for_each(|_| pace.charge(100, 500, 1000, 10_000));
        assert_eq!(pace.until_ns(), 10_000 + 1000 + 100);
    }
}
