//! `toJson` and `fromJson`. Source: Cassandra 4.1 `ToJsonFct.java`, `FromJsonFct.java`.

use std::borrow::Cow;
use std::sync::Arc;

use model::CqlType;
use model::types::Json;
use protocol::CqlError;

use super::resolve::Signature;
use crate::error::invalid;
use crate::term::Env;

pub fn is_from_json(name: &str) -> bool {
    matches!(name, "fromjson" | "from_json")
}

fn is_to_json(name: &str) -> bool {
    matches!(name, "tojson" | "to_json")
}

/// Builds `toJson` for a value of any type. Null becomes the JSON `null`.
pub fn to_json(name: &str, args: &[Option<CqlType>]) -> Option<Vec<Signature>> {
    if !is_to_json(name) {
        return None;
    }
    let [Some(ty)] = args else { return Some(vec![]) };
    let ty = ty.without_reversed().clone();
    let written = if ty.is_counter() { CqlType::BigInt } else { ty.clone() };
    // Except for texts and blobs, the empty value becomes the JSON `null`.
    let is_text = matches!(written, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    let run = move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| {
        let json = match args.first().and_then(Option::as_deref) {
            None => "null".to_string(),
            Some([]) if !is_text => "null".to_string(),
            Some(value) => written.json_of(value),
        };
        Ok(Some(json.into_bytes()))
    };
    Some(vec![Signature {
        name: name.into(),
        args: vec![ty],
        result: CqlType::Text,
        is_pure: true,
        run: Arc::new(run),
        user: None,
    }])
}

/// Builds `fromJson`, whose result has the wanted type.
///
/// # Errors
/// The place does not want a particular type.
pub fn from_json(name: &str, wanted: Option<&CqlType>) -> Result<Vec<Signature>, CqlError> {
    let Some(ty) = wanted else {
        return invalid!("{name}() cannot be used in the selection clause of a SELECT statement");
    };
    let (ty, function) = (ty.without_reversed().clone(), name.to_string());
    let result = ty.clone();
    Ok(vec![Signature::new(name, [CqlType::Text], result, move |args| {
        let text = String::from_utf8_lossy(args[0]);
        let failed = |detail: String| CqlError::FunctionFailure {
            keyspace: "system".to_string(),
            function: function.clone(),
            arguments: vec!["text".to_string()],
            text: format!("execution of 'system.{function}[text]' failed: {detail}"),
        };
        match Json::parse(&text) {
            Ok(Json::Null) => Ok(None),
            Ok(json) => ty.bytes_of_json(&json).map(Some).map_err(|error| CqlError::FunctionFailure {
                keyspace: "system".to_string(),
                function: function.clone(),
                arguments: vec!["text".to_string()],
                text: format!("org.apache.cassandra.serializers.MarshalException: {error}"),
            }),
            Err(error) => Err(failed(format!("Could not decode JSON string '{text}': {error}"))),
        }
    })])
}
