//! What a batch is allowed to be.
//!
//! Texts of errors follow Cassandra 4.1 `cql3/statements/BatchStatement.java`.

use model::{ColumnData, Mutation, PartitionKey, Row, TableSchema};

use super::change::Change;
use super::using::Using;
use crate::CqlError;
use crate::error::invalid;
use crate::syntax::BatchKind;

/// The sizes from which on a batch is warned of and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// A batch of several partitions with more bytes than this is answered with a warning.
    pub warn_bytes: u64,
    /// One with more than this is refused.
    pub fail_bytes: u64,
    /// An unlogged batch of more partitions is answered with a warning.
    pub unlogged_partitions: u64,
}

impl BatchLimits {
    /// Cassandra's.
    pub const DEFAULT: Self = Self { warn_bytes: 5 << 10, fail_bytes: 50 << 10, unlogged_partitions: 10 };
}

/// Why a batch is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSeverity {
    /// It is larger than `fail_bytes`, and is refused.
    TooLarge,
    /// It is larger than `warn_bytes`.
    Large,
    /// It is not logged, and has more than `unlogged_partitions`.
    Spread,
}

/// One write of a batch, as limits see it.
#[derive(Clone, Copy, Debug)]
pub struct SizedWrite<'a> {
    pub schema: &'a TableSchema,
    pub key: &'a PartitionKey,
    pub bytes: u64,
}

impl<'a> SizedWrite<'a> {
    /// `counters` are the updates of counters that the mutation does not have yet.
    pub fn new(mutation: &'a Mutation, counters: usize) -> Self {
        let bytes = data_bytes(mutation) + (counters * COUNTER_BYTES) as u64;
        Self { schema: &mutation.schema, key: &mutation.key, bytes }
    }
}

/// That these may stand together.
pub fn check(kind: BatchKind, changes: &[&Change], using: &Using) -> Result<(), CqlError> {
    if using.ttl.is_some() {
        return invalid!("Global TTL on the BATCH statement is not supported.");
    }
    let has_conditions = changes.iter().any(|change| change.condition.is_some());
    let has_counters = changes.iter().any(|change| change.schema.has_counters());
    let has_others = changes.iter().any(|change| !change.schema.has_counters());
    if using.timestamp.is_some() {
        if has_conditions {
            return invalid!("Cannot provide custom timestamp for conditional BATCH");
        }
        if kind == BatchKind::Counter {
            return invalid!("Cannot provide custom timestamp for counter BATCH");
        }
        if changes.iter().any(|change| change.using.timestamp.is_some()) {
            return invalid!("Timestamp must be set either on BATCH or individual statements");
        }
        if has_counters {
            return invalid!("Cannot provide custom timestamp for a BATCH containing counters");
        }
    }
    if kind == BatchKind::Counter && has_others {
        return invalid!("Cannot include non-counter statement in a counter batch");
    }
    if has_counters && has_others {
        return invalid!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && has_counters {
        return invalid!("Cannot include a counter statement in a logged batch");
    }
    if has_conditions && changes.windows(2).any(|pair| pair[0].schema.id != pair[1].schema.id) {
        return invalid!("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}

impl BatchLimits {
    /// Warns the client and the log of a batch that is large. Nothing of the batch may have been written yet.
    ///
    /// As in Cassandra, a batch for a single partition of a keyspace may be of any size.
    ///
    /// # Errors
    /// The batch is too large.
    pub fn check(
        &self,
        kind: BatchKind,
        writes: &[SizedWrite<'_>],
        mut log: impl FnMut(BatchSeverity, &str),
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        let is_same =
            |a: &SizedWrite<'_>, b: &SizedWrite<'_>| a.key == b.key && a.schema.keyspace == b.schema.keyspace;
        if writes.windows(2).all(|pair| is_same(&pair[0], &pair[1])) {
            return Ok(());
        }
        let bytes: u64 = writes.iter().map(|write| write.bytes).sum();
        if bytes > self.fail_bytes {
            let text = size_text(&names(writes), bytes, self.fail_bytes, show_bytes);
            log(BatchSeverity::TooLarge, &format!("{text} (see batch_size_fail_threshold)"));
            return invalid!("Batch too large");
        }
        if bytes > self.warn_bytes {
            let names = names(writes);
            log(BatchSeverity::Large, &size_text(&names, bytes, self.warn_bytes, show_bytes));
            warnings.push(size_text(&names, bytes, self.warn_bytes, |bytes| bytes.to_string()));
        }
        if kind != BatchKind::Logged && writes.len() as u64 > self.unlogged_partitions {
            let mut keys: Vec<&[u8]> = writes.iter().map(|write| write.key.bytes()).collect();
            keys.sort_unstable();
            keys.dedup();
            if keys.len() as u64 > self.unlogged_partitions {
                let names = names(writes);
                let text = format!(
                    "Unlogged batch covering {} partitions detected against table{} [{}]. You should use a logged batch \
                     for atomicity, or asynchronous writes for performance.",
                    keys.len(),
                    if names.len() == 1 { "" } else { "s" },
                    names.join(", "),
                );
                log(BatchSeverity::Spread, &text);
                warnings.push(text);
            }
        }
        Ok(())
    }
}

/// The tables of a batch, each once, with their keyspaces.
fn names(writes: &[SizedWrite<'_>]) -> Vec<String> {
    let mut names: Vec<String> = writes.iter().map(|write| write.schema.full_name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn size_text(names: &[String], bytes: u64, limit_bytes: u64, show: fn(u64) -> String) -> String {
    format!(
        "Batch for [{}] is of size {}, exceeding specified threshold of {} by {}.",
        names.join(", "),
        show(bytes),
        show(limit_bytes),
        show(bytes - limit_bytes),
    )
}

/// `5.000KiB`, as Cassandra writes sizes in its log.
fn show_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..0x10_0000 => format!("{:.3}KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.3}MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.3}GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// A counter update: the number to add, and its timestamp.
const COUNTER_BYTES: usize = 16;

/// Bytes of keys and values, with eight for the timestamp of each cell.
fn data_bytes(mutation: &Mutation) -> u64 {
    let partition = &mutation.partition;
    let rows = partition.rows().iter().map(|row| row.key.as_bytes().len() + row_bytes(&row.row));
    (mutation.key.bytes().len() + row_bytes(&partition.static_row) + rows.sum::<usize>()) as u64
}

fn row_bytes(row: &Row) -> usize {
    let column = |data: &ColumnData| match data {
        ColumnData::Simple(cell) => cell.value.len() + 8,
        ColumnData::Complex(complex) => {
            complex.cells.iter().map(|element| element.path.len() + element.cell.value.len() + 8).sum()
        }
    };
    row.cells().iter().map(|(_, data)| column(data)).sum()
}
