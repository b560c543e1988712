//! Timestamps and times to live.

use model::{Cell, Liveness};

use super::*;

fn cell(db: &Db, table: &str, column: &str) -> Cell {
    let schema = db.schema(table);
    match db.only_row(table).cell(schema.column_named(column).expect("a column").id) {
        Some(ColumnData::Simple(cell)) => cell.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_statements_timestamp_goes_before_the_clients_and_that_before_the_clock() {
    let run = |text: &str, timestamp_us| {
        let db = Db::new();
        let plan = db.plan(text).expect("a plan");
        let execution = Execution { timestamp_us, ..db.execution() };
        wait(execute(&plan, &db.coordinator, &[], &execution, &mut vec![])).expect("a write");
        assert_eq!(db.only_row("x").liveness.timestamp_us, cell(&db, "x", "v").timestamp_us);
        cell(&db, "x", "v").timestamp_us
    };
    let insert = "INSERT INTO x (k, v) VALUES ('a', 1)";
    assert_eq!(run(&format!("{insert} USING TIMESTAMP 7"), Some(6)), 7);
    assert_eq!(run(insert, Some(6)), 6);
    assert_eq!(run(insert, None), NOW_US);
    assert_eq!(run(&format!("BEGIN BATCH USING TIMESTAMP 9 {insert}; APPLY BATCH"), Some(6)), 9);
    assert_eq!(run(&format!("BEGIN BATCH {insert}; APPLY BATCH"), Some(6)), 6);
}

#[test]
fn a_decided_write_is_younger_than_what_it_was_decided_by() {
    let db = Db::new();
    // A timestamp of a clock that was ahead, or that was later set back.
    let ahead_us = NOW_US + 5_000_000;
    db.all(&[&format!("INSERT INTO t (k, c, v) VALUES (1, 1, 5) USING TIMESTAMP {ahead_us}")]);
    assert_eq!(db.asked("UPDATE t SET v = 6 WHERE k = 1 AND c = 1 IF v = 5"), "true");
    assert_eq!(
        db.asked("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v = 6"),
        "true",
        "what was applied is there"
    );
    assert_eq!(db.asked("DELETE FROM t WHERE k = 1 AND c = 1 IF v = 7"), "true");
    assert_eq!(
        db.asked("UPDATE t SET v = 8 WHERE k = 1 AND c = 1 IF EXISTS"),
        "false",
        "what was deleted is not"
    );
}

#[test]
fn the_statements_ttl_goes_before_the_tables_and_zero_is_none() {
    let ttl = |using: &str| {
        let db = Db::new();
        db.all(&[&format!("INSERT INTO x (k, v) VALUES ('a', 1) {using}")]);
        let cell = cell(&db, "x", "v");
        let Liveness { ttl_s, local_expiration_s, .. } = db.only_row("x").liveness;
        assert_eq!((cell.ttl_s, cell.local_deletion_time_s), (ttl_s, local_expiration_s));
        (ttl_s, ttl_s == 0 || local_expiration_s == NOW_S + ttl_s)
    };
    assert_eq!(ttl("USING TTL 7"), (7, true));
    assert_eq!(ttl(""), (100, true));
    assert_eq!(ttl("USING TTL 0"), (0, true));
    assert_eq!(ttl("USING TTL 8 AND TTL 7"), (7, true), "the last one");
    assert_eq!(ttl("USING TTL 447483646"), (447_483_646, true), "to the last second");
}

#[test]
fn an_expiry_beyond_the_range_of_sstables_is_refused() {
    let db = Db::new();
    let refused = |text: &str| db.bound(text, &[]).expect_err(text);
    let error = "Request on table ks.x with ttl of 447483647 seconds exceeds maximum supported expiration date of 2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the expiration date overflow policy or upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for more details. The SSTable formats 'me' and 'nb', which this node writes, cannot hold a later expiry: use a TTL of at most 447483646 seconds now, or none.";
    assert_eq!(refused("INSERT INTO x (k, v) VALUES ('a', 1) USING TTL 447483647"), error);
    assert_eq!(refused("UPDATE x USING TTL 447483647 SET v = 1 WHERE k = 'a'"), error);
    // 51 seconds before the latest expiry; the table's default TTL is 100 seconds.
    db.coordinator.set_now_us(2_147_483_595_000_000);
    let error = error.replace("ttl of 447483647", "default ttl of 100").replace("447483646", "51");
    assert_eq!(refused("INSERT INTO x (k, v) VALUES ('a', 1)"), error);
    assert_eq!(refused("DELETE FROM x WHERE k = 'a'"), error, "as Cassandra does");
    db.all(&["INSERT INTO x (k, v) VALUES ('a', 1) USING TTL 51", "DELETE FROM t WHERE k = 1"]);
    let last = cell(&db, "x", "v");
    assert_eq!((last.ttl_s, last.local_deletion_time_s), (51, i32::MAX as u32 - 1));
}

#[test]
fn expired_cells_are_dead_at_their_second() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, v, m) VALUES (1, 1, 1, {'a': 1}) USING TTL 10",
        "UPDATE t USING TTL 20 SET w = 'x', m['b'] = 2 WHERE k = 1 AND c = 1",
    ]);
    assert_eq!(db.dump_at("t", NOW_S + 9), ["1/1: m={'a': 1, 'b': 2} v=1 w='x'"]);
    assert_eq!(db.dump_at("t", NOW_S + 10), ["1/1: m={'b': 2} w='x'"]);
    assert!(db.dump_at("t", NOW_S + 20).is_empty());
}

#[test]
fn times_are_bound_and_bounded() {
    let db = Db::new();
    let text = "INSERT INTO p (k1, k2, v) VALUES ('a', 1, 1) USING TTL ? AND TIMESTAMP ?";
    let ts = 5i64.to_be_bytes();
    let run = |ttl: Value<'_>, timestamp: Value<'_>| db.bound(text, &[ttl, timestamp]).err();
    assert_eq!(run(Value::Bytes(&int(3)), Value::Bytes(&ts)), None);
    assert_eq!((cell(&db, "p", "v").ttl_s, cell(&db, "p", "v").timestamp_us), (3, 5));
    let longest = int(630_720_000);
    let (negative, too_long) = (int(-1), int(630_720_001));
    let none = i64::MIN.to_be_bytes();
    let refused = |ttl, timestamp| run(ttl, timestamp).expect("a refusal");
    let ts = Value::Bytes(&ts);
    assert_eq!(refused(Value::Bytes(&negative), ts), "A TTL must be greater or equal to 0, but was -1");
    assert_eq!(
        refused(Value::Bytes(&too_long), ts),
        "ttl is too large. requested (630720001) maximum (630720000)"
    );
    assert_eq!(refused(Value::Unset, Value::Null), "Invalid null value of timestamp");
    assert!(refused(Value::Unset, Value::Bytes(&none)).starts_with("Out of bound timestamp"));
    let later = 6i64.to_be_bytes();
    assert_eq!(run(Value::Null, Value::Bytes(&later)), None);
    assert_eq!(cell(&db, "p", "v").ttl_s, 0, "null is no TTL");
    assert_eq!(run(Value::Unset, Value::Unset), None);
    assert_eq!(cell(&db, "p", "v").timestamp_us, NOW_US);
    assert!(refused(Value::Bytes(&longest), ts).contains("exceeds maximum supported expiration date"));
}

#[test]
fn deletions_have_the_second_of_the_request() {
    let db = Db::new();
    db.all(&["INSERT INTO p (k1, k2, v) VALUES ('a', 1, null) USING TIMESTAMP 3"]);
    assert_eq!(cell(&db, "p", "v"), Cell::tombstone(3, NOW_S));
    db.all(&["DELETE FROM t USING TIMESTAMP 4 WHERE k = 1"]);
    let source = db.coordinator.table(db.schema("t").id);
    let tombstone = source.partitions().values().next().expect("a partition").tombstone;
    assert_eq!(tombstone, model::Tombstone::new(4, NOW_S));
}

#[test]
fn timeouts_are_durations_of_hours_at_most() {
    let db = Db::new();
    let timeout = |text: &str| {
        let insert = format!("INSERT INTO p (k1, k2, v) VALUES ('a', 1, 1) USING TIMEOUT {text}");
        db.plan(&insert).expect("a plan").timeout_ns(&[], 0).map_err(|error| error.to_string())
    };
    assert_eq!(timeout("500ms"), Ok(Some(500_000_000)));
    assert_eq!(timeout("1d"), Err("Timeout values cannot be expressed in days/months".to_string()));
    assert_eq!(timeout("-5s"), Err("Timeout values must be non-negative".to_string()));
    assert_eq!(db.plan("DELETE FROM t WHERE k = 1").expect("a plan").timeout_ns(&[], 0), Ok(None));
}
