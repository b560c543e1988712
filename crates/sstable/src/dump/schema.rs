//! Derives a table schema from the header of an SSTable, because `sstabledump` gets files and no schema.

use std::fmt;
use std::sync::Arc;

use model::types::{CqlType, TypeError};
use model::{TableSchema, schema::SchemaError};

use crate::component::statistics::{HeaderColumn, SerializationHeader};

/// Why a header in Statistics.db does not describe a table.
#[derive(Debug)]
pub enum HeaderError {
    /// This build does not support the type of a column.
    Type {
        class: String,
        error: TypeError,
    },
    /// The name of a column is not UTF-8.
    Name {
        bytes: Vec<u8>,
    },
    Schema(SchemaError),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { class, error } => write!(f, "a column has type {class}: {error}"),
            Self::Name { bytes } => write!(f, "a column's name is not UTF-8: {}", bytes.escape_ascii()),
            Self::Schema(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HeaderError {}

/// The table with the columns with which Data.db was written. The header has no names of key columns and of
/// the table, so the table gets a fixed name, and key columns get names that no other column has.
pub fn schema_of_header(header: &SerializationHeader) -> Result<Arc<TableSchema>, HeaderError> {
    let columns = || header.static_columns.iter().chain(&header.regular_columns);
    let mut marks = String::new();
    while columns().any(|column| column.name.ends_with(format!("{marks})").as_bytes())) {
        marks.push('\'');
    }
    let partition_key = |number: usize, _: usize| format!("(partition key {number}{marks})");
    let clustering = |number: usize| format!("(clustering {number}{marks})");
    build(header, ("sstable", "rows"), &partition_key, &clustering)
}

/// As [`schema_of_header`], with names that are convenient in CQL. The key columns are `key` (`key1`, `key2`,
/// … if there are several) and `clustering1`, `clustering2`, …; an underscore is appended if another column
/// has that name.
pub fn named_schema(
    header: &SerializationHeader,
    keyspace: &str,
    table: &str,
) -> Result<Arc<TableSchema>, HeaderError> {
    let columns = || header.static_columns.iter().chain(&header.regular_columns);
    let free = |mut name: String| {
        while columns().any(|column| column.name == name.as_bytes()) {
            name.push('_');
        }
        name
    };
    let partition_key = |number: usize, count: usize| match count {
        1 => free("key".to_owned()),
        _ => free(format!("key{}", number + 1)),
    };
    let clustering = |number: usize| free(format!("clustering{}", number + 1));
    build(header, (keyspace, table), &partition_key, &clustering)
}

fn build(
    header: &SerializationHeader,
    (keyspace, table): (&str, &str),
    partition_key: &dyn Fn(usize, usize) -> String,
    clustering: &dyn Fn(usize) -> String,
) -> Result<Arc<TableSchema>, HeaderError> {
    let mut builder = TableSchema::builder(keyspace, table);
    let keys = match type_of(&header.key_type)? {
        CqlType::Composite(components) => components.to_vec(),
        other => vec![other],
    };
    let count = keys.len();
    for (number, ty) in keys.into_iter().enumerate() {
        builder = builder.partition_key(partition_key(number, count), ty);
    }
    for (number, class) in header.clustering_types.iter().enumerate() {
        builder = builder.clustering(clustering(number), type_of(class)?);
    }
    for column in &header.static_columns {
        builder = builder.static_column(name_of(column)?, type_of(&column.type_name)?);
    }
    for column in &header.regular_columns {
        builder = builder.regular(name_of(column)?, type_of(&column.type_name)?);
    }
    builder.build().map_err(HeaderError::Schema)
}

fn type_of(class: &str) -> Result<CqlType, HeaderError> {
    CqlType::from_java_name(class).map_err(|error| HeaderError::Type { class: class.to_owned(), error })
}

fn name_of(column: &HeaderColumn) -> Result<String, HeaderError> {
    String::from_utf8(column.name.clone()).map_err(|error| HeaderError::Name { bytes: error.into_bytes() })
}
