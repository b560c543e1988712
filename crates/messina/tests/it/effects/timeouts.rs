//! Options of timeouts.

use protocol::{CqlError, Response};

use super::{Group, client};
use crate::process::Server;
use crate::raw_client::{Client, query};

/// Each write waits 300 ms for other writes.
const SLOW: [&str; 4] = ["--set", "commitlog_sync=group", "--set", "commitlog_sync_group_window=300ms"];

const CONDITIONAL: &str = "INSERT INTO ks.t (k, c, v) VALUES (9, 9, 'x') IF NOT EXISTS";

fn with_tables(server: &Server) -> Client {
    let mut client = client(server);
    client.run("CREATE TABLE IF NOT EXISTS ks.t (k int, c int, v text, PRIMARY KEY (k, c))");
    client.run("CREATE TABLE IF NOT EXISTS ks.n (k int PRIMARY KEY, n counter)");
    client
}

pub fn see(group: &Group) {
    let server = group.start("a", &["write_request_timeout"], &SLOW);
    let mut client = with_tables(&server);
    let error = client.refusal(&query("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')"));
    group.sees(
        "write_request_timeout",
        matches!(error, CqlError::WriteTimeout { .. }),
        format_args!("{error:?}"),
    );
    // A conditional statement has a second more.
    let patient = client.query(CONDITIONAL);
    assert!(matches!(patient, Response::Rows(_)), "{patient:?}");
    assert!(server.stop().0.success());

    let options = ["write_request_timeout", "cas_contention_timeout", "counter_write_request_timeout"];
    let server = group.start("b", &options, &SLOW);
    let mut client = with_tables(&server);
    let error = client.refusal(&query(CONDITIONAL));
    let is_late = matches!(error, CqlError::WriteTimeout { .. } | CqlError::CasWriteUnknown { .. });
    group.sees("cas_contention_timeout", is_late, format_args!("{error:?}"));
    let error = client.refusal(&query("UPDATE ks.n SET n = n + 1 WHERE k = 1"));
    let is_late = matches!(error, CqlError::WriteTimeout { .. });
    group.sees("counter_write_request_timeout", is_late, format_args!("{error:?}"));
    assert!(server.stop().0.success());

    // Twenty thousand rows take more than a millisecond, and less than the default timeouts.
    let server = group.start("c", &[], &[]);
    let mut client = with_tables(&server);
    let text = "x".repeat(100);
    for batch in 0..40 {
        let inserts: String = (0..500)
            .map(|row| format!("INSERT INTO ks.t (k, c, v) VALUES (1, {}, '{text}'); ", batch * 500 + row))
            .collect();
        client.run(&format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
    }
    let (of_one, of_all) =
        ("SELECT count(v) FROM ks.t WHERE k = 1 BYPASS CACHE", "SELECT count(v) FROM ks.t BYPASS CACHE");
    assert_eq!((client.rows(of_one).len(), client.rows(of_all).len()), (1, 1));
    assert!(server.stop().0.success());
    let server = group.start("c", &["slow_query_log_timeout"], &[]);
    with_tables(&server).rows(of_one);
    server.wait_for("slow_query - ");
    server.wait_for(of_one);
    let log = server.log();
    group.sees("slow_query_log_timeout", log.contains(" msec - slow timeout 1 msec"), &log);
    assert!(server.stop().0.success());
    let options = ["read_request_timeout", "range_request_timeout", "truncate_request_timeout"];
    for (option, text) in [(options[0], of_one), (options[1], of_all)] {
        let server = group.start("c", &[option], &[]);
        let error = with_tables(&server).refusal(&query(text));
        group.sees(option, matches!(error, CqlError::ReadTimeout { .. }), format_args!("{error:?}"));
        assert!(server.stop().0.success());
    }
    let server = group.start("c", &[options[2]], &[]);
    let mut client = with_tables(&server);
    client.run("INSERT INTO ks.t (k, c, v) VALUES (2, 1, 'x')");
    let error = client.refusal(&query("TRUNCATE ks.t"));
    let is_late = error.code() == 0x1003 || matches!(error, CqlError::WriteTimeout { .. });
    group.sees(options[2], is_late, format_args!("{error:?}"));
    assert!(server.stop().0.success());
}
