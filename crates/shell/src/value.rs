//! Formats a value for users, as cqlsh prints it.
//!
//! A string is printed without quotes, but quoted inside a collection. Backslashes are doubled and control
//! characters escaped, so that a row fits on a line. Floats have 5 digits, doubles 12. Timestamps have
//! microseconds and a zone. Bytes that are not a valid value of their type are printed as `0x…`. Source:
//! `pylib/cqlshlib/formatting.py` of Cassandra 4.1 and 5.0.

use model::CqlType;
use model::types::{CollectionIter, MapIter, TupleIter, VectorIter};

use super::style::Style;
use super::table::Cell;

const FLOAT_DIGITS: i32 = 5;
const DOUBLE_DIGITS: i32 = 12;

/// The cell for a value; `None` is null.
pub fn show(cql_type: &CqlType, value: Option<&[u8]>) -> Cell {
    let Some(bytes) = value else { return Cell::new("null", Style::Null) };
    let mut text = String::new();
    if try_write(&mut text, cql_type, bytes, false).is_none() {
        return Cell::new(CqlType::Blob.text_of(bytes), Style::Blob);
    }
    Cell::new(text, style_of(cql_type))
}

fn style_of(cql_type: &CqlType) -> Style {
    match cql_type.without_reversed() {
        CqlType::Ascii | CqlType::Text => Style::Text,
        CqlType::Blob => Style::Blob,
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. }
        | CqlType::Vector { .. } => Style::Collection,
        _ => Style::Scalar,
    }
}

fn write_nested(out: &mut String, cql_type: &CqlType, value: Option<&[u8]>) {
    let start = out.len();
    match value {
        None => out.push_str("null"),
        Some(bytes) => {
            if try_write(out, cql_type, bytes, true).is_none() {
                out.truncate(start);
                out.push_str(&CqlType::Blob.text_of(bytes));
            }
        }
    }
}

/// Returns `None` if the bytes are not a valid value of the type. The contents of `out` are then unspecified.
fn try_write(out: &mut String, cql_type: &CqlType, bytes: &[u8], nested: bool) -> Option<()> {
    match cql_type {
        CqlType::Reversed(base) => return try_write(out, base, bytes, nested),
        CqlType::Ascii | CqlType::Text => push_string(out, std::str::from_utf8(bytes).ok()?, nested),
        CqlType::Blob => out.push_str(&cql_type.text_of(bytes)),
        _ if bytes.is_empty() => out.push_str(if nested { "''" } else { "" }),
        CqlType::Boolean => out.push_str(match bytes {
            [0] => "False",
            [_] => "True",
            _ => return None,
        }),
        CqlType::Float => {
            push_float(out, f32::from_be_bytes(bytes.try_into().ok()?).into(), FLOAT_DIGITS);
        }
        CqlType::Double => push_float(out, f64::from_be_bytes(bytes.try_into().ok()?), DOUBLE_DIGITS),
        CqlType::Timestamp | CqlType::LegacyTimestamp => push_timestamp(out, cql_type, bytes, nested)?,
        CqlType::Inet => push_literal(out, cql_type, bytes, nested)?,
        CqlType::List { element, .. } => {
            push_list(out, ("[", "]"), CollectionIter::new(bytes).ok()?, |out, value| {
                write_nested(out, element, value.ok()?);
                Some(())
            })?;
        }
        CqlType::Set { element, .. } => {
            push_list(out, ("{", "}"), CollectionIter::new(bytes).ok()?, |out, value| {
                write_nested(out, element, value.ok()?);
                Some(())
            })?;
        }
        CqlType::Map { entry, .. } => {
            push_list(out, ("{", "}"), MapIter::new(bytes).ok()?, |out, pair| {
                let (key, value) = pair.ok()?;
                write_nested(out, &entry.0, key);
                out.push_str(": ");
                write_nested(out, &entry.1, value);
                Some(())
            })?;
        }
        CqlType::Tuple(components) => {
            let fields = fields(bytes, components.len())?;
            push_list(out, ("(", ")"), components.iter().zip(fields), |out, (component, value)| {
                write_nested(out, component, value);
                Some(())
            })?;
        }
        CqlType::Udt { user, .. } => {
            let values = fields(bytes, user.fields.len())?;
            push_list(out, ("{", "}"), user.fields.iter().zip(values), |out, (field, value)| {
                out.push_str(&field.name);
                out.push_str(": ");
                write_nested(out, &field.field_type, value);
                Some(())
            })?;
        }
        CqlType::Vector { element, dimension } => {
            push_list(out, ("[", "]"), VectorIter::new(bytes, element, *dimension), |out, value| {
                write_nested(out, element, Some(value.ok()?));
                Some(())
            })?;
        }
        CqlType::Empty | CqlType::Composite(_) => return None,
        _ => push_literal(out, cql_type, bytes, false)?,
    }
    Some(())
}

/// The fields of a tuple or UDT, `count` of them: fields missing at the end of the value are null.
fn fields(bytes: &[u8], count: usize) -> Option<Vec<Option<&[u8]>>> {
    let mut fields = TupleIter::new(bytes).collect::<Result<Vec<_>, _>>().ok()?;
    if fields.len() > count {
        return None;
    }
    fields.resize(count, None);
    Some(fields)
}

fn push_list<T>(
    out: &mut String,
    (open, close): (&str, &str),
    items: impl Iterator<Item = T>,
    mut each: impl FnMut(&mut String, T) -> Option<()>,
) -> Option<()> {
    out.push_str(open);
    for (i, item) in items.enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        each(out, item)?;
    }
    out.push_str(close);
    Some(())
}

/// Appends the CQL literal, with or without its quotes. Returns `None` for bytes that have no literal.
fn push_literal(out: &mut String, cql_type: &CqlType, bytes: &[u8], quoted: bool) -> Option<()> {
    let literal = cql_type.text_of(bytes);
    if literal.starts_with("0x") {
        return None;
    }
    out.push_str(if quoted { &literal } else { literal.trim_matches('\'') });
    Some(())
}

/// Appends `2026-11-21 22:00:00.000000+0000`, or milliseconds if the year does not have four digits.
fn push_timestamp(out: &mut String, cql_type: &CqlType, bytes: &[u8], nested: bool) -> Option<()> {
    let mut literal = String::new();
    push_literal(&mut literal, cql_type, bytes, false)?;
    let Some((date, time)) = literal.split_once('T') else {
        out.push_str(&literal);
        return Some(());
    };
    let quote = if nested { "'" } else { "" };
    let time = time.strip_suffix('Z').unwrap_or(time);
    *out += &format!("{quote}{date} {time}000+0000{quote}");
    Some(())
}

fn push_string(out: &mut String, text: &str, nested: bool) {
    let quote = if nested { "'" } else { "" };
    out.push_str(quote);
    escape(out, text, nested);
    out.push_str(quote);
}

/// Appends the text with backslashes doubled and control characters escaped. If `quoted`, each `'` is
/// doubled.
pub fn escape(out: &mut String, text: &str, quoted: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' if quoted => out.push_str("''"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f'..='\u{a0}' => *out += &format!("\\u{:04x}", u32::from(c)),
            _ => out.push(c),
        }
    }
}

pub fn push_float(out: &mut String, value: f64, digits: i32) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    } else {
        let magnitude = value.abs();
        let exponent = if magnitude > f64::EPSILON { magnitude.log10() as i32 } else { i32::MIN };
        let plain = (-4..digits).contains(&exponent);
        push_general(out, value, if plain { digits + exponent + 1 } else { digits });
    }
}

/// Formats like C's `%.{digits}g`.
fn push_general(out: &mut String, value: f64, digits: i32) {
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("Rust prints an exponent");
    let exponent: i32 = exponent.parse().expect("Rust prints a small exponent");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if (-4..digits).contains(&exponent) {
        *out += &trim(&format!("{value:.*}", (digits - 1 - exponent) as usize));
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        *out += &format!("{}e{sign}{:02}", trim(mantissa), exponent.unsigned_abs());
    }
}

#[cfg(test)]
mod tests {
    use model::types::{UdtField, UserType};

    use super::*;

    /// Checks the text shown for the value of `literal`, a CQL literal of the type.
    #[track_caller]
    fn check(cql_type: &str, literal: &str, expect: &str) {
        let address = UserType {
            keyspace: "ks".to_string(),
            name: "address".to_string(),
            fields: vec![
                UdtField { name: "street".to_string(), field_type: CqlType::Text },
                UdtField { name: "Zip".to_string(), field_type: CqlType::Int },
            ],
        };
        let udt = CqlType::udt(address);
        let udts = |name: &str| (name == "address").then(|| udt.clone());
        let cql_type = CqlType::from_cql(cql_type, &udts).unwrap();
        let bytes = cql_type.bytes_of(literal).unwrap();
        assert_eq!(show(&cql_type, Some(&bytes)).text, expect, "{literal}");
    }

    #[test]
    fn strings_are_bare_and_stay_on_their_line() {
        check("text", "'plain'", "plain");
        check("text", "''", "");
        check("text", "'it''s'", "it's");
        check("text", "'tab\tnew\nline \\ \u{1} \u{7f}'", "tab\\tnew\\nline \\\\ \\u0001 \\u007f");
        check("text", "'Grüße 日本 🦀'", "Grüße 日本 🦀");
        check("ascii", "'a'", "a");
    }

    #[test]
    fn numbers() {
        check("int", "-42", "-42");
        check("bigint", "9223372036854775807", "9223372036854775807");
        check("smallint", "7", "7");
        check("tinyint", "-128", "-128");
        check("counter", "3", "3");
        check("varint", "123456789012345678901234567890", "123456789012345678901234567890");
        check("decimal", "1.50", "1.50");
        check("decimal", "1E+30", "1E+30");
    }

    /// The expected texts were computed by cqlsh's formula in Python.
    #[test]
    fn floats_have_five_digits_and_doubles_twelve() {
        check("float", "0", "0");
        check("float", "1.1", "1.1");
        check("float", "3.14159265", "3.14159");
        check("float", "12345.678", "12345.67773");
        check("float", "123456.789", "1.2346e+05");
        check("float", "0.01", "0.01");
        check("float", "0.00001234", "1.2e-05");
        check("float", "NaN", "NaN");
        check("float", "-Infinity", "-Infinity");
        check("double", "3.141592653589793", "3.14159265359");
        check("double", "1e100", "1e+100");
        check("double", "-2.5", "-2.5");
        check("double", "123456789.125", "123456789.125");
        check("double", "1e-20", "1e-20");
    }

    #[test]
    fn times() {
        check("timestamp", "'2026-11-21 22:00:00+0000'", "2026-11-21 22:00:00.000000+0000");
        check("timestamp", "1", "1970-01-01 00:00:00.001000+0000");
        check("timestamp", "9223372036854775807", "9223372036854775807");
        check("date", "'2026-11-21'", "2026-11-21");
        check("time", "'22:00:01.5'", "22:00:01.500000000");
        check("duration", "1y2mo3d4h5m6s7ms8us9ns", "1y2mo3d4h5m6s7ms8us9ns");
        check("list<timestamp>", "[0]", "['1970-01-01 00:00:00.000000+0000']");
        check("list<date>", "['2026-11-21']", "[2026-11-21]");
    }

    #[test]
    fn other_scalars() {
        check("boolean", "true", "True");
        check("boolean", "false", "False");
        check("blob", "0xCAFE", "0xcafe");
        check("blob", "0x", "0x");
        check("uuid", "62c36092-82a1-3a00-93d1-46196ee77204", "62c36092-82a1-3a00-93d1-46196ee77204");
        check("timeuuid", "62c36092-82a1-1a00-93d1-46196ee77204", "62c36092-82a1-1a00-93d1-46196ee77204");
        check("inet", "'127.0.0.1'", "127.0.0.1");
        check("inet", "'::1'", "::1");
        check("set<inet>", "{'::1'}", "{'::1'}");
        check("int", "''", "");
    }

    #[test]
    fn strings_in_collections_are_quoted() {
        check("list<text>", "['a', 'it''s']", "['a', 'it''s']");
        check("set<int>", "{3, 1, 2}", "{1, 2, 3}");
        check("map<text, frozen<list<int>>>", "{'a': [1, 2], 'b': []}", "{'a': [1, 2], 'b': []}");
        check("tuple<int, text, blob>", "(1, null, 0x00)", "(1, null, 0x00)");
        check("frozen<address>", "{street: 'Elm', \"Zip\": 7}", "{street: 'Elm', Zip: 7}");
        check("vector<float, 3>", "[1, 2.5, -3]", "[1, 2.5, -3]");
        check("set<boolean>", "{true}", "{True}");
    }

    #[test]
    fn fields_that_were_added_later_are_null() {
        let pair = CqlType::tuple([CqlType::Int, CqlType::Text]);
        let short = model::types::build_tuple([Some(&[0, 0, 0, 1][..])]);
        assert_eq!(show(&pair, Some(&short)).text, "(1, null)");
    }

    #[test]
    fn null_and_what_is_no_value() {
        assert_eq!(show(&CqlType::Int, None), Cell::new("null", Style::Null));
        assert_eq!(show(&CqlType::Int, Some(&[1])), Cell::new("0x01", Style::Blob));
        assert_eq!(show(&CqlType::Text, Some(&[0xff])), Cell::new("0xff", Style::Blob));
        let list = CqlType::list(CqlType::Int);
        let odd = [0, 0, 0, 1, 0, 0, 0, 1, 9];
        assert_eq!(show(&list, Some(&odd)).text, "[0x09]");
        assert_eq!(show(&list, Some(&odd[..7])).text, "0x00000001000000");
    }
}
