//! LIST of roles, users and service levels.

use std::collections::BTreeSet;

use catalog::{EffectiveLevel, Permission, Resource, Role, ServiceLevel, Workload};
use model::CqlType;
use model::types::{CqlValue, Duration};
use protocol::CqlError;

use super::{Actor, authorize};
use crate::error::invalid;
use crate::row_set::RowSet;
use crate::{Coordinator, Outcome};

/// Keyspaces and tables in the metadata of the results, as in Cassandra and ScyllaDB. Except for
/// `system_auth.roles`, no such tables exist.
const ROLES: (&str, &str) = ("system_auth", "roles");
const PERMISSIONS: (&str, &str) = ("system_auth", "permissions");
const USERS: (&str, &str) = ("system_auth", "users");
const LEVELS: (&str, &str) = ("QOS", "service_levels");
const EFFECTIVE: (&str, &str) = ("QOS", "effective_service_level");

fn text(text: &str) -> Option<CqlValue> {
    Some(CqlValue::Text(text.to_string()))
}

fn boolean(value: bool) -> Option<CqlValue> {
    Some(CqlValue::Boolean(value))
}

fn duration(ms: u64) -> Duration {
    let nanoseconds = i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    Duration { months: 0, days: 0, nanoseconds }
}

fn rows(table: (&str, &str), columns: &[(&str, &str)]) -> RowSet {
    let of = |text: &str| CqlType::from_cql(text, &|_| None).expect("a type below is one of CQL");
    let columns: Vec<_> = columns.iter().map(|(name, ty)| (*name, of(ty))).collect();
    RowSet::new(table.0, table.1, &columns)
}

pub(super) fn done(rows: &RowSet) -> Result<Outcome, CqlError> {
    Ok(Outcome::Rows(rows.result_rows()))
}

pub(super) fn roles<C: Coordinator>(
    actor: &Actor<'_, C>,
    of: Option<&str>,
    is_recursive: bool,
) -> Result<Outcome, CqlError> {
    actor.logged_in()?;
    let mut found = rows(
        ROLES,
        &[
            ("role", "text"),
            ("super", "boolean"),
            ("login", "boolean"),
            ("options", "frozen<map<text, text>>"),
            ("datacenters", "text"),
        ],
    );
    let mut push = |name: &str, role: &Role| {
        let no_options = Some(CqlValue::Map(vec![]));
        found.push_cells([
            text(name),
            boolean(role.is_superuser),
            boolean(role.can_login),
            no_options,
            text("ALL"),
        ]);
    };
    if let Some(of) = of.filter(|of| actor.access().role(of).is_none()) {
        return invalid!("<role {of}> doesn't exist");
    }
    for name in visible(actor, of, is_recursive)? {
        actor.access().role(name).into_iter().for_each(|role| push(name, role));
    }
    done(&found)
}

/// The roles to list: `of` and the roles granted to it, or all. Users without DESCRIBE on all roles see only
/// themselves and the roles granted to them.
fn visible<'a, C: Coordinator>(
    actor: &'a Actor<'_, C>,
    of: Option<&str>,
    is_recursive: bool,
) -> Result<BTreeSet<&'a str>, CqlError> {
    let user = actor.logged_in()?;
    let access = actor.access();
    let sees_all =
        authorize::may(actor.coordinator, &actor.catalog, Permission::Describe, &Resource::AllRoles);
    match of {
        None if sees_all => Ok(access.roles().map(|(name, _)| name).collect()),
        None => Ok(access.roles_of(user, is_recursive)),
        Some(of) if sees_all || access.roles_of(user, true).contains(of) => {
            Ok(access.roles_of(of, is_recursive))
        }
        // The space at the end is Cassandra's.
        Some(of) => super::unauthorized(&format!("You are not authorized to view roles granted to {of} ")),
    }
}

/// The result of LIST of permissions, without rows.
pub(super) fn permission_rows() -> RowSet {
    let columns = [("role", "text"), ("username", "text"), ("resource", "text"), ("permission", "text")];
    rows(PERMISSIONS, &columns)
}

pub(super) fn users<C: Coordinator>(actor: &Actor<'_, C>) -> Result<Outcome, CqlError> {
    actor.logged_in()?;
    let mut found = rows(USERS, &[("name", "text"), ("super", "boolean"), ("datacenters", "text")]);
    for name in visible(actor, None, false)? {
        if !actor.access().role(name).is_some_and(|role| role.can_login) {
            continue;
        }
        found.push_cells([text(name), boolean(actor.access().is_superuser(name)), text("ALL")]);
    }
    done(&found)
}

const LEVEL_COLUMNS: [(&str, &str); 4] =
    [("service_level", "text"), ("timeout", "duration"), ("workload_type", "text"), ("shares", "int")];

fn level_cells(name: &str, level: &ServiceLevel) -> Vec<Option<CqlValue>> {
    let workload = Some(level.workload).filter(|workload| *workload != Workload::Unspecified);
    vec![
        text(name),
        level.timeout_ms.map(|ms| CqlValue::Duration(duration(ms))),
        workload.and_then(|workload| text(workload.name())),
        Some(CqlValue::Int(level.shares as i32)),
    ]
}

pub(super) fn level<C: Coordinator>(actor: &Actor<'_, C>, name: &str) -> Result<Outcome, CqlError> {
    let mut found = rows(LEVELS, &LEVEL_COLUMNS);
    match actor.access().level(name) {
        Some(level) => found.push_cells(level_cells(name, level)),
        None => return invalid!("Service Level {name} doesn't exists."),
    }
    done(&found)
}

pub(super) fn levels<C: Coordinator>(actor: &Actor<'_, C>) -> Result<Outcome, CqlError> {
    let mut columns = LEVEL_COLUMNS.to_vec();
    columns.push(("percentage of all service level shares", "text"));
    let mut found = rows(LEVELS, &columns);
    let all: u32 = actor.access().levels().map(|(_, level)| level.shares).sum();
    for (name, level) in actor.access().levels() {
        let percentage = f64::from(level.shares) * 100.0 / f64::from(all);
        let mut cells = level_cells(name, level);
        cells.push(text(&format!("{percentage:.2}%")));
        found.push_cells(cells);
    }
    done(&found)
}

pub(super) fn attached<C: Coordinator>(actor: &Actor<'_, C>, of: Option<&str>) -> Result<Outcome, CqlError> {
    let mut found = rows(LEVELS, &[("role", "text"), ("service_level", "text")]);
    if let Some(of) = of {
        actor.expect_role(of)?;
    }
    for (name, role) in actor.access().roles().filter(|(name, _)| of.is_none_or(|of| of == *name)) {
        if let Some(level) = &role.service_level {
            found.push_cells([text(name), text(level)]);
        }
    }
    done(&found)
}

pub(super) fn effective<C: Coordinator>(actor: &Actor<'_, C>, role: &str) -> Result<Outcome, CqlError> {
    actor.expect_role(role)?;
    let Some(EffectiveLevel { timeout_ms, workload, shares }) = actor.access().effective_level(role) else {
        return invalid!("Role {role} doesn't have assigned any service level");
    };
    let columns = [("service_level_option", "text"), ("effective_service_level", "text"), ("value", "text")];
    let mut found = rows(EFFECTIVE, &columns);
    found.push_cells([text("workload_type"), text(&workload.level), text(workload.value.name())]);
    let timeout = timeout_ms.value.and_then(|ms| text(&duration(ms).to_string()));
    found.push_cells([text("timeout"), text(&timeout_ms.level), timeout]);
    found.push_cells([text("shares"), text(&shares.level), text(&shares.value.to_string())]);
    done(&found)
}
