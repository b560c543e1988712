//! The text of values in CSV files, as cqlsh writes it (`pylib/cqlshlib/formatting.py` of Cassandra 5.0).
//!
//! Differences, where cqlsh's text could not be read back or is a fault of Python's: a null in a tuple is the
//! null marker (cqlsh: `None`, and an error for strings); thousands separators of large integers are exact;
//! the null marker is not escaped; a JSON-like map keeps the server's order of keys.

use model::CqlType;
use model::types::{CollectionIter, MapIter, TupleIter, VectorIter};

use super::options::ValueStyle;
use crate::value::push_float;

/// Appends the text of a value at the top of a field.
pub fn write(out: &mut String, cql_type: &CqlType, value: Option<&[u8]>, style: &ValueStyle) {
    let base = cql_type.without_reversed();
    match value {
        None => out.push_str(&style.null),
        Some([]) if !matches!(base, CqlType::Ascii | CqlType::Text | CqlType::Blob) => {
            out.push_str(&style.null)
        }
        Some(bytes) => {
            let digits = if *base == CqlType::Double { style.double_digits } else { style.float_digits };
            let start = out.len();
            if try_write(out, base, bytes, digits, false, style).is_none() {
                out.truncate(start);
                out.push_str(&CqlType::Blob.text_of(bytes));
            }
        }
    }
}

/// Returns `None` if the bytes are not a value of the type. `out` may then have partial text.
fn try_write(
    out: &mut String,
    cql_type: &CqlType,
    bytes: &[u8],
    digits: i32,
    is_nested: bool,
    style: &ValueStyle,
) -> Option<()> {
    let quote = if is_nested { "'" } else { "" };
    let nested = |out: &mut String, cql_type: &CqlType, value: Option<&[u8]>| match value {
        None => {
            out.push_str(&style.null);
            Some(())
        }
        Some(bytes) => try_write(out, cql_type, bytes, digits, true, style),
    };
    match cql_type {
        CqlType::Reversed(base) => return try_write(out, base, bytes, digits, is_nested, style),
        CqlType::Ascii | CqlType::Text => {
            out.push_str(quote);
            push_text(out, std::str::from_utf8(bytes).ok()?, is_nested, style.text_escapes);
            out.push_str(quote);
        }
        CqlType::Blob => out.push_str(&cql_type.text_of(bytes)),
        _ if bytes.is_empty() => {}
        CqlType::Boolean => out.push_str(&style.booleans[usize::from(bytes == [0])]),
        CqlType::Float => push_number(out, f32::from_be_bytes(bytes.try_into().ok()?).into(), digits, style),
        CqlType::Double => push_number(out, f64::from_be_bytes(bytes.try_into().ok()?), digits, style),
        CqlType::Decimal if style.decimal_separator != "." || !style.thousands_separator.is_empty() => {
            push_number(out, cql_type.text_of(bytes).parse().ok()?, digits, style);
        }
        CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Int
        | CqlType::BigInt
        | CqlType::Counter
        | CqlType::Varint
            if !style.thousands_separator.is_empty() =>
        {
            push_grouped(out, &cql_type.text_of(bytes), &style.thousands_separator);
        }
        CqlType::Timestamp | CqlType::LegacyTimestamp => {
            let start = out.len();
            out.push_str(quote);
            style.times.write(out, i64::from_be_bytes(bytes.try_into().ok()?));
            if out[start..].trim_start_matches(['\'', '-']).bytes().all(|byte| byte.is_ascii_digit())
                && is_nested
            {
                out.remove(start);
                return Some(());
            }
            out.push_str(quote);
        }
        CqlType::Inet => {
            let literal = cql_type.text_of(bytes);
            out.push_str(quote);
            out.push_str(literal.strip_prefix('\'')?.strip_suffix('\'')?);
            out.push_str(quote);
        }
        CqlType::List { element, .. } => {
            push_all(out, "[]", CollectionIter::new(bytes).ok()?, |out, v| nested(out, element, v.ok()?))?;
        }
        CqlType::Set { element, .. } => {
            push_all(out, "{}", CollectionIter::new(bytes).ok()?, |out, v| nested(out, element, v.ok()?))?;
        }
        CqlType::Map { entry, .. } => {
            push_all(out, "{}", MapIter::new(bytes).ok()?, |out, pair| {
                let (key, value) = pair.ok()?;
                nested(out, &entry.0, key)?;
                out.push_str(": ");
                nested(out, &entry.1, value)
            })?;
        }
        CqlType::Tuple(components) => {
            let mut values = TupleIter::new(bytes);
            push_all(out, "()", components.iter(), |out, component| {
                nested(out, component, values.next().transpose().ok()?.flatten())
            })?;
            values.rest().is_empty().then_some(())?;
        }
        CqlType::Udt { user, .. } => {
            let mut values = TupleIter::new(bytes);
            push_all(out, "{}", user.fields.iter(), |out, field| {
                push_text(out, &field.name, false, style.text_escapes);
                out.push_str(": ");
                nested(out, &field.field_type, values.next().transpose().ok()?.flatten())
            })?;
            values.rest().is_empty().then_some(())?;
        }
        CqlType::Vector { element, dimension } => {
            let elements = VectorIter::new(bytes, element, *dimension);
            push_all(out, "[]", elements, |out, v| nested(out, element, Some(v.ok()?)))?;
        }
        CqlType::Empty | CqlType::Composite(_) => return None,
        _ => {
            let literal = cql_type.text_of(bytes);
            if literal.starts_with("0x") {
                return None;
            }
            out.push_str(literal.trim_matches('\''));
        }
    }
    Some(())
}

fn push_all<T>(
    out: &mut String,
    brackets: &str,
    items: impl Iterator<Item = T>,
    mut each: impl FnMut(&mut String, T) -> Option<()>,
) -> Option<()> {
    out.push_str(&brackets[..1]);
    for (i, item) in items.enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        each(out, item)?;
    }
    out.push_str(&brackets[1..]);
    Some(())
}

/// Appends text with its quotes doubled if it is nested, and with backslashes and control characters escaped
/// as Python writes them.
fn push_text(out: &mut String, text: &str, is_nested: bool, is_escaped: bool) {
    for c in text.chars() {
        match c {
            '\'' if is_nested => out.push_str("''"),
            _ if !is_escaped => out.push(c),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f'..='\u{a0}' => *out += &format!("\\x{:02x}", u32::from(c)),
            _ => out.push(c),
        }
    }
}

fn push_number(out: &mut String, value: f64, digits: i32, style: &ValueStyle) {
    if style.thousands_separator.is_empty() || !value.is_finite() {
        let start = out.len();
        push_float(out, value, digits);
        if style.decimal_separator != "." && value.is_finite() {
            let text = out.split_off(start);
            out.push_str(&text.replace('.', &style.decimal_separator));
        }
        return;
    }
    push_grouped(out, &format!("{:.0}", value.trunc()), &style.thousands_separator);
    let fraction = format!("{:.*}", digits as usize, value.fract().abs());
    let fraction = fraction[1..].trim_start_matches('.').trim_end_matches('0');
    if !fraction.is_empty() {
        out.push_str(&style.decimal_separator);
        out.push_str(fraction);
    }
}

/// Appends an integer with a separator between groups of three digits.
fn push_grouped(out: &mut String, integer: &str, separator: &str) {
    let digits = integer.trim_start_matches('-');
    out.push_str(&integer[..integer.len() - digits.len()]);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push_str(separator);
        }
        out.push(digit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{style, type_of};
    use super::*;

    #[track_caller]
    fn check(style: &ValueStyle, cql_type: &str, literal: &str, expect: &str) {
        let cql_type = type_of(cql_type);
        let mut out = String::new();
        write(&mut out, &cql_type, Some(&cql_type.bytes_of(literal).unwrap()), style);
        assert_eq!(out, expect, "{literal}");
    }

    #[test]
    fn values_are_written_as_by_cqlsh() {
        let style = style("");
        check(&style, "text", "'a\\b\nc''d \u{1}\u{85}é'", "a\\\\b\\nc'd \\x01\\x85é");
        check(&style, "list<text>", "['it''s', 'a\\b']", "['it''s', 'a\\\\b']");
        check(&style, "double", "3.14159265358979", "3.14159265359");
        check(&style, "list<double>", "[3.14159265358979]", "[3.14159]");
        check(&style, "decimal", "-1.50", "-1.50");
        check(&style, "boolean", "false", "False");
        check(&style, "timestamp", "1", "1970-01-01 00:00:00.001+0000");
        check(&style, "set<timestamp>", "{1}", "{'1970-01-01 00:00:00.001+0000'}");
        check(&style, "tuple<int, text>", "(null, null)", "(, )");
        check(&style, "address", "{street: 'Elm'}", "{street: 'Elm', zip: }");
        check(&style, "map<int, inet>", "{1: '::1'}", "{1: '::1'}");
        check(&style, "vector<float, 2>", "[1, 2.5]", "[1, 2.5]");
        check(&style, "set<date>", "{'2026-11-24'}", "{2026-11-24}");
        check(&style, "duration", "1mo2d3ns", "1mo2d3ns");
        check(&style, "blob", "0x", "0x");
        check(&style, "int", "''", "");
    }

    #[test]
    fn separators_and_words() {
        let style = style(
            "THOUSANDSSEP='.' AND DECIMALSEP=',' AND BOOLSTYLE='1,0' AND NULL='-' AND FLOATPRECISION=3",
        );
        check(&style, "int", "-1234567", "-1.234.567");
        check(&style, "int", "999", "999");
        check(&style, "float", "1234.5", "1.234,5");
        check(&style, "float", "0.25", "0,25");
        check(&style, "decimal", "12345.6789", "12.345,679");
        check(&style, "boolean", "true", "1");
        check(&style, "int", "''", "-");
        check(&style, "address", "{zip: 1}", "{street: -, zip: 1}");
    }

    #[test]
    fn exact_text_has_no_escapes() {
        check(&style("TEXTESCAPES=false"), "text", "'a\\b\n'", "a\\b\n");
    }
}
