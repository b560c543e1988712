//! What a client asks, borrowed from the body of its message.
//!
//! The same types are what a client encodes (`client::write_request`) and what a server decodes
//! ([`Request::decode`], in `decode.rs`).

use smallvec::SmallVec;

use super::wire::{cut, protocol_error};
use super::{Compression, Consistency, EventType, ProtocolVersion, Values};
use crate::CqlError;

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    Startup(Startup<'a>),
    AuthResponse { token: Option<&'a [u8]> },
    Options,
    Query { text: &'a str, parameters: QueryParameters<'a> },
    Prepare { text: &'a str, keyspace: Option<&'a str> },
    Execute(Execute<'a>),
    Batch(Batch<'a>),
    Register { events: SmallVec<[EventType; 3]> },
}

/// The options of STARTUP, in the order sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup<'a> {
    pub options: Vec<(&'a str, &'a str)>,
}

impl<'a> Startup<'a> {
    /// Case of the name does not matter; of one that is sent twice the last counts.
    pub fn option(&self, name: &str) -> Option<&'a str> {
        let mut found = self.options.iter().rev().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| *value)
    }

    /// All of them, as they were sent.
    pub fn options(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.options.iter().copied()
    }

    /// What COMPRESSION asks for, to give to [`super::Inbound::started`] and [`super::Outbound::started`].
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
    /// As PREPARE answered it.
    pub id: &'a [u8],
    /// v5: the metadata the client knows; if they are no longer true, the rows say METADATA_CHANGED.
    pub result_metadata_id: Option<&'a [u8]>,
    pub parameters: QueryParameters<'a>,
}

/// What comes with a statement besides its text.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryParameters<'a> {
    pub consistency: Consistency,
    pub values: Values<'a>,
    /// The client knows the columns of the result: rows come with NO_METADATA.
    pub skip_metadata: bool,
    /// Rows; the client wants no paging if it is absent or not positive.
    pub page_size_rows: Option<i32>,
    /// Opaque: what the last page ended with.
    pub paging_state: Option<&'a [u8]>,
    /// SERIAL or LOCAL_SERIAL; SERIAL if absent.
    pub serial_consistency: Option<Consistency>,
    /// Microseconds since the epoch, where the statement has no USING TIMESTAMP.
    pub timestamp_us: Option<i64>,
    /// v5: instead of the connection's keyspace.
    pub keyspace: Option<&'a str>,
    /// v5: seconds since the epoch, "now" for expiry and new tombstones.
    pub now_s: Option<i32>,
}

impl QueryParameters<'_> {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BatchType {
    Logged = 0,
    Unlogged = 1,
    Counter = 2,
}

/// The statement of a batch: its text, or the id of a prepared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchQuery<'a> {
    Text(&'a str),
    Prepared(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq)]
pub struct BatchStatement<'a> {
    pub query: BatchQuery<'a>,
    pub values: Values<'a>,
}

/// Statements in the order sent. Of the parameters only consistencies, timestamp, keyspace and now are used.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    pub batch_type: BatchType,
    pub statements: Vec<BatchStatement<'a>>,
    pub parameters: QueryParameters<'a>,
}

/// Names and bytes that a client sends along for an extension of the server, and the other way round.
pub type CustomPayload<'a> = Vec<(&'a str, Option<&'a [u8]>)>;
