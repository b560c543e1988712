//! Introspection of a node: large data, traces, reads, memory, tombstones.

use protocol::{CqlError, FailureReason, ProtocolVersion, Response};

use crate::process::{Dir, Server};
use crate::raw_client::{Client, query};

fn texts(rows: Vec<Vec<Option<Vec<u8>>>>) -> Vec<String> {
    let cell = |cell: Option<Vec<u8>>| String::from_utf8(cell.unwrap_or_default()).unwrap();
    rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn tables_show_large_data_traces_and_memory() {
    let dir = Dir::new("inside");
    let flags = [
        "--compaction-large-cell-warning-threshold",
        "1KiB",
        "--compaction-collection-elements-count-warning-threshold=3",
        "--compaction-rows-count-warning-threshold=4",
    ];
    let server = Server::start(&dir.0, &flags);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE ks.t (p text, c int, v text, s set<int>, PRIMARY KEY (p, c))");
    let large = "x".repeat(1025);
    client.run(&format!("INSERT INTO ks.t (p, c, v) VALUES ('ada', 7, '{large}')"));
    client.run("INSERT INTO ks.t (p, c, s) VALUES ('ada', 8, {1, 2, 3, 4})");
    for c in 0..5 {
        client.run(&format!("INSERT INTO ks.t (p, c, v) VALUES ('bob', {c}, 'small')"));
    }
    server.tool(&["flush", "ks", "t"]);
    let cells = "SELECT partition_key, clustering_key, column_name FROM system.large_cells WHERE keyspace_name = 'ks' AND table_name = 't'";
    let mut found = texts(client.rows(cells));
    found.sort();
    assert_eq!(found, ["ada|7|v", "ada|8|s"]);
    let partitions = "SELECT partition_key, sstable_name FROM system.large_partitions WHERE keyspace_name = 'ks' AND table_name = 't'";
    let found = texts(client.rows(partitions));
    assert!(
        found.len() == 1 && found[0].starts_with("bob|me-") && found[0].ends_with("-big-Data.db"),
        "{found:?}"
    );
    assert_eq!(
        client.rows("SELECT * FROM system.large_rows WHERE keyspace_name = 'ks' AND table_name = 't'").len(),
        0
    );
    server.wait_for("large_data - Writing large cell ks/t: v (1025 bytes) to me-");

    client.tracing = true;
    let id =
        client.message(&query("SELECT v FROM ks.t WHERE p = 'bob' AND c = 3")).extras.tracing_id.unwrap();
    client.tracing = false;
    let id = uuid::Uuid::from_bytes(id);
    let events = client.rows(&format!("SELECT activity FROM system_traces.events WHERE session_id = {id}"));
    let events = texts(events).join("\n");
    for activity in [
        "Admitted by semaphore sl:default",
        ": is read",
        "Row cache miss",
        "Disk: ",
        " us of them on the CPU",
    ] {
        assert!(events.contains(activity), "{activity}\n{events}");
    }

    let semaphores = client.rows("SELECT shard, semaphore FROM system.reader_semaphores");
    assert_eq!(semaphores.len(), 2 * 2, "users and system on two shards");
    let memory = texts(client.rows("SELECT class FROM system.memory WHERE shard = 1"));
    for class in ["memtables", "row_cache", "read_permits", "requests", "results", "large_results", "answers"]
    {
        assert!(memory.iter().any(|found| found == class), "{class}: {memory:?}");
    }
    let option = "compaction_rows_count_warning_threshold";
    for table in ["system.config", "system_views.settings"] {
        let found = texts(client.rows(&format!("SELECT value FROM {table} WHERE name = '{option}'")));
        assert_eq!(found, ["4"], "{table}");
    }
    // Memtables are empty after a flush.
    for (group, item, least) in [
        ("generic", "load", 1),
        ("memory", "used", 0),
        ("memory", "memtables", 0),
        ("cache.rows", "capacity", 1),
    ] {
        let value =
            format!("SELECT value FROM system.runtime_info WHERE group = '{group}' AND item = '{item}'");
        let value = texts(client.rows(&value));
        assert!(value.len() == 1 && value[0].parse::<u64>().unwrap() >= least, "{group} {item}: {value:?}");
    }
    let ring = "SELECT dc FROM system.token_ring WHERE keyspace_name = 'ks'";
    assert_eq!(texts(client.rows(ring)), ["datacenter1"]);
    assert_eq!(texts(client.rows("SELECT version FROM system.versions")), [env!("CARGO_PKG_VERSION")]);
    let table = server.tool(&["memory"]);
    assert!(
        table.contains("\nmemtables") && table.contains("Shard 1") && table.contains(" resident;"),
        "{table}"
    );
    drop(client);
    server.stop();
}

#[test]
fn tombstones_are_warned_of_and_too_many_have_a_reason() {
    let dir = Dir::new("tombstones");
    let flags = ["--tombstone-warn-threshold", "10", "--tombstone-failure-threshold", "100"];
    let server = Server::start(&dir.0, &flags);
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    client.run("CREATE TABLE ks.t (p int, c int, v int, PRIMARY KEY (p, c))");
    for (p, count) in [(1, 11), (2, 101), (3, 10)] {
        for c in 0..count {
            client.run(&format!("DELETE FROM ks.t WHERE p = {p} AND c = {c}"));
        }
        client.run(&format!("INSERT INTO ks.t (p, c, v) VALUES ({p}, 1000, 1)"));
    }
    let warned = client.message(&query("SELECT v FROM ks.t WHERE p = 1"));
    let [warning] = &warned.extras.warnings[..] else { panic!("{:?}", warned.extras) };
    let expect = "Read 1 live rows and 11 tombstone cells for query SELECT v FROM ks.t WHERE p = 1; token ";
    assert!(warning.starts_with(expect) && warning.ends_with(" (see tombstone_warn_threshold)"), "{warning}");
    assert_eq!(client.message(&query("SELECT v FROM ks.t WHERE p = 3")).extras.warnings.len(), 0);
    let failed = client.refusal(&query("SELECT v FROM ks.t WHERE p = 2"));
    let CqlError::ReadFailure { reason, failures: 1, .. } = failed else { panic!("{failed:?}") };
    assert_eq!(reason, FailureReason::ReadTooManyTombstones);
    server.wait_for("Scanned over 101 tombstones during query");
    let mut older = Client::start(server.cql_port, ProtocolVersion::V4);
    let Response::Error(CqlError::ReadFailure { reason, .. }) = older.query("SELECT v FROM ks.t WHERE p = 2")
    else {
        panic!("it is too many for all")
    };
    assert_eq!(reason, FailureReason::Unknown, "version 4 has no place for it");
    drop((client, older));
    server.stop();
}
