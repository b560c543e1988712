//! When the node started: the one place at which the daemon asks the real clock, besides its log lines.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A time of start, by the monotonic and by the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct StartTime {
    began: Instant,
    unix_s: u64,
}

impl StartTime {
    #[allow(clippy::disallowed_methods, reason = "uptime and generation are of the real world")]
    pub fn now() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), unix_s: since_epoch.as_secs() }
    }

    /// Seconds since the Unix epoch.
    pub fn unix_s(self) -> u64 {
        self.unix_s
    }

    pub fn uptime(self) -> Duration {
        self.began.elapsed()
    }
}
