//! Types as they are named in the metadata of rows and of prepared statements.
//!
//! Clients see neither frozenness nor the direction of a clustering column. A type without a number in the
//! client's version is sent as "custom" with its Java class name: smallint, tinyint, date and time before v4,
//! duration before v5, vectors and internal types in every version. Source: the specifications' §4.2.5.2 and
//! Cassandra's `DataType`.

use base::bytes::Take;
use model::types::{CqlType, MAX_DEPTH, UdtField, UserType};

use super::ProtocolVersion;
use super::wire::{protocol_error, put_count, put_string, put_u16, string};
use crate::CqlError;

const CUSTOM: u16 = 0x00;
const TEXT: u16 = 0x0A;
const LIST: u16 = 0x20;
const MAP: u16 = 0x21;
const SET: u16 = 0x22;
const UDT: u16 = 0x30;
const TUPLE: u16 = 0x31;

/// Types without parameters: their number, and the first version that has the number.
const SIMPLE: [(u16, CqlType, ProtocolVersion); 20] = [
    (0x01, CqlType::Ascii, ProtocolVersion::V3),
    (0x02, CqlType::BigInt, ProtocolVersion::V3),
    (0x03, CqlType::Blob, ProtocolVersion::V3),
    (0x04, CqlType::Boolean, ProtocolVersion::V3),
    (0x05, CqlType::Counter, ProtocolVersion::V3),
    (0x06, CqlType::Decimal, ProtocolVersion::V3),
    (0x07, CqlType::Double, ProtocolVersion::V3),
    (0x08, CqlType::Float, ProtocolVersion::V3),
    (0x09, CqlType::Int, ProtocolVersion::V3),
    (0x0B, CqlType::Timestamp, ProtocolVersion::V3),
    (0x0C, CqlType::Uuid, ProtocolVersion::V3),
    (0x0D, CqlType::Text, ProtocolVersion::V3),
    (0x0E, CqlType::Varint, ProtocolVersion::V3),
    (0x0F, CqlType::TimeUuid, ProtocolVersion::V3),
    (0x10, CqlType::Inet, ProtocolVersion::V3),
    (0x11, CqlType::Date, ProtocolVersion::V4),
    (0x12, CqlType::Time, ProtocolVersion::V4),
    (0x13, CqlType::SmallInt, ProtocolVersion::V4),
    (0x14, CqlType::TinyInt, ProtocolVersion::V4),
    (0x15, CqlType::Duration, ProtocolVersion::V5),
];

/// Appends the `[option]` of a type.
pub fn put_type(out: &mut Vec<u8>, cql_type: &CqlType, version: ProtocolVersion) {
    let cql_type = match cql_type.without_reversed() {
        CqlType::LegacyTimestamp => &CqlType::Timestamp,
        other => other,
    };
    match cql_type {
        CqlType::List { element, .. } => {
            put_u16(out, LIST);
            put_type(out, element, version);
        }
        CqlType::Set { element, .. } => {
            put_u16(out, SET);
            put_type(out, element, version);
        }
        CqlType::Map { entry, .. } => {
            put_u16(out, MAP);
            put_type(out, &entry.0, version);
            put_type(out, &entry.1, version);
        }
        CqlType::Tuple(components) => {
            put_u16(out, TUPLE);
            let count = put_count(out, components.len());
            components[..count].iter().for_each(|component| put_type(out, component, version));
        }
        CqlType::Udt { user, .. } => {
            put_u16(out, UDT);
            put_string(out, &user.keyspace);
            put_string(out, &user.name);
            let count = put_count(out, user.fields.len());
            for field in &user.fields[..count] {
                put_string(out, &field.name);
                put_type(out, &field.field_type, version);
            }
        }
        simple => match SIMPLE.iter().find(|(_, known, since)| known == simple && *since <= version) {
            Some((number, ..)) => put_u16(out, *number),
            None => {
                put_u16(out, CUSTOM);
                put_string(out, &simple.to_java_name());
            }
        },
    }
}

/// Reads the type of an `[option]`, for clients. Nested collections and user types are returned as
/// multi-cell, since the protocol does not carry frozenness.
///
/// # Errors
/// [`CqlError::Protocol`]: the message is cut short, a number or class is unknown, or the type has more than
/// [`MAX_DEPTH`] levels.
pub fn take_type(take: &mut Take<'_>) -> Result<CqlType, CqlError> {
    type_at(take, 0)
}

fn type_at(take: &mut Take<'_>, depth: usize) -> Result<CqlType, CqlError> {
    if depth > MAX_DEPTH {
        return Err(protocol_error(format!("a type of more than {MAX_DEPTH} levels")));
    }
    let depth = depth + 1;
    Ok(match take.u16()? {
        CUSTOM => {
            let class = string(take)?;
            CqlType::from_java_name(class)
                .map_err(|error| protocol_error(format!("custom type {class:?}: {error}")))?
        }
        TEXT => CqlType::Text,
        LIST => CqlType::list(type_at(take, depth)?),
        SET => CqlType::set(type_at(take, depth)?),
        MAP => CqlType::map(type_at(take, depth)?, type_at(take, depth)?),
        TUPLE => {
            let count = take.u16()?;
            let mut components = Vec::new();
            for _ in 0..count {
                components.push(type_at(take, depth)?);
            }
            CqlType::tuple(components)
        }
        UDT => {
            let keyspace = string(take)?.to_owned();
            let name = string(take)?.to_owned();
            let count = take.u16()?;
            let mut fields = Vec::new();
            for _ in 0..count {
                let name = string(take)?.to_owned();
                fields.push(UdtField { name, field_type: type_at(take, depth)? });
            }
            CqlType::udt(UserType { keyspace, name, fields })
        }
        number => match SIMPLE.iter().find(|(known, ..)| *known == number) {
            Some((_, cql_type, _)) => cql_type.clone(),
            None => return Err(protocol_error(format!("unknown type number {number:#06x}"))),
        },
    })
}
