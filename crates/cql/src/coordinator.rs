//! The interface between the execution of a statement and the node, in three traits by subject:
//!
//! | trait | subject | needed by |
//! |---|---|---|
//! | [`Storage`] | schema and data | all statements |
//! | [`Host`] | clock, randomness, identity, CPU, memory and log of the node | statements on data |
//! | [`ClientState`] | the client of the request: its role, its limits | results, batches, roles |
//!
//! A function that executes a statement requires the traits that it needs. [`Coordinator`] stands for all
//! three.
//!
//! A statement is planned and executed on the shard of its connection. The implementation of `Storage` finds
//! the shard that owns a partition. The futures need not be `Send`, because the work of a shard stays on that
//! shard.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Catalog, Changed, Permissions, SchemaChange};
use model::{Mutation, TableId, TableSchema};
use protocol::CqlError;
use reader::{Page, ReadCommand};
use uuid::Uuid;

use crate::ResultMemory;
use crate::limits::{BatchLimits, BatchSeverity, ResultLimits};
use crate::system::NodeInfo;

/// Decides what to write to a partition, given its content and a timestamp in microseconds; `None` writes
/// nothing. The timestamp is drawn while the partition is locked. It is therefore larger than the timestamps
/// of all earlier decisions, whichever connections they came from.
pub type Decide = Box<dyn FnOnce(&Page, i64) -> Result<Option<Vec<Mutation>>, CqlError> + Send>;

/// Computes a schema change from the current catalog.
pub type ChangeSchema = Box<dyn FnOnce(&Catalog) -> Changed + Send>;

/// What the configuration allows in schema changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaRules {
    /// `compact_tables_enabled`: CREATE TABLE WITH COMPACT STORAGE.
    pub may_create_compact: bool,
    /// `drop_compact_storage_enabled`: ALTER TABLE … DROP COMPACT STORAGE.
    pub may_drop_compact_storage: bool,
    /// `materialized_views_enabled`: CREATE MATERIALIZED VIEW.
    pub may_create_views: bool,
}

impl Default for SchemaRules {
    /// The node's defaults: Cassandra's, except that views can be created.
    fn default() -> Self {
        Self { may_create_compact: true, may_drop_compact_storage: false, may_create_views: true }
    }
}

/// The schema and the data, wherever they are stored.
pub trait Storage {
    /// The schema as known to this shard.
    fn catalog(&self) -> Catalog;

    /// Applies a write. Completes when the write is durable.
    fn apply(&self, mutation: Mutation) -> impl Future<Output = Result<(), CqlError>>;

    /// Applies several writes as a whole: a crash keeps either all or none of them. After an error they may
    /// have been applied, or may still be.
    fn apply_batch(&self, mutations: Vec<Mutation>) -> impl Future<Output = Result<(), CqlError>>;

    /// Applies several writes. After an error, or a crash, some of them may have been applied. A crash keeps
    /// either all or none of the writes that belong to one shard.
    fn apply_unlogged(&self, mutations: Vec<Mutation>) -> impl Future<Output = Result<(), CqlError>>;

    /// Reads the next page of a read.
    fn read(&self, command: ReadCommand) -> impl Future<Output = Result<Page, CqlError>>;

    /// Reads part of one partition, lets `decide` compute a write to that partition, and applies the write.
    /// No other call of this method accesses the partition between the read and the write. Returns the page
    /// that was read.
    fn read_modify_write(
        &self,
        command: ReadCommand,
        decide: Decide,
    ) -> impl Future<Output = Result<Page, CqlError>>;

    /// Changes the schema. Completes when the new schema is durable and known to every shard.
    fn change_schema(
        &self,
        change: ChangeSchema,
    ) -> impl Future<Output = Result<Vec<SchemaChange>, CqlError>>;

    /// Removes all rows of a table.
    fn truncate(&self, table: TableId) -> impl Future<Output = Result<(), CqlError>>;
}

/// The node and the shard on which a statement is executed.
pub trait Host {
    /// The wall clock: microseconds since the Unix epoch.
    fn wall_us(&self) -> i64;

    /// Returns a timestamp for a write without its own: microseconds of the wall clock, never the same value
    /// twice on this shard.
    fn timestamp_us(&self) -> i64;

    /// Returns random bits, for `uuid()` and similar functions.
    fn random_u64(&self) -> u64;

    /// Description of this node, for the system tables.
    fn node_info(&self) -> NodeInfo;

    /// The id of this node. Counter updates are added to the counter shard with this id.
    fn host_id(&self) -> Uuid;

    /// Number of service levels that the node supports besides the default one.
    fn service_levels_max(&self) -> usize {
        0
    }

    /// Yields to other tasks of the shard if this task has used up its time slice. Called between rows.
    fn maybe_yield(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The memory accounting of this shard's results; `None` if results are not counted.
    fn result_memory(&self) -> Option<Rc<ResultMemory>> {
        None
    }

    /// Logs a warning for the operator of the node.
    fn log_warning(&self, _text: &str) {}

    /// Logs a batch that is larger than a limit.
    fn log_batch(&self, _severity: BatchSeverity, _text: &str) {}

    /// Logs and counts a result that was refused memory. `text` describes the refusal.
    fn log_memory_refused(&self, _text: &str) {}
}

/// The client that sent the request.
pub trait ClientState {
    /// The role that has logged in; `None` if the connection needed no login.
    fn user(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether users need permissions: `authorizer: CassandraAuthorizer`.
    fn checks_permissions(&self) -> bool {
        false
    }

    /// The user's permissions on a table, including those on its keyspace and on all keyspaces. Called for
    /// every request; it must not be slow.
    fn table_permissions(&self, _table: &TableSchema) -> Permissions {
        Permissions::ALL
    }

    /// Whether the node counts as every replica of a keyspace, in all data centers.
    fn counts_as_all_replicas(&self) -> bool {
        false
    }

    /// Whether users without UNMASK see masks: `dynamic_data_masking_enabled`.
    fn masks_columns(&self) -> bool {
        false
    }

    /// Hashes a password as this node's logins expect it, with a salt. The hash is deliberately slow, so it
    /// is computed outside the shard's thread.
    fn hash_password(&self, _password: &str) -> impl Future<Output = Result<String, CqlError>> {
        let text = "org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD";
        std::future::ready(Err(CqlError::Invalid(text.to_string())))
    }

    /// Limits of results. Pages of a client that reads its answers slowly are smaller.
    fn result_limits(&self) -> ResultLimits {
        ResultLimits::default()
    }

    /// Batch sizes above which a warning is given or the batch is refused.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits::DEFAULT
    }

    /// What the configuration allows in schema changes.
    fn schema_rules(&self) -> SchemaRules {
        SchemaRules::default()
    }

    /// Waits for `turn`, the turn of a large result. Meanwhile the request is idle, and does not count as a
    /// request in flight.
    fn wait_idle<F: Future<Output = ()>>(&self, turn: F) -> impl Future<Output = ()> {
        turn
    }
}

/// The node as one request sees it; see the head of this file.
pub trait Coordinator: Storage + Host + ClientState {}

impl<T: Storage + Host + ClientState> Coordinator for T {}
