//! The body of ERROR: code, message, and the fields of the code in the client's version.
//!
//! A client whose version does not have a code receives the nearest older one, so that its driver retries
//! correctly. Before v4, failures of replicas are sent as timeouts and failed functions as invalid requests.
//! Before v5, an unknown outcome of a conditional write is sent as a write timeout of kind CAS. Source: the
//! specifications' §9 and Cassandra's messages.

use std::net::{IpAddr, Ipv4Addr};

use super::ProtocolVersion;
use super::wire::{put_address, put_i32, put_short_bytes, put_string, put_string_list, put_u16};
use crate::{CqlError, FailureReason, WriteKind};

pub(super) const WRITE_TIMEOUT: i32 = 0x1100;
pub(super) const READ_TIMEOUT: i32 = 0x1200;
pub(super) const INVALID: i32 = 0x2200;

pub(super) fn put_error(out: &mut Vec<u8>, error: &CqlError, version: ProtocolVersion) {
    let knows_failures = version >= ProtocolVersion::V4;
    let code = match error {
        CqlError::ReadFailure { .. } if !knows_failures => READ_TIMEOUT,
        CqlError::WriteFailure { .. } if !knows_failures => WRITE_TIMEOUT,
        CqlError::FunctionFailure { .. } | CqlError::CdcWriteFailure(_) if !knows_failures => INVALID,
        CqlError::CasWriteUnknown { .. } if version < ProtocolVersion::V5 => WRITE_TIMEOUT,
        other => other.code(),
    };
    put_i32(out, code);
    put_string(out, &error.to_string());
    match error {
        CqlError::Unavailable { consistency, required, alive } => {
            put_u16(out, *consistency);
            put_i32(out, *required);
            put_i32(out, *alive);
        }
        CqlError::WriteTimeout { consistency, received, required, kind } => {
            put_responses(out, *consistency, *received, *required);
            put_string(out, kind.name());
            // The number of contending conditional writes. They are not counted here, so it is 0.
            if *kind == WriteKind::Cas && version >= ProtocolVersion::V5 {
                put_u16(out, 0);
            }
        }
        CqlError::ReadTimeout { consistency, received, required, data_present } => {
            put_responses(out, *consistency, *received, *required);
            out.push(u8::from(*data_present));
        }
        CqlError::ReadFailure { consistency, received, required, failures, reason, data_present } => {
            put_responses(out, *consistency, *received, *required);
            if knows_failures {
                put_failures(out, *failures, *reason, version);
            }
            out.push(u8::from(*data_present));
        }
        CqlError::WriteFailure { consistency, received, required, failures, kind } => {
            put_responses(out, *consistency, *received, *required);
            if knows_failures {
                put_failures(out, *failures, FailureReason::Unknown, version);
            }
            put_string(out, kind.name());
        }
        CqlError::CasWriteUnknown { consistency, received, required } => {
            put_responses(out, *consistency, *received, *required);
            if code == WRITE_TIMEOUT {
                put_string(out, WriteKind::Cas.name());
            }
        }
        CqlError::FunctionFailure { keyspace, function, arguments, .. } if knows_failures => {
            put_string(out, keyspace);
            put_string(out, function);
            put_string_list(out, arguments);
        }
        CqlError::AlreadyExists { keyspace, table } => {
            put_string(out, keyspace);
            put_string(out, table);
        }
        CqlError::Unprepared { id } => put_short_bytes(out, id),
        CqlError::Server(_)
        | CqlError::Protocol(_)
        | CqlError::BadCredentials(_)
        | CqlError::Overloaded(_)
        | CqlError::Bootstrapping(_)
        | CqlError::Truncate(_)
        | CqlError::FunctionFailure { .. }
        | CqlError::CdcWriteFailure(_)
        | CqlError::Syntax(_)
        | CqlError::Unauthorized(_)
        | CqlError::Invalid(_)
        | CqlError::Config(_) => {}
    }
}

fn put_responses(out: &mut Vec<u8>, consistency: u16, received: i32, required: i32) {
    put_u16(out, consistency);
    put_i32(out, received);
    put_i32(out, required);
}

/// v4 has the number of failures; v5 has an address and a reason for each failure. The addresses of the
/// failed replicas are not known here, so numbered addresses from 0.0.0.0 on are sent.
fn put_failures(out: &mut Vec<u8>, failures: i32, reason: FailureReason, version: ProtocolVersion) {
    if version < ProtocolVersion::V5 {
        return put_i32(out, failures);
    }
    let failures = failures.clamp(0, 0xff);
    put_i32(out, failures);
    for node in 0..failures {
        put_address(out, IpAddr::V4(Ipv4Addr::new(0, 0, 0, node as u8)));
        put_u16(out, reason.code());
    }
}
