//! INSERT JSON: the values of all columns from one text.
//!
//! A text that stands in the statement is taken apart when the statement is prepared. One that is bound is taken
//! apart once for each execution, and what its columns get is bound behind what the client has bound: to the rest
//! of the plan it is a statement with a marker for each column.
//! Rules and texts follow Cassandra 4.1 `cql3/Json.java`.

use model::TableSchema;
use model::types::{CqlType, Json, json_name};

use super::change::Change;
use crate::CqlError;
use crate::error::invalid;
use crate::protocol::Value;
use crate::restriction::ColumnRef;
use crate::syntax::{LiteralKind, Term};
use crate::term::{Expr, Planner};

/// What each column is set to.
pub type Assigned = Vec<(ColumnRef, Expr)>;

/// A bound text, and the columns that get their values from it.
#[derive(Clone, Debug)]
pub struct BoundText {
    marker: usize,
    columns: Vec<(String, CqlType)>,
    default_unset: bool,
}

/// What a column gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    Bytes(Vec<u8>),
    Null,
    /// Nothing is said of it, and it stays as it is.
    Unset,
}

/// What each column is set to; those that stay as they are are left out. With the text, if it is to be bound.
///
/// # Errors
/// The text is no JSON object, names unknown columns, or has values that are none of their column.
pub fn prepare(
    planner: &mut Planner<'_>,
    schema: &TableSchema,
    text: &Term,
    default_unset: bool,
) -> Result<(Assigned, Option<BoundText>), CqlError> {
    let all = ColumnRef::all(schema);
    let columns: Vec<(String, CqlType)> =
        all.iter().map(|column| (column.name(schema).to_string(), column.ty(schema).clone())).collect();
    match text {
        Term::Marker(marker) => {
            planner.marker(marker, "[json]", &CqlType::Text);
            let first = planner.markers.add_hidden(columns.len());
            let exprs =
                (first..).zip(&columns).map(|(index, (_, ty))| Expr::Marker { index, ty: ty.clone() });
            let exprs = all.into_iter().zip(exprs).collect();
            Ok((exprs, Some(BoundText { marker: marker.index, columns, default_unset })))
        }
        Term::Literal(literal) if literal.kind == LiteralKind::String => {
            let values = values_of(&literal.text, &columns, default_unset)?;
            let expr = |value| match value {
                ColumnValue::Bytes(bytes) => Some(Expr::constant(&bytes)),
                ColumnValue::Null => Some(Expr::NULL),
                ColumnValue::Unset => None,
            };
            let exprs =
                all.into_iter().zip(values).filter_map(|(column, value)| Some((column, expr(value)?)));
            Ok((exprs.collect(), None))
        }
        _ => invalid!("INSERT JSON takes a string or a bind marker"),
    }
}

/// The values that the texts of `changes` give, in the order of their hidden markers.
///
/// # Errors
/// As [`prepare`].
pub fn values<'c>(
    changes: impl Iterator<Item = &'c Change>,
    bound: &[Value<'_>],
) -> Result<Vec<ColumnValue>, CqlError> {
    let mut all = vec![];
    for text in changes.filter_map(|change| change.json.as_ref()) {
        match bound.get(text.marker) {
            Some(Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(json) => all.extend(values_of(json, &text.columns, text.default_unset)?),
                Err(_) => return invalid!("String didn't validate."),
            },
            Some(Value::Unset) => return invalid!("Invalid unset value for JSON values"),
            Some(Value::Null) | None => return invalid!("Got null for INSERT JSON values"),
        }
    }
    Ok(all)
}

/// What the client has bound, and behind it these.
pub fn extended<'v>(bound: &[Value<'v>], values: &'v [ColumnValue]) -> Vec<Value<'v>> {
    let values = values.iter().map(|value| match value {
        ColumnValue::Bytes(bytes) => Value::Bytes(bytes),
        ColumnValue::Null => Value::Null,
        ColumnValue::Unset => Value::Unset,
    });
    bound.iter().copied().chain(values).collect()
}

fn values_of(
    text: &str,
    columns: &[(String, CqlType)],
    default_unset: bool,
) -> Result<Vec<ColumnValue>, CqlError> {
    let fields = match Json::parse(text) {
        Ok(Json::Object(fields)) => fields,
        Ok(Json::Null) => return invalid!("Got null for INSERT JSON values"),
        Ok(other) => {
            return invalid!(
                "Could not decode JSON string as a map: it is a {}. (String was: {text})",
                other.kind()
            );
        }
        Err(error) => {
            return invalid!("Could not decode JSON string as a map: {error}. (String was: {text})");
        }
    };
    let missing = if default_unset { ColumnValue::Unset } else { ColumnValue::Null };
    let mut values = vec![missing; columns.len()];
    for (key, json) in fields {
        let name = json_name(&key);
        let Some(at) = columns.iter().position(|(known, _)| *known == name) else {
            return invalid!("JSON values map contains unrecognized column: {name}");
        };
        values[at] = match json {
            Json::Null => ColumnValue::Null,
            json => match columns[at].1.bytes_of_json(&json) {
                Ok(bytes) => ColumnValue::Bytes(bytes),
                Err(error) => return invalid!("Error decoding JSON value for {name}: {error}"),
            },
        };
    }
    Ok(values)
}
