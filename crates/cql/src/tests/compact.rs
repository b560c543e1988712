//! Tables WITH COMPACT STORAGE, as Cassandra 5.0's own tests state their behaviour.

use super::*;
use crate::SchemaRules;

fn session(tables: &[&str]) -> Session {
    let session = Session::new();
    session
        .storage
        .set_schema_rules(SchemaRules { may_drop_compact_storage: true, ..SchemaRules::default() });
    session.all(tables);
    session
}

#[test]
fn definitions_have_rules() {
    let session = session(&[]);
    for (definition, expected) in [
        (
            "(a int PRIMARY KEY, b list<int>)",
            "Non-frozen collections and UDTs are not supported with COMPACT STORAGE",
        ),
        (
            "(a int, b int, s int static, PRIMARY KEY (a, b))",
            "Static columns are not supported in COMPACT STORAGE tables",
        ),
        ("(a int PRIMARY KEY)", "No definition found that is not part of the PRIMARY KEY"),
        (
            "(pk int, c int, v1 int, v2 int, PRIMARY KEY (pk, c))",
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY (got: v1, v2)",
        ),
        (
            "(a int, b int, c counter, d int, PRIMARY KEY (a, b))",
            "COMPACT STORAGE with composite PRIMARY KEY",
        ),
        (
            "(a int PRIMARY KEY, c counter, d int)",
            "Cannot mix counter and non counter columns in the same table",
        ),
    ] {
        session.refused(&format!("CREATE TABLE t {definition} WITH COMPACT STORAGE"), expected);
    }
    session.storage.set_schema_rules(SchemaRules { may_create_compact: false, ..SchemaRules::default() });
    session.refused(
        "CREATE TABLE t (a int PRIMARY KEY, b int) WITH COMPACT STORAGE",
        "Creation of new COMPACT STORAGE tables is not allowed",
    );
}

#[test]
fn static_tables_have_a_row_for_each_partition() {
    let session = session(&[
        "CREATE TABLE t (k text PRIMARY KEY, v1 int, v2 text) WITH COMPACT STORAGE",
        "INSERT INTO t (k, v1, v2) VALUES ('first', 1, 'value1')",
        "INSERT INTO t (k, v1, v2) VALUES ('second', 2, 'value2')",
        "UPDATE t SET v1 = 3 WHERE k = 'third'",
    ]);
    session.check("SELECT * FROM t WHERE k = 'first'", &["first|1|value1"]);
    session.check("SELECT v2 FROM t WHERE k IN ('first', 'second')", &["value1", "value2"]);
    // In the order of Murmur3 tokens.
    session.check("SELECT * FROM t", &["third|3|", "second|2|value2", "first|1|value1"]);
    session.check("SELECT count(*) FROM t", &["3"]);
    session.check("SELECT k FROM t WHERE v1 >= 2 ALLOW FILTERING", &["third", "second"]);
    session.refused("SELECT k FROM t WHERE v1 >= 2", "use ALLOW FILTERING");
    session.check(
        "SELECT JSON * FROM t WHERE k = 'first'",
        &["{\"k\": \"first\", \"v1\": 1, \"v2\": \"value1\"}"],
    );
    session.all(&["DELETE v2 FROM t WHERE k = 'first'"]);
    session.check("SELECT * FROM t WHERE k = 'first'", &["first|1|"]);
    session.check("SELECT v2 FROM t WHERE k = 'first'", &[""]);
    session.all(&["DELETE v1 FROM t WHERE k = 'first'", "DELETE FROM t WHERE k = 'second'"]);
    session.check("SELECT k FROM t", &["third"]);
    session.all(&["INSERT INTO t JSON '{\"k\": \"j\", \"v1\": 9}'"]);
    session.check("SELECT * FROM t WHERE k = 'j'", &["j|9|"]);
    session.refused("INSERT INTO t (k) VALUES ('x')", "Some clustering keys are missing: column1");
    session.check("UPDATE t SET v1 = 4 WHERE k = 'third' IF v1 = 3", &["true"]);
    session.check("UPDATE t SET v1 = 4 WHERE k = 'third' IF v1 = 3", &["false|4"]);
    session.check("INSERT INTO t (k, v1) VALUES ('new', 1) IF NOT EXISTS", &["true"]);
    session.check("INSERT INTO t (k, v1) VALUES ('new', 2) IF NOT EXISTS", &["false|new|1|"]);
}

#[test]
fn columns_that_are_hidden_cannot_be_named() {
    let session = session(&[
        "CREATE TABLE s (a int PRIMARY KEY, b int, c int) WITH COMPACT STORAGE",
        "CREATE TABLE d (a int, b int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE",
        "CREATE TABLE e (a int, b int, v int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE",
        "CREATE TABLE n (a int PRIMARY KEY, b int, column1 int, value int) WITH COMPACT STORAGE",
        "INSERT INTO n (a, b, column1, value) VALUES (1, 2, 3, 4)",
    ]);
    session.check("SELECT a, b, column1, value FROM n", &["1|2|3|4"]);
    for (table, names) in
        [("s", ["column1", "value"]), ("d", ["column1", "value"]), ("n", ["column2", "value1"])]
    {
        for name in names {
            let expected = format!("Undefined column name {name}");
            for text in [
                format!("SELECT {name} FROM {table}"),
                format!("SELECT writetime({name}) FROM {table}"),
                format!("SELECT * FROM {table} WHERE {name} = null ALLOW FILTERING"),
                format!("INSERT INTO {table} (a, b, {name}) VALUES (1, 1, 1)"),
                format!("UPDATE {table} SET {name} = 6 WHERE a = 0"),
                format!("UPDATE {table} SET {name} = ? WHERE a = 0"),
                format!("DELETE {name} FROM {table} WHERE a = 1"),
                format!("DELETE FROM {table} WHERE a = 1 AND {name} = 1"),
                format!("ALTER TABLE {table} RENAME {name} TO x"),
            ] {
                session.refused(&text, &expected);
            }
            session.refused(
                &format!("ALTER TABLE {table} DROP {name}"),
                &format!("Column {name} was not found in table"),
            );
        }
    }
    session.refused("ALTER TABLE s ADD x int", "Cannot add new column to a COMPACT STORAGE table");
    let on_key = "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables";
    session.refused("CREATE INDEX ON d (a)", on_key);
    session.refused("CREATE INDEX ON d (b)", on_key);
    let on_value = "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables";
    session.refused("CREATE INDEX ON e (v)", on_value);
    session.refused("ALTER TABLE d ADD x int", "Cannot add new column to a COMPACT STORAGE table");
    session.all(&["ALTER TABLE s DROP c", "ALTER TABLE d RENAME b TO bb"]);
}

#[test]
fn dense_tables_have_rows_while_they_have_a_value() {
    let session = session(&[
        "CREATE TABLE t (userid int, url text, time bigint, PRIMARY KEY (userid, url)) WITH COMPACT STORAGE",
        "INSERT INTO t (userid, url, time) VALUES (1, 'b', 42)",
        "INSERT INTO t (userid, url, time) VALUES (1, 'a', 24)",
        "UPDATE t SET time = 12 WHERE userid IN (1, 2) AND url = 'c'",
    ]);
    session.check("SELECT url, time FROM t WHERE userid = 1", &["a|24", "b|42", "c|12"]);
    session.check("SELECT url FROM t WHERE userid = 1 ORDER BY url DESC", &["c", "b", "a"]);
    session.check("SELECT url FROM t WHERE time > 20 ALLOW FILTERING", &["a", "b"]);
    session.all(&[
        "UPDATE t SET time = null WHERE userid = 1 AND url = 'a'",
        "DELETE time FROM t WHERE userid = 1 AND url = 'b'",
    ]);
    session.check("SELECT * FROM t WHERE userid = 1", &["1|c|12"]);
    session.all(&["DELETE FROM t WHERE userid = 1 AND url > 'a'"]);
    session.check("SELECT * FROM t", &["2|c|12"]);
    for (text, expected) in [
        ("INSERT INTO t (userid, time) VALUES (0, 0)", "Some clustering keys are missing: url"),
        (
            "INSERT INTO t (userid, url) VALUES (0, 'x')",
            "Column time is mandatory for this COMPACT STORAGE table",
        ),
        (
            "INSERT INTO t (userid, url, time) VALUES (3, '', 42)",
            "Invalid empty or null value for column url",
        ),
        (
            "INSERT INTO t (userid, url, time) VALUES (3, null, 42)",
            "Invalid null value in condition for column url",
        ),
        ("UPDATE t SET time = 1 WHERE userid = 1", "Some clustering keys are missing: url"),
        (
            "UPDATE t SET time = 1 WHERE userid = 1 AND url > 'x'",
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        ),
        ("DELETE FROM t WHERE userid CONTAINS 1", "Cannot use DELETE with CONTAINS"),
        ("UPDATE t SET time = 1 WHERE userid CONTAINS 1", "Cannot use UPDATE with CONTAINS"),
        ("ALTER TABLE t DROP time", "Cannot drop columns from a COMPACT STORAGE table"),
    ] {
        session.refused(text, expected);
    }
    session.check("UPDATE t SET time = 1 WHERE userid = 9 AND url = 'x' IF time = null", &["true"]);
    let answer =
        session.try_run("INSERT INTO t (userid, url, time) VALUES (9, 'x', 2) IF NOT EXISTS").unwrap();
    assert!(answer[0].starts_with("false|9|"), "{answer:?}");
}

#[test]
fn clustering_values_may_be_left_out_at_the_end() {
    let session = session(&[
        "CREATE TABLE t (pk int, c1 int, c2 int, value int, PRIMARY KEY (pk, c1, c2)) WITH COMPACT STORAGE",
        "INSERT INTO t (pk, c1, value) VALUES (0, 0, 0)",
        "INSERT INTO t (pk, c1, c2, value) VALUES (0, 0, -1, 1)",
        "INSERT INTO t (pk, c1, c2, value) VALUES (0, 0, 1, 2)",
        "UPDATE t SET value = 3 WHERE pk = 0 AND c1 = 1",
        "CREATE TABLE r (pk int, c1 int, c2 text, value int, PRIMARY KEY (pk, c1, c2)) WITH COMPACT STORAGE \
         AND CLUSTERING ORDER BY (c1 ASC, c2 DESC)",
        "INSERT INTO r (pk, c1, c2, value) VALUES (0, 0, '', 1)",
        "INSERT INTO r (pk, c1, c2, value) VALUES (0, 0, 'x', 2)",
        "INSERT INTO r (pk, c1, value) VALUES (0, 0, 3)",
    ]);
    let all = ["0|0||0", "0|0|-1|1", "0|0|1|2", "0|1||3"];
    session.check("SELECT * FROM t", &all);
    session
        .check("SELECT c1, c2 FROM t WHERE pk = 0 ORDER BY c1 DESC, c2 DESC", &["1|", "0|1", "0|-1", "0|"]);
    session.check("SELECT * FROM t WHERE pk = 0 AND c1 = 0", &all[..3]);
    session.check("SELECT * FROM t WHERE pk = 0 AND c1 > 0", &all[3..]);
    session.check("SELECT * FROM t WHERE pk = 0 AND c1 = 0 AND c2 = 1", &all[2..3]);
    session.check("SELECT c2, value FROM r", &["|3", "x|2", "|1"]);
    session.check("SELECT c1, c2, count(*) FROM t GROUP BY pk, c1, c2", &["0||1", "0|-1|1", "0|1|1", "1||1"]);
    session.check("SELECT c1, count(c2), count(*) FROM t GROUP BY pk, c1", &["0|2|3", "1|0|1"]);
    for page_rows in [1, 2] {
        session.storage.set_page_rows_max(page_rows);
        session.check("SELECT * FROM t", &all);
    }
    for (text, expected) in [
        (
            "INSERT INTO t (pk, c2, value) VALUES (0, 0, 0)",
            "PRIMARY KEY column \"c2\" cannot be restricted as preceding column \"c1\" is not restricted",
        ),
        ("INSERT INTO t (pk, value) VALUES (0, 0)", "Some clustering keys are missing: c1, c2"),
        (
            "INSERT INTO t (pk, c1, c2) VALUES (0, 0, 0)",
            "Column value is mandatory for this COMPACT STORAGE table",
        ),
        (
            "UPDATE t SET value = 1 WHERE pk = 0 AND c2 = 1",
            "PRIMARY KEY column \"c2\" cannot be restricted as preceding column \"c1\" is not restricted",
        ),
        ("UPDATE t SET value = 1 WHERE pk = 0", "Some clustering keys are missing: c1, c2"),
        (
            "DELETE value FROM t WHERE pk = 0 AND c1 = 0",
            "Range deletions are not supported for specific columns",
        ),
    ] {
        session.refused(text, expected);
    }
    session.all(&["UPDATE t SET value = 7 WHERE pk = 0 AND c1 = 0"]);
    session.check("SELECT value FROM t WHERE pk = 0 AND c1 = 0", &["7", "1", "2"]);
    session.all(&["DELETE FROM t WHERE pk = 0 AND c1 = 0"]);
    session.check("SELECT * FROM t", &all[3..]);
}

#[test]
fn counters_are_compact_too() {
    let session = session(&[
        "CREATE TABLE s (k int PRIMARY KEY, a counter, b counter) WITH COMPACT STORAGE",
        "CREATE TABLE d (userid int, url text, total counter, PRIMARY KEY (userid, url)) WITH COMPACT STORAGE",
        "UPDATE s SET a = a + 1 WHERE k = 1",
        "UPDATE d SET total = total + 1 WHERE userid = 1 AND url = 'x'",
        "UPDATE d SET total -= 5 WHERE userid = 1 AND url = 'x'",
    ]);
    session.check("SELECT * FROM s", &["1|1|"]);
    session.check("SELECT total FROM d", &["-4"]);
    session.check("SELECT * FROM s WHERE a > 0 ALLOW FILTERING", &["1|1|"]);
    session.check("SELECT * FROM s WHERE b < 1 ALLOW FILTERING", &[]);
}

#[test]
fn compact_storage_is_dropped() {
    let session = session(&[
        "CREATE TABLE s (pk int, ck int, PRIMARY KEY (pk)) WITH COMPACT STORAGE",
        "INSERT INTO s (pk, ck) VALUES (1, 1)",
        "CREATE TABLE k (pk int, ck int, PRIMARY KEY (pk, ck)) WITH COMPACT STORAGE",
        "INSERT INTO k (pk, ck) VALUES (1, 1)",
        "CREATE TABLE d (pk int, ck int, v int, PRIMARY KEY (pk, ck)) WITH COMPACT STORAGE",
        "INSERT INTO d (pk, ck, v) VALUES (1, 1, 1)",
        "CREATE TABLE plain (pk int PRIMARY KEY)",
    ]);
    session.check("SELECT * FROM s", &["1|1"]);
    session.check("SELECT * FROM k", &["1|1"]);
    session.all(&[
        "ALTER TABLE s DROP COMPACT STORAGE",
        "ALTER TABLE k DROP COMPACT STORAGE",
        "ALTER TABLE d DROP COMPACT STORAGE",
    ]);
    session.check("SELECT * FROM s", &["1||1|"]);
    session.check("SELECT * FROM k", &["1|1|"]);
    session.check("SELECT * FROM d", &["1|1|1"]);
    session.all(&["INSERT INTO s (pk, column1, value) VALUES (1, 'x', 0x07)", "ALTER TABLE d ADD w int"]);
    session.check("SELECT * FROM s", &["1|x|1|0x07"]);
    session.refused(
        "ALTER TABLE plain DROP COMPACT STORAGE",
        "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE",
    );
    session.storage.set_schema_rules(SchemaRules::default());
    session.refused(
        "ALTER TABLE d DROP COMPACT STORAGE",
        "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.",
    );
}

#[test]
fn schema_tables_and_descriptions_show_it() {
    let session = session(&[
        "CREATE TABLE s (a int PRIMARY KEY, b int) WITH COMPACT STORAGE",
        "CREATE TABLE k (a int, b int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (b DESC)",
        "CREATE TABLE d (a int, b int, c int, v counter, PRIMARY KEY (a, b, c)) WITH COMPACT STORAGE",
        "CREATE TABLE plain (a int PRIMARY KEY, b int)",
    ]);
    let catalog = session.storage.catalog();
    for (name, flags, text) in [
        (
            "s",
            "{}",
            "CREATE TABLE ks.s (\n    a int PRIMARY KEY,\n    b int\n) WITH COMPACT STORAGE\n    AND ID",
        ),
        (
            "k",
            "{'dense'}",
            "CREATE TABLE ks.k (\n    a int,\n    b int,\n    PRIMARY KEY (a, b)\n) WITH COMPACT STORAGE\n    AND ID",
        ),
        ("d", "{'compound', 'counter', 'dense'}", ") WITH COMPACT STORAGE\n    AND ID"),
        ("plain", "{'compound'}", ") WITH ID"),
    ] {
        let schema = catalog.schema("ks", name).expect("a table");
        assert!(catalog::describe_table(schema).contains(text), "{}", catalog::describe_table(schema));
        let rows = catalog::mutations_for(&Catalog::empty(), &catalog, 5, 0);
        let row = rows.iter().filter(|mutation| mutation.schema.name == "tables").find_map(|mutation| {
            let rows = mutation.partition.rows();
            let row = rows.iter().find(|row| row.key.values().next() == Some(name.as_bytes()))?;
            Some((mutation.schema.clone(), row.row.clone()))
        });
        let (tables, row) = row.expect("a row");
        let column = tables.column_named("flags").expect("a column");
        let Some(model::ColumnData::Simple(cell)) = row.cell(column.id) else { panic!("flags") };
        assert_eq!(column.ty.text_of(&cell.value), flags, "{name}");
    }
    let partitions = catalog::mutations_for(&Catalog::empty(), &catalog, 5, 0);
    let partitions = partitions.into_iter().map(|m| (m.schema.id, m.key, m.partition));
    let loaded = catalog::load(partitions).expect("it loads");
    for table in catalog.tables("ks") {
        assert_eq!(loaded.schema("ks", &table.schema.name), Some(&table.schema));
    }
}
