//! Unquoted text of values, as in Cassandra's `getString` and `fromString`. `sstabledump` uses it for
//! partition keys, in its output and on its command line.
//!
//! Strings are unchanged; blobs are hexadecimal digits without `0x`; collections and vectors are the digits
//! of their bytes. The components of a composite key are joined by `:`, and a `:` in a component is written
//! as `\:`. A tuple or UDT has the same form, with `@` for null and `\@` for an `@`. Source: Cassandra 4.1
//! `AbstractType.getString`, `AbstractCompositeType.java`, `TupleType.java`.

use super::civil::Separator;
use super::collection::{CompositeIter, TupleIter, build_composite, build_tuple};
use super::error::{excerpt, type_err};
use super::java_name::{parse_hex, push_hex};
use super::scalar_text::{self, Dialect};
use super::{CqlType, TypeError};

impl CqlType {
    /// The unquoted text of serialized bytes; hexadecimal digits for bytes that are not a value of the type.
    pub fn raw_text_of(&self, bytes: &[u8]) -> String {
        let mut out = String::new();
        if self.try_write_raw(bytes, &mut out).is_none() {
            out.clear();
            push_hex(&mut out, bytes);
        }
        out
    }

    fn try_write_raw(&self, bytes: &[u8], out: &mut String) -> Option<()> {
        match self {
            Self::Reversed(base) => base.try_write_raw(bytes, out),
            Self::Ascii | Self::Text => {
                self.validate(bytes).ok()?;
                out.push_str(std::str::from_utf8(bytes).ok()?);
                Some(())
            }
            Self::Counter
            | Self::Blob
            | Self::List { .. }
            | Self::Set { .. }
            | Self::Map { .. }
            | Self::Vector { .. } => {
                push_hex(out, bytes);
                Some(())
            }
            Self::Composite(components) => {
                let mut types = components.iter();
                for (i, component) in CompositeIter::new(bytes).enumerate() {
                    let (value, end) = component.ok()?;
                    out.push_str(if i > 0 { ":" } else { "" });
                    out.push_str(&escape_component(&types.next()?.raw_text_of(value)));
                    if end != 0 {
                        out.push_str(if end >= 0x80 { ":_" } else { ":!" });
                        break;
                    }
                }
                Some(())
            }
            Self::Tuple(components) => write_fields(bytes, &mut components.iter(), out),
            Self::Udt { user, .. } => {
                write_fields(bytes, &mut user.fields.iter().map(|field| &field.field_type), out)
            }
            _ if bytes.is_empty() => Some(()),
            scalar => scalar_text::write(scalar, bytes, Dialect::Java(Separator::T), out),
        }
    }

    /// Parses unquoted text into a serialized value.
    ///
    /// # Errors
    /// The text is not a value of this type, or has more parts than the type.
    pub fn bytes_of_raw_text(&self, text: &str) -> Result<Vec<u8>, TypeError> {
        match self {
            Self::Reversed(base) => base.bytes_of_raw_text(text),
            Self::Counter
            | Self::Blob
            | Self::List { .. }
            | Self::Set { .. }
            | Self::Map { .. }
            | Self::Vector { .. } => match parse_hex(text) {
                Some(bytes) => Ok(bytes),
                None => type_err!("cannot parse '{}' as hex bytes", excerpt(text)),
            },
            Self::Composite(components) => {
                let parts = split(text);
                let mut values = vec![];
                for (i, part) in parts.iter().enumerate() {
                    let Some(component) = components.get(i) else {
                        return too_many(text, components.len(), parts.len());
                    };
                    let value = component.bytes_of_raw_text(&unescape_component(part))?;
                    if value.len() > usize::from(u16::MAX) {
                        return type_err!(
                            "part {i} of a key has {} bytes; at most 65535 are allowed",
                            value.len()
                        );
                    }
                    values.push(value);
                }
                Ok(build_composite(values.iter().map(Vec::as_slice)))
            }
            Self::Tuple(components) => {
                let parts = split(text).len();
                if parts > components.len() {
                    return type_err!(
                        "Invalid tuple literal: too many elements. Type {} expects {} but got {parts}",
                        self.to_cql(),
                        components.len()
                    );
                }
                fields_of(text, &components.iter().collect::<Vec<_>>())
            }
            Self::Udt { user, .. } => {
                fields_of(text, &user.fields.iter().map(|field| &field.field_type).collect::<Vec<_>>())
            }
            scalar => scalar_text::parse(scalar, text),
        }
    }
}

fn write_fields(bytes: &[u8], types: &mut dyn Iterator<Item = &CqlType>, out: &mut String) -> Option<()> {
    for (i, field) in TupleIter::new(bytes).enumerate() {
        out.push_str(if i > 0 { ":" } else { "" });
        match (types.next()?, field.ok()?) {
            (_, None) => out.push('@'),
            (field_type, Some(value)) => {
                out.push_str(&field_type.raw_text_of(value).replace(':', "\\:").replace('@', "\\@"));
            }
        }
    }
    Some(())
}

fn fields_of(text: &str, types: &[&CqlType]) -> Result<Vec<u8>, TypeError> {
    let parts = split(text);
    let mut fields = vec![];
    for (i, part) in parts.iter().enumerate() {
        let Some(field_type) = types.get(i) else {
            return too_many(text, types.len(), parts.len());
        };
        fields.push(match *part {
            "@" => None,
            part => Some(field_type.bytes_of_raw_text(&part.replace("\\:", ":").replace("\\@", "@"))?),
        });
    }
    Ok(build_tuple(fields.iter().map(Option::as_deref)))
}

fn too_many<T>(text: &str, expected: usize, found: usize) -> Result<T, TypeError> {
    type_err!("'{}' has too many parts: expected {expected} but got {found}", excerpt(text))
}

/// Splits at each `:` that does not follow a `\`. An empty text has no parts.
fn split(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return vec![];
    }
    let mut parts = vec![];
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Replaces `:` by `\:`, and appends a `!` to a final `\` or `!`, so that it escapes nothing.
fn escape_component(text: &str) -> String {
    let mut escaped = text.replace(':', "\\:");
    if escaped.ends_with(['\\', '!']) {
        escaped.push('!');
    }
    escaped
}

fn unescape_component(text: &str) -> String {
    let mut unescaped = text.replace("\\:", ":");
    if unescaped.ends_with('!') {
        unescaped.pop();
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        let key = CqlType::composite([CqlType::Text, CqlType::Int, CqlType::Blob]);
        for (parts, text) in [
            (["a", "7", "ff00"], "a:7:ff00"),
            (["a:b", "-1", ""], "a\\:b:-1:"),
            (["end\\", "0", "00"], "end\\!:0:00"),
            (["end!", "0", "00"], "end!!:0:00"),
        ] {
            let values = [
                parts[0].as_bytes().to_vec(),
                parts[1].parse::<i32>().unwrap().to_be_bytes().to_vec(),
                parse_hex(parts[2]).unwrap(),
            ];
            let bytes = build_composite(values.iter().map(Vec::as_slice));
            assert_eq!(key.raw_text_of(&bytes), text);
            assert_eq!(key.bytes_of_raw_text(text), Ok(bytes));
        }
        assert!(key.bytes_of_raw_text("a:1:00:b").unwrap_err().message().contains("expected 3 but got 4"));
        assert!(key.bytes_of_raw_text("a:x").unwrap_err().message().contains("Unable to make int from 'x'"));

        let tuple = CqlType::tuple([CqlType::Text, CqlType::Int]);
        let bytes = build_tuple([Some(&b"a@b:c"[..]), None]);
        assert_eq!(tuple.raw_text_of(&bytes), "a\\@b\\:c:@");
        assert_eq!(tuple.bytes_of_raw_text("a\\@b\\:c:@"), Ok(bytes));
        let long = tuple.bytes_of_raw_text("a:1:2").unwrap_err();
        assert!(long.message().ends_with("expects 2 but got 3"), "{long}");
        assert_eq!(CqlType::Text.raw_text_of(b"it's"), "it's");
        assert_eq!(CqlType::list(CqlType::Int).raw_text_of(&[0, 0, 0, 0]), "00000000");
    }
}
