//! Tables `WITH COMPACT STORAGE`: what they have beside the columns of their definition.
//!
//! Cassandra keeps these tables from its time before CQL 3. A **static** one has no clustering columns in its
//! definition. Its other columns are stored as static columns, and it has a clustering column and a regular
//! column that CQL hides, because partitions could once have columns of any name. A **dense** one has
//! clustering columns and exactly one regular column; if the definition has none, the column has the type
//! `empty` and is hidden. In both, a row exists only while it has a value: INSERT writes no row liveness. In
//! a dense table, the last values of a clustering key may be null.
//!
//! `ALTER TABLE … DROP COMPACT STORAGE` only changes [`TableSchema::compact`]: the hidden columns appear, and
//! stored data stay as they are. Source: Cassandra 5.0 `TableMetadata.CompactTableMetadata`.

use crate::schema::{Column, ColumnKind, CompactStorage, KeyColumn, TableSchema};
use crate::types::CqlType;
use crate::view_definition::HIDDEN_COLUMN;

impl TableSchema {
    /// Whether the table has COMPACT STORAGE.
    #[inline]
    pub fn is_compact(&self) -> bool {
        self.compact != CompactStorage::No
    }

    /// Whether the table is compact and has no clustering columns in its definition: its columns are static.
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
            CompactStorage::No => self.view.is_some() && column.name == HIDDEN_COLUMN,
            CompactStorage::Static => column.kind == ColumnKind::Regular,
            CompactStorage::Dense => column.ty == CqlType::Empty,
        }
    }

    /// As [`Self::column_named`], without hidden columns.
    pub fn defined_column(&self, name: &str) -> Option<&Column> {
        self.column_named(name).filter(|column| !self.is_hidden(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClusteringPrefix, Position};

    #[test]
    fn null_sorts_before_all_values_and_inside_its_prefix() {
        let table = TableSchema::builder("ks", "t")
            .partition_key("p", CqlType::Int)
            .clustering("a", CqlType::Text)
            .clustering("b", CqlType::reversed(CqlType::Text))
            .clustering("c", CqlType::Text)
            .regular("v", CqlType::Int)
            .compact(CompactStorage::Dense)
            .build()
            .unwrap();
        let prefix = |values: &[&str]| ClusteringPrefix::new(values.iter().map(|value| value.as_bytes()));
        let key = |values: &[&str]| prefix(values).padded(3);
        let rising = [
            Position::START,
            Position::before(prefix(&["x"])),
            Position::before(key(&["x"])),
            Position::at(key(&["x"])),
            Position::after(key(&["x"])),
            Position::before(prefix(&["x", "z"])),
            Position::at(key(&["x", "z"])),
            Position::at(key(&["x", "z", ""])),
            Position::at(key(&["x", "z", "a"])),
            Position::after(prefix(&["x", "z"])),
            Position::at(key(&["x", ""])),
            Position::at(key(&["x", "", "a"])),
            Position::after(prefix(&["x"])),
            Position::at(key(&["y"])),
            Position::END,
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(table.compare_positions(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        let short = key(&["x"]);
        assert_eq!((short.len(), short.values().count(), short.has_nulls()), (3, 1, true));
        let read = ClusteringPrefix::from_bytes(short.as_bytes()).unwrap().padded(3);
        assert_eq!(read, short);
        assert_eq!(short.truncated(2), prefix(&["x"]).padded(2));
    }

    #[test]
    fn a_compact_table_has_one_regular_column() {
        let builder = TableSchema::builder("ks", "t").partition_key("p", CqlType::Int);
        let dense = builder.clone().clustering("c", CqlType::Int).compact(CompactStorage::Dense);
        assert!(dense.clone().build().is_err());
        let hidden = dense.regular("value", CqlType::Empty).build().unwrap();
        assert!(
            hidden.is_hidden(hidden.compact_value().unwrap()) && hidden.defined_column("value").is_none()
        );
        assert!(builder.regular("v", CqlType::Int).compact(CompactStorage::Static).build().is_err());
    }
}
