//! What the audit log says of requests and logins: which entries, in Cassandra's words (source:
//! `audit/AuditLogManager.java` of 5.0).

use std::rc::Rc;
use std::sync::Arc;

use cql::{AuditCategory, AuditSubject, Prepared};
use protocol::{Batch, BatchQuery, CqlError, Envelope, Header, Request, RequestMessage};
use uuid::Uuid;

use super::connection::Connection;
use crate::audit::{AuditEntry, AuditEvent};

/// The name of users on nodes that ask nobody for a name. As in Cassandra.
const ANONYMOUS: &str = "anonymous";

/// Logs a request that has ended. `planned` has its statements, as far as they could be planned.
pub(crate) async fn request_ended(
    connection: &Rc<Connection>,
    header: Header,
    body: &[u8],
    planned: &[Arc<Prepared>],
    error: Option<&CqlError>,
) {
    let Ok(message) = RequestMessage::decode(&Envelope { header, body }) else { return };
    let user = connection.session.user();
    let used = connection.session.keyspace();
    let entry = AuditEntry {
        event: error.map_or(AuditEvent::Prepared, AuditEvent::of_error),
        user: Some(user.as_ref().map_or(ANONYMOUS, |user| &*user.name)),
        client: connection.peer_addr(),
        keyspace: used.as_deref(),
        object: None,
        batch: None,
        operation: "",
        error,
    };
    let subject = planned.first().map(|prepared| prepared.audit_subject());
    match message.request {
        Request::Query { text, .. } => {
            connection.cql.audit.record(of_statement(entry, text, subject)).await;
        }
        Request::Execute(_) => {
            let text = planned.first().map_or("null", |prepared| &*prepared.text);
            connection.cql.audit.record(of_statement(entry, text, subject)).await;
        }
        Request::Prepare { text, .. } => {
            let entry = AuditEntry { operation: text, ..about(entry, subject.as_ref()) };
            connection.cql.audit.record(entry).await;
        }
        Request::Batch(batch) => batch_ended(connection, entry, &batch, planned).await,
        Request::Startup(_) | Request::Options | Request::Register { .. } | Request::AuthResponse { .. } => {}
    }
}

/// The entry with the keyspace and the object of a statement.
fn about<'a>(entry: AuditEntry<'a>, subject: Option<&AuditSubject<'a>>) -> AuditEntry<'a> {
    let Some(subject) = subject else { return entry };
    AuditEntry { keyspace: subject.keyspace.or(entry.keyspace), object: subject.object, ..entry }
}

fn of_statement<'a>(
    entry: AuditEntry<'a>,
    text: &'a str,
    subject: Option<AuditSubject<'a>>,
) -> AuditEntry<'a> {
    let event = match (&subject, entry.error) {
        (_, Some(error)) => AuditEvent::of_error(error),
        (Some(subject), None) => AuditEvent::Statement(subject.kind, subject.category),
        (None, None) => AuditEvent::Statement("OTHER", AuditCategory::Other),
    };
    AuditEntry { event, operation: text, ..about(entry, subject.as_ref()) }
}

/// An entry for the batch, and one for each of its statements; a batch that failed has the first only.
async fn batch_ended(
    connection: &Rc<Connection>,
    entry: AuditEntry<'_>,
    batch: &Batch<'_>,
    planned: &[Arc<Prepared>],
) {
    let audit = &connection.cql.audit;
    let count = batch.statements.len();
    if entry.error.is_some() {
        let operation =
            format!("BATCH of {count} statements at consistency {}", batch.parameters.consistency.name());
        audit.record(AuditEntry { operation: &operation, ..entry }).await;
        return;
    }
    let shard = &connection.cql.shard;
    let random = (u128::from(shard.random_u64()) << 64) | u128::from(shard.random_u64());
    let id = uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid();
    let operation = format!("BatchId:[{id}] - BATCH of [{count}] statements");
    audit.record(in_batch(AuditEntry { event: AuditEvent::Batch, operation: &operation, ..entry }, id)).await;
    for (statement, prepared) in batch.statements.iter().zip(planned) {
        let text = match statement.query {
            BatchQuery::Text(text) => text,
            BatchQuery::Prepared(_) => &prepared.text,
        };
        audit.record(in_batch(of_statement(entry, text, Some(prepared.audit_subject())), id)).await;
    }
}

fn in_batch(entry: AuditEntry<'_>, id: Uuid) -> AuditEntry<'_> {
    AuditEntry { batch: Some(id), ..entry }
}

/// Logs a login; `role`: who has logged in.
pub(crate) async fn login_ended(connection: &Rc<Connection>, role: Option<&str>, error: Option<&CqlError>) {
    let entry = AuditEntry {
        event: if error.is_none() { AuditEvent::LoggedIn } else { AuditEvent::LoginFailed },
        user: role,
        client: connection.peer_addr(),
        keyspace: None,
        object: None,
        batch: None,
        operation: if error.is_none() { "LOGIN SUCCESSFUL" } else { "LOGIN FAILURE" },
        error,
    };
    connection.cql.audit.record(entry).await;
}
