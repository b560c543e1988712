//! Counters of statements on a shard: by first word, by operation, latencies, timeouts and failures.
//!
//! The operations are those for which Cassandra and ScyllaDB show latencies of the coordinator. A statement
//! counts when it ends, with the time since its request arrived. Counters are zero at each start.

use std::cell::Cell;

use cql::{Outcome, StatementKind, Verb};
use engine::EngineError;
use engine::node;
use engine::table::counters::{Latencies, LatencyCounter};
use protocol::CqlError;
use runtime::{CpuGroup, Shard};

use super::CqlShard;
use super::levels::count;
use crate::audit::AuditCounts;

/// What a statement does, as its coordinator counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    /// Reads of several partitions.
    Range,
    /// Writes, counters and batches.
    Write,
    /// Reads with consistency SERIAL.
    CasRead,
    /// Conditional writes.
    CasWrite,
}

impl Operation {
    pub const ALL: [Self; 5] = [Self::Read, Self::Range, Self::Write, Self::CasRead, Self::CasWrite];

    /// `None`: statements about schema and roles, and TRUNCATE, which nothing counts.
    pub(crate) fn of(kind: StatementKind, is_serial: bool) -> Option<Self> {
        Some(match kind {
            StatementKind::Read | StatementKind::Range if is_serial => Self::CasRead,
            StatementKind::Read => Self::Read,
            StatementKind::Range => Self::Range,
            StatementKind::Write | StatementKind::Counter => Self::Write,
            StatementKind::Conditional => Self::CasWrite,
            StatementKind::Truncate | StatementKind::Other => return None,
        })
    }
}

/// The counters of an operation.
#[derive(Default)]
struct OperationCounters {
    latency: LatencyCounter,
    timeouts: Cell<u64>,
    unavailables: Cell<u64>,
    failures: Cell<u64>,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct StatementCounters {
    operations: [OperationCounters; Operation::ALL.len()],
    verbs: [Cell<u64>; Verb::ALL.len()],
    /// Statements inside batches of the protocol.
    in_batches: Cell<u64>,
    rows_read: Cell<u64>,
}

impl StatementCounters {
    /// Counts a statement, or a batch of the protocol with this number of statements, that ended after
    /// `took_us`.
    pub fn ended(
        &self,
        operation: Option<Operation>,
        verb: Verb,
        statements: u64,
        took_us: u64,
        outcome: &Result<Outcome, CqlError>,
    ) {
        count(&self.verbs[verb as usize]);
        if verb == Verb::Batch {
            self.in_batches.set(self.in_batches.get() + statements);
        }
        if let Ok(Outcome::Rows(rows)) = outcome
            && verb == Verb::Select
        {
            self.rows_read.set(self.rows_read.get() + rows.count() as u64);
        }
        let Some(operation) = operation else { return };
        let counters = &self.operations[operation as usize];
        counters.latency.add_us(took_us);
        match outcome {
            Err(CqlError::ReadTimeout { .. } | CqlError::WriteTimeout { .. }) => count(&counters.timeouts),
            Err(CqlError::Unavailable { .. }) => count(&counters.unavailables),
            Err(CqlError::ReadFailure { .. } | CqlError::WriteFailure { .. }) => count(&counters.failures),
            _ => {}
        }
    }

    fn report(&self) -> StatementReport {
        let of = |operation: Operation| {
            let counters = &self.operations[operation as usize];
            OperationReport {
                operation,
                latency: counters.latency.get(),
                timeouts: counters.timeouts.get(),
                unavailables: counters.unavailables.get(),
                failures: counters.failures.get(),
            }
        };
        StatementReport {
            operations: Operation::ALL.map(of).to_vec(),
            verbs: Verb::ALL.map(|verb| (verb, self.verbs[verb as usize].get())).to_vec(),
            in_batches: self.in_batches.get(),
            rows_read: self.rows_read.get(),
            ..StatementReport::default()
        }
    }
}

/// The counters of an operation, as values.
#[derive(Clone, Debug)]
pub struct OperationReport {
    pub operation: Operation,
    pub latency: Latencies,
    pub timeouts: u64,
    pub unavailables: u64,
    pub failures: u64,
}

impl OperationReport {
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.timeouts += other.timeouts;
        self.unavailables += other.unavailables;
        self.failures += other.failures;
    }
}

/// The statements of a shard.
#[derive(Clone, Debug, Default)]
pub struct StatementReport {
    /// In the order of [`Operation::ALL`].
    pub operations: Vec<OperationReport>,
    /// Statements by their first word.
    pub verbs: Vec<(Verb, u64)>,
    /// Statements inside batches of the protocol.
    pub in_batches: u64,
    /// Rows that SELECTs have returned.
    pub rows_read: u64,
    /// Requests of all kinds, and those that were answered with an error.
    pub requests: u64,
    pub errors: u64,
    pub connections_total: u64,
    /// Prepared statements, which each shard has, and their memory.
    pub prepared: u64,
    pub prepared_bytes: u64,
    pub audit: AuditCounts,
}

impl StatementReport {
    pub fn of(&self, operation: Operation) -> Option<&OperationReport> {
        self.operations.iter().find(|report| report.operation == operation)
    }
}

/// The statements of each shard.
///
/// # Errors
/// The node has stopped, or does not serve CQL.
pub async fn statement_reports(shard: &Shard) -> Result<Vec<StatementReport>, EngineError> {
    let ask = |shard: Shard| async move {
        let cql = CqlShard::of(&shard)?;
        Ok(StatementReport {
            requests: cql.counters.requests.get(),
            errors: cql.counters.errors.get(),
            connections_total: cql.counters.connections_total.get(),
            prepared: cql.statements.all().len() as u64,
            prepared_bytes: cql.statements.bytes() as u64,
            audit: cql.audit.counts(),
            ..cql.statement_counters.report()
        })
    };
    node::on_all(shard, CpuGroup::Maintenance, ask).await
}

#[cfg(test)]
mod tests {
    use protocol::WriteKind;

    use super::*;

    #[test]
    fn statements_count_by_operation_and_outcome() {
        let counters = StatementCounters::default();
        let timeout =
            || CqlError::WriteTimeout { consistency: 1, received: 0, required: 1, kind: WriteKind::Simple };
        let of = |kind| Operation::of(kind, false);
        counters.ended(of(StatementKind::Write), Verb::Insert, 1, 90, &Ok(Outcome::Void));
        counters.ended(of(StatementKind::Counter), Verb::Update, 1, 100, &Err(timeout()));
        counters.ended(of(StatementKind::Write), Verb::Batch, 7, 1000, &Ok(Outcome::Void));
        counters.ended(of(StatementKind::Other), Verb::Other, 1, 1, &Ok(Outcome::Void));
        let unavailable = CqlError::Unavailable { consistency: 1, required: 2, alive: 1 };
        counters.ended(Operation::of(StatementKind::Read, true), Verb::Select, 1, 5, &Err(unavailable));
        let report = counters.report();
        let writes = report.of(Operation::Write).unwrap();
        assert_eq!((writes.latency.count(), writes.latency.total_us, writes.timeouts), (3, 1190, 1));
        let serial = report.of(Operation::CasRead).unwrap();
        assert_eq!((serial.latency.count(), serial.unavailables), (1, 1));
        assert_eq!(report.of(Operation::Read).unwrap().latency.count(), 0);
        let verbs: Vec<u64> = report.verbs.iter().map(|(_, count)| *count).collect();
        assert_eq!(verbs, [1, 1, 1, 0, 1, 1]);
        assert_eq!((report.in_batches, report.rows_read), (7, 0));
    }
}
