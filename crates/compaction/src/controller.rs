//! How much of the machine compaction gets: shares that rise with the backlog.
//!
//! The more there is to do, compared with the memory that writes go through, the more shares: along straight lines
//! between points. So compaction is as fast as the writes need and no faster, and its speed does not come in waves. Asked
//! about every 250 ms.

/// How many shares for how much backlog per byte of memory.
const POINTS: [(f64, f64); 3] = [(0.0, 50.0), (1.5, 100.0), (30.0, 1000.0)];

/// How often shares are set anew.
pub const INTERVAL_US: u64 = 250_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Controller {
    /// Always so many, if not 0: `compaction_static_shares`.
    pub static_shares: f64,
    /// Never more: `compaction_max_shares`; at least 100.
    pub max_shares: f64,
    /// The memory of the shard, which backlogs are compared with.
    pub memory_bytes: u64,
}

impl Controller {
    pub fn new(static_shares: f64, max_shares: f64, memory_bytes: u64) -> Self {
        Self { static_shares, max_shares: max_shares.max(100.0), memory_bytes: memory_bytes.max(1) }
    }

    /// The backlog of all tables over the memory. A backlog that is not known counts as a very large one.
    pub fn normalized(&self, backlog_bytes: f64) -> f64 {
        let normalized = backlog_bytes / self.memory_bytes as f64;
        if normalized.is_finite() { normalized.max(0.0) } else { POINTS[2].0 }
    }

    /// The shares for this backlog.
    pub fn shares(&self, backlog_bytes: f64) -> f64 {
        if self.static_shares > 0.0 {
            return self.static_shares;
        }
        let at = self.normalized(backlog_bytes);
        let mut last = [POINTS[0], POINTS[1], (POINTS[2].0, self.max_shares)].into_iter();
        let mut from = last.next().expect("a first point");
        for to in last {
            if at < to.0 {
                return from.1 + (to.1 - from.1) * (at - from.0) / (to.0 - from.0);
            }
            from = to;
        }
        self.max_shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_rise_with_the_backlog() {
        let shares = |normalized: f64| Controller::new(0.0, 1000.0, 1000).shares(normalized * 1000.0);
        assert_eq!(
            [0.0, 0.75, 1.5, 15.75, 30.0, 99.0].map(shares),
            [50.0, 75.0, 100.0, 550.0, 1000.0, 1000.0]
        );
        assert_eq!([-1.0, f64::INFINITY, f64::NAN].map(shares), [50.0, 1000.0, 1000.0]);
    }

    #[test]
    fn options_bound_or_replace_them() {
        let few = Controller::new(0.0, 200.0, 1000);
        assert_eq!([0.0, 1500.0, 30_000.0].map(|backlog| few.shares(backlog)), [50.0, 100.0, 200.0]);
        assert_eq!(Controller::new(0.0, 7.0, 1000).shares(1e9), 100.0);
        assert_eq!(Controller::new(300.0, 200.0, 1000).shares(0.0), 300.0);
    }
}
