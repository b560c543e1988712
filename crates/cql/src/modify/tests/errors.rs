//! Refused statements, with the error messages that clients expect.

use super::*;

#[track_caller]
fn refused(cases: &[(&str, &str)]) {
    let db = Db::new();
    for (text, error) in cases {
        assert_eq!(db.refusal(text), *error, "{text}");
    }
}

#[test]
fn keys_are_whole_and_not_null() {
    refused(&[
        ("INSERT INTO t (c, v) VALUES (1, 1)", "Some partition key parts are missing: k"),
        ("INSERT INTO p (v) VALUES (1)", "Some partition key parts are missing: k1, k2"),
        ("INSERT INTO t (k, v) VALUES (1, 1)", "Some clustering keys are missing: c"),
        ("INSERT INTO t (k) VALUES (1)", "Some clustering keys are missing: c"),
        ("INSERT INTO d (k, b, v) VALUES (1, 1, 1)", "Some clustering keys are missing: a"),
        ("INSERT INTO t (k, c) VALUES (null, 1)", "Invalid null value in condition for column k"),
        ("INSERT INTO t (k, c) VALUES (1, null)", "Invalid null value in condition for column c"),
        ("INSERT INTO x (k) VALUES ('')", "Key may not be empty"),
        ("UPDATE t SET v = 1 WHERE c = 1", "Some partition key parts are missing: k"),
        ("UPDATE t SET v = 1 WHERE k = 1", "Some clustering keys are missing: c"),
        ("UPDATE t SET v = 1, s = 1 WHERE k = 1", "Some clustering keys are missing: c"),
        ("UPDATE d SET v = 1 WHERE k = 1 AND a = 1", "Some clustering keys are missing: b"),
        ("DELETE FROM t WHERE c = 1", "Some partition key parts are missing: k"),
        (
            "UPDATE t SET v = 1 WHERE k > 1 AND c = 1",
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
             UPDATE statements",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c > 1",
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        ),
    ]);
    let db = Db::new();
    let long = vec![b'k'; 65_536];
    let refused = db.bound("INSERT INTO x (k) VALUES (?)", &[Value::Bytes(&long)]);
    assert_eq!(refused.expect_err("too long"), "Key length of 65536 is longer than maximum of 65535");
}

#[test]
fn columns_exist_and_stand_where_they_may() {
    refused(&[
        ("INSERT INTO t (k, c, no) VALUES (1, 1, 1)", "Undefined column name no in table ks.t"),
        ("UPDATE t SET no = 1 WHERE k = 1 AND c = 1", "Undefined column name no in table ks.t"),
        ("DELETE no FROM t WHERE k = 1", "Undefined column name no in table ks.t"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF no = 1", "Undefined column name no in table ks.t"),
        ("INSERT INTO t (k, c, v, v) VALUES (1, 1, 1, 1)", "The column names contains duplicates"),
        ("INSERT INTO t (k, c) VALUES (1)", "Unmatched column names/values"),
        ("UPDATE t SET k = 1 WHERE k = 1 AND c = 1", "PRIMARY KEY part k found in SET part"),
        (
            "DELETE c FROM t WHERE k = 1 AND c = 1",
            "Invalid identifier c for deletion (should not be a PRIMARY KEY part)",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF c = 1",
            "PRIMARY KEY column 'c' cannot have IF conditions",
        ),
        ("UPDATE t SET v = 1, v = 2 WHERE k = 1 AND c = 1", "Multiple incompatible setting of column v"),
        ("UPDATE t SET l = [1], l[0] = 2 WHERE k = 1 AND c = 1", "Multiple incompatible setting of column l"),
        (
            "UPDATE t SET s = 1 WHERE k = 1 AND c = 1",
            "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns",
        ),
        (
            "DELETE s FROM t WHERE k = 1 AND c = 1",
            "Invalid restrictions on clustering columns since the DELETE statement modifies only static columns",
        ),
        ("DELETE v FROM t WHERE k = 1", "Range deletions are not supported for specific columns"),
        ("DELETE v FROM t WHERE k = 1 AND c > 1", "Range deletions are not supported for specific columns"),
        ("INSERT INTO no (k) VALUES (1)", "table no does not exist"),
        ("INSERT INTO no.t (k) VALUES (1)", "keyspace no does not exist"),
    ]);
    let where_v = Db::new().refusal("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND v = 2");
    assert_eq!(where_v.trim_end(), "Non PRIMARY KEY columns found in where clause: v");
}

#[test]
fn operations_fit_their_columns() {
    let at = "WHERE k = 1 AND c = 1";
    let db = Db::new();
    for (set, error) in [
        ("v = v + 1", "Invalid operation (v = v + 1) for non counter column v"),
        ("v = v - 1", "Invalid operation (v = v - 1) for non counter column v"),
        ("v = 1 + v", "Invalid operation (v = 1 - v) for non list column v"),
        ("v[0] = 1", "Invalid operation (v[0] = 1) for non collection column v"),
        ("fl = fl + [1]", "Invalid operation (fl = fl + [1]) for frozen collection column fl"),
        ("fl[0] = 1", "Invalid operation (fl[0] = 1) for frozen collection column fl"),
        ("fl = [1] + fl", "Invalid operation (fl = [1] - fl) for frozen list column fl"),
        ("e['a'] = 1", "Invalid operation (e['a'] = 1) for set column e"),
        ("v.a = 1", "Invalid operation (v.a = 1) for non-UDT column v"),
        ("fu.number = 1", "Invalid operation (fu.number = 1) for frozen UDT column fu"),
        ("u.no = 1", "UDT column u does not have a field named no"),
        ("v = 'x'", "Invalid STRING constant (x) for \"v\" of type int"),
        ("m = m - {'a': 1}", "Value for a map substraction has to be a set, but was: '{'a': 1}'"),
    ] {
        assert_eq!(db.refusal(&format!("UPDATE t SET {set} {at}")), error);
    }
    for (target, error) in [
        ("v[0]", "Invalid deletion operation for non collection column v"),
        ("fl[0]", "Invalid deletion operation for frozen collection column fl"),
        ("v.a", "Invalid field deletion operation for non-UDT column v"),
        ("fu.number", "Frozen UDT column fu does not support field deletions"),
        ("u.no", "UDT column u does not have a field named no"),
    ] {
        assert_eq!(db.refusal(&format!("DELETE {target} FROM t {at}")), error);
    }
}

#[test]
fn conditions_are_on_one_row_without_a_timestamp() {
    const ALL: &str =
        "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to";
    refused(&[
        (
            "INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS USING TIMESTAMP 1",
            "Cannot provide custom timestamp for conditional updates",
        ),
        (
            "UPDATE t SET v = 1 WHERE k IN (1, 2) AND c = 1 IF v = 1",
            "IN on the partition key is not supported with conditional updates",
        ),
        (
            "DELETE FROM t WHERE k = 1 AND c IN (1, 2) IF EXISTS",
            "IN on the clustering key columns is not supported with conditional deletions",
        ),
        ("DELETE v FROM t WHERE k = 1 IF s = 1", &format!("{ALL} delete non static columns")),
        ("DELETE FROM t WHERE k = 1 IF v = 1", &format!("{ALL} delete non static columns")),
        ("DELETE FROM t WHERE k = 1 IF EXISTS", &format!("{ALL} delete non static columns")),
        ("DELETE FROM t WHERE k = 1 AND c > 1 IF s = 1", &format!("{ALL} delete non static columns")),
        ("DELETE s FROM t WHERE k = 1 IF v = 1", &format!("{ALL} use IF condition on non static columns")),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF l[-1] = 1", "Invalid negative list index -1"),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v CONTAINS 1",
            "Cannot use CONTAINS on non-collection column v",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF e CONTAINS KEY 'a'",
            "Cannot use CONTAINS KEY on non-map column e",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF m CONTAINS null",
            "Invalid comparison with null for operator \"CONTAINS\"",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v < null",
            "Invalid comparison with null for operator \"<\"",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF e['a'] = 'a'",
            "Invalid element access syntax for set column e",
        ),
        (
            "DELETE FROM t WHERE k = 1 IF s = 1",
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns",
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF m[null] = 1",
            "Invalid null value for map element access",
        ),
    ]);
}

#[test]
fn the_servers_own_tables_are_not_written() {
    let catalog = catalog::Catalog::empty().with_system_tables().with_virtual_tables();
    let parsed = parse("INSERT INTO system.local (key) VALUES ('x')").expect("a statement");
    let Statement::Insert(insert) = parsed.statement else { panic!("an insert") };
    let refused = prepare(&catalog, None, &Modification::Insert(*insert), 0);
    let text = "system keyspace is not user-modifiable.".to_string();
    assert_eq!(refused.expect_err("read only"), CqlError::Unauthorized(text));
}

#[test]
fn in_collections_nothing_is_bound() {
    let bound = "bind variables are not supported inside collection literals";
    for (text, what) in [
        ("INSERT INTO t (k, c, l) VALUES (1, 1, [?])", "list literal for l"),
        ("INSERT INTO t (k, c, e) VALUES (1, 1, {:a})", "set literal for e"),
        ("INSERT INTO t (k, c, m) VALUES (1, 1, {'a': ?})", "map literal for m"),
        ("INSERT INTO t (k, c, m) VALUES (1, 1, {?: 1})", "map literal for m"),
        ("INSERT INTO t (k, c, fl) VALUES (1, 1, [(int) ?])", "list literal for fl"),
        ("INSERT INTO t (k, c, l) VALUES (1, 1, [blobAsInt(?)])", "list literal for l"),
        ("UPDATE t SET l = l + [1, ?] WHERE k = 1 AND c = 1", "list literal for l"),
        ("UPDATE t SET l = [?] + l WHERE k = 1 AND c = 1", "list literal for l"),
        ("UPDATE t SET e -= {?} WHERE k = 1 AND c = 1", "set literal for e"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF fl = [?]", "list literal for fl"),
    ] {
        refused(&[(text, &format!("Invalid {what}: {bound}"))]);
    }
    refused(&[
        (
            "UPDATE t SET m = m + {?: 1} WHERE k = 1 AND c = 1",
            "Value for a map addition has to be a map, but was: '{?: 1}'",
        ),
        (
            "UPDATE t SET m -= {?} WHERE k = 1 AND c = 1",
            "Value for a map substraction has to be a set, but was: '{?}'",
        ),
        // A value of the wrong type is reported before a bind marker in a literal.
        (
            "INSERT INTO t (k, c, l) VALUES (1, 1, [?, 'x'])",
            "Invalid list literal for l: value 'x' is not of type int",
        ),
    ]);
    let db = Db::new();
    let text = "UPDATE t SET u = {street: ?, number: ?}, m[?] = ? WHERE k = ? AND c = 1";
    let (number, value, k) = (int(5), int(6), int(1));
    let values = [&b"road"[..], &number, b"key", &value, &k].map(Value::Bytes);
    db.bound(text, &values).expect("fields, keys and values are bound");
}
