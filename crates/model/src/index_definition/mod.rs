//! Definitions of secondary indexes, and the byte form of terms.
//!
//! An index maps a *term* to *postings*. A term is a value of the indexed column in a byte form that compares
//! with `memcmp` as the values compare in CQL ([`encode_term`]). What a posting is, and which terms data
//! have, is in `postings`.

mod analysis;
mod term;

use uuid::Uuid;

use crate::types::CqlType;

pub use term::{encode_entry, encode_term, entry_bounds, term_is_ordered};

/// Identifies an index: [`IndexDefinition::id`].
pub type IndexId = Uuid;

/// The kind of an index, which decides the statements that it serves and its form in `system_schema.indexes`.
/// The storage of all kinds is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Cassandra's built-in index: equality. `COMPOSITES` in `system_schema.indexes`.
    Secondary,
    /// Cassandra's storage-attached index (SAI): equality, ranges, several indexes together.
    StorageAttached,
    /// ScyllaDB's local index `((partition key), column)`: serves reads of one partition.
    Local,
}

/// The part of the column's value that is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexPart {
    /// The value of a column that is not a collection.
    Value,
    /// `keys(column)`: the keys of a map.
    Keys,
    /// `values(column)`: the elements of a list or set, the values of a map.
    Values,
    /// `entries(column)`: pairs of a map's key and value.
    Entries,
    /// `full(column)`: a frozen collection as one value.
    Full,
}

/// How texts are changed before they are compared, in the data and in the query alike. Only for `text` and
/// `ascii`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TermAnalysis {
    /// False: upper and lower case are equal.
    pub case_sensitive: bool,
    /// Unicode normalization form C.
    pub normalize: bool,
    /// Letters with diacritics are equal to their ASCII letters.
    pub ascii: bool,
}

impl TermAnalysis {
    /// Texts are compared as they are.
    pub const NONE: Self = Self { case_sensitive: true, normalize: false, ascii: false };

    /// Whether terms are the values unchanged.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Default for TermAnalysis {
    fn default() -> Self {
        Self::NONE
    }
}

/// Definition of a secondary index, part of its table's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Identifies the index in file names. An index that is dropped and created again gets another id, so
    /// files of the old one are never taken for those of the new one.
    pub id: IndexId,
    /// The name, unique in the keyspace.
    pub name: String,
    /// The form of CREATE INDEX that made it; what a query may ask for depends on it.
    pub kind: IndexKind,
    /// Name of the indexed column: partition key, clustering, static or regular.
    pub column: String,
    /// The indexed part of the column: the value, or the keys, values or entries of a collection.
    pub part: IndexPart,
    /// The changes of a text before it is indexed or searched for.
    pub analysis: TermAnalysis,
    /// The options of `system_schema.indexes`, sorted by name.
    pub options: Vec<(String, String)>,
}

impl IndexDefinition {
    /// An index of a column's value without options.
    pub fn new(id: IndexId, name: impl Into<String>, kind: IndexKind, column: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            kind,
            column: column.into(),
            part: IndexPart::Value,
            analysis: TermAnalysis::NONE,
            options: vec![],
        }
    }

    /// Whether the index is for searches of nearest vectors, which no term answers: a storage-attached index
    /// of a column of vectors.
    pub fn is_of_vectors(&self, column: &CqlType) -> bool {
        self.kind == IndexKind::StorageAttached && matches!(column.without_reversed(), CqlType::Vector { .. })
    }

    /// The same index of another part of the column.
    #[must_use]
    pub fn of_part(self, part: IndexPart) -> Self {
        Self { part, ..self }
    }

    /// The type of the terms' values for a column of this type: the column's type, or the type of its
    /// elements, keys or values; for entries a tuple of key and value. Errors: the reason why there is no
    /// such index.
    pub fn term_type(&self, column: &CqlType) -> Result<CqlType, String> {
        let ty = column.without_reversed();
        if ty.is_counter() {
            return Err(format!("{} is a counter, which cannot be indexed", self.column));
        }
        Ok(match (self.part, ty) {
            (IndexPart::Value | IndexPart::Full, ty) if !ty.is_multi_cell() => ty.clone(),
            (IndexPart::Values, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                CqlType::clone(element)
            }
            (IndexPart::Values, CqlType::Map { entry, .. }) => entry.1.clone(),
            (IndexPart::Keys, CqlType::Map { entry, .. }) => entry.0.clone(),
            (IndexPart::Entries, CqlType::Map { entry, .. }) => {
                CqlType::tuple([entry.0.clone(), entry.1.clone()])
            }
            _ => {
                let (column, part) = (&self.column, self.part);
                return Err(format!("{column} of type {} has no {part:?}", ty.to_java_name()));
            }
        })
    }
}
