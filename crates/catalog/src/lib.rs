//! The keyspaces, tables and user types of the database, and how this information is stored in tables.
//!
//! | question | file |
//! |---|---|
//! | what exists, and which changes are allowed | `catalog.rs`, rules of a table: `alter.rs` |
//! | what a keyspace is, how it is replicated | `keyspace.rs` |
//! | options of a table that storage does not use | `settings.rs`; `compression.rs`, `compaction.rs`, `retry.rs` |
//! | the mask of a column | `column_mask.rs` |
//! | options of other versions and of ScyllaDB | `other_options.rs`, `tombstone_gc.rs` |
//! | which types are inside a type, how they change | `user_types.rs` |
//! | roles, and the effective service level of each | `access.rs`, `service_level.rs` |
//! | permissions, and the resources that have them | `permission.rs` |
//! | the system tables: columns, ids | `system.rs`, `definition.rs` |
//! | system tables that are computed when they are read | `virtual_tables.rs` |
//! | a change as writes to the system tables | `store.rs` |
//! | loading the catalog from the system tables | `load.rs` |
//! | a table as CQL | `display.rs` |
//!
//! **Invariant:** no clock, no disk, no thread. A [`Catalog`] is a value; a change returns a new one. Law
//! (tests in `laws.rs`): [`load()`] reads exactly what [`mutations_for`] writes.

mod access;
mod alter;
mod cassandra_tables;
mod catalog;
mod change;
mod column_mask;
mod compaction;
mod compression;
mod definition;
mod display;
mod error;
mod keyspace;
#[cfg(test)]
mod laws;
mod load;
mod other_options;
mod permission;
mod recreate;
mod retry;
#[cfg(test)]
mod rules;
mod service_level;
mod settings;
mod store;
pub mod system;
mod tombstone_gc;
mod user_types;
pub mod virtual_tables;

pub use access::{Access, LevelChange, Role, RoleChange};
pub use catalog::{Catalog, Changed, Table};
pub use change::{ChangeKind, SchemaChange, Target};
pub use column_mask::{ColumnMask, MaskArgument};
pub use compression::{compression_from_map, compression_to_map};
pub use display::{Internals, describe_keyspace, describe_table, describe_table_with, describe_type};
pub use error::CatalogError;
pub use keyspace::{Factors, Keyspace};
pub use load::load;
pub use other_options::{OptionValue, is_of_keyspaces, is_of_tables, keyspace_option, table_option};
pub use permission::{Permission, Permissions, Resource};
pub use recreate::{recreate_table, user_types_of};
pub use service_level::{
    Chosen, DEFAULT_LEVEL, DEFAULT_SHARES, DRIVER_LEVEL, DRIVER_SHARES, EffectiveLevel, ServiceLevel,
    Workload,
};
pub use settings::TableSettings;
pub use store::mutations_for;
pub use system::{
    COMPACTION_HISTORY_TTL_S, SYSTEM_KEYSPACES, compaction_history, is_system_keyspace, stored_tables,
    system_tables,
};
pub use tombstone_gc::TombstoneGcMode;
pub use virtual_tables::virtual_tables;
