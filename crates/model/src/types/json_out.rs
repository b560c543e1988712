//! Conversion of values to JSON, for `sstabledump` and `SELECT JSON`. The text is exactly that of Cassandra's
//! `AbstractType.toJSONString`.
//!
//! Cassandra throws an exception for invalid bytes, an empty boolean, and a tuple shorter than its type. This
//! code writes `"0x…"`, `""` and `null` instead. Source: Cassandra 4.1 `db/marshal/*Type.java`, vectors 5.0;
//! Jackson's string escapes.

use super::civil::Separator;
use super::collection::{CollectionIter, MapIter, TupleIter, VectorIter};
use super::scalar_text::{self, Dialect};
use super::{CqlType, TypeError};

/// A map as a key of a map doubles the backslashes inside it at each level. A key whose JSON is longer than
/// approximately this multiple of its bytes is written as `"0x…"`.
const MAX_KEY_GROWTH: usize = 64;

impl CqlType {
    /// The JSON text of serialized bytes.
    pub fn json_of(&self, bytes: &[u8]) -> String {
        let mut out = String::new();
        self.write_json(bytes, &mut out);
        out
    }

    /// As [`CqlType::json_of`], appended to `out`.
    pub fn write_json(&self, bytes: &[u8], out: &mut String) {
        let start = out.len();
        if self.try_write_json(bytes, out).is_none() {
            out.truncate(start);
            push_blob_string(out, bytes);
        }
    }

    /// `None` if the bytes are not a value of the type; `out` may then contain partial text.
    fn try_write_json(&self, bytes: &[u8], out: &mut String) -> Option<()> {
        match self {
            Self::Reversed(base) => return base.try_write_json(bytes, out),
            Self::Blob => return None,
            Self::Ascii | Self::Text => {
                self.validate(bytes).ok()?;
                push_json_string(out, std::str::from_utf8(bytes).ok()?);
            }
            Self::List { element, .. } | Self::Set { element, .. } => {
                write_array(out, CollectionIter::new(bytes).ok()?, element)?;
            }
            Self::Vector { element, dimension } => {
                let elements = VectorIter::new(bytes, element, *dimension);
                write_array(out, elements.map(|element| element.map(Some)), element)?;
            }
            Self::Map { entry, .. } => {
                out.push('{');
                for (i, pair) in MapIter::new(bytes).ok()?.enumerate() {
                    let (key, value) = pair.ok()?;
                    out.push_str(if i > 0 { ", " } else { "" });
                    // A key must be a string, so other JSON is written into a string.
                    let key_bytes = key?;
                    let key = entry.0.json_of(key_bytes);
                    if key.len() > MAX_KEY_GROWTH * (key_bytes.len() + MAX_KEY_GROWTH) {
                        push_blob_string(out, key_bytes);
                    } else if key.starts_with('"') {
                        out.push_str(&key);
                    } else {
                        push_json_string(out, &key);
                    }
                    out.push_str(": ");
                    entry.1.write_json(value?, out);
                }
                out.push('}');
            }
            Self::Tuple(components) => {
                out.push('[');
                let mut fields = TupleIter::new(bytes);
                for (i, component) in components.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    write_field(out, &mut fields, component)?;
                }
                out.push(']');
                fields.rest().is_empty().then_some(())?;
            }
            Self::Udt { user, .. } => {
                out.push('{');
                let mut fields = TupleIter::new(bytes);
                for (i, field) in user.fields.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    // A name that CQL would convert to lower case keeps its double quotes inside the JSON
                    // string.
                    if field.name != field.name.to_lowercase() {
                        push_json_string(out, &format!("\"{}\"", field.name));
                    } else {
                        push_json_string(out, &field.name);
                    }
                    out.push_str(": ");
                    write_field(out, &mut fields, &field.field_type)?;
                }
                out.push('}');
                fields.rest().is_empty().then_some(())?;
            }
            Self::Composite(_) => push_json_string(out, &self.raw_text_of(bytes)),
            Self::Empty if !bytes.is_empty() => return None,
            _ if bytes.is_empty() => out.push_str("\"\""),
            Self::Float if is_non_finite(f32::from_be_bytes(bytes.try_into().ok()?).into()) => {
                out.push_str("null")
            }
            Self::Double if is_non_finite(f64::from_be_bytes(bytes.try_into().ok()?)) => out.push_str("null"),
            Self::TinyInt
            | Self::SmallInt
            | Self::Int
            | Self::BigInt
            | Self::Counter
            | Self::Varint
            | Self::Decimal
            | Self::Boolean
            | Self::Float
            | Self::Double => return scalar_text::write(self, bytes, Dialect::Java(Separator::Space), out),
            quoted => {
                out.push('"');
                scalar_text::write(quoted, bytes, Dialect::Java(Separator::Space), out)?;
                out.push('"');
            }
        }
        Some(())
    }
}

fn push_blob_string(out: &mut String, bytes: &[u8]) {
    out.push('"');
    scalar_text::write_blob(out, bytes);
    out.push('"');
}

fn is_non_finite(value: f64) -> bool {
    !value.is_finite()
}

fn write_array<'a>(
    out: &mut String,
    elements: impl Iterator<Item = Result<Option<&'a [u8]>, TypeError>>,
    element_type: &CqlType,
) -> Option<()> {
    out.push('[');
    for (i, element) in elements.enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        element_type.write_json(element.ok()??, out);
    }
    out.push(']');
    Some(())
}

fn write_field(out: &mut String, fields: &mut TupleIter<'_>, field_type: &CqlType) -> Option<()> {
    match fields.next().transpose().ok()?.flatten() {
        Some(value) => field_type.write_json(value, out),
        None => out.push_str("null"),
    }
    Some(())
}

/// Appends a JSON string: with JSON's short escapes, upper-case `\u00XX` for other control characters, and
/// all other characters unchanged.
pub fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}
