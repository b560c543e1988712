//! LIST of roles, users and service levels.

use catalog::{EffectiveLevel, Role, ServiceLevel, Workload};
use model::CqlType;
use model::types::{CqlValue, Duration};
use protocol::CqlError;

use super::Actor;
use crate::Outcome;
use crate::error::invalid;
use crate::row_set::RowSet;

/// Keyspaces and tables in the metadata of the results, as in Cassandra and ScyllaDB. Except for
/// `system_auth.roles`, no such tables exist.
const ROLES: (&str, &str) = ("system_auth", "roles");
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

fn done(rows: &RowSet) -> Result<Outcome, CqlError> {
    Ok(Outcome::Rows(rows.result_rows()))
}

pub(super) fn roles(actor: &Actor, of: Option<&str>, is_recursive: bool) -> Result<Outcome, CqlError> {
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
    match of {
        None => actor.access.roles().for_each(|(name, role)| push(name, role)),
        Some(of) => {
            actor.expect_role(of)?;
            for name in actor.access.roles_of(of, is_recursive) {
                actor.access.role(name).into_iter().for_each(|role| push(name, role));
            }
        }
    }
    done(&found)
}

pub(super) fn users(actor: &Actor) -> Result<Outcome, CqlError> {
    actor.logged_in()?;
    let mut found = rows(USERS, &[("name", "text"), ("super", "boolean"), ("datacenters", "text")]);
    for (name, _) in actor.access.roles().filter(|(_, role)| role.can_login) {
        found.push_cells([text(name), boolean(actor.access.is_superuser(name)), text("ALL")]);
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

pub(super) fn level(actor: &Actor, name: &str) -> Result<Outcome, CqlError> {
    let mut found = rows(LEVELS, &LEVEL_COLUMNS);
    match actor.access.level(name) {
        Some(level) => found.push_cells(level_cells(name, level)),
        None => return invalid!("Service Level {name} doesn't exists."),
    }
    done(&found)
}

pub(super) fn levels(actor: &Actor) -> Result<Outcome, CqlError> {
    let mut columns = LEVEL_COLUMNS.to_vec();
    columns.push(("percentage of all service level shares", "text"));
    let mut found = rows(LEVELS, &columns);
    let all: u32 = actor.access.levels().map(|(_, level)| level.shares).sum();
    for (name, level) in actor.access.levels() {
        let percentage = f64::from(level.shares) * 100.0 / f64::from(all);
        let mut cells = level_cells(name, level);
        cells.push(text(&format!("{percentage:.2}%")));
        found.push_cells(cells);
    }
    done(&found)
}

pub(super) fn attached(actor: &Actor, of: Option<&str>) -> Result<Outcome, CqlError> {
    let mut found = rows(LEVELS, &[("role", "text"), ("service_level", "text")]);
    if let Some(of) = of {
        actor.expect_role(of)?;
    }
    for (name, role) in actor.access.roles().filter(|(name, _)| of.is_none_or(|of| of == *name)) {
        if let Some(level) = &role.service_level {
            found.push_cells([text(name), text(level)]);
        }
    }
    done(&found)
}

pub(super) fn effective(actor: &Actor, role: &str) -> Result<Outcome, CqlError> {
    actor.expect_role(role)?;
    let Some(EffectiveLevel { timeout_ms, workload, shares }) = actor.access.effective_level(role) else {
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
