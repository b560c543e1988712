//! Columns by name, for WHERE and SELECT.

use model::{Column, ColumnId, ColumnKind, CqlType, TableSchema};
use protocol::CqlError;

use crate::error::undefined_column;

/// Reference to a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnRef {
    /// Index in the partition key.
    PartitionKey(usize),
    /// Index among the clustering columns.
    Clustering(usize),
    /// A static column.
    Static(ColumnId),
    /// A regular column.
    Regular(ColumnId),
}

/// Whether the column has hashes of passwords. No statement may select it, filter by it or read its write
/// times.
fn is_secret(schema: &TableSchema, column: &str) -> bool {
    column == "salted_hash" && schema.keyspace == "system_auth"
}

impl ColumnRef {
    /// Returns the column with a name.
    ///
    /// # Errors
    /// The table has no column with the name, or the column is secret.
    pub fn named(schema: &TableSchema, name: &str) -> Result<Self, CqlError> {
        if let Some(at) = schema.partition_key.iter().position(|column| column.name == name) {
            return Ok(Self::PartitionKey(at));
        }
        if let Some(at) = schema.defined_clustering().iter().position(|column| column.name == name) {
            return Ok(Self::Clustering(at));
        }
        match schema.defined_column(name) {
            Some(_) if is_secret(schema, name) => {
                let text = format!("{name} of {} is not shown to any role", schema.full_name());
                Err(CqlError::Unauthorized(text))
            }
            Some(column) => Ok(Self::of(column)),
            None => undefined_column(schema, name),
        }
    }

    /// Returns the reference to a static or regular column.
    pub fn of(column: &Column) -> Self {
        match column.kind {
            ColumnKind::Static => Self::Static(column.id),
            ColumnKind::Regular => Self::Regular(column.id),
        }
    }

    /// The columns of `SELECT *`: partition key columns, clustering columns, then static columns by name and
    /// regular columns by name. Source: Cassandra's `TableMetadata.allColumnsInSelectOrder`.
    pub fn all(schema: &TableSchema) -> Vec<Self> {
        let mut all: Vec<Self> = (0..schema.partition_key.len()).map(Self::PartitionKey).collect();
        all.extend((0..schema.defined_clustering().len()).map(Self::Clustering));
        for kind in [ColumnKind::Static, ColumnKind::Regular] {
            let is_shown = |column: &&Column| !is_secret(schema, &column.name) && !schema.is_hidden(column);
            let mut columns: Vec<&Column> = schema.columns_of(kind).filter(is_shown).collect();
            columns.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
            all.extend(columns.into_iter().map(Self::of));
        }
        all
    }

    /// Returns the static or regular column; `None` for key columns. `schema` must be the schema of the
    /// column's table.
    fn cells(self, schema: &TableSchema) -> Option<&Column> {
        match self {
            Self::Static(id) | Self::Regular(id) => schema.column(id),
            Self::PartitionKey(_) | Self::Clustering(_) => None,
        }
    }

    /// Returns the column's type, without `Reversed`.
    pub fn ty(self, schema: &TableSchema) -> &CqlType {
        let ty = match self {
            Self::PartitionKey(at) => &schema.partition_key[at].ty,
            Self::Clustering(at) => &schema.clustering[at].ty,
            _ => &self.cells(schema).expect("a column of this table").ty,
        };
        ty.without_reversed()
    }

    pub fn name(self, schema: &TableSchema) -> &str {
        match self {
            Self::PartitionKey(at) => &schema.partition_key[at].name,
            Self::Clustering(at) => &schema.clustering[at].name,
            _ => &self.cells(schema).expect("a column of this table").name,
        }
    }

    pub fn is_key(self) -> bool {
        matches!(self, Self::PartitionKey(_) | Self::Clustering(_))
    }
}
