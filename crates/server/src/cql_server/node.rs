//! The port of `cql` to this node's storage.

use std::future::Future;
use std::rc::Rc;

use catalog::{Catalog, SchemaChange};
use cql::system::{self, NodeInfo};
use cql::{ChangeSchema, Coordinator, CqlError, Decide};
use engine::EngineError;
use engine::node::{self, NodeShard};
use model::{Mutation, TableId};
use reader::{Page, ReadCommand};
use runtime::Shard;
use uuid::Uuid;

use super::{CqlShard, events};

/// The node as statements see it, on the shard of their connection.
pub(crate) struct Node {
    shard: Shard,
    cql: Rc<CqlShard>,
    node: Rc<NodeShard>,
}

impl Node {
    /// # Errors
    /// The engine has stopped.
    pub fn on(cql: &Rc<CqlShard>) -> Result<Self, CqlError> {
        let node = NodeShard::of(&cql.shard).map_err(|error| cql_error(&error))?;
        Ok(Self { shard: cql.shard.clone(), cql: cql.clone(), node })
    }

    /// Ends after that time.
    pub fn sleep_us(&self, us: u64) -> impl Future<Output = ()> + 'static {
        self.shard.sleep_us(us)
    }

    /// A page of a table that is computed when it is read; `None`: the table is stored.
    fn read_virtual(&self, command: &ReadCommand) -> Result<Option<Page>, CqlError> {
        let catalog = self.catalog();
        match catalog.table_by_id(command.table) {
            Some(table) if system::is_virtual(&table.schema) => {
                let now_s = u32::try_from(self.shard.wall_us() / 1_000_000).unwrap_or(0);
                system::read_virtual(command, now_s, &self.node_info(), &catalog)
            }
            _ => Ok(None),
        }
    }
}

/// Of the engine's error the protocol's. The text says what happened; few of the protocol's other kinds carry one.
pub(crate) fn cql_error(error: &EngineError) -> CqlError {
    match error {
        EngineError::Invalid(text) => CqlError::Invalid(text.clone()),
        EngineError::Schema(error) => error.clone().into(),
        EngineError::UnknownTable(_) => CqlError::Invalid(error.to_string()),
        EngineError::Stopped => CqlError::Bootstrapping("the node is stopping".to_string()),
        _ => CqlError::Server(error.to_string()),
    }
}

/// An error on its way between shards.
struct Refused(CqlError);

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        Self(cql_error(&error))
    }
}

impl Coordinator for Node {
    fn catalog(&self) -> Catalog {
        self.cql.with_virtual_tables(&self.node.catalog.borrow())
    }

    fn wall_us(&self) -> i64 {
        self.shard.wall_us()
    }

    fn timestamp_us(&self) -> i64 {
        self.cql.timestamp_us()
    }

    fn random_u64(&self) -> u64 {
        self.shard.random_u64()
    }

    fn node_info(&self) -> NodeInfo {
        self.cql.node_info()
    }

    fn host_id(&self) -> Uuid {
        self.cql.options.node.host_id
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), CqlError> {
        node::apply(&self.shard, mutation).await.map_err(|error| cql_error(&error))
    }

    async fn apply_together(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        node::apply_together(&self.shard, mutations).await.map_err(|error| cql_error(&error))
    }

    async fn read(&self, command: ReadCommand) -> Result<Page, CqlError> {
        if let Some(page) = self.read_virtual(&command)? {
            return Ok(page);
        }
        node::read(&self.shard, command).await.map_err(|error| cql_error(&error))
    }

    async fn read_and_write(&self, command: ReadCommand, decide: Decide) -> Result<Page, CqlError> {
        let decide = move |page: &Page| decide(page).map_err(Refused);
        node::read_and_write(&self.shard, command, decide).await.map_err(|Refused(error)| error)
    }

    async fn change_schema(&self, change: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        let changes = node::change_schema(&self.shard, change).await.map_err(|error| cql_error(&error))?;
        events::schema_changed(&self.shard, &changes).await;
        Ok(changes)
    }

    async fn truncate(&self, table: TableId) -> Result<(), CqlError> {
        node::truncate(&self.shard, table).await.map_err(|error| CqlError::Truncate(error.to_string()))
    }
}
