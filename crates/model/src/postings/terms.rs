//! The terms of data under an index: of a partition key, a static row, or a row.

use std::sync::Arc;

use crate::cell::Cell;
use crate::clustering::ClusteringKey;
use crate::index_definition::{IndexDefinition, IndexPart, TermAnalysis, encode_entry, encode_term};
use crate::key::{PartitionKey, split_composite_key};
use crate::row::{ColumnData, Row};
use crate::schema::{ColumnId, ColumnKind, SchemaError, TableSchema};
use crate::types::{CollectionIter, CqlType, MapIter, TupleIter};

/// The place of an indexed column in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexTarget {
    /// The column of the partition key with this number.
    PartitionKey(usize),
    /// The clustering column with this number.
    Clustering(usize),
    /// The static column with this id.
    Static(ColumnId),
    /// The regular column with this id.
    Regular(ColumnId),
}

/// An index together with its table: returns the terms of data.
#[derive(Clone, Debug)]
pub struct IndexTerms {
    index: Arc<IndexDefinition>,
    target: IndexTarget,
    /// Whether the partition key is a composite.
    is_composite: bool,
    column_type: CqlType,
    term_type: CqlType,
    analysis: TermAnalysis,
}

impl IndexTerms {
    /// Errors: the table has no such column, or the column's type does not have the indexed part.
    pub fn new(schema: &TableSchema, index: &Arc<IndexDefinition>) -> Result<Self, SchemaError> {
        let fail = |what: String| {
            Err(SchemaError(format!("table {}: index {}: {what}", schema.full_name(), index.name)))
        };
        let name = &index.column;
        let of_key = |keys: &[crate::KeyColumn]| keys.iter().position(|key| key.name == *name);
        let (target, column_type) = if let Some(at) = of_key(&schema.partition_key) {
            (IndexTarget::PartitionKey(at), &schema.partition_key[at].ty)
        } else if let Some(at) = of_key(&schema.clustering) {
            (IndexTarget::Clustering(at), &schema.clustering[at].ty)
        } else if let Some(column) = schema.column_named(name) {
            let target = match column.kind {
                ColumnKind::Static => IndexTarget::Static(column.id),
                ColumnKind::Regular => IndexTarget::Regular(column.id),
            };
            (target, &column.ty)
        } else {
            return fail(format!("the table has no column {name}"));
        };
        let column_type = column_type.without_reversed().clone();
        let term_type = match index.term_type(&column_type) {
            Ok(term_type) => term_type,
            Err(why) => return fail(why),
        };
        Ok(Self {
            index: index.clone(),
            target,
            is_composite: schema.partition_key.len() > 1,
            column_type,
            term_type,
            analysis: index.analysis,
        })
    }

    /// The index whose terms these are.
    pub fn index(&self) -> &Arc<IndexDefinition> {
        &self.index
    }

    /// The indexed column, resolved in the table's schema.
    pub fn target(&self) -> IndexTarget {
        self.target
    }

    /// The type of the values that a query compares: the column's type, or the type of elements, keys or
    /// values; for entries a tuple of key and value.
    pub fn term_type(&self) -> &CqlType {
        &self.term_type
    }

    /// Whether postings name whole partitions: the column is static or part of the partition key.
    pub fn is_per_partition(&self) -> bool {
        matches!(self.target, IndexTarget::PartitionKey(_) | IndexTarget::Static(_))
    }

    /// The term of a value of [`Self::term_type`], serialized.
    pub fn term(&self, value: &[u8]) -> Vec<u8> {
        if self.index.part == IndexPart::Entries {
            let mut fields = TupleIter::new(value).map(|field| field.ok().flatten().unwrap_or_default());
            return self.entry(fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        }
        encode_term(&self.term_type, value, self.analysis)
    }

    /// The term of an entry of the map.
    pub fn entry(&self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let CqlType::Map { entry, .. } = &self.column_type else { return vec![] };
        let value_term = encode_term(&entry.1, value, self.analysis);
        encode_entry(&self.key_term(key), &value_term)
    }

    /// The term of a map's key, for [`crate::index::entry_bounds`].
    pub fn key_term(&self, key: &[u8]) -> Vec<u8> {
        let CqlType::Map { entry, .. } = &self.column_type else { return vec![] };
        encode_term(&entry.0, key, self.analysis)
    }

    /// Calls `each` with the term of a partition key. No call if the index is of another kind of column.
    pub fn of_partition_key(&self, key: &PartitionKey, each: &mut impl FnMut(Vec<u8>)) {
        let IndexTarget::PartitionKey(at) = self.target else { return };
        if !self.is_composite {
            return self.of_value(key.bytes(), each);
        }
        if let Some(value) = split_composite_key(key.bytes()).ok().and_then(|values| values.get(at).copied())
        {
            self.of_value(value, each);
        }
    }

    /// Calls `each` with the terms of a static row. No call if the index is of another kind of column.
    pub fn of_static_row(&self, row: &Row, each: &mut impl FnMut(Vec<u8>)) {
        if let IndexTarget::Static(id) = self.target
            && let Some(data) = row.cell(id)
        {
            self.of_data(data, each);
        }
    }

    /// Calls `each` with the terms of a row, in any order, possibly one of them twice. No call if the index
    /// is of another kind of column, or the row has no value.
    pub fn of_row(&self, key: &ClusteringKey, row: &Row, each: &mut impl FnMut(Vec<u8>)) {
        match self.target {
            IndexTarget::Regular(id) => {
                if let Some(data) = row.cell(id) {
                    self.of_data(data, each);
                }
            }
            IndexTarget::Clustering(at) if has_data(row) => {
                if let Some(value) = key.values().nth(at) {
                    self.of_value(value, each);
                }
            }
            _ => (),
        }
    }

    fn of_data(&self, data: &ColumnData, each: &mut impl FnMut(Vec<u8>)) {
        match data {
            ColumnData::Simple(cell) => {
                if has_value(cell) {
                    self.of_value(&cell.value, each);
                }
            }
            ColumnData::Complex(complex) => {
                for element in complex.cells.iter().filter(|element| has_value(&element.cell)) {
                    self.of_element(&element.path, &element.cell.value, each);
                }
            }
        }
    }

    fn of_element(&self, path: &[u8], value: &[u8], each: &mut impl FnMut(Vec<u8>)) {
        match (&self.column_type, self.index.part) {
            (CqlType::Set { .. }, _) | (CqlType::Map { .. }, IndexPart::Keys) => each(self.term(path)),
            (CqlType::Map { .. }, IndexPart::Entries) => each(self.entry(path, value)),
            _ => each(self.term(value)),
        }
    }

    /// The terms of a value that is stored as one cell or in a key.
    fn of_value(&self, value: &[u8], each: &mut impl FnMut(Vec<u8>)) {
        if self.index.is_of_vectors(&self.column_type) {
            return;
        }
        match self.index.part {
            IndexPart::Value | IndexPart::Full => each(self.term(value)),
            IndexPart::Keys | IndexPart::Values | IndexPart::Entries => match &self.column_type {
                CqlType::Map { .. } => {
                    for (key, value) in MapIter::new(value).into_iter().flatten().flatten() {
                        self.of_element(key.unwrap_or_default(), value.unwrap_or_default(), each);
                    }
                }
                _ => {
                    for element in CollectionIter::new(value).into_iter().flatten().flatten() {
                        let element = element.unwrap_or_default();
                        self.of_element(element, element, each);
                    }
                }
            },
        }
    }
}

/// Whether the cell has a value: it is not a tombstone, and its value was not removed after expiry. A cell
/// whose TTL is over but that still has its value counts.
fn has_value(cell: &Cell) -> bool {
    !cell.is_tombstone() && !cell.is_expired()
}

/// Whether the row may be live: it has a marker or a value.
fn has_data(row: &Row) -> bool {
    !row.liveness.is_none()
        || row.cells().iter().any(|(_, data)| match data {
            ColumnData::Simple(cell) => has_value(cell),
            ColumnData::Complex(complex) => complex.cells.iter().any(|element| has_value(&element.cell)),
        })
}
