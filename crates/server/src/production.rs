//! Checks before production: what of the machine and the configuration would cost data, safety or speed.
//!
//! [`Facts::measure`] reads the machine, [`findings`] judges the facts and is pure. `messina doctor` prints
//! all checks; a start logs those that found something, in one line. Nothing is changed and nothing is
//! refused: on a laptop most findings are as they should be. Facts that the machine does not show are left
//! out.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::config::Config;
use crate::disk_use;

/// Fewer open files end connections under load.
const OPEN_FILES_WANTED: u64 = 100_000;
/// With less free space compactions wait.
const FREE_PART_WANTED: f64 = 0.3;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Nothing to do.
    Fine,
    /// Slower or less predictable than needed.
    Hint,
    /// Data or access are at risk.
    Problem,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub weight: Weight,
    /// What was checked, in one or two words.
    pub what: &'static str,
    /// What was found, and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.weight {
            Weight::Fine => "ok",
            Weight::Hint => "hint",
            Weight::Problem => "PROBLEM",
        };
        write!(f, "{mark:<8} {:<16} {}", self.what, self.text)
    }
}

/// The facts that are judged. `None`: the machine does not show it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub is_root: bool,
    pub open_files_max: u64,
    /// The word in brackets of `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    pub swap_bytes: Option<u64>,
    pub is_clock_synchronised: Option<bool>,
    /// Permission bits of the data directory.
    pub data_dir_mode: Option<u32>,
    pub free_part: Option<f64>,
    pub is_disk_measured: bool,
    pub syncs_periodically: bool,
    pub sync_period_ms: u64,
    pub has_passwords: bool,
    pub has_tls: bool,
    pub serves_only_this_machine: bool,
    pub in_memory: bool,
}

impl Facts {
    /// Reads the machine as it is for this process.
    pub fn measure(config: &Config) -> Self {
        let data_dir = &config.place.data_dir;
        let mode = |path: &Path| path.metadata().ok().map(|about| about.permissions().mode() & 0o777);
        // Without the directory the file system is that of the directory above.
        let existing = data_dir.ancestors().find(|path| path.exists());
        let file_system = existing.and_then(disk_use::file_system);
        let part = |of: disk_use::FileSystem| of.free_bytes as f64 / of.total_bytes.max(1) as f64;
        let address = config.listen.address();
        let is_loopback = address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        Self {
            is_root: rustix::process::geteuid().is_root(),
            open_files_max: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled").as_deref().and_then(bracketed),
            swap_bytes: read("/proc/swaps").map(|text| swap_bytes(&text)),
            is_clock_synchronised: is_clock_synchronised(),
            data_dir_mode: mode(data_dir),
            free_part: file_system.map(part),
            is_disk_measured: config.machine.io_properties_file.is_some(),
            syncs_periodically: config.commitlog.sync == crate::config::CommitlogSync::Periodic,
            sync_period_ms: config.commitlog.sync_period_ms,
            has_passwords: config.security.authenticator != crate::config::options::Authenticator::AllowAll,
            has_tls: config.security.client_encryption.enabled,
            serves_only_this_machine: is_loopback || address == "localhost",
            in_memory: config.place.in_memory,
        }
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The chosen word of `always [madvise] never`.
fn bracketed(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// The size of all swap spaces in `/proc/swaps`, which has a heading, and kilobytes in the third column.
fn swap_bytes(text: &str) -> u64 {
    let kilobytes = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    text.lines().skip(1).filter_map(kilobytes).sum::<u64>() << 10
}

fn is_clock_synchronised() -> Option<bool> {
    // SAFETY: zeroes are a valid value, with which the call only reads; it writes to the local variable.
    let (state, status) = unsafe {
        let mut about: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut about), about.status)
    };
    (state >= 0).then_some(state != libc::TIME_ERROR && status & libc::STA_UNSYNC == 0)
}

/// Judges the facts, one finding for each check.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = vec![];
    let mut add = |what, weight, text: String| found.push(Finding { weight, what, text });
    let judge = |is_fine: bool, otherwise: Weight| if is_fine { Weight::Fine } else { otherwise };

    match facts.is_root {
        true => add(
            "user",
            Weight::Problem,
            "the process is root: use a user of its own, as the Debian package does".into(),
        ),
        false => add("user", Weight::Fine, "not root".into()),
    }
    let address = match facts.serves_only_this_machine {
        true => "only this machine can connect",
        false => "other machines can connect",
    };
    let is_open = !facts.has_passwords && !facts.serves_only_this_machine;
    let text = match is_open {
        true => format!(
            "{address}, without passwords: set authenticator: PasswordAuthenticator (docs/security.md)"
        ),
        false => address.to_string(),
    };
    add("access", judge(!is_open, Weight::Problem), text);
    if !facts.serves_only_this_machine {
        let text = match facts.has_tls {
            true => "connections are encrypted".to_string(),
            false => {
                "connections are not encrypted: set client_encryption_options (docs/security.md)".to_string()
            }
        };
        add("encryption", judge(facts.has_tls, Weight::Hint), text);
    }
    if facts.in_memory {
        add("data", Weight::Problem, "in_memory: nothing is kept after the end".into());
    }
    if let Some(mode) = facts.data_dir_mode.filter(|_| !facts.in_memory) {
        let is_private = mode & 0o077 == 0;
        let text = match is_private {
            true => format!("mode {mode:04o}"),
            false => format!("mode {mode:04o}: other users may read the data: chmod -R go= DIR"),
        };
        add("data directory", judge(is_private, Weight::Problem), text);
    }
    if let Some(part) = facts.free_part {
        let text =
            format!("{:.0} % are free; compactions need {:.0} %", part * 100.0, FREE_PART_WANTED * 100.0);
        add("disk space", judge(part >= FREE_PART_WANTED, Weight::Problem), text);
    }
    if facts.syncs_periodically {
        let text = format!(
            "a power loss may lose the last {} ms of writes; commitlog_sync: group or batch loses none",
            facts.sync_period_ms
        );
        add("commit log", Weight::Hint, text);
    } else {
        add("commit log", Weight::Fine, "acknowledged writes survive a power loss".into());
    }
    match facts.is_disk_measured {
        true => add("disk model", Weight::Fine, "measured (io_properties_file)".into()),
        false => {
            add("disk model", Weight::Hint, "not measured: messina iotune writes io_properties.yaml".into())
        }
    }
    let most = facts.open_files_max;
    let text = match most >= OPEN_FILES_WANTED {
        true => format!("{most}"),
        false => format!("{most}: LimitNOFILE of systemd or ulimit -n should allow {OPEN_FILES_WANTED}"),
    };
    add("open files", judge(most >= OPEN_FILES_WANTED, Weight::Hint), text);
    if let Some(huge_pages) = &facts.huge_pages {
        let is_fine = huge_pages != "always";
        let hint = if is_fine { "" } else { ": pauses while the kernel makes them; madvise is better" };
        add(
            "huge pages",
            judge(is_fine, Weight::Hint),
            format!("transparent_hugepage is {huge_pages}{hint}"),
        );
    }
    if let Some(swap_bytes) = facts.swap_bytes {
        let text = match swap_bytes {
            0 => "none".to_string(),
            bytes => format!(
                "{} MB: requests wait for swapped pages; swapoff -a, or MemorySwapMax=0 of systemd",
                bytes >> 20
            ),
        };
        add("swap", judge(swap_bytes == 0, Weight::Hint), text);
    }
    if let Some(is_synchronised) = facts.is_clock_synchronised {
        let text = match is_synchronised {
            true => "synchronised",
            false => {
                "not synchronised: the order of writes follows the clock; run chrony or systemd-timesyncd"
            }
        };
        add("clock", judge(is_synchronised, Weight::Problem), text.into());
    }
    found
}

/// The line of a start about the findings; `None` if all is fine.
pub fn line(findings: &[Finding]) -> Option<String> {
    let of =
        |weight| findings.iter().filter(move |finding: &&Finding| finding.weight == weight).map(|f| f.what);
    let problems: Vec<_> = of(Weight::Problem).collect();
    let hints: Vec<_> = of(Weight::Hint).collect();
    let part = |names: &[&str], word: &str| match names {
        [] => None,
        names => Some(format!("{word}: {}", names.join(", "))),
    };
    let parts: Vec<String> =
        [part(&problems, "problems"), part(&hints, "hints")].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("before production, {} (messina doctor says more)", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            open_files_max: 1 << 20,
            huge_pages: Some("madvise".to_string()),
            swap_bytes: Some(0),
            is_clock_synchronised: Some(true),
            data_dir_mode: Some(0o700),
            free_part: Some(0.5),
            is_disk_measured: true,
            has_passwords: true,
            has_tls: true,
            ..Facts::default()
        }
    }

    #[test]
    fn nothing_is_found_on_a_good_machine() {
        let found = findings(&good());
        assert!(found.iter().all(|finding| finding.weight == Weight::Fine), "{found:?}");
        assert_eq!(found.len(), 11);
        assert_eq!(line(&found), None);
        assert_eq!(found[0].to_string(), "ok       user             not root");
    }

    /// Each bad fact has one finding of its weight.
    #[test]
    fn each_bad_fact_is_found() {
        let cases = [
            (Facts { is_root: true, ..good() }, "user", Weight::Problem),
            (Facts { has_passwords: false, ..good() }, "access", Weight::Problem),
            (Facts { has_tls: false, ..good() }, "encryption", Weight::Hint),
            (Facts { in_memory: true, ..good() }, "data", Weight::Problem),
            (Facts { data_dir_mode: Some(0o750), ..good() }, "data directory", Weight::Problem),
            (Facts { free_part: Some(0.1), ..good() }, "disk space", Weight::Problem),
            (Facts { syncs_periodically: true, ..good() }, "commit log", Weight::Hint),
            (Facts { is_disk_measured: false, ..good() }, "disk model", Weight::Hint),
            (Facts { open_files_max: 1024, ..good() }, "open files", Weight::Hint),
            (Facts { huge_pages: Some("always".to_string()), ..good() }, "huge pages", Weight::Hint),
            (Facts { swap_bytes: Some(1 << 30), ..good() }, "swap", Weight::Hint),
            (Facts { is_clock_synchronised: Some(false), ..good() }, "clock", Weight::Problem),
        ];
        for (facts, what, weight) in cases {
            let found = findings(&facts);
            let bad: Vec<_> = found.iter().filter(|finding| finding.weight > Weight::Fine).collect();
            assert_eq!((bad.len(), bad[0].what, bad[0].weight), (1, what, weight), "{bad:?}");
            assert!(line(&found).unwrap().contains(what));
        }
        let local = Facts { has_passwords: false, has_tls: false, serves_only_this_machine: true, ..good() };
        assert_eq!(line(&findings(&local)), None, "a node for this machine needs neither");
    }

    #[test]
    fn files_of_the_kernel_are_understood() {
        assert_eq!(bracketed("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(
            swap_bytes(
                "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n/swap file 1 0 -3\n"
            ),
            1025 << 10
        );
        assert_eq!(swap_bytes("Filename Type Size Used Priority\n"), 0);
    }
}
