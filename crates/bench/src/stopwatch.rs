//! Measures wall time and CPU time.
//!
//! CPU time is that of the whole process. It includes the work of helper threads, and the time in which a
//! shard polls for work before it sleeps (`RuntimeOptions::idle_poll_us`).

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch that runs from its creation.
pub struct Stopwatch {
    started_ns: u64,
    started_cpu_ns: u64,
}

/// The time that some work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub wall_s: f64,
    pub cpu_s: f64,
}

impl Stopwatch {
    #[must_use]
    pub fn start() -> Self {
        Self { started_ns: clock_ns(ClockId::Monotonic), started_cpu_ns: clock_ns(ClockId::ProcessCPUTime) }
    }

    pub fn spent(&self) -> Spent {
        let seconds = |from_ns: u64, to_ns: u64| (to_ns - from_ns) as f64 / 1e9;
        Spent {
            wall_s: seconds(self.started_ns, clock_ns(ClockId::Monotonic)),
            cpu_s: seconds(self.started_cpu_ns, clock_ns(ClockId::ProcessCPUTime)),
        }
    }
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
