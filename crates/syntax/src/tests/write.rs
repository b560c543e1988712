//! Tests of INSERT, UPDATE, DELETE and BATCH.

use crate::ast::{
    Assignment, AssignmentOp, Batch, BatchKind, Condition, ConditionTest, Conditions, DeleteTarget,
    InsertValues, Modification, RelationTarget, Statement,
};

use super::{check, same, statement};

#[test]
fn insert() {
    same(
        "INSERT INTO ks.t (a, \"B\") VALUES (1, ?) IF NOT EXISTS USING TTL 1 AND TIMESTAMP ? AND TIMEOUT 2s",
    );
    same("INSERT INTO t JSON '{\"a\": 1}' DEFAULT UNSET IF NOT EXISTS USING TTL 5");
    check("insert into t json :j default null", "INSERT INTO t JSON :j");
    let Statement::Insert(insert) = statement("INSERT INTO t (a, b) VALUES (1)") else { panic!() };
    assert!(
        matches!(insert.values, InsertValues::Columns { columns, values } if columns.len() == 2 && values.len() == 1)
    );
}

/// The kinds of the assignment operations, without their values.
#[track_caller]
fn ops(assignments: &str) -> String {
    let Statement::Update(update) = statement(&format!("UPDATE t SET {assignments} WHERE k = 1")) else {
        panic!()
    };
    let op = |assignment: &Assignment| match &assignment.op {
        AssignmentOp::Set(_) => "set",
        AssignmentOp::Add(_) => "add",
        AssignmentOp::Prepend(_) => "prepend",
        AssignmentOp::Subtract(_) => "subtract",
        AssignmentOp::SetElement { .. } => "element",
        AssignmentOp::SetField { .. } => "field",
    };
    update.assignments.iter().map(op).collect::<Vec<_>>().join(" ")
}

#[test]
fn assignments() {
    assert_eq!(
        ops("c = 1, c = ?, c = null, c = f(1), c = ks.f(1) + 2, c = (int)1"),
        "set set set set set set"
    );
    assert_eq!(ops("c = c + 1, c += ?, c = \"c\" + [1], c = C + {1} + {2}"), "add add add add");
    assert_eq!(ops("c = [1] + c, c = ? + c, c = 1 + 2 + c"), "prepend prepend prepend");
    assert_eq!(
        ops("c = c - 1, c -= 1, c = c -1, c=c-1, c = c - {1}"),
        "subtract subtract subtract subtract subtract"
    );
    assert_eq!(ops("c = 1 + f(2), c = 1 + ks.f(2)"), "set set");
    assert_eq!(ops("c['a'] = 1, c[?] = ?, c.f = 1, c.\"F\" = null"), "element element field field");
    assert_eq!(
        ops("ttl = ttl + 1, timestamp = timestamp - 1, key = 5, cast = cast + 1"),
        "add subtract set add"
    );
    same("UPDATE t SET c = [1] + c, c = c + [2], c = c - [3], c[0] = 4, u.f = 5, d = 6 WHERE k = 1");
}

#[test]
fn update() {
    same(
        "UPDATE ks.t USING TTL 1 AND TIMESTAMP 2 AND TIMEOUT 3s SET a = 1 WHERE k = 1 AND c IN (1, 2) IF EXISTS",
    );
    same(
        "UPDATE t SET a = 1 WHERE k = 1 IF a = 1 AND m['k'] > ? AND u.f IN (1, 2) AND b IN ? AND l CONTAINS 3",
    );
    check(
        "UPDATE t USING TIMESTAMP -5 AND TTL 0 SET a=1 WHERE k=1",
        "UPDATE t USING TTL 0 AND TIMESTAMP -5 SET a = 1 WHERE k = 1",
    );
}

#[test]
fn conditions() {
    let conditions = |text: &str| match statement(&format!("UPDATE t SET a = 1 WHERE k = 1 IF {text}")) {
        Statement::Update(update) => update.conditions.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(conditions("EXISTS"), Conditions::Exists);
    let Conditions::All(all) = conditions("exists = 1 AND a.b != 2 AND a[1] IN () AND a IN ?") else {
        panic!()
    };
    let kinds: Vec<(bool, bool)> = all
        .iter()
        .map(|Condition { target, test, .. }| {
            (matches!(target, RelationTarget::Column(_)), matches!(test, ConditionTest::In(_)))
        })
        .collect();
    assert_eq!(kinds, [(true, false), (false, false), (false, true), (true, true)]);
}

#[test]
fn delete() {
    check("DELETE FROM t WHERE k = 1", "DELETE FROM t WHERE k = 1");
    let Statement::Delete(delete) =
        statement("DELETE a, b['x'], c.d FROM t USING TIMESTAMP ? AND TIMEOUT 1s WHERE k = 1 IF a = 1")
    else {
        panic!()
    };
    assert!(matches!(
        &delete.targets[..],
        [DeleteTarget::Column(_), DeleteTarget::Element { .. }, DeleteTarget::Field { .. }]
    ));
    assert!(delete.using.timestamp.is_some() && delete.conditions.is_some());
}

#[test]
fn batch() {
    let batch = |text: &str| -> Batch {
        let Statement::Batch(batch) = statement(text) else { panic!("{text}") };
        *batch
    };
    let found = batch(
        "BEGIN UNLOGGED BATCH USING TIMESTAMP 5 INSERT INTO t (a) VALUES (1) UPDATE t SET a = ? WHERE k = 1; \
         DELETE FROM t WHERE k = ?; APPLY BATCH;",
    );
    assert_eq!(found.kind, BatchKind::Unlogged);
    assert!(matches!(
        &found.modifications[..],
        [Modification::Insert(_), Modification::Update(_), Modification::Delete(_)]
    ));
    assert_eq!(batch("BEGIN BATCH APPLY BATCH").modifications.len(), 0);
    assert_eq!(batch("BEGIN COUNTER BATCH APPLY BATCH").kind, BatchKind::Counter);
}
