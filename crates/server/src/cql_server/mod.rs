//! The CQL server: connections, their requests and answers.
//!
//! | topic | file |
//! |---|---|
//! | ports; the shard of a connection | `listener.rs` |
//! | bytes in and out, and their limits | `connection.rs`; encryption: `transport.rs` |
//! | clients that take large answers too slowly | `taking.rs` |
//! | the answer to each message | `session.rs` |
//! | prepared statements | `statements.rs` |
//! | how statements reach the storage | `coordinator.rs` |
//! | the state of all shards, for system tables | `introspection.rs` |
//! | logins | `login.rs`, `passwords.rs` |
//! | service levels, and the rate of each | `levels.rs` |
//! | requests that are delayed or refused | `overload.rs` |
//! | traces | `traces.rs` |
//! | what the audit log says of requests | `auditing.rs` |
//! | statements that took long, in the log and in memory | `slow_queries.rs` |
//! | numbers and latencies of statements | `statement_counters.rs` |
//! | settings that nodetool changes while the node runs | `runtime_settings.rs` |
//! | events pushed to clients | `events.rs` |
//! | the parts, made from the configuration | `wiring.rs` |
//!
//! Each shard has a `CqlShard` with its own connections and its own copy of every prepared statement, so a
//! request touches nothing of another shard unless its partition lives there.

mod auditing;
mod connection;
mod coordinator;
#[cfg(test)]
mod delivery;
mod events;
mod introspection;
mod levels;
mod listener;
mod login;
mod overload;
mod passwords;
mod runtime_settings;
mod session;
mod slow_queries;
mod statement_counters;
mod statements;
mod taking;
mod traces;
mod transport;
mod user;
mod wiring;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base::{HashMap, LogThrottle, broken};
use catalog::{Catalog, Scripts};
use cql::system::{ClientInfo, NodeInfo};
use cql::{BatchLimits, BatchSeverity, ResultMemory};
use engine::EngineError;
use engine::shard::EngineShard;
use log::{Level as LogLevel, error, log, warn};
use reader::ReadError;
use reports::memory_text;
use runtime::{CpuGroup, Event, Shard};

pub(crate) use events::schema_changed as tell_schema_changed;
pub use introspection::{UnderWay, clients, memory, node_info, requests_in_flight};
pub use listener::{ListenError, Opened, Port, start as listen, stop as stop_listening};
pub use overload::Limits;
pub use runtime_settings::{TimeoutKind, set_timeout, set_trace_probability, timeouts, trace_probability};
pub use slow_queries::{SlowStatement, SlowStatements, slow_statements};
pub use statement_counters::{Operation, OperationReport, StatementReport, statement_reports};
pub use transport::Encryption;
pub use wiring::start;

pub use levels::{LevelReport, report as level_reports};
pub use passwords::Passwords;

use crate::audit::{AuditLog, AuditOptions};
use connection::Connection;
use levels::{Effective, Level, Levels};
use overload::AdmissionDecision;
use runtime_settings::RuntimeSettings;
use slow_queries::SlowQueries;
use statement_counters::StatementCounters;
use statements::Statements;
use traces::Traces;

/// Number of ended requests after which waiting connections are woken.
const FREED_TOLD: u32 = 16;
/// Size of a read from a socket, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Options of the CQL server; the same on every shard.
#[derive(Clone, Debug)]
pub struct CqlOptions {
    /// The content of `system.local`.
    pub node: NodeInfo,
    /// Port on which a client's source port selects the shard, as reported to clients.
    pub shard_aware_port: Option<u16>,
    pub shard_aware_port_ssl: Option<u16>,
    /// Requests with larger bodies are refused.
    pub body_bytes_max: usize,
    /// Limit of connections of all shards together; further ones are closed at once.
    pub connections_max: usize,
    /// Limit of requests in flight on one connection; at the limit it is not read until some are answered.
    pub requests_per_connection_max: u32,
    /// Limits of the requests in flight on one shard. Beyond them requests are refused, or their connections
    /// are not read until some are answered.
    pub limits: overload::Limits,
    /// Checks clients' passwords; `None`: no password is required.
    pub passwords: Option<Passwords>,
    /// Users need permissions.
    pub checks_permissions: bool,
    /// The audit log; `None`: it is off until nodetool switches it on.
    pub audit: Option<Arc<AuditOptions>>,
    /// Columns can be masked.
    pub masks_columns: bool,
    /// Runs user-defined functions; `None` if they are not allowed.
    pub scripts: Option<Scripts>,
    /// The node counts as all replicas of a keyspace.
    pub counts_as_all_replicas: bool,
    pub timeouts: Timeouts,
    /// Statements that take longer are logged; 0: none.
    pub slow_query_us: u64,
    /// Limit on one shard of the bytes of answers that clients do not take. Beyond it only connections with
    /// few such bytes are read.
    pub answer_bytes_max: usize,
    /// Limit on one shard of the bytes of incomplete requests; beyond it large ones are refused.
    pub unfinished_bytes_max: usize,
    /// Open connections of all shards.
    pub open_connections: Arc<AtomicU64>,
    /// Limit on one shard of the bytes of prepared statements; beyond it the least recently used are evicted.
    pub prepared_bytes_max: usize,
    /// Connections that are idle for this time are closed; `None`: no timeout.
    pub idle_timeout_us: Option<u64>,
    /// Thresholds from which batches are warned of or refused.
    pub batch_limits: BatchLimits,
    /// What schema changes may do.
    pub schema_rules: cql::SchemaRules,
    /// Memory that a SELECT's result may take.
    pub result_limits: cql::ResultLimits,
    /// Memory on one shard for pages and small results that are being produced, and the same amount again for
    /// large unpaged results until their clients have taken them.
    pub result_bytes_max: u64,
    /// A page that reads past more tombstones is logged; 0: no page is.
    pub tombstone_warn_threshold: u64,
}

/// Timeouts in microseconds, for requests whose service level has none.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub read_us: u64,
    pub range_us: u64,
    pub write_us: u64,
    pub counter_us: u64,
    pub conditional_us: u64,
    pub truncate_us: u64,
}

impl Timeouts {
    /// `None`: no timeout.
    fn of(&self, kind: cql::StatementKind) -> Option<u64> {
        use cql::StatementKind as K;
        Some(match kind {
            K::Read => self.read_us,
            K::Range => self.range_us,
            K::Write => self.write_us,
            K::Counter => self.counter_us,
            K::Conditional => self.conditional_us,
            K::Truncate => self.truncate_us,
            // A schema change is not interrupted.
            K::Other => return None,
        })
    }
}

/// Pause between two log lines about refused memory.
const MEMORY_PAUSE_US: u64 = 30_000_000;

/// Pause between two log lines about tombstones.
const TOMBSTONES_PAUSE_US: u64 = 10_000_000;

/// Pause between two log lines about failed reads.
const FAILED_READS_PAUSE_US: u64 = 1_000_000;

/// Pause between two log lines about large batches.
const LARGE_BATCHES_PAUSE_US: u64 = 1_000_000;

/// Pause between two log lines about unlogged batches over many partitions, as in Cassandra.
const SPREAD_BATCHES_PAUSE_US: u64 = 60_000_000;

/// What a shard knows of its clients.
pub(crate) struct CqlShard {
    pub shard: Shard,
    pub options: Arc<CqlOptions>,
    pub statements: Statements,
    pub connections: RefCell<HashMap<u64, Rc<Connection>>>,
    next_connection: Cell<u64>,
    pub levels: Levels,
    /// Requests in flight.
    requests: Cell<u32>,
    /// Bytes of requests in flight.
    request_bytes: Cell<usize>,
    /// Bytes of answers' buffers.
    answer_bytes: Cell<usize>,
    /// Expected bytes of answers that are being produced.
    expected_answer_bytes: Cell<usize>,
    /// Bytes of the buffers of incomplete requests.
    unfinished_bytes: Cell<usize>,
    /// Bytes read from a socket before the connection's `Inbound` takes them.
    read_buffer: RefCell<Vec<u8>>,
    /// No connection reads any more.
    is_stopping: Cell<bool>,
    /// Signalled when some requests have ended.
    pub released: Event,
    /// Requests that have ended since the last signal of `released`.
    freed: Cell<u32>,
    last_timestamp_us: Cell<i64>,
    /// Of reads that met many tombstones, and of those that met too many.
    tombstones: [LogThrottle; 2],
    refused_memory: LogThrottle,
    failed_reads: LogThrottle,
    /// By [`BatchSeverity`].
    batches: [LogThrottle; 3],
    pub result_memory: Rc<ResultMemory>,
    /// Signalled when answers' buffers have shrunk.
    pub answers_left: Event,
    /// The engine's catalog, and the catalog with virtual tables made from it.
    seen_catalog: RefCell<(Catalog, Catalog)>,
    pub counters: Counters,
    pub statement_counters: StatementCounters,
    pub runtime: RuntimeSettings,
    pub traces: Traces,
    pub audit: Rc<AuditLog>,
    pub slow_queries: Rc<SlowQueries>,
}

/// Counters of the CQL server, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: Cell<u64>,
    pub errors: Cell<u64>,
    pub connections_total: Cell<u64>,
}

impl CqlShard {
    fn start(shard: &Shard, options: Arc<CqlOptions>) {
        let statements = Statements::new(options.prepared_bytes_max);
        let result_memory = ResultMemory::new(options.result_bytes_max);
        let runtime = RuntimeSettings::new(options.timeouts);
        let node = SocketAddr::new(options.node.listen_address, options.node.listen_port);
        let audit = AuditLog::start(shard, node, options.audit.clone());
        let this = Rc::new(Self {
            shard: shard.clone(),
            options,
            statements,
            connections: RefCell::default(),
            next_connection: Cell::new(0),
            levels: Levels::new(),
            requests: Cell::new(0),
            request_bytes: Cell::new(0),
            answer_bytes: Cell::new(0),
            expected_answer_bytes: Cell::new(0),
            unfinished_bytes: Cell::new(0),
            read_buffer: RefCell::new(vec![0; READ_BYTES]),
            is_stopping: Cell::new(false),
            released: Event::new(),
            freed: Cell::new(0),
            last_timestamp_us: Cell::new(0),
            tombstones: Default::default(),
            refused_memory: LogThrottle::default(),
            failed_reads: LogThrottle::default(),
            batches: Default::default(),
            result_memory,
            answers_left: Event::new(),
            seen_catalog: RefCell::new((Catalog::empty(), Catalog::empty().with_virtual_tables())),
            counters: Counters::default(),
            statement_counters: StatementCounters::default(),
            runtime,
            traces: Traces::default(),
            audit,
            slow_queries: Rc::default(),
        });
        if let Ok(engine) = EngineShard::of(shard) {
            let known = Rc::downgrade(&this);
            let explain = move || known.upgrade().map_or_else(String::new, |this| this.memory_text());
            engine.admissions().explain_by(explain);
        }
        shard.set_local(this);
    }

    fn memory_text(&self) -> String {
        introspection::memory_of(self).map_or_else(|_| String::new(), |uses| memory_text(&uses))
    }

    /// Logs where the shard's memory is, because a request was refused some; at most every
    /// [`MEMORY_PAUSE_US`].
    pub fn memory_refused(&self, what: &str) {
        if self.refused_memory.admit(self.shard.now_us(), MEMORY_PAUSE_US).is_some() {
            warn!(target: "memory", "refused: {what}\n{}", self.memory_text());
        }
    }

    /// Logs a file that could not be read or is corrupt; not each read that meets it.
    pub fn read_failed(&self, error: &ReadError) {
        if let Some(more) = self.failed_reads.admit_text(self.shard.now_us(), FAILED_READS_PAUSE_US) {
            error!(target: "engine", "a read failed{more}: {error}");
        }
    }

    /// Logs a batch that is larger than a limit; not each one.
    pub fn log_batch(&self, severity: BatchSeverity, text: &str) {
        let (level, pause_us) = match severity {
            BatchSeverity::TooLarge => (LogLevel::Error, LARGE_BATCHES_PAUSE_US),
            BatchSeverity::Large => (LogLevel::Warn, LARGE_BATCHES_PAUSE_US),
            BatchSeverity::Spread => (LogLevel::Warn, SPREAD_BATCHES_PAUSE_US),
        };
        if let Some(more) = self.batches[severity as usize].admit_text(self.shard.now_us(), pause_us) {
            log!(target: "batch", level, "{text}{more}");
        }
    }

    /// The CQL server's state on this shard.
    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }

    /// Whether a line about many, or too many, tombstones may be logged now; if so, records the time.
    pub fn may_warn_of_tombstones(&self, too_many: bool) -> bool {
        self.tombstones[usize::from(too_many)].admit(self.shard.now_us(), TOMBSTONES_PAUSE_US).is_some()
    }

    /// The wall clock in microseconds, strictly increasing on this shard.
    pub fn timestamp_us(&self) -> i64 {
        let next = self.shard.wall_us().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(next);
        next
    }

    /// The catalog as clients see it.
    pub fn with_virtual_tables(&self, catalog: &Catalog) -> Catalog {
        let mut seen = self.seen_catalog.borrow_mut();
        if !seen.0.is_same(catalog) {
            let scripts = self.options.scripts.clone();
            *seen = (catalog.clone(), catalog.with_virtual_tables().with_scripts(scripts));
        }
        seen.1.clone()
    }

    /// This node's description, with the clients of this shard and all traces.
    pub fn node_info(&self) -> NodeInfo {
        NodeInfo { clients: self.clients(), traces: self.traces.all(), ..self.options.node.clone() }
    }

    /// The clients connected to this shard.
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.connections.borrow().values().map(|connection| connection.client_info()).collect()
    }

    /// The verdict on another request of `bytes` bytes.
    pub fn admission(&self, effective: &Effective, bytes: usize) -> AdmissionDecision {
        let service_rate = effective.level.service_rate.borrow();
        let load = overload::ShardLoad {
            request_bytes: self.request_bytes.get(),
            requests: self.requests.get(),
            level_requests: service_rate.in_flight(),
            level_wait_us: (service_rate.in_flight() >= overload::REQUESTS_ALWAYS)
                .then(|| service_rate.wait_us(self.shard.now_us()))
                .flatten(),
        };
        let timeout_us = effective.timeout_us.unwrap_or(self.runtime.timeouts.get().read_us);
        overload::decide(&load, &self.options.limits, effective.workload, timeout_us, bytes)
    }

    /// Stops reading, and closes each connection when its requests in flight are answered.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        for connection in self.connections.borrow().values() {
            self.shard.spawn(CpuGroup::Statement, connection.clone().finish()).detach();
        }
    }

    /// Serves connections again after [`Self::stop`].
    pub fn resume(&self) {
        self.is_stopping.set(false);
    }

    /// Counts a request of `bytes` bytes as started.
    pub fn begin_request(&self, level: &Level, bytes: usize, now_us: u64) {
        self.request_bytes.set(self.request_bytes.get() + bytes);
        self.requests.set(self.requests.get() + 1);
        level.service_rate.borrow_mut().began(now_us);
    }

    /// Counts a request as ended. Waiting connections are woken when several requests have ended.
    pub fn end_request(&self, level: &Level, bytes: usize, now_us: u64) {
        if !broken::is("room_returned") {
            self.request_bytes.set(self.request_bytes.get() - bytes);
        }
        self.requests.set(self.requests.get() - 1);
        level.service_rate.borrow_mut().ended(now_us);
        let freed = self.freed.get() + 1;
        self.freed.set(freed);
        if freed >= FREED_TOLD || self.requests.get() <= overload::REQUESTS_ALWAYS {
            self.freed.set(0);
            self.released.signal();
        }
    }

    /// Logs a statement if it took long.
    #[inline]
    pub fn statement_took(&self, text: &str, took_us: u64) {
        let limit_us = self.options.slow_query_us;
        if took_us > limit_us && limit_us > 0 {
            self.slow_queries.record(&self.shard, text, took_us, limit_us);
        }
    }

    fn add_connection(&self, connection: Rc<Connection>) -> u64 {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        self.connections.borrow_mut().insert(id, connection);
        self.counters.connections_total.set(self.counters.connections_total.get() + 1);
        id
    }
}

/// Runs `f` on every shard and waits for all.
pub(crate) async fn on_all_shards<F>(shard: &Shard, f: F)
where
    F: Fn(&CqlShard) + Clone + Send + 'static,
{
    let calls: Vec<_> = (0..shard.shard_count())
        .map(|target| {
            let f = f.clone();
            shard.call(target, CpuGroup::Statement, |shard| async move {
                if let Ok(cql) = CqlShard::of(&shard) {
                    f(&cql);
                }
            })
        })
        .collect();
    for call in calls {
        // A stopped shard is skipped.
        let _ = call.await;
    }
}
