//! The node's storage as the `Coordinator` of `cql`.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use base::broken;
use catalog::{Catalog, Permissions, SchemaChange};
use cql::system::{self, NodeInfo};
use cql::{
    BatchLimits, BatchSeverity, ChangeSchema, ClientState, Decide, Host, Replicas, ResultLimits,
    ResultMemory, Storage,
};
use engine::EngineError;
use engine::commitlog::LogError;
use engine::node::{self, Deadline, NodeShard};
use model::{Mutation, PartitionKey, PartitionRange, TableId, TableSchema};
use protocol::{CqlError, FailureReason};
use reader::{LimitExceeded, Page, ReadCommand, ReadError, Refusal};
use runtime::{CpuGroup, Shard};
use uuid::Uuid;

use super::levels::Level;
use super::statement_counters::StatementCounters;
use super::traces::Recorder;
use super::user::User;
use super::{CqlShard, Timeouts, events, introspection, levels};

/// Limit of a statement's text in a warning.
const WARNED_QUERY_BYTES_MAX: usize = 512;

/// The node as statements see it, on the shard of their connection.
pub(crate) struct ShardCoordinator {
    shard: Shard,
    cql: Rc<CqlShard>,
    node: Rc<NodeShard>,
    /// The role that has logged in.
    user: Option<Rc<User>>,
    /// The CPU group charged for reads; `None`: that of the calling task.
    group: Cell<Option<CpuGroup>>,
    /// Deadline of the requests to the engine.
    deadline: Cell<Deadline>,
    page_bytes_max: u64,
    /// The service level of the request; `None`: none.
    level: Option<Rc<Level>>,
    /// Records the request's activities, if the client requested tracing.
    trace: Option<Rc<Recorder>>,
    /// The page with the most tombstones, if they exceed the warning threshold.
    dead: Cell<Option<DeadPage>>,
}

/// A request of this level waits for memory and is not under way until this is dropped.
struct IdleRequest<'n> {
    shard: &'n Shard,
    level: &'n Level,
}

impl<'n> IdleRequest<'n> {
    fn begin(shard: &'n Shard, level: &'n Level) -> Self {
        level.service_rate.borrow_mut().idle(shard.now_us());
        Self { shard, level }
    }
}

impl Drop for IdleRequest<'_> {
    fn drop(&mut self) {
        self.level.service_rate.borrow_mut().began(self.shard.now_us());
    }
}

/// A page that was slow because of tombstones.
#[derive(Clone, Copy)]
struct DeadPage {
    live_rows: u64,
    tombstones: u64,
    /// Token of the last partition that was read.
    token: i64,
}

impl ShardCoordinator {
    /// The node on this shard, without a service level.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn on(
        cql: &Rc<CqlShard>,
        user: Option<Rc<User>>,
        trace: Option<Rc<Recorder>>,
    ) -> Result<Self, CqlError> {
        let node = NodeShard::of(&cql.shard).map_err(|error| cql_error(&error))?;
        let (group, deadline) = Default::default();
        let dead = Cell::default();
        let (shard, cql) = (cql.shard.clone(), cql.clone());
        let (page_bytes_max, level) = (u64::MAX, None);
        Ok(Self { shard, cql, node, user, group, deadline, page_bytes_max, level, trace, dead })
    }

    /// Sets the service level of the request.
    #[must_use]
    pub fn at_level(self, level: &Rc<Level>) -> Self {
        Self { level: Some(level.clone()), ..self }
    }

    /// Limits pages to about this many bytes.
    #[must_use]
    pub fn with_pages_of(self, page_bytes_max: u64) -> Self {
        Self { page_bytes_max, ..self }
    }

    /// Records an activity, if the client requested tracing.
    pub fn traced(&self, activity: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.event(activity());
        }
    }

    /// `shop.orders on shard 1`
    fn place(&self, table: &TableSchema, token: Option<i64>) -> String {
        match token {
            Some(token) => {
                let shard = self.node.sharder.shard_of(token);
                format!("{}.{} on shard {shard}", table.keyspace, table.name)
            }
            None => format!("{}.{} on all shards", table.keyspace, table.name),
        }
    }

    fn page_read(&self, before: Option<(Arc<TableSchema>, Option<i64>)>, page: &Page) {
        let Some((table, token)) = before else { return };
        self.traced(|| {
            format!(
                "Read a page of {} rows in {} partitions and {} tombstones of {}",
                page.row_count(),
                page.partitions.len(),
                page.tombstones,
                self.place(&table, token)
            )
        });
    }

    /// The table and token of a read, if the request is traced.
    fn to_trace(&self, command: &ReadCommand) -> Option<(Arc<TableSchema>, Option<i64>)> {
        self.trace.as_ref()?;
        let table = self.catalog().table_by_id(command.table)?.schema.clone();
        let token = match &command.partitions {
            PartitionRange::Key(key) => Some(key.token()),
            PartitionRange::Between { .. } => None,
        };
        Some((table, token))
    }

    /// The warning to the client about tombstones that `query` has read; the text is Cassandra's.
    pub fn tombstone_warning(&self, query: &str) -> Option<String> {
        let DeadPage { live_rows, tombstones, token } = self.dead.take()?;
        let query = &query[..query.floor_char_boundary(WARNED_QUERY_BYTES_MAX)];
        Some(format!(
            "Read {live_rows} live rows and {tombstones} tombstone cells for query {query}; token {token} \
             (see tombstone_warn_threshold)"
        ))
    }

    /// Logs a page with too many tombstones, and keeps it for the client's warning.
    fn warn_of_tombstones(&self, table: TableId, key: Option<&PartitionKey>, page: &Page) {
        let threshold = self.cql.options.tombstone_warn_threshold;
        if threshold == 0 || page.tombstones <= threshold {
            return;
        }
        if self.dead.get().is_none_or(|dead| dead.tombstones < page.tombstones) {
            let last = page.partitions.last().map(|partition| &partition.key);
            let token = key.or(last).map_or(0, PartitionKey::token);
            let (live_rows, tombstones) = (page.row_count(), page.tombstones);
            self.dead.set(Some(DeadPage { live_rows, tombstones, token }));
        }
        if !self.cql.may_warn_of_tombstones(false) {
            return;
        }
        let catalog = self.catalog();
        let table = catalog.table_by_id(table).map(|table| table.schema.full_name()).unwrap_or_default();
        let key = key.map_or_else(
            || "a range of partitions".to_string(),
            |key| format!("partition key \"{}\"", key.bytes().escape_ascii()),
        );
        self.log_warning(&format!(
            "Read {} live rows and {} dead rows/tombstones for {table} {key} (see tombstone_warn_threshold)",
            page.row_count(),
            page.tombstones
        ));
    }

    /// Converts an error of a read to the protocol's, and logs details that the protocol's error cannot
    /// carry.
    fn read_error(&self, error: &EngineError) -> CqlError {
        if let EngineError::Read(ReadError::Limit(LimitExceeded::Tombstones(text))) = error
            && self.cql.may_warn_of_tombstones(true)
        {
            self.log_warning(text);
        }
        if let EngineError::Read(error @ (ReadError::Corrupt { .. } | ReadError::Io { .. })) = error {
            self.cql.read_failed(error);
        }
        cql_error(error)
    }

    /// Microseconds on the shard's clock.
    pub fn now_us(&self) -> u64 {
        self.shard.now_us()
    }

    /// The time at which the current poll began, on the shard's clock. The clock is not read again.
    pub fn poll_began_us(&self) -> u64 {
        self.shard.poll_began_us()
    }

    /// Sets the deadline of the following requests to the engine.
    pub fn set_deadline(&self, deadline: Deadline) {
        self.deadline.set(deadline);
    }

    /// Charges the following reads to this group: its CPU, its I/O class, its semaphore.
    pub fn read_as(&self, group: CpuGroup) {
        self.group.set(Some(group));
    }

    pub fn statement_counters(&self) -> &StatementCounters {
        &self.cql.statement_counters
    }

    /// Logs a statement if it took long.
    pub fn statement_took(&self, text: &str, took_us: u64) {
        self.cql.statement_took(text, took_us);
    }

    pub fn levels(&self) -> &levels::Levels {
        &self.cql.levels
    }

    /// The replicas that this node stands for.
    pub fn replicas(&self) -> Replicas<'_> {
        let options = &self.cql.options;
        Replicas { data_center: &options.node.data_center, counts_as_all: options.counts_as_all_replicas }
    }

    pub fn timeouts(&self) -> Timeouts {
        self.cql.runtime.timeouts.get()
    }

    /// Completes at `deadline_us` on the shard's clock, not before.
    pub fn sleep_until_us(&self, deadline_us: u64) -> impl Future<Output = ()> + 'static {
        self.shard.sleep_until_us(deadline_us)
    }

    /// A page of a virtual table, computed now; `None`: the table is stored.
    async fn read_virtual(&self, command: &ReadCommand) -> Result<Option<Page>, CqlError> {
        let catalog = self.catalog();
        let Some(table) =
            catalog.table_by_id(command.table).filter(|table| system::is_virtual(&table.schema))
        else {
            return Ok(None);
        };
        let mut info = self.node_info();
        introspection::fill_node_info(&self.shard, &table.schema, &mut info)
            .await
            .map_err(|error| cql_error(&error))?;
        let now_s = u32::try_from(self.shard.wall_us() / 1_000_000).unwrap_or(0);
        system::read_virtual(command, now_s, &info, &catalog)
    }
}

fn key_of(command: &ReadCommand) -> Option<PartitionKey> {
    match &command.partitions {
        PartitionRange::Key(key) => Some(key.clone()),
        PartitionRange::Between { .. } => None,
    }
}

/// Converts the engine's error to the protocol's. Few of the protocol's error kinds can carry a text.
pub(crate) fn cql_error(error: &EngineError) -> CqlError {
    match error {
        EngineError::Invalid(text) => CqlError::Invalid(text.clone()),
        EngineError::Schema(error) => cql::from_catalog(error.clone()),
        EngineError::UnknownTable(_) | EngineError::Log(LogError::TooLarge { .. }) => {
            CqlError::Invalid(error.to_string())
        }
        EngineError::Read(ReadError::Refused(refusal)) => match refusal {
            // The single replica was asked and has not answered.
            Refusal::TimedOut(_) => {
                CqlError::ReadTimeout { consistency: 1, received: 0, required: 1, data_present: false }
            }
            Refusal::QueueFull(text) | Refusal::Killed(text) => CqlError::Overloaded(text.clone()),
        },
        EngineError::Read(ReadError::Limit(LimitExceeded::Tombstones(_))) => CqlError::ReadFailure {
            consistency: 1,
            received: 0,
            required: 1,
            failures: 1,
            reason: FailureReason::ReadTooManyTombstones,
            data_present: false,
        },
        EngineError::TimedOut => {
            CqlError::ReadTimeout { consistency: 1, received: 0, required: 1, data_present: false }
        }
        EngineError::Stopped => CqlError::Bootstrapping("the node is stopping".to_string()),
        _ => CqlError::Server(error.to_string()),
    }
}

/// An error on its way between shards.
enum Refused {
    /// The function that decides the write has refused it.
    Decided(CqlError),
    Failed(EngineError),
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl Storage for ShardCoordinator {
    fn catalog(&self) -> Catalog {
        self.cql.with_virtual_tables(&self.node.catalog.borrow())
    }

    async fn apply(&self, mutation: Mutation) -> Result<(), CqlError> {
        let place = self.trace.as_ref().map(|_| self.place(&mutation.schema, Some(mutation.key.token())));
        if broken::is("write_applied") && self.shard.random_u64().is_multiple_of(8) {
            return Ok(());
        }
        let applied = node::apply(&self.shard, mutation, self.deadline.get()).await;
        applied.map_err(|error| cql_error(&error))?;
        self.traced(|| format!("Wrote a mutation of {}", place.unwrap_or_default()));
        Ok(())
    }

    async fn apply_batch(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        let count = mutations.len();
        let applied = node::apply_batch(&self.shard, mutations, self.deadline.get()).await;
        applied.map_err(|error| cql_error(&error))?;
        self.traced(|| format!("Wrote {count} mutations together"));
        Ok(())
    }

    async fn apply_unlogged(&self, mutations: Vec<Mutation>) -> Result<(), CqlError> {
        let count = mutations.len();
        let applied = node::apply_unlogged(&self.shard, mutations, self.deadline.get()).await;
        applied.map_err(|error| cql_error(&error))?;
        self.traced(|| format!("Wrote {count} mutations"));
        Ok(())
    }

    async fn read(&self, mut command: ReadCommand) -> Result<Page, CqlError> {
        if let Some(page) = self.read_virtual(&command).await? {
            return Ok(page);
        }
        let traced = self.to_trace(&command);
        command.trace = self.trace.as_ref().map(|trace| trace.begin_read());
        let (table, key) = (command.table, key_of(&command));
        let (shard, deadline) = (self.shard.clone(), self.deadline.get());
        let page = match self.group.get() {
            Some(group) => {
                let read = async move { node::read(&shard, command, deadline).await };
                self.shard.spawn(group, read).await
            }
            None => node::read(&shard, command, deadline).await,
        };
        let mut page = page.map_err(|error| self.read_error(&error))?;
        if page.next.is_some() && broken::is("page_whole") {
            page.partitions.pop();
        }
        self.warn_of_tombstones(table, key.as_ref(), &page);
        self.page_read(traced, &page);
        Ok(page)
    }

    async fn read_modify_write(&self, mut command: ReadCommand, decide: Decide) -> Result<Page, CqlError> {
        // The clock of the shard that has the partition: those who decide there never get the same time.
        let decide = move |shard: &Shard, page: &Page| {
            let timestamp_us = CqlShard::of(shard)?.timestamp_us();
            decide(page, timestamp_us).map_err(Refused::Decided)
        };
        let (table, key) = (command.table, key_of(&command));
        let traced = self.to_trace(&command);
        command.trace = self.trace.as_ref().map(|trace| trace.begin_read());
        let page = node::read_modify_write(&self.shard, command, self.deadline.get(), decide).await;
        let page = page.map_err(|refused| match refused {
            Refused::Decided(error) => error,
            Refused::Failed(error) => self.read_error(&error),
        })?;
        self.warn_of_tombstones(table, key.as_ref(), &page);
        self.page_read(traced, &page);
        self.traced(|| "Decided the write, with the partition locked".to_string());
        Ok(page)
    }

    async fn change_schema(&self, change: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        if broken::is("schema_changed") && self.shard.random_u64().is_multiple_of(8) {
            return Ok(vec![]);
        }
        let access = self.node.catalog.borrow().access().clone();
        let changes = node::change_schema(&self.shard, change).await.map_err(|error| cql_error(&error))?;
        if !Arc::ptr_eq(&access, self.node.catalog.borrow().access()) {
            levels::publish(&self.shard).await.map_err(|error| cql_error(&error))?;
        }
        self.traced(|| format!("Changed the schema on all shards ({} changes)", changes.len()));
        events::schema_changed(&self.shard, &changes).await;
        Ok(changes)
    }

    async fn truncate(&self, table: TableId) -> Result<(), CqlError> {
        node::truncate(&self.shard, table).await.map_err(|error| CqlError::Truncate(error.to_string()))
    }
}

impl Host for ShardCoordinator {
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

    fn service_levels_max(&self) -> usize {
        levels::LEVELS_MAX
    }

    async fn maybe_yield(&self) {
        if self.shard.need_preempt() {
            self.shard.yield_now().await;
        }
    }

    fn result_memory(&self) -> Option<Rc<ResultMemory>> {
        Some(self.cql.result_memory.clone())
    }

    fn log_warning(&self, text: &str) {
        log::warn!(target: "query_result", "{text}");
    }

    fn log_batch(&self, severity: BatchSeverity, text: &str) {
        self.cql.log_batch(severity, text);
    }

    fn log_memory_refused(&self, what: &str) {
        self.cql.memory_refused(what);
    }
}

impl ClientState for ShardCoordinator {
    fn user(&self) -> Option<Arc<str>> {
        self.user.as_ref().map(|user| user.name.clone())
    }

    fn checks_permissions(&self) -> bool {
        self.cql.options.checks_permissions
    }

    fn counts_as_all_replicas(&self) -> bool {
        self.cql.options.counts_as_all_replicas
    }

    fn masks_columns(&self) -> bool {
        self.cql.options.masks_columns
    }

    fn table_permissions(&self, table: &TableSchema) -> Permissions {
        if !self.cql.options.checks_permissions {
            return Permissions::ALL;
        }
        match &self.user {
            Some(user) => user.table_permissions(self.node.catalog.borrow().access(), table),
            None => Permissions::NONE,
        }
    }

    async fn hash_password(&self, password: &str) -> Result<String, CqlError> {
        match &self.cql.options.passwords {
            Some(passwords) => passwords.hash(password).await,
            None => {
                let text = "org.apache.cassandra.auth.CassandraRoleManager doesn't support PASSWORD";
                Err(CqlError::Invalid(text.to_string()))
            }
        }
    }

    fn result_limits(&self) -> ResultLimits {
        let limits = self.cql.options.result_limits;
        ResultLimits { page_bytes: limits.page_bytes.min(self.page_bytes_max), ..limits }
    }

    fn schema_rules(&self) -> cql::SchemaRules {
        self.cql.options.schema_rules
    }

    fn batch_limits(&self) -> BatchLimits {
        self.cql.options.batch_limits
    }

    async fn wait_idle<F: Future<Output = ()>>(&self, turn: F) {
        self.traced(|| "Waiting for memory of large unpaged results".to_string());
        let idle = self.level.as_ref().map(|level| IdleRequest::begin(&self.shard, level));
        turn.await;
        drop(idle);
    }
}
