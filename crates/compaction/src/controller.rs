//! The share of CPU and disk for compaction: shares that rise with the backlog.
//!
//! The controller computes the shares from the ratio of the backlog to the memory of the shard, by linear
//! interpolation between fixed points. Compaction is then as fast as the writes require and no faster, and
//! its speed does not oscillate. The shares are computed about every 250 ms.

/// Points of the curve: bytes of backlog per byte of memory, and the shares for this ratio.
const POINTS: [(f64, f64); 3] = [(0.0, 50.0), (1.5, 100.0), (30.0, 1000.0)];

/// Interval at which the shares are computed, in microseconds.
pub const INTERVAL_US: u64 = 250_000;

/// Computes the CPU shares of compactions from the backlog of all tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Controller {
    /// Fixed shares, if not 0: `compaction_static_shares`.
    pub static_shares: f64,
    /// Upper limit of the shares, at least 100: `compaction_max_shares`.
    pub max_shares: f64,
    /// The memory of the shard in bytes, to which the backlog is compared.
    pub memory_bytes: u64,
}

impl Controller {
    /// A controller with these values, see the fields. `max_shares` below 100 counts as 100.
    pub fn new(static_shares: f64, max_shares: f64, memory_bytes: u64) -> Self {
        Self { static_shares, max_shares: max_shares.max(100.0), memory_bytes: memory_bytes.max(1) }
    }

    /// The backlog of all tables divided by the memory. An unknown backlog counts as a very large one.
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
