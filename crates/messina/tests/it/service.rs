//! What an administrator's system sees of the node: systemd's messages, modes of files, `messina doctor`.

#![allow(clippy::disallowed_methods, reason = "a process outside is waited for in the real world's time")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::{Dir, Server, output};

struct Messages(UnixDatagram);

impl Messages {
    /// The next message with these words; messages before it are skipped.
    fn wait_for(&self, words: &str) -> String {
        let mut bytes = [0; 500];
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let Ok(len) = self.0.recv(&mut bytes) else { continue };
            let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
            if text.contains(words) {
                return text;
            }
        }
        panic!("no message with {words:?}");
    }
}

#[test]
fn systemd_hears_of_start_life_and_stop() {
    let dir = Dir::new("service");
    let path = dir.0.join("notify");
    let messages = Messages(UnixDatagram::bind(&path).unwrap());
    messages.0.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "400000")];
    let server = Server::start_with(&dir.0, &["--in-memory"], &environment);
    assert_eq!(messages.wait_for("READY=1"), "READY=1\nSTATUS=serving clients on 127.0.0.1");
    // The time between two messages is half a period at least.
    messages.wait_for("WATCHDOG=1");
    let first = Instant::now();
    messages.wait_for("WATCHDOG=1");
    messages.wait_for("WATCHDOG=1");
    assert!(first.elapsed() > Duration::from_millis(200), "{:?}", first.elapsed());
    server.signal(Signal::TERM);
    assert!(messages.wait_for("STOPPING=1").contains("STATUS=flushing memtables"));
    let (status, log) = server.end();
    assert!(status.success(), "{log}");
}

/// The process as a whole is stopped: no shard answers, and no message comes.
#[test]
fn a_node_that_hangs_does_not_feed_the_watchdog() {
    let dir = Dir::new("service-hangs");
    let path = dir.0.join("notify");
    let messages = Messages(UnixDatagram::bind(&path).unwrap());
    messages.0.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "100000")];
    let server = Server::start_with(&dir.0, &["--in-memory"], &environment);
    messages.wait_for("WATCHDOG=1");
    server.signal(Signal::STOP);
    // What was sent before the stop is still in the socket.
    let mut bytes = [0; 500];
    let deadline = Instant::now() + Duration::from_secs(30);
    while messages.0.recv(&mut bytes).is_ok() {
        assert!(Instant::now() < deadline, "messages of a stopped process");
    }
    server.signal(Signal::CONT);
    messages.wait_for("WATCHDOG=1");
}

/// The first file or directory below `dir` that others may read.
fn readable_by_others(dir: &Path) -> Option<String> {
    std::fs::read_dir(dir).unwrap().flatten().find_map(|entry| {
        let about = entry.path().symlink_metadata().unwrap();
        match about.permissions().mode() & 0o077 {
            0 if about.is_dir() => readable_by_others(&entry.path()),
            0 => None,
            mode => Some(format!("{} {mode:o}", entry.path().display())),
        }
    })
}

#[test]
fn data_are_for_the_node_alone_and_doctor_says_so() {
    let dir = Dir::new("modes");
    let data = dir.0.join("data");
    let data_dir = data.to_str().unwrap();
    let server = Server::start(&dir.0, &["--data-dir", data_dir]);
    server.tool(&["flush"]);
    assert!(server.log().contains("before production, "), "{}", server.log());
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!(data.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(readable_by_others(&data), None);
    let (_, report) = output(&["doctor", "--data-dir", data_dir]);
    assert!(report.contains("ok       data directory   mode 0700"), "{report}");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (status, report) = output(&["doctor", "--data-dir", data_dir, "--listen-address", "0.0.0.0"]);
    assert_eq!(status.code(), Some(1), "{report}");
    assert!(
        report.contains("PROBLEM  data directory   mode 0755: other users may read the data"),
        "{report}"
    );
    assert!(
        report.contains("PROBLEM  access           other machines can connect, without passwords"),
        "{report}"
    );
}
