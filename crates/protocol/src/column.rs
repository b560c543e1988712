//! The name and type of a result's column or of a statement's bind marker.

use std::sync::Arc;

use model::types::CqlType;

/// A column of a result, or a bind marker of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of the table.
    pub keyspace: Arc<str>,
    /// The table that the column or bind marker belongs to.
    pub table: Arc<str>,
    /// The name: of the column, its alias, or `[limit]` and similar names of markers.
    pub name: String,
    /// Sent to clients without `Reversed` and without frozenness.
    pub column_type: CqlType,
}

impl ColumnSpec {
    /// A column of `keyspace.table`.
    pub fn new(keyspace: &str, table: &str, name: &str, column_type: CqlType) -> Self {
        Self { keyspace: keyspace.into(), table: table.into(), name: name.into(), column_type }
    }

    /// Whether all columns are of one table, so that the table's name is sent only once. False for an empty
    /// list.
    pub fn are_of_one_table(columns: &[Self]) -> bool {
        match columns {
            [] => false,
            [first, rest @ ..] => {
                rest.iter().all(|column| column.keyspace == first.keyspace && column.table == first.table)
            }
        }
    }
}
