//! Change logs (CDC), as ScyllaDB's documentation describes them.

use super::*;

const LOG: &str =
    "SELECT \"cdc$batch_seq_no\", \"cdc$operation\", pk, ck, v, \"cdc$deleted_v\" FROM t_scylla_cdc_log";

fn session(options: &str) -> Session {
    let session = Session::new();
    session.all(&[&format!(
        "CREATE TABLE t (pk int, ck int, v int, s text static, m map<int, text>, PRIMARY KEY (pk, ck)) \
         WITH cdc = {{'enabled': true{options}}}"
    )]);
    session
}

#[test]
fn the_log_is_a_table_with_the_columns_of_the_base_table() {
    let session = session("");
    let catalog = session.storage.catalog();
    let log = catalog.table("ks", "t_scylla_cdc_log").expect("the log");
    let text = catalog::describe_view(&log.schema, &log.settings, catalog::Internals::Hidden);
    for part in [
        "\"cdc$stream_id\" blob",
        "\"cdc$time\" timeuuid",
        "\"cdc$batch_seq_no\" int",
        "\"cdc$operation\" tinyint",
        "\"cdc$ttl\" bigint",
        "\"cdc$end_of_batch\" boolean",
        "pk int",
        "ck int",
        "s text",
        "\"cdc$deleted_s\" boolean",
        "m frozen<map<int, text>>",
        "\"cdc$deleted_m\" boolean",
        "\"cdc$deleted_elements_m\" frozen<set<int>>",
        "PRIMARY KEY (\"cdc$stream_id\", \"cdc$time\", \"cdc$batch_seq_no\")",
        "CLUSTERING ORDER BY (\"cdc$time\" ASC, \"cdc$batch_seq_no\" ASC)",
        "TimeWindowCompactionStrategy",
        "gc_grace_seconds = 0",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(catalog.table("ks", "t").unwrap().settings.cdc);
}

#[test]
fn statements_are_logged() {
    let session = session("");
    session.all(&[
        "INSERT INTO t (pk, ck, v) VALUES (1, 1, 10)",
        "UPDATE t SET v = 11 WHERE pk = 1 AND ck = 1",
        "UPDATE t SET v = null WHERE pk = 1 AND ck = 1",
        "DELETE FROM t WHERE pk = 1 AND ck = 1",
        "DELETE FROM t WHERE pk = 1 AND ck > 3 AND ck <= 5",
        "DELETE FROM t WHERE pk = 1 AND ck >= 7",
        "DELETE FROM t WHERE pk = 1",
        "UPDATE t SET s = 'x' WHERE pk = 1",
        "INSERT INTO t (pk, ck, v) VALUES (1, 2, 20) IF NOT EXISTS",
        "BEGIN BATCH INSERT INTO t (pk, ck, v) VALUES (1, 3, 30); UPDATE t SET v = 40 WHERE pk = 1 AND ck = 4; \
         APPLY BATCH",
    ]);
    session.check(
        LOG,
        &[
            "0|2|1|1|10|",
            "0|1|1|1|11|",
            "0|1|1|1||true",
            "0|3|1|1||",
            "0|6|1|3||",
            "1|7|1|5||",
            "0|5|1|7||",
            "1|7|1|||",
            "0|4|1|||",
            "0|1|1|||",
            "0|2|1|2|20|",
            "0|2|1|3|30|",
            "1|1|1|4|40|",
        ],
    );
    session.check(
        "SELECT s, \"cdc$end_of_batch\" FROM t_scylla_cdc_log WHERE s = 'x' ALLOW FILTERING",
        &["x|true"],
    );
}

#[test]
fn times_ttls_and_collections_are_logged() {
    let session = session("");
    session.all(&[
        "INSERT INTO t (pk, ck, v) VALUES (1, 1, 10) USING TTL 60 AND TIMESTAMP 1700000000000000",
        "UPDATE t USING TIMESTAMP 1700000000000001 SET m = {1: 'a'} WHERE pk = 1 AND ck = 1",
        "UPDATE t USING TIMESTAMP 1700000000000002 SET m = m + {2: 'b'} WHERE pk = 1 AND ck = 1",
        "UPDATE t USING TIMESTAMP 1700000000000003 SET m = m - {1} WHERE pk = 1 AND ck = 1",
        "DELETE m FROM t USING TIMESTAMP 1700000000000004 WHERE pk = 1 AND ck = 1",
    ]);
    session.check(
        "SELECT toUnixTimestamp(\"cdc$time\"), \"cdc$ttl\", v, m, \"cdc$deleted_m\", \"cdc$deleted_elements_m\" \
         FROM t_scylla_cdc_log",
        &[
            "1700000000000|60|10|||",
            "1700000000000|||{1: a}|true|",
            "1700000000000|||{2: b}||",
            "1700000000000|||||{1}",
            "1700000000000||||true|",
        ],
    );
}

#[test]
fn images_show_the_row_before_and_after() {
    let session = session(", 'preimage': true, 'postimage': true, 'delta': 'keys', 'ttl': 0");
    session.all(&[
        "INSERT INTO t (pk, ck, v, m) VALUES (1, 1, 10, {1: 'a'})",
        "UPDATE t SET v = 11, s = 'x' WHERE pk = 1 AND ck = 1",
        "DELETE FROM t WHERE pk = 1 AND ck = 1",
    ]);
    session.check(
        "SELECT \"cdc$operation\", ck, v, m, s FROM t_scylla_cdc_log",
        &[
            "2|1|||",
            "9|1|10|{1: a}|",
            "1||||",
            "9||||x",
            "0|1|10||",
            "1|1|||",
            "9|1|11|{1: a}|",
            "0|1|11|{1: a}|",
            "3|1|||",
        ],
    );
}

#[test]
fn the_log_follows_its_base_table() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (pk int PRIMARY KEY, v int, w int)",
        "INSERT INTO t (pk, v) VALUES (1, 1)",
        "ALTER TABLE t WITH cdc = {'enabled': true}",
        "INSERT INTO t (pk, v) VALUES (2, 2)",
        "ALTER TABLE t ADD x list<text>",
        "UPDATE t SET x = ['a'] WHERE pk = 3",
    ]);
    session.check(
        "SELECT pk, v, \"cdc$deleted_x\" FROM t_scylla_cdc_log WHERE pk > 0 ALLOW FILTERING",
        &["3||true", "2|2|"],
    );
    session.all(&[
        "ALTER TABLE t DROP v",
        "ALTER TABLE t WITH cdc = {'enabled': false}",
        "INSERT INTO t (pk) VALUES (4)",
    ]);
    assert_eq!(session.try_run("SELECT pk FROM t_scylla_cdc_log").unwrap().len(), 2, "kept, and no more");
    assert!(session.try_run("SELECT v FROM t_scylla_cdc_log").is_err());
    session.all(&[
        "ALTER TABLE t WITH cdc = {'enabled': true}",
        "INSERT INTO t (pk) VALUES (5)",
        "CREATE TYPE pair (a int, b int)",
        "ALTER TABLE t ADD p pair",
        "UPDATE t SET p.a = 7 WHERE pk = 6",
        "ALTER TYPE pair ADD c int",
        "UPDATE t SET p.c = 8, p.a = null WHERE pk = 6",
    ]);
    session.check(
        "SELECT p, \"cdc$deleted_elements_p\" FROM t_scylla_cdc_log WHERE pk = 6 ALLOW FILTERING",
        &["{a: 7, b: null}|", "{a: null, b: null, c: 8}|{0}"],
    );
    assert_eq!(session.try_run("SELECT pk FROM t_scylla_cdc_log").unwrap().len(), 5);
    session.all(&["DROP TABLE t"]);
    assert!(
        session.storage.catalog().table("ks", "t_scylla_cdc_log").is_none(),
        "dropped with its base table"
    );
}

#[test]
fn what_has_no_log_is_refused() {
    let session = session("");
    session.all(&[
        "CREATE TABLE u (k int PRIMARY KEY, v int)",
        "CREATE TABLE u_scylla_cdc_log (k int PRIMARY KEY)",
        "CREATE TABLE odd (k int PRIMARY KEY, \"cdc$time\" int)",
    ]);
    for (statement, expected) in [
        (
            "CREATE TABLE n (k int PRIMARY KEY, n counter) WITH cdc = {'enabled': true}",
            "CDC is not supported for tables with counters: ks.n",
        ),
        (
            "CREATE TABLE n_scylla_cdc_log (k int PRIMARY KEY) WITH cdc = {'enabled': true}",
            "CDC is not supported for a CDC log",
        ),
        ("ALTER TABLE odd WITH cdc = {'enabled': true}", "the column cdc$time begins with cdc$"),
        (
            "ALTER TABLE u WITH cdc = {'enabled': true}",
            "a table of the name ks.u_scylla_cdc_log exists already",
        ),
        ("DROP TABLE t_scylla_cdc_log", "Cannot drop the CDC log of ks.t"),
        ("ALTER TABLE t_scylla_cdc_log DROP v", "Cannot change the columns of a CDC log"),
        ("ALTER TABLE t RENAME ck TO c", "Cannot rename columns of ks.t while CDC is enabled"),
        (
            "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t_scylla_cdc_log WHERE \"cdc$stream_id\" IS NOT NULL \
             AND \"cdc$time\" IS NOT NULL AND \"cdc$batch_seq_no\" IS NOT NULL \
             PRIMARY KEY (\"cdc$time\", \"cdc$stream_id\", \"cdc$batch_seq_no\")",
            "Materialized views are not supported on a CDC log",
        ),
    ] {
        session.refused(statement, expected);
    }
    session.all(&[
        "ALTER TABLE t WITH cdc = {'enabled': false}",
        "DROP TABLE t_scylla_cdc_log",
        "DROP TABLE t",
    ]);
}
