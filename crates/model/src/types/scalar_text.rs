//! Unquoted text of scalar values, and its parser. Quotes, brackets and JSON are added by the callers.
//!
//! There are two dialects, which differ in few types: [`Dialect::Cql`] is for people and can be parsed back
//! exactly; [`Dialect::Java`] is the text of Cassandra's `toString`, which its tools print.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;

use super::civil::{self, Separator};
use super::duration::Duration;
use super::error::excerpt;
use super::error::type_err;
use super::java_name::{parse_hex, push_hex};
use super::{CqlType, TypeError, decimal, float_text};

/// The conversion of a varint or decimal takes time quadratic in its length; longer ones are printed as
/// hexadecimal digits.
const MAX_NUMBER_BYTES: usize = 64 * 1024;
/// The number of decimal digits of [`MAX_NUMBER_BYTES`] bytes.
const MAX_NUMBER_DIGITS: usize = 157_826;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `::1`; `0s`; timestamps outside the years 1 to 9999 as milliseconds.
    Cql,
    /// `0:0:0:0:0:0:0:1`; an empty text for a duration of zero; the year of the era; `now` for no type.
    Java(Separator),
}

/// Appends the text of a value of a scalar type. `None` (and nothing appended) if the bytes are empty, not a
/// value of the type, or without a text. Strings are handled by the callers, which quote them.
pub(crate) fn write(cql_type: &CqlType, bytes: &[u8], dialect: Dialect, out: &mut String) -> Option<()> {
    let to_string = |out: &mut String, value: &dyn std::fmt::Display| {
        use std::fmt::Write;
        let _infallible = write!(out, "{value}");
    };
    match cql_type {
        CqlType::TinyInt => to_string(out, &i8::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::SmallInt => to_string(out, &i16::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Int => to_string(out, &i32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::BigInt => to_string(out, &i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Counter => to_string(out, &counter(bytes)?),
        CqlType::Varint => {
            if bytes.is_empty() || bytes.len() > MAX_NUMBER_BYTES {
                return None;
            }
            match super::varint::to_i128(bytes) {
                Some(small) => to_string(out, &small),
                None => to_string(out, &BigInt::from_signed_bytes_be(bytes)),
            }
        }
        CqlType::Decimal => return write_decimal(out, bytes),
        CqlType::Boolean => match bytes {
            [byte] => out.push_str(if *byte == 0 { "false" } else { "true" }),
            _ => return None,
        },
        CqlType::Float => float_text::write_f32(out, f32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Double => float_text::write_f64(out, f64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Date => civil::write_date(out, u32::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Time => return civil::write_time(out, i64::from_be_bytes(bytes.try_into().ok()?)),
        CqlType::Timestamp | CqlType::LegacyTimestamp => {
            let timestamp_ms = i64::from_be_bytes(bytes.try_into().ok()?);
            match dialect {
                Dialect::Java(separator) => civil::write_timestamp(out, timestamp_ms, separator),
                Dialect::Cql if civil::timestamp_has_text(timestamp_ms) => {
                    civil::write_timestamp(out, timestamp_ms, Separator::T);
                }
                Dialect::Cql => to_string(out, &timestamp_ms),
            }
        }
        CqlType::Duration => {
            let duration = Duration::from_bytes(bytes)?;
            if duration == Duration::default() && dialect == Dialect::Cql {
                out.push_str("0s");
            }
            duration.write(out);
        }
        CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid => {
            to_string(out, &uuid::Uuid::from_bytes(bytes.try_into().ok()?).hyphenated());
        }
        CqlType::Inet => {
            let v6 = match bytes.len() {
                4 => return write_displayed(out, &Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
                _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?),
            };
            match (dialect, v6.to_ipv4_mapped()) {
                (Dialect::Cql, _) => to_string(out, &v6),
                (Dialect::Java(_), Some(v4)) => to_string(out, &v4),
                (Dialect::Java(_), None) => {
                    let groups: Vec<_> = v6.segments().iter().map(|group| format!("{group:x}")).collect();
                    out.push_str(&groups.join(":"));
                }
            }
        }
        _ => return None,
    }
    Some(())
}

fn write_displayed(out: &mut String, value: &dyn std::fmt::Display) -> Option<()> {
    use std::fmt::Write;
    write!(out, "{value}").ok()
}

/// The value of a counter: the 8 bytes of the protocol, or the sum over the shards of a cell's context (i16
/// n, n × i16 index, then per shard a 16-byte id, i64 clock and i64 count).
fn counter(bytes: &[u8]) -> Option<i64> {
    if let Ok(plain) = <[u8; 8]>::try_from(bytes) {
        return Some(i64::from_be_bytes(plain));
    }
    let (indices, rest) = bytes.split_first_chunk::<2>()?;
    let indices = usize::try_from(i16::from_be_bytes(*indices)).ok()?;
    let shards = rest.get(indices * 2..)?;
    if !shards.len().is_multiple_of(32) {
        return None;
    }
    let count = |shard: &[u8]| i64::from_be_bytes(shard[24..].try_into().expect("8 of 32 bytes"));
    Some(shards.chunks_exact(32).map(count).fold(0, i64::wrapping_add))
}

/// Java's `BigDecimal.toString`: plain if the scale is not negative and at most six zeros lead, otherwise
/// with an exponent. The text is at most a few characters longer than the digits, for any scale.
fn write_decimal(out: &mut String, bytes: &[u8]) -> Option<()> {
    if bytes.len() > MAX_NUMBER_BYTES {
        return None;
    }
    let (scale, unscaled) = decimal::split(bytes)?;
    let unscaled = BigInt::from_signed_bytes_be(unscaled).to_string();
    let digits = unscaled.strip_prefix('-').unwrap_or(&unscaled);
    out.push_str(&unscaled[..unscaled.len() - digits.len()]);
    let adjusted = digits.len() as i64 - 1 - i64::from(scale);
    if scale == 0 {
        out.push_str(digits);
    } else if scale > 0 && adjusted >= -6 {
        let scale = scale as usize;
        if digits.len() > scale {
            let (integer, fraction) = digits.split_at(digits.len() - scale);
            out.push_str(integer);
            out.push('.');
            out.push_str(fraction);
        } else {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', scale - digits.len()));
            out.push_str(digits);
        }
    } else {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        if adjusted != 0 {
            out.push_str(if adjusted > 0 { "E+" } else { "E" });
            out.push_str(&adjusted.to_string());
        }
    }
    Some(())
}

/// Parses unquoted text. An empty text is the empty value if the type has one.
///
/// # Errors
/// The text is not a value of the type. Messages contain the CQL name of the type.
pub(crate) fn parse(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    if text.is_empty() && cql_type.validate(&[]).is_ok() {
        return Ok(vec![]);
    }
    let parsed = match cql_type {
        CqlType::Ascii | CqlType::Text => {
            cql_type.validate(text.as_bytes())?;
            return Ok(text.as_bytes().to_vec());
        }
        CqlType::Blob => text.strip_prefix("0x").or(text.strip_prefix("0X")).and_then(parse_hex),
        CqlType::TinyInt => text.parse().ok().map(|value: i8| value.to_be_bytes().to_vec()),
        CqlType::SmallInt => text.parse().ok().map(|value: i16| value.to_be_bytes().to_vec()),
        CqlType::Int => text.parse().ok().map(|value: i32| value.to_be_bytes().to_vec()),
        CqlType::BigInt | CqlType::Counter => {
            text.parse().ok().map(|value: i64| value.to_be_bytes().to_vec())
        }
        CqlType::Varint => parse_integer(text).map(|value| value.to_signed_bytes_be()),
        CqlType::Decimal => parse_decimal(text),
        CqlType::Boolean if text.eq_ignore_ascii_case("true") => Some(vec![1]),
        CqlType::Boolean if text.eq_ignore_ascii_case("false") => Some(vec![0]),
        CqlType::Float => match float_text::parse_non_finite(text) {
            Some(value) => Some((value as f32).to_be_bytes().to_vec()),
            None if float_text::is_number(text) => {
                text.parse().ok().map(|value: f32| value.to_be_bytes().to_vec())
            }
            None => None,
        },
        CqlType::Double => match float_text::parse_non_finite(text) {
            Some(value) => Some(value.to_be_bytes().to_vec()),
            None if float_text::is_number(text) => {
                text.parse().ok().map(|value: f64| value.to_be_bytes().to_vec())
            }
            None => None,
        },
        CqlType::Date => civil::parse_date(text).map(|date| date.to_be_bytes().to_vec()),
        CqlType::Time => civil::parse_time(text).map(|time_ns| time_ns.to_be_bytes().to_vec()),
        CqlType::Timestamp | CqlType::LegacyTimestamp => {
            civil::parse_timestamp(text).map(|timestamp_ms| timestamp_ms.to_be_bytes().to_vec())
        }
        CqlType::Duration => Duration::parse(text).ok().map(Duration::to_bytes),
        CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid => {
            let parsed = if text.len() == 36 { uuid::Uuid::try_parse(text).ok() } else { None };
            let bytes = parsed.map(|parsed| parsed.as_bytes().to_vec());
            if let Some(bytes) = &bytes
                && cql_type.validate(bytes).is_err()
            {
                return type_err!("TimeUUID supports only version 1 UUIDs");
            }
            bytes
        }
        CqlType::Inet => parse_inet(text).map(|address| match address.to_canonical() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        }),
        _ => None,
    };
    match parsed {
        Some(bytes) => Ok(bytes),
        None => Err(unreadable(cql_type, text)),
    }
}

/// The error with the text of Cassandra's `AbstractType.fromString`, which clients know.
fn unreadable(cql_type: &CqlType, text: &str) -> TypeError {
    let text = excerpt(text);
    let made = match cql_type {
        CqlType::Timestamp | CqlType::LegacyTimestamp if is_integer(&text) => {
            return TypeError::new(format!("Unable to make long (for date) from: '{text}'"));
        }
        CqlType::Timestamp | CqlType::LegacyTimestamp => {
            return TypeError::new(format!("Unable to parse a date/time from '{text}'"));
        }
        CqlType::Date if is_integer(&text) => {
            return TypeError::new(format!("Unable to make unsigned int (for date) from: '{text}'"));
        }
        CqlType::Date => {
            return TypeError::new(format!("Unable to coerce '{text}' to a formatted date (long)"));
        }
        CqlType::Time if is_integer(&text) => {
            return TypeError::new(format!("Unable to make long (for time) from: '{text}'"));
        }
        CqlType::Time => {
            return TypeError::new(format!(
                "(TimeType) Unable to coerce '{text}' to a formatted time (long)"
            ));
        }
        CqlType::Duration => {
            let why = Duration::parse(&text).err().flatten();
            // As in Cassandra, without the sign.
            let unsigned = text.strip_prefix('-').unwrap_or(&text);
            return TypeError::new(
                why.unwrap_or_else(|| format!("Unable to convert '{unsigned}' to a duration")),
            );
        }
        CqlType::Decimal => return TypeError::new(format!("unable to make BigDecimal from '{text}'")),
        CqlType::Blob => {
            let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(&text);
            return TypeError::new(format!("cannot parse '{digits}' as hex bytes"));
        }
        CqlType::BigInt | CqlType::Counter => "long".to_string(),
        CqlType::SmallInt => "short".to_string(),
        CqlType::TinyInt => "byte".to_string(),
        CqlType::Inet => "inet address".to_string(),
        CqlType::Uuid | CqlType::TimeUuid | CqlType::LexicalUuid => "UUID".to_string(),
        other => other.to_cql(),
    };
    TypeError::new(format!("Unable to make {made} from '{text}'"))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses an address as Java's `InetAddress` does. An IPv6 address may be in brackets and have a scope, which
/// is dropped. An IPv4 address has one to four decimal numbers, of which the last fills the remaining bytes.
/// `localhost` is the only name that is accepted, since it needs no lookup.
fn parse_inet(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    if text.contains(':') {
        let text = text.strip_prefix('[').map_or(Some(text), |inside| inside.strip_suffix(']'))?;
        let (address, scope) = text.split_once('%').unwrap_or((text, "0"));
        return is_integer(scope).then(|| address.parse::<Ipv6Addr>().ok()).flatten().map(IpAddr::from);
    }
    let numbers = text.split('.').map(|number| {
        let is_number = (1..=10).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| number.parse::<u64>().ok()).flatten()
    });
    let numbers = numbers.collect::<Option<Vec<_>>>()?;
    let (last, first) = numbers.split_last()?;
    let last_bits = 32 - 8 * u32::try_from(first.len()).ok().filter(|count| *count < 4)?;
    if first.iter().any(|number| *number > 0xFF) || last >> last_bits != 0 {
        return None;
    }
    let upper = first.iter().zip([24, 16, 8]).map(|(number, shift)| number << shift).sum::<u64>();
    Some(Ipv4Addr::from(u32::try_from(upper | last).ok()?).into())
}

/// Parses an optional sign and at most [`MAX_NUMBER_DIGITS`] digits.
fn parse_integer(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fits =
        (1..=MAX_NUMBER_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// Parses a number like `-12.50E+3`. The digits without the point are the unscaled value; the scale is the
/// number of digits after the point minus the exponent.
fn parse_decimal(text: &str) -> Option<Vec<u8>> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let unscaled = parse_integer(&format!("{integer}{fraction}"))?;
    let scale = i32::try_from((fraction.len() as i64).checked_sub(exponent)?).ok()?;
    // A sign is allowed only at the start: "1.-5" is not a number.
    (!fraction.starts_with(['+', '-'])).then(|| decimal::join(scale, &unscaled))
}

/// Appends `0x…`, the text of bytes without another text form.
pub(crate) fn write_blob(out: &mut String, bytes: &[u8]) {
    out.push_str("0x");
    push_hex(out, bytes);
}
