//! Decodes the body of a client's message to a [`Request`] that borrows from it.
//!
//! Bytes after the last field of a message are ignored, as the specification requires. A decoding error
//! affects only its message: the error is sent on the message's stream, and the connection stays open.

use base::bytes::Take;
use smallvec::SmallVec;

use super::wire::{bytes, bytes_map, consistency, counted, long_string, protocol_error, string};
use super::{
    Batch, BatchQuery, BatchStatement, BatchType, CustomPayload, Envelope, EventType, Execute, HeaderFlags,
    Opcode, ProtocolVersion, QueryParameters, Request, Startup, Values,
};
use crate::CqlError;

/// Bits of the flags of a statement's parameters.
pub(super) mod flag {
    pub const VALUES: u32 = 0x01;
    pub const SKIP_METADATA: u32 = 0x02;
    pub const PAGE_SIZE: u32 = 0x04;
    pub const PAGING_STATE: u32 = 0x08;
    pub const SERIAL_CONSISTENCY: u32 = 0x10;
    pub const TIMESTAMP: u32 = 0x20;
    pub const NAMES: u32 = 0x40;
    pub const KEYSPACE: u32 = 0x80;
    pub const NOW: u32 = 0x100;
}

/// PREPARE's only flag (v5).
pub(super) const PREPARE_KEYSPACE: u32 = 0x01;

/// A request with the header fields that apply to it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestMessage<'a> {
    /// The request, which borrows from the body.
    pub request: Request<'a>,
    /// The client requests tracing.
    pub tracing: bool,
    /// Pairs of names and bytes for extensions of a server.
    pub custom_payload: CustomPayload<'a>,
}

impl<'a> RequestMessage<'a> {
    /// # Errors
    /// [`CqlError::Protocol`] for a body that is too short, contains an unknown name or code, or is not a
    /// request.
    pub fn decode(envelope: &Envelope<'a>) -> Result<Self, CqlError> {
        let header = &envelope.header;
        let mut take = Take::new(envelope.body);
        let mut custom_payload = Vec::new();
        if header.flags.has(HeaderFlags::CUSTOM_PAYLOAD) {
            if header.version < ProtocolVersion::V4 {
                let text = "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4";
                return Err(protocol_error(text.into()));
            }
            custom_payload = bytes_map(&mut take)?;
        }
        let request = Request::decode(header.opcode, header.version, envelope.body, &mut take)?;
        Ok(Self { request, tracing: header.flags.has(HeaderFlags::TRACING), custom_payload })
    }
}

impl<'a> Request<'a> {
    #[inline(always)]
    fn decode(
        opcode: Opcode,
        version: ProtocolVersion,
        body: &'a [u8],
        take: &mut Take<'a>,
    ) -> Result<Self, CqlError> {
        Ok(match opcode {
            Opcode::Execute => {
                let id = take.u16_bytes()?;
                let result_metadata_id =
                    if version >= ProtocolVersion::V5 { Some(take.u16_bytes()?) } else { None };
                let parameters = QueryParameters::new(consistency(take)?);
                let mut request = Self::Execute(Execute { id, result_metadata_id, parameters });
                if let Self::Execute(execute) = &mut request {
                    fill(&mut execute.parameters, take, body, version)?;
                }
                request
            }
            Opcode::Query => {
                Self::Query { text: long_string(take)?, parameters: parameters(take, body, version)? }
            }
            Opcode::Batch => Self::Batch(batch(take, body, version)?),
            Opcode::Prepare => {
                let text = long_string(take)?;
                let flags = if version >= ProtocolVersion::V5 { take.u32()? } else { 0 };
                let keyspace = if flags & PREPARE_KEYSPACE != 0 { Some(string(take)?) } else { None };
                Self::Prepare { text, keyspace }
            }
            Opcode::Startup => Self::Startup(startup(take)?),
            Opcode::Options => Self::Options,
            Opcode::Register => Self::Register { events: register(take)? },
            Opcode::AuthResponse => Self::AuthResponse { token: bytes(take)? },
            Opcode::Error
            | Opcode::Ready
            | Opcode::Authenticate
            | Opcode::Supported
            | Opcode::Result
            | Opcode::Event
            | Opcode::AuthChallenge
            | Opcode::AuthSuccess => {
                return Err(protocol_error(format!("{opcode:?} is an answer, not a request")));
            }
        })
    }
}

fn startup<'a>(take: &mut Take<'a>) -> Result<Startup<'a>, CqlError> {
    let (count, capacity) = counted(take, 4)?;
    let mut options = Vec::with_capacity(capacity);
    for _ in 0..count {
        options.push((string(take)?, string(take)?));
    }
    Ok(Startup { options })
}

fn register(take: &mut Take<'_>) -> Result<SmallVec<[EventType; 3]>, CqlError> {
    let (count, _) = counted(take, 2)?;
    let mut events = SmallVec::new();
    for _ in 0..count {
        let name = string(take)?;
        let event = EventType::from_name(name).ok_or_else(|| {
            let known = EventType::ALL.map(EventType::name).join(", ");
            protocol_error(format!("unknown event type {:?}; there are {known}", super::wire::cut(name, 40)))
        })?;
        if !events.contains(&event) {
            events.push(event);
        }
    }
    Ok(events)
}

/// Reads `<n>` and the values. Before v4 any negative length means null.
#[inline(always)]
fn values<'a>(
    values: &mut Values<'a>,
    take: &mut Take<'a>,
    body: &'a [u8],
    version: ProtocolVersion,
    named: bool,
) -> Result<(), CqlError> {
    let count = take.u16()?;
    *values = Values::within(body);
    for _ in 0..count {
        if named {
            values.push_name(string(take)?);
        }
        let len = take.i32()?;
        if len >= 0 {
            values.push(take.offset(), len);
            take.bytes(len as usize)?;
        } else if len == -2 && version >= ProtocolVersion::V4 {
            values.push(0, -2);
        } else if len == -1 || version < ProtocolVersion::V4 {
            values.push(0, -1);
        } else {
            return Err(protocol_error(format!(
                "a value of {len} bytes; negative are -1 (null) and -2 (unset)"
            )));
        }
    }
    Ok(())
}

#[inline(always)]
fn parameters<'a>(
    take: &mut Take<'a>,
    body: &'a [u8],
    version: ProtocolVersion,
) -> Result<QueryParameters<'a>, CqlError> {
    let mut parameters = QueryParameters::new(consistency(take)?);
    fill(&mut parameters, take, body, version)?;
    Ok(parameters)
}

/// Reads the parameters after the consistency level. They are written in place, because moving a request
/// costs about as much as decoding it.
#[inline]
fn fill<'a>(
    parameters: &mut QueryParameters<'a>,
    take: &mut Take<'a>,
    body: &'a [u8],
    version: ProtocolVersion,
) -> Result<(), CqlError> {
    let flags = if version >= ProtocolVersion::V5 { take.u32()? } else { u32::from(take.u8()?) };
    if flags & flag::VALUES != 0 {
        values(&mut parameters.values, take, body, version, flags & flag::NAMES != 0)?;
    }
    parameters.skip_metadata = flags & flag::SKIP_METADATA != 0;
    if flags & flag::PAGE_SIZE != 0 {
        parameters.page_size_rows = Some(take.i32()?);
    }
    if flags & flag::PAGING_STATE != 0 {
        parameters.paging_state = bytes(take)?;
    }
    if flags & flag::SERIAL_CONSISTENCY != 0 {
        parameters.serial_consistency = Some(consistency(take)?);
    }
    if flags & flag::TIMESTAMP != 0 {
        let timestamp_us = take.i64()?;
        if timestamp_us == i64::MIN {
            let least = i64::MIN + 1;
            return Err(protocol_error(format!(
                "Out of bound timestamp, must be in [{least}, {}] (got {timestamp_us})",
                i64::MAX
            )));
        }
        parameters.timestamp_us = Some(timestamp_us);
    }
    if version >= ProtocolVersion::V5 {
        if flags & flag::KEYSPACE != 0 {
            parameters.keyspace = Some(string(take)?);
        }
        if flags & flag::NOW != 0 {
            parameters.now_s = Some(take.i32()?);
        }
    }
    Ok(())
}

/// Reads a batch. Named values are not supported in batches, because the flag for names follows the values
/// that it would apply to.
fn batch<'a>(take: &mut Take<'a>, body: &'a [u8], version: ProtocolVersion) -> Result<Batch<'a>, CqlError> {
    let batch_type = match take.u8()? {
        0 => BatchType::Logged,
        1 => BatchType::Unlogged,
        2 => BatchType::Counter,
        other => return Err(protocol_error(format!("Invalid BATCH message type {other}"))),
    };
    let (count, capacity) = counted(take, 5)?;
    let mut statements = Vec::with_capacity(capacity);
    for _ in 0..count {
        let query = match take.u8()? {
            0 => BatchQuery::Text(long_string(take)?),
            1 => BatchQuery::Prepared(take.u16_bytes()?),
            kind => {
                return Err(protocol_error(format!(
                    "Invalid query kind in BATCH messages. Must be 0 or 1 but got {kind}"
                )));
            }
        };
        let mut bound = Values::default();
        values(&mut bound, take, body, version, false)?;
        statements.push(BatchStatement { query, values: bound });
    }
    let parameters = parameters(take, body, version)?;
    Ok(Batch { batch_type, statements, parameters })
}
