//! Statements of a client, prepared, with bound values, or as text, and the interpretation of their answers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use base::rng::Rng;
use protocol::{
    Batch, BatchQuery, BatchStatement, BatchType, Compression, Consistency, CqlError, Execute, Prepared,
    ProtocolVersion, QueryParameters, Request, Response, Rows, Value, ValueBuffer,
};
use runtime::Shard;

use super::access::{self, Login, Logins};
use super::connection::Connection;
use super::notes::{Checker, Notes};

/// A value of a statement.
#[derive(Clone, Debug)]
pub enum Bind {
    Int(i32),
    BigInt(i64),
    Text(String),
    Null,
}

impl Bind {
    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Int(number) => Some(number.to_be_bytes().to_vec()),
            Self::BigInt(number) => Some(number.to_be_bytes().to_vec()),
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Null => None,
        }
    }

    fn literal(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::BigInt(number) => number.to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::Null => "null".to_string(),
        }
    }
}

/// A statement with markers, and their values.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: String,
    pub binds: Vec<Bind>,
}

impl Statement {
    pub fn new(text: impl Into<String>, binds: Vec<Bind>) -> Self {
        Self { text: text.into(), binds }
    }

    /// The statement with its values in the text.
    pub fn literal(&self) -> String {
        let mut parts = self.text.split('?');
        let mut text = parts.next().unwrap_or_default().to_string();
        for (part, bind) in parts.zip(&self.binds) {
            text.push_str(&bind.literal());
            text.push_str(part);
        }
        text
    }

    fn values(&self) -> ValueBuffer {
        let mut values = ValueBuffer::default();
        for bind in &self.binds {
            match bind.bytes() {
                Some(bytes) => values.push(Value::Bytes(&bytes)),
                None => values.push(Value::Null),
            }
        }
        values
    }
}

/// Parameters of a statement.
#[derive(Clone, Debug, Default)]
pub struct With {
    pub timestamp_us: Option<i64>,
    pub page_rows: Option<i32>,
    pub paging_state: Option<Vec<u8>>,
    pub is_serial: bool,
    /// v5 only.
    pub now_s: Option<i32>,
}

impl With {
    fn parameters<'a>(&'a self, values: &'a ValueBuffer) -> QueryParameters<'a> {
        let consistency = if self.is_serial { Consistency::Serial } else { Consistency::One };
        QueryParameters {
            values: values.values(),
            page_size_rows: self.page_rows,
            paging_state: self.paging_state.as_deref(),
            timestamp_us: self.timestamp_us,
            now_s: self.now_s,
            ..QueryParameters::new(consistency)
        }
    }
}

/// Result of a statement.
#[derive(Clone, Debug)]
pub enum Answered {
    Done(Response),
    /// It was not executed, and will not be.
    Refused(CqlError),
    /// It is unknown whether it was executed.
    Unknown(String),
}

impl Answered {
    pub fn rows(self) -> Option<Rows> {
        match self {
            Self::Done(Response::Rows(rows)) => Some(rows),
            _ => None,
        }
    }
}

/// The form in which a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Literal,
    Bound,
    Prepared,
}

/// The node's address and the client's shard.
#[derive(Clone)]
pub struct Home {
    pub shard: Shard,
    pub notes: Rc<Notes>,
    pub address: SocketAddr,
    /// `None`: the node asks for no passwords.
    pub logins: Option<Rc<Logins>>,
}

/// One client, on one connection after the other.
pub struct Session {
    pub home: Home,
    pub name: String,
    rng: RefCell<Rng>,
    /// Every connection is the superuser's.
    is_superuser: bool,
    connection: RefCell<Option<Rc<Connection>>>,
    prepared: RefCell<BTreeMap<String, Prepared>>,
}

/// Number of times that a statement may have to be prepared again; more is a failure.
const PREPARED_AGAIN_MAX: usize = 20;

impl Session {
    pub fn new(home: &Home, name: &str, rng: Rng) -> Rc<Self> {
        Self::as_role(home, name, rng, false)
    }

    pub fn as_superuser(home: &Home, name: &str, rng: Rng) -> Rc<Self> {
        Self::as_role(home, name, rng, true)
    }

    fn as_role(home: &Home, name: &str, rng: Rng, is_superuser: bool) -> Rc<Self> {
        Rc::new(Self {
            home: home.clone(),
            name: name.to_string(),
            rng: RefCell::new(rng),
            is_superuser,
            connection: RefCell::default(),
            prepared: RefCell::default(),
        })
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.rng.borrow_mut().below(bound)
    }

    pub fn chance(&self, one: u64, of: u64) -> bool {
        self.rng.borrow_mut().chance(one, of)
    }

    pub fn fork(&self) -> Rng {
        self.rng.borrow_mut().fork()
    }

    pub fn note(&self, what: &str) {
        self.home.notes.note(format!("{}: {what}", self.name));
    }

    /// The open connection, or a new one.
    pub async fn connection(&self) -> Option<Rc<Connection>> {
        let open = self.connection.borrow().clone();
        if let Some(open) = open.filter(|open| !open.has_ended()) {
            return Some(open);
        }
        self.prepared.borrow_mut().clear();
        let version = ProtocolVersion::ALL[self.below(3) as usize];
        let compression = match self.below(4) {
            0 => Some(Compression::Lz4),
            1 if !version.has_segments() => Some(Compression::Snappy),
            _ => None,
        };
        let Home { shard, notes, address, .. } = &self.home;
        let opened = Connection::open(shard, notes, *address, version, compression, self.login()).await;
        // Another statement of this client may have opened a connection meanwhile.
        let other = self.connection.borrow().clone().filter(|other| !other.has_ended());
        if let Some(other) = other {
            opened.inspect(|opened| opened.close());
            return Some(other);
        }
        *self.connection.borrow_mut() = opened.clone();
        opened
    }

    /// The login of the next connection; `None`: the node asks for no passwords.
    pub fn login(&self) -> Option<Login> {
        let logins = self.home.logins.as_ref()?;
        Some(if self.is_superuser { access::SUPERUSER } else { logins.pick(self) })
    }

    /// Closes the connection, whatever is in flight.
    pub fn close(&self) {
        if let Some(open) = self.connection.borrow_mut().take() {
            open.close();
        }
    }

    fn form(&self) -> Form {
        match self.below(3) {
            0 => Form::Literal,
            1 => Form::Bound,
            _ => Form::Prepared,
        }
    }

    /// Executes a statement, in a random form.
    pub async fn run(&self, statement: &Statement, with: &With) -> Answered {
        let form = self.form();
        self.run_as(form, statement, with).await
    }

    pub async fn run_as(&self, form: Form, statement: &Statement, with: &With) -> Answered {
        let Some(connection) = self.connection().await else {
            return self.not_sent();
        };
        let what = statement.literal();
        let values = statement.values();
        for _ in 0..PREPARED_AGAIN_MAX {
            let response = match form {
                Form::Literal => {
                    let none = ValueBuffer::default();
                    let request = Request::Query { text: &what, parameters: with.parameters(&none) };
                    connection.ask(&what, &request).await
                }
                Form::Bound => {
                    let parameters = with.parameters(&values);
                    connection.ask(&what, &Request::Query { text: &statement.text, parameters }).await
                }
                Form::Prepared => {
                    let prepared = match self.prepared(&connection, &statement.text).await {
                        Ok(prepared) => prepared,
                        Err(answered) => return answered,
                    };
                    let execute = Execute {
                        id: &prepared.id,
                        result_metadata_id: prepared.result_metadata_id.as_deref(),
                        parameters: with.parameters(&values),
                    };
                    connection.ask(&what, &Request::Execute(execute)).await
                }
            };
            match response {
                Some(Response::Error(CqlError::Unprepared { .. })) => {
                    self.prepared.borrow_mut().remove(&statement.text);
                }
                other => return self.answered(&what, other),
            }
        }
        self.home.notes.fail(
            Checker::Errors,
            format!("{what}: UNPREPARED after each PREPARE, {PREPARED_AGAIN_MAX} times"),
        );
        Answered::Unknown("unprepared".to_string())
    }

    /// Nothing was sent.
    fn not_sent(&self) -> Answered {
        let excuses = self.home.notes.excuses.get();
        if !(excuses.network || excuses.is_stopping) {
            self.home
                .notes
                .fail(Checker::Connections, format!("{}: a connection cannot be opened", self.name));
        }
        Answered::Refused(CqlError::Bootstrapping("no connection".to_string()))
    }

    async fn prepared(&self, connection: &Connection, text: &str) -> Result<Prepared, Answered> {
        if let Some(known) = self.prepared.borrow().get(text) {
            return Ok(known.clone());
        }
        let what = format!("PREPARE {text}");
        match connection.ask(&what, &Request::Prepare { text, keyspace: None }).await {
            Some(Response::Prepared(prepared)) => {
                self.prepared.borrow_mut().insert(text.to_string(), prepared.clone());
                Ok(prepared)
            }
            // A statement that was not prepared was not executed.
            None => Err(Answered::Refused(CqlError::Bootstrapping("the connection ended".to_string()))),
            other => Err(match self.answered(&what, other) {
                Answered::Unknown(text) => Answered::Refused(CqlError::Server(text)),
                refused => refused,
            }),
        }
    }

    /// A batch, with one timestamp for all statements.
    pub async fn batch(&self, kind: BatchType, statements: &[Statement], with: &With) -> Answered {
        let Some(connection) = self.connection().await else {
            return self.not_sent();
        };
        let form = self.form();
        let texts: Vec<String> = statements.iter().map(Statement::literal).collect();
        let what = format!("BATCH {}", texts.join("; "));
        let values: Vec<ValueBuffer> = statements.iter().map(Statement::values).collect();
        for _ in 0..PREPARED_AGAIN_MAX {
            let none = ValueBuffer::default();
            let mut prepared = vec![];
            if form == Form::Prepared {
                for statement in statements {
                    match self.prepared(&connection, &statement.text).await {
                        Ok(one) => prepared.push(one),
                        Err(answered) => return answered,
                    }
                }
            }
            let parts = statements.iter().enumerate().map(|(at, statement)| match form {
                Form::Literal => {
                    BatchStatement { query: BatchQuery::Text(&texts[at]), values: none.values() }
                }
                Form::Bound => {
                    BatchStatement { query: BatchQuery::Text(&statement.text), values: values[at].values() }
                }
                Form::Prepared => BatchStatement {
                    query: BatchQuery::Prepared(&prepared[at].id),
                    values: values[at].values(),
                },
            });
            let batch =
                Batch { batch_type: kind, statements: parts.collect(), parameters: with.parameters(&none) };
            match connection.ask(&what, &Request::Batch(batch)).await {
                Some(Response::Error(CqlError::Unprepared { .. })) => self.prepared.borrow_mut().clear(),
                other => return self.answered(&what, other),
            }
        }
        self.home.notes.fail(
            Checker::Errors,
            format!("{what}: UNPREPARED after each PREPARE, {PREPARED_AGAIN_MAX} times"),
        );
        Answered::Unknown("unprepared".to_string())
    }

    fn answered(&self, what: &str, response: Option<Response>) -> Answered {
        match response {
            None => {
                self.note(&format!("{what} -> no answer"));
                Answered::Unknown("the connection ended".to_string())
            }
            Some(Response::Error(error)) => {
                self.note(&format!("{what} -> {error}"));
                self.judged(what, error)
            }
            Some(response) => Answered::Done(response),
        }
    }

    /// Decides whether a failed statement may have been executed, and whether its error has a reason.
    fn judged(&self, what: &str, error: CqlError) -> Answered {
        let excuses = self.home.notes.excuses.get();
        let (is_excused, is_refused) = match &error {
            CqlError::Overloaded(_) => (excuses.is_small, true),
            CqlError::Bootstrapping(_) => (excuses.is_stopping, false),
            CqlError::Server(_) => (excuses.io || excuses.no_space || excuses.is_stopping, false),
            // A role may have a service level with a timeout of milliseconds.
            CqlError::Truncate(_) => {
                let is_short = self.home.logins.is_some();
                (excuses.io || excuses.no_space || excuses.is_stopping || is_short, false)
            }
            CqlError::ReadTimeout { .. } | CqlError::WriteTimeout { .. } => {
                (excuses.io || excuses.no_space || excuses.is_small, false)
            }
            // The caller knows whether its table is being changed.
            CqlError::Invalid(_) | CqlError::AlreadyExists { .. } | CqlError::Config(_) => (true, true),
            _ => (false, true),
        };
        if !is_excused {
            self.home.notes.fail(Checker::Errors, format!("{what}: an error without a reason: {error}"));
        }
        self.home.notes.count(|counts| counts.refused += 1);
        if is_refused { Answered::Refused(error) } else { Answered::Unknown(error.to_string()) }
    }
}
