//! Use of the machine by this process, as the kernel counts it in `/proc`: CPU time, memory, open files, and
//! when the process started. A value that the kernel does not report is 0.

/// The unit of times in `/proc`, per second. The kernel's interface fixes it, whatever its own timer is.
const TICKS_PER_S: f64 = 100.0;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// Of all threads, in user and kernel mode.
    pub cpu_s: f64,
    /// Seconds since 1970.
    pub started_s: f64,
    pub virtual_bytes: u64,
    pub open_files: u64,
    pub open_files_max: u64,
}

impl ProcessUse {
    pub fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let open_files = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
        Self {
            open_files,
            ..Self::of(&read("/proc/self/stat"), &read("/proc/stat"), &read("/proc/self/limits"))
        }
    }

    /// From the texts of `/proc/self/stat`, `/proc/stat` and `/proc/self/limits`.
    fn of(own: &str, machine: &str, limits: &str) -> Self {
        // The name of the program, in parentheses, may contain spaces.
        let fields: Vec<&str> =
            own.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
        // Field numbers of proc(5), of which the first two are before the parenthesis.
        let field =
            |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let word_after = |text: &str, name: &str, at: usize| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().nth(at)?.parse::<u64>().ok()).unwrap_or(0)
        };
        let boot_s = word_after(machine, "btime", 0);
        Self {
            cpu_s: (field(14) + field(15)) / TICKS_PER_S,
            started_s: if boot_s == 0 { 0.0 } else { boot_s as f64 + field(22) / TICKS_PER_S },
            virtual_bytes: field(23) as u64,
            open_files: 0,
            open_files_max: word_after(limits, "Max open files", 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel() {
        let own =
            "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 1234 8192 77 18446744073709551615";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096  files\n";
        let found = ProcessUse::of(own, "cpu 1 2\nbtime 1700000000\n", limits);
        let expect = ProcessUse {
            cpu_s: 2.0,
            started_s: 1_700_000_012.34,
            virtual_bytes: 8192,
            open_files: 0,
            open_files_max: 1024,
        };
        assert_eq!(found, expect);
        assert_eq!(ProcessUse::of("", "", ""), ProcessUse::default());
    }
}
