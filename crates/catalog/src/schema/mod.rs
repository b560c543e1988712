//! Keyspaces, tables and user types: what exists, how it changes, how it is stored and described.

pub(crate) mod alter;
pub(crate) mod catalog;
pub(crate) mod change;
pub(crate) mod change_log;
pub(crate) mod display;
pub(crate) mod function_changes;
pub(crate) mod functions;
pub mod indexes;
pub(crate) mod keyspace;
pub(crate) mod load;
pub(crate) mod recreate;
pub(crate) mod schema_version;
pub(crate) mod store;
pub(crate) mod user_types;
