//! The order of Cassandra's checks, and the words of its errors.

use super::*;

#[test]
fn the_checks_of_an_execution_are_in_cassandras_order() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k text, c int, v int, s int STATIC, PRIMARY KEY (k, c))",
        "CREATE TABLE n (k int PRIMARY KEY, n counter)",
        "CREATE MATERIALIZED VIEW w AS SELECT k, c FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        "INSERT INTO t (k, c, v) VALUES ('a', 1, 1)",
    ]);
    for (text, expected) in [
        // The key, the rows, then the TTL.
        (
            "INSERT INTO t (k, c) VALUES (null, 1) USING TTL -1",
            "Invalid null value in condition for column k",
        ),
        ("INSERT INTO t (k, c) VALUES ('', 1) USING TTL -1", "Key may not be empty"),
        (
            "INSERT INTO t (k, c) VALUES ('a', null) USING TTL -1",
            "Invalid null value in condition for column c",
        ),
        (
            "INSERT INTO t (k, c) VALUES ('a', 1) USING TTL -1",
            "A TTL must be greater or equal to 0, but was -1",
        ),
        // The keys of all statements of a batch come first.
        (
            "BEGIN BATCH INSERT INTO t (k, c) VALUES ('a', 1) USING TTL -1; INSERT INTO t (k, c) VALUES ('', 1); APPLY BATCH",
            "Key may not be empty",
        ),
        ("DELETE FROM t WHERE k = '' AND c > 5 AND c < 2", "Key may not be empty"),
        ("SELECT * FROM t WHERE k = '' AND c > 5", "Key may not be empty"),
        ("SELECT * FROM t WHERE k IN ('', 'a')", "Key may not be empty"),
        // A constant is checked before the rule that it breaks.
        ("UPDATE n SET n = null WHERE k = 1", "Invalid null value for counter increment/decrement"),
        ("UPDATE n SET n = n + null WHERE k = null", "Invalid null value for counter increment/decrement"),
        ("UPDATE n SET n = 'a' WHERE k = 1", "Invalid STRING constant (a) for \"n\" of type counter"),
        ("UPDATE n SET n = 1 WHERE k = 1", "Cannot set the value of counter column n"),
        ("INSERT INTO w (k, c) VALUES ('a', 'b')", "Invalid STRING constant (b) for \"c\" of type int"),
        ("INSERT INTO w (k) VALUES ('a')", "Some partition key parts are missing: c"),
        ("INSERT INTO w (k, c) VALUES ('a', 1)", "Cannot directly modify a materialized view"),
        (
            "BEGIN BATCH INSERT INTO w (k, c) VALUES ('a', 1); APPLY BATCH",
            "Cannot directly modify a materialized view",
        ),
        // A null in parentheses is a null of the tuple.
        ("SELECT * FROM t WHERE k = 'a' AND (c) > (null)", "Invalid null value in condition for column c"),
        ("SELECT * FROM t WHERE k = 'a' AND (c) = (null)", "Invalid null value for column c"),
        (
            "SELECT * FROM t WHERE k = 'a' AND (c) IN ((null), (1))",
            "Invalid null value in condition for columns: [c]",
        ),
        ("SELECT * FROM t WHERE v != token(1)", "Unsupported \"!=\" relation: v != token(1)"),
        (
            "DELETE s FROM t WHERE k = 'a' AND c = 1 AND v = 2",
            "Invalid restrictions on clustering columns since",
        ),
        (
            "SELECT * FROM t WHERE token(k, c) > 0",
            "The token() function must contains only partition key components",
        ),
    ] {
        session.refused(text, expected);
    }
    // Restrictions that select nothing, and conditions that do not hold, come before what is wrong.
    for text in [
        "SELECT * FROM t WHERE k = '' AND c > 5 AND c < 2",
        "SELECT * FROM t WHERE k = '' AND c IN ()",
        "UPDATE t USING TTL -1 SET v = 1 WHERE k = 'a' AND c IN ()",
        "UPDATE t SET s = 1, v = 1 WHERE k = 'a' AND c IN ()",
    ] {
        session.check(text, &[]);
    }
    session.check("UPDATE t USING TTL -1 SET v = 2 WHERE k = 'a' AND c = 1 IF v = 5", &["false|1"]);
    session.refused("UPDATE t USING TTL -1 SET v = 2 WHERE k = 'a' AND c = 1 IF v = 1", "A TTL must be");
    session.check("SELECT v, s FROM t", &["1|"]);
}

#[test]
fn a_failed_condition_on_static_columns_shows_the_first_visible_row() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, s int STATIC, r int STATIC, v int, PRIMARY KEY (k, c))",
        "UPDATE t SET v = 1 WHERE k = 1 AND c = 1",
        "INSERT INTO t (k, c, s) VALUES (1, 2, 7)",
    ]);
    // The first row has no row liveness, and the statement reads no regular column.
    session.check("INSERT INTO t (k, s) VALUES (1, 1) IF NOT EXISTS", &["false|1|2||7|"]);
    session.check("UPDATE t SET s = 1 WHERE k = 1 IF r = 5", &["false|"]);
    session.check("UPDATE t SET v = 1 WHERE k = 1 AND c = 9 IF r = 5", &["false|"]);
    session.check("UPDATE t SET v = 1 WHERE k = 2 AND c = 9 IF r = 5", &["false"]);
    // Static columns that only an unconditional statement of the batch writes are not read.
    session.check(
        "BEGIN BATCH UPDATE t SET s = 5 WHERE k = 1; UPDATE t SET v = 1 WHERE k = 1 AND c = 9 IF EXISTS; APPLY BATCH",
        &["false"],
    );
}

#[test]
fn bound_values_that_cannot_be_read_are_refused() {
    let session = Session::new();
    session.all(&[
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int, c int, v int, l list<int>, s set<int>, m map<text, int>, e vector<float, 2>, \
         f frozen<u>, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, v) VALUES (1, 1, 1)",
    ]);
    let list = |elements: &[Option<&[u8]>], more: &[u8]| {
        let mut out = (elements.len() as i32).to_be_bytes().to_vec();
        for element in elements {
            out.extend(element.map_or(-1, |bytes| bytes.len() as i32).to_be_bytes());
            out.extend(element.unwrap_or_default());
        }
        [&out[..], more].concat()
    };
    let one = 1i32.to_be_bytes();
    let (short, negative) = (vec![0u8], (-1i32).to_be_bytes().to_vec());
    let (null, extra, bad) =
        (list(&[None], &[]), list(&[Some(&one[..])], &[0]), list(&[Some(&[0][..])], &[]));
    let refused = |text: &str, bytes: &[u8], expected: &str| {
        assert_eq!(session.bound(text, &[Value::Bytes(bytes)]), Err(expected.to_string()), "{text}");
    };
    for text in ["SELECT v FROM t WHERE k IN ?", "UPDATE t SET v = 2 WHERE k = 1 AND c = 1 IF v IN ?"] {
        refused(text, &short, "Not enough bytes to read a list");
        refused(text, &negative, "The data cannot be deserialized as a list");
        refused(text, &extra, "Unexpected extraneous bytes after list value");
        refused(text, &bad, "Expected 4 or 0 byte int (1)");
    }
    refused("SELECT v FROM t WHERE k IN ?", &null, "Invalid null value in condition for column k");
    refused(
        "SELECT v FROM t WHERE k = 1 AND (c) IN ?",
        &null,
        "Invalid null value in condition for columns: [c]",
    );
    let nothing = session.bound("SELECT k FROM t WHERE v IN ? ALLOW FILTERING", &[Value::Bytes(&null)]);
    assert_eq!(nothing, Ok(vec![]), "null equals nothing");
    for (column, kind) in [("l", "list"), ("s", "set"), ("m", "map")] {
        let text = format!("INSERT INTO t (k, c, {column}) VALUES (1, 1, ?)");
        refused(&text, &[], &format!("Not enough bytes to read a {kind}"));
        refused(&text, &negative, &format!("The data cannot be deserialized as a {kind}"));
    }
    refused("INSERT INTO t (k, c, e) VALUES (1, 1, ?)", &one, "Not enough bytes to read a vector<float, 2>");
    // The second element has no bytes: an element of a vector is never empty.
    refused("INSERT INTO t (k, c, e) VALUES (1, 1, [1, ?])", &[], "null is not supported inside vectors");
    let long = [list(&[], &[]), one.to_vec(), vec![0]].concat();
    refused(
        "INSERT INTO t (k, c, f) VALUES (1, 1, ?)",
        &[&4i32.to_be_bytes()[..], &one[..], &long[..]].concat(),
        "Invalid remaining data after end of UDT value",
    );
    session.all(&["INSERT INTO t (k, c, f) VALUES (1, 1, {a: 5})"]);
    session.check("SELECT k FROM t WHERE f = {a: 5} ALLOW FILTERING", &["1"]);
}

#[test]
fn a_user_type_may_be_written_as_a_tuple() {
    let session = Session::new();
    session.all(&[
        "CREATE TYPE u (a int, b text)",
        "CREATE TABLE t (k frozen<u>, c frozen<u>, v frozen<u>, PRIMARY KEY (k, c))",
        "INSERT INTO t (k, c, v) VALUES ({a: 1, b: 'a'}, {a: 2, b: 'b'}, {a: 3, b: 'c'})",
    ]);
    for relations in [
        "k = (1, 'a')",
        "k IN ((1, 'a'), (2, 'b'))",
        "k = (1, 'a') AND c IN ({a: 2, b: 'b'}, (3, 'c'))",
        "v = (3, 'c') ALLOW FILTERING",
        "v IN ((1, 'a'), (3, 'c')) ALLOW FILTERING",
    ] {
        session.check(&format!("SELECT count(*) FROM t WHERE {relations}"), &["1"]);
    }
    session.check("UPDATE t SET v = {a: 4} WHERE k = (1, 'a') AND c = (2, 'b') IF v = (3, 'c')", &["true"]);
    session
        .refused("SELECT k FROM t WHERE k = (1, 'a', 2)", "Invalid tuple literal for k: too many elements");
    session.refused("SELECT k FROM t WHERE k = ('a', 'b')", "component 0 is not of type int");
}

#[test]
fn constants_are_refused_in_cassandras_words() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int PRIMARY KEY, b blob, d duration, t timestamp)"]);
    for (text, expected) in [
        ("INSERT INTO t (k, b) VALUES (1, 0xABC)", "cannot parse 'ABC' as hex bytes"),
        ("INSERT INTO t (k, d) VALUES (1, 1d2y)", "Invalid duration. The days should be after years"),
        ("INSERT INTO t (k, d) VALUES (1, 1h1h)", "Invalid duration. The hours are specified multiple times"),
        ("INSERT INTO t (k, t) VALUES (1, '2013-9-22')", "Unable to parse a date/time from '2013-9-22'"),
        ("SELECT (int) 'a' FROM t", "Cannot assign value (int)'a' to (int)'a' of type int"),
    ] {
        session.refused(text, expected);
    }
    // An example of Cassandra's documentation.
    session.all(&["INSERT INTO t (k, t) VALUES (1, '2013-9-22 12:01')"]);
    session.check("SELECT k FROM t WHERE t = '2013-09-22T12:01Z' ALLOW FILTERING", &["1"]);
}

#[test]
fn a_hint_does_not_change_what_a_constant_becomes() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int PRIMARY KEY, b blob, v varint)"]);
    session.refused(
        "INSERT INTO t (k, b) VALUES (1, (int) 1)",
        "Invalid INTEGER constant (1) for \"b\" of type blob",
    );
    session.all(&["INSERT INTO t (k, v) VALUES (1, (int) 1)"]);
    session.check("SELECT k FROM t WHERE v = 1 ALLOW FILTERING", &["1"]);
}

#[test]
fn a_token_range_that_wraps_around_keeps_keys_outside() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int PRIMARY KEY)", "INSERT INTO t (k) VALUES (1)"]);
    let (low, high) = (i64::MIN + 5, i64::MAX - 5);
    session.check(&format!("SELECT k FROM t WHERE token(k) > {high} AND token(k) < {low} AND k = 1"), &[]);
    session.check(&format!("SELECT k FROM t WHERE token(k) > {high} AND token(k) < 0 AND k = 1"), &["1"]);
    session.check(&format!("SELECT k FROM t WHERE token(k) > {high} AND token(k) < 0"), &[]);
}

#[test]
fn details_of_selections_and_batches() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, j int, f frozen<set<int>>, m frozen<map<text, int>>, d double, v int, PRIMARY KEY ((k, j)))",
        "INSERT INTO t (k, j, f, m, d) VALUES (1, 1, {5}, {'a': 1}, NaN) USING TIMESTAMP 7",
    ]);
    // An element that a frozen collection does not have has no time.
    session.check(
        "SELECT writetime(f[5]), writetime(f[6]), maxwritetime(m['a']), maxwritetime(m['b']), ttl(f[6]) FROM t",
        &["7||7||"],
    );
    session.check("SELECT CAST(d AS varint) FROM t", &["0"]);
    for (text, expected) in [
        (
            "BEGIN BATCH UPDATE t SET v = 1 WHERE k = 1 AND j = 1 IF v = 1; UPDATE t SET v = 2 WHERE k = 1 AND j = 1 IF EXISTS; APPLY BATCH",
            "Cannot mix IF conditions and IF EXISTS for the same row",
        ),
        (
            "BEGIN BATCH UPDATE t SET v = 2 WHERE k = 1 AND j = 1 IF EXISTS; UPDATE t SET v = 1 WHERE k = 1 AND j = 1 IF v = 1; APPLY BATCH",
            "Cannot mix IF conditions and IF NOT EXISTS for the same row",
        ),
    ] {
        session.refused(text, expected);
    }
}

#[test]
fn values_of_tuples_are_checked_before_their_number() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, v tuple<frozen<list<text>>>, d duration, m map<text, int>)",
    ]);
    session.refused(
        "UPDATE t SET v = (-1, false) WHERE k = 1",
        "Invalid tuple literal for v: component 0 is not of type frozen<list<text>>",
    );
    session.refused(
        "UPDATE t SET v = ([], false) WHERE k = 1",
        "Invalid tuple literal for v: too many elements",
    );
    session.refused("UPDATE t SET d = -1 WHERE k = 1", "Unable to convert '1' to a duration");
    session.refused("UPDATE t SET m = m - 'it''s' WHERE k = 1", "has to be a set, but was: ''it's''");
    // Conditions are checked before assignments.
    let slices = "Slice conditions ( > ) are not supported on durations";
    session.refused("UPDATE t SET nope = 1 WHERE k = 1 IF d > 1h", slices);
    session.refused("DELETE nope FROM t WHERE k = 1 IF d > 1h", slices);
}

#[test]
fn a_condition_on_a_static_column_is_on_the_static_row() {
    let session = Session::new();
    session.all(&["CREATE TABLE t (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))"]);
    let batch = |first: &str, second: &str| {
        format!(
            "BEGIN BATCH UPDATE t SET s = 1 WHERE k = 1 IF {first}; \
             UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF {second}; APPLY BATCH"
        )
    };
    let mixed = "Cannot mix IF conditions and IF NOT EXISTS for the same row";
    session.refused(&batch("EXISTS", "v = 2 AND s = 3"), mixed);
    session.refused(&batch("EXISTS", "s = 3"), mixed);
    session.check(&batch("EXISTS", "v = 2"), &["false"]);
    session.check(&batch("s = 3", "v = 2 AND s = 3"), &["false"]);
}

#[test]
fn a_refused_condition_on_a_static_column_shows_the_partition_beside_operations_on_lists() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int, c int, s int STATIC, l list<int>, PRIMARY KEY (k, c))",
        "CREATE TABLE b (k int PRIMARY KEY, v int)",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM b WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)",
    ]);
    let update = "UPDATE t SET l = l - [1] WHERE k = 1 AND c = 5 IF s = 7";
    session.check(update, &["false"]);
    session.all(&["INSERT INTO t (k, c, l) VALUES (1, 1, [1])"]);
    session.check(update, &["false|"]);
    session.all(&["UPDATE t SET s = 8 WHERE k = 1"]);
    session.check(update, &["false|8"]);
    session.all(&["DELETE FROM t WHERE k = 1 AND c = 1"]);
    session.check(update, &["false|8"]);
    session.refused(
        "INSERT INTO w JSON '{\"v\": 1}' DEFAULT UNSET",
        "Cannot directly modify a materialized view",
    );
}

#[test]
fn a_blob_constant_is_the_byte_of_a_tinyint() {
    let session = Session::new();
    session.all(&[
        "CREATE TABLE t (k int PRIMARY KEY, v tinyint, w smallint)",
        "INSERT INTO t (k, v) VALUES (1, 0xff)",
    ]);
    session.check("SELECT v FROM t WHERE v = -1 ALLOW FILTERING", &["-1"]);
    session.check("SELECT v FROM t WHERE v = 0xFF ALLOW FILTERING", &["-1"]);
    let refused = |text: &str, ty: &str| session.refused(text, &format!("for \"{ty}\" of type"));
    refused("INSERT INTO t (k, v) VALUES (1, 0xffff)", "v");
    refused("INSERT INTO t (k, v) VALUES (1, 0x)", "v");
    refused("INSERT INTO t (k, w) VALUES (1, 0xffff)", "w");
}
