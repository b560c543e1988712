//! A CQL literal to the bytes it stands for.
//!
//! Takes what CQL takes and what `text_out.rs` writes: `'quoted'` with `''` for a quote, `$$raw$$`, `0x…`,
//! bare numbers, UUIDs, booleans and durations, `[list]`, `{set}`, `{map: value}`, `(tuple)`,
//! `{field: value}`, `[vector]`. Sets and maps are put in order and lose duplicates (of a map's equal keys
//! the last stays). A scalar of any type may be quoted, and a whole text that is one scalar may be bare
//! even where CQL wants quotes (`2020-01-31 13:30`), but for strings. `0x…` gives the bytes of any type.

use std::cmp::Ordering;

use super::collection::{CollectionBuilder, build_tuple, build_vector};
use super::cql_name::Scanner;
use super::error::{excerpt, type_err};
use super::java_name::parse_hex;
use super::{CqlType, TypeError, scalar_text};

impl CqlType {
    /// The serialized value that a CQL literal stands for.
    ///
    /// # Errors
    /// The text is no literal of this type: says what was expected and at which byte.
    pub fn bytes_of(&self, text: &str) -> Result<Vec<u8>, TypeError> {
        let base = self.without_reversed();
        let trimmed = text.trim();
        if base.is_scalar() && !trimmed.starts_with(['\'', '$']) && !trimmed.starts_with("0x") {
            return bare_scalar(base, trimmed);
        }
        let mut scanner = Scanner::new(text);
        let bytes = value(base, &mut scanner)?;
        scanner.end()?;
        Ok(bytes)
    }

    /// Neither a collection, tuple, UDT, vector nor composite.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(
            self,
            Self::List { .. }
                | Self::Set { .. }
                | Self::Map { .. }
                | Self::Tuple(_)
                | Self::Udt { .. }
                | Self::Vector { .. }
                | Self::Composite(_)
                | Self::Reversed(_)
        )
    }
}

fn bare_scalar(cql_type: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    if text.is_empty() || matches!(cql_type, CqlType::Ascii | CqlType::Text) {
        return type_err!(
            "Unable to make {} from '{}': expected a quoted literal",
            cql_type.to_cql(),
            excerpt(text)
        );
    }
    scalar_text::parse(cql_type, text)
}

/// Recursion is bounded by the depth of the type.
fn value(cql_type: &CqlType, scanner: &mut Scanner<'_>) -> Result<Vec<u8>, TypeError> {
    if let Some(hex) = scanner.hex_constant() {
        let Some(bytes) = parse_hex(hex) else {
            return type_err!("Unable to make {} from '0x{}'", cql_type.to_cql(), excerpt(hex));
        };
        cql_type.validate(&bytes)?;
        return Ok(bytes);
    }
    if let Some(quoted) = scanner.quoted_string()? {
        if cql_type.is_scalar() {
            return scalar_text::parse(cql_type, &quoted);
        }
        if quoted.is_empty() && cql_type.validate(&[]).is_ok() {
            return Ok(vec![]);
        }
        return type_err!("Unable to make {} from a quoted string", cql_type.to_cql());
    }
    match cql_type {
        CqlType::Reversed(base) => value(base, scanner),
        CqlType::List { element, .. } => {
            let mut list = CollectionBuilder::new();
            for element in sequence(element, scanner, '[', ']')? {
                list.push(&element);
            }
            Ok(list.finish())
        }
        CqlType::Set { element, .. } => {
            let mut elements = sequence(element, scanner, '{', '}')?;
            elements.sort_by(|a, b| element.compare(a, b));
            elements.dedup_by(|a, b| element.compare(a, b) == Ordering::Equal);
            let mut set = CollectionBuilder::new();
            for element in &elements {
                set.push(element);
            }
            Ok(set.finish())
        }
        CqlType::Map { entry, .. } => map(&entry.0, &entry.1, scanner),
        CqlType::Vector { element, dimension } => {
            let elements = sequence(element, scanner, '[', ']')?;
            if elements.len() != *dimension as usize {
                return type_err!("expected a vector of {dimension} elements, found {}", elements.len());
            }
            if let (Some(len), Some(odd)) =
                (element.sstable_fixed_len(), elements.iter().find(|bytes| bytes.is_empty()))
            {
                return type_err!("a vector's element must have {len} bytes, found {}", odd.len());
            }
            Ok(build_vector(element, elements.iter().map(Vec::as_slice)))
        }
        CqlType::Tuple(components) => tuple(components, scanner),
        CqlType::Udt { user, .. } => {
            let mut fields: Vec<Option<Vec<u8>>> = vec![None; user.fields.len()];
            scanner.expect('{')?;
            if !scanner.take('}') {
                loop {
                    let name = scanner.identifier()?;
                    let Some(i) = user.fields.iter().position(|field| field.name == name) else {
                        return type_err!(
                            "Unknown field '{}' in value of user defined type {}",
                            name,
                            user.name
                        );
                    };
                    scanner.expect(':')?;
                    fields[i] = or_null(&user.fields[i].field_type, scanner)?;
                    if !scanner.more('}')? {
                        break;
                    }
                }
            }
            Ok(build_tuple(fields.iter().map(Option::as_deref)))
        }
        CqlType::Composite(_) => {
            type_err!("a composite key has no CQL literal; write its parts joined by ':'")
        }
        scalar => {
            let token = scanner.bare_token();
            if token.is_empty() {
                return scanner.fail(&format!("a value of type {}", scalar.to_cql()));
            }
            bare_scalar(scalar, token)
        }
    }
}

fn sequence(
    element: &CqlType,
    scanner: &mut Scanner<'_>,
    open: char,
    close: char,
) -> Result<Vec<Vec<u8>>, TypeError> {
    scanner.expect(open)?;
    let mut elements = vec![];
    if !scanner.take(close) {
        loop {
            elements.push(value(element, scanner)?);
            if !scanner.more(close)? {
                break;
            }
        }
    }
    Ok(elements)
}

fn map(key_type: &CqlType, value_type: &CqlType, scanner: &mut Scanner<'_>) -> Result<Vec<u8>, TypeError> {
    scanner.expect('{')?;
    let mut entries = vec![];
    if !scanner.take('}') {
        loop {
            let key = value(key_type, scanner)?;
            scanner.expect(':')?;
            entries.push((key, value(value_type, scanner)?));
            if !scanner.more('}')? {
                break;
            }
        }
    }
    // Stable, so that of equal keys the last one written is the last of its group.
    entries.sort_by(|(a, _), (b, _)| key_type.compare(a, b));
    let mut map = CollectionBuilder::new();
    for (i, (key, value)) in entries.iter().enumerate() {
        let overwritten = entries.get(i + 1).is_some_and(|(next, _)| key_type.compare(key, next).is_eq());
        if !overwritten {
            map.push(key);
            map.push(value);
        }
    }
    Ok(map.finish_map())
}

/// As many components as are written: the rest are missing, which is the same as null.
fn tuple(components: &[CqlType], scanner: &mut Scanner<'_>) -> Result<Vec<u8>, TypeError> {
    scanner.expect('(')?;
    let mut fields: Vec<Option<Vec<u8>>> = vec![];
    loop {
        let Some(component) = components.get(fields.len()) else {
            return type_err!("Invalid tuple literal: too many elements, expected {}", components.len());
        };
        fields.push(or_null(component, scanner)?);
        if !scanner.more(')')? {
            return Ok(build_tuple(fields.iter().map(Option::as_deref)));
        }
    }
}

fn or_null(cql_type: &CqlType, scanner: &mut Scanner<'_>) -> Result<Option<Vec<u8>>, TypeError> {
    if scanner.take_word("null") { Ok(None) } else { value(cql_type, scanner).map(Some) }
}
