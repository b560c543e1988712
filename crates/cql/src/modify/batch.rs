//! Rules and size limits of batches.
//!
//! Error messages follow Cassandra 4.1 `cql3/statements/BatchStatement.java`.

use model::{ColumnData, Mutation, PartitionKey, Row, TableSchema};
use protocol::CqlError;
use syntax::BatchKind;

use super::change::Change;
use super::using::Using;
use crate::error::invalid;
use crate::limits::{BatchLimits, BatchSeverity};

/// One write of a batch, with its size for the limits.
#[derive(Clone, Copy, Debug)]
pub struct SizedWrite<'a> {
    pub schema: &'a TableSchema,
    pub key: &'a PartitionKey,
    pub bytes: u64,
}

impl<'a> SizedWrite<'a> {
    /// `counters` is the number of counter updates that the mutation does not contain yet.
    pub fn new(mutation: &'a Mutation, counters: usize) -> Self {
        let bytes = data_bytes(mutation) + (counters * COUNTER_BYTES) as u64;
        Self { schema: &mutation.schema, key: &mutation.key, bytes }
    }
}

/// Checks that a batch of this kind may combine these changes.
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

/// Checks a batch against the limits. A large batch is logged and adds a warning for the client. The
/// check must run before any write of the batch.
///
/// As in Cassandra, a batch for a single partition of a keyspace may have any size.
///
/// # Errors
/// The batch is larger than `fail_bytes`.
pub fn check_size(
    limits: &BatchLimits,
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
    if bytes > limits.fail_bytes {
        let text = size_text(&names(writes), bytes, limits.fail_bytes, show_bytes);
        log(BatchSeverity::TooLarge, &format!("{text} (see batch_size_fail_threshold)"));
        return invalid!("Batch too large");
    }
    if bytes > limits.warn_bytes {
        let names = names(writes);
        log(BatchSeverity::Large, &size_text(&names, bytes, limits.warn_bytes, show_bytes));
        warnings.push(size_text(&names, bytes, limits.warn_bytes, |bytes| bytes.to_string()));
    }
    if kind != BatchKind::Logged && writes.len() as u64 > limits.unlogged_partitions {
        let mut keys: Vec<&[u8]> = writes.iter().map(|write| write.key.bytes()).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.len() as u64 > limits.unlogged_partitions {
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

/// Full names of a batch's tables, without duplicates.
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

/// Formats a size as in Cassandra's log, such as `5.000KiB`.
fn show_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..0x10_0000 => format!("{:.3}KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.3}MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.3}GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// Size of a counter update: the increment and its timestamp.
const COUNTER_BYTES: usize = 16;

/// Counts the bytes of keys and values, plus eight bytes for the timestamp of each cell.
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
