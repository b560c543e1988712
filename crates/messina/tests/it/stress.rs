//! `messina stress` as a user types it, against a node.

use std::process::ExitStatus;

use crate::process::{Dir, Server, output};

/// Runs `messina stress` with these words against the server.
fn stress(server: &Server, words: &str) -> (ExitStatus, String) {
    let port = format!("native={}", server.cql_port);
    let mut arguments = vec!["stress"];
    arguments.extend(words.split(' '));
    arguments.extend(["-port", &port, "-log", "level=minimal"]);
    output(&arguments)
}

/// The figure of a line of the summary, over all operations.
fn figure(report: &str, label: &str) -> u64 {
    let line = report.lines().find(|line| line.starts_with(label));
    let line = line.unwrap_or_else(|| panic!("no line {label}:\n{report}"));
    let figure = line.split(": ").nth(1).unwrap().split_whitespace().next().unwrap();
    figure.replace(',', "").parse().unwrap()
}

#[test]
fn what_is_written_is_read_and_checked() {
    let dir = Dir::new("stress");
    let server = Server::start(&dir.0, &[]);
    let (status, report) = stress(
        &server,
        "write n=2k no-warmup -col size=uniform(1..50) n=fixed(3) -rate threads=16 -schema keyspace=ks",
    );
    assert!(status.success(), "{report}");
    assert_eq!(
        (figure(&report, "Total partitions"), figure(&report, "Total errors")),
        (2_000, 0),
        "{report}"
    );

    let read = "read n=3k no-warmup -col size=uniform(1..50) n=fixed(3) -schema keyspace=ks";
    let (status, report) = stress(&server, &format!("{read} -pop dist=uniform(1..2k)"));
    assert!(status.success(), "{report}");
    assert_eq!(figure(&report, "Total partitions"), 3_000, "{report}");

    // A partition that was not written, and one with other values, are errors.
    let (status, report) = stress(&server, &format!("{read} -pop seq=2001..2001"));
    assert!(
        !status.success() && report.contains("read of partition 2001 failed") && report.contains("not there"),
        "{report}"
    );
    let (status, report) = stress(
        &server,
        "read n=10 no-warmup -pop seq=1..2k -schema keyspace=ks -col size=fixed(9) n=fixed(3)",
    );
    assert!(!status.success() && report.contains("is not as it was written"), "{report}");
    let (status, report) = stress(&server, &format!("{read} -pop seq=1991..2010 -errors ignore retries=1"));
    assert!(status.success(), "{report}");
    assert_eq!(figure(&report, "Total errors"), 1_500, "{report}");
    assert!(server.stop().0.success());
}

#[test]
fn profiles_rates_and_figures() {
    let dir = Dir::new("stress-profiles");
    let server = Server::start(&dir.0, &[]);
    for (profile, operations) in [
        ("counters", "insert=1,one=1,all=1"),
        ("key_value", "insert=1,read=1,delete=1"),
        ("locking", "lock=1,unlock=1,read=1"),
        ("lwt", "insert_if_absent=1,update_if=1,read=1,delete_if=1"),
        ("maps", "add=1,insert=1,read=1,delete=1"),
        ("random_access", "insert=1,row=1,partition=1,delete_row=1"),
        ("time_series", "insert=1,latest=1,row=1,delete=1"),
    ] {
        let (status, report) =
            stress(&server, &format!("user profile={profile} ops({operations}) n=400 no-warmup"));
        assert!(status.success(), "{profile}: {report}");
        assert_eq!(figure(&report, "Total errors"), 0, "{profile}: {report}");
    }

    // A profile of one's own: several rows in a batch, a query with values of one row.
    let profile = dir.0.join("own.yaml");
    let text = "keyspace: ks
keyspace_definition: |
  CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
table: events
table_definition: CREATE TABLE events (id uuid, at int, kind text, tags set<text>, place frozen<tuple<int, text>>, PRIMARY KEY (id, at, kind))
columnspec:
  - {name: at, cluster: fixed(5)}
  - {name: kind, size: fixed(6), cluster: fixed(2)}
  - {name: tags, size: uniform(1..3)}
insert: {partitions: fixed(2), batchtype: LOGGED, select: fixed(1)/1}
queries:
  exact: {cql: 'SELECT * FROM events WHERE id = ? AND at = ? AND kind = ?', fields: samerow}
";
    std::fs::write(&profile, text).unwrap();
    let profile = format!("profile={}", profile.display());
    let json = dir.0.join("figures.json");
    // 20 rows an operation, and every row that is asked for is there.
    let (status, report) =
        stress(&server, &format!("user {profile} ops(insert=1) n=50 no-warmup -pop seq=1..100"));
    assert!(status.success(), "{report}");
    assert_eq!(figure(&report, "Total partitions"), 100, "{report}");
    let words = format!(
        "user {profile} ops(exact=1) n=200 no-warmup -pop seq=1..100 -rate threads=8 throttle=400/s -log json={}",
        json.display()
    );
    let (status, report) = stress(&server, &words);
    assert!(status.success(), "{report}");
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(
        (&figures["total"]["operations"], &figures["total"]["rows"]),
        (&200.into(), &200.into()),
        "{figures}"
    );
    // 200 operations at 400/s take half a second, however fast the server is.
    assert!(figures["time_s"].as_f64().unwrap() > 0.45, "{figures}");

    let (status, report) = stress(&server, "user profile=time_serie ops(insert=1) n=1");
    assert!(!status.success() && report.contains("did you mean time_series?"), "{report}");
    let (status, report) = stress(&server, &format!("user {profile} ops(insert=1,all=1) n=1"));
    assert!(!status.success() && report.contains("there is no operation all"), "{report}");
    assert!(server.stop().0.success());
}
