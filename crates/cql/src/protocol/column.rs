//! What a result's column or a statement's bind marker is called, and its type.

use std::sync::Arc;

use model::types::CqlType;

/// A column of a result, or a bind marker of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub name: String,
    /// Clients see neither `Reversed` nor frozenness.
    pub column_type: CqlType,
}

impl ColumnSpec {
    pub fn new(keyspace: &str, table: &str, name: &str, column_type: CqlType) -> Self {
        Self { keyspace: keyspace.into(), table: table.into(), name: name.into(), column_type }
    }

    /// Whether all are of one table, so that its name needs to be sent only once; false for none.
    pub fn are_of_one_table(columns: &[Self]) -> bool {
        match columns {
            [] => false,
            [first, rest @ ..] => {
                rest.iter().all(|column| column.keyspace == first.keyspace && column.table == first.table)
            }
        }
    }
}
