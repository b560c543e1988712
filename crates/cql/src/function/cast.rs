//! `CAST(x AS t)`: conversions between numbers, between times, and from simple types to text.

use model::CqlType;
use protocol::CqlError;

use super::number::{Number, is_numeric};
use super::resolve::Signature;
use super::time;
use crate::error::invalid;

const TO_TEXT: [CqlType; 7] = [
    CqlType::Boolean,
    CqlType::Date,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::TimeUuid,
    CqlType::Uuid,
    CqlType::Inet,
];

const SIMPLE: [CqlType; 18] = [
    CqlType::Ascii,
    CqlType::BigInt,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::SmallInt,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::TimeUuid,
    CqlType::TinyInt,
    CqlType::Uuid,
    CqlType::Varint,
];

type Run = fn(&CqlType, &CqlType, &[u8]) -> Result<Option<Vec<u8>>, CqlError>;

/// Returns the function that converts a value; `None` if the types have no conversion.
fn conversion(from: &CqlType, to: &CqlType) -> Option<Run> {
    if from.freeze() == to.freeze() || (*from == CqlType::Ascii && *to == CqlType::Text) {
        Some(|_, _, value| Ok(Some(value.to_vec())))
    } else if is_numeric(from) && is_numeric(to) && !to.is_counter() {
        Some(|from, to, value| Number::read(from, value)?.map(|number| number.write(to)).transpose())
    } else if time::converts(from, to) {
        Some(time::convert)
    } else if matches!(to, CqlType::Text | CqlType::Ascii) && (is_numeric(from) || TO_TEXT.contains(from)) {
        Some(|from, _, value| {
            let from = if from.is_counter() { &CqlType::BigInt } else { from };
            // The text is that of the value, not of a constant, so it has no quotes.
            Ok((!value.is_empty()).then(|| from.text_of(value).replace('\'', "").into_bytes()))
        })
    } else {
        None
    }
}

/// Builds the conversion from one type to another.
///
/// # Errors
/// The types have no conversion. The error lists the types that have one to `to`.
pub fn signature(from: &CqlType, to: &CqlType) -> Result<Signature, CqlError> {
    let (from, to) = (from.without_reversed().clone(), to.without_reversed().clone());
    let Some(run) = conversion(&from, &to) else {
        let name = to.to_cql();
        let known = SIMPLE.iter().filter(|of| **of != to && conversion(of, &to).is_some());
        let known: Vec<_> =
            known.map(|of| format!("system.cast_as_{name} : ({}) -> {name}", of.to_cql())).collect();
        if known.is_empty() {
            return invalid!("{} cannot be cast to {name}", from.to_cql());
        }
        return invalid!(
            "Invalid call to function system.cast_as_{name}, none of its type signatures match (known type \
             signatures: {})",
            known.join(", ")
        );
    };
    let (argument, result) = (from.clone(), to.clone());
    Ok(Signature::new("cast", [argument], result, move |args| run(&from, &to, args[0])))
}
