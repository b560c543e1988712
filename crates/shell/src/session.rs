//! State shared by a user's statements: settings, and the connection, which is opened again after a server
//! restart.

use model::types::push_identifier;
use protocol::CqlError;
use protocol::client::ResponseMessage;
use protocol::{Consistency, QueryParameters, Request, Response, Rows};

use super::connection::{Connection, Credentials, Target};
use super::failure::Failure;
use super::value;

/// Information about the server.
#[derive(Clone, Debug, Default)]
pub struct ServerInfo {
    pub cluster_name: String,
    pub release_version: String,
    pub cql_version: String,
}

/// A user's session; see the head of this file.
pub struct Session {
    target: Target,
    /// `None` from the time when it broke until the next request.
    connection: Option<Connection>,
    /// See [`Self::take_notice`].
    notice: Option<String>,
    schema_changed: bool,
    pub keyspace: Option<String>,
    pub consistency: Consistency,
    pub serial_consistency: Consistency,
    pub tracing: bool,
    /// Rows per page; `None`: all rows at once.
    pub page_rows: Option<i32>,
}

impl Session {
    /// # Errors
    /// The same as [`Connection::open`].
    pub fn open(target: Target) -> Result<Self, Failure> {
        let connection = Connection::open(&target)?;
        Ok(Self {
            target,
            connection: Some(connection),
            notice: None,
            schema_changed: true,
            keyspace: None,
            consistency: Consistency::One,
            serial_consistency: Consistency::Serial,
            tracing: false,
            page_rows: Some(100),
        })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The version of the protocol; 0 without a connection.
    pub fn protocol_version(&self) -> u8 {
        self.connection.as_ref().map_or(0, |connection| connection.version().number())
    }

    /// A notice for the user about the session: the shell had to connect again.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Whether names may have changed since the last call.
    pub fn take_schema_changed(&mut self) -> bool {
        let is_changed = self.connection.as_mut().is_some_and(Connection::take_schema_changed);
        std::mem::take(&mut self.schema_changed) || is_changed
    }

    /// Sends a statement, or requests the page that begins at `paging_state`.
    ///
    /// # Errors
    /// The same as [`Connection::request`]. If the connection is found broken, it is opened again once. The
    /// statement is sent again only if it is a read; for any other statement it is unknown whether it took
    /// effect.
    pub fn query(&mut self, text: &str, paging_state: Option<&[u8]>) -> Result<ResponseMessage, Failure> {
        let mut parameters = QueryParameters::new(self.consistency);
        parameters.serial_consistency = Some(self.serial_consistency);
        parameters.page_size_rows = self.page_rows;
        parameters.paging_state = paging_state;
        let request = Request::Query { text, parameters };
        if self.connection.as_ref().is_some_and(Connection::is_closed) {
            self.connection = None;
            self.notice = Some("the server had closed the connection; reconnected".to_string());
        }
        let had_connection = self.connection.is_some();
        let message = match self.request(&request, self.tracing) {
            Err(Failure::Connection(why)) if had_connection => {
                self.reconnect()?;
                if !is_read(text) {
                    return Err(Failure::Connection(format!(
                        "{why}. There is a new connection; it is unknown whether the statement took effect: check, and send it \
                         again if needed"
                    )));
                }
                self.notice = Some(format!("{why}; reconnected"));
                self.request(&request, self.tracing)?
            }
            other => other?,
        };
        match &message.response {
            Response::SetKeyspace(keyspace) => self.keyspace = Some(keyspace.clone()),
            Response::SchemaChange(_) => self.schema_changed = true,
            _ => {}
        }
        Ok(message)
    }

    fn request(&mut self, request: &Request<'_>, tracing: bool) -> Result<ResponseMessage, Failure> {
        if self.connection.is_none() {
            self.reconnect()?;
        }
        let Some(connection) = &mut self.connection else {
            return Err(Failure::Connection("there is no connection".to_string()));
        };
        let answer = connection.request(request, tracing);
        if matches!(answer, Err(Failure::Connection(_))) {
            self.connection = None;
        }
        answer
    }

    /// Opens a connection as another user and continues on it. Returns whether the server asked for a user.
    ///
    /// # Errors
    /// The same as [`Connection::open`]. The session keeps its connection and its user then.
    pub fn login(&mut self, credentials: Credentials) -> Result<bool, Failure> {
        let target = Target { credentials: Some(credentials), ..self.target.clone() };
        let before = std::mem::replace(&mut self.target, target);
        match self.reconnect() {
            Ok(()) => Ok(self.connection.as_ref().is_some_and(Connection::is_logged_in)),
            Err(failure) => {
                self.target = before;
                Err(failure)
            }
        }
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        let mut connection = Connection::open(&self.target)?;
        if let Some(keyspace) = &self.keyspace {
            let mut text = "USE ".to_string();
            push_identifier(&mut text, keyspace);
            let parameters = QueryParameters::new(self.consistency);
            match connection.request(&Request::Query { text: &text, parameters }, false) {
                Ok(_) => {}
                Err(Failure::Refused(CqlError::Invalid(_))) => self.keyspace = None,
                Err(failure) => return Err(failure),
            }
        }
        self.connection = Some(connection);
        self.schema_changed = true;
        Ok(())
    }

    /// All rows of one of the shell's own statements. They are neither traced nor paged.
    ///
    /// # Errors
    /// The same as [`Connection::request`].
    pub fn rows(&mut self, text: &str) -> Result<Rows, Failure> {
        let parameters = QueryParameters::new(Consistency::One);
        match self.request(&Request::Query { text, parameters }, false)?.response {
            Response::Rows(rows) => Ok(rows),
            _ => Ok(Rows::default()),
        }
    }

    /// # Errors
    /// The same as [`Connection::request`].
    pub fn server_info(&mut self) -> Result<ServerInfo, Failure> {
        let rows = self.rows(
            "SELECT cluster_name, release_version, cql_version FROM system.local WHERE key = 'local'",
        )?;
        let mut texts = texts(&rows).into_iter().next().unwrap_or_default().into_iter();
        let mut next = || texts.next().unwrap_or_default();
        Ok(ServerInfo { cluster_name: next(), release_version: next(), cql_version: next() })
    }
}

/// Whether the statement can be executed twice without effect on data.
fn is_read(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    ["SELECT", "USE", "DESCRIBE", "DESC"].iter().any(|word| word.eq_ignore_ascii_case(first))
}

/// The rows as text; null is an empty string.
pub fn texts(rows: &Rows) -> Vec<Vec<String>> {
    let Some(columns) = &rows.metadata.columns else { return Vec::new() };
    let show = |row: &Vec<Option<Vec<u8>>>| {
        row.iter()
            .zip(columns)
            .map(|(value, column)| match value {
                Some(bytes) => value::show(&column.column_type, Some(bytes)).text,
                None => String::new(),
            })
            .collect()
    };
    rows.rows.iter().map(show).collect()
}
