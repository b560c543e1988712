//! The text of a profile: YAML, as `cassandra-stress user profile=` takes it.
//!
//! Keys that cassandra-stress knows and this program does not are refused by name.

use std::collections::BTreeMap;

use base::suggest::nearest;
use serde::Deserialize;

/// A profile as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Shown in the report.
    #[serde(default)]
    pub specname: Option<String>,
    /// The keyspace of the table.
    pub keyspace: String,
    /// `CREATE KEYSPACE`; without it the keyspace must exist, or `-schema` describes it.
    #[serde(default)]
    pub keyspace_definition: Option<String>,
    /// The table.
    pub table: String,
    /// `CREATE TABLE`; without it the table must exist.
    #[serde(default)]
    pub table_definition: Option<String>,
    /// Further statements, after the table's: types that it needs come first, by `CREATE TYPE`.
    #[serde(default)]
    pub extra_definitions: Vec<String>,
    /// How the values of columns are made.
    #[serde(default)]
    pub columnspec: Vec<ColumnText>,
    /// The operation `insert`.
    #[serde(default)]
    pub insert: InsertText,
    /// Further operations, by name.
    #[serde(default)]
    pub queries: BTreeMap<String, QueryText>,
}

/// How the values of a column are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnText {
    /// The column.
    pub name: String,
    /// Bytes of a text or blob, elements of a collection.
    #[serde(default)]
    pub size: Option<String>,
    /// The numbers that values are made of.
    #[serde(default)]
    pub population: Option<String>,
    /// Clustering columns: how many values the column has in a partition, or below one value of the column
    /// before it.
    #[serde(default)]
    pub cluster: Option<String>,
}

/// The operation `insert`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsertText {
    /// Partitions of an operation.
    #[serde(default)]
    pub partitions: Option<String>,
    /// UNLOGGED, LOGGED or COUNTER.
    #[serde(default)]
    pub batchtype: Option<String>,
    /// The part of a partition's rows that an operation writes: `DIST/N`.
    #[serde(default)]
    pub select: Option<String>,
}

/// An operation that executes a statement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryText {
    /// The statement, with `?` for values of the columns that they are compared with or assigned to.
    pub cql: String,
    /// `samerow`: all values are of one row; `multirow`: each is of a row of its own.
    #[serde(default)]
    pub fields: Option<String>,
}

impl Document {
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        yaml_serde::from_str(text).map_err(|error| format!("the profile {name}: {error}"))
    }
}

const SHIPPED: [(&str, &str); 7] = [
    ("counters", include_str!("../../profiles/counters.yaml")),
    ("key_value", include_str!("../../profiles/key_value.yaml")),
    ("locking", include_str!("../../profiles/locking.yaml")),
    ("lwt", include_str!("../../profiles/lwt.yaml")),
    ("maps", include_str!("../../profiles/maps.yaml")),
    ("random_access", include_str!("../../profiles/random_access.yaml")),
    ("time_series", include_str!("../../profiles/time_series.yaml")),
];

/// The text of a shipped profile.
///
/// # Errors
/// There is no profile of this name; the text names those that there are.
pub fn shipped(name: &str) -> Result<&'static str, String> {
    let found = SHIPPED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let names: Vec<&str> = SHIPPED.iter().map(|(known, _)| *known).collect();
        let hint = nearest(name, names.iter().copied())
            .map_or(String::new(), |near| format!("; did you mean {near}?"));
        format!("there is no file and no shipped profile {name}{hint} (shipped: {})", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_can_be_read_and_unknown_keys_are_refused() {
        for (name, text) in SHIPPED {
            let document = Document::parse(name, text).unwrap();
            assert_eq!(document.specname.as_deref(), Some(name));
            assert!(document.table_definition.is_some());
        }
        assert!(shipped("time_serie").unwrap_err().contains("did you mean time_series?"));
        let error = Document::parse("x", "keyspace: k\ntable: t\ntoken_range_queries: {}\n").unwrap_err();
        assert!(error.contains("token_range_queries"), "{error}");
    }
}
