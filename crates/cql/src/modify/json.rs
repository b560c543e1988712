//! INSERT JSON: the values of all columns from one JSON text.
//!
//! A text in the statement is parsed when the statement is prepared. A bound text is parsed once for each
//! execution, and the values of its columns are appended to the client's bound values. The rest of the plan
//! treats the statement as if it had a bind marker for each column. Rules and error messages follow Cassandra
//! 4.1 `cql3/Json.java`.

use model::TableSchema;
use model::types::{CqlType, Json, json_name};
use protocol::{CqlError, Value};
use syntax::{LiteralKind, Term};

use super::change::Change;
use crate::error::invalid;
use crate::restriction::ColumnRef;
use crate::term::{Expr, Planner};

/// The expression for each column.
pub type Assigned = Vec<(ColumnRef, Expr)>;

/// A bind marker for a JSON text, and the columns that get their values from the text.
#[derive(Clone, Debug)]
pub struct BoundText {
    marker: usize,
    columns: Vec<(String, CqlType)>,
    default_unset: bool,
}

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    Bytes(Vec<u8>),
    Null,
    /// The text has no value for the column, which keeps its stored value.
    Unset,
}

/// Returns the expressions of all columns except those that keep their stored values. If the JSON text is
/// bound to a marker, also returns its `BoundText`.
///
/// # Errors
/// The text is not a JSON object, names unknown columns, or has values that are not valid for their columns.
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
            check_keys(schema, &columns, &values)?;
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

/// Returns the values in the JSON texts of `changes`, in the order of their hidden markers.
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

/// Returns the client's bound values followed by `values`.
pub fn extended<'v>(bound: &[Value<'v>], values: &'v [ColumnValue]) -> Vec<Value<'v>> {
    let values = values.iter().map(|value| match value {
        ColumnValue::Bytes(bytes) => Value::Bytes(bytes),
        ColumnValue::Null => Value::Null,
        ColumnValue::Unset => Value::Unset,
    });
    bound.iter().copied().chain(values).collect()
}

/// With DEFAULT UNSET, the text must name the whole primary key, also if it sets static columns only.
fn check_keys(
    schema: &TableSchema,
    columns: &[(String, CqlType)],
    values: &[ColumnValue],
) -> Result<(), CqlError> {
    let keys = schema.partition_key.len() + schema.defined_clustering().len();
    let mut keys = columns.iter().zip(values).take(keys);
    match keys.find(|(_, value)| **value == ColumnValue::Unset) {
        // As in Cassandra, the keys of a view are not looked at.
        Some(_) if schema.view.is_some() => invalid!("Cannot directly modify a materialized view"),
        Some(((name, _), _)) => invalid!("Invalid unset value for column {name}"),
        None => Ok(()),
    }
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
                // Cassandra does not name the column of a duration that cannot be parsed.
                Err(error) if columns[at].1 == CqlType::Duration && matches!(json, Json::String(_)) => {
                    return invalid!("{error}");
                }
                Err(error) => return invalid!("Error decoding JSON value for {name}: {error}"),
            },
        };
    }
    Ok(values)
}
