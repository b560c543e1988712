//! From values of Lua to values of CQL, the other direction of `to_lua.rs`.
//!
//! What Lua converts by itself is converted here too: numbers to text, text to numbers, floats without a
//! fraction to integers. Integers that are too large for their type keep their lowest bits. Dates, times and
//! timestamps may also be CQL literals as strings, and dates and timestamps tables with `year`, `month`,
//! `day` and so on; durations may be literals.
//!
//! A table may contain the same table many times, and so be far larger as a value than in memory. The size of
//! the value is therefore limited.

use mlua::{Lua, Table, Value};
use model::CqlType;
use model::types::{CqlValue, Duration, TypeError};
use num_bigint::BigInt;

use crate::big::Big;

/// Converts results, up to a limit of their size.
pub struct FromLua<'a> {
    pub lua: &'a Lua,
    /// Bytes that the rest of the value may take, with some for each element.
    pub bytes_left: usize,
}

type Converted<T> = Result<T, String>;

const ELEMENT_BYTES: usize = 8;

impl FromLua<'_> {
    /// Serializes a value; `None` is null.
    ///
    /// # Errors
    /// The value is not one of the type, or is too large.
    pub fn serialized(&mut self, ty: &CqlType, value: &Value) -> Converted<Option<Vec<u8>>> {
        let ty = match ty.without_reversed() {
            CqlType::Counter => &CqlType::BigInt,
            other => other,
        };
        let Some(value) = self.convert(ty, value)? else { return Ok(None) };
        let bytes = value.encode(ty).map_err(|error| error.to_string())?;
        ty.validate(&bytes).map_err(|error| error.to_string())?;
        Ok(Some(bytes))
    }

    fn spend(&mut self, bytes: usize) -> Converted<()> {
        match self.bytes_left.checked_sub(ELEMENT_BYTES + bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err("the result is too large".to_string()),
        }
    }

    fn convert(&mut self, ty: &CqlType, value: &Value) -> Converted<Option<CqlValue>> {
        self.spend(0)?;
        if value.is_nil() {
            return Ok(None);
        }
        Ok(Some(match ty {
            CqlType::Ascii | CqlType::Text => {
                let text = self.text(ty, value)?;
                CqlValue::Text(String::from_utf8(text).map_err(|_| "the string is not UTF-8".to_string())?)
            }
            CqlType::Blob => match value {
                Value::String(bytes) => {
                    self.spend(bytes.as_bytes().len())?;
                    CqlValue::Blob(bytes.as_bytes().to_vec())
                }
                other => return unexpected(ty, other),
            },
            CqlType::Boolean => match value {
                Value::Boolean(value) => CqlValue::Boolean(*value),
                other => return unexpected(ty, other),
            },
            CqlType::TinyInt => CqlValue::TinyInt(self.wrapped(ty, value)? as i8),
            CqlType::SmallInt => CqlValue::SmallInt(self.wrapped(ty, value)? as i16),
            CqlType::Int => CqlValue::Int(self.wrapped(ty, value)? as i32),
            CqlType::BigInt | CqlType::Counter => CqlValue::BigInt(self.wrapped(ty, value)?),
            CqlType::Varint => CqlValue::Varint(self.integer(ty, value)?),
            CqlType::Decimal => self.decimal(ty, value)?,
            CqlType::Float => CqlValue::Float(self.float(ty, value)? as f32),
            CqlType::Double => CqlValue::Double(self.float(ty, value)?),
            CqlType::Date => match value {
                Value::String(text) => parsed(ty, &text.to_string_lossy())?,
                Value::Table(table) => {
                    let days = date(table)?.checked_add(1 << 31).and_then(|days| u32::try_from(days).ok());
                    CqlValue::Date(days.ok_or("the date is out of range")?)
                }
                number => {
                    let days = u32::try_from(self.integer(ty, number)?);
                    CqlValue::Date(days.map_err(|_| "the date is out of range")?)
                }
            },
            CqlType::Time => match value {
                Value::String(text) => parsed(ty, &text.to_string_lossy())?,
                number => CqlValue::Time(exact(&self.integer(ty, number)?)?),
            },
            CqlType::Timestamp | CqlType::LegacyTimestamp => match value {
                Value::String(text) => parsed(ty, &text.to_string_lossy())?,
                Value::Table(table) => CqlValue::Timestamp(timestamp_ms(table)?),
                number => CqlValue::Timestamp(exact(&self.integer(ty, number)?)?),
            },
            CqlType::Duration => match value {
                Value::String(text) => parsed(ty, &text.to_string_lossy())?,
                Value::Table(table) => duration(table)?,
                other => return unexpected(ty, other),
            },
            CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid | CqlType::Inet => match value {
                Value::String(text) => parsed(ty, &text.to_string_lossy())?,
                other => return unexpected(ty, other),
            },
            CqlType::List { element, .. } => CqlValue::List(self.sequence(ty, element, value)?),
            CqlType::Vector { element, dimension } => {
                let elements = self.sequence(ty, element, value)?;
                if elements.len() != *dimension as usize {
                    return Err(format!("{} elements for a value of type {}", elements.len(), ty.to_cql()));
                }
                CqlValue::List(elements)
            }
            CqlType::Set { element, .. } => {
                let mut elements = vec![];
                self.each(ty, value, &mut |this, key, _| {
                    let key = this.convert(element, key)?;
                    elements.push(key.ok_or("null is not supported inside collections")?);
                    Ok(())
                })?;
                CqlValue::Set(elements)
            }
            CqlType::Map { entry, .. } => {
                let mut entries = vec![];
                self.each(ty, value, &mut |this, key, value| {
                    let key = this.convert(&entry.0, key)?.ok_or("null is not supported as a key")?;
                    let value = this.convert(&entry.1, value)?;
                    entries.push((key, value.ok_or("null is not supported inside collections")?));
                    Ok(())
                })?;
                CqlValue::Map(entries)
            }
            CqlType::Tuple(types) => {
                let mut fields = vec![None; types.len()];
                self.each(ty, value, &mut |this, key, value| {
                    let at = position(key).filter(|at| *at < types.len());
                    let Some(at) = at else { return Err(unknown_key(ty, key)) };
                    fields[at] = this.convert(&types[at], value)?;
                    Ok(())
                })?;
                CqlValue::Tuple(fields)
            }
            CqlType::Udt { user, .. } => {
                let mut fields = vec![None; user.fields.len()];
                self.each(ty, value, &mut |this, key, value| {
                    let named =
                        |name: &str| matches!(key, Value::String(key) if *key.as_bytes() == *name.as_bytes());
                    let at = user.fields.iter().position(|field| named(&field.name));
                    let Some(at) = at else { return Err(unknown_key(ty, key)) };
                    fields[at] = this.convert(&user.fields[at].field_type, value)?;
                    Ok(())
                })?;
                CqlValue::Tuple(fields)
            }
            other => return Err(format!("functions cannot return the type {}", other.to_cql())),
        }))
    }

    /// Calls `take` for each entry of a table, without metamethods.
    fn each(
        &mut self,
        ty: &CqlType,
        value: &Value,
        take: &mut dyn FnMut(&mut Self, &Value, &Value) -> Converted<()>,
    ) -> Converted<()> {
        let Value::Table(table) = value else { return unexpected(ty, value) };
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            take(self, &key, &value)?;
        }
        Ok(())
    }

    /// The elements of a table with the keys 1 to n.
    fn sequence(&mut self, ty: &CqlType, element: &CqlType, value: &Value) -> Converted<Vec<CqlValue>> {
        let Value::Table(table) = value else { return unexpected(ty, value) };
        let mut elements: Vec<(usize, CqlValue)> = vec![];
        self.each(ty, value, &mut |this, key, value| {
            let Some(at) = position(key) else { return Err(unknown_key(ty, key)) };
            let value = this.convert(element, value)?;
            elements.push((at, value.ok_or("null is not supported inside collections")?));
            Ok(())
        })?;
        elements.sort_unstable_by_key(|(at, _)| *at);
        if elements.iter().enumerate().any(|(expected, (at, _))| expected != *at) {
            return Err(format!(
                "a table of {} elements with the length {} is no sequence for the type {}",
                elements.len(),
                table.raw_len(),
                ty.to_cql()
            ));
        }
        Ok(elements.into_iter().map(|(_, value)| value).collect())
    }

    /// The bytes of a string, or of a number as text.
    fn text(&mut self, ty: &CqlType, value: &Value) -> Converted<Vec<u8>> {
        let text = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Integer(_) | Value::Number(_) => {
                let text = self.lua.coerce_string(value.clone()).map_err(|error| error.to_string())?;
                text.map(|text| text.as_bytes().to_vec()).unwrap_or_default()
            }
            other => match big(other) {
                Some(big) => big.text().into_bytes(),
                None => return unexpected(ty, other),
            },
        };
        self.spend(text.len())?;
        Ok(text)
    }

    fn integer(&mut self, ty: &CqlType, value: &Value) -> Converted<BigInt> {
        let found = match value {
            Value::Integer(value) => Some(BigInt::from(*value)),
            Value::Number(number) => whole(*number),
            Value::String(text) => {
                let text = text.to_string_lossy();
                match text.trim().parse::<BigInt>() {
                    Ok(value) => Some(value),
                    Err(_) => {
                        let number = self.lua.coerce_integer(value.clone());
                        number.map_err(|error| error.to_string())?.map(BigInt::from)
                    }
                }
            }
            other => match big(other) {
                Some(big) => big.to_integer().map_err(|error| error.to_string())?,
                None => return unexpected(ty, other),
            },
        };
        let found =
            found.ok_or_else(|| format!("the value is not an integer, for the type {}", ty.to_cql()))?;
        self.spend(found.bits() as usize / 8)?;
        Ok(found)
    }

    /// The lowest 64 bits of an integer.
    fn wrapped(&mut self, ty: &CqlType, value: &Value) -> Converted<i64> {
        if let Value::Integer(value) = value {
            return Ok(*value);
        }
        let bytes = self.integer(ty, value)?.to_signed_bytes_le();
        let fill = if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 };
        let mut lowest = [fill; 8];
        let count = bytes.len().min(8);
        lowest[..count].copy_from_slice(&bytes[..count]);
        Ok(i64::from_le_bytes(lowest))
    }

    fn float(&mut self, ty: &CqlType, value: &Value) -> Converted<f64> {
        match value {
            Value::Integer(value) => Ok(*value as f64),
            Value::Number(value) => Ok(*value),
            Value::String(_) => {
                let number = self.lua.coerce_number(value.clone()).map_err(|error| error.to_string())?;
                number.ok_or_else(|| format!("the string is not a number, for the type {}", ty.to_cql()))
            }
            other => big(other).map_or_else(|| unexpected(ty, other), |big| Ok(big.to_f64())),
        }
    }

    fn decimal(&mut self, ty: &CqlType, value: &Value) -> Converted<CqlValue> {
        let value = match value {
            Value::Number(number) => parsed(ty, &format!("{number:?}")),
            Value::String(text) => parsed(ty, text.to_string_lossy().trim()),
            Value::Integer(value) => Ok(CqlValue::Decimal { unscaled: BigInt::from(*value), scale: 0 }),
            other => match big(other) {
                Some(big) => Ok(CqlValue::Decimal { unscaled: big.unscaled, scale: big.scale }),
                None => unexpected(ty, other),
            },
        }?;
        self.spend(crate::big::MAX_BYTES as usize / 64)?;
        Ok(value)
    }
}

fn unexpected<T>(ty: &CqlType, value: &Value) -> Converted<T> {
    Err(format!("a {} was returned where a value of type {} is expected", value.type_name(), ty.to_cql()))
}

fn unknown_key(ty: &CqlType, key: &Value) -> String {
    let key = match key {
        Value::String(key) => format!("'{}'", key.to_string_lossy()),
        Value::Integer(key) => key.to_string(),
        Value::Number(key) => key.to_string(),
        other => format!("of type {}", other.type_name()),
    };
    format!("the table for a value of type {} has the key {key}", ty.to_cql())
}

fn big(value: &Value) -> Option<Big> {
    let Value::UserData(data) = value else { return None };
    data.borrow::<Big>().ok().map(|big| big.clone())
}

/// The index of an element, from 0, for a key that counts from 1.
fn position(key: &Value) -> Option<usize> {
    match key {
        Value::Integer(key) => usize::try_from(key.checked_sub(1)?).ok(),
        _ => None,
    }
}

fn whole(number: f64) -> Option<BigInt> {
    if !number.is_finite() || number.fract() != 0.0 {
        return None;
    }
    // `{}` writes all digits of a float.
    format!("{number}").parse().ok()
}

fn exact(value: &BigInt) -> Converted<i64> {
    i64::try_from(value).map_err(|_| "the number is out of range".to_string())
}

/// Parses a literal without quotes.
fn parsed(ty: &CqlType, text: &str) -> Converted<CqlValue> {
    let wrong = |error: TypeError| error.to_string();
    if text.is_empty() {
        return Err(format!("an empty string is no value of type {}", ty.to_cql()));
    }
    let bytes = ty.bytes_of_raw_text(text).map_err(wrong)?;
    CqlValue::decode(ty, &bytes).map_err(wrong)
}

/// A field of a date table, within 32 bits.
fn field(table: &Table, name: &str, default: Option<i64>) -> Converted<i64> {
    let value: Value = table.raw_get(name).map_err(|error| error.to_string())?;
    let number = match &value {
        Value::Nil => default,
        Value::Integer(value) => Some(*value),
        Value::Number(number) => whole(*number).and_then(|whole| i64::try_from(whole).ok()),
        Value::String(text) => text.to_string_lossy().trim().parse().ok(),
        _ => None,
    };
    match number.filter(|number| i32::try_from(*number).is_ok()) {
        Some(number) => Ok(number),
        None => Err(format!("field '{name}' is missing or is not an integer of 32 bits")),
    }
}

/// The days since the epoch of a table with year, month and day. Months and days beyond their range carry
/// over, as in Lua's `os.time`.
fn date(table: &Table) -> Converted<i64> {
    let (year, month, day) =
        (field(table, "year", None)?, field(table, "month", None)? - 1, field(table, "day", None)?);
    Ok(days_to_month(year + month.div_euclid(12), month.rem_euclid(12)) + day - 1)
}

/// The days from the epoch to the first of a month, which counts from 0, in the Gregorian calendar.
fn days_to_month(year: i64, month: i64) -> i64 {
    // Years begin in March here, so that the leap day is their last.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_of_months = (153 * month + 2) / 5;
    365 * year + leap_days + days_of_months - 719_468
}

fn timestamp_ms(table: &Table) -> Converted<i64> {
    let (hour, min, sec) =
        (field(table, "hour", Some(12))?, field(table, "min", Some(0))?, field(table, "sec", Some(0))?);
    let seconds = date(table)? * 86_400 + hour * 3600 + min * 60 + sec;
    Ok(seconds * 1000)
}

fn duration(table: &Table) -> Converted<CqlValue> {
    let of_32 = |name: &str| field(table, name, Some(0)).map(|value| value as i32);
    let (months, days) = (of_32("months")?, of_32("days")?);
    let nanoseconds: Value = table.raw_get("nanoseconds").map_err(|error| error.to_string())?;
    let nanoseconds = match nanoseconds {
        Value::Nil => 0,
        Value::Integer(value) => value,
        Value::Number(number) => whole(number)
            .and_then(|whole| i64::try_from(whole).ok())
            .ok_or("nanoseconds are not an integer")?,
        _ => return Err("nanoseconds are not an integer".to_string()),
    };
    Ok(CqlValue::Duration(Duration { months, days, nanoseconds }))
}
