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
            ty.validate(bytes)?;
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
