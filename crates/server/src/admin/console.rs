//! The console of the page: runs one CQL statement and returns a page of its result.
//!
//! With `api_password_file` everyone who has passed the guard may run any statement. Without it the console
//! runs only statements that change nothing ([`changes_nothing`]), and only if the admin API has a loopback
//! address. With an `authenticator` each request names a role and its password, and runs as that role.
//! [`super::guard`] refuses requests of other web pages. `api_page_console: false` turns the console off.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::CqlType;
use protocol::{Consistency, CqlError, QueryParameters, Request, Response, Rows, SchemaTarget};
use syntax::Statement;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::console_client::{ClientError, ConsoleClient, Login};
use super::error::ApiError;
use super::{Answer, OfNode, check_serving};
use crate::api::console_answers::{
    ConsoleColumn, ConsoleQuery, ConsoleResult, ConsoleState, ConsoleTrace, ConsoleTraceEvent,
};
use crate::console_rights::ConsoleRights;
use crate::managed_node::ManagedNode;

pub const PATH: &str = "/v1/console";

/// Statements that run at the same time; further ones are refused.
const STATEMENTS_MAX: usize = 4;
/// A statement that takes longer is given up.
const WAIT: Duration = Duration::from_secs(60);
const PAGE_ROWS_DEFAULT: u32 = 100;
const PAGE_ROWS_MAX: u32 = 1000;
/// Longer values are cut, with the number of their characters behind.
const VALUE_CHARS_MAX: usize = 2000;
/// A trace is complete soon after the answer.
const TRACE_WAIT: Duration = Duration::from_millis(50);
const TRACE_TRIES: usize = 20;

static RUNNING: Semaphore = Semaphore::const_new(STATEMENTS_MAX);

/// Whether the statement reads data or the schema, and changes neither.
///
/// # Errors
/// It is no CQL.
fn changes_nothing(text: &str) -> Result<bool, CqlError> {
    Ok(matches!(syntax::parse(text)?.statement, Statement::Select(_) | Statement::Describe(_)))
}

pub async fn state(State(node): OfNode) -> Json<ConsoleState> {
    let reason = match (&node.config.console, node.listeners.console()) {
        (ConsoleRights::None(reason), _) => Some((*reason).to_string()),
        (_, None) => Some("the console is off: no CQL port takes connections without TLS".to_string()),
        _ => None,
    };
    let is_all = node.config.console == ConsoleRights::All;
    let asks_role = node.listeners.console().is_some_and(|door| door.asks_role);
    Json(ConsoleState { reason, may_change: is_all, asks_role })
}

pub async fn run(State(node): OfNode, Json(query): Json<ConsoleQuery>) -> Answer<ConsoleResult> {
    let forbidden = |text: &str| ApiError::new(StatusCode::FORBIDDEN, text);
    match node.config.console {
        ConsoleRights::All => {}
        ConsoleRights::None(reason) => return Err(forbidden(reason)),
        ConsoleRights::Reads => {
            if !changes_nothing(&query.statement).map_err(refused)? {
                return Err(forbidden(
                    "without api_password_file the console runs only SELECT and DESCRIBE; other statements: messina shell",
                ));
            }
        }
    }
    check_serving(&node)?;
    let Ok(_running) = RUNNING.try_acquire() else {
        let text = format!("{STATEMENTS_MAX} statements of the console run; try again when one has ended");
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, text));
    };
    match tokio::time::timeout(WAIT, execute(&node, &query)).await {
        Ok(result) => Ok(Json(result?)),
        Err(_) => {
            let text = format!("no answer in {} s; a change may still be made", WAIT.as_secs());
            Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, text))
        }
    }
}

fn refused(error: CqlError) -> ApiError {
    let status = match error {
        CqlError::BadCredentials(_) | CqlError::Unauthorized(_) => StatusCode::FORBIDDEN,
        CqlError::Server(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, error.to_string())
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(error) => refused(error),
            ClientError::Broken(text) => Self::new(StatusCode::BAD_GATEWAY, text),
        }
    }
}

async fn execute(node: &ManagedNode, query: &ConsoleQuery) -> Result<ConsoleResult, ApiError> {
    let Some(door) = node.listeners.console() else {
        let text = "the console is off: no CQL port takes connections without TLS";
        return Err(ApiError::new(StatusCode::CONFLICT, text));
    };
    let login = query.role.as_deref().map(|role| Login { role, password: &query.password });
    let mut client = ConsoleClient::open(door.address, login).await?;
    let paging_state = query.paging_state.as_deref().map(bytes_of_hex).transpose();
    let paging_state = paging_state.map_err(ApiError::bad_request)?;
    let rows = query.page_rows.unwrap_or(PAGE_ROWS_DEFAULT).clamp(1, PAGE_ROWS_MAX);
    let parameters = QueryParameters {
        page_size_rows: Some(rows as i32),
        paging_state: paging_state.as_deref(),
        keyspace: query.keyspace.as_deref().filter(|name| !name.is_empty()),
        ..QueryParameters::new(Consistency::One)
    };
    let begun = node.started.uptime();
    let request = Request::Query { text: &query.statement, parameters };
    let message = client.request(&request, query.trace).await?;
    let took = node.started.uptime().saturating_sub(begun);
    let mut result = result(message.response);
    result.took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    result.warnings = message.extras.warnings;
    if let Some(id) = message.extras.tracing_id {
        result.trace = Some(trace(&mut client, Uuid::from_bytes(id)).await);
    }
    Ok(result)
}

fn result(response: Response) -> ConsoleResult {
    let done = |text: String| ConsoleResult { done: Some(text), ..ConsoleResult::default() };
    match response {
        Response::Rows(rows) => {
            let types = types(&rows);
            let columns = rows.metadata.columns.iter().flatten();
            let columns =
                columns.map(|it| ConsoleColumn { name: it.name.clone(), cql_type: it.column_type.to_cql() });
            ConsoleResult {
                columns: columns.collect(),
                paging_state: rows.metadata.paging_state.as_deref().map(hex_of_bytes),
                rows: rows.rows.iter().map(|row| texts(&types, row)).collect(),
                ..ConsoleResult::default()
            }
        }
        Response::SchemaChange(change) => {
            let what = match &change.target {
                SchemaTarget::Keyspace => format!("keyspace {}", change.keyspace),
                SchemaTarget::Table(name) => format!("table {}.{name}", change.keyspace),
                SchemaTarget::Type(name) => format!("type {}.{name}", change.keyspace),
                SchemaTarget::Function { name, .. } => format!("function {}.{name}", change.keyspace),
                SchemaTarget::Aggregate { name, .. } => format!("aggregate {}.{name}", change.keyspace),
            };
            done(format!("{} {what}", change.change.name().to_lowercase()))
        }
        Response::SetKeyspace(name) => done(format!(
            "no effect: each statement has its own connection; name the keyspace {name} beside the statement"
        )),
        _ => done("done".to_string()),
    }
}

fn types(rows: &Rows) -> Vec<CqlType> {
    rows.metadata.columns.iter().flatten().map(|column| column.column_type.clone()).collect()
}

fn texts(types: &[CqlType], row: &[Option<Vec<u8>>]) -> Vec<Option<String>> {
    let text = |(ty, value): (&CqlType, &Option<Vec<u8>>)| Some(cut(value_text(ty, value.as_ref()?)));
    types.iter().zip(row).map(text).collect()
}

/// Texts have no quotes.
fn value_text(ty: &CqlType, value: &[u8]) -> String {
    match ty {
        CqlType::Text | CqlType::Ascii => String::from_utf8_lossy(value).into_owned(),
        ty => ty.text_of(value),
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}… ({} characters)", &text[..at], text.chars().count()),
    }
}

/// The events of a trace. A role that may not read traces gets the reason instead.
async fn trace(client: &mut ConsoleClient, id: Uuid) -> ConsoleTrace {
    let mut trace = ConsoleTrace { id: id.to_string(), ..ConsoleTrace::default() };
    for _ in 0..TRACE_TRIES {
        let text = format!("SELECT duration FROM system_traces.sessions WHERE session_id = {id}");
        match rows(client, &text).await {
            Ok(rows) => {
                let duration = rows.first().and_then(|row| row[0].as_deref()).and_then(|it| it.parse().ok());
                trace.duration_us = duration;
            }
            Err(error) => {
                trace.problem = Some(error);
                return trace;
            }
        }
        if trace.duration_us.is_some() {
            break;
        }
        tokio::time::sleep(TRACE_WAIT).await;
    }
    let text =
        format!("SELECT source_elapsed, thread, activity FROM system_traces.events WHERE session_id = {id}");
    match rows(client, &text).await {
        Err(error) => trace.problem = Some(error),
        Ok(rows) => {
            let of = |row: Vec<Option<String>>| {
                let [at, thread, activity] = <[Option<String>; 3]>::try_from(row).unwrap_or_default();
                ConsoleTraceEvent {
                    at_us: at.and_then(|it| it.parse().ok()),
                    thread: thread.unwrap_or_default(),
                    activity: activity.unwrap_or_default(),
                }
            };
            trace.events = rows.into_iter().map(of).collect();
        }
    }
    trace
}

async fn rows(client: &mut ConsoleClient, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let request = Request::Query { text, parameters: QueryParameters::new(Consistency::One) };
    match client.request(&request, false).await {
        Ok(message) => match message.response {
            Response::Rows(rows) => {
                let types = types(&rows);
                Ok(rows.rows.iter().map(|row| texts(&types, row)).collect())
            }
            other => Err(format!("unexpected answer {other:?}")),
        },
        Err(ClientError::Refused(error)) => Err(error.to_string()),
        Err(ClientError::Broken(text)) => Err(text),
    }
}

fn hex_of_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "paging_state: expected the paging_state of the page before".to_string();
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_select_and_describe_change_nothing() {
        let reads =
            ["SELECT * FROM a.b", "select now() from system.local;", "DESCRIBE TABLES", "DESC SCHEMA"];
        for text in reads {
            assert!(changes_nothing(text).unwrap(), "{text}");
        }
        let others = [
            "INSERT INTO a.b (c) VALUES (1)",
            "INSERT INTO a.b JSON '{}'",
            "UPDATE a.b SET c = 1 WHERE d = 2",
            "DELETE FROM a.b WHERE c = 1",
            "BEGIN BATCH DELETE FROM a.b WHERE c = 1; APPLY BATCH",
            "TRUNCATE a.b",
            "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "DROP KEYSPACE a",
            "ALTER ROLE a WITH PASSWORD = 'b'",
            "GRANT ALL ON ALL KEYSPACES TO a",
            "LIST ROLES",
            "USE a",
        ];
        for text in others {
            assert!(!changes_nothing(text).unwrap(), "{text}");
        }
        // Two statements are not one.
        assert!(changes_nothing("SELECT * FROM a.b; DROP TABLE a.b").is_err());
        assert!(changes_nothing("").is_err());
    }

    #[test]
    fn paging_states_as_hex() {
        assert_eq!(hex_of_bytes(&[0, 255, 16]), "00ff10");
        assert_eq!(bytes_of_hex("00ff10"), Ok(vec![0, 255, 16]));
        for text in ["0", "zz", "éa", "+1"] {
            assert!(bytes_of_hex(text).is_err(), "{text}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(cut("é".repeat(VALUE_CHARS_MAX)).chars().count(), VALUE_CHARS_MAX);
        assert!(cut("é".repeat(VALUE_CHARS_MAX + 1)).ends_with("é… (2001 characters)"));
    }
}
