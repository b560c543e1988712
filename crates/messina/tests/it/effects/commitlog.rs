//! Options of the commit log: syncs, size, and the start with a damaged one.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::Response;
use rustix::process::Signal;

use super::{Group, becomes, blob, client, metric};
use crate::process::{Server, output, timed};
use crate::raw_client::Client;

const SYNCS: &str = "messina_commitlog_syncs_total{";

fn with_table(server: &Server) -> Client {
    let mut client = client(server);
    client.run("CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v blob)");
    client
}

fn write(client: &mut Client, k: u64, bytes: usize) -> Response {
    client.query(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {})", blob(bytes, k)))
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("messina-data/commitlog")).unwrap().flatten().map(|entry| entry.path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    files.filter(is_segment).collect()
}

pub fn see(group: &Group) {
    // By default nothing is synced for ten seconds; with each option the same writes are.
    let server = group.start("a", &[], &[]);
    let mut client = with_table(&server);
    for k in 0..20 {
        write(&mut client, k, 10);
    }
    assert_eq!(metric(&server, SYNCS), 0.0);
    let large = write(&mut client, 30, 600 << 10);
    assert!(matches!(large, Response::Void), "{large:?}");
    assert!(server.stop().0.success());

    let server = group.start("b", &["commitlog_sync"], &[]);
    let mut client = with_table(&server);
    for k in 0..20 {
        write(&mut client, k, 10);
    }
    let syncs = metric(&server, SYNCS);
    group.sees("commitlog_sync", syncs >= 20.0, syncs);
    see_damage(group, server);

    let server = group.start("c", &["commitlog_sync_period"], &[]);
    let mut client = with_table(&server);
    let mut k = 0;
    let is_synced = becomes(|| {
        k += 1;
        write(&mut client, k, 10);
        metric(&server, SYNCS) >= 3.0
    });
    group.sees("commitlog_sync_period", is_synced, metric(&server, SYNCS));
    assert!(server.stop().0.success());

    let server = group.start("d", &["commitlog_sync_group_window"], &["--set", "commitlog_sync=group"]);
    let mut client = with_table(&server);
    let (_, took) = timed(|| write(&mut client, 1, 10));
    group.sees("commitlog_sync_group_window", took.as_millis() >= 200, format_args!("{took:?}"));
    assert!(server.stop().0.success());

    let server = group.start("e", &["commitlog_segment_size", "commitlog_total_space"], &["--set", "smp=1"]);
    let mut client = with_table(&server);
    let refused = write(&mut client, 1, 600 << 10);
    group.sees("commitlog_segment_size", matches!(refused, Response::Error(_)), format_args!("{refused:?}"));
    for k in 0..60 {
        let written = write(&mut client, k, 400 << 10);
        assert!(matches!(written, Response::Void), "{written:?}");
    }
    let log_bytes = metric(&server, "scylla_commitlog_disk_total_bytes{");
    let flushes = metric(&server, "messina_flushes_total{");
    group.sees(
        "commitlog_total_space",
        log_bytes <= (8 << 20) as f64 && flushes > 0.0,
        format_args!("{log_bytes} {flushes}"),
    );
    assert!(server.stop().0.success());
}

/// A node is killed and loses a synced segment.
fn see_damage(group: &Group, server: Server) {
    server.signal(Signal::KILL);
    server.end();
    let place = group.place("b");
    let lost = segments(&place).into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let all = segments(&place);
    for path in &all {
        fs::remove_file(path).unwrap();
    }
    let dir = place.join("messina-data");
    let arguments =
        ["--data-dir", dir.to_str().unwrap(), "--api-port", "0", "--prometheus-port", "0", "--smp", "2"];
    let (status, text) = output(&arguments);
    assert!(!status.success() && text.contains("on_damaged_commitlog=skip"), "{}: {text}", lost.display());
    let server = group.start("b", &["on_damaged_commitlog"], &[]);
    let mut client = client(&server);
    let rows = client.rows("SELECT k FROM ks.t").len();
    group.sees("on_damaged_commitlog", rows < 20, rows);
    assert!(server.stop().0.success());
}
