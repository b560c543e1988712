//! Validates writes, so that they can be stored and read back.
//!
//! Checked before a write is logged, so that the content of every memtable can be flushed. Lengths are
//! checked, because a file with a wrong length is unreadable. The caller checks that values are valid for
//! their types.

use model::{ColumnData, CqlType, Mutation, Row};

use crate::error::EngineError;

/// Limit of keys and clustering values in Cassandra and ScyllaDB.
pub const KEY_BYTES_MAX: usize = 65_535;

/// Returns an error if the mutation is invalid.
pub fn validate(mutation: &Mutation) -> Result<(), EngineError> {
    let schema = &mutation.schema;
    let key_bytes = mutation.key.bytes().len();
    if key_bytes == 0 || key_bytes > KEY_BYTES_MAX {
        return invalid(
            mutation,
            format!("a partition key of {key_bytes} bytes; 1 to {KEY_BYTES_MAX} are possible"),
        );
    }
    row(mutation, &mutation.partition.static_row)?;
    for written in mutation.partition.rows() {
        if written.key.len() != schema.clustering.len() {
            let columns = schema.clustering.len();
            return invalid(
                mutation,
                format!("a row key of {} values for {columns} columns", written.key.len()),
            );
        }
        for (value, column) in written.key.values().zip(&schema.clustering) {
            length(mutation, &column.name, &column.ty, value)?;
        }
        row(mutation, &written.row)?;
    }
    for change in mutation.partition.range_tombstones().changes() {
        for (value, column) in change.position.prefix.values().zip(&schema.clustering) {
            length(mutation, &column.name, &column.ty, value)?;
        }
    }
    Ok(())
}

fn row(mutation: &Mutation, row: &Row) -> Result<(), EngineError> {
    for (id, data) in row.cells() {
        let Some(column) = mutation.schema.column(*id) else {
            return invalid(mutation, format!("there is no column with number {}", id.0));
        };
        match data {
            ColumnData::Simple(cell) => {
                if !column.ty.is_counter() {
                    length(mutation, &column.name, &column.ty, &cell.value)?;
                }
            }
            ColumnData::Complex(complex) => {
                let path_type = column.ty.cell_path_type();
                for element in &complex.cells {
                    if let Some(ty) = path_type {
                        length(mutation, &column.name, ty, &element.path)?;
                    }
                    match column.ty.cell_value_type(&element.path) {
                        Some(ty) => length(mutation, &column.name, ty, &element.cell.value)?,
                        None => return invalid(mutation, format!("{} has no such field", column.name)),
                    }
                }
            }
        }
    }
    Ok(())
}

fn length(mutation: &Mutation, column: &str, ty: &CqlType, value: &[u8]) -> Result<(), EngineError> {
    match ty.sstable_fixed_len() {
        Some(fixed) if !value.is_empty() && value.len() != fixed => {
            invalid(mutation, format!("a value of {} bytes for {column}, which has {fixed}", value.len()))
        }
        _ => Ok(()),
    }
}

fn invalid<T>(mutation: &Mutation, what: String) -> Result<T, EngineError> {
    Err(EngineError::Invalid(format!("cannot write to {}: {what}", mutation.schema.full_name())))
}
