//! Materialized views, as Cassandra 5.0's own tests (`ViewTest`, `ViewSchemaTest`, `ViewFilteringTest`,
//! `ViewComplex*Test`) state their behaviour.

use super::*;
use crate::SchemaRules;

fn session(statements: &[&str]) -> Session {
    let session = Session::new();
    session.all(statements);
    session
}

fn sorted(session: &Session, text: &str) -> Vec<String> {
    let mut rows = session.try_run(text).unwrap();
    rows.sort();
    rows
}

const BASE: &str =
    "CREATE TABLE t (k int, c int, v int, w int, l list<int>, s int static, PRIMARY KEY (k, c))";

#[test]
fn definitions_have_rules() {
    let session = session(&[
        BASE,
        "CREATE TABLE plain (k int PRIMARY KEY, a int, b int, d duration, f frozen<list<int>>)",
        "CREATE TABLE counters (k int PRIMARY KEY, n counter)",
        "CREATE TABLE fast (k int PRIMARY KEY, a int) WITH gc_grace_seconds = 0",
        "CREATE TYPE ty (a int)",
        "CREATE TABLE typed (k int PRIMARY KEY, u ty)",
        "CREATE MATERIALIZED VIEW known AS SELECT * FROM plain WHERE k IS NOT NULL AND a IS NOT NULL PRIMARY KEY (a, k)",
    ]);
    for (view, expected) in [
        (
            "mv AS SELECT * FROM missing WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Base table 'missing' doesn't exist",
        ),
        ("mv AS SELECT * FROM known WHERE k IS NOT NULL PRIMARY KEY (k)", "Base table 'known' doesn't exist"),
        (
            "plain AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Cannot create materialized view 'plain' - a table with the same name already exists",
        ),
        (
            "known AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "already existing table \"known\"",
        ),
        (
            "other.mv AS SELECT * FROM ks.plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Cannot create a materialized view on a table in a different keyspace",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k = ? PRIMARY KEY (k)",
            "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements",
        ),
        (
            "mv AS SELECT * FROM counters WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Materialized views are not supported on counter tables",
        ),
        (
            "mv AS SELECT * FROM fast WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Cannot create materialized view 'mv' for base table 'fast' with gc_grace_seconds of 0, since this value \
             is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to \
             expire before being replayed.",
        ),
        (
            "mv AS SELECT k AS x FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Cannot use aliases when defining a materialized view (got k AS x)",
        ),
        (
            "mv AS SELECT k, writetime(a) FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Can only select columns by name when defining a materialized view (got ",
        ),
        (
            "mv AS SELECT k, no FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
            "Undefined column name no in table ks.plain",
        ),
        (
            "mv AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (k, c)",
            "Cannot include static column 's' in materialized view 'mv'",
        ),
        (
            "mv AS SELECT k, c, s FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (k, c)",
            "Cannot include static column 's' in materialized view 'mv'",
        ),
        (
            "mv AS SELECT k, a FROM plain WHERE k IS NOT NULL PRIMARY KEY (k, b)",
            "Unknown column 'b' referenced in PRIMARY KEY for materialized view 'mv'",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k, k)",
            "Duplicate column 'k' in PRIMARY KEY clause for materialized view 'mv'",
        ),
        (
            "mv AS SELECT k, c, l FROM t WHERE k IS NOT NULL AND l IS NOT NULL PRIMARY KEY (l, k, c)",
            "Invalid non-frozen collection type \
             'org.apache.cassandra.db.marshal.ListType(org.apache.cassandra.db.marshal.Int32Type)' for PRIMARY KEY column 'l'",
        ),
        (
            "mv AS SELECT * FROM typed WHERE k IS NOT NULL AND u IS NOT NULL PRIMARY KEY (u, k)",
            "Invalid non-frozen user-defined type",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL AND d IS NOT NULL PRIMARY KEY (d, k)",
            "duration type is not supported for PRIMARY KEY column 'd'",
        ),
        (
            "mv AS SELECT k, c, v FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
            "Cannot create materialized view 'mv' without primary key columns c from base table 't'",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (a, b, k)",
            "Cannot include more than one non-primary key column in materialized view primary key (got a, b)",
        ),
        (
            "mv AS SELECT * FROM plain WHERE token(k) > 1 PRIMARY KEY (k)",
            "Cannot use token relation when defining a materialized view",
        ),
        (
            "mv AS SELECT * FROM plain PRIMARY KEY (k)",
            "Primary key columns k must be restricted with 'IS NOT NULL' or otherwise",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (a, k)",
            "Primary key columns a must be restricted with 'IS NOT NULL' or otherwise",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL AND a = 1 PRIMARY KEY (a, k)",
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: a restricted illegally)",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL AND b = 1 PRIMARY KEY (k)",
            "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: b restricted illegally)",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL AND a IS NOT NULL PRIMARY KEY (a, k) WITH CLUSTERING ORDER BY (a DESC)",
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k) WITH default_time_to_live = 5",
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at the \
             same time than the corresponding data in the parent table.",
        ),
        (
            "mv AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k) WITH no_such_option = 5",
            "Unknown property 'no_such_option'",
        ),
    ] {
        session.refused(&format!("CREATE MATERIALIZED VIEW {view}"), expected);
    }
    session.storage.set_schema_rules(SchemaRules { may_create_views: false, ..SchemaRules::default() });
    session.refused(
        "CREATE MATERIALIZED VIEW mv AS SELECT * FROM plain WHERE k IS NOT NULL PRIMARY KEY (k)",
        "Materialized views are disabled. Enable in cassandra.yaml to use.",
    );
}

#[test]
fn views_and_their_base_tables_are_guarded() {
    let session = session(&[
        BASE,
        "CREATE MATERIALIZED VIEW mv AS SELECT k, c, v FROM t WHERE k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)",
        "CREATE MATERIALIZED VIEW IF NOT EXISTS mv AS SELECT k, c FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
        "DROP MATERIALIZED VIEW IF EXISTS missing",
        "ALTER MATERIALIZED VIEW IF EXISTS missing WITH comment = 'x'",
    ]);
    for text in [
        "INSERT INTO mv (v, k, c) VALUES (1, 1, 1)",
        "DELETE FROM mv WHERE v = 1",
        "BEGIN BATCH DELETE FROM mv WHERE v = 1; APPLY BATCH",
    ] {
        session.refused(text, "Cannot directly modify a materialized view");
    }
    for (text, expected) in [
        ("TRUNCATE mv", "Cannot TRUNCATE materialized view directly; must truncate base table instead"),
        (
            "DROP TABLE mv",
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.",
        ),
        (
            "ALTER TABLE mv ADD x int",
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead",
        ),
        ("DROP TABLE t", "Cannot drop a table when materialized views still depend on it (mv)"),
        ("ALTER TABLE t DROP w", "Cannot drop column w on base table t with materialized views"),
        ("ALTER TABLE t DROP v", "Cannot drop column v on base table t with materialized views"),
        ("ALTER TABLE t RENAME v TO x", "Cannot rename non PRIMARY KEY column v"),
        (
            "ALTER TABLE t WITH gc_grace_seconds = 0",
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value is used to \
             TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before \
             being replayed.",
        ),
        (
            "ALTER MATERIALIZED VIEW mv WITH gc_grace_seconds = 0",
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL undelivered \
             updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed.",
        ),
        (
            "ALTER MATERIALIZED VIEW mv WITH default_time_to_live = 1",
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always expire \
             at the same time than the corresponding data in the parent table. default_time_to_live must be set to zero, \
             see CASSANDRA-12868 for more information",
        ),
        ("CREATE INDEX ON mv (k)", "Secondary indexes on materialized views aren't supported"),
        ("DROP MATERIALIZED VIEW t", "Materialized view 'ks.t' doesn't exist"),
        ("DROP MATERIALIZED VIEW no", "Materialized view 'ks.no' doesn't exist"),
        ("ALTER MATERIALIZED VIEW no WITH comment = ''", "Materialized view 'ks.no' doesn't exist"),
        ("CREATE TABLE mv (k int PRIMARY KEY)", "already existing table"),
    ] {
        session.refused(text, expected);
    }
    session.all(&[
        "ALTER MATERIALIZED VIEW mv WITH comment = 'changed'",
        "DROP MATERIALIZED VIEW mv",
        "ALTER TABLE t DROP w",
    ]);
    session.refused("SELECT * FROM mv", "table mv does not exist");
    session.all(&["DROP TABLE t"]);
}

#[test]
fn a_view_follows_its_base_table() {
    let session = session(&[
        BASE,
        "CREATE MATERIALIZED VIEW mv AS SELECT k, c, v, w FROM t WHERE k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)",
        "INSERT INTO t (k, c, v, w) VALUES (0, 0, 0, 10)",
        "INSERT INTO t (k, c, v, w) VALUES (0, 1, 0, 11)",
        "INSERT INTO t (k, c, w) VALUES (0, 2, 12)",
        "INSERT INTO t (k, s) VALUES (0, 5)",
    ]);
    session.check("SELECT * FROM mv WHERE v = 0", &["0|0|0|10", "0|0|1|11"]);
    session.all(&["UPDATE t SET v = 1 WHERE k = 0 AND c = 0"]);
    session.check("SELECT * FROM mv WHERE v = 0", &["0|0|1|11"]);
    session.check("SELECT * FROM mv WHERE v = 1", &["1|0|0|10"]);
    session.all(&["UPDATE t SET w = 20 WHERE k = 0 AND c = 0", "UPDATE t SET v = 0 WHERE k = 0 AND c = 0"]);
    session.check("SELECT * FROM mv WHERE v = 0", &["0|0|0|20", "0|0|1|11"]);
    session.check("SELECT * FROM mv WHERE v = 1", &[]);
    session.all(&["DELETE v FROM t WHERE k = 0 AND c = 0"]);
    session.check("SELECT * FROM mv WHERE v = 0", &["0|0|1|11"]);
    session.all(&["DELETE FROM t WHERE k = 0"]);
    session.check("SELECT * FROM mv", &[]);
    session.all(&[
        "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (1, 1, 7); UPDATE t SET w = 3 WHERE k = 1 AND c = 1; \
         INSERT INTO t (k, c, v, w) VALUES (2, 1, 7, 4); APPLY BATCH",
        "UPDATE t SET w = 5 WHERE k = 2 AND c = 1 IF v = 7",
        "INSERT INTO t (k, c, v) VALUES (3, 3, 7) IF NOT EXISTS",
    ]);
    assert_eq!(sorted(&session, "SELECT k, c, w FROM mv WHERE v = 7"), ["1|1|3", "2|1|5", "3|3|"]);
    session.check("SELECT k FROM mv WHERE v = 7 AND k > 1 ORDER BY k DESC", &["3", "2"]);
    session.check("SELECT count(*), max(w) FROM mv WHERE v = 7", &["3|5"]);
    session.all(&["DELETE FROM t WHERE k = 1 AND c >= 0", "DELETE FROM t WHERE k = 2 AND c = 1 IF EXISTS"]);
    session.check("SELECT k FROM mv WHERE v = 7", &["3"]);
    session.all(&["TRUNCATE t"]);
    session.check("SELECT * FROM mv", &[]);
}

#[test]
fn late_timestamps_and_ties_are_resolved_as_in_the_base_table() {
    let session = session(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, w int, x int)",
        "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
        "INSERT INTO t (k, v, w) VALUES (1, 1, 10) USING TIMESTAMP 5",
        "UPDATE t USING TIMESTAMP 4 SET v = 2 WHERE k = 1",
    ]);
    session.check("SELECT v, w, writetime(w) FROM mv", &["1|10|5"]);
    session.all(&[
        "UPDATE t USING TIMESTAMP 6 SET v = 2 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 3 SET x = 3 WHERE k = 1",
    ]);
    session.check("SELECT v, w, x, writetime(w) FROM mv", &["2|10|3|5"]);
    // Back to the first value: cells older than the marker that was dead are there again.
    session.all(&["UPDATE t USING TIMESTAMP 7 SET v = 1 WHERE k = 1"]);
    session.check("SELECT v, w, x FROM mv", &["1|10|3"]);
    // The greater value wins at a tie.
    session.all(&[
        "UPDATE t USING TIMESTAMP 7 SET v = 3 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 7 SET v = 2 WHERE k = 1",
    ]);
    session.check("SELECT v, w, x FROM mv", &["3|10|3"]);
    session.all(&["DELETE FROM t USING TIMESTAMP 5 WHERE k = 1"]);
    session.check("SELECT v, w, x FROM mv", &["3||"]);
    session.all(&[
        "DELETE FROM t USING TIMESTAMP 8 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 8 SET v = 4 WHERE k = 1",
    ]);
    session.check("SELECT * FROM mv", &[]);
    session.all(&[
        "UPDATE t USING TIMESTAMP 9 SET v = 3 WHERE k = 1",
        "UPDATE t USING TIMESTAMP 9 SET w = 1 WHERE k = 1",
    ]);
    session.check("SELECT v, w, x FROM mv", &["3|1|"]);
}

#[test]
fn rows_expire_with_what_keeps_them_alive() {
    let session = session(&[
        "CREATE TABLE t (k int PRIMARY KEY, v int, w int, x int)",
        "CREATE MATERIALIZED VIEW by_v AS SELECT k, v, w FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
        "CREATE MATERIALIZED VIEW by_k AS SELECT k, w FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
        "INSERT INTO t (k, v, w) VALUES (1, 1, 1) USING TTL 10",
        "UPDATE t SET w = 2 WHERE k = 1",
        "UPDATE t USING TTL 100 SET x = 1 WHERE k = 2",
        "UPDATE t SET v = 3 WHERE k = 3",
    ]);
    session.check("SELECT * FROM by_v", &["1|1|2", "3|3|"]);
    session.check("SELECT k, w, ttl(w) FROM by_k WHERE k IN (1, 2, 3)", &["1|2|", "2||", "3||"]);
    session.storage.set_now_us(session.storage.wall_us() + 50_000_000);
    session.check("SELECT * FROM by_v", &["3|3|"]);
    session.check("SELECT * FROM by_k WHERE k IN (1, 2, 3)", &["1|2", "2|", "3|"]);
    session.storage.set_now_us(session.storage.wall_us() + 60_000_000);
    session.check("SELECT * FROM by_k WHERE k IN (1, 2, 3)", &["1|2", "3|"]);
    // A column that the view does not select keeps its row alive, and its deletion ends it.
    session.all(&["DELETE v FROM t WHERE k = 3"]);
    session.check("SELECT * FROM by_k WHERE k IN (1, 2, 3)", &["1|2"]);
    session.all(&["UPDATE t USING TTL 5 SET v = 9 WHERE k = 1"]);
    session.check("SELECT v, k, w FROM by_v", &["9|1|2"]);
    session.storage.set_now_us(session.storage.wall_us() + 6_000_000);
    session.check("SELECT v, k, w FROM by_v", &[]);
    session.all(&["UPDATE t SET v = 9 WHERE k = 1"]);
    session.check("SELECT v, k, w FROM by_v", &["9|1|2"]);
}

#[test]
fn collections_and_user_types_are_copied() {
    let session = session(&[
        "CREATE TYPE ty (a int, b text)",
        "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>, s set<text>, m map<text, int>, u ty, f frozen<ty>)",
        "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
        "CREATE MATERIALIZED VIEW by_f AS SELECT f, k FROM t WHERE k IS NOT NULL AND f IS NOT NULL PRIMARY KEY (f, k)",
        "CREATE MATERIALIZED VIEW keys AS SELECT k FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
        "INSERT INTO t (k, v, l, s, m, u, f) VALUES (1, 1, [1, 2], {'a'}, {'x': 1}, {a: 1, b: 'b'}, {a: 2})",
        "UPDATE t SET l = l + [3], s = s + {'b'}, m['y'] = 2, u.a = 5 WHERE k = 1",
        "UPDATE t SET v = 2, s = s - {'a'} WHERE k = 1",
    ]);
    session.check(
        "SELECT v, l, s, m, u, f FROM mv",
        &["2|[1, 2, 3]|{b}|{x: 1, y: 2}|{a: 5, b: b}|{a: 2, b: null}"],
    );
    session.check("SELECT k FROM by_f WHERE f = {a: 2, b: null}", &["1"]);
    session.all(&["UPDATE t SET l = [9], m = {} WHERE k = 1", "DELETE u, f FROM t WHERE k = 1"]);
    session.check("SELECT v, l, s, m, u FROM mv", &["2|[9]|{b}||"]);
    session.check("SELECT * FROM by_f", &[]);
    // A row that only an element of a collection keeps alive, in a view that does not have the collection.
    session.all(&["UPDATE t SET s = {'q'}, m['z'] = 1 WHERE k = 2"]);
    assert_eq!(sorted(&session, "SELECT * FROM keys"), ["1", "2"]);
    session.all(&["UPDATE t SET s = {} WHERE k = 2"]);
    assert_eq!(sorted(&session, "SELECT * FROM keys"), ["1", "2"]);
    session.all(&["DELETE m['z'] FROM t WHERE k = 2"]);
    session.check("SELECT * FROM keys", &["1"]);
}

#[test]
fn the_where_of_a_view_filters_by_the_base_tables_key() {
    let session = session(&[
        "CREATE TABLE t (a int, b int, c int, f frozen<set<int>>, d int, PRIMARY KEY (a, b, c, f))",
        "CREATE MATERIALIZED VIEW eq AS SELECT * FROM t WHERE a = 1 AND b IS NOT NULL AND c IS NOT NULL AND f IS NOT NULL PRIMARY KEY (b, a, c, f)",
        "CREATE MATERIALIZED VIEW many AS SELECT a, b, c, f FROM t WHERE a IN (1, 2) AND b > 0 AND b <= 2 AND c IS NOT NULL AND f CONTAINS 7 PRIMARY KEY (a, b, c, f)",
        "CREATE MATERIALIZED VIEW pair AS SELECT * FROM t WHERE a > 0 AND (b, c) >= (1, 5) AND f IS NOT NULL AND d IS NOT NULL PRIMARY KEY (d, a, b, c, f)",
    ]);
    for a in 0..3 {
        for (b, c) in [(0, 9), (1, 4), (1, 5), (2, 0), (3, 0)] {
            session.all(&[
                &format!("INSERT INTO t (a, b, c, f, d) VALUES ({a}, {b}, {c}, {{{b}, 7}}, 1)"),
                &format!("INSERT INTO t (a, b, c, f, d) VALUES ({a}, {b}, {c}, {{}}, 1)"),
            ]);
        }
    }
    assert_eq!(session.try_run("SELECT * FROM eq").unwrap().len(), 10);
    assert_eq!(
        sorted(&session, "SELECT a, b, c FROM many"),
        ["1|1|4", "1|1|5", "1|2|0", "2|1|4", "2|1|5", "2|2|0"]
    );
    assert_eq!(session.try_run("SELECT a, b, c FROM pair WHERE d = 1").unwrap().len(), 2 * 2 * 3);
    session.all(&["DELETE FROM t WHERE a = 1 AND b = 1"]);
    assert_eq!(sorted(&session, "SELECT a, b, c FROM many WHERE a = 1"), ["1|2|0"]);
    session.all(&["ALTER TABLE t RENAME b TO \"B\""]);
    session.all(&[
        "INSERT INTO t (a, \"B\", c, f, d) VALUES (2, 0, 0, {7}, 1)",
        "INSERT INTO t (a, \"B\", c, f, d) VALUES (2, 1, 0, {7}, 1)",
    ]);
    assert_eq!(sorted(&session, "SELECT \"B\", c FROM many WHERE a = 2"), ["1|0", "1|4", "1|5", "2|0"]);
    let catalog = session.storage.catalog();
    let view = catalog.schema("ks", "many").unwrap().view.clone().unwrap();
    assert_eq!(
        view.where_clause,
        "a IN (1, 2) AND \"B\" > 0 AND \"B\" <= 2 AND c IS NOT NULL AND f CONTAINS 7"
    );
}

#[test]
fn columns_added_to_the_table_are_added_to_views_of_all_columns() {
    let session = session(&[
        "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
        "INSERT INTO t (k, c, v) VALUES (1, 1, 5)",
        "INSERT INTO t (k, c, v) VALUES (1, 2, 5)",
        "CREATE MATERIALIZED VIEW everything AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)",
        "CREATE MATERIALIZED VIEW some AS SELECT k, c FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (k, c) WITH CLUSTERING ORDER BY (c ASC)",
        "ALTER TABLE t ADD (x int, s int static)",
        "UPDATE t SET x = 3 WHERE k = 1 AND c = 1",
        "UPDATE t SET x = 4 WHERE k = 2 AND c = 2",
    ]);
    // Rows that were there before are in the view, in the order of the base table.
    session.check("SELECT * FROM everything", &["5|1|2|", "5|1|1|3"]);
    assert_eq!(sorted(&session, "SELECT * FROM some"), ["1|1", "1|2", "2|2"]);
    session.all(&["DELETE x FROM t WHERE k = 2 AND c = 2"]);
    session.check("SELECT * FROM some", &["1|1", "1|2"]);
    session.refused("ALTER TABLE t ADD x int", "Column with name 'x' already exists");
}

#[test]
fn a_view_is_described_as_it_was_created() {
    let session = session(&[
        "CREATE TABLE t (k int, c int, v int, \"W\" int, PRIMARY KEY (k, c))",
        "CREATE MATERIALIZED VIEW mv AS SELECT \"W\", k, v, c FROM t WHERE k = 1 AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY ((v, k), c) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s'",
    ]);
    let describe = |text: &str| session.try_run(text).unwrap();
    // The text of a result has no quotes, so the statement comes from the catalog.
    let statement = || {
        let catalog = session.storage.catalog();
        let view = catalog.table("ks", "mv").unwrap();
        catalog::describe_view(&view.schema, &view.settings, catalog::Internals::Hidden)
    };
    let first = statement();
    assert!(
        first.starts_with(
            "CREATE MATERIALIZED VIEW ks.mv AS\n    SELECT v, k, c, \"W\"\n    FROM ks.t\n    WHERE k = 1 AND c IS NOT NULL AND v IS NOT NULL\n    \
             PRIMARY KEY ((v, k), c)\n WITH CLUSTERING ORDER BY (c DESC)\n    AND additional_write_policy = '99p'\n"
        ),
        "{first}"
    );
    assert!(first.contains("AND comment = 'it''s'") && !first.contains("default_time_to_live"));
    let shown = describe("DESCRIBE MATERIALIZED VIEW mv").pop().unwrap();
    assert_eq!(shown.split('\n').next(), Some("ks|materialized_view|mv|CREATE MATERIALIZED VIEW ks.mv AS"));
    let kinds = |text: &str| {
        let rows = describe(text);
        rows.iter().map(|row| row.split('|').nth(1).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("DESCRIBE TABLE t"), ["table", "materialized_view"]);
    assert_eq!(kinds("DESCRIBE KEYSPACE ks"), ["keyspace", "table", "materialized_view"]);
    assert_eq!(kinds("DESCRIBE mv"), ["materialized_view"]);
    assert_eq!(kinds("DESCRIBE TABLES"), ["table"]);
    session.refused("DESCRIBE TABLE mv", "Table 'mv' not found in keyspace 'ks'");
    session.refused("DESCRIBE MATERIALIZED VIEW t", "Materialized view 't' not found in 'ks'");
    session.all(&["DROP MATERIALIZED VIEW mv", &first]);
    assert_eq!(statement(), first);
}

#[test]
fn a_value_too_long_for_the_views_key_is_refused() {
    let session = session(&[
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
        "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
    ]);
    let long = "x".repeat(65_536);
    session.refused(
        &format!("INSERT INTO t (k, v) VALUES (1, '{long}')"),
        "Key length of 65536 is longer than maximum of 65535",
    );
    session.check("SELECT * FROM t", &[]);
    // No partition has an empty key.
    session.all(&["INSERT INTO t (k, v) VALUES (1, '')"]);
    session.check("SELECT * FROM mv", &[]);
    session.all(&["INSERT INTO t (k, v) VALUES (1, 'a')"]);
    session.check("SELECT * FROM mv", &["a|1"]);
}
