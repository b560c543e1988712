//! Properties after WITH: `name = value`, where the value is a word or a map.

use std::collections::BTreeMap;

use catalog::OptionValue;
use protocol::CqlError;
use syntax::ast::{Property, PropertyValue};

/// Returns the property's name and value, independent of the syntax tree.
pub(super) fn of(property: &Property) -> (String, OptionValue) {
    let value = match &property.value {
        PropertyValue::Literal(literal) => OptionValue::Text(literal.text.clone()),
        PropertyValue::Word(word) => OptionValue::Text(word.text.clone()),
        PropertyValue::Map { entries, .. } => OptionValue::Map(
            entries.iter().map(|(key, value)| (key.text.clone(), value.text.clone())).collect(),
        ),
    };
    (property.name.text.clone(), value)
}

pub(super) fn text<'a>(name: &str, value: &'a OptionValue) -> Result<&'a str, CqlError> {
    match value {
        OptionValue::Text(text) => Ok(text),
        OptionValue::Map(_) => syntax(format!("Invalid value for property '{name}'. It should be a string")),
    }
}

pub(super) fn map<'a>(name: &str, value: &'a OptionValue) -> Result<&'a BTreeMap<String, String>, CqlError> {
    match value {
        OptionValue::Map(entries) => Ok(entries),
        OptionValue::Text(_) => syntax(format!("Invalid value for property '{name}'. It should be a map.")),
    }
}

pub(super) fn boolean(name: &str, value: &OptionValue) -> Result<bool, CqlError> {
    let text = text(name, value)?;
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => syntax(format!(
            "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values \
             can be '0', 'false' or 'no'."
        )),
    }
}

/// Parses a Java `int` that must not be negative.
pub(super) fn count(name: &str, value: &OptionValue) -> Result<u32, CqlError> {
    let text = text(name, value)?;
    let Ok(number) = text.parse::<i32>() else {
        return syntax(format!("Invalid integer value {text} for '{name}'"));
    };
    u32::try_from(number)
        .map_err(|_| CqlError::Config(format!("{name} must be greater than or equal to 0 (got {number})")))
}

pub(super) fn double(name: &str, value: &OptionValue) -> Result<f64, CqlError> {
    let text = text(name, value)?;
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => syntax(format!("Invalid double value {text} for '{name}'")),
    }
}

pub(super) fn unknown<T>(name: &str) -> Result<T, CqlError> {
    syntax(format!("Unknown property '{name}'"))
}

fn syntax<T>(text: String) -> Result<T, CqlError> {
    Err(CqlError::Syntax(text))
}
