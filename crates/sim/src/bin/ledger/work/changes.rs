//! Schema changes: tables are created, get columns and rows, are dropped and created again.
//!
//! A table's columns are those acknowledged, or those that a statement in flight makes. Its rows were written
//! after its creation; none are of an earlier table of the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use base::rng::Rng;

use super::{Workload, some};
use crate::client::{Cells, Client, Stop};
use crate::node_process::NodeOptions;
use crate::tracked_value::TrackedValue;

const KEYSPACE: &str = "changes";
const TABLES: u64 = 4;
const COLUMNS_MAX: usize = 8;

/// A table's columns besides its key and value.
type Columns = BTreeSet<String>;

#[derive(Default)]
struct Table {
    columns: TrackedValue<Columns>,
    rows: BTreeMap<i32, TrackedValue<u32>>,
    acknowledged: u64,
}

#[derive(Default)]
pub struct Changes(Mutex<BTreeMap<u64, Table>>);

impl Changes {
    fn with<T>(&self, table: u64, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut tables = self.0.lock().expect("no thread panics while it holds the lock");
        change(tables.entry(table).or_default())
    }

    fn step(&self, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        let table = rng.below(TABLES);
        let name = format!("{KEYSPACE}.t{table}");
        let columns = self.with(table, |table| table.columns.last().cloned());
        let (text, after) = match columns {
            None => (format!("CREATE TABLE {name} (k int PRIMARY KEY, v int)"), Some(Columns::new())),
            Some(_) if rng.chance(1, 6) => (format!("DROP TABLE {name}"), None),
            Some(mut columns) if rng.chance(1, 4) && columns.len() < COLUMNS_MAX => {
                let column = format!("c{}", columns.len());
                let text = format!("ALTER TABLE {name} ADD {column} text");
                columns.insert(column);
                (text, Some(columns))
            }
            Some(_) => return self.write(table, &name, connection, rng),
        };
        self.with(table, |table| table.columns.ask(after.clone()));
        // A change that was not answered in time may happen later, before another one; this test does not
        // cover that.
        if connection.statement(&text)?.is_none() {
            return Err(Stop::Wrong(format!("{text}: not answered in time")));
        }
        self.with(table, |table| {
            table.columns.acknowledge();
            table.acknowledged += 1;
            if after.is_none() {
                table.rows.clear();
            }
        });
        Ok(())
    }

    fn write(&self, table: u64, name: &str, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        let (key, version) = (rng.below(20) as i32, rng.below(1 << 20) as u32);
        let is_settled = self.with(table, |table| {
            let row = table.rows.entry(key).or_default();
            let is_settled = row.is_settled();
            if is_settled {
                row.ask(Some(version));
            }
            is_settled
        });
        if is_settled {
            let text = format!("INSERT INTO {name} (k, v) VALUES ({key}, {version})");
            if connection.statement(&text)?.is_some() {
                self.with(table, |table| {
                    table.rows.entry(key).or_default().acknowledge();
                    table.acknowledged += 1;
                });
            }
        }
        Ok(())
    }
}

impl Workload for Changes {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn setup(&self) -> Vec<String> {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        vec![format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")]
    }

    fn work(&self, _client: u64, connection: &mut Client, rng: &mut Rng) -> Result<(), Stop> {
        loop {
            self.step(connection, rng)?;
        }
    }

    fn check(&self, connection: &mut Client, _options: &NodeOptions) -> Result<u64, Stop> {
        let of = format!("WHERE keyspace_name = '{KEYSPACE}'");
        let mut there: BTreeMap<String, Columns> = BTreeMap::new();
        for row in connection.rows(&format!("SELECT table_name FROM system_schema.tables {of}"))? {
            there.insert(Cells(&row).text(0)?, Columns::new());
        }
        for row in
            connection.rows(&format!("SELECT table_name, column_name FROM system_schema.columns {of}"))?
        {
            let (table, column) = (Cells(&row).text(0)?, Cells(&row).text(1)?);
            if !["k", "v"].contains(&&column[..]) {
                there.entry(table).or_default().insert(column);
            }
        }
        let mut tables = self.0.lock().expect("no thread panics while it holds the lock");
        let mut wrong = vec![];
        for (number, table) in tables.iter_mut() {
            let name = format!("t{number}");
            let columns = there.remove(&name);
            let is_there = columns.is_some();
            if let Err(error) = table.columns.settle(columns) {
                wrong.push(format!("columns of {name}: {error}"));
                continue;
            }
            let mut rows = BTreeMap::new();
            if is_there {
                for row in connection.rows(&format!("SELECT k, v FROM {KEYSPACE}.{name}"))? {
                    rows.insert(Cells(&row).int(0)?, Cells(&row).int(1)? as u32);
                }
            } else {
                table.rows.clear();
            }
            for (key, row) in &mut table.rows {
                if let Err(error) = row.settle(rows.remove(key)) {
                    wrong.push(format!("row {key} of {name}: {error}"));
                }
            }
            wrong.extend(
                rows.keys().map(|key| format!("row {key} of {name} was not written since it was made")),
            );
        }
        wrong.extend(there.keys().map(|name| format!("table {name} was never made")));
        some(wrong)?;
        Ok(tables.values().map(|table| table.acknowledged).sum())
    }

    fn claim(&self) -> bool {
        self.with(TABLES, |table| table.columns = TrackedValue::sure(Columns::new()));
        true
    }
}
