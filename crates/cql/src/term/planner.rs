//! The state of preparing a statement. `function` adds the preparation of terms ([`Planner::term`]).

use std::sync::Arc;

use catalog::Catalog;
use model::CqlType;
use protocol::{ColumnSpec, CqlError};
use syntax::{Marker, TypeName};

use super::{Expr, Markers, UserCall};
use crate::error::from_catalog;

/// Name for terms in a selection; it is also the name of their bind markers.
pub const SELECTION: &str = "[selection]";

/// State of preparing a statement: the catalog, the statement's table, and the bind markers seen so far.
#[derive(Debug)]
pub struct Planner<'c> {
    pub catalog: &'c Catalog,
    /// Keyspace of the statement's table. Types without a keyspace are resolved in it.
    pub keyspace: Arc<str>,
    pub table: Arc<str>,
    pub markers: Markers,
    /// The user-defined functions that the statement calls.
    pub calls: Vec<UserCall>,
}

impl<'c> Planner<'c> {
    /// Creates a planner for a statement with this number of bind markers.
    pub fn new(catalog: &'c Catalog, keyspace: &str, table: &str, markers: usize) -> Self {
        let markers = Markers::new(markers);
        Self { catalog, keyspace: keyspace.into(), table: table.into(), markers, calls: vec![] }
    }

    /// Describes a column of the statement's table, or a pseudo column such as `[limit]` or `value(m)`.
    pub fn spec(&self, name: &str, ty: &CqlType) -> ColumnSpec {
        ColumnSpec {
            keyspace: self.keyspace.clone(),
            table: self.table.clone(),
            name: name.to_string(),
            column_type: ty.clone(),
        }
    }

    /// Resolves a type by its name. User types are resolved in the statement's keyspace.
    pub fn resolve_type(&self, name: &TypeName) -> Result<CqlType, CqlError> {
        let keyspace = self.keyspace.clone();
        self.catalog.parse_type(&keyspace, &name.to_string()).map_err(from_catalog)
    }

    /// Prepares a bind marker for a value of type `ty`. `name` describes the marker's place.
    pub fn marker(&mut self, marker: &Marker, name: &str, ty: &CqlType) -> Expr {
        // This includes markers of elements: Cassandra and ScyllaDB give every marker of a selection this
        // name.
        let name = if name.contains(SELECTION) { SELECTION } else { name };
        let spec = self.spec(name, ty);
        self.markers.set(marker, spec);
        Expr::Marker { index: marker.index, ty: ty.without_reversed().clone() }
    }
}
