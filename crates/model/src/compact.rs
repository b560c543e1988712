//! Tables `WITH COMPACT STORAGE`: what they have beside the columns of their definition.
//!
//! Cassandra keeps these tables from its time before CQL 3. A **static** one has no clustering columns in its
//! definition. Its other columns are stored as static columns, and it has a clustering column and a regular
//! column that CQL hides, because partitions could once have columns of any name. A **dense** one has
//! clustering columns and exactly one regular column; if the definition has none, the column has the type
//! `empty` and is hidden. In both, a row exists only while it has a value: INSERT writes no row liveness. In a
//! dense table, the last values of a clustering key may be null.
//!
//! `ALTER TABLE … DROP COMPACT STORAGE` only changes [`TableSchema::compact`]: the hidden columns appear, and
//! stored data stay as they are. Source: Cassandra 5.0 `TableMetadata.CompactTableMetadata`.

use crate::schema::{Column, ColumnKind, KeyColumn, TableSchema};
use crate::types::CqlType;

/// Whether a table has COMPACT STORAGE, and its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactStorage {
    #[default]
    No,
    /// No clustering columns in the definition.
    Static,
    /// Clustering columns, and one regular column.
    Dense,
}

impl TableSchema {
    /// Whether the table has COMPACT STORAGE.
    #[inline]
    pub fn is_compact(&self) -> bool {
        self.compact != CompactStorage::No
    }

    #[inline]
    pub fn is_static_compact(&self) -> bool {
        self.compact == CompactStorage::Static
    }

    /// Whether the last values of a row's clustering key may be null.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.compact == CompactStorage::Dense
    }

    /// The only regular column of a dense table.
    pub fn compact_value(&self) -> Option<&Column> {
        self.columns_of(ColumnKind::Regular).next().filter(|_| self.is_dense())
    }

    /// The clustering columns of the definition, without a hidden one.
    pub fn defined_clustering(&self) -> &[KeyColumn] {
        if self.is_static_compact() { &[] } else { &self.clustering }
    }

    /// Whether statements cannot name the static or regular column.
    pub fn is_hidden(&self, column: &Column) -> bool {
        match self.compact {
            CompactStorage::No => false,
            CompactStorage::Static => column.kind == ColumnKind::Regular,
            CompactStorage::Dense => column.ty == CqlType::Empty,
        }
    }

    /// As [`Self::column_named`], without hidden columns.
    pub fn defined_column(&self, name: &str) -> Option<&Column> {
        self.column_named(name).filter(|column| !self.is_hidden(column))
    }
}
