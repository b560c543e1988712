//! Names of keyspaces, tables, columns, types and indexes, read from the server's schema tables.

use std::collections::BTreeMap;

use super::failure::Failure;
use super::session::{Session, texts};
use super::style::Style;

/// The schema's names, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub keyspaces: BTreeMap<String, KeyspaceNames>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceNames {
    pub tables: BTreeMap<String, Vec<ColumnName>>,
    pub types: Vec<String>,
    pub indexes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    pub name: String,
    /// `partition_key`, `clustering`, `static` or `regular`.
    pub kind: String,
}

impl Names {
    /// Reads the names from the server. Schema tables that the server does not have are skipped.
    ///
    /// # Errors
    /// The connection broke.
    pub fn load(session: &mut Session) -> Result<Self, Failure> {
        let mut names = Self::default();
        for schema in ["system_schema", "system_virtual_schema"] {
            for row in rows(session, &format!("SELECT keyspace_name FROM {schema}.keyspaces"))? {
                if let [keyspace] = row.as_slice() {
                    names.add_keyspace(keyspace);
                }
            }
            for row in rows(session, &format!("SELECT keyspace_name, table_name FROM {schema}.tables"))? {
                if let [keyspace, table] = row.as_slice() {
                    names.add_keyspace(keyspace).tables.entry(table.clone()).or_default();
                }
            }
            let columns =
                format!("SELECT keyspace_name, table_name, column_name, kind FROM {schema}.columns");
            for row in rows(session, &columns)? {
                if let [keyspace, table, column, kind] = row.as_slice() {
                    names.add_column(keyspace, table, column, kind);
                }
            }
        }
        for row in rows(session, "SELECT keyspace_name, type_name FROM system_schema.types")? {
            if let [keyspace, user_type] = row.as_slice() {
                names.add_keyspace(keyspace).types.push(user_type.clone());
            }
        }
        for row in rows(session, "SELECT keyspace_name, index_name FROM system_schema.indexes")? {
            if let [keyspace, index] = row.as_slice() {
                names.add_keyspace(keyspace).indexes.push(index.clone());
            }
        }
        Ok(names)
    }

    fn add_keyspace(&mut self, name: &str) -> &mut KeyspaceNames {
        self.keyspaces.entry(name.to_string()).or_default()
    }

    pub fn add_column(&mut self, keyspace: &str, table: &str, column: &str, kind: &str) {
        let columns = self.add_keyspace(keyspace).tables.entry(table.to_string()).or_default();
        columns.push(ColumnName { name: column.to_string(), kind: kind.to_string() });
    }

    /// Style of a column's heading; `None` for an unknown column.
    pub fn column_style(&self, keyspace: &str, table: &str, column: &str) -> Option<Style> {
        let columns = self.keyspaces.get(keyspace)?.tables.get(table)?;
        let found = columns.iter().find(|known| known.name == column)?;
        Some(match found.kind.as_str() {
            "partition_key" => Style::PartitionKey,
            "clustering" => Style::ClusteringKey,
            "static" => Style::StaticColumn,
            _ => Style::Column,
        })
    }
}

/// The rows of a query as text; empty if the server does not have the table.
fn rows(session: &mut Session, query: &str) -> Result<Vec<Vec<String>>, Failure> {
    match session.rows(query) {
        Ok(rows) => Ok(texts(&rows)),
        Err(Failure::Refused(_)) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}
