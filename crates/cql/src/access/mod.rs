//! Executes statements on roles and service levels.
//!
//! The catalog ([`catalog::Access`]) defines the effect of a change on roles and service levels, and checks
//! its consistency. This module interprets the statement, checks the user's rights and builds the answer.
//! Error messages are those of Cassandra and ScyllaDB (source: Cassandra 4.1 `cql3/statements/*Role*.java`;
//! ScyllaDB's documentation of service levels).
//!
//! Permissions on data are not implemented yet: a user who has logged in may execute every statement that is
//! not reserved for superusers. [`Actor`] is the place for permissions.

mod level;
mod list;
mod role;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use catalog::{Access, CatalogError};
use protocol::CqlError;
use syntax::AccessStatement;

use crate::{Coordinator, Outcome, Storage};

/// Executes a statement.
///
/// # Errors
/// The catalog refuses the change, the user may not execute the statement, or the storage fails.
pub async fn execute<C: Coordinator>(
    statement: &AccessStatement,
    coordinator: &C,
) -> Result<Outcome, CqlError> {
    use AccessStatement as S;
    let actor = Actor { access: coordinator.catalog().access().clone(), user: coordinator.user() };
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
            role::create(&actor, coordinator, name.as_str(), options, *if_not_exists).await
        }
        S::AlterRole { if_exists, name, options } => {
            role::alter(&actor, coordinator, name.as_str(), options, *if_exists).await
        }
        S::DropRole { if_exists, name } => role::drop(&actor, coordinator, name.as_str(), *if_exists).await,
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
        S::ListRoles { of, is_recursive } => {
            list::roles(&actor, of.as_ref().map(|role| role.as_str()), *is_recursive)
        }
        S::ListUsers => list::users(&actor),
        S::CreateLevel { if_not_exists, name, properties } => {
            let (name, if_not_exists) = (name.text.clone(), *if_not_exists);
            let levels_max = coordinator.service_levels_max();
            if if_not_exists && actor.access.level(&name).is_some() {
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

/// The user who executes a statement, and the roles of the catalog.
struct Actor {
    access: Arc<Access>,
    user: Option<Arc<str>>,
}

impl Actor {
    /// Returns the user's name, or an error for an anonymous user.
    fn logged_in(&self) -> Result<&str, CqlError> {
        self.user.as_deref().ok_or_else(|| {
            let text = "You have to be logged in and not anonymous to perform this request";
            CqlError::Unauthorized(text.to_string())
        })
    }

    fn is_superuser(&self) -> bool {
        self.user.as_deref().is_some_and(|user| self.access.is_superuser(user))
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
    fn may_pass_on(&self, role: &str) -> Result<(), CqlError> {
        self.logged_in()?;
        if self.access.is_superuser(role) && !self.is_superuser() {
            return unauthorized("Only superusers can grant or revoke a role with superuser status");
        }
        Ok(())
    }

    /// Returns an error if the role does not exist.
    fn expect_role(&self, name: &str) -> Result<(), CqlError> {
        match self.access.role(name) {
            Some(_) => Ok(()),
            None => Err(CqlError::Invalid(format!("{name} doesn't exist"))),
        }
    }
}

fn unauthorized<T>(text: &str) -> Result<T, CqlError> {
    Err(CqlError::Unauthorized(text.to_string()))
}

async fn change<C: Storage>(
    coordinator: &C,
    change: impl FnOnce(&mut Access) -> Result<(), CatalogError> + Send + 'static,
) -> Result<Outcome, CqlError> {
    coordinator.change_schema(Box::new(move |catalog| catalog.change_access(change))).await?;
    Ok(Outcome::Void)
}
