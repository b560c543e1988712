//! The machine of a measurement, and pinning the process to one of its cores.

use std::fs;
use std::io;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Properties of the machine that are recorded with every figure.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    /// Load average of the last minute at the start of the benchmark; it shows other processes' activity.
    pub load: f64,
}

impl Machine {
    /// Reads `/proc`. Values that cannot be read are "unknown" or 0.
    pub fn read() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string();
            line.split_once(':').map_or("unknown".to_string(), |(_, value)| value.trim().to_string())
        };
        let first = |file: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.split_whitespace().next().unwrap_or("unknown").to_string()
        };
        let memory_kib = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0u64);
        Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory_kib / 1024,
            kernel: first("/proc/sys/kernel/osrelease"),
            load: first("/proc/loadavg").parse().unwrap_or(0.0),
        }
    }
}

/// Time in microseconds since the start of this virtual machine during which other virtual machines used the
/// core while a task was ready to run on it (steal time). 0 if the kernel does not report it.
pub fn stolen_us(core: usize) -> u64 {
    let ticks_s = rustix::param::clock_ticks_per_second().max(1);
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    stolen_ticks(&stat, core).unwrap_or(0) * 1_000_000 / ticks_s
}

/// The fields are user, nice, system, idle, iowait, irq, softirq, steal: proc(5).
fn stolen_ticks(stat: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

/// The commit of the working directory, from which the program is assumed to be built: `abcdef012345`,
/// followed by `+` if files differ from it; "unknown" outside a checkout.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|out| out.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_string() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ":!bench/results"]);
    if changed.is_none_or(|files| !files.is_empty()) { head + "+" } else { head }
}

/// Pins the process to one core: the given one, or the last core available. Threads started afterwards
/// inherit the setting, so this function must be called before any thread starts.
///
/// # Errors
/// The core is not available to this process.
pub fn pin_process(core: Option<usize>) -> io::Result<usize> {
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let core = core.unwrap_or(cores.last().copied().unwrap_or(0));
    if !cores.contains(&core) {
        let what = format!("core {core} is not one this process may use; choose --core from {cores:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut only = CpuSet::new();
    only.set(core);
    // This thread, the only one so far.
    sched_setaffinity(None, &only)?;
    Ok(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_of_a_core() {
        let stat =
            "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 55 0 0\ncpu1 1 2 3 4 5 6 7 44 0 0\nintr 1 2\n";
        assert_eq!(stolen_ticks(stat, 1), Some(44));
        assert_eq!(stolen_ticks(stat, 10), None);
        assert_eq!(stolen_ticks("cpu0 1 2 3\n", 0), None);
    }
}
