//! CQL over the network: connections, what they ask, and what they are told.
//!
//! | question | file |
//! |---|---|
//! | who listens, which shard gets a connection | `listener.rs` |
//! | bytes in, bytes out, how much at a time | `connection.rs`, encrypted: `transport.rs` |
//! | which client is too slow for its large answers | `taking.rs` |
//! | what a message is answered with | `session.rs` |
//! | prepared statements | `statements.rs` |
//! | how statements reach the storage | `node.rs` |
//! | what system tables say of the inside of all shards | `introspection.rs` |
//! | who is asking | `login.rs`, `passwords.rs`, `user.rs` |
//! | at which service level, and how fast those are | `levels.rs` |
//! | what is done about too many requests | `overload.rs` |
//! | what was traced | `traces.rs` |
//! | who is told what happens | `events.rs` |
//! | how often the log hears of the same thing | `log_throttle.rs` |
//! | from the configuration to all of it | `wiring.rs` |
//!
//! Each shard has a `CqlShard` with its own connections and its own copy of every prepared statement, so that a
//! request touches nothing of another shard unless its partition lives there.

mod connection;
#[cfg(test)]
mod delivery;
mod events;
mod introspection;
mod levels;
mod listener;
mod log_throttle;
mod login;
mod node;
mod overload;
mod passwords;
mod session;
mod statements;
mod taking;
mod traces;
mod transport;
mod user;
mod wiring;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use base::{HashMap, broken};
use catalog::Catalog;
use cql::ResultMemory;
use cql::modify::{BatchLimits, BatchSeverity};
use cql::system::{ClientInfo, NodeInfo};
use engine::EngineError;
use engine::report::memory_text;
use engine::shard::EngineShard;
use reader::ReadError;
use runtime::{CpuGroup, Event, Shard};

use crate::config::LogLevel;
use crate::logging::log;

pub use introspection::{UnderWay, memory, under_way};
pub use listener::{ListenError, Opened, Port, start as listen, stop as stop_listening};
pub use overload::Limits;
pub use transport::Encryption;
pub use wiring::start;

pub use levels::{LevelReport, report as level_reports};
pub use passwords::Passwords;

use connection::Connection;
use levels::{Effective, Level, Levels};
use log_throttle::LogThrottle;
use overload::Verdict;
use statements::Statements;
use traces::Traces;

/// So many requests end before connections that wait for room are told.
const FREED_TOLD: u32 = 16;
/// As much is read from a socket at once.
const READ_BYTES: usize = 64 << 10;

/// How CQL is served; the same on every shard.
#[derive(Clone, Debug)]
pub struct CqlOptions {
    /// What `system.local` says of this node.
    pub node: NodeInfo,
    /// Ports where a client's source port chooses the shard, as they are told to clients.
    pub shard_aware_port: Option<u16>,
    pub shard_aware_port_ssl: Option<u16>,
    /// Requests with larger bodies are refused.
    pub body_bytes_max: usize,
    /// Connections of all shards together; more are closed at once.
    pub connections_max: usize,
    /// Requests under way on one connection; then it is not read until some are answered.
    pub requests_per_connection_max: u32,
    /// What may be under way on one shard; beyond, requests are refused, or their connections not read until some are
    /// answered.
    pub limits: overload::Limits,
    /// Asks clients for a password; `None`: whoever comes is served.
    pub passwords: Option<Passwords>,
    /// Users need permissions.
    pub checks_permissions: bool,
    /// Columns can be masked.
    pub masks_columns: bool,
    /// The node counts as all replicas of a keyspace.
    pub counts_as_all_replicas: bool,
    pub timeouts: Timeouts,
    /// Bytes of answers that wait on one shard because clients do not take them; then only connections that have few are
    /// read.
    pub answer_bytes_max: usize,
    /// Bytes of requests that have not arrived completely, on one shard; beyond, large ones are refused.
    pub unfinished_bytes_max: usize,
    /// Connections that are open now, on all shards.
    pub open_connections: Arc<AtomicU64>,
    /// Bytes of prepared statements on one shard; beyond, those that were not used for longest go.
    pub prepared_bytes_max: usize,
    /// Connections that did nothing for so long are closed; `None`: none is.
    pub idle_timeout_us: Option<u64>,
    /// From where on batches are warned of and refused.
    pub batch_limits: BatchLimits,
    /// How much memory a SELECT's result may take.
    pub result_limits: cql::ResultLimits,
    /// What pages and small results in the making may take on one shard, and again what large unpaged results may take
    /// until their clients have them.
    pub result_bytes_max: u64,
    /// A page that is read past more tombstones is told to the log; 0: none is.
    pub tombstone_warn_threshold: u64,
}

/// How long requests may take whose level says nothing else, in microseconds.
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
    /// `None`: as long as it takes.
    fn of(&self, kind: cql::StatementKind) -> Option<u64> {
        use cql::StatementKind as K;
        Some(match kind {
            K::Read => self.read_us,
            K::Range => self.range_us,
            K::Write => self.write_us,
            K::Counter => self.counter_us,
            K::Conditional => self.conditional_us,
            K::Truncate => self.truncate_us,
            // What changes the schema is not left half done.
            K::Other => return None,
        })
    }
}

/// How long the log hears nothing of memory that was refused after it heard of some.
const MEMORY_PAUSE_US: u64 = 30_000_000;

/// How long the log hears nothing of tombstones after it heard of some.
const TOMBSTONES_PAUSE_US: u64 = 10_000_000;

/// How long the log hears nothing of reads that failed after it heard of one.
const FAILED_READS_PAUSE_US: u64 = 1_000_000;

/// How long the log hears nothing of large batches after it heard of one.
const LARGE_BATCHES_PAUSE_US: u64 = 1_000_000;

/// How long the log hears nothing of unlogged batches over many partitions after it heard of one, as in Cassandra.
const SPREAD_BATCHES_PAUSE_US: u64 = 60_000_000;

fn more_lines(left_out: u64) -> String {
    if left_out > 0 { format!(" ({left_out} more since the last such line)") } else { String::new() }
}

/// What a shard knows of its clients.
pub(crate) struct CqlShard {
    pub shard: Shard,
    pub options: Arc<CqlOptions>,
    pub statements: Statements,
    pub connections: RefCell<HashMap<u64, Rc<Connection>>>,
    next_connection: Cell<u64>,
    pub levels: Levels,
    /// Requests under way.
    requests: Cell<u32>,
    /// Bytes of requests under way.
    request_bytes: Cell<usize>,
    /// Buffers of answers.
    answer_bytes: Cell<usize>,
    /// What answers in the making are expected to add to that.
    expected_answer_bytes: Cell<usize>,
    /// Buffers of requests that have not arrived completely.
    unfinished_bytes: Cell<usize>,
    /// What was read from a socket, until it is with the connection's `Inbound`.
    read_buffer: RefCell<Vec<u8>>,
    /// No connection reads any more.
    is_stopping: Cell<bool>,
    /// Some requests have ended.
    pub released: Event,
    /// Requests that have ended since that was told.
    freed: Cell<u32>,
    last_timestamp_us: Cell<i64>,
    /// When the log last heard of a read that met many tombstones, and of one that met too many.
    tombstones_told_us: [Cell<Option<u64>>; 2],
    memory_told_us: Cell<Option<u64>>,
    failed_reads: LogThrottle,
    /// By [`BatchSeverity`].
    batches: [LogThrottle; 3],
    pub result_memory: Rc<ResultMemory>,
    /// Buffers of answers have become less.
    pub answers_left: Event,
    /// The engine's catalog, and the one that clients see, which is made of it.
    seen_catalog: RefCell<(Catalog, Catalog)>,
    pub counters: Counters,
    pub traces: Traces,
}

/// What has been served, for metrics.
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
            tombstones_told_us: Default::default(),
            memory_told_us: Cell::new(None),
            failed_reads: LogThrottle::default(),
            batches: Default::default(),
            result_memory,
            answers_left: Event::new(),
            seen_catalog: RefCell::new((Catalog::empty(), Catalog::empty().with_virtual_tables())),
            counters: Counters::default(),
            traces: Traces::default(),
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

    /// Tells the log where the shard's memory is, since somebody was refused some; seldom.
    pub fn memory_refused(&self, what: &str) {
        let now_us = self.shard.now_us();
        if self.memory_told_us.get().is_some_and(|told_us| now_us < told_us + MEMORY_PAUSE_US) {
            return;
        }
        self.memory_told_us.set(Some(now_us));
        let place = format_args!("shard {}", self.shard.id());
        log(LogLevel::Warn, place, "memory", format_args!("refused: {what}\n{}", self.memory_text()));
    }

    /// Tells the log of a file that could not be read or says what it cannot say; not of every read that meets it.
    pub fn read_failed(&self, error: &ReadError) {
        let now_us = self.shard.now_us();
        if let Some(left_out) = self.failed_reads.admit(now_us, FAILED_READS_PAUSE_US) {
            let place = format_args!("shard {}", self.shard.id());
            let more = more_lines(left_out);
            log(LogLevel::Error, place, "engine", format_args!("a read failed{more}: {error}"));
        }
    }

    /// Tells the log of a batch that is larger than a limit; not of every one.
    pub fn log_batch(&self, severity: BatchSeverity, text: &str) {
        let (level, pause_us) = match severity {
            BatchSeverity::TooLarge => (LogLevel::Error, LARGE_BATCHES_PAUSE_US),
            BatchSeverity::Large => (LogLevel::Warn, LARGE_BATCHES_PAUSE_US),
            BatchSeverity::Spread => (LogLevel::Warn, SPREAD_BATCHES_PAUSE_US),
        };
        if let Some(left_out) = self.batches[severity as usize].admit(self.shard.now_us(), pause_us) {
            let place = format_args!("shard {}", self.shard.id());
            log(level, place, "batch", format_args!("{text}{}", more_lines(left_out)));
        }
    }

    /// What this shard has of the server.
    pub fn of(shard: &Shard) -> Result<Rc<Self>, EngineError> {
        shard.local::<Self>().ok_or(EngineError::Stopped)
    }

    /// Whether the log has heard nothing of many tombstones, or of too many, for a while.
    pub fn may_warn_of_tombstones(&self, too_many: bool) -> bool {
        let (now_us, told_us) = (self.shard.now_us(), &self.tombstones_told_us[usize::from(too_many)]);
        let may = told_us.get().is_none_or(|told_us| now_us >= told_us + TOMBSTONES_PAUSE_US);
        if may {
            told_us.set(Some(now_us));
        }
        may
    }

    /// The clock in microseconds, but never twice the same on this shard.
    pub fn timestamp_us(&self) -> i64 {
        let next = self.shard.wall_us().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(next);
        next
    }

    /// The catalog as clients see it.
    pub fn with_virtual_tables(&self, catalog: &Catalog) -> Catalog {
        let mut seen = self.seen_catalog.borrow_mut();
        if !seen.0.is_same(catalog) {
            *seen = (catalog.clone(), catalog.with_virtual_tables());
        }
        seen.1.clone()
    }

    /// What this node tells of itself, with the clients of this shard and the traces of all.
    pub fn node_info(&self) -> NodeInfo {
        NodeInfo { clients: self.clients(), traces: self.traces.all(), ..self.options.node.clone() }
    }

    /// Who is connected to this shard.
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.connections.borrow().values().map(|connection| connection.client_info()).collect()
    }

    /// What becomes of another request of so many bytes.
    pub fn verdict(&self, effective: &Effective, bytes: usize) -> Verdict {
        let pace = effective.level.pace.borrow();
        let load = overload::Load {
            request_bytes: self.request_bytes.get(),
            requests: self.requests.get(),
            level_requests: pace.under_way(),
            level_wait_us: (pace.under_way() >= overload::REQUESTS_ALWAYS)
                .then(|| pace.wait_us(self.shard.now_us()))
                .flatten(),
        };
        let timeout_us = effective.timeout_us.unwrap_or(self.options.timeouts.read_us);
        overload::decide(&load, &self.options.limits, effective.workload, timeout_us, bytes)
    }

    /// Reads nothing more, and closes each connection when its requests under way have been answered.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        for connection in self.connections.borrow().values() {
            self.shard.spawn(CpuGroup::Statement, connection.clone().finish()).detach();
        }
    }

    /// A request of so many bytes begins.
    pub fn take_room(&self, level: &Level, bytes: usize) {
        self.request_bytes.set(self.request_bytes.get() + bytes);
        self.requests.set(self.requests.get() + 1);
        level.pace.borrow_mut().began(self.shard.now_us());
    }

    /// It has ended. Who waits for its level is told when there is room for several.
    pub fn give_room(&self, level: &Level, bytes: usize) {
        if !broken::is("room_returned") {
            self.request_bytes.set(self.request_bytes.get() - bytes);
        }
        self.requests.set(self.requests.get() - 1);
        level.pace.borrow_mut().ended(self.shard.now_us());
        let freed = self.freed.get() + 1;
        self.freed.set(freed);
        if freed >= FREED_TOLD || self.requests.get() <= overload::REQUESTS_ALWAYS {
            self.freed.set(0);
            self.released.signal();
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
        // A shard that has stopped needs to know nothing.
        let _ = call.await;
    }
}
