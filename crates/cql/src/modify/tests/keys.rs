//! Partitions and rows that statements write and delete.

use super::*;

#[test]
fn rows_are_written_by_their_whole_key() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, v, w) VALUES (1, 2, 3, 'x')",
        "INSERT INTO t (k, c) VALUES (1, 3)",
        "UPDATE t SET v = 4 WHERE k = 1 AND c = 5",
        "INSERT INTO t (k, s) VALUES (2, 9)",
        "UPDATE t SET s = 8 WHERE k = 3",
        "INSERT INTO p (k1, k2, v) VALUES ('a', 7, 1)",
    ]);
    assert_eq!(db.dump("t"), ["1/2: v=3 w='x'", "1/3:", "1/5: v=4", "2: s=9", "3: s=8"]);
    assert_eq!(db.dump("p"), ["'a',7: v=1"]);
}

#[test]
fn a_row_that_was_inserted_stays_without_values_and_one_that_was_updated_does_not() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, v) VALUES (1, 1, 1)",
        "UPDATE t SET v = 1 WHERE k = 1 AND c = 2",
        "UPDATE t SET v = null WHERE k = 1 AND c IN (1, 2)",
    ]);
    assert_eq!(db.dump("t"), ["1/1:"]);
}

#[test]
fn in_names_every_combination_once() {
    let db = Db::new();
    db.all(&[
        "UPDATE d SET v = 1 WHERE k IN (1, 2, 1) AND a IN (3, 4) AND b = 5",
        "UPDATE d SET v = 2 WHERE k = 3 AND (a, b) IN ((1, 2), (3, 4))",
    ]);
    assert_eq!(
        db.dump("d"),
        ["1/3/5: v=1", "1/4/5: v=1", "2/3/5: v=1", "2/4/5: v=1", "3/1/2: v=2", "3/3/4: v=2"]
    );
    db.all(&["UPDATE d SET v = 1 WHERE k IN () AND a = 1 AND b = 1"]);
    let list = [&[0, 0, 0, 2][..], &[0, 0, 0, 4], &int(8), &[0, 0, 0, 4], &int(9)].concat();
    db.bound("UPDATE d SET v = 7 WHERE k IN ? AND a = 1 AND b = 1", &[Value::Bytes(&list)]).expect("a list");
    assert_eq!(db.dump("d")[6..], ["8/1/1: v=7", "9/1/1: v=7"]);
}

fn filled() -> Db {
    let db = Db::new();
    for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
        db.all(&[&format!("INSERT INTO d (k, a, b, v) VALUES (0, {a}, {b}, 1)")]);
    }
    db
}

#[test]
fn ranges_of_rows_are_deleted_by_value_whatever_the_order() {
    let rows = |text: &str| {
        let db = filled();
        db.coordinator.set_now_us(NOW_US + 1_000_000);
        db.all(&[text]);
        db.dump("d").iter().map(|row| row[2..5].replace('/', "")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rows("DELETE FROM d WHERE k = 0"), "");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a = 1"), "00 01 02 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a > 0"), "00 01 02");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a >= 1 AND a < 2"), "00 01 02 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a = 1 AND b > 0"), "00 01 02 10 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a = 1 AND b <= 1"), "00 01 02 12 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a IN (0, 2)"), "10 11 12");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a = 1 AND b = 1"), "00 01 02 10 12 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND (a, b) > (1, 1)"), "00 01 02 10 11");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND (a, b) <= (1, 0)"), "11 12 20 21 22");
    assert_eq!(rows("DELETE FROM d WHERE k = 0 AND a > 2 AND a < 1"), "00 01 02 10 11 12 20 21 22");
}

#[test]
fn columns_are_deleted_and_rows_without_a_clustering_column_with_their_partition() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, s, v, w) VALUES (1, 1, 7, 1, 'x')",
        "INSERT INTO p (k1, k2, v) VALUES ('a', 1, 1)",
        "INSERT INTO p (k1, k2, v) VALUES ('a', 2, 1)",
    ]);
    db.coordinator.set_now_us(NOW_US + 1);
    db.all(&[
        "DELETE v, v FROM t WHERE k = 1 AND c = 1",
        "DELETE s FROM t WHERE k = 1",
        "DELETE FROM p WHERE k1 = 'a' AND k2 = 2",
        "DELETE v FROM p WHERE k1 = 'a' AND k2 = 1",
    ]);
    assert_eq!(db.dump("t"), ["1/1: w='x'"]);
    assert_eq!(db.dump("p"), ["'a',1:"]);
}

#[test]
fn unset_values_leave_what_is_there() {
    let db = Db::new();
    db.all(&["INSERT INTO t (k, c, v, w) VALUES (1, 1, 5, 'x')"]);
    let (one, two) = (int(1), int(2));
    let insert = "INSERT INTO t (k, c, v, w) VALUES (?, ?, ?, ?)";
    let key = [Value::Bytes(&one), Value::Bytes(&one)];
    db.coordinator.set_now_us(NOW_US + 1);
    db.bound(insert, &[key[0], key[1], Value::Unset, Value::Null]).expect("a row");
    assert_eq!(db.dump("t"), ["1/1: v=5"]);
    let update = "UPDATE t SET v = ?, m = ?, e = e + ?, l[0] = ? WHERE k = ? AND c = ?";
    let unset = [Value::Unset; 4];
    db.bound(update, &[&unset[..], &[Value::Bytes(&two), Value::Bytes(&two)]].concat()).expect("nothing");
    assert_eq!(db.coordinator.table(db.schema("t").id).partitions().len(), 1, "nothing was written");
    let refused = db.bound(insert, &[Value::Unset, key[1], Value::Unset, Value::Null]);
    assert_eq!(refused.expect_err("no key"), "Invalid unset value for column k");
}

#[test]
fn prepared_metadata_names_the_markers_of_the_partition_key() {
    let db = Db::new();
    let plan = db.plan("INSERT INTO p (v, k2, k1) VALUES (?, ?, :name)").expect("a plan");
    assert_eq!(plan.partition_key_markers(), [2, 1]);
    let names: Vec<_> = plan.markers().iter().map(|spec| (spec.name.as_str(), &spec.column_type)).collect();
    assert_eq!(names, [("v", &CqlType::Int), ("k2", &CqlType::Int), ("name", &CqlType::Text)]);
    let plan = db.plan("UPDATE p USING TTL ? SET v = ? WHERE k1 = ? AND k2 = 1").expect("a plan");
    assert_eq!((plan.partition_key_markers(), plan.markers()[0].name.as_str()), (&[][..], "[ttl]"));
    let plan =
        db.plan("UPDATE t SET m[?] = ?, l[?] = ?, u.number = ? WHERE k = ? AND c IN ?").expect("a plan");
    let names: Vec<_> = plan.markers().iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["key(m)", "value(m)", "idx(l)", "value(l)", "u.number", "k", "in(c)"]);
    assert_eq!(plan.partition_key_markers(), [5]);
    assert!(!plan.is_conditional() && !plan.is_counter() && !plan.is_batch());
}
