//! The keyspaces, tables and user types of the database, and how this information is stored in tables.
//!
//! | question | file |
//! |---|---|
//! | what exists, and which changes are allowed | `schema/catalog.rs`, rules of a table: `schema/alter.rs` |
//! | what a keyspace is, how it is replicated | `schema/keyspace.rs` |
//! | the version that clients compare | `schema/schema_version.rs` |
//! | options of a table that storage does not use | `options/settings.rs`; `options/compression.rs`, `options/compaction.rs`, `options/retry.rs` |
//! | the mask of a column | `options/column_mask.rs` |
//! | options of other versions and of ScyllaDB | `options/other_options.rs`, `options/tombstone_gc.rs` |
//! | which types are inside a type, how they change | `schema/user_types.rs` |
//! | roles, and the effective service level of each | `access/`, `access/service_level.rs` |
//! | permissions, and the resources that have them | `access/permission.rs` |
//! | the system tables: columns, ids | `system/mod.rs`, `system/definition.rs` |
//! | system tables that are computed when they are read | `system/virtual_tables.rs` |
//! | a change as writes to the system tables | `schema/store.rs` |
//! | loading the catalog from the system tables | `schema/load.rs` |
//! | a table as CQL | `schema/display.rs` |
//! | secondary indexes: rows, names, CQL | `schema/indexes.rs` |
//! | change logs (CDC), and their streams | `schema/change_log.rs`, `options/change_log.rs` |
//! | user-defined functions and aggregates | `schema/functions.rs`, `schema/function_changes.rs` |
//!
//! **Invariant:** no clock, no disk, no thread. A [`Catalog`] is a value; a change returns a new one. Law
//! (tests in `tests/laws.rs`): [`load()`] reads exactly what [`mutations_for`] writes.

mod access;
mod error;
mod options;
mod schema;
pub mod system;
#[cfg(test)]
mod tests;

pub use access::permission::{Permission, Permissions, Resource};
pub use access::service_level::{
    Chosen, DEFAULT_LEVEL, DEFAULT_SHARES, DRIVER_LEVEL, DRIVER_SHARES, EffectiveLevel, ServiceLevel,
    Workload,
};
pub use access::{Access, LevelChange, Role, RoleChange};
pub use error::CatalogError;
pub use options::column_mask::{ColumnMask, MaskArgument};
pub use options::compression::{compression_from_map, compression_to_map};
pub use options::other_options::{OptionValue, is_of_keyspaces, is_of_tables, keyspace_option, table_option};
pub use options::settings::TableSettings;
pub use options::tombstone_gc::TombstoneGcMode;
pub use schema::catalog::{Catalog, Changed, Table};
pub use schema::change::{ChangeKind, SchemaChange, Target};
pub use schema::change_log::{generation, generations_key};
pub use schema::display::{
    Internals, describe_keyspace, describe_table, describe_table_with, describe_type, describe_view,
};
pub use schema::functions::{
    Program, ScriptEngine, Scripts, UserAggregate, UserFunction, describe_aggregate, describe_function,
    described_types, type_names,
};
pub use schema::indexes;
pub use schema::indexes::{describe_index, index_from_options, index_options};
pub use schema::keyspace::{Factors, Keyspace};
pub use schema::load::load;
pub use schema::recreate::{recreate_table, user_types_of};
pub use schema::store::mutations_for;
pub use system::virtual_tables;
pub use system::virtual_tables::virtual_tables;
pub use system::{
    COMPACTION_HISTORY_TTL_S, SYSTEM_KEYSPACES, cdc_generations, cdc_streams, compaction_history,
    is_system_keyspace, stored_tables, system_tables,
};
