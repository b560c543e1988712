//! CREATE, ALTER and DROP ROLE.

use catalog::RoleChange;
use protocol::CqlError;
use syntax::{Password, RoleOptions};

use super::{Actor, change, unauthorized};
use crate::error::invalid;
use crate::{ClientState, Outcome, Storage};

pub(super) async fn create<C: Storage + ClientState>(
    actor: &Actor,
    coordinator: &C,
    name: &str,
    options: &RoleOptions,
    if_not_exists: bool,
) -> Result<Outcome, CqlError> {
    actor.logged_in()?;
    if actor.access.role(name).is_some() {
        // Hashing a password takes long, so the check comes first.
        return if if_not_exists { Ok(Outcome::Void) } else { invalid!("{name} already exists") };
    }
    if options.superuser == Some(true) && !actor.is_superuser() {
        return unauthorized("Only superusers can create a role with superuser status");
    }
    let (name, role) = (name.to_string(), changed(coordinator, options).await?);
    change(coordinator, move |access| access.create_role(&name, role, if_not_exists)).await
}

pub(super) async fn alter<C: Storage + ClientState>(
    actor: &Actor,
    coordinator: &C,
    name: &str,
    options: &RoleOptions,
    if_exists: bool,
) -> Result<Outcome, CqlError> {
    if *options == RoleOptions::default() {
        return invalid!("ALTER [ROLE|USER] can't be empty");
    }
    let user = actor.logged_in()?;
    if if_exists && actor.access.role(name).is_none() {
        return Ok(Outcome::Void);
    }
    actor.expect_role(name)?;
    if options.superuser.is_some() {
        if actor.access.roles_of(user, true).contains(name) {
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
        // There are no permissions yet, so this check is all that prevents users from changing a superuser's
        // password.
        if user != name && actor.access.is_superuser(name) {
            return unauthorized("Only superusers are allowed to alter superusers");
        }
    }
    let (name, role) = (name.to_string(), changed(coordinator, options).await?);
    change(coordinator, move |access| access.alter_role(&name, role)).await
}

pub(super) async fn drop<C: Storage>(
    actor: &Actor,
    coordinator: &C,
    name: &str,
    if_exists: bool,
) -> Result<Outcome, CqlError> {
    let user = actor.logged_in()?;
    if if_exists && actor.access.role(name).is_none() {
        return Ok(Outcome::Void);
    }
    actor.expect_role(name)?;
    if user == name {
        return invalid!("Cannot DROP primary role for current login");
    }
    if actor.access.is_superuser(name) && !actor.is_superuser() {
        return unauthorized("Only superusers can drop a role with superuser status");
    }
    let name = name.to_string();
    change(coordinator, move |access| access.drop_role(&name)).await
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
