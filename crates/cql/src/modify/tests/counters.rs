//! Counters: increments are summed, also after deletions and in batches.

use super::*;

#[test]
fn additions_add_up() {
    let db = Db::new();
    db.all(&[
        "UPDATE n SET n1 = n1 + 5 WHERE k = 1 AND c = 1",
        "UPDATE n SET n1 -= 7, n2 = 3 + n2 WHERE k = 1 AND c = 1",
        "UPDATE n SET n1 = n1 + 1, n1 = n1 + 2 WHERE k IN (1, 2, 2) AND c = 1",
        "UPDATE n SET sn = sn + 4 WHERE k = 1",
    ]);
    assert_eq!(db.dump("n"), ["1/1: n1=1 n2=3", "1: sn=4", "2/1: n1=3"]);
}

#[test]
fn every_addition_raises_the_clock_of_this_nodes_share() {
    let db = Db::new();
    let shard = || {
        let row = db.only_row("n");
        match &row.cells()[0].1 {
            ColumnData::Simple(cell) => counter::decode(&cell.value).expect("a counter"),
            other => panic!("{other:?}"),
        }
    };
    db.all(&["UPDATE n SET n1 = n1 + 5 WHERE k = 1 AND c = 1"]);
    let first = shard();
    assert_eq!((first.len(), first[0].id, first[0].count), (1, *db.coordinator.host_id().as_bytes(), 5));
    db.all(&["UPDATE n SET n1 = n1 + 5 WHERE k = 1 AND c = 1"]);
    assert_eq!((shard().len(), shard()[0].count), (1, 10));
    assert!(shard()[0].clock > first[0].clock, "though the clock on the wall stood still");
}

#[test]
fn a_row_that_was_deleted_counts_from_zero() {
    let db = Db::new();
    db.all(&["UPDATE n SET n1 = n1 + 5 WHERE k = 1 AND c = 1"]);
    db.coordinator.set_now_us(NOW_US + 10);
    db.all(&["DELETE FROM n WHERE k = 1 AND c = 1"]);
    assert!(db.dump("n").is_empty());
    db.coordinator.set_now_us(NOW_US + 20);
    db.all(&["UPDATE n SET n1 = n1 + 2 WHERE k = 1 AND c = 1"]);
    assert_eq!(db.dump("n"), ["1/1: n1=2"]);
}

#[test]
fn batches_of_counters_add_up_each_statement() {
    let db = Db::new();
    db.all(&["BEGIN COUNTER BATCH \
              UPDATE n SET n1 = n1 + 1 WHERE k = 1 AND c = 1; \
              UPDATE n SET n1 = n1 + 2, n2 = n2 - 1 WHERE k = 1 AND c = 1; \
              UPDATE n SET n1 = n1 + 4 WHERE k = 1 AND c = 2; \
              UPDATE n SET n1 = n1 + 8 WHERE k = 2 AND c = 1; \
              APPLY BATCH"]);
    assert_eq!(db.dump("n"), ["1/1: n1=3 n2=-1", "1/2: n1=4", "2/1: n1=8"]);
}

#[test]
fn counters_are_not_set_nor_mixed_nor_given_times() {
    let db = Db::new();
    let at = "WHERE k = 1 AND c = 1";
    assert_eq!(
        db.refusal("INSERT INTO n (k, c, n1) VALUES (1, 1, 1)"),
        "INSERT statements are not allowed on counter tables, use UPDATE instead"
    );
    assert_eq!(
        db.refusal(&format!("UPDATE n SET n1 = 5 {at}")),
        "Cannot set the value of counter column n1 (counters can only be incremented/decremented, not set)"
    );
    assert_eq!(
        db.refusal(&format!("UPDATE n USING TIMESTAMP 1 SET n1 = n1 + 1 {at}")),
        "Cannot provide custom timestamp for counter updates"
    );
    assert_eq!(
        db.refusal(&format!("UPDATE n USING TTL 1 SET n1 = n1 + 1 {at}")),
        "Cannot provide custom TTL for counter updates"
    );
    assert_eq!(
        db.refusal(&format!("UPDATE n SET n1 = n1 + 1 {at} IF EXISTS")),
        "Conditional updates are not supported on counter tables"
    );
    assert_eq!(
        db.refusal(&format!("UPDATE n SET n1 = n1 + 1 {at} IF n1 = 1")),
        "Conditions on counters are not supported"
    );
    let refused = db.bound(&format!("UPDATE n SET n1 = n1 + ? {at}"), &[Value::Null]);
    assert_eq!(refused.expect_err("null"), "Invalid null value for counter increment/decrement");
    let least = i64::MIN.to_be_bytes();
    let refused = db.bound(&format!("UPDATE n SET n1 = n1 - ? {at}"), &[Value::Bytes(&least)]);
    assert!(refused.expect_err("no negation").contains("overflows supported counter precision"));
    db.bound(&format!("UPDATE n SET n1 = n1 - ? {at}"), &[Value::Unset]).expect("nothing");
    assert!(db.dump("n").is_empty());
}
