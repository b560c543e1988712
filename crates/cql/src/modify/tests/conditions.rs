//! IF: whether conditions hold, the rows returned, and the data written.

use super::*;

fn with_row() -> Db {
    let db = Db::new();
    db.all(&[
        "INSERT INTO t (k, c, v, w, l, e, m, u, fl) VALUES (1, 1, 5, 'x', [1, 2], {'a', 'b'}, {'p': 1}, \
         {street: 's', number: 3}, [7])",
        "INSERT INTO t (k, s) VALUES (1, 9)",
    ]);
    db
}

#[test]
fn inserts_if_not_exists_happen_once() {
    let db = Db::new();
    let insert = |v: i32| format!("INSERT INTO p (k1, k2, v) VALUES ('long', 1, {v}) IF NOT EXISTS");
    assert_eq!(db.asked(&insert(5)), "true");
    assert_eq!(db.asked(&insert(6)), "false,long,1,5".replace("long", &int_text(b"long")));
    assert_eq!(db.dump("p"), ["'long',1: v=5"]);
}

/// In these tests, values of four bytes are printed as int, even if they are text.
fn int_text(bytes: &[u8; 4]) -> String {
    i32::from_be_bytes(*bytes).to_string()
}

#[test]
fn if_exists_sees_rows_and_not_the_static_row() {
    let db = Db::new();
    db.all(&["INSERT INTO t (k, s) VALUES (1, 9)"]);
    let update = "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF EXISTS";
    // No row exists, and the statement does not read static columns. Cassandra 5.0 gives the same answer.
    assert_eq!(db.asked(update), "false");
    db.all(&["INSERT INTO t (k, c) VALUES (1, 1)"]);
    assert_eq!(db.asked(update), "true");
    assert_eq!(db.asked("DELETE FROM t WHERE k = 1 AND c = 1 IF EXISTS"), "true");
    assert_eq!(db.asked("DELETE FROM t WHERE k = 2 AND c = 1 IF EXISTS"), "false");
    assert_eq!(db.asked("UPDATE t SET s = 1 WHERE k = 1 IF EXISTS"), "true");
    assert_eq!(db.asked("INSERT INTO t (k, s) VALUES (3, 1) IF NOT EXISTS"), "true");
    assert!(db.asked("INSERT INTO t (k, s) VALUES (3, 2) IF NOT EXISTS").starts_with("false,3,-,1,"));
    assert_eq!(db.dump("t"), ["1: s=1", "3: s=1"]);
}

#[test]
fn like_is_asked_of_texts() {
    let db = with_row();
    let update = |condition: &str| format!("UPDATE t SET v = 5 WHERE k = 1 AND c = 1 IF w LIKE {condition}");
    assert_eq!(db.asked(&update("'_%'")), "true");
    assert!(db.asked(&update("'y%'")).starts_with("false,"));
    assert_eq!(db.refusal(&update("null")), "Invalid comparison with null for operator \"LIKE\"");
    let of_number = "UPDATE t SET v = 5 WHERE k = 1 AND c = 1 IF v LIKE ?";
    assert_eq!(db.refusal(of_number), "LIKE is allowed only on string types, which v is not");
    assert_eq!(
        db.refusal("UPDATE t SET v = 5 WHERE k = 1 AND c = 1 IF u.no = 3"),
        "Unknown field no for column u"
    );
}

#[test]
fn what_a_conditional_batch_writes_goes_with_its_row_or_collection() {
    for (delete, write) in [
        ("DELETE FROM t WHERE k = 1 AND c = 1", "INSERT INTO t (k, c, v) VALUES (1, 1, 6)"),
        ("DELETE e FROM t WHERE k = 1 AND c = 1", "UPDATE t SET e = e + {'x'} WHERE k = 1 AND c = 1"),
    ] {
        for (first, second) in [(delete, write), (write, delete)] {
            let db = with_row();
            let batch = format!(
                "BEGIN BATCH UPDATE t SET s = 9 WHERE k = 1 IF s = 9; {first}; {second}; APPLY BATCH"
            );
            assert_eq!(db.asked(&batch), "true");
            let is_there = db.asked("UPDATE t SET w = 'w' WHERE k = 1 AND c = 1 IF v = 6");
            assert!(is_there.starts_with("false"), "{first} {second}");
            let e = db.asked("UPDATE t SET w = 'w' WHERE k = 1 AND c = 1 IF e = {'x'}");
            assert!(e.starts_with("false"), "{first} {second}");
        }
    }
}

#[test]
fn what_a_conditional_batch_writes_outlives_the_ranges_that_it_deletes() {
    let db = with_row();
    let batch = "BEGIN BATCH DELETE FROM t WHERE k = 1 AND c > 0; \
                 UPDATE t SET v = 6 WHERE k = 1 AND c = 1 IF v = 5; APPLY BATCH";
    assert_eq!(db.asked(batch), "true");
    assert_eq!(db.asked("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v = 6 AND w = null"), "true");
    let many = "BEGIN BATCH UPDATE t SET v = 6 WHERE k = 1 AND c IN (1, 2); \
                UPDATE t SET v = 6 WHERE k = 1 AND c = 1 IF v = 7; APPLY BATCH";
    assert_eq!(
        db.refusal(many),
        "IN on the clustering key columns is not supported with conditional updates"
    );
}

#[test]
fn rows_without_a_marker_are_not_seen_beside_static_columns() {
    let db = Db::new();
    db.all(&["UPDATE t SET s = 9, v = 1 WHERE k = 1 AND c = 1"]);
    let asked = db.asked("INSERT INTO t (k, s) VALUES (1, 5) IF NOT EXISTS");
    assert!(asked.starts_with("false,1,-,9,"), "{asked}");
    db.all(&["INSERT INTO t (k, c) VALUES (1, 1)"]);
    let asked = db.asked("INSERT INTO t (k, s) VALUES (1, 5) IF NOT EXISTS");
    assert!(asked.starts_with("false,1,1,9,"), "{asked}");
}

#[test]
fn a_refusal_shows_what_cassandra_reads() {
    let db = with_row();
    // Regular columns come before static ones for each statement.
    assert_eq!(db.asked("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF s = 3 AND v = 5"), "false,5,9");
    assert_eq!(
        db.asked("BEGIN BATCH UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF s = 3 AND v = 5; APPLY BATCH"),
        "false,1,1,5,9"
    );
    // Static columns are shown only if the statement writes or tests some; regular columns only for rows.
    let columns = |answer: &str| answer.split(',').map(str::to_string).collect::<Vec<_>>();
    let of_row = columns(&db.asked("INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS"));
    assert_eq!((&of_row[..4], of_row.contains(&"5".to_string())), (&columns("false,1,1,-")[..], true));
    let of_partition = columns(&db.asked("INSERT INTO t (k, s) VALUES (1, 5) IF NOT EXISTS"));
    assert_eq!(of_partition[..4], columns("false,1,1,9")[..]);
    assert!(of_partition[4..].iter().all(|cell| cell == "-"), "{of_partition:?}");
}

#[test]
fn a_partition_without_static_columns_differs_from_none() {
    let db = Db::new();
    let update = "UPDATE t SET s = 1 WHERE k = 1 IF s = 5";
    assert_eq!(db.asked(update), "false");
    db.all(&["INSERT INTO t (k, c) VALUES (1, 7)", "INSERT INTO t (k, c) VALUES (1, 8)"]);
    assert_eq!(db.asked(update), "false,-");
    assert_eq!(db.asked("UPDATE t SET v = 1 WHERE k = 1 AND c = 9 IF s = 5"), "false,-");
    // In a batch the first row represents the partition.
    let batch = format!("BEGIN BATCH INSERT INTO t (k, c) VALUES (1, 6); {update}; APPLY BATCH");
    assert_eq!(db.asked(&batch), "false,1,7,-");
    db.all(&["UPDATE t SET s = 4 WHERE k = 1"]);
    assert_eq!(db.asked(update), "false,4");
    assert_eq!(db.asked("UPDATE t SET v = 1 WHERE k = 1 AND c = 9 IF s IN (4, 5)"), "true");
}

#[test]
fn what_is_unset_is_not_in_a_list() {
    let db = with_row();
    let update = "UPDATE t SET w = 'z' WHERE k = 1 AND c = 1 IF v IN (?, ?)";
    let asked = |values: &[Value<'_>]| match db.bound(update, values) {
        Ok(Outcome::Rows(rows)) => rows_text(&rows),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&[Value::Unset, Value::Bytes(&int(4))]), "false,5");
    assert_eq!(asked(&[Value::Unset, Value::Bytes(&int(5))]), "true");
}

#[test]
fn conditions_compare_by_type() {
    let db = with_row();
    let holds = |condition: &str| {
        let answer = db.asked(&format!("UPDATE t SET fl = [7] WHERE k = 1 AND c = 1 IF {condition}"));
        answer == "true"
    };
    for yes in [
        "v = 5",
        "v != 4",
        "v > -1",
        "v >= 5",
        "v < 6",
        "v <= 5",
        "v IN (1, 5)",
        "w = 'x'",
        "w > 'a'",
        "s = 9",
        "s = 9 AND v = 5",
        "l = [1, 2]",
        "l > [1]",
        "l[1] = 2",
        "l[5] = null",
        "e = {'b', 'a'}",
        "e != {'a'}",
        "e CONTAINS 'a'",
        "l CONTAINS 2 AND l CONTAINS 1",
        "m CONTAINS 1 AND m CONTAINS KEY 'p'",
        "fl CONTAINS 7",
        "m = {'p': 1}",
        "m['p'] = 1",
        "m['q'] = null",
        "m['p'] IN (3, 1)",
        "u.number = 3",
        "u.street > 'a'",
        "u = {street: 's', number: 3}",
        "fl = [7]",
        "fl[0] = 7",
        "fu = null",
        "sl = null",
        "sl = []",
        "sl != [1]",
        "fu.number = null",
        "m != {}",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "sl < [1]",
        "v = 4",
        "v != 5",
        "v = null",
        "v > 5",
        "v < -1",
        "v IN (1, 2)",
        "v IN ()",
        "s = 8",
        "v = 5 AND s = 8",
        "l = [1]",
        "l = []",
        "l = null",
        "l[0] = 2",
        "l[9] = 1",
        "e = null",
        "e != {'a', 'b'}",
        "m['p'] = null",
        "m['q'] = 1",
        "u.number = 4",
        "u = null",
        "fl[1] = 7",
        "sl != null",
        "sl > [1]",
        "sl IN ([1])",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn refusals_show_the_columns_of_the_conditions() {
    let db = with_row();
    let at = "WHERE k = 1 AND c = 1";
    assert_eq!(db.asked(&format!("UPDATE t SET v = 1 {at} IF v = 4 AND s = 1 AND v > 7")), "false,5,9");
    assert_eq!(db.asked(&format!("DELETE v FROM t {at} IF u.number = 1 AND w = 'y'")).split(',').count(), 3);
    assert_eq!(db.asked("UPDATE t SET v = 1 WHERE k = 7 AND c = 1 IF v = 4"), "false");
    assert_eq!(db.asked("UPDATE t SET s = 1 WHERE k = 1 IF s = 4"), "false,9");
    assert_eq!(db.asked("UPDATE t SET s = 1 WHERE k = 1 IF s = 9"), "true");
    assert_eq!(db.dump("t")[1], "1: s=1");
}

#[test]
fn conditions_see_values_that_were_bound() {
    let db = with_row();
    let (five, six) = (int(5), int(6));
    let run = |text: &str, bound: &[Value<'_>]| match db.bound(text, bound) {
        Ok(Outcome::Rows(rows)) => rows_text(&rows),
        other => panic!("{other:?}"),
    };
    let update = "UPDATE t SET v = ? WHERE k = 1 AND c = 1 IF v = ?";
    assert_eq!(run(update, &[Value::Bytes(&six), Value::Bytes(&five)]), "true");
    assert_eq!(run(update, &[Value::Bytes(&six), Value::Bytes(&five)]), "false,6");
    let list = [&int(2)[..], &int(4), &six, &int(4), &five].concat();
    let update = "UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v IN ?";
    assert_eq!(run(update, &[Value::Bytes(&list)]), "true");
    let refused = db.bound("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v = ?", &[Value::Unset]);
    assert_eq!(refused.expect_err("unset"), "Invalid 'unset' value in condition");
    let refused = db.bound("UPDATE t SET v = 7 WHERE k = 1 AND c = 1 IF v < ?", &[Value::Null]);
    assert_eq!(refused.expect_err("null"), "Invalid comparison with null for operator \"<\"");
}

#[test]
fn conditional_writes_come_after_what_they_saw() {
    let db = Db::new();
    let plan = db.plan("UPDATE p SET v = 1 WHERE k1 = 'a' AND k2 = 1 IF v = null").expect("a plan");
    let execution = Execution { timestamp_us: Some(5), ..db.execution() };
    wait(execute(&plan, &db.coordinator, &[], &execution, &mut vec![])).expect("a write");
    let row = db.only_row("p");
    let ColumnData::Simple(cell) = &row.cells()[0].1 else { panic!("a simple column") };
    assert_eq!(cell.timestamp_us, NOW_US, "not the client's");
}

/// The clock may have been set back since the deletion.
#[test]
fn conditional_writes_come_after_the_deletions_that_they_saw() {
    let later = NOW_US + 3_600_000_000;
    for deletion in ["DELETE FROM t", "DELETE v, w, m FROM t"] {
        for at in ["k = 1", "k = 1 AND c >= 0", "k = 1 AND c = 1"] {
            if deletion.contains("v, w") && at != "k = 1 AND c = 1" {
                continue;
            }
            let db = with_row();
            db.all(&[&format!("{deletion} USING TIMESTAMP {later} WHERE {at}")]);
            let is_there = deletion.contains("v, w");
            let condition = if is_there { "IF v = null" } else { "IF NOT EXISTS" };
            let write = if is_there {
                format!("UPDATE t SET v = 7, w = 'y', m = {{'q': 2}} WHERE k = 1 AND c = 1 {condition}")
            } else {
                format!("INSERT INTO t (k, c, v, w, m) VALUES (1, 1, 7, 'y', {{'q': 2}}) {condition}")
            };
            assert_eq!(db.asked(&write), "true", "{deletion} {at}");
            let lines = db.dump("t").join("; ");
            assert!(
                lines.contains("v=7") && lines.contains("m=") && lines.contains('2'),
                "{deletion} {at}: {lines}"
            );
        }
    }
}

#[test]
fn list_elements_are_set_under_conditions() {
    let db = with_row();
    assert_eq!(db.asked("UPDATE t SET l[0] = 8, l = l + [3] WHERE k = 1 AND c = 1 IF v = 5"), "true");
    assert!(db.dump("t")[0].contains(" l=[8, 2, 3]"), "{:?}", db.dump("t"));
}

#[test]
fn batches_happen_if_all_their_conditions_hold() {
    let db = with_row();
    let batch = |v: i32| {
        format!(
            "BEGIN BATCH UPDATE t SET v = 6 WHERE k = 1 AND c = 1 IF v = {v}; \
             INSERT INTO t (k, c, v) VALUES (1, 2, 7); DELETE s FROM t WHERE k = 1; APPLY BATCH"
        )
    };
    assert_eq!(db.asked(&batch(4)), "false,1,1,5");
    assert_eq!(db.dump("t").len(), 2);
    assert_eq!(db.asked(&batch(5)), "true");
    let lines = db.dump("t");
    assert!(lines[0].contains(" v=6 ") && lines[1] == "1/2: v=7" && lines.len() == 2, "{lines:?}");
    let two = "BEGIN BATCH UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1; \
               UPDATE t SET v = 1 WHERE k = 1 AND c = 2 IF v = 7; APPLY BATCH";
    assert_eq!(db.asked(two), "false,1,1,6|false,1,2,7");
    let refused = |a: &str, b: &str| {
        let at = "WHERE k = 1 AND c = 1";
        db.refusal(&format!(
            "BEGIN BATCH UPDATE t SET v = 1 {at} IF {a}; {}; APPLY BATCH",
            match b {
                "NOT EXISTS" => "INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS".to_string(),
                b => format!("UPDATE t SET v = 1 {at} IF {b}"),
            }
        ))
    };
    assert_eq!(
        refused("EXISTS", "NOT EXISTS"),
        "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
    );
    assert_eq!(refused("v = 1", "NOT EXISTS"), "Cannot mix IF conditions and IF NOT EXISTS for the same row");
}

/// All types that assignments can calculate with: type, stored value, assignment, and new value.
const CALCULATED: [(&str, &str, &str, &str); 14] = [
    ("tinyint", "127", "v = v + 1", "-128"),
    ("smallint", "5", "v += 5", "10"),
    ("int", "5", "v = v + 5", "10"),
    ("int", "5", "v = v - 7", "-2"),
    ("int", "2147483647", "v = v + 1", "-2147483648"),
    ("bigint", "5", "v -= 5", "0"),
    ("varint", "123456789012345678901234567890", "v = v + 1", "123456789012345678901234567891"),
    ("decimal", "1.5", "v = v + 0.25", "1.75"),
    ("float", "0.5", "v = v - 1", "-0.5"),
    ("double", "0.5", "v = v + 1e300", "1.0E300"),
    ("text", "'a'", "v = v + 'b'", "'ab'"),
    ("text", "''", "v += 'b'", "'b'"),
    ("ascii", "'a'", "v = v + 'b'", "'ab'"),
    ("int", "null", "v = v + 5", ""),
];

#[test]
fn numbers_and_texts_are_calculated_from_what_they_are() {
    for condition in ["IF EXISTS", "IF c = 1"] {
        for (ty, before, assignment, after) in CALCULATED {
            for kind in ["", " STATIC"] {
                let mut db = Db::new();
                db.create("z", &format!("(k int, r int, v {ty}{kind}, c int{kind}, PRIMARY KEY (k, r))"));
                db.all(&[&format!("INSERT INTO z (k, r, v, c) VALUES (1, 1, {before}, 1)")]);
                let row = if kind.is_empty() { "WHERE k = 1 AND r = 1" } else { "WHERE k = 1" };
                let line = |v: &str| {
                    let v = if v.is_empty() { String::new() } else { format!(" v={v}") };
                    if kind.is_empty() {
                        vec![format!("1/1: c=1{v}")]
                    } else {
                        vec!["1/1:".into(), format!("1: c=1{v}")]
                    }
                };
                let refused = format!("UPDATE z SET {assignment} {row}");
                assert!(db.refusal(&refused).contains("for non counter column v"), "{refused}");
                assert!(db.asked(&format!("{refused} IF c = 2")).starts_with("false"), "{refused}");
                assert_eq!(db.dump("z"), line(if before == "null" { "" } else { before }), "{refused}");
                assert_eq!(db.asked(&format!("{refused} {condition}")), "true");
                assert_eq!(db.dump("z"), line(after), "{refused} {condition}");
            }
        }
    }
}

#[test]
fn calculations_in_a_batch_begin_with_the_row_as_it_was() {
    let db = with_row();
    let update = |assignment: &str, condition: &str| {
        format!("UPDATE t SET {assignment} WHERE k = 1 AND c = 1 IF {condition}")
    };
    let batch = |texts: &[String]| format!("BEGIN BATCH {}; APPLY BATCH", texts.join("; "));
    // Both statements start from 5. The larger of two values with the same timestamp wins, as in Cassandra.
    assert_eq!(db.asked(&batch(&[update("v = v + 2", "v = 5"), update("v = v + 1", "v = 5")])), "true");
    assert_eq!(db.asked(&batch(&[update("v = v + 1", "v = 7"), update("w = w + 'y'", "w = 'x'")])), "true");
    let of_two = batch(&[
        "INSERT INTO t (k, c, v) VALUES (1, 2, 1) IF NOT EXISTS".to_string(),
        update("v = v * 2", "EXISTS").replace("v * 2", "v + 2"),
    ]);
    assert_eq!(db.asked(&of_two), "true");
    let asked = db.asked(&update("v = v + 1, w = w + 'z'", "v = 10 AND w = 'xy'"));
    assert_eq!(asked, "true");
    assert_eq!(db.asked(&update("v = v + 1", "v = 11 AND w = 'xyz'")), "true");
    // A statement of a batch needs a condition of its own to calculate.
    let mixed =
        batch(&[update("v = v + 1", "v = 12"), "UPDATE t SET v = v + 1 WHERE k = 1 AND c = 1".into()]);
    assert!(db.refusal(&mixed).contains("non counter column v"));
}

#[test]
fn what_is_no_number_and_no_text_is_not_calculated_with() {
    let db = with_row();
    let refusal =
        |assignment: &str| db.refusal(&format!("UPDATE t SET {assignment} WHERE k = 1 AND c = 1 IF EXISTS"));
    assert_eq!(refusal("fl = fl + [1]"), "Invalid operation (fl = fl + [1]) for frozen collection column fl");
    assert_eq!(refusal("w = w - 'a'"), "Invalid operation (w = w - 'a') for non-numeric type w");
    assert_eq!(refusal("v = v + null"), "Invalid null value for increment of column v");
    assert!(refusal("v = v + 'a'").contains("Invalid STRING constant"));
}

#[test]
fn a_partition_without_a_column_that_is_read_has_nothing_to_show() {
    let mut db = Db::new();
    db.create("z", "(k int, r int, s int STATIC, s2 int STATIC, v int, PRIMARY KEY (k, r))");
    db.all(&["UPDATE z SET s2 = 7 WHERE k = 1"]);
    // Of the static row only `s` is read, and `s` is null, as in a missing partition.
    assert_eq!(db.asked("UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF s = 5"), "false");
    assert_eq!(db.asked("UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF s = 5 AND v = 1"), "false");
    assert_eq!(db.asked("DELETE FROM z WHERE k = 1 AND r = 1 IF v = 5"), "false");
    assert_eq!(
        db.asked("BEGIN BATCH UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF s = 5; APPLY BATCH"),
        "false"
    );
    // A statement that writes a static column reads all static columns.
    assert_eq!(db.asked("UPDATE z SET s = 1 WHERE k = 1 IF s = 5"), "false,-");
    assert_eq!(db.asked("UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF s2 = 5"), "false,7");
    assert_eq!(
        db.asked(
            "BEGIN BATCH UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF s = 5; UPDATE z SET s = 1 WHERE k = 1; \
             APPLY BATCH"
        ),
        "false"
    );
    // IF EXISTS for one row, with a condition on the static column, which is set, in the same batch.
    assert_eq!(
        db.asked(
            "BEGIN BATCH UPDATE z SET v = 1 WHERE k = 1 AND r = 1 IF EXISTS; UPDATE z SET v = 1 WHERE k = 1 AND \
             r = 2 IF s2 = 5; APPLY BATCH"
        ),
        "false,1,-,-,7,-"
    );
}
