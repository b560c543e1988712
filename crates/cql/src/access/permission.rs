//! GRANT, REVOKE and LIST of permissions.

use std::collections::BTreeSet;

use catalog::virtual_tables::is_virtual_keyspace;
use catalog::{Permission, Permissions, Resource, is_system_keyspace};
use model::types::CqlValue;
use protocol::CqlError;
use syntax::{Ident, Keyword, ResourceName, TypeName};

use super::{Actor, authorize, change, list};
use crate::error::{from_catalog, invalid};
use crate::schema::keyspace_of;
use crate::{Coordinator, Outcome};

pub(super) async fn grant<C: Coordinator>(
    actor: &Actor<'_, C>,
    permissions: Option<&[Keyword]>,
    on: &ResourceName,
    to: &Ident,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let (permissions, resource) = checked(actor, "GRANT", permissions, on, to)?;
    check_system(&resource, permissions)?;
    let had = granted(actor, to.as_str(), &resource).and(permissions);
    if !had.is_empty() {
        warnings.push(format!("Role '{}' was already granted {had} on {resource}", to.as_str()));
    }
    let to = to.text.clone();
    change(actor.coordinator, move |access| access.grant(permissions, &resource, &to).map(|_| ())).await
}

pub(super) async fn revoke<C: Coordinator>(
    actor: &Actor<'_, C>,
    permissions: Option<&[Keyword]>,
    on: &ResourceName,
    from: &Ident,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    let (permissions, resource) = checked(actor, "REVOKE", permissions, on, from)?;
    let lacked = permissions.without(granted(actor, from.as_str(), &resource));
    if !lacked.is_empty() {
        warnings.push(format!("Role '{}' was not granted {lacked} on {resource}", from.as_str()));
    }
    let from = from.text.clone();
    change(actor.coordinator, move |access| access.revoke(permissions, &resource, &from).map(|_| ())).await
}

/// On system keyspaces and their tables only SELECT, DESCRIBE and ALTER can be granted, as in Cassandra.
fn check_system(resource: &Resource, permissions: Permissions) -> Result<(), CqlError> {
    let is_of_data =
        matches!(resource, Resource::Keyspace(_) | Resource::AllTables(_) | Resource::Table { .. });
    let is_stored = |keyspace| is_system_keyspace(keyspace) && !is_virtual_keyspace(keyspace);
    let allowed: Permissions =
        [Permission::Select, Permission::Describe, Permission::Alter].into_iter().collect();
    if is_of_data && resource.keyspace().is_some_and(is_stored) && !permissions.without(allowed).is_empty() {
        return super::unauthorized(
            "Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
        );
    }
    Ok(())
}

/// The permissions granted to the role itself on the resource itself.
fn granted<C: Coordinator>(actor: &Actor<'_, C>, role: &str, resource: &Resource) -> Permissions {
    let role = actor.access().role(role);
    role.and_then(|role| role.permissions.get(&resource.name())).copied().unwrap_or_default()
}

/// Interprets the permissions and the resource of GRANT or REVOKE, and checks that the user may pass them on.
fn checked<C: Coordinator>(
    actor: &Actor<'_, C>,
    operation: &str,
    permissions: Option<&[Keyword]>,
    on: &ResourceName,
    role: &Ident,
) -> Result<(Permissions, Resource), CqlError> {
    let resource = resource_of(actor, on)?;
    let permissions = permissions_of(permissions).and(resource.applicable());
    if permissions.is_empty() {
        return Err(CqlError::Syntax(format!(
            "Resource type {} does not support any of the requested permissions",
            resource.class()
        )));
    }
    actor.logged_in()?;
    expect_authorizer(actor, operation)?;
    let (coordinator, catalog) = (actor.coordinator, &actor.catalog);
    authorize::check(coordinator, catalog, Permission::Authorize, &resource)?;
    for permission in permissions.iter() {
        authorize::check(coordinator, catalog, permission, &resource)?;
    }
    if actor.access().role(role.as_str()).is_none() {
        return invalid!("Role {} doesn't exist", role.as_str());
    }
    let is_function = matches!(resource, Resource::Functions(_) | Resource::Function { .. });
    if is_function && resource.keyspace() == Some("system") {
        return invalid!("Altering permissions on builtin functions is not supported");
    }
    if !exists(actor, &resource) {
        return invalid!("Resource {resource} doesn't exist");
    }
    Ok((permissions, resource))
}

fn expect_authorizer<C: Coordinator>(actor: &Actor<'_, C>, operation: &str) -> Result<(), CqlError> {
    if actor.coordinator.checks_permissions() {
        return Ok(());
    }
    invalid!("{operation} operation is not supported by AllowAllAuthorizer")
}

/// `None`: all.
fn permissions_of(words: Option<&[Keyword]>) -> Permissions {
    let Some(words) = words else { return Permissions::ALL };
    words.iter().filter_map(|word| Permission::from_name(word.text())).collect()
}

fn resource_of<C: Coordinator>(actor: &Actor<'_, C>, name: &ResourceName) -> Result<Resource, CqlError> {
    Ok(match name {
        ResourceName::AllKeyspaces => Resource::AllKeyspaces,
        ResourceName::Keyspace(keyspace) => Resource::Keyspace(keyspace.text.clone()),
        ResourceName::AllTables(keyspace) => Resource::AllTables(keyspace.text.clone()),
        ResourceName::Table(table) => Resource::table(keyspace_of(table, actor.keyspace)?, &table.name.text),
        ResourceName::AllRoles => Resource::AllRoles,
        ResourceName::Role(role) => Resource::Role(role.text.clone()),
        ResourceName::AllFunctions => Resource::AllFunctions,
        ResourceName::Functions(keyspace) => Resource::Functions(keyspace.text.clone()),
        ResourceName::Function { name, arguments } => match &name.keyspace {
            Some(keyspace) => Resource::Function {
                keyspace: keyspace.text.clone(),
                name: name.name.text.clone(),
                arguments: argument_types(actor, &keyspace.text, arguments)?,
            },
            // The spelling is Cassandra's.
            None => {
                return invalid!("In this context function name must be explictly qualified by a keyspace");
            }
        },
        ResourceName::Mbeans(_) => {
            return invalid!("Permissions on MBeans are not supported: this node has no JMX");
        }
    })
}

/// The types of a function as its resource has them.
fn argument_types<C: Coordinator>(
    actor: &Actor<'_, C>,
    keyspace: &str,
    arguments: &[TypeName],
) -> Result<Vec<String>, CqlError> {
    let name = |ty: &TypeName| {
        let ty = actor.catalog.parse_type(keyspace, &ty.to_string()).map_err(from_catalog)?;
        Ok(ty.to_cql())
    };
    arguments.iter().map(name).collect()
}

fn exists<C: Coordinator>(actor: &Actor<'_, C>, resource: &Resource) -> bool {
    match resource {
        Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions => true,
        Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::Functions(keyspace) => {
            actor.catalog.keyspace(keyspace).is_some()
        }
        Resource::Table { keyspace, name } => actor.catalog.table(keyspace, name).is_some(),
        Resource::Role(role) => actor.access().role(role).is_some(),
        Resource::Function { keyspace, .. } => {
            let catalog = &actor.catalog;
            catalog.functions(keyspace).any(|known| known.resource() == *resource)
                || catalog.aggregates(keyspace).any(|known| known.resource() == *resource)
        }
    }
}

/// LIST of permissions. Users see their own, those of roles granted to them and those of roles on which they
/// have DESCRIBE; superusers see all.
pub(super) fn list<C: Coordinator>(
    actor: &Actor<'_, C>,
    permissions: Option<&[Keyword]>,
    on: Option<&ResourceName>,
    of: Option<&Ident>,
    is_recursive: bool,
) -> Result<Outcome, CqlError> {
    let user = actor.logged_in()?;
    let on = on.map(|on| resource_of(actor, on)).transpose()?;
    let permissions = permissions_of(permissions);
    if let Some(resource) = on.as_ref().filter(|resource| !exists(actor, resource)) {
        return invalid!("{resource} doesn't exist");
    }
    if let Some(role) = of.filter(|role| actor.access().role(role.as_str()).is_none()) {
        return invalid!("<role {}> doesn't exist", role.as_str());
    }
    expect_authorizer(actor, "LIST PERMISSIONS")?;
    let is_own = of.is_some_and(|role| actor.access().roles_of(user, true).contains(role.as_str()));
    let roles = of.map_or(Resource::AllRoles, |role| Resource::Role(role.text.clone()));
    let sees = authorize::may(actor.coordinator, &actor.catalog, Permission::Describe, &roles);
    if !is_own && !sees {
        let whose = of.map_or("everyone", |role| role.as_str());
        return super::unauthorized(&format!("You are not authorized to view {whose}'s permissions"));
    }
    let names: Option<BTreeSet<String>> = on.map(|resource| match is_recursive {
        true => resource.chain().map(|resource| resource.name()).collect(),
        false => [resource.name()].into(),
    });
    let of = of.map(|role| actor.access().roles_of(role.as_str(), true));
    let text = |text: &str| Some(CqlValue::Text(text.to_string()));
    let mut found = list::permission_rows();
    for (role, granted) in actor.access().roles() {
        if of.as_ref().is_some_and(|of| !of.contains(role)) {
            continue;
        }
        for (name, granted) in &granted.permissions {
            let is_wanted = names.as_ref().is_none_or(|names| names.contains(name));
            let Some(resource) = Resource::from_name(name).filter(|_| is_wanted) else { continue };
            let resource = resource.to_string();
            for permission in granted.and(permissions).iter() {
                found.push_cells([text(role), text(role), text(&resource), text(permission.name())]);
            }
        }
    }
    if found.rows.is_empty() {
        return Ok(Outcome::Void);
    }
    list::done(&found)
}
