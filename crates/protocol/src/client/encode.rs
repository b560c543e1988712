//! Encodes a [`Request`] as an envelope.

use crate::decode::{PREPARE_KEYSPACE, flag};
use crate::wire::{
    SHORT_MAX, put_bytes, put_bytes_map, put_count, put_i32, put_long_string, put_short_bytes, put_string,
    put_string_list, put_u16,
};
use crate::{
    BatchQuery, CustomPayload, EventType, HEADER_BYTES, Header, HeaderFlags, Opcode, ProtocolVersion,
    QueryParameters, Request, Value, Values,
};

/// Header fields that all requests have in common.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// The version of the connection.
    pub version: ProtocolVersion,
    /// Stream id; not negative.
    pub stream: i16,
    /// Whether the server is to trace the request.
    pub tracing: bool,
    /// Left out in v3, which has no custom payload.
    pub custom_payload: CustomPayload<'a>,
}

impl RequestHead<'_> {
    /// A head without tracing and custom payload.
    pub fn new(version: ProtocolVersion, stream: i16) -> Self {
        Self { version, stream, tracing: false, custom_payload: Vec::new() }
    }
}

/// Appends the request as an uncompressed envelope. Fields that the version does not have are left out:
/// before v5 these are the keyspace, now and the result metadata id. Values are sent with names if all of
/// them have names.
///
/// # Panics
/// If the body has more than 2 GiB.
pub fn write_request(out: &mut Vec<u8>, head: &RequestHead<'_>, request: &Request<'_>) {
    let start = out.len();
    let version = head.version;
    let mut flags = HeaderFlags(0);
    out.extend_from_slice(&[0; HEADER_BYTES]);
    if head.tracing {
        flags.0 |= HeaderFlags::TRACING;
    }
    if !head.custom_payload.is_empty() && version >= ProtocolVersion::V4 {
        flags.0 |= HeaderFlags::CUSTOM_PAYLOAD;
        put_bytes_map(out, &head.custom_payload);
    }
    let opcode = put_body(out, request, version);
    let body_bytes = u32::try_from(out.len() - start - HEADER_BYTES).expect("a body of at most 2 GiB");
    let header = Header { version, flags, stream: head.stream, opcode, body_bytes };
    out[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
}

fn put_body(out: &mut Vec<u8>, request: &Request<'_>, version: ProtocolVersion) -> Opcode {
    match request {
        Request::Startup(startup) => {
            let count = put_count(out, startup.options.len());
            for (name, value) in &startup.options[..count] {
                put_string(out, name);
                put_string(out, value);
            }
            Opcode::Startup
        }
        Request::AuthResponse { token } => {
            put_bytes(out, *token);
            Opcode::AuthResponse
        }
        Request::Options => Opcode::Options,
        Request::Query { text, parameters } => {
            put_long_string(out, text);
            put_parameters(out, parameters, version);
            Opcode::Query
        }
        Request::Prepare { text, keyspace } => {
            put_long_string(out, text);
            if version >= ProtocolVersion::V5 {
                let flags = if keyspace.is_some() { PREPARE_KEYSPACE } else { 0 };
                out.extend_from_slice(&flags.to_be_bytes());
                if let Some(keyspace) = keyspace {
                    put_string(out, keyspace);
                }
            }
            Opcode::Prepare
        }
        Request::Execute(execute) => {
            put_short_bytes(out, execute.id);
            if version >= ProtocolVersion::V5 {
                put_short_bytes(out, execute.result_metadata_id.unwrap_or_default());
            }
            put_parameters(out, &execute.parameters, version);
            Opcode::Execute
        }
        Request::Batch(batch) => {
            out.push(batch.batch_type as u8);
            let count = put_count(out, batch.statements.len());
            for statement in &batch.statements[..count] {
                match statement.query {
                    BatchQuery::Text(text) => {
                        out.push(0);
                        put_long_string(out, text);
                    }
                    BatchQuery::Prepared(id) => {
                        out.push(1);
                        put_short_bytes(out, id);
                    }
                }
                put_values(out, &statement.values, None);
            }
            put_parameters(out, &batch.parameters, version);
            Opcode::Batch
        }
        Request::Register { events } => {
            let names: Vec<&str> = events.iter().copied().map(EventType::name).collect();
            put_string_list(out, &names);
            Opcode::Register
        }
    }
}

fn put_values(out: &mut Vec<u8>, values: &Values<'_>, names: Option<&[&str]>) {
    let count = put_count(out, values.len());
    for (index, value) in values.iter().take(count).enumerate() {
        if let Some(names) = names {
            put_string(out, names[index]);
        }
        match value {
            Value::Bytes(bytes) => put_bytes(out, Some(bytes)),
            Value::Null => put_bytes(out, None),
            Value::Unset => put_i32(out, -2),
        }
    }
}

fn put_parameters(out: &mut Vec<u8>, parameters: &QueryParameters<'_>, version: ProtocolVersion) {
    put_u16(out, parameters.consistency.code());
    let has_v5_fields = version >= ProtocolVersion::V5;
    let keyspace = parameters.keyspace.filter(|_| has_v5_fields);
    let now_s = parameters.now_s.filter(|_| has_v5_fields);
    let names = parameters.values.names().filter(|names| names.len() == parameters.values.len());
    debug_assert!(parameters.values.len() <= SHORT_MAX);
    let flags = [
        (flag::VALUES, !parameters.values.is_empty()),
        (flag::SKIP_METADATA, parameters.skip_metadata),
        (flag::PAGE_SIZE, parameters.page_size_rows.is_some()),
        (flag::PAGING_STATE, parameters.paging_state.is_some()),
        (flag::SERIAL_CONSISTENCY, parameters.serial_consistency.is_some()),
        (flag::TIMESTAMP, parameters.timestamp_us.is_some()),
        (flag::NAMES, names.is_some()),
        (flag::KEYSPACE, keyspace.is_some()),
        (flag::NOW, now_s.is_some()),
    ];
    let flags = flags.iter().filter(|(_, set)| *set).fold(0, |all, (mask, _)| all | mask);
    if has_v5_fields {
        out.extend_from_slice(&flags.to_be_bytes());
    } else {
        out.push(flags as u8);
    }
    if !parameters.values.is_empty() {
        put_values(out, &parameters.values, names);
    }
    if let Some(page_size) = parameters.page_size_rows {
        put_i32(out, page_size);
    }
    if parameters.paging_state.is_some() {
        put_bytes(out, parameters.paging_state);
    }
    if let Some(level) = parameters.serial_consistency {
        put_u16(out, level.code());
    }
    if let Some(timestamp_us) = parameters.timestamp_us {
        out.extend_from_slice(&timestamp_us.to_be_bytes());
    }
    if let Some(keyspace) = keyspace {
        put_string(out, keyspace);
    }
    if let Some(now_s) = now_s {
        put_i32(out, now_s);
    }
}
