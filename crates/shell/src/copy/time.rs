//! The clock of COPY, which measures rates and paces its retries.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[allow(clippy::disallowed_methods, reason = "rates and pauses are in the user's time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Microseconds since the epoch.
#[allow(clippy::disallowed_methods, reason = "timestamps of a client's writes are those of its clock")]
pub fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[allow(clippy::disallowed_methods, reason = "a thread of the shell waits before it asks again")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
