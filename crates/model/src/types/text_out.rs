//! Conversion of values to CQL literals.
//!
//! Strings, timestamps, dates, times and addresses are quoted; nested values are in `[]`, `{}` or `()`.
//! Parsing the text (`text_in.rs`) gives the same value, except that a NaN loses its payload. An empty value
//! of a type other than a string or blob is `''`. Bytes that are not a value of the type, and numbers of tens
//! of thousands of digits, are `0x…`.

use super::collection::{CollectionIter, MapIter, TupleIter, VectorIter};
use super::cql_name::push_identifier;
use super::scalar_text::{self, Dialect};
use super::{CqlType, TypeError};

impl CqlType {
    /// The CQL literal of serialized bytes.
    pub fn text_of(&self, bytes: &[u8]) -> String {
        let mut out = String::new();
        self.write_text(bytes, &mut out);
        out
    }

    fn write_text(&self, bytes: &[u8], out: &mut String) {
        let start = out.len();
        if self.try_write_text(bytes, out).is_none() {
            out.truncate(start);
            scalar_text::write_blob(out, bytes);
        }
    }

    /// `None` if the bytes are not a value of the type; `out` may then contain partial text.
    fn try_write_text(&self, bytes: &[u8], out: &mut String) -> Option<()> {
        match self {
            Self::Reversed(base) => return base.try_write_text(bytes, out),
            Self::Blob => scalar_text::write_blob(out, bytes),
            Self::Ascii | Self::Text => {
                self.validate(bytes).ok()?;
                push_quoted(out, std::str::from_utf8(bytes).ok()?);
            }
            _ if bytes.is_empty() => out.push_str("''"),
            Self::Inet | Self::Date | Self::Time | Self::Timestamp | Self::LegacyTimestamp => {
                let mut text = String::new();
                scalar_text::write(self, bytes, Dialect::Cql, &mut text)?;
                // A timestamp outside the range of the text form is a number, without quotes.
                if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
                    out.push_str(&text);
                } else {
                    push_quoted(out, &text);
                }
            }
            Self::List { element, .. } => {
                out.push('[');
                write_elements(out, CollectionIter::new(bytes).ok()?, |value, out| {
                    element.write_text(value, out)
                })?;
                out.push(']');
            }
            Self::Set { element, .. } => {
                out.push('{');
                write_elements(out, CollectionIter::new(bytes).ok()?, |value, out| {
                    element.write_text(value, out)
                })?;
                out.push('}');
            }
            Self::Map { entry, .. } => {
                out.push('{');
                for (i, pair) in MapIter::new(bytes).ok()?.enumerate() {
                    let (key, value) = pair.ok()?;
                    out.push_str(if i > 0 { ", " } else { "" });
                    entry.0.write_text(key?, out);
                    out.push_str(": ");
                    entry.1.write_text(value?, out);
                }
                out.push('}');
            }
            Self::Tuple(components) => {
                out.push('(');
                write_fields(out, bytes, components.len(), |i, out| match i {
                    FieldPart::Name(_) => {}
                    FieldPart::Value(i, value) => components[i].write_text(value, out),
                })?;
                out.push(')');
            }
            Self::Udt { user, .. } => {
                out.push('{');
                write_fields(out, bytes, user.fields.len(), |part, out| match part {
                    FieldPart::Name(i) => {
                        push_identifier(out, &user.fields[i].name);
                        out.push_str(": ");
                    }
                    FieldPart::Value(i, value) => user.fields[i].field_type.write_text(value, out),
                })?;
                out.push('}');
            }
            Self::Vector { element, dimension } => {
                out.push('[');
                let elements = VectorIter::new(bytes, element, *dimension).map(|element| element.map(Some));
                write_elements(out, elements, |value, out| element.write_text(value, out))?;
                out.push(']');
            }
            Self::Empty | Self::Composite(_) => return None,
            scalar => return scalar_text::write(scalar, bytes, Dialect::Cql, out),
        }
        Some(())
    }
}

fn write_elements<'a>(
    out: &mut String,
    elements: impl Iterator<Item = Result<Option<&'a [u8]>, TypeError>>,
    write: impl Fn(&[u8], &mut String),
) -> Option<()> {
    for (i, element) in elements.enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        write(element.ok()??, out);
    }
    Some(())
}

enum FieldPart<'a> {
    Name(usize),
    Value(usize, &'a [u8]),
}

/// Writes the fields that are present; a value that is older than a field ends before it.
fn write_fields(
    out: &mut String,
    bytes: &[u8],
    len: usize,
    write: impl Fn(FieldPart<'_>, &mut String),
) -> Option<()> {
    for (i, field) in TupleIter::new(bytes).enumerate() {
        if i >= len {
            return None;
        }
        out.push_str(if i > 0 { ", " } else { "" });
        write(FieldPart::Name(i), out);
        match field.ok()? {
            Some(value) => write(FieldPart::Value(i, value), out),
            None => out.push_str("null"),
        }
    }
    Some(())
}

/// Writes a string like `'it''s'`.
fn push_quoted(out: &mut String, text: &str) {
    out.push('\'');
    for (i, part) in text.split('\'').enumerate() {
        out.push_str(if i > 0 { "''" } else { "" });
        out.push_str(part);
    }
    out.push('\'');
}
