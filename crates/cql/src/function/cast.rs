//! `CAST(x AS t)`: conversions between numbers, between times, and from simple types to text.

use model::CqlType;
use protocol::CqlError;

use super::number::{Number, is_numeric};
use super::resolve::Signature;
use super::time;
use crate::error::invalid;
use crate::term::is_assignable;

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

/// Builds the conversion of values of type `from` to another type. The conversion of `from` itself is chosen
/// first, then the only conversion whose argument has the same bytes: a bigint is also a timestamp.
/// `is_descending`: `from` is the type of a column in descending order, which converts also to itself.
/// Errors call the argument by `name`.
///
/// # Errors
/// No conversion takes the argument, or several do. The error lists them.
pub fn signature(
    from: &CqlType,
    to: &CqlType,
    is_descending: bool,
    name: &str,
) -> Result<Signature, CqlError> {
    let (from, to) = (from.without_reversed().clone(), to.without_reversed().clone());
    let is_itself = from.freeze() == to.freeze();
    if let Some(run) = conversion(&from, &to).filter(|_| !(is_itself && is_descending)) {
        return Ok(of(run, &from, &to));
    }
    let target = to.to_cql();
    let known: Vec<&CqlType> =
        SIMPLE.iter().filter(|of| **of != to && conversion(of, &to).is_some()).collect();
    if known.is_empty() {
        return invalid!("{name} cannot be cast to {target}");
    }
    let shown = |types: &[&CqlType]| {
        let each = types.iter().map(|of| format!("system.cast_as_{target} : ({}) -> {target}", of.to_cql()));
        each.collect::<Vec<_>>().join(", ")
    };
    let fitting: Vec<&CqlType> =
        known.iter().copied().filter(|argument| is_assignable(argument, &from)).collect();
    match (&fitting[..], is_itself) {
        ([only], _) => match conversion(only, &to) {
            Some(run) => Ok(of(run, only, &to)),
            None => Err(CqlError::Server("a conversion is known and unknown".to_string())),
        },
        // Cassandra refuses to cast a column in descending order to its own type.
        ([], true) => match conversion(&from, &to) {
            Some(run) => Ok(of(run, &from, &to)),
            None => invalid!("{name} cannot be cast to {target}"),
        },
        ([], false) => invalid!(
            "Invalid call to function system.cast_as_{target}, none of its type signatures match (known type \
             signatures: {})",
            shown(&known)
        ),
        (several, _) => invalid!(
            "Ambiguous call to function system.cast_as_{target} (can be matched by following signatures: {}): \
             use type casts to disambiguate",
            shown(several)
        ),
    }
}

fn of(run: Run, from: &CqlType, to: &CqlType) -> Signature {
    let (argument, result) = (from.clone(), to.clone());
    let (from, to) = (from.clone(), to.clone());
    Signature::new("cast", [argument], result, move |args| run(&from, &to, args[0]))
}
