//! Bind markers: their types, and the values that a client binds to them.

use std::borrow::Cow;

use model::types::CqlType;
use model::{KeyColumn, TableSchema};
use protocol::{self, ColumnSpec, CqlError};
use smallvec::SmallVec;
use syntax::Marker;

use super::Value;
use crate::error::invalid;

/// The types of a statement's bind markers, collected while the statement is prepared.
#[derive(Debug)]
pub struct Markers {
    specs: Vec<Option<ColumnSpec>>,
    /// The name of each marker's place, which is the name of a column if its value is that of the column.
    places: Vec<String>,
    hidden: usize,
}

impl Markers {
    /// Creates `count` markers of unknown types.
    pub fn new(count: usize) -> Self {
        Self { specs: vec![None; count], places: vec![String::new(); count], hidden: 0 }
    }

    /// Adds `count` hidden markers after those of the text, and returns the index of the first. Clients do
    /// not see hidden markers; the statement itself binds their values.
    pub fn add_hidden(&mut self, count: usize) -> usize {
        self.hidden += count;
        self.specs.len() + self.hidden - count
    }

    /// Sets the type and name of a marker. A named marker such as `:v` keeps its own name.
    pub fn set(&mut self, marker: &Marker, mut spec: ColumnSpec) {
        if let Some(place) = self.places.get_mut(marker.index) {
            place.clone_from(&spec.name);
        }
        if let Some(name) = &marker.name {
            spec.name.clone_from(name);
        }
        spec.column_type = spec.column_type.without_reversed().clone();
        if let Some(slot) = self.specs.get_mut(marker.index) {
            *slot = Some(spec);
        }
    }

    /// Index of the bind marker for each partition key column, for clients; empty if a column has none. Of
    /// several markers of a column, as of IN, the last one counts, as in Cassandra.
    pub fn of_partition_key(&self, schema: &TableSchema) -> Vec<u16> {
        let of_column = |column: &KeyColumn| {
            let at = self.places.iter().rposition(|place| *place == column.name)?;
            u16::try_from(at).ok()
        };
        schema.partition_key.iter().map(of_column).collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the metadata of the markers, for clients.
    ///
    /// # Errors
    /// A marker has no type at its place in the statement.
    pub fn finish(self) -> Result<Vec<ColumnSpec>, CqlError> {
        let place = |(number, spec): (usize, Option<ColumnSpec>)| match spec {
            Some(spec) => Ok(spec),
            None => invalid!("the type of bind marker {} cannot be inferred from its place", number + 1),
        };
        self.specs.into_iter().enumerate().map(place).collect()
    }
}

/// The values of an execution, one for each bind marker.
pub type Bound<'a> = SmallVec<[protocol::Value<'a>; 16]>;

/// Returns the value of a marker, checked against its type.
#[inline]
pub(super) fn bound_value<'a>(
    bound: &[protocol::Value<'a>],
    index: usize,
    ty: &CqlType,
) -> Result<Value<'a>, CqlError> {
    match bound.get(index) {
        Some(protocol::Value::Bytes(bytes)) => {
            check(ty, bytes)?;
            let is_scalar = !matches!(
                ty,
                CqlType::List { .. }
                    | CqlType::Set { .. }
                    | CqlType::Map { .. }
                    | CqlType::Tuple(_)
                    | CqlType::Udt { .. }
                    | CqlType::Vector { .. }
            );
            Ok(Value::Bytes(if is_scalar { Cow::Borrowed(bytes) } else { ty.in_stored_order(bytes)? }))
        }
        Some(protocol::Value::Null) => Ok(Value::Null),
        Some(protocol::Value::Unset) => Ok(Value::Unset),
        None => invalid!("no value was bound to marker {}", index + 1),
    }
}

/// Checks a bound value against its type, with Cassandra's errors for values that have parts.
#[inline]
fn check(ty: &CqlType, bytes: &[u8]) -> Result<(), CqlError> {
    let kind = match ty {
        CqlType::List { .. } => "list",
        CqlType::Set { .. } => "set",
        CqlType::Map { .. } => "map",
        CqlType::Vector { .. } | CqlType::Tuple(_) | CqlType::Udt { .. } => "",
        CqlType::Inet => "",
        _ => return Ok(ty.validate(bytes)?),
    };
    if kind.is_empty() {
        return ty.validate(bytes).map_err(|error| cut(&error.to_string()));
    }
    match bytes.first_chunk::<4>().map(|count| i32::from_be_bytes(*count)) {
        None => invalid!("Not enough bytes to read a {kind}"),
        Some(..0) => invalid!("The data cannot be deserialized as a {kind}"),
        Some(_) => ty.validate(bytes).map_err(|error| cut(&error.to_string())),
    }
}

/// The error of an invalid value that has parts, without the text that follows Cassandra's text.
fn cut(text: &str) -> CqlError {
    let end = match text {
        _ if text.starts_with("Not enough bytes to read a vector") => text.find("> (").map(|at| at + 1),
        _ if text.starts_with("Expected 4 or 16 byte inetaddress") => text.find(" ("),
        _ if text.starts_with("Invalid remaining data after end of") => text.find(" ("),
        _ if text.starts_with("Not enough bytes to read a") => text.find(": ").or(text.find(" (")),
        _ if text.starts_with("Unexpected") && text.contains("extraneous bytes after") => text.find(": "),
        _ => None,
    };
    CqlError::Invalid(text[..end.unwrap_or(text.len())].to_string())
}

/// The values of the list that is bound to an IN.
#[derive(Debug)]
pub enum InList<'a> {
    /// An element may be null.
    Values(Vec<Option<Cow<'a, [u8]>>>),
    Null,
    Unset,
}

/// Returns the list that is bound to the marker of an IN. `ty` is a list type. An empty element is null if
/// values of the type are never empty.
pub(super) fn bound_in_list<'a>(
    bound: &[protocol::Value<'a>],
    index: usize,
    ty: &CqlType,
) -> Result<InList<'a>, CqlError> {
    let bytes: &'a [u8] = match bound.get(index) {
        Some(protocol::Value::Bytes(bytes)) => bytes,
        Some(protocol::Value::Null) => return Ok(InList::Null),
        Some(protocol::Value::Unset) => return Ok(InList::Unset),
        None => return invalid!("no value was bound to marker {}", index + 1),
    };
    let CqlType::List { element, .. } = ty else {
        return invalid!("the list of an IN is bound as a list, not as {}", ty.to_cql());
    };
    const SHORT: &str = "Not enough bytes to read a list";
    let Some((count, mut rest)) = bytes.split_first_chunk::<4>() else { return invalid!("{SHORT}") };
    let count = i32::from_be_bytes(*count);
    if count < 0 {
        return invalid!("The data cannot be deserialized as a list");
    }
    let is_never_empty =
        !matches!(**element, CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Tuple(_));
    let mut values = Vec::new();
    for _ in 0..count {
        let Some((len, after)) = rest.split_first_chunk::<4>() else { return invalid!("{SHORT}") };
        let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
            rest = after;
            values.push(None);
            continue;
        };
        let Some((value, after)) = after.split_at_checked(len) else { return invalid!("{SHORT}") };
        rest = after;
        check(element, value)?;
        let is_null = value.is_empty() && is_never_empty;
        values.push(if is_null { None } else { Some(element.in_stored_order(value)?) });
    }
    if !rest.is_empty() {
        return invalid!("Unexpected extraneous bytes after list value");
    }
    Ok(InList::Values(values))
}

/// Returns a client's values in the order of the markers.
///
/// # Errors
/// The number of values differs from the number of markers, or a name has no value.
#[inline]
pub fn bind<'a>(values: &protocol::Values<'a>, markers: &[ColumnSpec]) -> Result<Bound<'a>, CqlError> {
    if values.names().is_some() {
        let named = markers.iter().map(|marker| match values.get_named(&marker.name) {
            Some(value) => Ok(value),
            None => invalid!("no value was bound to \"{}\"", marker.name),
        });
        return named.collect();
    }
    if values.len() != markers.len() {
        return invalid!(
            "Invalid amount of bind variables: the statement has {} markers, {} values were sent",
            markers.len(),
            values.len()
        );
    }
    Ok(values.iter().collect())
}
