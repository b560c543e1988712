//! A client's requests, borrowed from the body of the message.
//!
//! Clients encode these types (`client::write_request`), and servers decode them (`RequestMessage::decode` in
//! `decode.rs`).

use smallvec::SmallVec;

use super::wire::{cut, protocol_error};
use super::{Compression, Consistency, EventType, ProtocolVersion, Values};
use crate::CqlError;

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Begins the connection.
    Startup(Startup<'a>),
    /// The token of a login.
    AuthResponse {
        /// The client's token; `None`: null.
        token: Option<&'a [u8]>,
    },
    /// Asks for the supported options.
    Options,
    /// Executes a statement in text form.
    Query {
        /// The statement.
        text: &'a str,
        /// Values and options of the execution.
        parameters: QueryParameters<'a>,
    },
    /// Prepares a statement.
    Prepare {
        /// The statement.
        text: &'a str,
        /// v5: replaces the connection's keyspace.
        keyspace: Option<&'a str>,
    },
    /// Executes a prepared statement.
    Execute(Execute<'a>),
    /// Executes several statements as one.
    Batch(Batch<'a>),
    /// Asks for these events from now on.
    Register {
        /// The kinds of events, each once.
        events: SmallVec<[EventType; 3]>,
    },
}

/// The options of STARTUP, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup<'a> {
    /// Names and values in the order sent; `CQL_VERSION` is required.
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// The value of an option. Ignores case; if a name was sent twice, the last value counts.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut found = self.options.iter().rev().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| *value)
    }

    /// All options, as they were sent.
    pub fn options(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.options.iter().copied()
    }

    /// The compression that COMPRESSION requests, to be passed to [`super::Inbound::started`] and
    /// [`super::Outbound::started`].
    ///
    /// # Errors
    /// [`CqlError::Protocol`]: an unknown algorithm, or Snappy in v5.
    pub fn compression(&self, version: ProtocolVersion) -> Result<Option<Compression>, CqlError> {
        let Some(name) = self.option("COMPRESSION").filter(|name| !name.is_empty()) else { return Ok(None) };
        match Compression::from_name(name) {
            Some(Compression::Snappy) if version.has_segments() => {
                Err(protocol_error("Snappy compression is not supported in protocol V5; lz4 is".into()))
            }
            Some(compression) => Ok(Some(compression)),
            None => {
                let name = cut(name, 40);
                Err(protocol_error(format!(
                    "Unknown compression algorithm: {name}; there are lz4 and snappy"
                )))
            }
        }
    }
}

/// EXECUTE of a prepared statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute<'a> {
    /// The id returned by PREPARE.
    pub id: &'a [u8],
    /// v5: id of the result metadata known to the client. If it is outdated, the rows carry METADATA_CHANGED.
    pub result_metadata_id: Option<&'a [u8]>,
    /// Values and options of the execution.
    pub parameters: QueryParameters<'a>,
}

/// The parameters of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryParameters<'a> {
    /// The consistency level of the request.
    pub consistency: Consistency,
    /// The values of the bind markers.
    pub values: Values<'a>,
    /// The client knows the columns of the result; rows are sent with NO_METADATA.
    pub skip_metadata: bool,
    /// In rows. Without it, or if it is not positive, the client wants no paging.
    pub page_size_rows: Option<i32>,
    /// Opaque position where the previous page ended.
    pub paging_state: Option<&'a [u8]>,
    /// SERIAL or LOCAL_SERIAL; SERIAL if absent.
    pub serial_consistency: Option<Consistency>,
    /// Microseconds since the epoch. Used if the statement has no USING TIMESTAMP.
    pub timestamp_us: Option<i64>,
    /// v5: replaces the connection's keyspace.
    pub keyspace: Option<&'a str>,
    /// v5: the current time for expiry and for new tombstones, in seconds since the epoch.
    pub now_s: Option<i32>,
}

impl QueryParameters<'_> {
    /// Parameters without values, with the defaults of a statement in text form.
    pub fn new(consistency: Consistency) -> Self {
        Self {
            consistency,
            values: Values::default(),
            skip_metadata: false,
            page_size_rows: None,
            paging_state: None,
            serial_consistency: None,
            timestamp_us: None,
            keyspace: None,
            now_s: None,
        }
    }
}

/// The kind of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BatchType {
    /// All or none of its statements take effect.
    Logged = 0,
    /// Atomic only within a partition.
    Unlogged = 1,
    /// Updates of counters only.
    Counter = 2,
}

/// A statement of a batch: its text, or the id of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchQuery<'a> {
    /// A statement in text form.
    Text(&'a str),
    /// The id of a prepared statement.
    Prepared(&'a [u8]),
}

/// A statement of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchStatement<'a> {
    /// The statement's text or id.
    pub query: BatchQuery<'a>,
    /// The values of its bind markers.
    pub values: Values<'a>,
}

/// Statements in the order sent. Of the parameters only the consistencies, timestamp, keyspace and now are
/// used.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    /// Logged, unlogged or of counters.
    pub batch_type: BatchType,
    /// The statements, in order.
    pub statements: Vec<BatchStatement<'a>>,
    /// Consistency and timestamps of the batch; its `values` are empty.
    pub parameters: QueryParameters<'a>,
}
