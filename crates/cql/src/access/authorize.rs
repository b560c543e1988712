//! Decides whether a user may execute a statement.
//!
//! Statements on data know at their preparation which permissions on which tables they need ([`TableNeed`]);
//! the node answers from a cache of the connection ([`Coordinator::table_permissions`]). All other statements
//! are rare: [`required`] names the permission and the resource, and [`check`] asks the roles of the catalog.
//!
//! Tables that drivers need for their discovery are readable without a permission. Error messages are those
//! of Cassandra (source: 5.0 `service/ClientState.java` and `authorize` of each statement).

use std::sync::Arc;

use catalog::{Catalog, ChangeKind, Permission, Resource, Target, is_system_keyspace};
use model::TableSchema;
use protocol::CqlError;
use syntax::ast::{AlterView, DropView, QualifiedName};
use syntax::{Statement, Truncate};

use crate::schema;
use crate::select::SelectPlan;
use crate::{ChangeSchema, Coordinator};

/// A permission on a table that a statement on data needs.
#[derive(Debug)]
pub(crate) struct TableNeed {
    table: Arc<TableSchema>,
    permission: Permission,
    /// Needed only while columns are masked.
    is_for_masks: bool,
}

impl TableNeed {
    /// The permission that a SELECT needs; `None` for tables that drivers read for discovery.
    pub fn read(table: &Arc<TableSchema>) -> Option<Self> {
        let is_open = is_readable_by_all(&table.keyspace, &table.name);
        (!is_open).then(|| Self::new(table, Permission::Select))
    }

    /// The permission that INSERT, UPDATE and DELETE need.
    pub fn write(table: &Arc<TableSchema>) -> Self {
        Self::new(table, Permission::Modify)
    }

    /// What a conditional statement on a table with masked columns needs. Cassandra has no such rule.
    pub fn unmask(table: &Arc<TableSchema>) -> Self {
        Self { is_for_masks: true, ..Self::new(table, Permission::Unmask) }
    }

    fn new(table: &Arc<TableSchema>, permission: Permission) -> Self {
        Self { table: table.clone(), permission, is_for_masks: false }
    }
}

/// Tables that every user may read, because drivers and tools do.
fn is_readable_by_all(keyspace: &str, table: &str) -> bool {
    match keyspace {
        "system_schema" | "system_virtual_schema" => true,
        // Otherwise a client could not read its own traces.
        "system_traces" => matches!(table, "events" | "sessions"),
        "system" => {
            matches!(table, "local" | "peers" | "peers_v2" | "size_estimates" | "table_estimates")
        }
        _ => false,
    }
}

/// Checks the permissions of a statement on data. Called for every execution; it allocates only for an error.
///
/// # Errors
/// The user lacks a permission.
#[inline]
pub(crate) fn check_tables<C: Coordinator>(needs: &[TableNeed], coordinator: &C) -> Result<(), CqlError> {
    for TableNeed { table, permission, is_for_masks } in needs {
        if *is_for_masks && !coordinator.masks_columns() {
            continue;
        }
        if !coordinator.table_permissions(table).has(*permission) {
            return Err(table_denied(coordinator, table, *permission));
        }
    }
    Ok(())
}

/// Checks that the user may execute the functions that a statement calls.
///
/// # Errors
/// The user lacks a permission.
#[inline]
pub(crate) fn check_functions<C: Coordinator>(
    executes: &[Resource],
    coordinator: &C,
) -> Result<(), CqlError> {
    if executes.is_empty() || !coordinator.checks_permissions() {
        return Ok(());
    }
    let catalog = coordinator.catalog();
    executes.iter().try_for_each(|resource| check(coordinator, &catalog, Permission::Execute, resource))
}

/// The variant of a SELECT that the user may see: with the values of masked columns, or with their masks.
///
/// # Errors
/// The statement restricts masked columns, and the user has neither UNMASK nor SELECT_MASKED.
pub(crate) fn visible<'p, C: Coordinator>(
    plan: &'p SelectPlan,
    coordinator: &C,
) -> Result<&'p SelectPlan, CqlError> {
    let Some(masked) = plan.masked().filter(|_| coordinator.masks_columns()) else { return Ok(plan) };
    let schema = masked.schema();
    let permissions = coordinator.table_permissions(schema);
    if permissions.has(Permission::Unmask) {
        return Ok(plan);
    }
    if !masked.restricted.is_empty() && !permissions.has(Permission::SelectMasked) {
        let user = coordinator.user();
        return Err(CqlError::Unauthorized(format!(
            "User {} has no UNMASK nor SELECT_MASKED permission on table {}, cannot query masked columns [{}]",
            user.as_deref().unwrap_or("anonymous"),
            schema.full_name(),
            masked.restricted.join(", ")
        )));
    }
    Ok(&masked.plan)
}

#[cold]
fn table_denied<C: Coordinator>(coordinator: &C, table: &TableSchema, permission: Permission) -> CqlError {
    denied(coordinator.user().as_deref(), permission, &Resource::table(&table.keyspace, &table.name))
}

fn denied(user: Option<&str>, permission: Permission, resource: &Resource) -> CqlError {
    let user = user.unwrap_or("anonymous");
    CqlError::Unauthorized(format!(
        "User {user} has no {permission} permission on {resource} or any of its parents"
    ))
}

/// Whether the user has a permission on the resource or on a group that it belongs to. Without an authorizer
/// every user has all permissions.
pub(crate) fn may<C: Coordinator>(
    coordinator: &C,
    catalog: &Catalog,
    permission: Permission,
    resource: &Resource,
) -> bool {
    if !coordinator.checks_permissions() {
        return true;
    }
    let user = coordinator.user();
    user.is_some_and(|user| catalog.access().permissions_on(&user, resource).has(permission))
}

/// As [`may`], with Cassandra's error.
///
/// # Errors
/// The user lacks the permission.
pub(crate) fn check<C: Coordinator>(
    coordinator: &C,
    catalog: &Catalog,
    permission: Permission,
    resource: &Resource,
) -> Result<(), CqlError> {
    if may(coordinator, catalog, permission, resource) {
        return Ok(());
    }
    Err(denied(coordinator.user().as_deref(), permission, resource))
}

/// Checks the permission that TRUNCATE needs. As in Cassandra, the table need not exist.
///
/// # Errors
/// The user lacks the permission.
pub(crate) fn check_truncate<C: Coordinator>(
    truncate: &Truncate,
    in_use: Option<&str>,
    coordinator: &C,
    catalog: &Catalog,
) -> Result<(), CqlError> {
    let QualifiedName { keyspace, name } = &truncate.table;
    match keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(in_use) {
        Some(keyspace) => {
            check(coordinator, catalog, Permission::Modify, &Resource::table(keyspace, &name.text))
        }
        None => Ok(()),
    }
}

/// The permissions that a schema statement needs, and the resources. None: the statement needs no permission,
/// checks permissions itself (roles), or is refused anyway (system keyspaces, a missing keyspace).
pub(crate) fn required(
    statement: &Statement,
    in_use: Option<&str>,
    catalog: &Catalog,
) -> Vec<(Permission, Resource)> {
    let needs = match statement {
        Statement::CreateFunction(_)
        | Statement::CreateAggregate(_)
        | Statement::DropFunction(_)
        | Statement::DropAggregate(_) => schema::function_permissions(statement, in_use, catalog),
        other => required_one(other, in_use, catalog).into_iter().collect(),
    };
    // Changes of system keyspaces are refused whatever the permissions are.
    let is_system = |resource: &Resource| resource.keyspace().is_some_and(is_system_keyspace);
    needs.into_iter().filter(|(_, resource)| !is_system(resource)).collect()
}

fn required_one(
    statement: &Statement,
    in_use: Option<&str>,
    catalog: &Catalog,
) -> Option<(Permission, Resource)> {
    let keyspace = |name: &QualifiedName| {
        name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(in_use).map(str::to_string)
    };
    let table = |name: &QualifiedName| {
        Some(Resource::Table { keyspace: keyspace(name)?, name: name.name.text.clone() })
    };
    let tables = |name: &QualifiedName| Some(Resource::AllTables(keyspace(name)?));
    let (permission, resource) = match statement {
        Statement::CreateKeyspace(_) => (Permission::Create, Resource::AllKeyspaces),
        Statement::AlterKeyspace(alter) => (Permission::Alter, Resource::Keyspace(alter.name.text.clone())),
        Statement::DropKeyspace(drop) => (Permission::Drop, Resource::Keyspace(drop.name.text.clone())),
        Statement::CreateTable(create) => (Permission::Create, tables(&create.name)?),
        Statement::AlterTable(alter) => (Permission::Alter, table(&alter.name)?),
        Statement::DropTable(drop) => (Permission::Drop, table(&drop.name)?),
        Statement::CreateType(create) => (Permission::Create, tables(&create.name)?),
        Statement::AlterType(alter) => (Permission::Alter, tables(&alter.name)?),
        Statement::DropType(drop) => (Permission::Drop, tables(&drop.name)?),
        Statement::CreateIndex(create) => (Permission::Alter, table(&create.table)?),
        Statement::DropIndex(drop) => {
            let indexed = catalog.indexed_table(&keyspace(&drop.name)?, &drop.name.name.text)?;
            (Permission::Alter, Resource::table(&indexed.schema.keyspace, &indexed.schema.name))
        }
        Statement::CreateView(create) => {
            let keyspace = keyspace(&create.name)?;
            (Permission::Alter, Resource::Table { keyspace, name: create.base.name.text.clone() })
        }
        Statement::AlterView(AlterView { name, .. }) | Statement::DropView(DropView { name, .. }) => {
            let view = catalog.table(&keyspace(name)?, &name.name.text)?;
            let base = view.schema.view.as_ref()?;
            (Permission::Alter, Resource::table(&view.schema.keyspace, &base.base_name))
        }
        // These need several permissions.
        Statement::CreateFunction(_)
        | Statement::CreateAggregate(_)
        | Statement::DropFunction(_)
        | Statement::DropAggregate(_) => return None,
        // Statements on data are checked by `TableNeed` and `check_truncate`, statements on roles where they
        // are executed.
        Statement::Select(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Batch(_)
        | Statement::Truncate(_)
        | Statement::Access(_) => return None,
        Statement::Use(_) | Statement::Describe(_) | Statement::Unsupported(_) => return None,
    };
    Some((permission, resource))
}

/// The resources that a statement creates, on which its user gets all permissions.
fn created(statement: &Statement, in_use: Option<&str>) -> Vec<Resource> {
    match statement {
        Statement::CreateKeyspace(create) => {
            let name = &create.name.text;
            vec![Resource::Keyspace(name.clone()), Resource::Functions(name.clone())]
        }
        Statement::CreateTable(create) => {
            let keyspace = create.name.keyspace.as_ref().map(|keyspace| keyspace.text.as_str()).or(in_use);
            keyspace.map(|keyspace| Resource::table(keyspace, &create.name.name.text)).into_iter().collect()
        }
        _ => vec![],
    }
}

/// Adds the permissions of the creator on the new objects to the schema change. Both become visible together.
pub(crate) fn with_creator<C: Coordinator>(
    coordinator: &C,
    statement: &Statement,
    in_use: Option<&str>,
    change: ChangeSchema,
) -> ChangeSchema {
    let mut created = created(statement, in_use);
    let is_function = matches!(statement, Statement::CreateFunction(_) | Statement::CreateAggregate(_));
    let Some(user) = coordinator.user().filter(|_| coordinator.checks_permissions()) else { return change };
    if created.is_empty() && !is_function {
        return change;
    }
    Box::new(move |catalog| {
        let (catalog, changes) = change(catalog)?;
        // The resource of a function has the types of its arguments, which only the change knows.
        created.extend(changes.iter().filter_map(|change| match &change.target {
            Target::Function { name, arguments } | Target::Aggregate { name, arguments } => {
                Some(Resource::Function {
                    keyspace: change.keyspace.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                })
            }
            _ => None,
        }));
        let is_new = changes.iter().any(|change| change.kind == ChangeKind::Created);
        // The role may have been dropped since its user logged in.
        if !is_new || catalog.access().role(&user).is_none() {
            return Ok((catalog, changes));
        }
        let (catalog, _) = catalog.change_access(|access| {
            created
                .iter()
                .try_for_each(|resource| access.grant(resource.applicable(), resource, &user).map(|_| ()))
        })?;
        Ok((catalog, changes))
    })
}
