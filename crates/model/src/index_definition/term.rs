//! The byte form of a term: `memcmp` of two terms is the order of the values in CQL.
//!
//! | type | form |
//! |---|---|
//! | integers of a fixed length, `timestamp` | the bytes with the sign bit inverted |
//! | `float`, `double` | the bits such that they rise with the number; all NaNs are one term |
//! | `varint` | a byte for sign and length, then the shortest two's complement |
//! | `decimal` | sign, exponent and decimal digits without trailing zeros: `1.0` and `1.00` are one term |
//! | `uuid`, `timeuuid` | version and time first, as they compare |
//! | `boolean` | 0 or 1 |
//! | `text`, `ascii` | the bytes, changed by the analysis |
//! | `blob`, `date`, `time`, `inet`, others | the bytes |
//! | collections, tuples, user-defined types, vectors | the terms of the elements with their lengths; equality only |
//!
//! An empty value of any scalar type is the empty term, which sorts first. Bytes that are not a value of the
//! type are a term too, so that the index of damaged data can be built; their order is not defined.

use super::TermAnalysis;
use super::analysis::analyse;
use crate::types::{
    CollectionIter, CompositeIter, CqlType, MapIter, TupleIter, TypeError, VectorIter, decimal, order, varint,
};

const SIGN_64: u64 = 1 << 63;

/// Whether the order of terms is the order of values. If not, only equality has a meaning.
pub fn term_is_ordered(ty: &CqlType) -> bool {
    !matches!(
        ty.without_reversed(),
        CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Vector { .. }
            | CqlType::Composite(_)
            | CqlType::Duration
            | CqlType::Counter
    )
}

/// The term of a serialized value. Never panics.
pub fn encode_term(ty: &CqlType, value: &[u8], analysis: TermAnalysis) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 2);
    push_term(&mut out, ty, value, analysis);
    out
}

/// The term of an entry of a map, from the terms of its key and value. Entries with the same key are together
/// and ordered by value.
pub fn encode_entry(key_term: &[u8], value_term: &[u8]) -> Vec<u8> {
    let mut out = escaped(key_term);
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(value_term);
    out
}

/// The bounds of the terms of all entries with a key: from the first (inclusive) to the second (exclusive).
pub fn entry_bounds(key_term: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut start, mut end) = (escaped(key_term), escaped(key_term));
    start.extend_from_slice(&[0, 1]);
    end.extend_from_slice(&[0, 2]);
    (start, end)
}

/// The bytes with 0 as 0, 255, so that 0, 1 is an end that sorts before every continuation.
fn escaped(term: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(term.len() + 2);
    for byte in term {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out
}

fn push_term(out: &mut Vec<u8>, ty: &CqlType, value: &[u8], analysis: TermAnalysis) {
    if value.is_empty() {
        return;
    }
    match ty {
        CqlType::Reversed(base) => push_term(out, base, value, analysis),
        CqlType::Int | CqlType::BigInt | CqlType::Timestamp | CqlType::TinyInt | CqlType::SmallInt => {
            out.push(value[0] ^ 0x80);
            out.extend_from_slice(&value[1..]);
        }
        CqlType::Text | CqlType::Ascii if !analysis.is_none() => analyse(out, value, analysis),
        CqlType::Boolean => out.push(u8::from(value[0] != 0)),
        CqlType::Float => match value.try_into() {
            Ok(bytes) => {
                out.extend_from_slice(&(order::float_key(bytes) as u32 ^ (1 << 31)).to_be_bytes());
            }
            Err(_) => out.extend_from_slice(value),
        },
        CqlType::Double => match value.try_into() {
            Ok(bytes) => out.extend_from_slice(&(order::double_key(bytes) as u64 ^ SIGN_64).to_be_bytes()),
            Err(_) => out.extend_from_slice(value),
        },
        CqlType::TimeUuid | CqlType::Uuid | CqlType::LexicalUuid => push_uuid(out, ty, value),
        CqlType::Varint => push_varint(out, value),
        CqlType::Decimal => push_decimal(out, value),
        CqlType::Text
        | CqlType::Ascii
        | CqlType::Blob
        | CqlType::Date
        | CqlType::Time
        | CqlType::LegacyTimestamp
        | CqlType::Inet
        | CqlType::Duration
        | CqlType::Counter
        | CqlType::Empty => out.extend_from_slice(value),
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. }
        | CqlType::Vector { .. }
        | CqlType::Composite(_) => {
            let start = out.len();
            if push_elements(out, ty, value, analysis).is_err() {
                // No valid value begins with this byte: see `push_element`.
                out.truncate(start);
                out.push(0xff);
                out.extend_from_slice(value);
            }
        }
    }
}

fn push_uuid(out: &mut Vec<u8>, ty: &CqlType, value: &[u8]) {
    let Ok(bytes) = <&[u8; 16]>::try_from(value) else {
        out.extend_from_slice(value);
        return;
    };
    let (high, low) = order::halves(bytes);
    let (high, low) = match ty {
        CqlType::TimeUuid => (order::time_first(high) ^ SIGN_64, low ^ 0x8080_8080_8080_8080),
        CqlType::LexicalUuid => (high ^ SIGN_64, low ^ SIGN_64),
        _ => {
            let version = (high >> 12) & 0xf;
            out.push(version as u8);
            (if version == 1 { order::time_first(high) } else { high }, low)
        }
    };
    out.extend_from_slice(&high.to_be_bytes());
    out.extend_from_slice(&low.to_be_bytes());
}

/// Lengths up to this are part of the first byte.
const SHORT_VARINT_BYTES: usize = 0x7e;

/// Numbers of the same sign and length compare as their bytes; the first byte rises from long negative to long
/// positive numbers.
fn push_varint(out: &mut Vec<u8>, value: &[u8]) {
    let bytes = varint::minimal(value);
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    if bytes.len() <= SHORT_VARINT_BYTES {
        let len = bytes.len() as u8;
        out.push(if is_negative { 0x7f - len } else { 0x80 + len });
    } else {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        out.push(if is_negative { 0 } else { 0xff });
        out.extend_from_slice(&(if is_negative { !len } else { len }).to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// The number as `± 0.d1 d2 … × 10^exponent` with the first digit above 0: a byte for the sign, the exponent,
/// two digits per byte (plus 1), a byte 0. Of a negative number all but the sign is inverted.
fn push_decimal(out: &mut Vec<u8>, value: &[u8]) {
    let Some((scale, unscaled)) = decimal::split(value) else {
        out.extend_from_slice(value);
        return;
    };
    let number = num_bigint::BigInt::from_signed_bytes_be(unscaled);
    let (sign, magnitude) = number.into_parts();
    let (first, invert) = match sign {
        num_bigint::Sign::Minus => (0, 0xff),
        num_bigint::Sign::NoSign => {
            out.push(1);
            return;
        }
        num_bigint::Sign::Plus => (2, 0),
    };
    out.push(first);
    let digits = magnitude.to_radix_be(10);
    let exponent = digits.len() as i64 - i64::from(scale);
    out.extend((exponent as u64 ^ SIGN_64).to_be_bytes().map(|byte| byte ^ invert));
    let significant = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    for pair in digits[..significant].chunks(2) {
        let number = pair[0] * 10 + pair.get(1).copied().unwrap_or(0);
        out.push((number + 1) ^ invert);
    }
    out.push(invert);
}

fn push_elements(
    out: &mut Vec<u8>,
    ty: &CqlType,
    value: &[u8],
    analysis: TermAnalysis,
) -> Result<(), TypeError> {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            for item in CollectionIter::new(value)? {
                push_element(out, element, item?, analysis);
            }
        }
        CqlType::Map { entry, .. } => {
            for item in MapIter::new(value)? {
                let (key, value) = item?;
                push_element(out, &entry.0, key, analysis);
                push_element(out, &entry.1, value, analysis);
            }
        }
        CqlType::Tuple(components) => {
            push_fields(out, |i| components.get(i), value, analysis)?;
        }
        CqlType::Udt { user, .. } => {
            push_fields(out, |i| user.fields.get(i).map(|field| &field.field_type), value, analysis)?;
        }
        CqlType::Vector { element, dimension } => {
            for item in VectorIter::new(value, element, *dimension) {
                push_element(out, element, Some(item?), analysis);
            }
        }
        CqlType::Composite(components) => {
            for (i, item) in CompositeIter::new(value).enumerate() {
                let (item, end) = item?;
                push_element(out, components.get(i).unwrap_or(&CqlType::Blob), Some(item), analysis);
                out.push(end);
            }
        }
        _ => out.extend_from_slice(value),
    }
    Ok(())
}

/// The fields of a tuple or user-defined type. Missing fields at the end are null.
fn push_fields<'t>(
    out: &mut Vec<u8>,
    field_type: impl Fn(usize) -> Option<&'t CqlType>,
    value: &[u8],
    analysis: TermAnalysis,
) -> Result<(), TypeError> {
    let mut end = out.len();
    for (i, item) in TupleIter::new(value).enumerate() {
        let item = item?;
        push_element(out, field_type(i).unwrap_or(&CqlType::Blob), item, analysis);
        if item.is_some() {
            end = out.len();
        }
    }
    out.truncate(end);
    Ok(())
}

/// An element: 1, null; 2, the length of its term and the term.
fn push_element(out: &mut Vec<u8>, ty: &CqlType, value: Option<&[u8]>, analysis: TermAnalysis) {
    let Some(value) = value else {
        out.push(1);
        return;
    };
    out.push(2);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    push_term(out, ty, value, analysis);
    let len = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&len.to_be_bytes());
}
