//! The CPU time of the calling thread, for limits that a busy machine must not exceed.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of the calling thread in microseconds. It takes a system call.
pub fn thread_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1000
}
