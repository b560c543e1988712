//! Statements on secondary indexes.

use super::{Ident, Property, QualifiedName, Span};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// `CREATE CUSTOM INDEX`
    pub is_custom: bool,
    pub if_not_exists: bool,
    /// `None`: the name is made from the names of the table and of the column.
    pub name: Option<QualifiedName>,
    pub table: QualifiedName,
    /// May be empty, and may name a column twice; the planner refuses that.
    pub targets: Vec<IndexTarget>,
    /// The string after USING.
    pub class: Option<String>,
    pub properties: Vec<Property>,
}

/// One item in the parentheses after the table's name.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexTarget {
    Column {
        part: TargetPart,
        column: Ident,
    },
    /// `(a, b)`: the partition key, as the first item of a local index of ScyllaDB.
    PartitionKey {
        columns: Vec<Ident>,
        span: Span,
    },
}

/// The indexed part of a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// `column`
    Simple,
    /// `values(column)`
    Values,
    /// `keys(column)`
    Keys,
    /// `entries(column)`
    Entries,
    /// `full(column)`
    Full,
}

impl TargetPart {
    /// The word before the parenthesis; empty for [`Self::Simple`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "",
            Self::Values => "values",
            Self::Keys => "keys",
            Self::Entries => "entries",
            Self::Full => "full",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct DropIndex {
    pub if_exists: bool,
    pub name: QualifiedName,
}
