//! Options that limit results, batches, and the tombstones that reads pass.

use protocol::{Consistency, QueryParameters, Request, Response};

use super::{Group, becomes, client};
use crate::raw_client::{Client, query};

fn paged(text: &str) -> Request<'_> {
    let parameters = QueryParameters { page_size_rows: Some(5000), ..QueryParameters::new(Consistency::One) };
    Request::Query { text, parameters }
}

fn warnings(client: &mut Client, text: &str) -> Vec<String> {
    client.message(&query(text)).extras.warnings
}

/// A batch over three partitions with about `bytes` bytes.
fn batch(kind: &str, bytes: usize) -> String {
    let text = "x".repeat(bytes / 3);
    let insert = |k: i32| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 0, '{text}'); ");
    format!("BEGIN {kind} BATCH {} APPLY BATCH", [101, 102, 103].map(insert).concat())
}

pub fn see(group: &Group) {
    let see_tombstones = |place: &str, options: &[&'static str]| {
        let server = group.start(place, options, &["--in-memory"]);
        let mut client = client(&server);
        client.run("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))");
        // Reads check their limits only at intervals, so there are many tombstones.
        let deletes: String =
            (0..500).map(|c| format!("DELETE FROM ks.t WHERE k = 1 AND c = {c}; ")).collect();
        client.run(&format!("BEGIN UNLOGGED BATCH {deletes} APPLY BATCH"));
        client.run("INSERT INTO ks.t (k, c, v) VALUES (1, 500, 'x')");
        (server, client)
    };
    let read = "SELECT v FROM ks.t WHERE k = 1";
    let (server, mut client) = see_tombstones("a", &["tombstone_warn_threshold"]);
    let found = warnings(&mut client, read);
    group.sees(
        "tombstone_warn_threshold",
        found.iter().any(|text| text.contains("tombstone")),
        format_args!("{found:?}"),
    );
    assert!(server.stop().0.success());
    let (server, mut client) =
        see_tombstones("b", &["tombstone_warn_threshold", "tombstone_failure_threshold"]);
    let answer = client.query(read);
    group.sees(
        "tombstone_failure_threshold",
        matches!(answer, Response::Error(_)),
        format_args!("{answer:?}"),
    );
    assert!(server.stop().0.success());
    let (server, mut client) = see_tombstones("c", &["query_tombstone_page_limit"]);
    let Response::Rows(page) = client.ask(&paged(read)) else { panic!("no page") };
    let is_empty = page.rows.is_empty() && page.metadata.paging_state.is_some();
    group.sees("query_tombstone_page_limit", is_empty, format_args!("{page:?}"));
    assert!(server.stop().0.success());

    let options = [
        "batch_size_warn_threshold",
        "batch_size_fail_threshold",
        "unlogged_batch_across_partitions_warn_threshold",
        "max_memory_for_unlimited_query_soft_limit",
        "max_memory_for_unlimited_query_hard_limit",
        "query_page_size_in_bytes",
    ];
    let server = group.start("d", &options, &["--in-memory"]);
    let mut client = super::client(&server);
    client.run("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))");
    let found = warnings(&mut client, &batch("", 1300));
    group.sees(
        options[0],
        found.iter().any(|text| text.contains("exceeding specified")),
        format_args!("{found:?}"),
    );
    let answer = client.query(&batch("", 3000));
    let is_refused =
        matches!(&answer, Response::Error(error) if error.to_string().contains("Batch too large"));
    group.sees(options[1], is_refused, format_args!("{answer:?}"));
    let found = warnings(&mut client, &batch("UNLOGGED", 30));
    group.sees(
        options[2],
        found.iter().any(|text| text.contains("Unlogged batch")),
        format_args!("{found:?}"),
    );

    // One partition of 12 KiB, one of 40 KiB.
    let text = "x".repeat(1000);
    for (k, rows) in [(1, 12), (2, 40)] {
        for c in 0..rows {
            client.run(&format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, '{text}')"));
        }
    }
    assert_eq!(client.rows(read).len(), 12);
    let is_logged = becomes(|| server.log().contains("max_memory_for_unlimited_query_soft_limit"));
    group.sees(options[3], is_logged, server.log());
    let answer = client.query("SELECT v FROM ks.t WHERE k = 2");
    group.sees(options[4], matches!(answer, Response::Error(_)), format_args!("{answer:?}"));
    let Response::Rows(page) = client.ask(&paged("SELECT v FROM ks.t WHERE k = 2")) else {
        panic!("no page")
    };
    let rows = page.rows.len();
    group.sees(options[5], rows < 20 && page.metadata.paging_state.is_some(), rows);
    assert!(server.stop().0.success());
    see_compact_tables(group);
}

fn see_compact_tables(group: &Group) {
    const CREATE: &str = "CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH COMPACT STORAGE";
    let server = group.start("e", &["compact_tables_enabled"], &["--in-memory"]);
    let answer = client(&server).query(CREATE);
    group.sees("compact_tables_enabled", matches!(answer, Response::Error(_)), format_args!("{answer:?}"));
    assert!(server.stop().0.success());
    let server = group.start("f", &["drop_compact_storage_enabled"], &["--in-memory"]);
    let mut client = client(&server);
    client.run(CREATE);
    let answer = client.query("ALTER TABLE ks.t DROP COMPACT STORAGE");
    let is_applied = !matches!(answer, Response::Error(_));
    group.sees("drop_compact_storage_enabled", is_applied, format_args!("{answer:?}"));
    assert!(server.stop().0.success());
    see_functions(group);
    see_views(group);
}

fn see_functions(group: &Group) {
    let options = [
        "user_defined_functions_enabled",
        "user_defined_function_time_limit_ms",
        "user_defined_function_allocation_limit_bytes",
    ];
    let server = group.start("g", &options, &["--in-memory"]);
    let mut client = client(&server);
    let create = |name: &str, body: &str| {
        format!("CREATE FUNCTION ks.{name} () CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS '{body}'")
    };
    client.run(&create("one", "return 1"));
    client.run(&create("slow", "for i = 1, 100000 do local x = i end return 1"));
    client.run(&create("large", "return #(\"x\"):rep(100000)"));
    client.run("CREATE TABLE ks.f (k int PRIMARY KEY)");
    let mut call = |name: &str| client.query(&format!("INSERT INTO ks.f (k) VALUES (ks.{name}())"));
    let one = call("one");
    group.sees(options[0], !matches!(one, Response::Error(_)), format_args!("{one:?}"));
    let slow = call("slow");
    group.sees(options[1], matches!(slow, Response::Error(_)), format_args!("{slow:?}"));
    let large = call("large");
    group.sees(options[2], format!("{large:?}").contains("memory"), format_args!("{large:?}"));
    assert!(server.stop().0.success());
}

fn see_views(group: &Group) {
    let server = group.start("h", &["materialized_views_enabled"], &["--in-memory"]);
    let mut client = client(&server);
    client.run("CREATE TABLE ks.t (k int PRIMARY KEY)");
    let create = "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE k IS NOT NULL PRIMARY KEY (k)";
    let answer = client.query(create);
    group.sees(
        "materialized_views_enabled",
        matches!(answer, Response::Error(_)),
        format_args!("{answer:?}"),
    );
    assert!(server.stop().0.success());
}
