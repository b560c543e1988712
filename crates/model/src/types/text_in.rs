//! Parser of CQL literals.
//!
//! It accepts the syntax of CQL and the output of `text_out.rs`: `'quoted'` with `''` for a quote, `$$raw$$`,
//! `0x…`, bare numbers, UUIDs, booleans and durations, `[list]`, `{set}`, `{map: value}`, `(tuple)`,
//! `{field: value}`, `[vector]`. Sets and maps are sorted and lose duplicates; of equal keys in a map the
//! last is kept. A scalar of any type may be quoted. A text that consists of one scalar may be bare even if
//! CQL requires quotes (`2020-01-31 13:30`), except for strings. `0x…` gives the bytes of any type.

use std::cmp::Ordering;

use super::collection::{CollectionBuilder, build_tuple, build_vector};
use super::cql_name::Scanner;
use super::error::{excerpt, type_err};
use super::java_name::parse_hex;
use super::{CqlType, TypeError, scalar_text};

impl CqlType {
    /// The serialized value of a CQL literal.
    ///
    /// # Errors
    /// The text is not a literal of this type; the error contains the expected text and the byte offset.
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

    /// Whether it is neither a collection, tuple, UDT, vector nor composite.
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

/// Parses a value. The depth of the type bounds the recursion.
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
    // The sort is stable, so of equal keys the last one written is the last of its group.
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

/// Parses a tuple. Components at the end may be omitted, which is the same as null.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{UdtField, UserType};

    fn read(name: &str, text: &str) -> Result<Vec<u8>, TypeError> {
        CqlType::from_cql(name, &|_| Some(person())).unwrap().bytes_of(text)
    }

    fn person() -> CqlType {
        let field = |name: &str, field_type| UdtField { name: name.into(), field_type };
        CqlType::udt(UserType {
            keyspace: "ks".into(),
            name: "person".into(),
            fields: vec![
                field("name", CqlType::Text),
                field("Age", CqlType::Int),
                field("tags", CqlType::set(CqlType::Text).freeze()),
            ],
        })
    }

    #[test]
    fn spellings_of_one_value() {
        let same = |name: &str, texts: &[&str]| {
            let first = read(name, texts[0]).unwrap();
            for text in texts {
                assert_eq!(read(name, text).as_ref(), Ok(&first), "{text}");
            }
        };
        same("text", &["'it''s'", "$$it's$$", "0x69742773", "  'it''s' "]);
        same("int", &["7", "'7'", " 7 ", "0x00000007", "+7"]);
        same("blob", &["0xfF", "0XFF", "'0xff'"]);
        same("boolean", &["true", "TRUE", "'True'", "0x01"]);
        same(
            "set<int>",
            &[
                "{2, 1}",
                "{1,2}",
                "{ 1 , 2 , 1 }",
                "0x00000002000000040000000100000004 00000002".replace(' ', "").as_str(),
            ],
        );
        same("map<text, int>", &["{'a': 1, 'b': 2}", "{'b':2,'a':9,'a':1}"]);
        same(
            "timestamp",
            &["2020-01-31 13:30", "'2020-01-31T13:30:00Z'", "1580477400000", "'1580477400000'"],
        );
        same("list<duration>", &["[1h30m]", "['PT1H30M']", "[ PT1H30M ]"]);
        same("decimal", &["1.50", "150E-2", "+1.50"]);
        same("person", &["{name: 'x', \"Age\": null, tags: {'b', 'a'}}", "{tags: {'a', 'b'}, name: 'x'}"]);
        same("tuple<int, text>", &["(NULL, 'a')", "( null,'a' )"]);
        same("double", &["NaN", "nan", "'NAN'"]);
        assert_eq!(read("int", "''"), Ok(vec![]), "the empty value");
        assert_eq!(read("inet", "'::ffff:1.2.3.4'"), Ok(vec![1, 2, 3, 4]), "as Java makes of it");
        same("inet", &["'0.0.0.1'", "'1'", "'0.1'", "'00.00.1'"]);
        same("inet", &["'127.0.0.1'", "'127.1'", "'localhost'", "'2130706433'"]);
        same("inet", &["'fe80::1'", "'[fe80::1]'", "'fe80::1%1'"]);
    }

    #[test]
    fn fields_print_by_name() {
        let text = "{name: 'x', \"Age\": 7, tags: null}";
        assert_eq!(person().text_of(&person().bytes_of(text).unwrap()), text);
        let json = r#"{"name": "x", "\"Age\"": 7, "tags": null}"#;
        assert_eq!(person().json_of(&person().bytes_of(text).unwrap()), json);
    }

    #[test]
    fn errors_say_where() {
        let error = |name: &str, text: &str| read(name, text).unwrap_err().to_string();
        assert_eq!(error("int", "seven"), "Unable to make int from 'seven'");
        assert_eq!(error("int", "2147483648"), "Unable to make int from '2147483648'");
        assert_eq!(error("tinyint", "0x0102"), "Expected 1 byte for a tinyint (2)");
        assert!(error("text", "bare").contains("expected a quoted literal"));
        assert!(error("text", "'open").contains("' at byte 0 is not closed"));
        assert!(error("text", "$$open").contains("$$ at byte 0 is not closed"));
        assert!(error("text", "'a' b").contains("expected the end at byte 4, found 'b'"));
        assert!(error("list<int>", "[1 2]").contains("expected ',' or ']' at byte 3, found '2'"));
        assert!(error("list<int>", "[1,").contains("expected a value of type int at byte 3, found the end"));
        assert!(error("list<int>", "{1}").contains("expected '[' at byte 0, found '{'"));
        assert!(error("list<int>", "[null]").contains("Unable to make int from 'null'"));
        assert!(error("map<int, int>", "{1}").contains("expected ':' at byte 2, found '}'"));
        assert!(error("tuple<int>", "(1, 2)").contains("too many elements, expected 1"));
        assert!(error("vector<int, 2>", "[1]").contains("expected a vector of 2 elements, found 1"));
        assert!(error("vector<int, 1>", "['']").contains("must have 4 bytes, found 0"));
        assert!(
            error("person", "{nobody: 1}")
                .contains("Unknown field 'nobody' in value of user defined type person")
        );
        assert!(
            error("timeuuid", "550e8400-e29b-41d4-a716-446655440000")
                .contains("TimeUUID supports only version 1 UUIDs")
        );
        for text in [
            "1e",
            "e1",
            ".",
            "",
            "1.2.3",
            "1-2",
            "1.-5",
            "--1",
            "1e99999999999",
            "1_000",
            "1e-9223372036854775808",
        ] {
            assert!(read("decimal", text).is_err(), "{text}");
        }
        for (name, text) in [
            ("float", "inf"),
            ("double", "1d"),
            ("uuid", "550e8400e29b41d4a716446655440000"),
            ("inet", "'host'"),
            ("inet", "'1.2.3.256'"),
            ("inet", "'256.1'"),
            ("inet", "'1.2.3.4.5'"),
            ("inet", "'4294967296'"),
            ("inet", "'0x7f.1'"),
            ("inet", "'1..2'"),
            ("inet", "'[::1'"),
            ("inet", "'::1%lo'"),
        ] {
            assert!(read(name, text).is_err(), "{text}");
        }
        assert!(read("varint", &"9".repeat(200_000)).is_err(), "a number nobody means");
    }

    #[test]
    fn what_has_no_text_is_hexadecimal() {
        assert_eq!(CqlType::Int.text_of(&[1, 2]), "0x0102");
        assert_eq!(CqlType::Text.text_of(&[0xff]), "0xff");
        let list = CqlType::list(CqlType::Int);
        assert_eq!(list.text_of(&[0, 0, 0, 9]), "0x00000009", "nine elements, none there");
        let huge = vec![0x11; 70_000];
        assert!(CqlType::Varint.text_of(&huge).starts_with("0x1111"));
        assert_eq!(CqlType::Varint.bytes_of(&CqlType::Varint.text_of(&huge)), Ok(huge));
        let scale = [&i32::MIN.to_be_bytes()[..], &[1]].concat();
        assert_eq!(CqlType::Decimal.text_of(&scale), "1E+2147483648");
        assert_eq!(CqlType::Decimal.bytes_of("1E+2147483648"), Ok(scale));
    }

    #[test]
    fn a_counters_context_is_the_sum_of_its_shards() {
        let shard = |count: i64| [&[7; 16][..], &1i64.to_be_bytes(), &count.to_be_bytes()].concat();
        let context = [&[0, 2, 0x80, 0, 0x80, 1][..], &shard(40), &shard(2)].concat();
        assert_eq!(CqlType::Counter.json_of(&context), "42");
        assert_eq!(CqlType::Counter.text_of(&42i64.to_be_bytes()), "42");
        assert_eq!(
            CqlType::Counter.json_of(&context[..context.len() - 1]),
            format!("\"0x{}\"", {
                let mut hex = String::new();
                super::super::java_name::push_hex(&mut hex, &context[..context.len() - 1]);
                hex
            })
        );
    }
}
