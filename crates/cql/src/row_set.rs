//! A complete result in memory, for statements with small results that do not come from storage.

use std::sync::Arc;

use model::CqlType;
use model::types::CqlValue;
use protocol::{ColumnSpec, ResultMetadata};

use crate::ResultRows;

/// Rows of a result, each with one cell for each column; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSet {
    pub columns: Vec<ColumnSpec>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl RowSet {
    /// Creates a result without rows. `keyspace` and `table` are the names in Cassandra's metadata for this
    /// result, even if no such table exists.
    pub(crate) fn new(keyspace: &str, table: &str, columns: &[(&str, CqlType)]) -> Self {
        let column = |(name, ty): &(&str, CqlType)| ColumnSpec::new(keyspace, table, name, ty.clone());
        Self { columns: columns.iter().map(column).collect(), rows: vec![] }
    }

    /// Converts the rows to a result of one page.
    pub fn result_rows(&self) -> ResultRows {
        let mut rows = ResultRows::new(Arc::new(ResultMetadata::new(&self.columns)));
        for row in &self.rows {
            row.iter().for_each(|cell| rows.cell(cell.as_deref()));
            rows.end_row();
        }
        rows
    }

    /// Adds a row; `None` is null.
    ///
    /// # Panics
    /// A value does not have the type of its column, or the number of values is not that of the columns.
    pub(crate) fn push_cells(&mut self, values: impl IntoIterator<Item = Option<CqlValue>>) {
        let encode = |(value, column): (Option<CqlValue>, &ColumnSpec)| {
            value.map(|value| value.encode(&column.column_type).expect("the value is of its column's type"))
        };
        let row: Vec<_> = values.into_iter().zip(&self.columns).map(encode).collect();
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Adds a row without nulls.
    ///
    /// # Panics
    /// As `Self::push_cells`.
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = CqlValue>) {
        self.push_cells(values.into_iter().map(Some));
    }
}
