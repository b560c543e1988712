//! What a client's messages are answered with.
//!
//! Messages that set the connection up are answered in the order in which they come; statements run as tasks and are
//! answered when they end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use cql::protocol::{
    BatchQuery, Compression, Envelope, EventType, Execute, Header, HeaderFlags, Opcode, PreparedReply,
    ProtocolVersion, QueryParameters, Reply, Request, RequestMessage, SendMetadata, ShardingInfo, Startup,
    Supported, Values,
};
use cql::{Coordinator, CqlError, Execution, Outcome, Prepared, ResultRows};
use engine::sharder::IGNORE_MSB;

use super::connection::Connection;
use super::node::Node;
use super::traces::Recorder;
use super::{CqlShard, on_all_shards};

/// How messages travel after STARTUP.
pub(crate) type Started = (ProtocolVersion, Option<Compression>);

/// What a connection has agreed on.
#[derive(Default)]
pub(crate) struct Session {
    version: Cell<Option<ProtocolVersion>>,
    keyspace: RefCell<Option<Arc<str>>>,
    events: Cell<u8>,
    /// Conditional statements are marked in the answer to PREPARE.
    marks_conditional: Cell<bool>,
    pub driver: RefCell<Option<(String, String)>>,
}

impl Session {
    /// Of its STARTUP; none before.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.version.get()
    }

    pub fn wants(&self, event: EventType) -> bool {
        self.events.get() & (1 << event as u8) != 0
    }

    pub fn register(&self, events: &[EventType]) {
        events.iter().for_each(|event| self.events.set(self.events.get() | 1 << *event as u8));
    }
}

/// Answers messages that set the connection up; `None` if the message is a statement.
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
        Request::AuthResponse { .. } => {
            return refuse(CqlError::Protocol("no authentication was asked for".to_string()));
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
                connection.answer_startup(|out| reply.ready(out), started);
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
    // A floor, as Cassandra has it: Rust's driver asks for 4.0.0.
    if cql.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_none_or(|major| major < 3) {
        return Err(CqlError::Protocol(format!(
            "CQL version {cql} is not supported by the binary protocol; 3.0.0 and later are"
        )));
    }
    let compression = match startup.option("COMPRESSION").map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "none") => None,
        Some("lz4") => Some(Compression::Lz4),
        Some("snappy") if !version.has_segments() => Some(Compression::Snappy),
        Some(other) => {
            return Err(CqlError::Protocol(format!(
                "Unknown compression algorithm: {other}; SUPPORTED lists those there are"
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

fn count_error(connection: &Connection) {
    let errors = &connection.cql.counters.errors;
    errors.set(errors.get() + 1);
}

/// What a statement's message is answered with.
enum Answer {
    Outcome { outcome: Outcome, metadata: SendMetadata },
    Prepared(Arc<Prepared>),
}

/// Answers a statement.
pub(crate) async fn answer(connection: &Rc<Connection>, header: Header, body: &[u8]) {
    let mut warnings = vec![];
    let trace = header.flags.has(HeaderFlags::TRACING).then(|| {
        let client = connection.peer_addr().ip();
        Rc::new(Recorder::new(&connection.cql.shard, client, header))
    });
    let answer = run(connection, header, body, trace.clone(), &mut warnings).await;
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
            Some(trace.id().into_bytes())
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
            connection.answer(|out| reply.error(out, &error));
        }
    }
}

fn write_rows(reply: &Reply<'_>, out: &mut Vec<u8>, rows: &ResultRows, metadata: SendMetadata) {
    let mut writer = reply.rows(out, &rows.columns, metadata);
    writer.encoded_rows(rows.cells(), rows.count());
    writer.finish(rows.paging_state.as_deref());
}

async fn run(
    connection: &Rc<Connection>,
    header: Header,
    body: &[u8],
    trace: Option<Rc<Recorder>>,
    warnings: &mut Vec<String>,
) -> Result<Answer, CqlError> {
    let cql = &connection.cql;
    let message = RequestMessage::decode(&Envelope { header, body })?;
    if let Some(trace) = &trace {
        trace.request(&message.request);
    }
    let node = Node::on(cql, trace.clone())?;
    let session_keyspace = connection.session.keyspace.borrow().clone();
    match message.request {
        Request::Query { text, parameters } => {
            let keyspace = parameters.keyspace.or(session_keyspace.as_deref());
            let prepared = Prepared::new(&node.catalog(), keyspace, text)?;
            node.traced(|| "Parsed and planned the statement".to_string());
            let outcome = execute(&node, &prepared, &parameters, warnings).await?;
            Ok(Answer::Outcome { outcome, metadata: SendMetadata::Full })
        }
        Request::Prepare { text, keyspace } => {
            let keyspace = keyspace.or(session_keyspace.as_deref());
            let prepared = prepare(cql, &node, keyspace, text).await?;
            node.traced(|| "Prepared the statement on all shards".to_string());
            warnings.extend_from_slice(&prepared.warnings);
            Ok(Answer::Prepared(prepared))
        }
        Request::Execute(Execute { id, result_metadata_id, parameters }) => {
            let prepared = known(cql, &node, id).await?;
            if let Some(trace) = &trace {
                trace.statement(&prepared.text);
                trace.event("Found the prepared statement");
            }
            let outcome = execute(&node, &prepared, &parameters, warnings).await?;
            let metadata = match &outcome {
                // What a condition is answered with depends on whether it held.
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
            node.traced(|| format!("Parsed and planned {} statements", statements.len()));
            let execution = execution(&node, &batch.parameters);
            let outcome =
                cql::execute_batch(&node, batch.batch_type, &statements, &execution, warnings).await?;
            Ok(Answer::Outcome { outcome, metadata: SendMetadata::Full })
        }
        Request::Startup(_) | Request::Options | Request::Register { .. } | Request::AuthResponse { .. } => {
            Err(CqlError::Server("a message that sets up the connection came as a statement".to_string()))
        }
    }
}

/// The statement with that id, as it is to be carried out now. If its table has changed it is prepared anew; if its
/// columns are other ones then, the client is told to prepare it, and learns them.
async fn known(cql: &Rc<CqlShard>, node: &Node, id: &[u8]) -> Result<Arc<Prepared>, CqlError> {
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

/// Gives a statement to all shards.
async fn share(cql: &Rc<CqlShard>, prepared: Prepared) -> Arc<Prepared> {
    let prepared = Arc::new(prepared);
    let given = prepared.clone();
    on_all_shards(&cql.shard, move |cql| cql.statements.insert(given.clone())).await;
    prepared
}

/// Prepares a statement for all shards.
async fn prepare(
    cql: &Rc<CqlShard>,
    node: &Node,
    keyspace: Option<&str>,
    text: &str,
) -> Result<Arc<Prepared>, CqlError> {
    let catalog = node.catalog();
    if let Some(known) = cql.statements.get(&Prepared::id_of(keyspace, text))
        && known.is_current(&catalog)
    {
        return Ok(known);
    }
    Ok(share(cql, Prepared::new(&catalog, keyspace, text)?).await)
}

fn execution<'a>(node: &Node, parameters: &QueryParameters<'a>) -> Execution<'a> {
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

async fn execute(
    node: &Node,
    prepared: &Prepared,
    parameters: &QueryParameters<'_>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    warnings.extend_from_slice(&prepared.warnings);
    prepared.execute(node, &parameters.values, &execution(node, parameters), warnings).await
}
