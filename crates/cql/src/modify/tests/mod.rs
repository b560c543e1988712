//! Tests that execute statements on storage in memory and check the stored data.

mod batches;
mod collections;
mod conditions;
mod counters;
mod errors;
mod json;
mod keys;
mod law;
mod times;

use std::sync::Arc;

use catalog::{Keyspace, TableSettings};
use model::types::{UdtField, UserType};
use model::{ColumnData, ColumnKind, CqlType, PartitionRange, Row, TableSchema, counter};
use protocol::{CqlError, Value};
use reader::{PartitionPage, ReadCommand, block_on_ready};
use syntax::{Modification, Statement, parse};

use super::*;
use crate::testing::MemoryCoordinator;
use crate::{Execution, Host, Outcome, ResultRows, Storage};

pub const NOW_US: i64 = 1_700_000_000_000_000;
pub const NOW_S: u32 = 1_700_000_000;

/// A database with the tables `t` (columns of all kinds), `d` (two clustering columns, the second
/// descending), `p` (no clustering column, two partition key columns), `n` (counters) and `x` (as `p`, with a
/// default TTL).
pub struct Db {
    pub coordinator: MemoryCoordinator,
    tables: Vec<Arc<TableSchema>>,
}

fn address() -> UserType {
    let field = |name: &str, field_type| UdtField { name: name.into(), field_type };
    UserType {
        keyspace: "ks".into(),
        name: "address".into(),
        fields: vec![field("street", CqlType::Text), field("number", CqlType::Int)],
    }
}

fn tables() -> Vec<Arc<TableSchema>> {
    let table = |name: &str| TableSchema::builder("ks", name);
    let options = model::TableOptions { default_ttl_s: 100, ..Default::default() };
    let built = [
        table("t")
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int)
            .static_column("s", CqlType::Int)
            .static_column("sl", CqlType::list(CqlType::Int))
            .regular("v", CqlType::Int)
            .regular("w", CqlType::Text)
            .regular("l", CqlType::list(CqlType::Int))
            .regular("fl", CqlType::list(CqlType::Int).freeze())
            .regular("e", CqlType::set(CqlType::Text))
            .regular("m", CqlType::map(CqlType::Text, CqlType::Int))
            .regular("u", CqlType::udt(address()))
            .regular("fu", CqlType::udt(address()).freeze())
            .build(),
        table("d")
            .partition_key("k", CqlType::Int)
            .clustering("a", CqlType::Int)
            .clustering("b", CqlType::reversed(CqlType::Int))
            .regular("v", CqlType::Int)
            .build(),
        table("p")
            .partition_key("k1", CqlType::Text)
            .partition_key("k2", CqlType::Int)
            .regular("v", CqlType::Int)
            .build(),
        table("n")
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int)
            .static_column("sn", CqlType::Counter)
            .regular("n1", CqlType::Counter)
            .regular("n2", CqlType::Counter)
            .build(),
        table("x").partition_key("k", CqlType::Text).regular("v", CqlType::Int).options(options).build(),
    ];
    built.into_iter().map(|table| table.expect("a table")).collect()
}

impl Db {
    pub fn new() -> Self {
        let tables = tables();
        let coordinator = MemoryCoordinator::new(&[]);
        let keyspace = Keyspace::simple("ks").expect("a name");
        let catalog = coordinator.catalog().create_keyspace(keyspace).expect("a keyspace").0;
        let mut catalog = catalog.create_type(address()).expect("a type").0;
        for table in &tables {
            catalog = catalog.create_table(table.clone(), TableSettings::default()).expect("a table").0;
        }
        coordinator.set_catalog(catalog);
        Self { coordinator, tables }
    }

    /// Creates a table. `definition` is the text after its name.
    pub fn create(&mut self, name: &str, definition: &str) {
        let text = format!("CREATE TABLE ks.{name} {definition}");
        let statement = parse(&text).expect("a statement").statement;
        let context = crate::schema::SchemaContext {
            keyspace: Some("ks"),
            timestamp_us: NOW_US,
            new_table_id: uuid::Uuid::from_u128(self.tables.len() as u128 + 1),
            data_center: "",
            rules: crate::SchemaRules::default(),
            counts_as_all_replicas: false,
            masks_columns: false,
        };
        let catalog = self.coordinator.catalog();
        let plan = crate::schema::plan(&statement, &catalog, &context).expect("a plan").expect("a plan");
        let (catalog, _) = (plan.change)(&catalog).expect("a table");
        self.tables.push(catalog.schema("ks", name).expect("the table").clone());
        self.coordinator.set_catalog(catalog);
    }

    pub fn schema(&self, name: &str) -> Arc<TableSchema> {
        self.tables.iter().find(|table| table.name == name).expect("a table of the tests").clone()
    }

    pub fn plan(&self, text: &str) -> Result<ModifyPlan, String> {
        let parsed = parse(text).map_err(|error| error.to_string())?;
        let (catalog, markers) = (self.coordinator.catalog(), parsed.markers.len());
        let modification = match parsed.statement {
            Statement::Insert(insert) => Modification::Insert(*insert),
            Statement::Update(update) => Modification::Update(*update),
            Statement::Delete(delete) => Modification::Delete(*delete),
            Statement::Batch(batch) => {
                return prepare_batch(&catalog, Some("ks"), &batch, markers).map_err(|e| e.to_string());
            }
            other => panic!("{other:?} does not write"),
        };
        prepare(&catalog, Some("ks"), &modification, markers).map_err(|error| error.to_string())
    }

    pub fn execution(&self) -> Execution<'static> {
        Execution {
            now_us: self.coordinator.wall_us(),
            timestamp_us: None,
            now_s: None,
            page_rows: None,
            paging_state: None,
        }
    }

    /// Executes a statement with these bound values.
    pub fn bound(&self, text: &str, bound: &[Value<'_>]) -> Result<Outcome, String> {
        let plan = self.plan(text)?;
        let (execution, mut warnings) = (self.execution(), vec![]);
        wait(execute(&plan, &self.coordinator, bound, &execution, &mut warnings))
            .map_err(|error| error.to_string())
    }

    pub fn run(&self, text: &str) -> Result<Outcome, String> {
        self.bound(text, &[])
    }

    /// Executes statements that must succeed.
    #[track_caller]
    pub fn all(&self, texts: &[&str]) {
        for text in texts {
            if let Err(error) = self.run(text) {
                panic!("{text}: {error}");
            }
        }
    }

    /// Returns the error of a statement that must fail.
    #[track_caller]
    pub fn refusal(&self, text: &str) -> String {
        match self.run(text) {
            Ok(_) => panic!("{text} was carried out"),
            Err(error) => error,
        }
    }

    /// Returns the answer of a conditional statement as text. Values are separated by commas and rows by
    /// bars; null is `-`.
    #[track_caller]
    pub fn asked(&self, text: &str) -> String {
        match self.run(text) {
            Ok(Outcome::Rows(rows)) => rows_text(&rows),
            other => panic!("{text}: {other:?}"),
        }
    }

    pub fn partitions(&self, table: &str, now_s: u32) -> Vec<PartitionPage> {
        let mut command = ReadCommand::new(self.schema(table).id, PartitionRange::all());
        command.now_s = Some(now_s);
        wait(self.coordinator.read(command)).expect("memory can be read").partitions
    }

    /// Prints the content of a table, with a line for each partition's static row and for each row: its keys
    /// and its values that are not null.
    pub fn dump_at(&self, table: &str, now_s: u32) -> Vec<String> {
        let schema = self.schema(table);
        let mut lines = vec![];
        for partition in self.partitions(table, now_s) {
            let keys = match schema.partition_key.len() {
                1 => vec![partition.key.bytes().to_vec()],
                _ => {
                    let values = model::key::split_composite_key(partition.key.bytes()).expect("a key");
                    values.into_iter().map(<[u8]>::to_vec).collect()
                }
            };
            let keys = schema.partition_key.iter().zip(&keys).map(|(column, key)| column.ty.text_of(key));
            let keys = keys.collect::<Vec<_>>().join(",");
            if !partition.static_row.is_empty() {
                lines.push(format!(
                    "{keys}:{}",
                    cells_text(&schema, ColumnKind::Static, &partition.static_row)
                ));
            }
            for row in &partition.rows {
                let row_key = row.key.values().zip(&schema.clustering);
                let row_key = row_key.map(|(value, column)| format!("/{}", column.ty.text_of(value)));
                let row_key = row_key.collect::<String>();
                let cells = cells_text(&schema, ColumnKind::Regular, &row.row);
                lines.push(format!("{keys}{row_key}:{cells}"));
            }
        }
        lines.sort();
        lines
    }

    pub fn dump(&self, table: &str) -> Vec<String> {
        self.dump_at(table, (self.coordinator.wall_us() / 1_000_000) as u32)
    }

    /// Returns the only row of the table.
    #[track_caller]
    pub fn only_row(&self, table: &str) -> Row {
        let source = self.coordinator.table(self.schema(table).id);
        let partition = source.partitions().values().next().expect("a partition");
        assert_eq!((source.partitions().len(), partition.rows().len()), (1, 1));
        partition.rows()[0].row.clone()
    }
}

fn cells_text(schema: &TableSchema, kind: ColumnKind, row: &Row) -> String {
    let mut columns: Vec<_> = schema.columns_of(kind).collect();
    columns.sort_by_key(|column| &column.name);
    let text = |column: &model::Column| {
        let value = existing::value(column, Some(row))?;
        let text = match row.cell(column.id) {
            Some(ColumnData::Simple(cell)) if column.ty.is_counter() => {
                counter::total(&cell.value).expect("a counter").to_string()
            }
            _ => column.ty.text_of(&value),
        };
        Some(format!(" {}={text}", column.name))
    };
    columns.into_iter().filter_map(text).collect()
}

/// Prints values separated by commas and rows separated by bars. The type of a value follows from its length:
/// four bytes are an int, one byte is a boolean, and other lengths are text.
fn rows_text(rows: &ResultRows) -> String {
    let cells = rows.joined_cells();
    let mut take = base::bytes::Take::new(&cells);
    let mut lines = vec![];
    for _ in 0..rows.count() {
        let mut values = vec![];
        for _ in 0..rows.columns.columns_count() {
            let len = take.i32().expect("a length");
            values.push(match usize::try_from(len).map(|len| take.bytes(len).expect("a value")) {
                Err(_) => "-".to_string(),
                Ok([flag]) => (*flag == 1).to_string(),
                Ok(bytes) if bytes.len() == 4 => CqlType::Int.text_of(bytes),
                Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| format!("{bytes:02x?}")),
            });
        }
        lines.push(values.join(","));
    }
    assert!(take.is_empty());
    lines.join("|")
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    block_on_ready(future)
}

pub fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}
