//! Executes CREATE statements on an engine without a client: a restore creates its tables so.
//!
//! Statements that read or write data are refused.

use cql::system::NodeInfo;
use cql::{ChangeSchema, ClientState, Decide, Execution, Host, Prepared, Storage};
use engine::{Engine, EngineError, node};
use model::{Mutation, TableId};
use protocol::CqlError;
use reader::block_on_ready;
use reader::{Page, ReadCommand};
use uuid::Uuid;

use catalog::{Catalog, SchemaChange};

use crate::cql_server;

/// Executes one statement. It blocks the thread, which must not be a shard's.
///
/// # Errors
/// The statement is wrong, or the schema change fails; the text begins with the statement's first words.
pub fn execute(engine: &Engine, statement: &str) -> Result<(), String> {
    let wrong = |error: CqlError| {
        let first: Vec<&str> = statement.split_whitespace().take(8).collect();
        format!("{} …: {error}", first.join(" "))
    };
    let on_engine = OnEngine { engine };
    let prepared = Prepared::new(&on_engine.catalog(), None, statement).map_err(wrong)?;
    let now_us = backup::clock::now_us();
    let execution =
        Execution { now_us, timestamp_us: None, now_s: None, page_rows: None, paging_state: None };
    let values = protocol::Values::default();
    block_on_ready(prepared.execute(&on_engine, &values, &execution, &mut vec![])).map_err(wrong)?;
    Ok(())
}

/// A coordinator for schema changes. Its calls wait, so its futures are always ready.
struct OnEngine<'a> {
    engine: &'a Engine,
}

fn refused<T>() -> Result<T, CqlError> {
    Err(CqlError::Invalid("only changes of the schema are allowed here".to_string()))
}

impl Storage for OnEngine<'_> {
    fn catalog(&self) -> Catalog {
        // Only a stopped engine has none; the change then fails.
        self.engine.catalog().unwrap_or_else(|_| Catalog::empty())
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
        let change = |shard| async move {
            let changes = node::change_schema(&shard, change).await?;
            // Nobody is told by an engine without clients.
            cql_server::tell_schema_changed(&shard, &changes).await;
            Ok::<_, EngineError>(changes)
        };
        self.engine.ask(0, change).wait().map_err(|error| match error {
            EngineError::Schema(error) => cql::from_catalog(error),
            error => CqlError::Server(error.to_string()),
        })
    }

    async fn truncate(&self, _: TableId) -> Result<(), CqlError> {
        refused()
    }
}

impl Host for OnEngine<'_> {
    fn wall_us(&self) -> i64 {
        backup::clock::now_us()
    }

    fn timestamp_us(&self) -> i64 {
        backup::clock::now_us()
    }

    fn random_u64(&self) -> u64 {
        let random = |shard: runtime::Shard| async move { Ok(shard.random_u64()) };
        self.engine.ask(0, random).wait().unwrap_or(0)
    }

    fn node_info(&self) -> NodeInfo {
        let info = NodeInfo::new(self.host_id(), std::net::IpAddr::from([127, 0, 0, 1]), 9042);
        // With an empty name, a statement may name any data center.
        NodeInfo { data_center: String::new(), ..info }
    }

    fn host_id(&self) -> Uuid {
        self.engine.open_report().host_id
    }
}

impl ClientState for OnEngine<'_> {
    fn masks_columns(&self) -> bool {
        // Masks are restored whatever the node's option is.
        true
    }
}
