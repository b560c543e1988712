//! Which types may stand for which without a conversion.

use model::CqlType;

/// Whether a value of type `from` is valid as type `to` without a conversion: the types differ at most in
/// being frozen, or the bytes have the same meaning in both.
pub fn is_assignable(to: &CqlType, from: &CqlType) -> bool {
    let (to, from) = (to.without_reversed(), from.without_reversed());
    match (to, from) {
        (CqlType::Blob, _) => true,
        (CqlType::Text, CqlType::Ascii)
        | (CqlType::Uuid, CqlType::TimeUuid)
        | (CqlType::Counter | CqlType::Timestamp | CqlType::Time, CqlType::BigInt)
        | (CqlType::BigInt, CqlType::Counter | CqlType::Timestamp)
        | (CqlType::Date, CqlType::Int)
        | (
            CqlType::Varint,
            CqlType::BigInt | CqlType::Int | CqlType::SmallInt | CqlType::TinyInt | CqlType::Timestamp,
        ) => true,
        _ => to.freeze() == from.freeze(),
    }
}
