//! The user-defined functions and aggregates that a statement calls. The statement is valid as long as they
//! are in the catalog, and its user needs permissions on them.

use std::sync::Arc;

use catalog::{Catalog, Resource, UserAggregate, UserFunction};

#[derive(Clone, Debug)]
pub enum UserCall {
    Function(Arc<UserFunction>),
    Aggregate(Arc<UserAggregate>),
}

impl UserCall {
    /// Whether the catalog has the same definition.
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        match self {
            Self::Function(used) => catalog
                .function(&used.keyspace, &used.name, &used.argument_types)
                .is_some_and(|known| Arc::ptr_eq(known, used)),
            Self::Aggregate(used) => catalog
                .aggregate(&used.keyspace, &used.name, &used.argument_types)
                .is_some_and(|known| Arc::ptr_eq(known, used)),
        }
    }

    /// What the user must be allowed to execute: the function, or the aggregate and its functions.
    pub fn resources(&self) -> Vec<Resource> {
        match self {
            Self::Function(used) => vec![used.resource()],
            Self::Aggregate(used) => {
                let functions = std::iter::once(&used.state_function).chain(&used.final_function);
                std::iter::once(used.resource()).chain(functions.map(|used| used.resource())).collect()
            }
        }
    }
}
