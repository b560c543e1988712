//! The native functions, by name.

use std::sync::Arc;

use model::{CqlType, PartitionKey};

use super::number::{Decimal, NUMERIC, Number};
use super::resolve::Signature;
use super::{collection, decimal_math, floor, json, mask, time};
use crate::key::partition_key;
use crate::term::Planner;

/// Types with functions that convert their values to and from blobs. Counters have none.
const SCALARS: [(&str, CqlType); 19] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::BigInt),
    ("boolean", CqlType::Boolean),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::SmallInt),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::TimeUuid),
    ("tinyint", CqlType::TinyInt),
    ("uuid", CqlType::Uuid),
    ("varchar", CqlType::Text),
    ("varint", CqlType::Varint),
];

/// Returns the overloads of a function for arguments whose types may be unknown; `None` if there is no such
/// function.
pub fn overloads(planner: &Planner<'_>, name: &str, args: &[Option<CqlType>]) -> Option<Vec<Signature>> {
    if name == "token" {
        return token(planner).map(|signature| vec![signature]);
    }
    time::overloads(name)
        .or_else(|| floor::overloads(name))
        .or_else(|| blob(name).map(|signature| vec![signature]))
        .or_else(|| math(name))
        .or_else(|| collection::overload(name, args))
        .or_else(|| mask::overload(name, args))
        .or_else(|| json::to_json(name, args))
}

/// `token`: the token of a partition key of the statement's table.
fn token(planner: &Planner<'_>) -> Option<Signature> {
    let schema = planner.catalog.schema(&planner.keyspace, &planner.table)?.clone();
    let types: Vec<CqlType> =
        schema.partition_key.iter().map(|column| column.ty.without_reversed().clone()).collect();
    Some(Signature::new("token", types, CqlType::BigInt, move |args| {
        // No partition has this key. Pages of a scan may start at its token.
        if let [[]] = args {
            return Ok(Some(i64::MIN.to_be_bytes().to_vec()));
        }
        let key: PartitionKey = partition_key(&schema, args)?;
        Ok(Some(key.token().to_be_bytes().to_vec()))
    }))
}

fn blob(name: &str) -> Option<Signature> {
    let typed = |wanted: &str| SCALARS.iter().find(|(known, _)| *known == wanted).map(|(_, ty)| ty.clone());
    if let Some(ty) = name.strip_suffix("asblob").or_else(|| name.strip_suffix("_as_blob")).and_then(typed) {
        return Some(Signature::new(name, [ty], CqlType::Blob, |args| Ok(Some(args[0].to_vec()))));
    }
    let ty = name.strip_prefix("blobas").or_else(|| name.strip_prefix("blob_as_")).and_then(typed)?;
    let (result, name) = (ty.clone(), Arc::<str>::from(name));
    let of = name.clone();
    Some(Signature::new(&name, [CqlType::Blob], result, move |args| {
        let value = args[0];
        match ty.validate(value) {
            Ok(()) => Ok(Some(value.to_vec())),
            Err(_) => crate::error::invalid!(
                "In call to function system.{of}, value 0x{} is not a valid binary representation for type {}",
                hexadecimal(value),
                ty.to_cql()
            ),
        }
    }))
}

/// Formats bytes for error messages. Long values are truncated.
fn hexadecimal(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 64;
    let mut text: String = bytes.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}

/// Returns an overload for each numeric type, whose result has the same type.
fn math(name: &str) -> Option<Vec<Signature>> {
    let of: fn(f64) -> f64 = match name {
        "abs" => f64::abs,
        "exp" => f64::exp,
        "log" => f64::ln,
        "log10" => f64::log10,
        "round" => round_half_up,
        _ => return None,
    };
    let exact = matches!(name, "abs" | "round");
    let of_decimal = match name {
        "exp" => decimal_math::exp,
        "log" => decimal_math::log,
        _ => decimal_math::log10,
    };
    let of_type = |ty: &CqlType| {
        let own = ty.clone();
        let is_abs = name == "abs";
        Signature::new(name, [ty.clone()], ty.clone(), move |args| {
            let Some(number) = Number::read(&own, args[0])? else { return Ok(None) };
            let result = match number {
                Number::Int(value) if exact => Number::Int(if is_abs { value.wrapping_abs() } else { value }),
                Number::Big(value) if exact => Number::Big(match is_abs {
                    true => value.magnitude().clone().into(),
                    false => value,
                }),
                Number::Decimal(mut decimal) if is_abs => {
                    decimal.unscaled = decimal.unscaled.magnitude().clone().into();
                    Number::Decimal(decimal)
                }
                Number::Decimal(decimal) if !exact => Number::Decimal(of_decimal(&decimal)?),
                // Varints are computed as decimals. The digits after the decimal point are cut off when the
                // result is serialized.
                Number::Big(unscaled) => Number::Decimal(of_decimal(&Decimal { unscaled, scale: 0 })?),
                Number::Decimal(decimal) => {
                    let one = Decimal { unscaled: 1.into(), scale: 0 };
                    let rounded = super::arithmetic::divided(&decimal, &one, 0)?;
                    Number::Decimal(rounded)
                }
                // Java rounds a float to an int and a double to a long: a value out of range becomes the
                // nearest bound, NaN becomes 0, and -0.0 does not occur.
                Number::Float(value) if exact && !is_abs => {
                    Number::Float(round_half_up(f64::from(value)) as i32 as f32)
                }
                Number::Double(value) if exact && !is_abs => {
                    Number::Double(round_half_up(value) as i64 as f64)
                }
                other => Number::Double(of(other.to_f64())),
            };
            Ok(Some(result.write(&own)?))
        })
    };
    Some(NUMERIC.iter().map(of_type).collect())
}

/// Rounds to the nearest integer, halves towards positive infinity, as Java's `Math.round`. The difference to
/// the floor is exact wherever it decides the result. `value + 0.5` is not exact: it is rounded for values
/// next to 0.5 and from 2^52 on.
fn round_half_up(value: f64) -> f64 {
    let below = value.floor();
    if value - below >= 0.5 { below + 1.0 } else { below }
}
