//! Any bytes are a value of a type or are refused, and any text, JSON or type name is parsed or refused.
//! Printed values and types can be parsed again: bytes → text → bytes, bytes → JSON → bytes, type → name →
//! type.
//!
//! The name of the type ends at the first byte 0. The bytes after it are the value, and are also parsed as
//! text.

use model::CqlType;
use model::counter;
use model::types::{CqlValue, Duration, Json};

pub fn examine(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(name) = std::str::from_utf8(&data[..end]) else { return };
    let bytes = data.get(end + 1..).unwrap_or_default();
    let _ = (counter::decode(bytes), counter::total(bytes), Duration::from_bytes(bytes));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Duration::parse(text);
        if let Ok(json) = Json::parse(text) {
            assert!(!json.kind().is_empty());
        }
    }
    let cql = CqlType::from_cql(name, &|_| None);
    if let Ok(cql_type) = &cql {
        assert_eq!(CqlType::from_cql(&cql_type.to_cql(), &|_| None).as_ref(), Ok(cql_type), "{name}");
        check_value(cql_type, bytes);
    }
    if let Ok(cql_type) = CqlType::from_java_name(name) {
        assert_eq!(CqlType::from_java_name(&cql_type.to_java_name()).as_ref(), Ok(&cql_type), "{name}");
        check_value(&cql_type, bytes);
    }
}

fn check_value(cql_type: &CqlType, bytes: &[u8]) {
    // These functions accept any bytes.
    let (text, json, raw) = (cql_type.text_of(bytes), cql_type.json_of(bytes), cql_type.raw_text_of(bytes));
    let _ = (cql_type.compare(bytes, &bytes[..bytes.len() / 2]), cql_type.bytes_of_raw_text(&raw));
    assert!(cql_type.compare(bytes, bytes).is_eq());
    if let Ok(given) = std::str::from_utf8(bytes) {
        if let Ok(bytes) = cql_type.bytes_of(given) {
            cql_type.validate(&bytes).expect("a literal gives a value of the type");
        }
        // Hexadecimal text can express any bytes.
        let _ = cql_type.bytes_of_raw_text(given);
        if let Ok(json) = Json::parse(given)
            && let Ok(bytes) = cql_type.bytes_of_json(&json)
        {
            cql_type.validate(&bytes).expect("JSON gives a value of the type");
        }
    }
    if cql_type.validate(bytes).is_err() {
        assert!(CqlValue::decode(cql_type, bytes).is_err());
        return;
    }
    if let Ok(value) = CqlValue::decode(cql_type, bytes)
        && let Ok(encoded) = value.encode(cql_type)
    {
        cql_type.validate(&encoded).expect("a value is encoded as its type has it");
    }
    // An empty value of a number has no text; the bytes of a set may repeat elements, its text does not.
    if let Ok(again) = cql_type.bytes_of(&text)
        && !bytes.is_empty()
    {
        cql_type.validate(&again).expect("a printed value is one of the type");
    }
    Json::parse(&json).expect("JSON is printed");
}
