//! The columns of one kind as Data.db numbers them, and where a cell's id stands among them.
//!
//! Data.db orders simple columns before complex ones, each by the bytes of the name: the order of
//! `TableSchema::columns`. A row in memory orders cells by column id, which is the same order until a column is
//! added to a table that exists.

use model::types::CqlType;
use model::{Column, ColumnId, ColumnKind, TableSchema};

use crate::component::statistics::HeaderColumn;

/// One column.
pub(super) struct DiskColumn {
    pub(super) name: String,
    /// The length of every value that is not empty, if it is not written. Elements of a collection or
    /// user-defined type always have theirs written: the format goes by the column's type, not the element's.
    pub(super) fixed_bytes: Option<usize>,
}

/// All columns of one kind.
pub(super) struct DiskColumns {
    pub(super) columns: Vec<DiskColumn>,
    /// By column id: the index in `columns`.
    index_of: Vec<Option<u16>>,
    /// Ids rise in disk order, so a row's cells need no sorting.
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

    /// Where the column stands; `None` if it was dropped or is of the other kind.
    #[inline]
    pub(super) fn index(&self, id: ColumnId) -> Option<u16> {
        self.index_of.get(id.0 as usize).copied().flatten()
    }
}

/// The columns of one kind for Statistics.db.
pub(super) fn header_columns(schema: &TableSchema, kind: ColumnKind) -> Vec<HeaderColumn> {
    let header = |column: &Column| HeaderColumn {
        name: column.name.clone().into_bytes(),
        type_name: column.ty.to_java_name(),
    };
    schema.columns_of(kind).map(header).collect()
}

/// The partition key's class; of several columns, a composite.
pub(super) fn key_type_name(schema: &TableSchema) -> String {
    match &schema.partition_key[..] {
        [only] => only.ty.to_java_name(),
        columns => CqlType::composite(columns.iter().map(|column| column.ty.clone())).to_java_name(),
    }
}
