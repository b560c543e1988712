//! Builds a catalog from a file of CREATE statements, without a node. It gives names to tables whose SSTables
//! contain only types.
//!
//! `cql` itself executes CREATE KEYSPACE, CREATE TYPE, CREATE TABLE, ALTER and DROP in memory. A keyspace
//! that is named but not created is made. Statements on indexes and on user-defined functions are skipped:
//! nothing here has an index or calls a function, and files of Cassandra have kinds that are not built.
//! Statements that read or write data are refused.

use std::cell::{Cell, RefCell};
use std::path::Path;

use catalog::{Catalog, Keyspace, SchemaChange};
use cql::system::NodeInfo;
use cql::{ChangeSchema, ClientState, Decide, Execution, Host, Outcome, Prepared, Storage, from_catalog};
use model::{Mutation, TableId};
use protocol::CqlError;
use reader::block_on_ready;
use reader::{Page, ReadCommand};
use syntax::{Statement, parse, split_statements};
use uuid::Uuid;

/// The catalog that the file describes. `keyspace` applies to names without a keyspace.
///
/// # Errors
/// The file cannot be read, or a statement is wrong; the text names it.
pub fn load(path: &Path, keyspace: Option<&str>) -> Result<Catalog, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_schema(&text, keyspace).map_err(|error| format!("{}: {error}", path.display()))
}

/// Like [`load`], for a text.
///
/// # Errors
/// A statement is wrong; the text names the line where it begins.
pub fn parse_schema(text: &str, keyspace: Option<&str>) -> Result<Catalog, String> {
    let schema =
        SchemaOnly { catalog: RefCell::new(Catalog::empty()), clock_us: Cell::new(1), random: Cell::new(0) };
    let mut keyspace = keyspace.map(str::to_owned);
    for statement in split_statements(text) {
        let line = text[..statement.start].matches('\n').count() + 1;
        let wrong = |error: CqlError| format!("line {line}: {error}");
        if let Ok(parsed) = parse(statement.text)
            && is_skipped(&parsed.statement)
        {
            continue;
        }
        schema.make_named_keyspace(statement.text, keyspace.as_deref()).map_err(wrong)?;
        let prepared =
            Prepared::new(&schema.catalog(), keyspace.as_deref(), statement.text).map_err(wrong)?;
        let execution =
            Execution { now_us: 0, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
        let values = protocol::Values::default();
        let outcome = block_on_ready(prepared.execute(&schema, &values, &execution, &mut vec![]));
        if let Outcome::SetKeyspace(name) = outcome.map_err(wrong)? {
            keyspace = Some(name);
        }
    }
    Ok(schema.catalog.into_inner())
}

fn is_skipped(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateIndex(_)
            | Statement::DropIndex(_)
            | Statement::CreateFunction(_)
            | Statement::DropFunction(_)
            | Statement::CreateAggregate(_)
            | Statement::DropAggregate(_)
    )
}

/// A coordinator that has a schema and no data.
struct SchemaOnly {
    catalog: RefCell<Catalog>,
    clock_us: Cell<i64>,
    random: Cell<u64>,
}

impl SchemaOnly {
    fn make_named_keyspace(&self, text: &str, keyspace: Option<&str>) -> Result<(), CqlError> {
        let name = match parse(text)?.statement {
            Statement::CreateTable(create) => create.name.keyspace,
            Statement::CreateType(create) => create.name.keyspace,
            _ => return Ok(()),
        };
        let name = name.map(|name| name.text.to_string()).or(keyspace.map(str::to_owned));
        let Some(name) = name else {
            return Err(CqlError::Invalid("name the keyspace, as in keyspace.table".to_string()));
        };
        let catalog = self.catalog();
        if catalog.keyspace(&name).is_none() {
            let keyspace = Keyspace::simple(name.as_str()).map_err(from_catalog)?;
            *self.catalog.borrow_mut() = catalog.create_keyspace(keyspace).map_err(from_catalog)?.0;
        }
        Ok(())
    }
}

fn refused<T>() -> Result<T, CqlError> {
    Err(CqlError::Invalid("only CREATE, ALTER and DROP are allowed in a schema file".to_string()))
}

impl Storage for SchemaOnly {
    fn catalog(&self) -> Catalog {
        self.catalog.borrow().clone()
    }

    async fn apply(&self, _: Mutation) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_batch(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_unlogged(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn read(&self, _: ReadCommand) -> Result<Page, CqlError> {
        refused()
    }

    async fn read_modify_write(&self, _: ReadCommand, _: Decide) -> Result<Page, CqlError> {
        refused()
    }

    async fn change_schema(&self, change: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        let (catalog, changes) = change(&self.catalog()).map_err(from_catalog)?;
        *self.catalog.borrow_mut() = catalog;
        Ok(changes)
    }

    async fn truncate(&self, _: TableId) -> Result<(), CqlError> {
        refused()
    }
}

impl Host for SchemaOnly {
    fn wall_us(&self) -> i64 {
        self.clock_us.get()
    }

    fn timestamp_us(&self) -> i64 {
        self.clock_us.replace(self.clock_us.get() + 1)
    }

    fn random_u64(&self) -> u64 {
        // Table ids must only differ within this catalog; nothing else sees them.
        self.random.set(self.random.get() + 1);
        base::rng::Rng::new(self.random.get()).next_u64()
    }

    fn node_info(&self) -> NodeInfo {
        let info = NodeInfo::new(self.host_id(), std::net::IpAddr::from([127, 0, 0, 1]), 9042);
        // With an empty name, a statement may name any data center.
        NodeInfo { data_center: String::new(), ..info }
    }

    fn host_id(&self) -> Uuid {
        Uuid::nil()
    }
}

impl ClientState for SchemaOnly {
    fn masks_columns(&self) -> bool {
        // A snapshot of a table with masks is read whatever the node's option is.
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_without_its_keyspaces() {
        let text = "CREATE TYPE ks.pair (a int, b text);\n\
                    CREATE TABLE ks.t (p int, c text, v frozen<pair>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC);\n\
                    CREATE TABLE u (p int PRIMARY KEY)";
        let catalog = parse_schema(text, Some("other")).unwrap();
        let elsewhere = "CREATE KEYSPACE a WITH replication = {'class': 'NetworkTopologyStrategy', 'dc7': 3}";
        assert!(parse_schema(elsewhere, None).unwrap().keyspace("a").is_some());
        assert_eq!(catalog.schema("ks", "t").unwrap().clustering.len(), 1);
        assert!(catalog.schema("other", "u").is_some());
        let indexed = "CREATE TABLE ks.t (p int PRIMARY KEY, v int);\n\
                       CREATE CUSTOM INDEX i ON ks.t (v) USING 'org.apache.cassandra.index.sasi.SASIIndex';";
        assert!(parse_schema(indexed, None).unwrap().schema("ks", "t").unwrap().indexes.is_empty());
        let masked =
            parse_schema("CREATE TABLE ks.m (p int PRIMARY KEY, v int MASKED WITH DEFAULT)", None).unwrap();
        assert_eq!(masked.table("ks", "m").unwrap().settings.masks["v"].cql(), "system.mask_default()");
        let error =
            parse_schema("CREATE TABLE a.b (p int PRIMARY KEY);\nSELECT * FROM a.b", None).unwrap_err();
        assert!(error.starts_with("line 2: ") && error.contains("only CREATE"), "{error}");
        assert!(
            parse_schema("CREATE TABLE b (p int PRIMARY KEY)", None)
                .unwrap_err()
                .contains("name the keyspace")
        );
    }
}
