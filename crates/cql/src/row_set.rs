//! A whole result in memory: of statements whose answer is small and made here.

use std::sync::Arc;

use model::CqlType;
use model::types::CqlValue;

use crate::ResultRows;
use crate::protocol::{ColumnSpec, ResultMetadata};

/// Rows of a result, each with one cell per column; `None` is null.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSet {
    pub columns: Vec<ColumnSpec>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl RowSet {
    /// Without rows. The columns are of a table that does not exist, as Cassandra calls it.
    pub(crate) fn new(keyspace: &str, table: &str, columns: &[(&str, CqlType)]) -> Self {
        let column = |(name, ty): &(&str, CqlType)| ColumnSpec::new(keyspace, table, name, ty.clone());
        Self { columns: columns.iter().map(column).collect(), rows: vec![] }
    }

    /// As one page of a result.
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
    /// A value is not of its column's type.
    pub(crate) fn push_cells(&mut self, values: impl IntoIterator<Item = Option<CqlValue>>) {
        let encode = |(value, column): (Option<CqlValue>, &ColumnSpec)| {
            value.map(|value| value.encode(&column.column_type).expect("the value is of its column's type"))
        };
        let row: Vec<_> = values.into_iter().zip(&self.columns).map(encode).collect();
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// # Panics
    /// A value is not of its column's type.
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = CqlValue>) {
        self.push_cells(values.into_iter().map(Some));
    }
}
