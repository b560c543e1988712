//! Answers a client's messages.
//!
//! Messages that set the connection up are answered in order of arrival. Statements run as tasks and are
//! answered when they end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use cql::{ConsistencyLevels, Execution, Host, Outcome, Prepared, ResultRows, StatementKind, Storage, Verb};
use engine::node::Deadline;
use engine::sharder::IGNORE_MSB;
use protocol::{
    BatchQuery, Compression, CqlError, Envelope, EventType, Execute, Header, HeaderFlags, Opcode,
    PreparedReply, ProtocolVersion, QueryParameters, Reply, Request, RequestMessage, SendMetadata,
    ShardingInfo, Startup, Supported, Values, WriteKind,
};

use super::auditing;
use super::connection::Connection;
use super::coordinator::ShardCoordinator;
use super::levels::{Effective, Levels, count};
use super::login::{AUTHENTICATOR, SetupStage};
use super::statement_counters::Operation;
use super::traces::Recorder;
use super::user::User;
use super::{CqlShard, on_all_shards};

/// Protocol version and compression of messages after STARTUP.
pub(crate) type Started = (ProtocolVersion, Option<Compression>);

/// State that a connection has negotiated.
#[derive(Default)]
pub(crate) struct Session {
    version: Cell<Option<ProtocolVersion>>,
    pub stage: Cell<SetupStage>,
    /// The role that has logged in; `None`: no login was required.
    user: RefCell<Option<Rc<User>>>,
    /// The service level of the session, and the version of the levels at which it was looked up.
    served: RefCell<Option<(u64, Effective)>>,
    keyspace: RefCell<Option<Arc<str>>>,
    events: Cell<u8>,
    /// Whether the answer to PREPARE marks conditional statements.
    marks_conditional: Cell<bool>,
    pub driver: RefCell<Option<(String, String)>>,
    /// The options of STARTUP.
    pub options: RefCell<BTreeMap<String, String>>,
}

impl Session {
    /// The version of STARTUP; `None` before it.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version.get()
    }

    pub fn user(&self) -> Option<Rc<User>> {
        self.user.borrow().clone()
    }

    /// The stage of the connection, in Cassandra's words.
    pub fn stage_name(&self) -> &'static str {
        match self.stage.get() {
            SetupStage::New => "established",
            SetupStage::LoginDue | SetupStage::LoginUnderWay => "authenticating",
            SetupStage::Ready => "ready",
        }
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.borrow().clone()
    }

    /// Records that a role has logged in.
    pub fn logged_in(&self, role: &str) {
        *self.user.borrow_mut() = Some(Rc::new(User::new(role)));
        *self.served.borrow_mut() = None;
        self.stage.set(SetupStage::Ready);
    }

    /// The service level of the next request.
    pub fn served(&self, levels: &Levels) -> Effective {
        let mut served = self.served.borrow_mut();
        match &*served {
            Some((version, effective)) if *version == levels.version() => effective.clone(),
            _ => {
                let effective = levels.of_role(self.user.borrow().as_ref().map(|user| &*user.name));
                *served = Some((levels.version(), effective.clone()));
                effective
            }
        }
    }

    /// The service level of this request: drivers' queries about nodes and schema have the level `driver` on
    /// any connection; all other requests have the role's level.
    pub fn served_for(&self, cql: &CqlShard, header: Header, body: &[u8]) -> Effective {
        if self.is_control(cql, header, body) {
            return cql.levels.of_drivers();
        }
        self.served(&cql.levels)
    }

    /// Whether the request is a driver's control statement. The first bytes decide for nearly all requests,
    /// because this runs for each of them; only an unprepared SELECT is decoded here. In case of doubt the
    /// request has the role's level.
    fn is_control(&self, cql: &CqlShard, header: Header, body: &[u8]) -> bool {
        match header.opcode {
            Opcode::Execute => cql.statements.is_control(leading_id(body)),
            Opcode::Query | Opcode::Prepare if leads_with_select(body) => {
                let Ok(message) = RequestMessage::decode(&Envelope { header, body }) else { return false };
                let used = self.keyspace.borrow();
                match message.request {
                    Request::Query { text, parameters } => {
                        cql::is_control_statement(parameters.keyspace.or(used.as_deref()), text)
                    }
                    Request::Prepare { text, keyspace } => {
                        cql::is_control_statement(keyspace.or(used.as_deref()), text)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    pub fn wants(&self, event: EventType) -> bool {
        self.events.get() & (1 << event as u8) != 0
    }

    pub fn register(&self, events: &[EventType]) {
        events.iter().for_each(|event| self.events.set(self.events.get() | 1 << *event as u8));
    }
}

/// The statement id at the start of an EXECUTE; a malformed body gives an id of no statement.
fn leading_id(body: &[u8]) -> &[u8] {
    let Some((length, rest)) = body.split_first_chunk() else { return &[] };
    rest.get(..usize::from(u16::from_be_bytes(*length))).unwrap_or_default()
}

/// Whether the text at the start of a QUERY or PREPARE is a SELECT.
fn leads_with_select(body: &[u8]) -> bool {
    body.get(4..10).is_some_and(|word| word.eq_ignore_ascii_case(b"select"))
}

/// Answers messages that set the connection up; `None`: the message is a statement.
pub(crate) fn answer_at_once(
    connection: &Rc<Connection>,
    header: Header,
    body: &[u8],
) -> Option<Option<Started>> {
    let session = &connection.session;
    let reply = Reply::new(header.version, header.stream);
    let refuse = |error: CqlError| {
        count_error(connection);
        connection.answer(|out| reply.error(out, &error));
        Some(None)
    };
    let is_set_up = session.version.get().is_some();
    if matches!(session.stage.get(), SetupStage::LoginDue | SetupStage::LoginUnderWay)
        && !matches!(header.opcode, Opcode::AuthResponse | Opcode::Options | Opcode::Startup)
    {
        let opcode = format!("{:?}", header.opcode).to_ascii_uppercase();
        return refuse(CqlError::Protocol(format!("Unexpected message {opcode}, expecting SASL_RESPONSE")));
    }
    match header.opcode {
        Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch if is_set_up => return None,
        Opcode::Startup | Opcode::Options => {}
        Opcode::Register | Opcode::AuthResponse if is_set_up => {}
        other => {
            return refuse(CqlError::Protocol(format!(
                "{other:?} before STARTUP: a connection begins with OPTIONS or STARTUP"
            )));
        }
    }
    let message = match RequestMessage::decode(&Envelope { header, body }) {
        Ok(message) => message,
        Err(error) => return refuse(error),
    };
    match message.request {
        Request::Options => connection.answer(|out| reply.supported(out, &supported(&connection.cql))),
        Request::Register { events } => {
            connection.register(&events);
            connection.answer(|out| reply.ready(out));
        }
        Request::AuthResponse { token } if session.stage.get() == SetupStage::LoginDue => {
            session.stage.set(SetupStage::LoginUnderWay);
            connection.log_in(header, token.unwrap_or_default());
        }
        Request::AuthResponse { .. } if session.stage.get() == SetupStage::LoginUnderWay => {
            return refuse(CqlError::Protocol("the last AUTH_RESPONSE is still being checked".to_string()));
        }
        Request::AuthResponse { .. } => {
            return refuse(CqlError::Protocol("no authentication was requested".to_string()));
        }
        Request::Startup(_) if is_set_up => {
            return refuse(CqlError::Protocol("STARTUP was sent already".to_string()));
        }
        Request::Startup(startup) => match agreed(header.version, &startup) {
            Ok(started) => {
                session.version.set(Some(header.version));
                session.marks_conditional.set(startup.option(Supported::LWT_OPTION).is_some());
                let driver = startup.option("DRIVER_NAME").map(|name| {
                    (name.to_string(), startup.option("DRIVER_VERSION").unwrap_or_default().to_string())
                });
                *session.driver.borrow_mut() = driver;
                *session.options.borrow_mut() =
                    startup.options().map(|(name, value)| (name.to_string(), value.to_string())).collect();
                match connection.cql.options.passwords {
                    Some(_) => {
                        session.stage.set(SetupStage::LoginDue);
                        connection.answer_startup(|out| reply.authenticate(out, AUTHENTICATOR), started);
                    }
                    None => {
                        session.stage.set(SetupStage::Ready);
                        connection.answer_startup(|out| reply.ready(out), started);
                    }
                }
                return Some(Some(started));
            }
            Err(error) => return refuse(error),
        },
        _ => return None,
    }
    Some(None)
}

fn agreed(version: ProtocolVersion, startup: &Startup<'_>) -> Result<Started, CqlError> {
    let Some(cql) = startup.option("CQL_VERSION") else {
        return Err(CqlError::Protocol("Missing value CQL_VERSION in STARTUP message".to_string()));
    };
    // A lower bound, as in Cassandra: the Rust driver requests 4.0.0.
    if cql.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major < 3) {
        return Err(CqlError::Protocol(format!(
            "CQL version {cql} is not supported by the binary protocol; use 3.0.0 or later"
        )));
    }
    let compression = match startup.option("COMPRESSION").map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "none") => None,
        Some("lz4") => Some(Compression::Lz4),
        Some("snappy") if !version.has_segments() => Some(Compression::Snappy),
        Some(other) => {
            return Err(CqlError::Protocol(format!(
                "Unknown compression algorithm: {other}; SUPPORTED lists the algorithms"
            )));
        }
    };
    Ok((version, compression))
}

fn supported(cql: &CqlShard) -> Supported {
    let node = &cql.options.node;
    Supported {
        sharding: Some(ShardingInfo {
            shard: cql.shard.id(),
            shards_count: cql.shard.shard_count(),
            ignore_msb: IGNORE_MSB,
            shard_aware_port: cql.options.shard_aware_port,
            shard_aware_port_ssl: cql.options.shard_aware_port_ssl,
        }),
        lwt_mark: true,
        ..Supported::new(&node.cql_version)
    }
}

pub(crate) fn count_error(connection: &Connection) {
    let errors = &connection.cql.counters.errors;
    errors.set(errors.get() + 1);
}

/// The answer to a statement's message.
enum Answer {
    Outcome { outcome: Outcome, metadata: SendMetadata },
    Prepared(Arc<Prepared>),
}

/// Arrival time, service level and page limit of a request.
pub(crate) struct Arrival {
    pub at_us: u64,
    pub served: Effective,
    /// Limit of a page, in bytes.
    pub page_bytes_max: u64,
}

/// Answers a statement. The future is made in its allocation: in the caller, the compiler makes its nine
/// kilobytes on the stack and copies them.
#[inline(never)]
pub(crate) fn answer<'a>(
    connection: &'a Rc<Connection>,
    header: Header,
    body: &'a [u8],
    arrival: &'a Arrival,
) -> Pin<Box<impl Future<Output = ()> + use<'a>>> {
    Box::pin(answer_unboxed(connection, header, body, arrival))
}

async fn answer_unboxed(connection: &Rc<Connection>, header: Header, body: &[u8], arrival: &Arrival) {
    let mut warnings = vec![];
    let is_asked = header.flags.has(HeaderFlags::TRACING);
    let shard = &connection.cql.shard;
    let trace = (is_asked || connection.cql.runtime.is_traced(|| shard.random_u64())).then(|| {
        let client = connection.peer_addr().ip();
        Rc::new(Recorder::new(&connection.cql.shard, client, header))
    });
    let mut planned = vec![];
    let answer = run(connection, header, body, arrival, trace.clone(), &mut warnings, &mut planned).await;
    if connection.cql.audit.is_on() {
        // Boxed, because the future is large and most nodes do not audit.
        let ended = auditing::request_ended(connection, header, body, &planned, answer.as_ref().err());
        Box::pin(ended).await;
    }
    let tracing_id = match &trace {
        Some(trace) => {
            trace.event(match &answer {
                Ok(Answer::Outcome { outcome: Outcome::Rows(rows), .. }) => {
                    format!("Answering with {} rows", rows.count())
                }
                Ok(_) => "Answering".to_string(),
                Err(error) => format!("Answering with an error: {error}"),
            });
            trace.finish().await;
            // A driver that has not asked for a trace does not expect its id.
            is_asked.then(|| trace.id().into_bytes())
        }
        None => None,
    };
    let reply = Reply {
        tracing_id: tracing_id.as_ref(),
        warnings: &warnings,
        ..Reply::new(header.version, header.stream)
    };
    match answer {
        Ok(Answer::Outcome { outcome: Outcome::Void, .. }) => connection.answer(|out| reply.void(out)),
        Ok(Answer::Outcome { outcome: Outcome::Rows(rows), metadata }) if rows.charge.is_large() => {
            let (count, cells_bytes, columns) = (rows.count(), rows.cells_bytes(), rows.columns.clone());
            let head =
                |out: &mut Vec<u8>| reply.rows(out, &columns, metadata).finish_head(cells_bytes, count);
            connection.answer_streamed(head, rows.into_blocks());
        }
        Ok(Answer::Outcome { outcome: Outcome::Rows(rows), metadata }) => {
            connection.answer(|out| write_rows(&reply, out, &rows, metadata));
        }
        Ok(Answer::Outcome { outcome: Outcome::SetKeyspace(name), .. }) => {
            *connection.session.keyspace.borrow_mut() = Some(name.as_str().into());
            connection.answer(|out| reply.set_keyspace(out, &name));
        }
        Ok(Answer::Outcome { outcome: Outcome::SchemaChange(change), .. }) => {
            connection.answer(|out| reply.schema_change(out, &change));
        }
        Ok(Answer::Prepared(prepared)) => {
            let marked = prepared.is_conditional && connection.session.marks_conditional.get();
            let prepared = PreparedReply {
                id: &prepared.id,
                variables: &prepared.variables,
                partition_key_indexes: &prepared.partition_key_indexes,
                result: &prepared.result,
                extra_flags: if marked { Supported::LWT_MARK } else { 0 },
            };
            connection.answer(|out| reply.prepared(out, &prepared));
        }
        Err(error) => {
            count_error(connection);
            if is_timeout(&error) {
                count(&arrival.served.level.counters.timed_out);
            }
            connection.answer(|out| reply.error(out, &error));
        }
    }
}

fn is_timeout(error: &CqlError) -> bool {
    matches!(error, CqlError::ReadTimeout { .. } | CqlError::WriteTimeout { .. })
}

fn write_rows(reply: &Reply<'_>, out: &mut Vec<u8>, rows: &ResultRows, metadata: SendMetadata) {
    let mut writer = reply.rows(out, &rows.columns, metadata);
    writer.encoded_rows(rows.cells(), rows.count());
    writer.finish(rows.paging_state.as_deref());
}

/// Executes a message. If the node audits, `planned` gets its statements, also if they fail.
async fn run(
    connection: &Rc<Connection>,
    header: Header,
    body: &[u8],
    arrival: &Arrival,
    trace: Option<Rc<Recorder>>,
    warnings: &mut Vec<String>,
    planned: &mut Vec<Arc<Prepared>>,
) -> Result<Answer, CqlError> {
    let cql = &connection.cql;
    let is_audited = cql.audit.is_on();
    let message = RequestMessage::decode(&Envelope { header, body })?;
    if let Some(trace) = &trace {
        trace.request(&message.request);
    }
    let node = ShardCoordinator::on(cql, connection.session.user(), trace.clone())?
        .with_pages_of(arrival.page_bytes_max)
        .at_level(&arrival.served.level);
    let session_keyspace = connection.session.keyspace.borrow().clone();
    match message.request {
        Request::Query { text, parameters } => {
            let keyspace = parameters.keyspace.or(session_keyspace.as_deref());
            let prepared = Prepared::new(&node.catalog(), keyspace, text)?;
            node.traced(|| "Parsed and planned the statement".to_string());
            let outcome = execute(&node, arrival, &prepared, &parameters, warnings).await;
            if is_audited {
                planned.push(Arc::new(prepared));
            }
            Ok(Answer::Outcome { outcome: outcome?, metadata: SendMetadata::Full })
        }
        Request::Prepare { text, keyspace } => {
            let keyspace = keyspace.or(session_keyspace.as_deref());
            let prepared = prepare(cql, &node, keyspace, text).await?;
            node.traced(|| "Prepared the statement on all shards".to_string());
            warnings.extend_from_slice(&prepared.warnings);
            if is_audited {
                planned.push(prepared.clone());
            }
            Ok(Answer::Prepared(prepared))
        }
        Request::Execute(Execute { id, result_metadata_id, parameters }) => {
            let prepared = known(cql, &node, id).await?;
            if is_audited {
                planned.push(prepared.clone());
            }
            if let Some(trace) = &trace {
                trace.statement(&prepared.text);
                trace.event("Found the prepared statement");
            }
            prepared.check_bound(&parameters.values)?;
            let outcome = execute(&node, arrival, &prepared, &parameters, warnings).await?;
            let metadata = match &outcome {
                // The columns of a conditional statement's answer depend on whether its condition held.
                Outcome::Rows(_) if prepared.is_conditional => SendMetadata::Full,
                Outcome::Rows(rows) => SendMetadata::for_execute(
                    header.version,
                    parameters.skip_metadata,
                    result_metadata_id,
                    &prepared.result,
                    &rows.columns,
                ),
                _ => SendMetadata::Full,
            };
            Ok(Answer::Outcome { outcome, metadata })
        }
        Request::Batch(batch) => {
            let keyspace = batch.parameters.keyspace.or(session_keyspace.as_deref());
            let mut statements: Vec<(Arc<Prepared>, &Values<'_>)> =
                Vec::with_capacity(batch.statements.len());
            for statement in &batch.statements {
                let prepared = match statement.query {
                    BatchQuery::Text(text) => Arc::new(Prepared::new(&node.catalog(), keyspace, text)?),
                    BatchQuery::Prepared(id) => known(cql, &node, id).await?,
                };
                statements.push((prepared, &statement.values));
            }
            if is_audited {
                planned.extend(statements.iter().map(|(prepared, _)| prepared.clone()));
            }
            node.traced(|| format!("Parsed and planned {} statements", statements.len()));
            let execution = execution(&node, &batch.parameters);
            let levels = consistency(&batch.parameters);
            let (catalog, replicas) = (node.catalog(), node.replicas());
            let kind =
                cql::check_batch_consistency(batch.batch_type, &statements, levels, &catalog, replicas);
            let kind = kind.inspect_err(|error| {
                let error = Err(error.clone());
                cql.statement_counters.ended(Some(Operation::Write), Verb::Batch, 0, 0, &error);
            })?;
            let timeout_us = arrival.served.timeout_us.or_else(|| cql.runtime.timeouts.get().of(kind));
            let too_late = || CqlError::WriteTimeout {
                consistency: batch.parameters.consistency as u16,
                received: 0,
                required: 1,
                kind: WriteKind::Batch,
            };
            let outcome =
                pin!(cql::execute_batch(&node, batch.batch_type, &statements, &execution, warnings));
            let outcome = in_time(&node, arrival, timeout_us, outcome, too_late).await;
            let took_us = node.now_us().saturating_sub(arrival.at_us);
            let (operation, count) = (Operation::of(kind, false), statements.len() as u64);
            cql.statement_counters.ended(operation, Verb::Batch, count, took_us, &outcome);
            if let Some((first, _)) = statements.first() {
                cql.statement_took(&first.text, took_us);
            }
            Ok(Answer::Outcome { outcome: outcome?, metadata: SendMetadata::Full })
        }
        Request::Startup(_) | Request::Options | Request::Register { .. } | Request::AuthResponse { .. } => {
            Err(CqlError::Server("a message that sets up the connection came as a statement".to_string()))
        }
    }
}

/// The statement with this id, prepared against the current schema. If its table has changed, it is prepared
/// again. If its columns have changed, the client gets UNPREPARED, so that it prepares the statement and
/// learns the columns.
async fn known(cql: &Rc<CqlShard>, node: &ShardCoordinator, id: &[u8]) -> Result<Arc<Prepared>, CqlError> {
    let unprepared = || CqlError::Unprepared { id: id.to_vec() };
    let prepared = cql.statements.get(id).ok_or_else(unprepared)?;
    let catalog = node.catalog();
    if prepared.is_current(&catalog) {
        return Ok(prepared);
    }
    let renewed = Prepared::new(&catalog, prepared.keyspace.as_deref(), &prepared.text)?;
    if renewed.result.id() != prepared.result.id() || renewed.variables.id() != prepared.variables.id() {
        return Err(unprepared());
    }
    Ok(share(cql, renewed).await)
}

/// Stores a statement on all shards.
async fn share(cql: &Rc<CqlShard>, prepared: Prepared) -> Arc<Prepared> {
    let prepared = Arc::new(prepared);
    let given = prepared.clone();
    on_all_shards(&cql.shard, move |cql| cql.statements.insert(given.clone())).await;
    prepared
}

/// Prepares a statement for all shards.
async fn prepare(
    cql: &Rc<CqlShard>,
    node: &ShardCoordinator,
    keyspace: Option<&str>,
    text: &str,
) -> Result<Arc<Prepared>, CqlError> {
    let catalog = node.catalog();
    if let Some(known) = cql.statements.get(&Prepared::id_of(keyspace, text))
        && known.is_current(&catalog)
    {
        return Ok(known);
    }
    let prepared = Prepared::new(&catalog, keyspace, text)?;
    prepared.check_target(&catalog)?;
    Ok(share(cql, prepared).await)
}

fn execution<'a>(node: &ShardCoordinator, parameters: &QueryParameters<'a>) -> Execution<'a> {
    Execution {
        now_us: node.wall_us(),
        timestamp_us: parameters.timestamp_us,
        now_s: parameters.now_s.and_then(|now_s| u32::try_from(now_s).ok()),
        page_rows: parameters
            .page_size_rows
            .and_then(|rows| u32::try_from(rows).ok())
            .filter(|rows| *rows > 0),
        paging_state: parameters.paging_state,
    }
}

fn consistency(parameters: &QueryParameters<'_>) -> ConsistencyLevels {
    ConsistencyLevels { consistency: parameters.consistency, serial: parameters.serial_consistency }
}

async fn execute(
    node: &ShardCoordinator,
    arrival: &Arrival,
    prepared: &Prepared,
    parameters: &QueryParameters<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let outcome = execute_uncounted(node, arrival, prepared, parameters, warnings).await;
    let operation = Operation::of(prepared.kind(), parameters.consistency.is_serial());
    let took_us = node.now_us().saturating_sub(arrival.at_us);
    node.statement_counters().ended(operation, prepared.verb, 1, took_us, &outcome);
    node.statement_took(&prepared.text, took_us);
    outcome
}

async fn execute_uncounted(
    node: &ShardCoordinator,
    arrival: &Arrival,
    prepared: &Prepared,
    parameters: &QueryParameters<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    warnings.extend_from_slice(&prepared.warnings);
    prepared.check_consistency(consistency(parameters), &node.catalog(), node.replicas())?;
    let execution = execution(node, parameters);
    let mut level_timeout_us = arrival.served.timeout_us;
    if let Some(name) = prepared.service_level() {
        let no_level = || CqlError::Invalid(format!("Service level {name} doesn't exist"));
        let (level, timeout_us) = node.levels().named(name).ok_or_else(no_level)?;
        level_timeout_us = timeout_us.or(level_timeout_us);
        node.read_as(level.group.get());
    }
    let of_kind = || match prepared.kind() {
        // A schema change is not interrupted.
        StatementKind::Other => None,
        kind => level_timeout_us.or_else(|| node.timeouts().of(kind)),
    };
    let timeout_us = prepared.timeout_us(&parameters.values, execution.now_us)?.or_else(of_kind);
    let too_late = || prepared.timed_out(parameters.consistency as u16);
    let outcome = {
        let outcome = pin!(prepared.execute(node, &parameters.values, &execution, warnings));
        in_time(node, arrival, timeout_us, outcome, too_late).await
    };
    warnings.extend(node.tombstone_warning(&prepared.text));
    outcome
}

/// The output of `outcome` if it ends within the timeout, counted from the request's arrival. If the timeout
/// is already over, `outcome` is not started. Its parts on other shards end by the same deadline.
async fn in_time(
    node: &ShardCoordinator,
    arrival: &Arrival,
    timeout_us: Option<u64>,
    outcome: Pin<&mut impl Future<Output = Result<Outcome, CqlError>>>,
    too_late: impl Fn() -> CqlError,
) -> Result<Outcome, CqlError> {
    let Some(timeout_us) = timeout_us else { return outcome.await };
    let deadline_us = arrival.at_us.saturating_add(timeout_us);
    if deadline_us <= node.poll_began_us() {
        return Err(too_late());
    }
    node.set_deadline(Deadline(Some(deadline_us)));
    match first_of(outcome, node.sleep_until_us(deadline_us)).await {
        None => Err(too_late()),
        Some(Err(error)) if is_timeout(&error) && node.now_us() >= deadline_us => Err(too_late()),
        Some(done) => done,
    }
}

/// The output of `wanted` if it ends before `alarm`; otherwise `wanted` is dropped.
async fn first_of<T>(wanted: impl Future<Output = T>, alarm: impl Future<Output = ()>) -> Option<T> {
    let (mut wanted, mut alarm) = (pin!(wanted), pin!(alarm));
    poll_fn(|context| match wanted.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
    })
    .await
}
