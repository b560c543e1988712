//! The order in which a statement is checked, calls that several overloads accept, and the texts of their
//! errors, as in Cassandra 5.0.

use super::*;

#[test]
fn where_is_checked_before_the_selection() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, s text static, v text, PRIMARY KEY (k, c))",
        "CREATE TABLE p (k int PRIMARY KEY, v int, l list<int>)",
    ]);
    let only_static = "Cannot restrict clustering columns when selecting only static columns";
    for (text, expected) in [
        ("SELECT cast(s AS int) FROM t WHERE k = 1 AND c = 1", only_static),
        ("SELECT cast(s AS int) FROM t WHERE c <= 1", only_static),
        ("SELECT nope FROM p WHERE v != 1", "Unsupported \"!=\" relation: v != 1"),
        ("SELECT nope FROM t WHERE v != '1'", "Undefined column name nope in table ks.t"),
        ("SELECT k FROM p WHERE v != null", "Unsupported \"!=\" relation: v != NULL"),
        ("SELECT k FROM p WHERE v != 1 + :a", "Unsupported \"!=\" relation: v != system.\"_add\"(1, ?)"),
        ("SELECT k FROM p WHERE v < 'a' AND v != 1", "Invalid STRING constant (a) for \"v\" of type int"),
    ] {
        session.refused(text, expected);
    }
}

#[test]
fn relations_of_clustering_columns_are_checked_in_the_order_of_the_text() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int, a int, b int, c frozen<list<int>>, PRIMARY KEY (k, a, b, c))"]);
    for (text, expected) in [
        (
            "SELECT * FROM t WHERE b > 1 AND a <= 2",
            "PRIMARY KEY column \"b\" cannot be restricted (preceding column \"a\" is restricted by a non-EQ relation)",
        ),
        (
            "SELECT * FROM t WHERE a > 1 AND b <= 2",
            "Clustering column \"b\" cannot be restricted (preceding column \"a\" is restricted by a non-EQ relation)",
        ),
        (
            "SELECT * FROM t WHERE c CONTAINS 1 AND c = [1] ALLOW FILTERING",
            "Collection column c can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality",
        ),
        (
            "SELECT * FROM t WHERE c = [1] AND c CONTAINS 1 ALLOW FILTERING",
            "c cannot be restricted by more than one relation if it includes an Equal",
        ),
    ] {
        session.refused(text, expected);
    }
}

#[test]
fn null_ends_of_slices_are_before_all_values() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))",
        "CREATE TABLE d (k int, c int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
    ]);
    for table in ["t", "d"] {
        session.all(&[
            &format!("INSERT INTO {table} (k, c) VALUES (1, 1)"),
            &format!("INSERT INTO {table} (k, c) VALUES (1, 2)"),
        ]);
    }
    session.check("SELECT c FROM t WHERE k = 1 AND c > null", &["1", "2"]);
    session.check("SELECT c FROM t WHERE k = 1 AND c >= null AND c < 2", &["1"]);
    session.check("SELECT c FROM t WHERE k = 1 AND c <= null", &[]);
    // In descending order the start of a slice is its end.
    session.check("SELECT c FROM d WHERE k = 1 AND c > null", &[]);
    session.check("SELECT c FROM d WHERE k = 1 AND c < null", &["2", "1"]);
    session.refused("DELETE FROM t WHERE k = 1 AND c > null", "Invalid null value in condition for column c");
}

#[test]
fn calls_are_resolved_by_types_with_the_same_bytes() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, b bigint, ts timestamp, d date, de decimal, a ascii, te text, m map<text, int>, l list<text>)",
        "INSERT INTO t (k, b, ts, de, a) VALUES (1, 1000, 2000, 3, 'x')",
    ]);
    session.check("SELECT cast(b AS date), cast(ts AS bigint) FROM t", &["1970-01-01|2000"]);
    session.check("SELECT de + 1, de * 2, 100000000 + de FROM t", &["4.0|6.0|100000003"]);
    session.check("SELECT a + 'y' FROM t", &["xy"]);
    let ambiguous = "(bigint) -> bigint): use type casts to disambiguate";
    for (text, expected) in [
        ("SELECT sum(ts) FROM t", ambiguous),
        ("SELECT cast(ts AS double) FROM t", "Ambiguous call to function system.cast_as_double"),
        ("SELECT ts + 1 FROM t", "Ambiguous '+' operation with args ts and 1"),
        ("SELECT -ts FROM t", "Ambiguous negation: use type casts to disambiguate"),
        ("SELECT -te FROM t", "Invalid call to function system._negate, none of its type signatures match"),
        ("SELECT cast(m AS blob) FROM t", "m cannot be cast to blob"),
        ("SELECT d + 1 FROM t", "Unable to convert '1' to a duration"),
        ("INSERT INTO t (k) VALUES (1 + 2.5)", "the '+' operation is not supported between 1 and 2.5"),
        ("INSERT INTO t (k) VALUES (nope(1))", "Unknown function nope called"),
        ("INSERT INTO t (k) VALUES (to_date(1))", "Invalid call to function to_date, none of its type"),
        ("SELECT nope(k) FROM t", "Unknown function 'nope'"),
        (
            "SELECT map_keys(l) FROM t",
            "Function system.map_keys requires a map argument, but found argument l of type list<text>",
        ),
        (
            "SELECT collection_sum(l) FROM t",
            "Function system.collection_sum requires a numeric set/list argument, but found argument l of type list<text>",
        ),
        (
            "SELECT mask_inner(te, 1) FROM t",
            "Invalid number of arguments for function system.mask_inner([text|varchar|ascii], int, int, [text])",
        ),
        (
            "SELECT mask_null(null) FROM t",
            "Cannot infer type of argument NULL in call to function system.mask_null(any)",
        ),
    ] {
        let error = session.try_run(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    session.check("SELECT k FROM t WHERE token(k) >= token(0 + 1)", &["1"]);
}

#[test]
fn conditions_fail_only_if_they_are_reached() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, a int, l list<int>, m map<int, int>)",
        "INSERT INTO t (k, a, l) VALUES (1, 1, [1])",
    ]);
    session.check("UPDATE t SET a = 2 WHERE k = 1 IF a = 5 AND a > null", &["false|1"]);
    for condition in ["l < []", "l[-1] = 1"] {
        let answer = session.try_run(&format!("UPDATE t SET a = 2 WHERE k = 1 IF a = 5 AND {condition}"));
        assert!(answer.expect("a row")[0].starts_with("false|1|"), "{condition}");
    }
    session.refused(
        "UPDATE t SET a = 2 WHERE k = 1 IF a = 1 AND a > null",
        "Invalid comparison with null for operator \">\"",
    );
    session
        .refused("UPDATE t SET a = 2 WHERE k = 1 IF a = 1 AND l[-1] = 1", "Invalid negative list index -1");
}

#[test]
fn classes_of_types_that_do_not_exist_are_errors_of_syntax() {
    let session = Session::new();
    let error = "Error setting type FooType: Unable to find abstract-type class 'org.apache.cassandra.db.marshal.FooType'";
    session.refused("CREATE TABLE t (k int PRIMARY KEY, v 'FooType')", error);
}

#[test]
fn writes_of_a_conditional_batch_have_one_time() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, v) VALUES (1, 1, 1)",
    ]);
    let batch = "BEGIN BATCH DELETE FROM t USING TIMESTAMP 1 WHERE k = 1 AND c >= 0; \
                 INSERT INTO t (k, c) VALUES (1, 2) IF NOT EXISTS; APPLY BATCH";
    session.check(batch, &["true"]);
    session.check("SELECT c, v FROM t", &["2|"]);
}
