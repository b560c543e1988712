//! From values of CQL to values of Lua, as ScyllaDB documents the mapping.
//!
//! | CQL | Lua |
//! |---|---|
//! | null, and the empty value of a number | nil |
//! | ascii, text, blob | string |
//! | tinyint to bigint, counter | integer |
//! | float, double | float |
//! | boolean | boolean |
//! | varint, decimal | userdata with operators (`big.rs`) |
//! | date | days since the epoch plus 2^31 |
//! | time | nanoseconds since midnight |
//! | timestamp | milliseconds since the epoch |
//! | duration | `{months =, days =, nanoseconds =}` |
//! | uuid, timeuuid, inet | string |
//! | list, vector, tuple | table with the keys 1, 2, … |
//! | set | table whose keys are the elements, with the value true |
//! | map | table |
//! | user type | table whose keys are the names of the fields |

use mlua::{Lua, Table, Value};
use model::CqlType;
use model::types::CqlValue;

use crate::big::Big;

/// Converts a serialized value.
///
/// # Errors
/// The bytes are not a value of the type, or there is not enough memory.
pub fn to_lua(lua: &Lua, ty: &CqlType, bytes: Option<&[u8]>) -> mlua::Result<Value> {
    let Some(bytes) = bytes else { return Ok(Value::Nil) };
    let ty = match ty.without_reversed() {
        CqlType::Counter => &CqlType::BigInt,
        other => other,
    };
    let value = CqlValue::decode(ty, bytes).map_err(|error| mlua::Error::runtime(error.to_string()))?;
    convert(lua, ty, &value)
}

fn convert(lua: &Lua, ty: &CqlType, value: &CqlValue) -> mlua::Result<Value> {
    Ok(match value {
        CqlValue::Empty => Value::Nil,
        CqlValue::Text(text) => Value::String(lua.create_string(text)?),
        CqlValue::Blob(bytes) => Value::String(lua.create_string(bytes)?),
        CqlValue::Boolean(value) => Value::Boolean(*value),
        CqlValue::TinyInt(value) => Value::Integer(i64::from(*value)),
        CqlValue::SmallInt(value) => Value::Integer(i64::from(*value)),
        CqlValue::Int(value) => Value::Integer(i64::from(*value)),
        CqlValue::BigInt(value) | CqlValue::Time(value) | CqlValue::Timestamp(value) => {
            Value::Integer(*value)
        }
        CqlValue::Varint(value) => big(lua, Big::varint(value.clone()))?,
        CqlValue::Decimal { unscaled, scale } => {
            big(lua, Big { unscaled: unscaled.clone(), scale: *scale, is_decimal: true })?
        }
        CqlValue::Float(value) => Value::Number(f64::from(*value)),
        CqlValue::Double(value) => Value::Number(*value),
        CqlValue::Date(days) => Value::Integer(i64::from(*days)),
        CqlValue::Duration(duration) => {
            let table = lua.create_table()?;
            table.raw_set("months", i64::from(duration.months))?;
            table.raw_set("days", i64::from(duration.days))?;
            table.raw_set("nanoseconds", duration.nanoseconds)?;
            Value::Table(table)
        }
        CqlValue::Uuid(_) | CqlValue::Inet(_) => {
            let bytes = value.encode(ty).map_err(|error| mlua::Error::runtime(error.to_string()))?;
            Value::String(lua.create_string(ty.raw_text_of(&bytes))?)
        }
        CqlValue::List(elements) => {
            let (CqlType::List { element, .. } | CqlType::Vector { element, .. }) = ty else {
                return mismatch(ty);
            };
            Value::Table(sequence(lua, elements.iter().map(|value| (&**element, Some(value))))?)
        }
        CqlValue::Tuple(fields) => match ty {
            CqlType::Tuple(types) => {
                Value::Table(sequence(lua, types.iter().zip(fields.iter().map(Option::as_ref)))?)
            }
            CqlType::Udt { user, .. } => {
                let table = lua.create_table()?;
                for (field, value) in user.fields.iter().zip(fields) {
                    if let Some(value) = value {
                        table.raw_set(field.name.as_str(), convert(lua, &field.field_type, value)?)?;
                    }
                }
                Value::Table(table)
            }
            other => return mismatch(other),
        },
        CqlValue::Set(elements) => {
            let CqlType::Set { element, .. } = ty else { return mismatch(ty) };
            let table = lua.create_table()?;
            for value in elements {
                table.raw_set(key(lua, element, value)?, true)?;
            }
            Value::Table(table)
        }
        CqlValue::Map(entries) => {
            let CqlType::Map { entry, .. } = ty else { return mismatch(ty) };
            let table = lua.create_table()?;
            for (name, value) in entries {
                table.raw_set(key(lua, &entry.0, name)?, convert(lua, &entry.1, value)?)?;
            }
            Value::Table(table)
        }
    })
}

/// A key of a table. Two kinds of values cannot be one.
fn key(lua: &Lua, ty: &CqlType, value: &CqlValue) -> mlua::Result<Value> {
    match convert(lua, ty, value)? {
        Value::Nil => Err(mlua::Error::runtime("an empty value cannot be a key of a Lua table")),
        Value::Number(number) if number.is_nan() => {
            Err(mlua::Error::runtime("NaN cannot be a key of a Lua table"))
        }
        key => Ok(key),
    }
}

fn big(lua: &Lua, value: Big) -> mlua::Result<Value> {
    Ok(Value::UserData(lua.create_userdata(value.checked()?)?))
}

fn sequence<'a>(
    lua: &Lua,
    values: impl Iterator<Item = (&'a CqlType, Option<&'a CqlValue>)>,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (at, (ty, value)) in (1i64..).zip(values) {
        if let Some(value) = value {
            table.raw_set(at, convert(lua, ty, value)?)?;
        }
    }
    Ok(table)
}

fn mismatch<T>(ty: &CqlType) -> mlua::Result<T> {
    Err(mlua::Error::runtime(format!("a value of another type than {}", ty.to_cql())))
}
