//! An entry of the audit log as a line, in the format of Cassandra 5.0 (source: `audit/AuditLogEntry.java`).

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use cql::{AuditCategory, without_passwords};
use protocol::CqlError;
use uuid::Uuid;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// A statement was executed: its type and category.
    Statement(&'static str, AuditCategory),
    Prepared,
    /// Also an entry for each of its statements.
    Batch,
    LoggedIn,
    LoginFailed,
    /// The user lacks a permission.
    Unauthorized,
    Failed,
}

impl AuditEvent {
    /// The event of a request that failed.
    pub fn of_error(error: &CqlError) -> Self {
        match error {
            CqlError::Unauthorized(_) => Self::Unauthorized,
            CqlError::BadCredentials(_) => Self::LoginFailed,
            _ => Self::Failed,
        }
    }

    pub fn category(self) -> AuditCategory {
        match self {
            Self::Statement(_, category) => category,
            Self::Prepared => AuditCategory::Prepare,
            Self::Batch => AuditCategory::Dml,
            Self::LoggedIn | Self::LoginFailed | Self::Unauthorized => AuditCategory::Auth,
            Self::Failed => AuditCategory::Error,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Statement(kind, _) => kind,
            Self::Prepared => "PREPARE_STATEMENT",
            Self::Batch => "BATCH",
            Self::LoggedIn => "LOGIN_SUCCESS",
            Self::LoginFailed => "LOGIN_ERROR",
            Self::Unauthorized => "UNAUTHORIZED_ATTEMPT",
            Self::Failed => "REQUEST_FAILURE",
        }
    }
}

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub struct AuditEntry<'a> {
    pub event: AuditEvent,
    /// `None`: nobody has logged in.
    pub user: Option<&'a str>,
    pub client: SocketAddr,
    pub keyspace: Option<&'a str>,
    pub object: Option<&'a str>,
    /// The id that the entries of a batch have in common.
    pub batch: Option<Uuid>,
    /// The text of the statement; may have a password.
    pub operation: &'a str,
    pub error: Option<&'a CqlError>,
}

impl AuditEntry<'_> {
    /// Appends the entry as one line. `node` is the address of this node for other nodes.
    pub fn write(&self, out: &mut Vec<u8>, node: SocketAddr, wall_ms: i64) {
        let mut line = String::with_capacity(128 + self.operation.len());
        let user = self.user.unwrap_or("null");
        let address = |address: IpAddr| match address {
            IpAddr::V4(_) => address.to_string(),
            IpAddr::V6(_) => format!("[{address}]"),
        };
        let _ = write!(
            line,
            "user:{user}|host:/{}:{}|source:/{}|port:{}|timestamp:{wall_ms}|type:{}|category:{}",
            address(node.ip()),
            node.port(),
            address(self.client.ip()),
            self.client.port(),
            self.event.kind(),
            self.event.category().name()
        );
        if let Some(batch) = self.batch {
            let _ = write!(line, "|batch:{batch}");
        }
        for (name, value) in [("ks", self.keyspace), ("scope", self.object)] {
            if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
                let _ = write!(line, "|{name}:{value}");
            }
        }
        let operation = without_passwords(self.operation);
        let error = self.error.map(|error| self.error_text(error));
        let parts: Vec<&str> = [Some(&*operation), error.as_deref()]
            .into_iter()
            .flatten()
            .filter(|part| !part.trim().is_empty())
            .collect();
        if !parts.is_empty() {
            let _ = write!(line, "|operation:{}", parts.join("; "));
        }
        // A text of a client must not look like an entry of its own.
        for c in line.chars() {
            match c {
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.push(b'\n');
    }

    /// A syntax error may repeat a part of the text, and so a part of a password.
    fn error_text(&self, error: &CqlError) -> String {
        let has_password = matches!(without_passwords(self.operation), std::borrow::Cow::Owned(_));
        if matches!(error, CqlError::Syntax(_)) && has_password {
            return "Syntax Exception. Obscured for security reasons.".to_string();
        }
        without_passwords(&error.to_string()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entry: AuditEntry<'_>) -> String {
        let mut out = vec![];
        entry.write(&mut out, "127.0.0.1:7000".parse().unwrap(), 1_700_000_000_123);
        String::from_utf8(out).unwrap()
    }

    fn select() -> AuditEntry<'static> {
        AuditEntry {
            event: AuditEvent::Statement("SELECT", AuditCategory::Query),
            user: Some("ann"),
            client: "10.0.0.7:53418".parse().unwrap(),
            keyspace: Some("shop"),
            object: Some("orders"),
            batch: None,
            operation: "SELECT * FROM\norders",
            error: None,
        }
    }

    #[test]
    fn a_line_is_cassandras() {
        assert_eq!(
            written(select()),
            "user:ann|host:/127.0.0.1:7000|source:/10.0.0.7|port:53418|timestamp:1700000000123|type:SELECT|category:QUERY|ks:shop\
             |scope:orders|operation:SELECT * FROM\\norders\n"
        );
        let batch =
            AuditEntry { batch: Some(Uuid::nil()), keyspace: None, object: None, user: None, ..select() };
        let line = written(batch);
        assert!(line.starts_with("user:null|"), "{line}");
        assert!(line.contains("|batch:00000000-0000-0000-0000-000000000000|operation:"), "{line}");
    }

    #[test]
    fn passwords_are_hidden() {
        let text = "CREATE ROLE r WITH PASSWORD = 'secret' AND LOGIN";
        let error = CqlError::Syntax("line 1:33 no viable alternative at input 'secret'".to_string());
        let entry = AuditEntry {
            event: AuditEvent::of_error(&error),
            operation: text,
            error: Some(&error),
            ..select()
        };
        let line = written(entry);
        assert!(line.contains("type:REQUEST_FAILURE|category:ERROR"), "{line}");
        assert!(line.contains("WITH PASSWORD *******; Syntax Exception. Obscured"), "{line}");
        assert!(!line.contains("secret"), "{line}");
    }
}
