//! Bind markers: what each stands for, and what a client bound to it.

use std::borrow::Cow;

use model::types::CqlType;
use smallvec::SmallVec;

use super::Value;
use crate::CqlError;
use crate::error::invalid;
use crate::protocol::{self, ColumnSpec};
use crate::syntax::Marker;

/// What is known of a statement's markers while it is being prepared.
#[derive(Debug)]
pub struct Markers {
    specs: Vec<Option<ColumnSpec>>,
    hidden: usize,
}

impl Markers {
    /// `count` markers of which nothing is known yet.
    pub fn new(count: usize) -> Self {
        Self { specs: vec![None; count], hidden: 0 }
    }

    /// The number of the first of `count` markers behind those of the text: clients are not told of them, and the
    /// statement itself binds their values.
    pub fn add_hidden(&mut self, count: usize) -> usize {
        self.hidden += count;
        self.specs.len() + self.hidden - count
    }

    /// The marker stands for a value of `spec`. A marker with a name keeps it, as `:v` in the text.
    pub fn set(&mut self, marker: &Marker, mut spec: ColumnSpec) {
        if let Some(name) = &marker.name {
            spec.name.clone_from(name);
        }
        spec.column_type = spec.column_type.without_reversed().clone();
        if let Some(slot) = self.specs.get_mut(marker.index) {
            *slot = Some(spec);
        }
    }

    /// What clients are told of each marker.
    ///
    /// # Errors
    /// A marker at a place where none has a meaning.
    pub fn finish(self) -> Result<Vec<ColumnSpec>, CqlError> {
        let place = |(number, spec): (usize, Option<ColumnSpec>)| match spec {
            Some(spec) => Ok(spec),
            None => invalid!("bind marker {} stands where its type cannot be told", number + 1),
        };
        self.specs.into_iter().enumerate().map(place).collect()
    }
}

/// The values of an execution, one for each marker.
pub type Bound<'a> = SmallVec<[protocol::Value<'a>; 16]>;

/// The value of a marker, checked against its type.
#[inline]
pub(super) fn bound_value<'a>(
    bound: &[protocol::Value<'a>],
    index: usize,
    ty: &CqlType,
) -> Result<Value<'a>, CqlError> {
    match bound.get(index) {
        Some(protocol::Value::Bytes(bytes)) => {
            ty.validate(bytes)?;
            Ok(Value::Bytes(Cow::Borrowed(bytes)))
        }
        Some(protocol::Value::Null) => Ok(Value::Null),
        Some(protocol::Value::Unset) => Ok(Value::Unset),
        None => invalid!("no value was bound to marker {}", index + 1),
    }
}

/// Brings a client's values into the order of the markers.
///
/// # Errors
/// Not as many values as markers, or a name without a value.
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
