//! Statements that change the schema: from the tree to a change of the catalog.
//!
//! [`plan`] judges first whether what the text names is there, then what the text alone decides (unknown options,
//! values out of range), and gives a function of the catalog, which judges the rest when it is run where the schema
//! is changed. Rules and texts are Cassandra 4.1's
//! (source: `cql3/statements/schema/*.java`).
//!
//! | question | file |
//! |---|---|
//! | which keyspace, table or type is meant | `names.rs` |
//! | what `IF [NOT] EXISTS` leaves to do | `existence.rs` |
//! | keyspaces | `keyspace.rs` |
//! | a new table: keys, order, counters | `create_table.rs` |
//! | what may become of a table | `alter_table.rs` |
//! | user types | `user_type.rs` |
//! | what stands behind WITH | `properties.rs`, `table_options.rs` |

mod alter_table;
mod create_table;
mod existence;
mod keyspace;
mod names;
mod properties;
mod table_options;
#[cfg(test)]
pub(crate) mod tests;
mod user_type;

use catalog::{Catalog, CatalogError, ChangeKind, Changed, Target};
use uuid::Uuid;

use crate::protocol::{ChangeType, SchemaChange, SchemaTarget};
use crate::syntax::ast::Statement;
use crate::{ChangeSchema, CqlError};

pub use names::{keyspace_of, table_of, truncated_table, used_keyspace};

/// What a change of the schema needs beside its text.
#[derive(Clone, Copy, Debug)]
pub struct SchemaContext<'a> {
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// Columns that are dropped without a timestamp are dropped as of now.
    pub timestamp_us: i64,
    /// The id of the table that is created; no table has it.
    pub new_table_id: Uuid,
    /// The node's, the only one that `NetworkTopologyStrategy` may name; empty: there is no node, and it may name any.
    pub data_center: &'a str,
}

/// What is to be done.
pub struct SchemaPlan {
    /// Gives no changes if `IF [NOT] EXISTS` left nothing to do.
    pub change: ChangeSchema,
    /// For the client, if the change succeeds.
    pub warnings: Vec<String>,
}

impl SchemaPlan {
    fn new(change: impl FnOnce(&Catalog) -> Changed + Send + 'static) -> Self {
        Self { change: Box::new(change), warnings: vec![] }
    }

    fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

/// The plan of a statement that creates, alters or drops something; `None` for every other statement.
///
/// # Errors
/// What the statement names is there or is not there, or it is wrong whatever the catalog holds.
pub fn plan(
    statement: &Statement,
    catalog: &Catalog,
    context: &SchemaContext<'_>,
) -> Result<Option<SchemaPlan>, CqlError> {
    if !existence::has_work(statement, catalog, context.keyspace)? {
        return Ok(Some(SchemaPlan::new(unchanged)));
    }
    Ok(Some(match statement {
        Statement::CreateKeyspace(create) => keyspace::create(create, context)?,
        Statement::AlterKeyspace(alter) => keyspace::alter(alter, context)?,
        Statement::DropKeyspace(drop) => keyspace::drop(drop)?,
        Statement::CreateTable(create) => create_table::plan(create, context)?,
        Statement::AlterTable(alter) => alter_table::plan(alter, context)?,
        Statement::DropTable(drop) => alter_table::drop(drop, context)?,
        Statement::CreateType(create) => user_type::create(create, context)?,
        Statement::AlterType(alter) => user_type::alter(alter, context)?,
        Statement::DropType(drop) => user_type::drop(drop, context)?,
        _ => return Ok(None),
    }))
}

/// What the client is answered: the change that its statement asked for, without those that followed from it;
/// `None` is a void result.
pub fn answer(changes: &[catalog::SchemaChange]) -> Option<SchemaChange> {
    let of_keyspace = changes.iter().find(|change| change.target == Target::Keyspace);
    of_keyspace.or(changes.first()).map(event)
}

/// A change as clients that registered for it are told.
pub fn event(change: &catalog::SchemaChange) -> SchemaChange {
    SchemaChange {
        change: match change.kind {
            ChangeKind::Created => ChangeType::Created,
            ChangeKind::Updated => ChangeType::Updated,
            ChangeKind::Dropped => ChangeType::Dropped,
        },
        keyspace: change.keyspace.clone(),
        target: match &change.target {
            Target::Keyspace => SchemaTarget::Keyspace,
            Target::Table { name, .. } => SchemaTarget::Table(name.clone()),
            Target::Type { name } => SchemaTarget::Type(name.clone()),
        },
    }
}

fn unchanged(catalog: &Catalog) -> Changed {
    Ok((catalog.clone(), vec![]))
}

/// `Err(CatalogError::Invalid)` from a format string.
macro_rules! refuse {
    ($($arg:tt)*) => {
        Err(catalog::CatalogError::Invalid(format!($($arg)*)).into())
    };
}
use refuse;

/// Inside a change, what was already found right at planning cannot be wrong for its text.
fn to_catalog_error(error: CqlError) -> CatalogError {
    match error {
        CqlError::AlreadyExists { keyspace, table } => CatalogError::AlreadyExists { keyspace, table },
        CqlError::Config(text) => CatalogError::Configuration(text),
        CqlError::Unauthorized(text) => CatalogError::Unauthorized(text),
        other => CatalogError::Invalid(other.to_string()),
    }
}
