//! Which constants a type takes, and their bytes.
//!
//! Source of the table: the CQL reference, and Cassandra 4.1 `cql3/Constants.java`.

use model::types::CqlType;

use crate::CqlError;
use crate::error::invalid;
use crate::syntax::{Literal, LiteralKind};

/// Whether a constant of this kind can be a value of the type.
pub(crate) fn fits(kind: LiteralKind, ty: &CqlType) -> bool {
    use CqlType as T;
    match kind {
        LiteralKind::String => {
            matches!(ty, T::Ascii | T::Text | T::Inet | T::Date | T::Time | T::Timestamp | T::LegacyTimestamp)
        }
        LiteralKind::Integer => matches!(
            ty,
            T::BigInt
                | T::Counter
                | T::Date
                | T::Decimal
                | T::Double
                | T::Duration
                | T::Float
                | T::Int
                | T::SmallInt
                | T::Time
                | T::Timestamp
                | T::LegacyTimestamp
                | T::TinyInt
                | T::Varint
        ),
        LiteralKind::Uuid => matches!(ty, T::Uuid | T::TimeUuid | T::LexicalUuid),
        LiteralKind::Float => matches!(ty, T::Decimal | T::Double | T::Float),
        LiteralKind::Boolean => matches!(ty, T::Boolean),
        LiteralKind::Blob => matches!(ty, T::Blob),
        LiteralKind::Duration => matches!(ty, T::Duration),
    }
}

fn kind_name(kind: LiteralKind) -> &'static str {
    match kind {
        LiteralKind::String => "STRING",
        LiteralKind::Integer => "INTEGER",
        LiteralKind::Uuid => "UUID",
        LiteralKind::Float => "FLOAT",
        LiteralKind::Boolean => "BOOLEAN",
        LiteralKind::Blob => "HEX",
        LiteralKind::Duration => "DURATION",
    }
}

/// The type that a constant has where nothing says which one is wanted.
pub(super) fn natural_type(literal: &Literal) -> CqlType {
    match literal.kind {
        LiteralKind::String => CqlType::Text,
        LiteralKind::Integer => match (literal.text.parse::<i32>(), literal.text.parse::<i64>()) {
            (Ok(_), _) => CqlType::Int,
            (_, Ok(_)) => CqlType::BigInt,
            _ => CqlType::Varint,
        },
        LiteralKind::Uuid => CqlType::Uuid,
        LiteralKind::Float => CqlType::Double,
        LiteralKind::Boolean => CqlType::Boolean,
        LiteralKind::Blob => CqlType::Blob,
        LiteralKind::Duration => CqlType::Duration,
    }
}

/// The constant as a value of `ty`; `name` is what it is for.
///
/// # Errors
/// A constant of another kind than the type takes, or one that is no value of it.
pub fn literal_bytes(literal: &Literal, name: &str, ty: &CqlType) -> Result<Vec<u8>, CqlError> {
    let ty = ty.without_reversed();
    if !fits(literal.kind, ty) {
        return invalid!(
            "Invalid {} constant ({}) for \"{name}\" of type {}",
            kind_name(literal.kind),
            literal.text,
            ty.to_cql()
        );
    }
    match (literal.kind, ty) {
        (LiteralKind::String, CqlType::Text | CqlType::Ascii) => {
            ty.validate(literal.text.as_bytes())?;
            Ok(literal.text.as_bytes().to_vec())
        }
        (LiteralKind::String, _) => Ok(ty.bytes_of(&format!("'{}'", literal.text.replace('\'', "''")))?),
        // An odd number of digits is read with a zero in front by nobody: refused.
        _ => Ok(ty.bytes_of(&literal.text)?),
    }
}
