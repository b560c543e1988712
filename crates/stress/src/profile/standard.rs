//! The tables of cassandra-stress: `standard1` with blobs, `counter1` with counters.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::document::{ColumnText, Document, InsertText, QueryText};
use crate::distribution::Distribution;

/// The table of `write`, `read` and `mixed`.
pub const STANDARD: &str = "standard1";
/// The table of `counter_write` and `counter_read`.
pub const COUNTER: &str = "counter1";

/// `-col`: the columns beside the key.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Their names.
    pub names: Vec<String>,
    /// The notation of the distribution of their sizes in bytes.
    pub size: String,
}

impl Columns {
    /// `C0`, `C1`, …
    pub fn counted(count: usize, size: &str) -> Self {
        Self { names: (0..count).map(|index| format!("C{index}")).collect(), size: size.to_string() }
    }
}

impl Default for Columns {
    fn default() -> Self {
        Self::counted(5, "fixed(34)")
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A profile of `standard1`: the operations `insert`, `read` and `delete`. `with` are the table's options.
pub fn standard(keyspace: &str, columns: &Columns, with: &str) -> Document {
    let mut definition = format!("CREATE TABLE {STANDARD} (key blob PRIMARY KEY");
    for name in &columns.names {
        write!(definition, ", {} blob", quoted(name)).expect("a String takes all");
    }
    definition.push(')');
    definition.push_str(with);
    let key = ColumnText {
        name: "key".to_string(),
        size: Some("fixed(10)".to_string()),
        population: None,
        cluster: None,
    };
    let cells = columns.names.iter().map(|name| ColumnText {
        name: name.clone(),
        size: Some(columns.size.clone()),
        population: None,
        cluster: None,
    });
    let queries = [
        ("read", format!("SELECT * FROM {STANDARD} WHERE key = ?")),
        ("delete", format!("DELETE FROM {STANDARD} WHERE key = ?")),
    ];
    document(keyspace, STANDARD, definition, std::iter::once(key).chain(cells).collect(), &queries)
}

/// A profile of `counter1`: the operations `insert` (each counter is increased) and `read`.
pub fn counter(keyspace: &str, columns: &Columns, with: &str) -> Document {
    let mut definition = format!("CREATE TABLE {COUNTER} (key blob PRIMARY KEY");
    for name in &columns.names {
        write!(definition, ", {} counter", quoted(name)).expect("a String takes all");
    }
    definition.push(')');
    definition.push_str(with);
    let key = ColumnText {
        name: "key".to_string(),
        size: Some("fixed(10)".to_string()),
        population: None,
        cluster: None,
    };
    let cells = columns.names.iter().map(|name| ColumnText {
        name: name.clone(),
        size: None,
        population: Some("fixed(1)".to_string()),
        cluster: None,
    });
    let queries = [("read", format!("SELECT * FROM {COUNTER} WHERE key = ?"))];
    document(keyspace, COUNTER, definition, std::iter::once(key).chain(cells).collect(), &queries)
}

fn document(
    keyspace: &str,
    table: &str,
    definition: String,
    columnspec: Vec<ColumnText>,
    queries: &[(&str, String)],
) -> Document {
    let query =
        |(name, cql): &(&str, String)| (name.to_string(), QueryText { cql: cql.clone(), fields: None });
    Document {
        specname: None,
        keyspace: keyspace.to_string(),
        keyspace_definition: None,
        table: table.to_string(),
        table_definition: Some(definition),
        extra_definitions: vec![],
        columnspec,
        insert: InsertText::default(),
        queries: queries.iter().map(query).collect::<BTreeMap<_, _>>(),
    }
}

/// The number of columns that `n=` names.
///
/// # Errors
/// The distribution yields more than one number, or a number that is not 1 to 10,000.
pub fn column_count(text: &str) -> Result<usize, String> {
    let distribution = Distribution::parse(text)?;
    match distribution.min() == distribution.max() && (1..=10_000).contains(&distribution.min()) {
        true => Ok(distribution.min() as usize),
        false => {
            Err(format!("-col n={text}: each row has the same number of columns, 1 to 10000: n=fixed(5)"))
        }
    }
}
