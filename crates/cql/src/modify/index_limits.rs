//! Limits of the values that secondary indexes take: a write with a longer value is refused, because no index
//! could find the row by it.
//!
//! Source of limits and messages: Cassandra 5.0 `index/internal/CassandraIndex.java`,
//! `index/sai/StorageAttachedIndex.java`, the defaults of its guardrails `sai_string_term_size` and
//! `sai_frozen_term_size`.

use model::{
    ColumnData, CqlType, IndexDefinition, IndexKind, IndexPart, IndexTerms, Mutation, Row, TableSchema,
};
use protocol::CqlError;

use crate::error::invalid;
use crate::function::{Similarity, floats_of};

/// A value of this size or more cannot be indexed by an index that is not storage-attached.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;
/// A storage-attached index warns of a larger term.
const TERM_WARN_BYTES: usize = 1024;
/// A storage-attached index refuses a larger term.
const TERM_FAIL_BYTES: usize = 8192;

/// Checks the values of a write against the indexes of its table.
///
/// # Errors
/// A value is too long for an index, or a vector cannot be compared with others.
pub(super) fn check(mutation: &Mutation, warnings: &mut Vec<String>) -> Result<(), CqlError> {
    let schema = &*mutation.schema;
    for index in &schema.indexes {
        let Ok(terms) = IndexTerms::new(schema, index) else { continue };
        let mut longest = 0;
        let partition = &mutation.partition;
        let rows = partition.rows().iter().map(|row| &row.row);
        for row in std::iter::once(&partition.static_row).chain(rows) {
            longest = longest.max(longest_value(schema, index, row));
            check_vector(schema, index, row)?;
        }
        check_length(schema, index, terms.term_type(), longest, warnings)?;
    }
    Ok(())
}

/// Refuses vectors that cannot be compared with the index's measure.
fn check_vector(schema: &TableSchema, index: &IndexDefinition, row: &Row) -> Result<(), CqlError> {
    let Some(column) = schema.column_named(&index.column) else { return Ok(()) };
    if !index.is_of_vectors(&column.ty) {
        return Ok(());
    }
    let CqlType::Vector { dimension, .. } = column.ty.without_reversed() else { return Ok(()) };
    match row.cell(column.id) {
        Some(ColumnData::Simple(cell)) if !cell.is_tombstone() => {
            Similarity::of_index(index).check(&floats_of(&cell.value, *dimension)?)
        }
        _ => Ok(()),
    }
}

/// Length of the longest indexed value of a row in bytes. Values of keys are limited elsewhere.
fn longest_value(schema: &TableSchema, index: &IndexDefinition, row: &Row) -> usize {
    let Some(column) = schema.column_named(&index.column) else { return 0 };
    match row.cell(column.id) {
        None => 0,
        Some(ColumnData::Simple(cell)) => cell.value.len(),
        Some(ColumnData::Complex(complex)) => {
            let is_set = matches!(column.ty, CqlType::Set { .. });
            let len = |path: usize, value: usize| match index.part {
                IndexPart::Keys => path,
                IndexPart::Entries => path + value,
                _ if is_set => path,
                _ => value,
            };
            let cells = complex.cells.iter().filter(|element| !element.cell.is_tombstone());
            cells.map(|element| len(element.path.len(), element.cell.value.len())).max().unwrap_or(0)
        }
    }
}

fn check_length(
    schema: &TableSchema,
    index: &IndexDefinition,
    term_type: &CqlType,
    bytes: usize,
    warnings: &mut Vec<String>,
) -> Result<(), CqlError> {
    if index.kind != IndexKind::StorageAttached {
        if bytes >= VALUE_BYTES_MAX {
            return invalid!(
                "Cannot index value of size {bytes} for index {} on {}({}) (maximum allowed size={VALUE_BYTES_MAX})",
                index.name,
                schema.full_name(),
                index.column
            );
        }
        return Ok(());
    }
    let is_whole = !matches!(term_type, CqlType::Text | CqlType::Ascii) && index.part != IndexPart::Entries;
    let guardrail = if is_whole { "sai_frozen_term_size" } else { "sai_string_term_size" };
    let is_vector = matches!(term_type.without_reversed(), CqlType::Vector { .. });
    let guardrail = if is_vector { "sai_vector_term_size" } else { guardrail };
    let (warn_bytes, fail_bytes) = if is_vector {
        (16 * TERM_WARN_BYTES, 4 * TERM_FAIL_BYTES)
    } else {
        (TERM_WARN_BYTES, TERM_FAIL_BYTES)
    };
    let text = |kind: &str, threshold: usize| {
        format!(
            "Guardrail {guardrail} violated: Value of column '{}' has size {bytes}, this exceeds the {kind} threshold of {threshold}.",
            index.column
        )
    };
    if bytes > fail_bytes {
        return Err(CqlError::Invalid(text("failure", fail_bytes)));
    }
    if bytes > warn_bytes {
        warnings.push(text("warning", warn_bytes));
    }
    Ok(())
}
