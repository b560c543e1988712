//! The interface to the storage: the functions of a node that the execution of a statement needs.
//!
//! A statement is planned and executed on the shard of its connection. The implementation of `Coordinator`
//! finds the shard that owns a partition. The futures need not be `Send`, because the work of a shard stays
//! on that shard.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Catalog, Changed, Permissions, SchemaChange};
use model::{Mutation, TableId, TableSchema};
use protocol::CqlError;
use reader::{Page, ReadCommand};
use uuid::Uuid;

use crate::ResultMemory;
use crate::modify::{BatchLimits, BatchSeverity};
use crate::system::NodeInfo;

/// Decides what to write to a partition, given its content and a timestamp in microseconds; `None` writes
/// nothing. The timestamp is drawn while the partition is locked. It is therefore larger than the timestamps
/// of all earlier decisions, whichever connections they came from.
pub type Decide = Box<dyn FnOnce(&Page, i64) -> Result<Option<Vec<Mutation>>, CqlError> + Send>;

/// Computes a schema change from the current catalog.
pub type ChangeSchema = Box<dyn FnOnce(&Catalog) -> Changed + Send>;

/// Limits of the result of a SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultLimits {
    /// A page of a paged read ends when its cells reach this size.
    pub page_bytes: u64,
    /// A page also ends after this number of tombstones, even if it has no rows.
    pub page_tombstones: u64,
    /// An unpaged result larger than this is logged.
    pub unpaged_soft_bytes: u64,
    /// An unpaged result larger than this is refused.
    pub unpaged_hard_bytes: u64,
}

impl Default for ResultLimits {
    /// ScyllaDB's defaults.
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            page_tombstones: 10_000,
            unpaged_soft_bytes: 1 << 20,
            unpaged_hard_bytes: 100 << 20,
        }
    }
}

/// The services of the node; see the head of this file.
pub trait Coordinator {
    /// The schema as known to this shard.
    fn catalog(&self) -> Catalog;

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

    /// Memory limits of results.
    fn result_limits(&self) -> ResultLimits {
        ResultLimits::default()
    }

    /// Batch sizes above which a warning is given or the batch is refused.
    fn batch_limits(&self) -> BatchLimits {
        BatchLimits::DEFAULT
    }

    /// The memory accounting of this shard's results; `None` if results are not counted.
    fn result_memory(&self) -> Option<Rc<ResultMemory>> {
        None
    }

    /// Waits for the turn of a large result. The request is idle meanwhile, and does not count as a request
    /// in flight.
    fn set_aside<F: Future<Output = ()>>(&self, turn: F) -> impl Future<Output = ()> {
        turn
    }

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

    /// Hashes a password for storage, with a salt. The hash is deliberately slow, so it is computed outside
    /// the shard's thread.
    fn hash_password(&self, _password: &str) -> impl Future<Output = Result<String, CqlError>> {
        let text = "org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD";
        std::future::ready(Err(CqlError::Invalid(text.to_string())))
    }

    /// Number of service levels that the node supports besides the default one.
    fn service_levels_max(&self) -> usize {
        0
    }

    /// Logs a warning for the operator of the node.
    fn warn(&self, _text: &str) {}

    /// Logs a batch that is larger than a limit.
    fn log_batch(&self, _severity: BatchSeverity, _text: &str) {}

    /// Records that a result was refused memory. `what` describes the refusal.
    fn memory_refused(&self, _what: &str) {}

    /// Yields to other tasks of the shard if this task has used up its time slice. Called between rows.
    fn give_way(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Applies a write. Completes when the write is durable.
    fn apply(&self, mutation: Mutation) -> impl Future<Output = Result<(), CqlError>>;

    /// Applies several writes. After an error, some of them may have been applied. A crash keeps either all
    /// or none of the writes that belong to one shard.
    fn apply_together(&self, mutations: Vec<Mutation>) -> impl Future<Output = Result<(), CqlError>>;

    /// Reads the next page of a read.
    fn read(&self, command: ReadCommand) -> impl Future<Output = Result<Page, CqlError>>;

    /// Reads part of one partition, lets `decide` compute a write to that partition, and applies the write.
    /// No other call of this method accesses the partition between the read and the write. Returns the page
    /// that was read.
    fn read_and_write(
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
