//! Batches, as statements and as messages of the protocol.

use std::cell::RefCell;

use catalog::{Catalog, SchemaChange};
use model::{Mutation, TableId};
use reader::Page;
use syntax::BatchKind;
use uuid::Uuid;

use super::*;
use crate::{BatchLimits, ChangeSchema, ClientState, Decide};

/// Records the calls of the storage.
struct Recorder {
    inner: MemoryCoordinator,
    calls: RefCell<Vec<String>>,
}

impl Recorder {
    fn note(&self, call: impl Into<String>) {
        self.calls.borrow_mut().push(call.into());
    }
}

impl Storage for Recorder {
    fn catalog(&self) -> Catalog {
        self.inner.catalog()
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), CqlError> {
        self.note(format!("apply {}", mutation.partition.rows().len()));
        self.inner.apply(mutation).await
    }

    async fn apply_batch(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        self.note(format!("apply {} together", mutations.len()));
        self.inner.apply_batch(mutations).await
    }

    async fn apply_unlogged(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        self.note(format!("apply {} unlogged", mutations.len()));
        self.inner.apply_unlogged(mutations).await
    }

    async fn read(&self, command: ReadCommand) -> Result<Page, CqlError> {
        self.note("read");
        self.inner.read(command).await
    }

    async fn read_modify_write(&self, command: ReadCommand, decide: Decide) -> Result<Page, CqlError> {
        self.note("read and write");
        self.inner.read_modify_write(command, decide).await
    }

    async fn change_schema(&self, change: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        self.inner.change_schema(change).await
    }

    async fn truncate(&self, table: TableId) -> Result<(), CqlError> {
        self.inner.truncate(table).await
    }
}

impl Host for Recorder {
    fn wall_us(&self) -> i64 {
        self.inner.wall_us()
    }

    fn timestamp_us(&self) -> i64 {
        self.inner.timestamp_us()
    }

    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }

    fn node_info(&self) -> crate::system::NodeInfo {
        self.inner.node_info()
    }

    fn host_id(&self) -> Uuid {
        self.inner.host_id()
    }
}

impl ClientState for Recorder {}

/// Returns the calls of the storage for a statement.
fn calls(text: &str) -> String {
    let db = Db::new();
    let plan = db.plan(text).expect("a plan");
    let execution = db.execution();
    let recorder = Recorder { inner: db.coordinator, calls: RefCell::default() };
    recorder.inner.set_page_rows_max(1000);
    wait(execute(&plan, &recorder, &[], &execution, &mut vec![])).expect("a write");
    recorder.calls.into_inner().join("; ")
}

#[test]
fn writes_to_one_partition_are_one_mutation() {
    let row = |k: i32, c: i32| format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, 1)");
    let batch = |rows: &[String]| format!("BEGIN BATCH {}; APPLY BATCH", rows.join("; "));
    assert_eq!(calls(&row(1, 1)), "apply 1");
    assert_eq!(calls(&batch(&[row(1, 1), row(1, 2), row(1, 1)])), "apply 2");
    assert_eq!(calls(&batch(&[row(1, 1), row(2, 2)])), "apply 2 together");
    let unlogged = batch(&[row(1, 1), row(2, 2)]).replace("BATCH INSERT", "UNLOGGED BATCH INSERT");
    assert_eq!(calls(&unlogged), "apply 2 unlogged");
    assert_eq!(calls("DELETE FROM t WHERE k IN (1, 2)"), "apply 2 unlogged");
    assert_eq!(calls("BEGIN BATCH APPLY BATCH"), "");
    assert_eq!(calls("UPDATE t SET v = 1 WHERE k = 1 AND c IN (1, 2, 3)"), "apply 3");
    assert_eq!(calls("UPDATE t SET l = l - [1] WHERE k = 1 AND c = 1"), "read");
    assert_eq!(calls("UPDATE n SET n1 = n1 + 1 WHERE k = 1 AND c = 1"), "read and write");
    assert_eq!(calls("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1"), "read and write");
}

#[test]
fn statements_of_a_batch_have_one_time_unless_they_bring_their_own() {
    let db = Db::new();
    db.all(&["BEGIN BATCH \
              INSERT INTO t (k, c, v) VALUES (1, 1, 1); \
              DELETE FROM t WHERE k = 1 AND c = 1; \
              INSERT INTO t (k, c, v) VALUES (1, 2, 1); \
              DELETE FROM t USING TIMESTAMP 5 WHERE k = 1; \
              APPLY BATCH"]);
    assert_eq!(db.dump("t"), ["1/2: v=1"], "at one time a deletion wins");
}

#[test]
fn prepared_statements_of_the_protocol_each_have_their_values() {
    let db = Db::new();
    let insert = db.plan("INSERT INTO t (k, c, v) VALUES (?, 1, ?)").expect("a plan");
    let other = db.plan("UPDATE p SET v = ? WHERE k1 = 'a' AND k2 = 1").expect("a plan");
    let counter = db.plan("UPDATE n SET n1 = n1 + 1 WHERE k = 1 AND c = 1").expect("a plan");
    let condition = db.plan("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1").expect("a plan");
    let batch = db.plan("BEGIN BATCH APPLY BATCH").expect("a plan");
    let (one, two) = (int(1), int(2));
    let first = [Value::Bytes(&one), Value::Bytes(&two)];
    let second = [Value::Bytes(&two), Value::Bytes(&one)];
    let run = |kind, statements: &[(&ModifyPlan, &[Value<'_>])], limits: BatchLimits| {
        let mut warnings = vec![];
        let execution = db.execution();
        db.coordinator.set_batch_limits(limits);
        let run = execute_batch(kind, statements, &db.coordinator, &execution, &mut warnings);
        wait(run).map(|_| warnings).map_err(|error| error.to_string())
    };
    let rows: [(&ModifyPlan, &[Value<'_>]); 3] =
        [(&insert, &first), (&insert, &second), (&other, &first[..1])];
    assert_eq!(run(BatchKind::Logged, &rows, BatchLimits::DEFAULT), Ok(vec![]));
    assert_eq!(db.dump("t"), ["1/1: v=2", "2/1: v=1"]);
    assert_eq!(db.dump("p"), ["'a',1: v=1"]);

    let refused = |kind, statements: &[(&ModifyPlan, &[Value<'_>])]| {
        run(kind, statements, BatchLimits::DEFAULT).expect_err("a refusal")
    };
    assert_eq!(
        refused(BatchKind::Unlogged, &[(&insert, &first), (&counter, &[])]),
        "Counter and non-counter mutations cannot exist in the same batch"
    );
    assert_eq!(
        refused(BatchKind::Logged, &[(&counter, &[])]),
        "Cannot include a counter statement in a logged batch"
    );
    assert_eq!(
        refused(BatchKind::Counter, &[(&insert, &first)]),
        "Cannot include non-counter statement in a counter batch"
    );
    assert_eq!(
        refused(BatchKind::Logged, &[(&condition, &[]), (&other, &first[..1])]),
        "Batch with conditions cannot span multiple tables"
    );
    assert_eq!(
        refused(BatchKind::Logged, &[(&condition, &[]), (&insert, &second)]),
        "Batch with conditions cannot span multiple partitions"
    );
    assert!(refused(BatchKind::Logged, &[(&batch, &[])]).starts_with("Invalid statement in batch"));

    let limits = BatchLimits { warn_bytes: 10, fail_bytes: 2000, unlogged_partitions: 1 };
    let warnings = run(BatchKind::Unlogged, &rows[..2], limits).expect("no refusal");
    assert_eq!(
        warnings,
        [
            // For each of the two rows: four bytes for each key and for the value, and eight bytes for the
            // timestamp.
            "Batch for [ks.t] is of size 44, exceeding specified threshold of 10 by 34.",
            "Unlogged batch covering 2 partitions detected against table [ks.t]. You should use a logged batch for \
             atomicity, or asynchronous writes for performance."
        ]
    );
    let limits = BatchLimits { fail_bytes: 43, ..limits };
    assert_eq!(run(BatchKind::Unlogged, &rows[..2], limits), Err("Batch too large".to_string()));
    assert_eq!(run(BatchKind::Unlogged, &rows[..1], limits), Ok(vec![]), "one partition may be large");
}

#[test]
fn what_may_not_stand_in_one_batch() {
    let db = Db::new();
    let insert = "INSERT INTO t (k, c) VALUES (1, 1)";
    let refused = |text: &str| db.refusal(text);
    assert_eq!(
        refused(&format!("BEGIN BATCH USING TTL 1 {insert}; APPLY BATCH")),
        "Global TTL on the BATCH statement is not supported."
    );
    assert_eq!(
        refused(&format!("BEGIN BATCH USING TIMESTAMP 1 {insert} USING TIMESTAMP 2; APPLY BATCH")),
        "Timestamp must be set either on BATCH or individual statements"
    );
    assert_eq!(
        refused(&format!("BEGIN BATCH USING TIMESTAMP 1 {insert} IF NOT EXISTS; APPLY BATCH")),
        "Cannot provide custom timestamp for conditional BATCH"
    );
    assert_eq!(
        refused(
            "BEGIN UNLOGGED BATCH USING TIMESTAMP 1 UPDATE n SET n1 += 1 WHERE k = 1 AND c = 1; APPLY BATCH"
        ),
        "Cannot provide custom timestamp for a BATCH containing counters"
    );
    assert_eq!(
        refused(
            "BEGIN COUNTER BATCH USING TIMESTAMP 1 UPDATE n SET n1 += 1 WHERE k = 1 AND c = 1; APPLY BATCH"
        ),
        "Cannot provide custom timestamp for counter BATCH"
    );
}
