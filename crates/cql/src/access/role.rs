//! CREATE, ALTER and DROP ROLE.

use catalog::{Access, Permission, Resource, RoleChange};
use protocol::CqlError;
use syntax::{Password, RoleOptions};

use super::{Actor, change, unauthorized};
use crate::error::invalid;
use crate::{ClientState, Coordinator, Outcome};

pub(super) async fn create<C: Coordinator>(
    actor: &Actor<'_, C>,
    name: &str,
    options: &RoleOptions,
    if_not_exists: bool,
) -> Result<Outcome, CqlError> {
    actor.may_manage(Permission::Create, &Resource::AllRoles)?;
    if options.superuser == Some(true) && !actor.is_superuser() {
        return unauthorized("Only superusers can create a role with superuser status");
    }
    if actor.access().role(name).is_some() {
        // Hashing a password takes long, so the check comes first.
        return if if_not_exists { Ok(Outcome::Void) } else { invalid!("{name} already exists") };
    }
    let (name, role) = (name.to_string(), changed(actor.coordinator, options).await?);
    let creator = actor.user.clone().filter(|_| actor.coordinator.checks_permissions());
    let create = move |access: &mut Access| {
        let is_new = access.role(&name).is_none();
        access.create_role(&name, role, if_not_exists)?;
        match creator.filter(|creator| is_new && access.role(creator).is_some()) {
            Some(creator) => {
                let resource = Resource::Role(name);
                access.grant(resource.applicable(), &resource, &creator).map(|_| ())
            }
            None => Ok(()),
        }
    };
    change(actor.coordinator, create).await
}

pub(super) async fn alter<C: Coordinator>(
    actor: &Actor<'_, C>,
    name: &str,
    options: &RoleOptions,
    if_exists: bool,
) -> Result<Outcome, CqlError> {
    if *options == RoleOptions::default() {
        return invalid!("ALTER [ROLE|USER] can't be empty");
    }
    let user = actor.logged_in()?;
    if options.superuser.is_some() {
        if actor.access().roles_of(user, true).contains(name) {
            return unauthorized(
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            );
        }
        if !actor.is_superuser() {
            return unauthorized("Only superusers are allowed to alter superuser status");
        }
    }
    if !actor.is_superuser() {
        if user == name && options.login.is_some() {
            return unauthorized("You aren't allowed to alter LOGIN");
        }
        if user != name {
            actor.may_manage(Permission::Alter, &Resource::Role(name.to_string()))?;
            // Cassandra has no such rule: there, a role that may alter all roles can set a superuser's
            // password.
            if actor.access().is_superuser(name) {
                return unauthorized("Only superusers are allowed to alter superusers");
            }
        }
    }
    if actor.access().role(name).is_none() {
        return if if_exists { Ok(Outcome::Void) } else { invalid!("Role {name} doesn't exist") };
    }
    let (name, role) = (name.to_string(), changed(actor.coordinator, options).await?);
    change(actor.coordinator, move |access| access.alter_role(&name, role)).await
}

pub(super) async fn drop<C: Coordinator>(
    actor: &Actor<'_, C>,
    name: &str,
    if_exists: bool,
) -> Result<Outcome, CqlError> {
    actor.may_manage(Permission::Drop, &Resource::Role(name.to_string()))?;
    if actor.access().is_superuser(name) && !actor.is_superuser() {
        return unauthorized("Only superusers can drop a role with superuser status");
    }
    if if_exists && actor.access().role(name).is_none() {
        return Ok(Outcome::Void);
    }
    actor.expect_role(name)?;
    if actor.user.as_deref() == Some(name) {
        return invalid!("Cannot DROP primary role for current login");
    }
    let name = name.to_string();
    change(actor.coordinator, move |access| access.drop_role(&name)).await
}

async fn changed<C: ClientState>(coordinator: &C, options: &RoleOptions) -> Result<RoleChange, CqlError> {
    let salted_hash = match &options.password {
        None => None,
        Some(Password::Plain(password)) => Some(coordinator.hash_password(password).await?),
        Some(Password::Hashed(hash)) if is_hash(hash) => Some(hash.clone()),
        Some(Password::Hashed(_)) => return invalid!("Invalid hashed password value. Please use jBcrypt."),
    };
    Ok(RoleChange { can_login: options.login, is_superuser: options.superuser, salted_hash })
}

/// Whether the text is a bcrypt hash: a prefix such as `$2a$10$` and 53 characters.
fn is_hash(text: &str) -> bool {
    let mut parts = text.split('$');
    let (empty, version, cost, hash) = (parts.next(), parts.next(), parts.next(), parts.next());
    empty == Some("")
        && version.is_some_and(|version| matches!(version, "2a" | "2b" | "2x" | "2y"))
        && cost.and_then(|cost| cost.parse().ok()).is_some_and(|cost: u32| (4..=31).contains(&cost))
        && hash.is_some_and(|hash| hash.len() == 53 && hash.is_ascii())
        && parts.next().is_none()
}
