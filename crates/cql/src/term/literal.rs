//! Constants: the kinds that each type accepts, and their serialized values.
//!
//! Source of the table: the CQL reference, and Cassandra 4.1 `cql3/Constants.java`.

use model::types::CqlType;
use protocol::CqlError;
use syntax::{Literal, LiteralKind};

use crate::error::invalid;

/// Whether the type accepts constants of this kind.
pub(crate) fn fits(kind: LiteralKind, ty: &CqlType) -> bool {
    use CqlType as T;
    if matches!(ty, T::Tuple(_)) {
        // The text form of a tuple, such as '1:a:@'.
        return true;
    }
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
        // As in Cassandra, a blob constant is also the byte of a tinyint.
        LiteralKind::Blob => matches!(ty, T::Blob | T::TinyInt),
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

/// Returns the type of a constant in a place that wants no particular type.
pub(crate) fn natural_type(literal: &Literal) -> CqlType {
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

/// Serializes a constant as a value of `ty`. `name` describes the constant's place in errors.
///
/// # Errors
/// The type does not accept constants of this kind, or the constant is not a valid value of the type.
pub fn literal_bytes(literal: &Literal, name: &str, ty: &CqlType) -> Result<Vec<u8>, CqlError> {
    let ty = ty.without_reversed();
    // `0x` and two digits. Cassandra stores bytes of any number, which are no tinyint.
    let is_byte = literal.text.len() == 4;
    if !fits(literal.kind, ty) || literal.kind == LiteralKind::Blob && *ty == CqlType::TinyInt && !is_byte {
        return invalid!(
            "Invalid {} constant ({}) for \"{name}\" of type {}",
            kind_name(literal.kind),
            literal.text,
            ty.to_cql()
        );
    }
    let read = match (literal.kind, ty) {
        (LiteralKind::String, CqlType::Ascii) if !literal.text.is_ascii() => {
            // Java's name for the error is part of Cassandra's text.
            return invalid!(
                "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input \
                 length = 1; \"{name}\" of type ascii takes {}",
                form_of(ty)
            );
        }
        (LiteralKind::String, CqlType::Text | CqlType::Ascii) => {
            ty.validate(literal.text.as_bytes()).map(|()| literal.text.as_bytes().to_vec())
        }
        (LiteralKind::Blob, _) if literal.text.len() % 2 == 1 => {
            return invalid!(
                "cannot parse '{}' as hex bytes; \"{name}\" of type blob takes {}",
                &literal.text[2..],
                form_of(ty)
            );
        }
        (LiteralKind::Blob, CqlType::TinyInt) => CqlType::Blob.bytes_of(&literal.text),
        (_, CqlType::Tuple(_)) => ty.bytes_of_raw_text(&literal.text),
        (LiteralKind::String, _) => ty.bytes_of(&format!("'{}'", literal.text.replace('\'', "''"))),
        _ => ty.bytes_of(&literal.text),
    };
    let is_tuple = matches!(ty, CqlType::Tuple(_));
    // Cassandra's error message, followed by the place and the expected form.
    read.map_err(|error| match is_tuple {
        true => CqlError::Invalid(error.to_string()),
        false => {
            CqlError::Invalid(format!("{error}; \"{name}\" of type {} takes {}", ty.to_cql(), form_of(ty)))
        }
    })
}

/// Description of the constants of a type, for error messages.
fn form_of(ty: &CqlType) -> &'static str {
    use CqlType as T;
    match ty {
        T::Ascii => "ASCII characters only",
        T::Inet => "an address such as '192.0.2.1' or '2001:db8::1'",
        T::Date => "a day such as '2024-01-31'",
        T::Time => "a time of day such as '13:30:54.234'",
        T::Timestamp | T::LegacyTimestamp => {
            "a time such as '2024-01-31 13:30:00+0100', or milliseconds since 1970-01-01 UTC"
        }
        T::TinyInt => "a whole number from -128 to 127",
        T::SmallInt => "a whole number from -32768 to 32767",
        T::Int => "a whole number from -2147483648 to 2147483647",
        T::BigInt | T::Counter => "a whole number from -9223372036854775808 to 9223372036854775807",
        T::Varint => "a whole number",
        T::Decimal | T::Double | T::Float => "a number such as 1.5 or 2e10",
        T::Uuid | T::LexicalUuid => "a UUID such as 123e4567-e89b-42d3-a456-426614174000",
        T::TimeUuid => "a UUID of version 1 such as 50554d6e-29bb-11e5-b345-feff819cdc9f",
        T::Blob => "an even number of hexadecimal digits such as 0xcafe",
        T::Duration => "a duration such as 1h30m, P1DT12H or 2mo10d",
        _ => "a constant of that type",
    }
}
