//! What a batch is allowed to be.
//!
//! Texts of errors follow Cassandra 4.1 `cql3/statements/BatchStatement.java`.

use model::{ColumnData, Mutation, Row};

use super::change::Change;
use super::using::Using;
use crate::CqlError;
use crate::error::invalid;
use crate::syntax::BatchKind;

/// From where on a batch is too large; `None`: nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchLimits {
    /// A batch of several partitions with more bytes than this gives a warning.
    pub warn_bytes: Option<u64>,
    /// One with more than this is refused.
    pub fail_bytes: Option<u64>,
    /// An unlogged batch of more partitions gives a warning.
    pub unlogged_partitions: Option<usize>,
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
    /// Says what is to be said of a batch's size.
    ///
    /// # Errors
    /// It is too large.
    pub fn check(
        &self,
        kind: BatchKind,
        mutations: &[Mutation],
        warnings: &mut Vec<String>,
    ) -> Result<(), CqlError> {
        if mutations.len() <= 1 {
            return Ok(());
        }
        let tables = || {
            let mut names: Vec<String> =
                mutations.iter().map(|mutation| mutation.schema.full_name()).collect();
            names.sort_unstable();
            names.dedup();
            (if names.len() == 1 { "" } else { "s" }, names.join(", "))
        };
        if self.warn_bytes.is_some() || self.fail_bytes.is_some() {
            let bytes: u64 = mutations.iter().map(data_bytes).sum();
            if self.fail_bytes.is_some_and(|limit| bytes > limit) {
                return invalid!("Batch too large");
            }
            if let Some(limit) = self.warn_bytes.filter(|limit| bytes > *limit) {
                warnings.push(format!(
                    "Batch for [{}] is of size {bytes}, exceeding specified threshold of {limit} by {}.",
                    tables().1,
                    bytes - limit
                ));
            }
        }
        let is_spread = self.unlogged_partitions.is_some_and(|limit| mutations.len() > limit);
        if kind != BatchKind::Logged && is_spread {
            let (plural, names) = tables();
            warnings.push(format!(
                "Unlogged batch covering {} partitions detected against table{plural} [{names}]. You should use a \
                 logged batch for atomicity, or asynchronous writes for performance.",
                mutations.len()
            ));
        }
        Ok(())
    }
}

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
