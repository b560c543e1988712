//! Schema statements: from the syntax tree to a change of the catalog.
//!
//! [`plan`] first checks whether the named object exists. It then checks the rules that depend only on the
//! text, such as unknown options and values out of range. The plan has a function of the catalog, which
//! checks the other rules when the schema is changed. Rules and error messages are those of Cassandra 4.1
//! (source: `cql3/statements/schema/*.java`).
//!
//! | question | file |
//! |---|---|
//! | keyspace, table or type that a name means | `names.rs` |
//! | work that `IF [NOT] EXISTS` leaves | `existence.rs` |
//! | keyspaces | `keyspace.rs` |
//! | creating a table: keys, order, counters | `create_table.rs` |
//! | changes of a table | `alter_table.rs` |
//! | masks of columns | `mask.rs` |
//! | user types | `user_type.rs` |
//! | materialized views, and their base tables | `view.rs` |
//! | user-defined functions and aggregates | `function.rs` |
//! | indexes | `index.rs`; storage-attached `storage_attached.rs` |
//! | options after WITH | `properties.rs`, `table_options.rs` |

mod alter_table;
mod create_table;
mod existence;
mod function;
mod index;
mod keyspace;
mod mask;
mod names;
mod properties;
mod storage_attached;
mod table_options;
#[cfg(test)]
pub(crate) mod tests;
mod user_type;
mod view;

use catalog::{Catalog, CatalogError, ChangeKind, Changed, Target};
use protocol::{ChangeType, CqlError, SchemaChange, SchemaTarget};
use syntax::ast::Statement;
use uuid::Uuid;

use crate::{ChangeSchema, SchemaRules};

pub(crate) use function::permissions as function_permissions;
pub use names::{keyspace_of, table_of, truncated_table, used_keyspace};

/// Parameters of a schema change, besides its text.
#[derive(Clone, Copy, Debug)]
pub struct SchemaContext<'a> {
    /// The keyspace in use.
    pub keyspace: Option<&'a str>,
    /// Time of the statement in microseconds. Columns dropped without a timestamp are dropped as of this
    /// time.
    pub timestamp_us: i64,
    /// Id for a table or an index that the statement creates. No other table or index has it.
    pub new_table_id: Uuid,
    /// The node's data center, the only one that `NetworkTopologyStrategy` may name. If empty, there is no
    /// node, and any data center may be named.
    pub data_center: &'a str,
    /// What the configuration allows.
    pub rules: SchemaRules,
    /// The node counts as the replicas of all data centers, so any may be named.
    pub counts_as_all_replicas: bool,
    /// Columns may be masked: `dynamic_data_masking_enabled`.
    pub masks_columns: bool,
}

/// The prepared change of a schema statement.
pub struct SchemaPlan {
    /// Returns no changes if `IF [NOT] EXISTS` left nothing to do.
    pub change: ChangeSchema,
    /// Warnings for the client, if the change succeeds.
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

/// Plans a statement that creates, alters or drops a schema object; `None` for every other statement.
///
/// # Errors
/// The named object exists or does not exist, against the statement's demand, or the text is wrong for every
/// catalog.
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
        Statement::CreateIndex(create) => index::create(create, context)?,
        Statement::DropIndex(drop) => index::drop(drop, context)?,
        Statement::CreateView(create) => view::create(create, context)?,
        Statement::AlterView(alter) => view::alter(alter, context)?,
        Statement::DropView(drop) => view::drop(drop, context)?,
        Statement::CreateFunction(create) => function::create(create, catalog, context)?,
        Statement::CreateAggregate(create) => function::create_aggregate(create, catalog, context)?,
        Statement::DropFunction(drop) => function::drop(drop, function::Kind::Function, context)?,
        Statement::DropAggregate(drop) => function::drop(drop, function::Kind::Aggregate, context)?,
        _ => return Ok(None),
    }))
}

/// Returns the client's answer: the change that the statement asked for, without the changes that followed
/// from it. `None` is a void result.
pub fn answer(changes: &[catalog::SchemaChange]) -> Option<SchemaChange> {
    let of_keyspace = changes.iter().find(|change| change.target == Target::Keyspace);
    of_keyspace.or(changes.first()).map(event)
}

/// Converts a change to the event for clients that registered for schema changes.
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
            Target::Function { name, arguments } => {
                SchemaTarget::Function { name: name.clone(), arguments: arguments.clone() }
            }
            Target::Aggregate { name, arguments } => {
                SchemaTarget::Aggregate { name: name.clone(), arguments: arguments.clone() }
            }
        },
    }
}

fn unchanged(catalog: &Catalog) -> Changed {
    Ok((catalog.clone(), vec![]))
}

/// The errors of planning and of changing a catalog. Both refuse a statement.
trait Invalid {
    fn invalid(text: String) -> Self;
}

impl Invalid for CqlError {
    fn invalid(text: String) -> Self {
        Self::Invalid(text)
    }
}

impl Invalid for CatalogError {
    fn invalid(text: String) -> Self {
        Self::Invalid(text)
    }
}

/// Builds `Err` of `CqlError::Invalid` or `CatalogError::Invalid` from a format string.
macro_rules! refuse {
    ($($arg:tt)*) => {
        Err($crate::schema::Invalid::invalid(format!($($arg)*)))
    };
}
use refuse;

/// Converts an error inside a schema change. The text has been checked when the statement was planned, so
/// errors of the text alone do not occur here.
fn to_catalog_error(error: CqlError) -> CatalogError {
    match error {
        CqlError::AlreadyExists { keyspace, table } => CatalogError::AlreadyExists { keyspace, table },
        CqlError::Config(text) => CatalogError::Configuration(text),
        CqlError::Syntax(text) => CatalogError::Syntax(text),
        CqlError::Unauthorized(text) => CatalogError::Unauthorized(text),
        other => CatalogError::Invalid(other.to_string()),
    }
}
