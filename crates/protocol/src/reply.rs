//! A server's answers. Each is appended to an output buffer as a complete, uncompressed envelope.
//!
//! [`Reply`] holds what all answers have in common: version, stream, and the optional prefixes of the body
//! (tracing id, warnings, custom payload). Rows are written cell by cell (`rows.rs`), errors in `failure.rs`.
//!
//! Guarantees: nothing fails or panics. An answer of more than 2 GiB, the largest encodable length, is
//! replaced by an ERROR.

use super::event::{SchemaChange, SchemaTarget};
use super::wire::{
    put_bytes, put_bytes_map, put_count, put_i32, put_inet, put_short_bytes, put_string, put_string_list,
    put_u16,
};
use super::{
    EVENT_STREAM, Event, HEADER_BYTES, HeaderFlags, Opcode, ProtocolVersion, RESPONSE_BIT, ResultMetadata,
    StatusChange, Supported, TopologyChange,
};
use crate::CqlError;

/// Kinds of RESULT.
pub(super) mod kind {
    pub const VOID: i32 = 1;
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
    pub const SCHEMA_CHANGE: i32 = 5;
}

/// The version and stream of an answer, and its optional prefixes. Warnings and payload are dropped in v3,
/// which has neither.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The version of the request.
    pub version: ProtocolVersion,
    /// The stream of the request.
    pub stream: i16,
    /// The id of the trace, if the request wanted one.
    pub tracing_id: Option<&'a [u8; 16]>,
    /// Texts for the client's log. Not sent in v3.
    pub warnings: &'a [String],
    /// Pairs of names and bytes for extensions. Not sent in v3.
    pub custom_payload: &'a [(String, Option<Vec<u8>>)],
}

/// Contents of the RESULT that answers PREPARE.
#[derive(Clone, Copy, Debug)]
pub struct PreparedReply<'a> {
    /// The id by which EXECUTE names the statement.
    pub id: &'a [u8],
    /// Bind markers.
    pub variables: &'a ResultMetadata,
    /// For each column of the partition key, in the key's order, the index of its bind marker. Empty if a
    /// column has none. Not sent in v3.
    pub partition_key_indexes: &'a [u16],
    /// Metadata of the statement's rows; [`ResultMetadata::none`] if the statement returns none.
    pub result: &'a ResultMetadata,
    /// Flags of an extension that the connection has negotiated ([`Supported::LWT_MARK`]), else 0.
    pub extra_flags: u32,
}

impl<'a> Reply<'a> {
    /// A reply without trace, warnings and custom payload.
    pub fn new(version: ProtocolVersion, stream: i16) -> Self {
        Self { version, stream, tracing_id: None, warnings: &[], custom_payload: &[] }
    }

    /// Appends the header and the prefixes. The caller appends the body and then calls [`Self::end`] with the
    /// returned offset.
    pub(super) fn begin(&self, out: &mut Vec<u8>, opcode: Opcode) -> usize {
        let start = out.len();
        let has_prefixes = self.version >= ProtocolVersion::V4;
        let mut flags = 0;
        if self.tracing_id.is_some() {
            flags |= HeaderFlags::TRACING;
        }
        if has_prefixes && !self.warnings.is_empty() {
            flags |= HeaderFlags::WARNING;
        }
        if has_prefixes && !self.custom_payload.is_empty() {
            flags |= HeaderFlags::CUSTOM_PAYLOAD;
        }
        let [s0, s1] = self.stream.to_be_bytes();
        let version = self.version.number() | RESPONSE_BIT;
        out.extend_from_slice(&[version, flags, s0, s1, opcode as u8, 0, 0, 0, 0]);
        if flags != 0 {
            if let Some(id) = self.tracing_id {
                out.extend_from_slice(id);
            }
            if flags & HeaderFlags::WARNING != 0 {
                put_string_list(out, self.warnings);
            }
            if flags & HeaderFlags::CUSTOM_PAYLOAD != 0 {
                put_bytes_map(out, self.custom_payload);
            }
        }
        start
    }

    /// Like [`Self::end`], for a body of which `more_bytes` are sent after the contents of `out`.
    ///
    /// # Panics
    /// If the body has more than 2 GiB.
    pub(super) fn end_before(&self, out: &mut [u8], start: usize, more_bytes: usize) {
        let body_bytes = out.len() - start - HEADER_BYTES + more_bytes;
        let len = i32::try_from(body_bytes).expect("a result is refused long before it has 2 GiB");
        out[start + 5..start + 9].copy_from_slice(&len.to_be_bytes());
    }

    /// Writes the length of the body into the header of the envelope at `start`.
    pub(super) fn end(&self, out: &mut Vec<u8>, start: usize) {
        let body_bytes = out.len() - start - HEADER_BYTES;
        match i32::try_from(body_bytes) {
            Ok(len) => out[start + 5..start + 9].copy_from_slice(&len.to_be_bytes()),
            Err(_) => {
                out.truncate(start);
                let text =
                    format!("the answer has {body_bytes} bytes, more than 2 GiB; ask for smaller pages");
                Reply::new(self.version, self.stream).error(out, &CqlError::Invalid(text));
            }
        }
    }

    fn result(&self, out: &mut Vec<u8>, kind: i32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(out, Opcode::Result);
        put_i32(out, kind);
        body(out);
        self.end(out, start);
    }

    fn message(&self, out: &mut Vec<u8>, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin(out, opcode);
        body(out);
        self.end(out, start);
    }

    /// Appends an ERROR. An error that the client's version does not have is sent as the nearest one that it
    /// has.
    pub fn error(&self, out: &mut Vec<u8>, error: &CqlError) {
        self.message(out, Opcode::Error, |out| super::failure::put_error(out, error, self.version));
    }

    /// Appends READY to `out`: the connection may send statements.
    pub fn ready(&self, out: &mut Vec<u8>) {
        self.message(out, Opcode::Ready, |_| {});
    }

    /// `class` is the Java name of an authenticator; drivers choose their answer by it.
    pub fn authenticate(&self, out: &mut Vec<u8>, class: &str) {
        self.message(out, Opcode::Authenticate, |out| put_string(out, class));
    }

    /// Appends AUTH_CHALLENGE: the login continues. `None` is the token null.
    pub fn auth_challenge(&self, out: &mut Vec<u8>, token: Option<&[u8]>) {
        self.message(out, Opcode::AuthChallenge, |out| put_bytes(out, token));
    }

    /// Appends AUTH_SUCCESS: the login has succeeded. `None` is the token null.
    pub fn auth_success(&self, out: &mut Vec<u8>, token: Option<&[u8]>) {
        self.message(out, Opcode::AuthSuccess, |out| put_bytes(out, token));
    }

    /// Appends SUPPORTED: the options of this server.
    pub fn supported(&self, out: &mut Vec<u8>, supported: &Supported) {
        self.message(out, Opcode::Supported, |out| {
            let options = supported.options();
            put_u16(out, options.len() as u16);
            for (name, values) in &options {
                put_string(out, name);
                put_string_list(out, values);
            }
        });
    }

    /// Appends RESULT Void: a statement without rows has succeeded.
    pub fn void(&self, out: &mut Vec<u8>) {
        self.result(out, kind::VOID, |_| {});
    }

    /// Appends RESULT Set_keyspace: USE has succeeded.
    pub fn set_keyspace(&self, out: &mut Vec<u8>, keyspace: &str) {
        self.result(out, kind::SET_KEYSPACE, |out| put_string(out, keyspace));
    }

    /// Appends RESULT Schema_change: a schema statement has changed this.
    pub fn schema_change(&self, out: &mut Vec<u8>, change: &SchemaChange) {
        self.result(out, kind::SCHEMA_CHANGE, |out| put_schema_change(out, change, self.version));
    }

    /// Appends RESULT Prepared: the metadata of bind markers and result.
    pub fn prepared(&self, out: &mut Vec<u8>, prepared: &PreparedReply<'_>) {
        self.result(out, kind::PREPARED, |out| {
            put_short_bytes(out, prepared.id);
            if self.version >= ProtocolVersion::V5 {
                put_short_bytes(out, prepared.result.id());
            }
            let variables = prepared.variables;
            out.extend_from_slice(&(variables.full_flags() | prepared.extra_flags).to_be_bytes());
            put_i32(out, variables.columns_count() as i32);
            if self.version >= ProtocolVersion::V4 {
                let indexes = prepared.partition_key_indexes;
                let count = indexes.len().min(super::wire::SHORT_MAX);
                put_i32(out, count as i32);
                indexes[..count].iter().for_each(|index| put_u16(out, *index));
            }
            out.extend_from_slice(variables.encoded(self.version));
            let result = prepared.result;
            out.extend_from_slice(&result.flags_in_prepared().to_be_bytes());
            put_i32(out, result.columns_count() as i32);
            out.extend_from_slice(result.encoded(self.version));
        });
    }

    /// Appends an event for a connection that registered for its type.
    pub fn event(version: ProtocolVersion, out: &mut Vec<u8>, event: &Event) {
        Reply::new(version, EVENT_STREAM).message(out, Opcode::Event, |out| {
            put_string(out, event.event_type().name());
            match event {
                Event::Topology { change, node } => {
                    put_string(out, topology_name(*change));
                    put_inet(out, *node);
                }
                Event::Status { change, node } => {
                    put_string(out, status_name(*change));
                    put_inet(out, *node);
                }
                Event::Schema(change) => put_schema_change(out, change, version),
            }
        });
    }
}

pub(super) fn topology_name(change: TopologyChange) -> &'static str {
    match change {
        TopologyChange::NewNode => "NEW_NODE",
        TopologyChange::RemovedNode => "REMOVED_NODE",
    }
}

pub(super) fn status_name(change: StatusChange) -> &'static str {
    match change {
        StatusChange::Up => "UP",
        StatusChange::Down => "DOWN",
    }
}

fn put_schema_change(out: &mut Vec<u8>, change: &SchemaChange, version: ProtocolVersion) {
    let knows_functions = version >= ProtocolVersion::V4;
    let keyspace = &change.keyspace;
    match &change.target {
        SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. } if !knows_functions => {
            put_string(out, super::ChangeType::Updated.name());
            put_string(out, "KEYSPACE");
            put_string(out, keyspace);
        }
        target => {
            put_string(out, change.change.name());
            let (word, name, arguments) = match target {
                SchemaTarget::Keyspace => ("KEYSPACE", None, None),
                SchemaTarget::Table(name) => ("TABLE", Some(name), None),
                SchemaTarget::Type(name) => ("TYPE", Some(name), None),
                SchemaTarget::Function { name, arguments } => ("FUNCTION", Some(name), Some(arguments)),
                SchemaTarget::Aggregate { name, arguments } => ("AGGREGATE", Some(name), Some(arguments)),
            };
            put_string(out, word);
            put_string(out, keyspace);
            if let Some(name) = name {
                put_string(out, name);
            }
            if let Some(arguments) = arguments {
                let count = put_count(out, arguments.len());
                arguments[..count].iter().for_each(|argument| put_string(out, argument));
            }
        }
    }
}
