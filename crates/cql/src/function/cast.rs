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

/// Builds the conversion from one type to another.
///
/// # Errors
/// The types have no conversion.
pub fn signature(from: &CqlType, to: &CqlType) -> Result<Signature, CqlError> {
    let (from, to) = (from.without_reversed().clone(), to.without_reversed().clone());
    type Run = fn(&CqlType, &CqlType, &[u8]) -> Result<Option<Vec<u8>>, CqlError>;
    let run: Run = if from.freeze() == to.freeze() || (from == CqlType::Ascii && to == CqlType::Text) {
        |_, _, value| Ok(Some(value.to_vec()))
    } else if is_numeric(&from) && is_numeric(&to) && !to.is_counter() {
        |from, to, value| Number::read(from, value)?.map(|number| number.write(to)).transpose()
    } else if time::converts(&from, &to) {
        time::convert
    } else if matches!(to, CqlType::Text | CqlType::Ascii) && (is_numeric(&from) || TO_TEXT.contains(&from)) {
        |from, _, value| {
            let from = if from.is_counter() { &CqlType::BigInt } else { from };
            // The text is that of the value, not of a constant, so it has no quotes.
            Ok((!value.is_empty()).then(|| from.text_of(value).replace('\'', "").into_bytes()))
        }
    } else {
        return invalid!("{} cannot be cast to {}", from.to_cql(), to.to_cql());
    };
    let (argument, result) = (from.clone(), to.clone());
    Ok(Signature::new("cast", [argument], result, move |args| run(&from, &to, args[0])))
}
