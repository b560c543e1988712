//! Which keyspaces, tables and user types there are, and how that knowledge is itself stored in tables.
//!
//! | question | file |
//! |---|---|
//! | what exists, what may change, into what | `catalog.rs`, rules of a table: `alter.rs` |
//! | what a keyspace is, how it is replicated | `keyspace.rs` |
//! | options of a table beside those of its storage | `settings.rs` |
//! | which types are inside a type, what happens to them | `user_types.rs` |
//! | the system tables: columns, ids | `system.rs` |
//! | a change as writes to the system tables | `store.rs` |
//! | the catalog from what the system tables hold | `load.rs` |
//! | a table as CQL | `display.rs` |
//!
//! **Invariant:** no clock, no disk, no thread. A [`Catalog`] is a value; whoever changes it gets a new one.
//! Law (tests in `laws.rs`): what [`mutations_for`] writes, [`load()`] reads back.

mod alter;
mod catalog;
mod change;
mod display;
mod error;
mod keyspace;
#[cfg(test)]
mod laws;
mod load;
#[cfg(test)]
mod rules;
mod settings;
mod store;
pub mod system;
mod user_types;

pub use catalog::{Catalog, Changed, Table};
pub use change::{ChangeKind, SchemaChange, Target};
pub use display::{describe_keyspace, describe_table, describe_table_with, describe_type};
pub use error::CatalogError;
pub use keyspace::Keyspace;
pub use load::load;
pub use settings::{TableSettings, compression_from_map, compression_to_map};
pub use store::mutations_for;
pub use system::{SYSTEM_KEYSPACES, system_tables};
