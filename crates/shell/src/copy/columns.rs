//! The columns of the table of a COPY, read from the schema tables.

use model::types::push_identifier;

use super::statement::CopyStatement;
use crate::failure::Failure;
use crate::session::{Session, texts};

/// The table's columns: keys first, then all others by name, which is the order of columns in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumns {
    pub keyspace: String,
    pub table: String,
    pub all: Vec<String>,
    /// The partition key is at the start of `all`, then the clustering key.
    pub partition_key_len: usize,
    pub key_len: usize,
    pub counters: Vec<String>,
}

impl TableColumns {
    /// # Errors
    /// There is no such table, or no keyspace is named.
    pub fn load(session: &mut Session, statement: &CopyStatement) -> Result<Self, Failure> {
        let Some(keyspace) = statement.keyspace.clone().or_else(|| session.keyspace.clone()) else {
            return Err(Failure::Command(
                "Not in any keyspace: write COPY keyspace.table, or USE one".to_string(),
            ));
        };
        let table = statement.table.clone();
        let quoted = |name: &str| name.replace('\'', "''");
        for schema in ["system_schema", "system_virtual_schema"] {
            let rows = session.rows(&format!(
                "SELECT column_name, kind, position, type FROM {schema}.columns WHERE keyspace_name = '{}' AND table_name = \
                 '{}'",
                quoted(&keyspace),
                quoted(&table)
            ));
            match rows {
                Ok(rows) if !rows.rows.is_empty() => return Ok(Self::of(keyspace, table, &texts(&rows))),
                // Servers before Cassandra 4.0 have no virtual tables.
                Ok(_) | Err(Failure::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Command(format!("there is no table {keyspace}.{table}")))
    }

    fn of(keyspace: String, table: String, rows: &[Vec<String>]) -> Self {
        let key = |kind: &str| {
            let mut columns: Vec<(i32, &str)> = rows
                .iter()
                .filter(|row| row[1] == kind)
                .map(|row| (row[2].parse().unwrap_or(0), row[0].as_str()))
                .collect();
            columns.sort_unstable();
            columns.into_iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>()
        };
        let mut all = key("partition_key");
        let partition_key_len = all.len();
        all.extend(key("clustering"));
        let key_len = all.len();
        let mut others: Vec<&str> = rows
            .iter()
            .map(|row| row[0].as_str())
            .filter(|name| !all.iter().any(|key| key == name))
            .collect();
        others.sort_unstable();
        all.extend(others.into_iter().map(str::to_string));
        let counters = rows.iter().filter(|row| row[3] == "counter").map(|row| row[0].clone()).collect();
        Self { keyspace, table, all, partition_key_len, key_len, counters }
    }

    /// The columns of the file: those of the statement, or all.
    ///
    /// # Errors
    /// The table has no such column.
    pub fn of_file(&self, statement: &CopyStatement) -> Result<Vec<String>, Failure> {
        let Some(named) = &statement.columns else { return Ok(self.all.clone()) };
        match named.iter().find(|name| !self.all.contains(name)) {
            Some(name) => Err(Failure::Command(format!("Invalid column name {name}"))),
            None => Ok(named.clone()),
        }
    }

    /// `keyspace.table`, quoted as needed.
    pub fn name(&self) -> String {
        let mut out = String::new();
        push_identifier(&mut out, &self.keyspace);
        out.push('.');
        push_identifier(&mut out, &self.table);
        out
    }
}

/// Names as they are in CQL, separated by commas.
pub fn list(names: &[String]) -> String {
    let mut out = String::new();
    for (i, name) in names.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        push_identifier(&mut out, name);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_first() {
        let rows = [
            ["b", "regular", "-1", "counter"],
            ["c2", "clustering", "1", "int"],
            ["c1", "clustering", "0", "int"],
            ["a", "static", "-1", "int"],
            ["p", "partition_key", "0", "int"],
        ];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_string).to_vec()).collect();
        let columns = TableColumns::of("ks".to_string(), "T".to_string(), &rows);
        assert_eq!(columns.all, ["p", "c1", "c2", "a", "b"]);
        assert_eq!((columns.partition_key_len, columns.key_len), (1, 3));
        assert_eq!(columns.counters, ["b"]);
        assert_eq!(columns.name(), "ks.\"T\"");
        assert_eq!(list(&columns.all[..2]), "p, c1");
    }
}
