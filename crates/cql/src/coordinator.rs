//! The port to the storage: what carrying out a statement needs of the node it runs on.
//!
//! Statements are planned and carried out on the shard of their connection; whoever implements this finds the
//! shard that owns a partition. Nothing here is `Send`: a shard's work stays on it.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Catalog, Changed, SchemaChange};
use model::{Mutation, TableId};
use reader::{Page, ReadCommand};
use uuid::Uuid;

use crate::modify::{BatchLimits, BatchSeverity};
use crate::system::NodeInfo;
use crate::{CqlError, ResultMemory};

/// What is to become of a partition, given what is in it; `None`: nothing is to be written.
pub type Decide = Box<dyn FnOnce(&Page) -> Result<Option<Vec<Mutation>>, CqlError> + Send>;

/// A change of the schema, given the catalog as it is.
pub type ChangeSchema = Box<dyn FnOnce(&Catalog) -> Changed + Send>;

/// How much memory the result of a SELECT may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// A page of a paged read ends when its cells take so many bytes.
    pub page_bytes: u64,
    /// Or behind so many tombstones, also if it is empty then.
    pub page_tombstones: u64,
    /// An unpaged result that takes more is told to the log.
    pub unpaged_soft_bytes: u64,
    /// An unpaged result that takes more is refused.
    pub unpaged_hard_bytes: u64,
    /// For an unpaged result that takes more there is no room for the moment.
    pub unpaged_room_bytes: u64,
}

impl Default for ResultLimits {
    /// ScyllaDB's.
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            page_tombstones: 10_000,
            unpaged_soft_bytes: 1 << 20,
            unpaged_hard_bytes: 100 << 20,
            unpaged_room_bytes: u64::MAX,
        }
    }
}

/// See the head of this file.
pub trait Coordinator {
    /// The schema as this shard knows it.
    fn catalog(&self) -> Catalog;

    /// The clock: microseconds since the Unix epoch.
    fn wall_us(&self) -> i64;

    /// The timestamp of a write that brings none: the clock, but never twice the same on this shard.
    fn timestamp_us(&self) -> i64;

    /// For `uuid()` and its like.
    fn random_u64(&self) -> u64;

    /// What this node tells of itself.
    fn node_info(&self) -> NodeInfo;

    /// This node's id: the counter shard it adds to.
    fn host_id(&self) -> Uuid;

    /// How much memory results may take.
    fn result_limits(&self) -> ResultLimits {
        ResultLimits::default()
    }

    /// From where on batches are warned of and refused.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits::DEFAULT
    }

    /// Where results in the making are counted; `None`: nowhere.
    fn result_memory(&self) -> Option<Rc<ResultMemory>> {
        None
    }

    /// The role that has logged in; `None`: nobody had to.
    fn user(&self) -> Option<Arc<str>> {
        None
    }

    /// A password as it is stored: salted, and slow to make on purpose, so elsewhere than on the shard.
    fn hash_password(&self, _password: &str) -> impl Future<Output = Result<String, CqlError>> {
        let text = "org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD";
        std::future::ready(Err(CqlError::Invalid(text.to_string())))
    }

    /// How many service levels the node can tell apart, besides the default one.
    fn service_levels_max(&self) -> usize {
        0
    }

    /// Something that whoever runs the node should know.
    fn warn(&self, _text: &str) {}

    /// A batch is larger than a limit.
    fn log_batch(&self, _severity: BatchSeverity, _text: &str) {}

    /// A result was refused memory.
    fn memory_refused(&self, _what: &str) {}

    /// Lets others run if this has had its time. To be awaited between rows.
    fn give_way(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Ends when the write is durable.
    fn apply(&self, mutation: Mutation) -> impl Future<Output = Result<(), CqlError>>;

    /// All of them or, after an error, perhaps some; a crash leaves all or nothing of what one shard has.
    fn apply_together(&self, mutations: Vec<Mutation>) -> impl Future<Output = Result<(), CqlError>>;

    /// The next page of a read.
    fn read(&self, command: ReadCommand) -> impl Future<Output = Result<Page, CqlError>>;

    /// Reads part of one partition, lets `decide` say what to write to that partition, and writes it. Between reading
    /// and writing no other call of this method touches the partition. Gives what was read.
    fn read_and_write(
        &self,
        command: ReadCommand,
        decide: Decide,
    ) -> impl Future<Output = Result<Page, CqlError>>;

    /// Ends when every shard knows the new schema and it is durable.
    fn change_schema(
        &self,
        change: ChangeSchema,
    ) -> impl Future<Output = Result<Vec<SchemaChange>, CqlError>>;

    /// Empties a table.
    fn truncate(&self, table: TableId) -> impl Future<Output = Result<(), CqlError>>;
}
