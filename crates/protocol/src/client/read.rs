//! Decodes the body of a server's message to an owned [`Response`].

use std::net::{IpAddr, SocketAddr};

use base::bytes::Take;

use crate::data_type::take_type;
use crate::metadata::flag;
use crate::reply::{kind, status_name, topology_name};
use crate::wire::{bytes, bytes_map, protocol_error, string, string_list};
use crate::{
    ChangeType, ColumnSpec, Envelope, Event, EventType, HeaderFlags, Opcode, Prepared, ProtocolVersion,
    Response, ResponseExtras, Rows, RowsMetadata, SchemaChange, SchemaTarget, StatusChange, TopologyChange,
};
use crate::{CqlError, FailureReason, WriteKind};

/// A response with the optional fields that precede its body.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseMessage {
    /// The decoded answer.
    pub response: Response,
    /// Tracing id, warnings and custom payload.
    pub extras: ResponseExtras,
}

impl ResponseMessage {
    /// # Errors
    /// [`CqlError::Protocol`] for a body that is too short, contains an unknown name or code, or is not a
    /// response.
    pub fn decode(envelope: &Envelope<'_>) -> Result<Self, CqlError> {
        let header = &envelope.header;
        let mut take = Take::new(envelope.body);
        let mut extras = ResponseExtras::default();
        if header.flags.has(HeaderFlags::TRACING) {
            extras.tracing_id = Some(take.array()?);
        }
        if header.flags.has(HeaderFlags::WARNING) {
            extras.warnings = string_list(&mut take)?;
        }
        if header.flags.has(HeaderFlags::CUSTOM_PAYLOAD) {
            let payload = bytes_map(&mut take)?;
            extras.custom_payload = payload
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
                .collect();
        }
        Ok(Self { response: response(header.opcode, header.version, &mut take)?, extras })
    }
}

fn response(opcode: Opcode, version: ProtocolVersion, take: &mut Take<'_>) -> Result<Response, CqlError> {
    let token = |take: &mut Take<'_>| bytes(take).map(|token| token.map(<[u8]>::to_vec));
    Ok(match opcode {
        Opcode::Error => Response::Error(error(take, version)?),
        Opcode::Ready => Response::Ready,
        Opcode::Authenticate => Response::Authenticate { class: string(take)?.to_owned() },
        Opcode::AuthChallenge => Response::AuthChallenge { token: token(take)? },
        Opcode::AuthSuccess => Response::AuthSuccess { token: token(take)? },
        Opcode::Supported => {
            let count = take.u16()?;
            let mut options = Vec::new();
            for _ in 0..count {
                options.push((string(take)?.to_owned(), string_list(take)?));
            }
            Response::Supported { options }
        }
        Opcode::Result => match take.i32()? {
            kind::VOID => Response::Void,
            kind::ROWS => Response::Rows(rows(take)?),
            kind::SET_KEYSPACE => Response::SetKeyspace(string(take)?.to_owned()),
            kind::PREPARED => Response::Prepared(prepared(take, version)?),
            kind::SCHEMA_CHANGE => Response::SchemaChange(schema_change(take)?),
            other => return Err(protocol_error(format!("unknown kind of result {other}"))),
        },
        Opcode::Event => Response::Event(event(take)?),
        Opcode::Startup
        | Opcode::Options
        | Opcode::Query
        | Opcode::Prepare
        | Opcode::Execute
        | Opcode::Register
        | Opcode::Batch
        | Opcode::AuthResponse => return Err(protocol_error(format!("{opcode:?} is a request"))),
    })
}

/// Reads an element count and checks it against the rest of the message: each element has at least
/// `each_bytes`.
fn count(take: &mut Take<'_>, each_bytes: usize) -> Result<usize, CqlError> {
    let count = take.i32()?;
    let fits = usize::try_from(count).ok().filter(|count| *count <= take.remaining() / each_bytes.max(1));
    fits.ok_or_else(|| protocol_error(format!("{count} elements in {} bytes", take.remaining())))
}

fn rows(take: &mut Take<'_>) -> Result<Rows, CqlError> {
    let metadata = rows_metadata(take)?;
    let columns_count = metadata.columns_count;
    // Rows without columns have no bytes, so the message does not bound their number. They carry no data and
    // are dropped.
    let rows_count = if columns_count == 0 { 0 } else { count(take, columns_count.saturating_mul(4))? };
    let mut rows = Vec::with_capacity(rows_count);
    for _ in 0..rows_count {
        let mut row = Vec::with_capacity(columns_count);
        for _ in 0..columns_count {
            row.push(bytes(take)?.map(<[u8]>::to_vec));
        }
        rows.push(row);
    }
    Ok(Rows { metadata, rows })
}

fn rows_metadata(take: &mut Take<'_>) -> Result<RowsMetadata, CqlError> {
    let flags = take.u32()?;
    let columns_count = columns_count(take)?;
    let mut metadata = RowsMetadata { columns_count, ..RowsMetadata::default() };
    if flags & flag::HAS_MORE_PAGES != 0 {
        metadata.paging_state = Some(bytes(take)?.unwrap_or_default().to_vec());
    }
    if flags & flag::METADATA_CHANGED != 0 {
        metadata.new_metadata_id = Some(take.u16_bytes()?.to_vec());
    }
    if flags & flag::NO_METADATA == 0 {
        metadata.columns = Some(columns(take, columns_count, flags & flag::GLOBAL_TABLE != 0)?);
    }
    Ok(metadata)
}

fn columns(take: &mut Take<'_>, count: usize, of_one_table: bool) -> Result<Vec<ColumnSpec>, CqlError> {
    let global = if of_one_table { Some((string(take)?.into(), string(take)?.into())) } else { None };
    let mut columns = Vec::new();
    for _ in 0..count {
        let (keyspace, table) = match &global {
            Some(names) => <(std::sync::Arc<str>, std::sync::Arc<str>)>::clone(names),
            None => (string(take)?.into(), string(take)?.into()),
        };
        columns.push(ColumnSpec {
            keyspace,
            table,
            name: string(take)?.to_owned(),
            column_type: take_type(take)?,
        });
    }
    Ok(columns)
}

fn prepared(take: &mut Take<'_>, version: ProtocolVersion) -> Result<Prepared, CqlError> {
    let id = take.u16_bytes()?.to_vec();
    let result_metadata_id =
        if version >= ProtocolVersion::V5 { Some(take.u16_bytes()?.to_vec()) } else { None };
    let flags = take.u32()?;
    let variables_count = columns_count(take)?;
    let mut partition_key_indexes = Vec::new();
    if version >= ProtocolVersion::V4 {
        for _ in 0..count(take, 2)? {
            partition_key_indexes.push(take.u16()?);
        }
    }
    let variables = columns(take, variables_count, flags & flag::GLOBAL_TABLE != 0)?;
    Ok(Prepared { id, result_metadata_id, variables, partition_key_indexes, result: rows_metadata(take)? })
}

fn columns_count(take: &mut Take<'_>) -> Result<usize, CqlError> {
    let count = take.i32()?;
    usize::try_from(count).map_err(|_| protocol_error(format!("{count} columns")))
}

fn schema_change(take: &mut Take<'_>) -> Result<SchemaChange, CqlError> {
    let word = string(take)?;
    let change = ChangeType::ALL.into_iter().find(|change| change.name() == word);
    let change = change.ok_or_else(|| protocol_error(format!("unknown change of the schema {word:?}")))?;
    let target = string(take)?;
    let keyspace = string(take)?.to_owned();
    let target = match target {
        "KEYSPACE" => SchemaTarget::Keyspace,
        "TABLE" => SchemaTarget::Table(string(take)?.to_owned()),
        "TYPE" => SchemaTarget::Type(string(take)?.to_owned()),
        "FUNCTION" => {
            SchemaTarget::Function { name: string(take)?.to_owned(), arguments: string_list(take)? }
        }
        "AGGREGATE" => {
            SchemaTarget::Aggregate { name: string(take)?.to_owned(), arguments: string_list(take)? }
        }
        other => return Err(protocol_error(format!("unknown target of a change {other:?}"))),
    };
    Ok(SchemaChange { change, keyspace, target })
}

fn event(take: &mut Take<'_>) -> Result<Event, CqlError> {
    let name = string(take)?;
    let unknown = |what: &str| protocol_error(format!("unknown event {name:?} {what:?}"));
    Ok(match EventType::from_name(name).ok_or_else(|| unknown(""))? {
        EventType::TopologyChange => {
            let word = string(take)?;
            let all = [TopologyChange::NewNode, TopologyChange::RemovedNode];
            let change = all.into_iter().find(|change| topology_name(*change) == word);
            Event::Topology { change: change.ok_or_else(|| unknown(word))?, node: inet(take)? }
        }
        EventType::StatusChange => {
            let word = string(take)?;
            let all = [StatusChange::Up, StatusChange::Down];
            let change = all.into_iter().find(|change| status_name(*change) == word);
            Event::Status { change: change.ok_or_else(|| unknown(word))?, node: inet(take)? }
        }
        EventType::SchemaChange => Event::Schema(schema_change(take)?),
    })
}

fn address(take: &mut Take<'_>) -> Result<IpAddr, CqlError> {
    match take.u8()? {
        4 => Ok(IpAddr::from(take.array::<4>()?)),
        16 => Ok(IpAddr::from(take.array::<16>()?)),
        len => Err(protocol_error(format!("an address of {len} bytes"))),
    }
}

fn inet(take: &mut Take<'_>) -> Result<SocketAddr, CqlError> {
    let ip = address(take)?;
    let port = take.i32()?;
    let port = u16::try_from(port).map_err(|_| protocol_error(format!("port {port}")))?;
    Ok(SocketAddr::new(ip, port))
}

fn write_kind(take: &mut Take<'_>) -> Result<WriteKind, CqlError> {
    let name = string(take)?;
    WriteKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| protocol_error(format!("unknown kind of write {name:?}")))
}

/// Reads the number of failed replicas and the reason of the first one.
fn failures(take: &mut Take<'_>, version: ProtocolVersion) -> Result<(i32, FailureReason), CqlError> {
    if version < ProtocolVersion::V5 {
        return Ok((take.i32()?, FailureReason::Unknown));
    }
    let count = count(take, 7)?;
    let mut first = None;
    for _ in 0..count {
        address(take)?;
        let reason = FailureReason::from_code(take.u16()?);
        first.get_or_insert(reason);
    }
    Ok((count as i32, first.unwrap_or_default()))
}

/// The server's message is kept only for codes without further fields. For the others, the fields hold the
/// same facts.
fn error(take: &mut Take<'_>, version: ProtocolVersion) -> Result<CqlError, CqlError> {
    let code = take.i32()?;
    let text = string(take)?.to_owned();
    Ok(match code {
        0x0000 => CqlError::Server(text),
        0x000A => CqlError::Protocol(text),
        0x0100 => CqlError::BadCredentials(text),
        0x1000 => {
            CqlError::Unavailable { consistency: take.u16()?, required: take.i32()?, alive: take.i32()? }
        }
        0x1001 => CqlError::Overloaded(text),
        0x1002 => CqlError::Bootstrapping(text),
        0x1003 => CqlError::Truncate(text),
        0x1100 => CqlError::WriteTimeout {
            consistency: take.u16()?,
            received: take.i32()?,
            required: take.i32()?,
            kind: write_kind(take)?,
        },
        0x1200 => CqlError::ReadTimeout {
            consistency: take.u16()?,
            received: take.i32()?,
            required: take.i32()?,
            data_present: take.u8()? != 0,
        },
        0x1300 => {
            let (consistency, received, required) = (take.u16()?, take.i32()?, take.i32()?);
            let (failures, reason) = failures(take, version)?;
            let data_present = take.u8()? != 0;
            CqlError::ReadFailure { consistency, received, required, failures, reason, data_present }
        }
        0x1400 => CqlError::FunctionFailure {
            keyspace: string(take)?.to_owned(),
            function: string(take)?.to_owned(),
            arguments: string_list(take)?,
            text,
        },
        0x1500 => CqlError::WriteFailure {
            consistency: take.u16()?,
            received: take.i32()?,
            required: take.i32()?,
            failures: failures(take, version)?.0,
            kind: write_kind(take)?,
        },
        0x1600 => CqlError::CdcWriteFailure(text),
        0x1700 => CqlError::CasWriteUnknown {
            consistency: take.u16()?,
            received: take.i32()?,
            required: take.i32()?,
        },
        0x2000 => CqlError::Syntax(text),
        0x2100 => CqlError::Unauthorized(text),
        0x2200 => CqlError::Invalid(text),
        0x2300 => CqlError::Config(text),
        0x2400 => {
            CqlError::AlreadyExists { keyspace: string(take)?.to_owned(), table: string(take)?.to_owned() }
        }
        0x2500 => CqlError::Unprepared { id: take.u16_bytes()?.to_vec() },
        other => CqlError::Server(format!("error {other:#06x}: {text}")),
    })
}
