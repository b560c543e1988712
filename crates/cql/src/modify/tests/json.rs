//! INSERT JSON, with texts in the statement and with bound texts; `fromJson`.

use super::*;

const ROW: &str = r#"{"k": 1, "C": "2", "v": null, "w": "x\"y", "l": [2, 1], "e": ["b", "a"], "m": {"b": 1, "a": "2"},
    "u": {"number": 5}, "fu": {"street": "s", "number": null}, "s": 7}"#;

#[test]
fn one_text_gives_all_columns() {
    let expected = [
        "1/2: e={'a', 'b'} fu={street: 's', number: null} l=[2, 1] m={'a': 2, 'b': 1} u={street: null, number: 5} w='x\"y'",
        "1: s=7",
    ];
    let db = Db::new();
    db.all(&[&format!("INSERT INTO t JSON '{ROW}'")]);
    assert_eq!(db.dump("t"), expected);
    let db = Db::new();
    db.bound("INSERT INTO t JSON ?", &[Value::Bytes(ROW.as_bytes())]).expect("bound");
    assert_eq!(db.dump("t"), expected);
}

#[test]
fn what_is_not_named_becomes_null_or_stays() {
    for (text, bound) in [
        (r#"INSERT INTO t JSON '{"k": 1, "c": 2, "w": "new"}' DEFAULT UNSET"#, &[][..]),
        ("INSERT INTO t JSON ? DEFAULT UNSET", &[Value::Bytes(br#"{"k": 1, "c": 2, "w": "new"}"#)]),
    ] {
        let db = Db::new();
        db.all(&["INSERT INTO t (k, c, v, w, l, s) VALUES (1, 2, 3, 'old', [1], 4)"]);
        db.bound(text, bound).expect(text);
        assert_eq!(db.dump("t"), ["1/2: l=[1] v=3 w='new'", "1: s=4"], "{text}");
        db.bound(&text.replace(" DEFAULT UNSET", " DEFAULT NULL"), bound).expect(text);
        assert_eq!(db.dump("t"), ["1/2: w='new'"], "{text}");
    }
}

#[test]
fn texts_stand_in_batches_beside_other_values() {
    let db = Db::new();
    let bound = [
        Value::Bytes(br#"{"k": 1, "c": 1, "v": 10}"#),
        Value::Bytes(&[0, 0, 0, 20]),
        Value::Bytes(br#"{"k": 1, "c": 3, "v": 30}"#),
    ];
    let batch = "BEGIN BATCH INSERT INTO t JSON ?; INSERT INTO t (k, c, v) VALUES (1, 2, ?); INSERT INTO t JSON ?; APPLY BATCH";
    db.bound(batch, &bound).expect("a batch");
    assert_eq!(db.dump("t"), ["1/1: v=10", "1/2: v=20", "1/3: v=30"]);
    let plan = db.plan(batch).expect("a plan");
    let markers: Vec<&str> = plan.markers().iter().map(|marker| marker.name.as_str()).collect();
    assert_eq!(markers, ["[json]", "v", "[json]"]);
    assert_eq!(plan.partition_key_markers(), [], "clients cannot tell the partition");

    let first = db.plan("INSERT INTO t JSON ?").expect("a plan");
    let second = db.plan("INSERT INTO t (k, c, v) VALUES (?, 9, 9)").expect("a plan");
    let statements =
        [(&first, &bound[..1]), (&second, &[Value::Bytes(&[0, 0, 0, 1])][..]), (&first, &bound[2..])];
    let (kind, execution) = (syntax::BatchKind::Logged, db.execution());
    wait(execute_batch(kind, &statements, &db.coordinator, &execution, &mut vec![])).expect("a batch");
    assert_eq!(db.dump("t").len(), 4);
}

#[test]
fn conditions_and_times_are_as_elsewhere() {
    let db = Db::new();
    let insert = r#"INSERT INTO t JSON '{"k": 1, "c": 2, "v": 3}' IF NOT EXISTS USING TTL 10"#;
    assert_eq!(db.asked(insert), "true");
    assert!(db.asked(insert).starts_with("false,1,2"));
    assert_eq!(db.dump_at("t", NOW_S + 11), [""; 0]);
}

#[test]
fn what_is_wrong_with_a_text() {
    let db = Db::new();
    for (json, error) in [
        (r#"{"c": 1}"#, "Invalid null value in condition for column k"),
        (r#"{"k": 1}"#, "Invalid null value in condition for column c"),
        (r#"{"k": 1, "c": 1, "no": 1}"#, "JSON values map contains unrecognized column: no"),
        (r#"{"k": 1, "c": 1, "\"V\"": 1}"#, "JSON values map contains unrecognized column: V"),
        (
            r#"{"k": true, "c": 1}"#,
            "Error decoding JSON value for k: Expected an int value, but got a Boolean: true",
        ),
        (r#"{"k": 1, "c": 1, "l": [null]}"#, "Error decoding JSON value for l: Invalid null element in list"),
        ("null", "Got null for INSERT JSON values"),
    ] {
        assert_eq!(db.refusal(&format!("INSERT INTO t JSON '{json}'")), error);
        let refused = db.bound("INSERT INTO t JSON ?", &[Value::Bytes(json.as_bytes())]);
        assert_eq!(refused.expect_err(json), error);
    }
    assert!(db.refusal("INSERT INTO t JSON '{'").starts_with("Could not decode JSON string as a map: "));
    assert!(db.refusal("INSERT INTO t JSON '[1]'").starts_with("Could not decode JSON string as a map: "));
    let null = db.bound("INSERT INTO t JSON ?", &[Value::Null]);
    assert_eq!(null.expect_err("null"), "Got null for INSERT JSON values");
    assert_eq!(
        db.refusal(r#"INSERT INTO n JSON '{"k": 1}'"#),
        "INSERT statements are not allowed on counter tables, use UPDATE instead"
    );
}

#[test]
fn a_function_reads_a_value_of_the_type_that_is_wanted() {
    let db = Db::new();
    db.all(&["INSERT INTO t (k, c, l, m, v) VALUES (fromJson('1'), 2, fromJson('[1, 2]'), from_json('{\"a\": 1}'), fromJson('null'))"]);
    db.bound("UPDATE t SET u = fromJson(?) WHERE k = 1 AND c = 2", &[Value::Bytes(b"{\"number\": 3}")])
        .expect("bound");
    assert_eq!(db.dump("t"), ["1/2: l=[1, 2] m={'a': 1} u={street: null, number: 3}"]);
    assert_eq!(
        db.refusal("INSERT INTO t (k, c) VALUES (1, fromJson('true'))"),
        "org.apache.cassandra.serializers.MarshalException: Expected an int value, but got a Boolean: true"
    );
    db.all(&["INSERT INTO t (k, c, w) VALUES (2, 1, toJson([1, 2]))"]);
    assert_eq!(db.dump("t")[1], "2/1: w='[1, 2]'");
}
