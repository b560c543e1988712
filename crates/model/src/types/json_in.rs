//! Conversion of JSON to serialized values, for `INSERT JSON` and `fromJson`.
//!
//! Strings are accepted for values of every type, because keys of objects are always strings: the content of
//! the string is parsed. Error texts follow Cassandra 4.1 `AbstractType.fromJSONObject`, for vectors
//! Cassandra 5.0.

use super::collection::{CollectionBuilder, build_tuple, build_vector};
use super::error::type_err;
use super::{CqlType, Json, TypeError, UserType, scalar_text};

impl CqlType {
    /// Serializes a JSON value. Null has no serialized form and must be handled before.
    ///
    /// # Errors
    /// It is not a value of this type, or contains a null where none is allowed.
    pub fn bytes_of_json(&self, json: &Json) -> Result<Vec<u8>, TypeError> {
        if !self.is_scalar() {
            // The content of a string is parsed as JSON.
            return match json {
                Json::String(text) => match Json::parse(text) {
                    Ok(inner @ (Json::Array(_) | Json::Object(_))) => self.collected(&inner),
                    Ok(_) => self.unexpected(json),
                    Err(error) => type_err!("Error decoding JSON string: {error}"),
                },
                json => self.collected(json),
            };
        }
        match (self, json) {
            (Self::Ascii, Json::String(text)) if !text.is_ascii() => {
                // Java's name for the error is part of Cassandra's text.
                type_err!(
                    "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input \
                     length = 1"
                )
            }
            (Self::Ascii | Self::Text, Json::String(text)) => Ok(text.as_bytes().to_vec()),
            (Self::Ascii | Self::Text, _) => self.unexpected(json),
            (Self::Blob, Json::String(text)) if !text.starts_with("0x") => type_err!(
                "Value '{text}' is not a valid blob representation: String representation of blob is missing 0x prefix: {text}"
            ),
            (Self::Blob, _) => {
                let bytes = scalar_text::parse(self, &json.to_string());
                bytes
                    .map_err(|_| TypeError::new(format!("Value '{json}' is not a valid blob representation")))
            }
            (Self::Varint | Self::Decimal, Json::Number(text) | Json::String(text)) if !text.is_empty() => {
                scalar_text::parse(self, text).or_else(|_| self.no_representation(json))
            }
            (Self::Decimal, Json::String(_)) => Ok(vec![]),
            (Self::Varint | Self::Decimal, _) => self.no_representation(json),
            (Self::TimeUuid, Json::String(text)) => match uuid::Uuid::try_parse(text) {
                Ok(uuid) if uuid.get_version_num() != 1 => {
                    type_err!("TimeUUID supports only version 1 UUIDs")
                }
                _ => scalar_text::parse(self, text),
            },
            // Any string other than "true" is false.
            (_, Json::String(text)) => scalar_text::parse(self, text),
            (Self::Boolean, Json::Bool(value)) => Ok(vec![u8::from(*value)]),
            (
                Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt | Self::Counter,
                Json::Number(number),
            ) => match (json.kind(), self) {
                ("Integer", _) | ("Long", Self::BigInt | Self::Counter) => scalar_text::parse(self, number),
                _ => self.unexpected(json),
            },
            // Cassandra accepts only numbers that need 64 bits; timestamps of the first 25 days of 1970 must
            // be strings.
            (Self::Timestamp, Json::Number(number)) if json.kind() == "Long" => {
                scalar_text::parse(self, number)
            }
            (Self::Float | Self::Double, Json::Number(number)) => scalar_text::parse(self, number),
            _ => self.unexpected(json),
        }
    }

    fn no_representation<T>(&self, json: &Json) -> Result<T, TypeError> {
        type_err!("Value '{json}' is not a valid representation of a {} value", self.to_cql())
    }

    fn collected(&self, json: &Json) -> Result<Vec<u8>, TypeError> {
        match (self, json) {
            (Self::Reversed(base), json) => base.bytes_of_json(json),
            (Self::List { element, .. }, Json::Array(elements)) => {
                let mut list = CollectionBuilder::new();
                for item in elements {
                    list.push(&not_null(element, item, "Invalid null element in list")?);
                }
                Ok(list.finish())
            }
            (Self::Set { element, .. }, Json::Array(elements)) => {
                let items =
                    elements.iter().map(|item| not_null(element, item, "Invalid null element in set"));
                let mut items = items.collect::<Result<Vec<_>, _>>()?;
                items.sort_by(|a, b| element.compare(a, b));
                items.dedup_by(|a, b| element.compare(a, b).is_eq());
                let mut set = CollectionBuilder::new();
                items.iter().for_each(|item| set.push(item));
                Ok(set.finish())
            }
            (Self::Vector { element, dimension }, Json::Array(elements)) => {
                if elements.len() != *dimension as usize {
                    return type_err!(
                        "List had incorrect size: expected {dimension} but given {}; {json}",
                        elements.len()
                    );
                }
                let items =
                    elements.iter().map(|item| not_null(element, item, "Invalid null element in list"));
                let items = items.collect::<Result<Vec<_>, _>>()?;
                Ok(build_vector(element, items.iter().map(Vec::as_slice)))
            }
            (Self::Map { entry, .. }, Json::Object(fields)) => {
                let mut entries = Vec::with_capacity(fields.len());
                for (key, value) in fields {
                    let key = entry.0.bytes_of_json(&Json::String(key.clone()))?;
                    entries.push((key, not_null(&entry.1, value, "Invalid null value in map")?));
                }
                entries.sort_by(|(a, _), (b, _)| entry.0.compare(a, b));
                let mut map = CollectionBuilder::new();
                for (number, (key, value)) in entries.iter().enumerate() {
                    if entries.get(number + 1).is_none_or(|(next, _)| entry.0.compare(key, next).is_ne()) {
                        map.push(key);
                        map.push(value);
                    }
                }
                Ok(map.finish_map())
            }
            (Self::Tuple(components), Json::Array(elements)) => {
                if elements.len() > components.len() {
                    return type_err!("Tuple contains extra items (expected {}): {json}", components.len());
                }
                if elements.len() < components.len() {
                    return type_err!("Tuple is missing items (expected {}): {json}", components.len());
                }
                let fields =
                    components.iter().zip(elements).map(|(component, item)| or_null(component, item));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                Ok(build_tuple(fields.iter().map(Option::as_deref)))
            }
            (Self::Udt { user, .. }, Json::Object(fields)) => udt(user, fields),
            _ => self.unexpected(json),
        }
    }

    fn unexpected<T>(&self, json: &Json) -> Result<T, TypeError> {
        let wanted = match self {
            Self::Ascii => "an ascii string",
            Self::Text => "a UTF-8 string",
            Self::Int => "an int value",
            Self::TinyInt => "a tinyint value",
            Self::SmallInt => "a smallint value",
            Self::BigInt => "a bigint value",
            Self::Boolean => "a boolean value",
            Self::Double => "a double value",
            Self::Float => "a float value",
            Self::Date => "a string representation of a date value",
            Self::Time => "a string representation of a time value",
            Self::Timestamp => "a long or a datestring representation of a timestamp value",
            Self::Uuid => "a string representation of a uuid",
            Self::TimeUuid => "a string representation of a timeuuid",
            Self::Inet => "a string representation of an inet value",
            Self::Duration => "a string representation of a duration",
            Self::List { .. } | Self::Vector { .. } => "a list",
            Self::Set { .. } => "a list (representing a set)",
            Self::Map { .. } | Self::Udt { .. } => "a map",
            Self::Tuple(_) => "a list representation of a tuple",
            other => {
                return type_err!("Expected a {} value, but got a {}: {json}", other.to_cql(), json.kind());
            }
        };
        type_err!("Expected {wanted}, but got a {}: {json}", json.kind())
    }
}

fn not_null(ty: &CqlType, json: &Json, otherwise: &str) -> Result<Vec<u8>, TypeError> {
    match json {
        Json::Null => type_err!("{otherwise}"),
        json => ty.bytes_of_json(json),
    }
}

fn or_null(ty: &CqlType, json: &Json) -> Result<Option<Vec<u8>>, TypeError> {
    match json {
        Json::Null => Ok(None),
        json => ty.bytes_of_json(json).map(Some),
    }
}

fn udt(user: &UserType, fields: &[(String, Json)]) -> Result<Vec<u8>, TypeError> {
    let mut values: Vec<Option<Vec<u8>>> = vec![None; user.fields.len()];
    for (name, json) in fields {
        let name = json_name(name);
        let Some(at) = user.fields.iter().position(|field| field.name == name) else {
            return type_err!("Unknown field '{name}' in value of user defined type {}", user.name);
        };
        values[at] = or_null(&user.fields[at].field_type, json)?;
    }
    Ok(build_tuple(values.iter().map(Option::as_deref)))
}

/// The name denoted by a key of an object: converted to lower case as in CQL, unless the key itself contains
/// double quotes.
pub fn json_name(key: &str) -> String {
    match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
        Some(quoted) => quoted.to_string(),
        None => key.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::UdtField;

    #[track_caller]
    fn check(ty: &CqlType, json: &str, expected: &str) {
        let parsed = Json::parse(json).expect(json);
        let found = match ty.bytes_of_json(&parsed) {
            Ok(bytes) => {
                ty.validate(&bytes).expect(json);
                ty.text_of(&bytes)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{json} as {}", ty.to_cql());
    }

    #[test]
    fn scalars_from_their_own_kind_and_from_strings() {
        check(&CqlType::Int, "-7", "-7");
        check(&CqlType::Int, "\"7\"", "7");
        check(&CqlType::Int, "7.5", "Expected an int value, but got a Double: 7.5");
        check(&CqlType::Int, "3000000000", "Expected an int value, but got a Long: 3000000000");
        check(&CqlType::BigInt, "\"abc\"", "Unable to make long from 'abc'");
        check(&CqlType::Varint, "true", "Value 'true' is not a valid representation of a varint value");
        check(&CqlType::Varint, "\"\"", "Value '' is not a valid representation of a varint value");
        check(
            &CqlType::Ascii,
            "\"é\"",
            "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1",
        );
        check(&CqlType::Inet, "\"xyzz\"", "Unable to make inet address from 'xyzz'");
        let zero = "\"00000000-0000-0000-0000-000000000000\"";
        check(&CqlType::TimeUuid, zero, "TimeUUID supports only version 1 UUIDs");
        check(&CqlType::Timestamp, "\"abcd\"", "Unable to parse a date/time from 'abcd'");
        check(&CqlType::BigInt, "true", "Expected a bigint value, but got a Boolean: true");
        check(&CqlType::Text, "7", "Expected a UTF-8 string, but got a Integer: 7");
        check(&CqlType::Varint, "123456789012345678901234567890", "123456789012345678901234567890");
        check(&CqlType::Decimal, "1.50", "1.50");
        check(&CqlType::Double, "1e3", "1000.0");
        check(&CqlType::Boolean, "\"TRUE\"", "true");
        check(&CqlType::Boolean, "\"abc\"", "Unable to make boolean from 'abc'");
        check(&CqlType::Blob, "\"0x0aff\"", "0x0aff");
        check(
            &CqlType::Blob,
            "\"0aff\"",
            "Value '0aff' is not a valid blob representation: String representation of blob is missing 0x prefix: 0aff",
        );
        check(&CqlType::Blob, "\"0x123\"", "Value '0x123' is not a valid blob representation");
        check(&CqlType::Inet, "\"::1\"", "'::1'");
        check(&CqlType::Timestamp, "2147483648", "'1970-01-25T20:31:23.648Z'");
        check(&CqlType::Timestamp, "\"1000\"", "'1970-01-01T00:00:01.000Z'");
        let expected = "Expected a long or a datestring representation of a timestamp value, but got a";
        check(&CqlType::Timestamp, "2147483647", &format!("{expected} Integer: 2147483647"));
        check(&CqlType::Timestamp, "1000.5", &format!("{expected} Double: 1000.5"));
        check(&CqlType::Timestamp, "9e99", &format!("{expected} Double: 9e99"));
        check(
            &CqlType::Timestamp,
            "99999999999999999999",
            &format!("{expected} BigInteger: 99999999999999999999"),
        );
        check(&CqlType::Date, "\"2024-02-29\"", "'2024-02-29'");
        check(
            &CqlType::Date,
            "[1]",
            "Expected a string representation of a date value, but got a ArrayList: [1]",
        );
        check(&CqlType::Duration, "\"1mo2d\"", "1mo2d");
    }

    #[test]
    fn collections_and_what_is_written_in_strings() {
        let (int, text) = (CqlType::Int, CqlType::Text);
        check(&CqlType::list(int.clone()), "[3, \"1\"]", "[3, 1]");
        check(&CqlType::list(int.clone()), "\"[3, 1]\"", "[3, 1]");
        check(&CqlType::list(int.clone()), "[1, null]", "Invalid null element in list");
        check(&CqlType::list(int.clone()), "{}", "Expected a list, but got a LinkedHashMap: {}");
        check(&CqlType::set(int.clone()), "[3, 1, 3]", "{1, 3}");
        let of_sets = CqlType::map(CqlType::set(int.clone()).freeze(), text.clone());
        check(&of_sets, r#"{"[2, 1]": "b", "[1]": "a", "[1,2]": "c"}"#, "{{1}: 'a', {1, 2}: 'c'}");
        check(&CqlType::map(int.clone(), text.clone()), r#"{"2": null}"#, "Invalid null value in map");
        let pair = CqlType::tuple([int.clone(), text]);
        check(&pair, r#"[null, "x"]"#, "(null, 'x')");
        check(&pair, "[1]", "Tuple is missing items (expected 2): [1]");
        check(&pair, "[1, \"x\", 2]", "Tuple contains extra items (expected 2): [1, x, 2]");
        let vector = CqlType::vector(CqlType::Float, 2).expect("a vector");
        check(&vector, "[1, 2.5]", "[1.0, 2.5]");
        check(&vector, "[1]", "List had incorrect size: expected 2 but given 1; [1]");
        let field = |name: &str| UdtField { name: name.to_string(), field_type: int.clone() };
        let user = UserType { keyspace: "ks".into(), name: "u".into(), fields: vec![field("a"), field("B")] };
        let udt = CqlType::udt(user);
        check(&udt, r#"{"A": 1, "\"B\"": 2}"#, "{a: 1, \"B\": 2}");
        check(&udt, r#"{"B": 2}"#, "Unknown field 'b' in value of user defined type u");
    }
}
