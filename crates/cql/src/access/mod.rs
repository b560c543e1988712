//! Executes statements on roles, permissions and service levels, and decides who may execute a statement.
//!
//! The catalog ([`catalog::Access`]) defines the effect of a change on roles, permissions and service levels,
//! and checks its consistency. This module interprets the statement, checks the user's rights and builds the
//! answer. Error messages are those of Cassandra and ScyllaDB (source: Cassandra 5.0
//! `cql3/statements/*Role*.java`, `*Permission*.java`; ScyllaDB's documentation of service levels).
//!
//! | question | file |
//! |---|---|
//! | which permissions a statement needs, and whether its user has them | `authorize.rs` |
//! | GRANT, REVOKE, LIST of permissions | `permission.rs` |
//! | CREATE, ALTER, DROP ROLE | `role.rs` |
//! | options of service levels | `level.rs` |
//! | LIST of roles, users and service levels | `list.rs` |

pub(crate) mod authorize;
mod level;
mod list;
mod permission;
mod role;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use catalog::{Access, Catalog, CatalogError, Permission, Resource};
use protocol::CqlError;
use syntax::AccessStatement;

use crate::{Coordinator, Outcome};

/// Executes a statement. `keyspace` is the keyspace in use.
///
/// # Errors
/// The catalog refuses the change, the user may not execute the statement, or the storage fails.
pub async fn execute<C: Coordinator>(
    statement: &AccessStatement,
    coordinator: &C,
    keyspace: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<Outcome, CqlError> {
    use AccessStatement as S;
    let actor = Actor { coordinator, catalog: coordinator.catalog(), user: coordinator.user(), keyspace };
    match statement {
        S::CreateLevel { .. }
        | S::AlterLevel { .. }
        | S::DropLevel { .. }
        | S::AttachLevel { .. }
        | S::DetachLevel { .. } => actor.may_change_levels()?,
        _ => {}
    }
    match statement {
        S::CreateRole { if_not_exists, name, options } => {
            role::create(&actor, name.as_str(), options, *if_not_exists).await
        }
        S::AlterRole { if_exists, name, options } => {
            role::alter(&actor, name.as_str(), options, *if_exists).await
        }
        S::DropRole { if_exists, name } => role::drop(&actor, name.as_str(), *if_exists).await,
        S::GrantRole { role, to } => {
            actor.may_pass_on(role.as_str())?;
            let (role, to) = (role.text.clone(), to.text.clone());
            change(coordinator, move |access| access.grant_role(&role, &to)).await
        }
        S::RevokeRole { role, from } => {
            actor.may_pass_on(role.as_str())?;
            let (role, from) = (role.text.clone(), from.text.clone());
            change(coordinator, move |access| access.revoke_role(&role, &from)).await
        }
        S::Grant { permissions, on, to } => {
            permission::grant(&actor, permissions.as_deref(), on, to, warnings).await
        }
        S::Revoke { permissions, on, from } => {
            permission::revoke(&actor, permissions.as_deref(), on, from, warnings).await
        }
        S::ListPermissions { permissions, on, of, is_recursive } => {
            permission::list(&actor, permissions.as_deref(), on.as_ref(), of.as_ref(), *is_recursive)
        }
        S::ListRoles { of, is_recursive } => {
            list::roles(&actor, of.as_ref().map(|role| role.as_str()), *is_recursive)
        }
        S::ListUsers => list::users(&actor),
        S::CreateLevel { if_not_exists, name, properties } => {
            let (name, if_not_exists) = (name.text.clone(), *if_not_exists);
            let levels_max = coordinator.service_levels_max();
            if if_not_exists && actor.access().level(&name).is_some() {
                return Ok(Outcome::Void);
            }
            let level = level::change(properties)?;
            change(coordinator, move |access| access.create_level(&name, level, if_not_exists, levels_max))
                .await
        }
        S::AlterLevel { name, properties } => {
            let (name, level) = (name.text.clone(), level::change(properties)?);
            change(coordinator, move |access| access.alter_level(&name, level)).await
        }
        S::DropLevel { if_exists, name } => {
            let (name, if_exists) = (name.text.clone(), *if_exists);
            change(coordinator, move |access| access.drop_level(&name, if_exists)).await
        }
        S::AttachLevel { level, role } => {
            let (level, role) = (level.text.clone(), role.text.clone());
            change(coordinator, move |access| access.attach_level(&level, &role)).await
        }
        S::DetachLevel { role } => {
            let role = role.text.clone();
            change(coordinator, move |access| access.detach_level(&role)).await
        }
        S::ListLevel(name) => list::level(&actor, name.as_str()),
        S::ListLevels => list::levels(&actor),
        S::ListAttached(of) => list::attached(&actor, of.as_ref().map(|role| role.as_str())),
        S::ListEffective(role) => list::effective(&actor, role.as_str()),
    }
}

/// The user who executes a statement, and the catalog as of its beginning.
struct Actor<'a, C> {
    coordinator: &'a C,
    catalog: Catalog,
    user: Option<Arc<str>>,
    /// The keyspace in use.
    keyspace: Option<&'a str>,
}

impl<C: Coordinator> Actor<'_, C> {
    fn access(&self) -> &Access {
        self.catalog.access()
    }

    /// Returns the user's name, or an error for an anonymous user.
    fn logged_in(&self) -> Result<&str, CqlError> {
        self.user.as_deref().ok_or_else(|| {
            let text = "You have to be logged in and not anonymous to perform this request";
            CqlError::Unauthorized(text.to_string())
        })
    }

    fn is_superuser(&self) -> bool {
        self.user.as_deref().is_some_and(|user| self.access().is_superuser(user))
    }

    /// Checks a permission on a role or on all roles.
    fn may_manage(&self, permission: Permission, resource: &Resource) -> Result<(), CqlError> {
        let user = self.logged_in()?;
        if authorize::may(self.coordinator, &self.catalog, permission, resource) {
            return Ok(());
        }
        unauthorized(&format!(
            "User {user} does not have sufficient privileges to perform the requested operation"
        ))
    }

    /// Only superusers may change service levels and attach them to roles. Without authentication there are
    /// no users, and every client may.
    fn may_change_levels(&self) -> Result<(), CqlError> {
        if self.user.is_some() && !self.is_superuser() {
            return unauthorized("Only superusers are allowed to change service levels");
        }
        Ok(())
    }

    /// Only superusers may grant or revoke a superuser's role, because the role makes its members superusers.
    /// Cassandra has no such rule.
    fn may_pass_on(&self, role: &str) -> Result<(), CqlError> {
        self.may_manage(Permission::Authorize, &Resource::Role(role.to_string()))?;
        if self.access().is_superuser(role) && !self.is_superuser() {
            return unauthorized("Only superusers can grant or revoke a role with superuser status");
        }
        Ok(())
    }

    /// Returns an error if the role does not exist.
    fn expect_role(&self, name: &str) -> Result<(), CqlError> {
        match self.access().role(name) {
            Some(_) => Ok(()),
            None => Err(CqlError::Invalid(format!("{name} doesn't exist"))),
        }
    }
}

fn unauthorized<T>(text: &str) -> Result<T, CqlError> {
    Err(CqlError::Unauthorized(text.to_string()))
}

async fn change<C: Coordinator>(
    coordinator: &C,
    change: impl FnOnce(&mut Access) -> Result<(), CatalogError> + Send + 'static,
) -> Result<Outcome, CqlError> {
    coordinator.change_schema(Box::new(move |catalog| catalog.change_access(change))).await?;
    Ok(Outcome::Void)
}
