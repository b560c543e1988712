//! The clock and the pauses of backups: times of leases, the rate limit, pauses between retries.

use std::time::Duration;

/// Microseconds since 1970 by the clock of this machine.
#[allow(clippy::disallowed_methods, reason = "a backup runs on a thread of its own, not on a shard")]
pub fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Blocks the thread.
#[allow(clippy::disallowed_methods, reason = "a backup runs on a thread of its own, not on a shard")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
