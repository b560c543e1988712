//! Measures wall time and CPU time.
//!
//! CPU time is that of the whole process. It includes the work of helper threads, and the time in which a
//! shard polls for work before it sleeps (`RuntimeOptions::idle_poll_us`).

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
        Self {
            started_ns: clock_ns(libc::CLOCK_MONOTONIC),
            started_cpu_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
        }
    }

    pub fn spent(&self) -> Spent {
        let seconds = |from_ns: u64, to_ns: u64| (to_ns - from_ns) as f64 / 1e9;
        Spent {
            wall_s: seconds(self.started_ns, clock_ns(libc::CLOCK_MONOTONIC)),
            cpu_s: seconds(self.started_cpu_ns, clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)),
        }
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable that the call fills.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "clock {clock} is there on every Linux");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
