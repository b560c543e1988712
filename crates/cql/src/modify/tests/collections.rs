//! Lists, sets, maps and user types: complete values and single elements.

use super::*;

#[test]
fn whole_collections_replace_what_was_there_and_additions_do_not() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, l, e, m, u) VALUES (1, 1, [1, 2], {'b', 'a'}, {'x': 1}, {street: 's', number: 1})",
        "UPDATE t SET l = l + [3], l = [0] + l, e = e + {'c'}, m = m + {'y': 2}, u.number = 2 WHERE k = 1 AND c = 1",
    ]);
    assert_eq!(
        db.dump("t"),
        ["1/1: e={'a', 'b', 'c'} l=[0, 1, 2, 3] m={'x': 1, 'y': 2} u={street: 's', number: 2}"]
    );
    db.all(&["UPDATE t SET l = [9], e = {'z'}, m = {}, u = {street: 'q'} WHERE k = 1 AND c = 1"]);
    assert_eq!(db.dump("t"), ["1/1: e={'z'} l=[9] u={street: 'q', number: null}"]);
    db.all(&["UPDATE t SET l = null, e = {}, u = null WHERE k = 1 AND c = 1"]);
    assert_eq!(db.dump("t"), ["1/1:"]);
}

#[test]
fn a_collection_written_twice_at_one_time_has_what_both_wrote() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, e) VALUES (1, 1, {'a'}) USING TIMESTAMP 5",
        "INSERT INTO t (k, c, e) VALUES (1, 1, {'b'}) USING TIMESTAMP 5",
    ]);
    assert_eq!(db.dump("t"), ["1/1: e={'a', 'b'}"], "the deletion is one microsecond older than the cells");
}

#[test]
fn elements_are_set_and_removed_one_by_one() {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, l, e, m) VALUES (1, 1, [1, 2, 3, 2], {'a', 'b'}, {'x': 1, 'y': 2, 'z': 3})",
        "UPDATE t SET l[0] = 9, m['x'] = 7, m['y'] = null WHERE k = 1 AND c = 1",
        "UPDATE t SET l = l - [2], e = e - {'a'}, m = m - {'z'} WHERE k = 1 AND c = 1",
    ]);
    assert_eq!(db.dump("t"), ["1/1: e={'b'} l=[9, 3] m={'x': 7}"]);
    db.all(&["UPDATE t SET u = {street: 's', number: 1} WHERE k = 1 AND c = 1"]);
    db.all(&["DELETE l[1], m['x'], e['b'], u.street FROM t WHERE k = 1 AND c = 1"]);
    assert_eq!(db.dump("t"), ["1/1: l=[9] u={street: null, number: 1}"]);
    db.all(&["UPDATE t SET sl = [1, 2] WHERE k = 1", "UPDATE t SET sl[1] = 5 WHERE k = 1"]);
    assert_eq!(db.dump("t")[1], "1: sl=[1, 5]");
}

#[test]
fn lists_keep_the_order_in_which_they_grew() {
    let db = Db::new();
    for step in 0..40 {
        db.coordinator.set_now_us(NOW_US + step * 1000);
        let (front, back) = (-2 * step, 2 * step);
        db.all(&[&format!(
            "UPDATE t SET l = [{}, {front}] + l, l = l + [{back}, {}] WHERE k = 1 AND c = 1",
            front - 1,
            back + 1
        )]);
    }
    let schema = db.schema("t");
    let row = db.only_row("t");
    let column = schema.column_named("l").expect("a list");
    let bytes = existing::value(column, Some(&row)).expect("elements");
    let text = column.ty.text_of(&bytes);
    let front = (-79..=0).map(|i| i.to_string());
    let expected = front.chain((0..80).map(|i| i.to_string())).collect::<Vec<_>>().join(", ");
    assert_eq!(text, format!("[{expected}]"));
}

#[test]
fn elements_that_are_not_there_are_errors_and_values_that_are_not_there_are_none() {
    let db = Db::new();
    let at = "WHERE k = 1 AND c = 1";
    assert_eq!(
        db.refusal(&format!("UPDATE t SET l[0] = 1 {at}")),
        "Attempted to set an element on a list which is null"
    );
    assert_eq!(
        db.refusal(&format!("DELETE l[0] FROM t {at}")),
        "Attempted to delete an element from a list which is null"
    );
    db.all(&[&format!("UPDATE t SET l = l - [5] {at}"), &format!("UPDATE t SET l = [1] {at}")]);
    assert_eq!(
        db.refusal(&format!("UPDATE t SET l[1] = 1 {at}")),
        "List index 1 out of bound, list has size 1"
    );
    assert_eq!(
        db.refusal(&format!("DELETE l[-1] FROM t {at}")),
        "List index -1 out of bound, list has size 1"
    );
    db.all(&[
        &format!("UPDATE t SET l = l - [5], m = m - {{'no'}} {at}"),
        &format!("DELETE e['no'] FROM t {at}"),
    ]);
    assert_eq!(db.dump("t"), ["1/1: l=[1]"]);
}

#[test]
fn bound_collections_need_not_be_sorted_and_of_equal_keys_the_last_stays() {
    let db = Db::new();
    let element = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let set = [&int(3)[..], &element(b"b"), &element(b"a"), &element(b"b")].concat();
    let entry = |key: &[u8], value: i32| [element(key), element(&int(value))].concat();
    let map = [&int(3)[..], &entry(b"y", 1), &entry(b"x", 2), &entry(b"y", 3)].concat();
    let values = [Value::Bytes(&set), Value::Bytes(&map), Value::Bytes(&[])];
    db.bound("INSERT INTO t (k, c, e, m, fu) VALUES (1, 1, ?, ?, ?)", &values).expect("a row");
    let lines = db.dump("t");
    assert!(lines[0].starts_with("1/1: e={'a', 'b'} "), "{lines:?}");
    assert!(lines[0].contains(" m={'x': 2, 'y': 3}"), "{lines:?}");
}

#[test]
fn keys_of_elements_are_not_null() {
    let db = Db::new();
    let refused = db.bound("UPDATE t SET m[?] = 1 WHERE k = 1 AND c = 1", &[Value::Null]);
    assert_eq!(refused.expect_err("null"), "Invalid null map key");
    let null_inside = [&int(1)[..], &int(-1)].concat();
    let refused = db.bound("UPDATE t SET l = l + ? WHERE k = 1 AND c = 1", &[Value::Bytes(&null_inside)]);
    assert!(refused.is_err());
}
