//! Whole statements on storage in memory: schema, writes and reads together, in the order of a client.

mod change_logs;
mod checks;
mod compact;
mod differences;
mod functions;
mod resolution;
mod vectors;
mod view_laws;
mod views;

use protocol::{ColumnSpec, Value, ValueBuffer};
use reader::block_on_ready;

use crate::testing::MemoryCoordinator;
use crate::{Execution, Host, Outcome, Prepared, ResultRows, Storage};
use catalog::{Catalog, Keyspace};
use model::CqlType;

/// A client that uses the keyspace `ks`.
pub struct Session {
    pub storage: MemoryCoordinator,
}

impl Session {
    pub fn new() -> Self {
        let storage = MemoryCoordinator::new(&[]);
        let keyspace = Keyspace::simple("ks").expect("a name");
        storage.set_catalog(storage.catalog().create_keyspace(keyspace).expect("a keyspace").0);
        Self { storage }
    }

    /// Executes a statement with bound values and returns its rows as text. Cells are separated by `|`; null
    /// is empty.
    pub fn bound(&self, text: &str, values: &[Value<'_>]) -> Result<Vec<String>, String> {
        let catalog = self.storage.catalog();
        let prepared = Prepared::new(&catalog, Some("ks"), text).map_err(|error| error.to_string())?;
        let execution = Execution {
            now_us: self.storage.wall_us(),
            timestamp_us: None,
            now_s: None,
            page_rows: None,
            paging_state: None,
        };
        let mut buffer = ValueBuffer::default();
        values.iter().for_each(|value| buffer.push(*value));
        let values = buffer.values();
        let mut warnings = vec![];
        let outcome = prepared.execute(&self.storage, &values, &execution, &mut warnings);
        match block_on_ready(outcome).map_err(|error| error.to_string())? {
            Outcome::Rows(rows) => Ok(rows_text(&rows, prepared.columns())),
            _ => Ok(vec![]),
        }
    }

    pub fn try_run(&self, text: &str) -> Result<Vec<String>, String> {
        self.bound(text, &[])
    }

    /// Executes statements that must succeed.
    #[track_caller]
    pub fn all(&self, texts: &[&str]) {
        for text in texts {
            if let Err(error) = self.try_run(text) {
                panic!("{text}: {error}");
            }
        }
    }

    /// Checks the rows that a statement returns.
    #[track_caller]
    pub fn check(&self, text: &str, expected: &[&str]) {
        match self.try_run(text) {
            Ok(rows) => assert_eq!(rows, expected, "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    /// Checks that a statement fails with a message that contains `expected`.
    #[track_caller]
    pub fn refused(&self, text: &str, expected: &str) {
        match self.try_run(text) {
            Ok(rows) => panic!("not refused: {text}: {rows:?}"),
            Err(error) => assert!(error.contains(expected), "{text}\n{error}\nexpected: {expected}"),
        }
    }
}

/// Formats rows. Without `columns`, a value of one byte is a boolean, four bytes are an int, and others are
/// text.
fn rows_text(rows: &ResultRows, columns: &[ColumnSpec]) -> Vec<String> {
    let cells = rows.joined_cells();
    let mut take = base::bytes::Take::new(&cells);
    let mut lines = vec![];
    for _ in 0..rows.count() {
        let columns = (0..rows.columns.columns_count()).map(|at| {
            let Ok(len) = usize::try_from(take.i32().expect("a length")) else { return String::new() };
            let bytes = take.bytes(len).expect("a value");
            let ty = match columns.get(at).map(|column| &column.column_type) {
                Some(CqlType::Counter) => &CqlType::BigInt,
                Some(ty) => ty,
                None if len == 1 => &CqlType::Boolean,
                None if len == 4 => &CqlType::Int,
                None => &CqlType::Text,
            };
            ty.text_of(bytes)
        });
        lines.push(columns.collect::<Vec<_>>().join("|").replace('\'', ""));
    }
    lines
}
