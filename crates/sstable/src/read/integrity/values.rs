//! Checks whether the values of a row are valid for the types of their columns. A scrub checks this by
//! default.
//!
//! As Cassandra's `Row.validateData`, it checks clustering values, cells and the keys of collections. Values
//! of counters are not checked; only the merge can interpret them.

use model::types::TypeError;
use model::{ClusteringPrefix, ColumnData, Row, TableSchema};

/// # Errors
/// The name of the column, and the error in its value.
pub(in crate::read) fn check(
    schema: &TableSchema,
    key: Option<&ClusteringPrefix>,
    row: &Row,
) -> Result<(), String> {
    let said = |column: &str, result: Result<(), TypeError>| {
        result.map_err(|error| format!("column {column} has a value that is not valid for its type: {error}"))
    };
    let keys = key.iter().flat_map(|key| key.values()).zip(&schema.clustering);
    for (value, column) in keys.filter(|(value, _)| !value.is_empty()) {
        said(&column.name, column.ty.validate(value))?;
    }
    for (id, data) in row.cells() {
        let Some(column) = schema.column(*id).filter(|column| !column.ty.is_counter()) else { continue };
        match data {
            ColumnData::Simple(cell) if cell.is_tombstone() => {}
            ColumnData::Simple(cell) => said(&column.name, column.ty.validate(&cell.value))?,
            ColumnData::Complex(complex) => {
                let path_type = column.ty.cell_path_type();
                for element in &complex.cells {
                    if let Some(ty) = path_type {
                        said(&column.name, ty.validate(&element.path))?;
                    }
                    let value_type = column.ty.cell_value_type(&element.path);
                    if let Some(ty) = value_type.filter(|_| !element.cell.is_tombstone()) {
                        said(&column.name, ty.validate(&element.cell.value))?;
                    }
                }
            }
        }
    }
    Ok(())
}
