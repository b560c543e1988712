//! The clock of the load generator.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "latencies are measured in the real world's time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "the thread that reports waits for the next line")]
pub fn sleep(duration: std::time::Duration) {
    std::thread::sleep(duration);
}
