//! The static or the regular columns of a table in the order of Data.db, with a map from column ids to this
//! order.
//!
//! Data.db orders simple columns before complex ones, each kind by the bytes of the name, as
//! `TableSchema::columns` does. A row in memory orders its cells by column id. Both orders are the same until
//! a column is added to an existing table.

use model::types::CqlType;
use model::{Column, ColumnId, ColumnKind, TableSchema};

use crate::component::statistics::HeaderColumn;

/// A column as Data.db stores it.
pub(super) struct DiskColumn {
    pub(super) name: String,
    /// The length of every value that is not empty; `None` if each value stores its length. Elements of
    /// collections and fields of user-defined types always store their lengths: the format uses the column's
    /// type, not the element's.
    pub(super) fixed_bytes: Option<usize>,
}

/// The static or the regular columns of a table.
pub(super) struct DiskColumns {
    pub(super) columns: Vec<DiskColumn>,
    /// Index into `columns` by column id.
    index_of: Vec<Option<u16>>,
    /// Whether ids rise in disk order, so that the cells of a row need no sorting.
    pub(super) ids_rise: bool,
}

impl DiskColumns {
    pub(super) fn new(schema: &TableSchema, kind: ColumnKind) -> Self {
        let mut index_of = vec![None; schema.column_id_bound() as usize];
        for (column, index) in schema.columns_of(kind).zip(0u16..) {
            index_of[column.id.0 as usize] = Some(index);
        }
        let columns = schema.columns_of(kind).map(|column| DiskColumn {
            name: column.name.clone(),
            fixed_bytes: if column.is_complex() { None } else { column.ty.sstable_fixed_len() },
        });
        let ids_rise = schema.columns_of(kind).is_sorted_by_key(|column| column.id);
        Self { columns: columns.collect(), index_of, ids_rise }
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Index of the column; `None` if it was dropped or is of the other kind.
    #[inline]
    pub(super) fn index(&self, id: ColumnId) -> Option<u16> {
        self.index_of.get(id.0 as usize).copied().flatten()
    }
}

/// The static or the regular columns, for Statistics.db.
pub(super) fn header_columns(schema: &TableSchema, kind: ColumnKind) -> Vec<HeaderColumn> {
    let header = |column: &Column| HeaderColumn {
        name: column.name.clone().into_bytes(),
        type_name: column.ty.to_java_name(),
    };
    schema.columns_of(kind).map(header).collect()
}

/// The class name of the partition key; a composite if the key has several columns.
pub(super) fn key_type_name(schema: &TableSchema) -> String {
    match &schema.partition_key[..] {
        [only] => only.ty.to_java_name(),
        columns => CqlType::composite(columns.iter().map(|column| column.ty.clone())).to_java_name(),
    }
}
