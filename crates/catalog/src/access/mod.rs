//! Roles, permissions and service levels: the roles that may log in, the roles and permissions granted to
//! each role, and its service level.
//!
//! They are part of the [`Catalog`](crate::Catalog), so that every shard has them at the same time and a
//! login reads no table. A change is a function of all roles and levels: it checks the rules or returns an
//! error. The error texts are those of Cassandra and ScyllaDB. The CQL layer checks the permission to make a
//! change.

pub(crate) mod permission;
pub(crate) mod service_level;

use std::collections::{BTreeMap, BTreeSet};

use crate::access::permission::{Permissions, Resource};
use crate::access::service_level::{DEFAULT_LEVEL, DRIVER_LEVEL, EffectiveLevel, ServiceLevel};
use crate::error::{CatalogError, invalid};

/// A role. A role that can log in is a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub can_login: bool,
    pub is_superuser: bool,
    /// bcrypt hash of the password as text. Without a hash, no client can log in as the role.
    pub salted_hash: Option<String>,
    /// The roles granted to it.
    pub member_of: BTreeSet<String>,
    /// The service level attached to it.
    pub service_level: Option<String>,
    /// The permissions granted to it, by [`Resource::name`]. No set is empty.
    pub permissions: BTreeMap<String, Permissions>,
}

/// Changes of a role; `None` leaves a property unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleChange {
    pub can_login: Option<bool>,
    pub is_superuser: Option<bool>,
    pub salted_hash: Option<String>,
}

/// Changes of a service level; `None` leaves a property unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelChange {
    pub timeout_ms: Option<Option<u64>>,
    pub workload: Option<crate::Workload>,
    pub shares: Option<u32>,
}

impl LevelChange {
    fn apply(&self, level: &mut ServiceLevel) {
        level.timeout_ms = self.timeout_ms.unwrap_or(level.timeout_ms);
        level.workload = self.workload.unwrap_or(level.workload);
        level.shares = self.shares.unwrap_or(level.shares);
    }
}

/// All roles and service levels; see the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub(crate) roles: BTreeMap<String, Role>,
    pub(crate) levels: BTreeMap<String, ServiceLevel>,
}

impl Access {
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// All roles in the order of their names.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &Role)> {
        self.roles.iter().map(|(name, role)| (name.as_str(), role))
    }

    pub fn level(&self, name: &str) -> Option<&ServiceLevel> {
        self.levels.get(name)
    }

    /// All service levels in the order of their names, without the default level.
    pub fn levels(&self) -> impl Iterator<Item = (&str, &ServiceLevel)> {
        self.levels.iter().map(|(name, level)| (name.as_str(), level))
    }

    /// The role and the roles granted to it; if `is_recursive`, also the roles granted to those. Empty if the
    /// role does not exist.
    pub fn roles_of(&self, name: &str, is_recursive: bool) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<&str> =
            self.roles.get_key_value(name).map(|(name, _)| name.as_str()).into_iter().collect();
        while let Some(name) = waiting.pop() {
            if found.insert(name) && (is_recursive || found.len() == 1) {
                waiting.extend(
                    self.roles.get(name).into_iter().flat_map(|role| &role.member_of).map(String::as_str),
                );
            }
        }
        found.retain(|name| self.roles.contains_key(*name));
        found
    }

    /// Whether the role or a role granted to it is a superuser.
    pub fn is_superuser(&self, name: &str) -> bool {
        self.roles_of(name, true).iter().any(|name| self.roles[*name].is_superuser)
    }

    /// The permissions of a role on a resource: those granted to it or to a role granted to it, on the
    /// resource or on a group that the resource belongs to. Superusers have all.
    pub fn permissions_on(&self, role: &str, resource: &Resource) -> Permissions {
        let roles = self.roles_of(role, true);
        if roles.iter().any(|name| self.roles[*name].is_superuser) {
            return Permissions::ALL;
        }
        // As in Cassandra, permissions on all keyspaces are none on system keyspaces.
        let is_of_system = resource.keyspace().is_some_and(crate::is_system_keyspace);
        let is_outside = |group: &Resource| is_of_system && *group == Resource::AllKeyspaces;
        resource.chain().filter(|group| !is_outside(group)).fold(Permissions::NONE, |found, resource| {
            let name = resource.name();
            let granted = roles.iter().filter_map(|role| self.roles[*role].permissions.get(&name));
            granted.fold(found, |found, granted| found.or(*granted))
        })
    }

    /// Grants permissions on a resource. Returns those that the role did not have yet.
    pub fn grant(
        &mut self,
        permissions: Permissions,
        resource: &Resource,
        to: &str,
    ) -> Result<Permissions, CatalogError> {
        let role = self.expect_role(to)?;
        let granted = role.permissions.entry(resource.name()).or_default();
        let new = permissions.without(*granted);
        *granted = granted.or(permissions);
        role.permissions.retain(|_, granted| !granted.is_empty());
        Ok(new)
    }

    /// Revokes permissions on a resource. Returns those that the role had.
    pub fn revoke(
        &mut self,
        permissions: Permissions,
        resource: &Resource,
        from: &str,
    ) -> Result<Permissions, CatalogError> {
        let role = self.expect_role(from)?;
        let granted = role.permissions.entry(resource.name()).or_default();
        let revoked = permissions.and(*granted);
        *granted = granted.without(permissions);
        role.permissions.retain(|_, granted| !granted.is_empty());
        Ok(revoked)
    }

    /// Whether a role has permissions on a resource whose name satisfies the condition.
    pub(crate) fn has_grants_on(&self, is_dropped: impl Fn(&str) -> bool) -> bool {
        self.roles.values().any(|role| role.permissions.keys().any(|name| is_dropped(name)))
    }

    /// Revokes all permissions on resources that were dropped. `is_dropped` is asked for each name.
    pub(crate) fn revoke_all_on(&mut self, is_dropped: impl Fn(&str) -> bool) {
        for role in self.roles.values_mut() {
            role.permissions.retain(|name, _| !is_dropped(name));
        }
    }

    /// The effective options of a role; `None` if no level is attached to it or to a role granted to it.
    pub fn effective_level(&self, role: &str) -> Option<EffectiveLevel> {
        // The order of merging matters only for equal values; the role's own level comes first.
        let own = self.roles.get(role).into_iter().map(|_| role);
        let granted = self.roles_of(role, true).into_iter().filter(|name| *name != role);
        let levels = own.chain(granted).filter_map(|name| {
            let attached = self.roles.get(name)?.service_level.as_deref()?;
            Some(EffectiveLevel::of(attached, self.levels.get(attached)?))
        });
        levels.reduce(EffectiveLevel::merged)
    }

    pub fn create_role(
        &mut self,
        name: &str,
        change: RoleChange,
        if_not_exists: bool,
    ) -> Result<(), CatalogError> {
        if name.is_empty() {
            return invalid!("Role name can't be an empty string");
        }
        if self.roles.contains_key(name) {
            return if if_not_exists { Ok(()) } else { invalid!("{name} already exists") };
        }
        self.roles.insert(name.to_string(), Role::default());
        self.alter_role(name, change)
    }

    pub fn alter_role(&mut self, name: &str, change: RoleChange) -> Result<(), CatalogError> {
        let role = self.expect_role(name)?;
        role.can_login = change.can_login.unwrap_or(role.can_login);
        role.is_superuser = change.is_superuser.unwrap_or(role.is_superuser);
        role.salted_hash = change.salted_hash.or(role.salted_hash.take());
        Ok(())
    }

    /// Drops a role, all grants to it and of it, and all permissions on it.
    pub fn drop_role(&mut self, name: &str) -> Result<(), CatalogError> {
        self.expect_role(name)?;
        self.roles.remove(name);
        let resource = Resource::Role(name.to_string()).name();
        self.revoke_all_on(|name| name == resource);
        for role in self.roles.values_mut() {
            role.member_of.remove(name);
        }
        Ok(())
    }

    pub fn grant_role(&mut self, role: &str, to: &str) -> Result<(), CatalogError> {
        self.expect_role(role)?;
        self.expect_role(to)?;
        if self.roles_of(to, true).contains(role) {
            return invalid!("{to} is a member of {role}");
        }
        if self.roles_of(role, true).contains(to) {
            return invalid!("{role} is a member of {to}");
        }
        self.expect_role(to)?.member_of.insert(role.to_string());
        Ok(())
    }

    pub fn revoke_role(&mut self, role: &str, from: &str) -> Result<(), CatalogError> {
        self.expect_role(role)?;
        // As in Cassandra, a role counts as a member of itself, so this is no error.
        if !self.expect_role(from)?.member_of.remove(role) && role != from {
            return invalid!("{from} is not a member of {role}");
        }
        Ok(())
    }

    /// `levels_max`: maximum number of levels that a node supports.
    pub fn create_level(
        &mut self,
        name: &str,
        change: LevelChange,
        if_not_exists: bool,
        levels_max: usize,
    ) -> Result<(), CatalogError> {
        refuse_built_in(name, "created", "")?;
        if name.starts_with('$') {
            return invalid!(
                "Names starting with '$' are reserved for internal tenants. Use a different name."
            );
        }
        if name.is_empty() {
            return invalid!("A service level needs a name");
        }
        if self.levels.contains_key(name) {
            return if if_not_exists {
                Ok(())
            } else {
                invalid!("The service level '{name}' already exists.")
            };
        }
        if self.levels.len() >= levels_max {
            return invalid!("Can't create service level - no more scheduling groups exist");
        }
        let mut level = ServiceLevel::default();
        change.apply(&mut level);
        self.levels.insert(name.to_string(), level);
        Ok(())
    }

    pub fn alter_level(&mut self, name: &str, change: LevelChange) -> Result<(), CatalogError> {
        refuse_built_in(name, "altered", "")?;
        let Some(level) = self.levels.get_mut(name) else {
            return invalid!("The service level '{name}' doesn't exist.");
        };
        change.apply(level);
        Ok(())
    }

    /// Drops a level and detaches it from every role.
    pub fn drop_level(&mut self, name: &str, if_exists: bool) -> Result<(), CatalogError> {
        refuse_built_in(name, "dropped", "")?;
        if self.levels.remove(name).is_none() {
            return if if_exists { Ok(()) } else { no_level(name) };
        }
        for role in self.roles.values_mut() {
            role.service_level.take_if(|attached| attached == name);
        }
        Ok(())
    }

    /// Attaches a level to a role and replaces the role's previous level.
    pub fn attach_level(&mut self, name: &str, role: &str) -> Result<(), CatalogError> {
        refuse_built_in(
            name,
            "attached to a role",
            ". If you want to detach an attached service level, use the DETACH SERVICE LEVEL statement",
        )?;
        if !self.levels.contains_key(name) {
            return no_level(name);
        }
        self.expect_role(role)?.service_level = Some(name.to_string());
        Ok(())
    }

    /// Detaches the level of a role, if it has one.
    pub fn detach_level(&mut self, role: &str) -> Result<(), CatalogError> {
        self.expect_role(role)?.service_level = None;
        Ok(())
    }

    fn expect_role(&mut self, name: &str) -> Result<&mut Role, CatalogError> {
        match self.roles.get_mut(name) {
            Some(role) => Ok(role),
            None => invalid!("{name} doesn't exist"),
        }
    }
}

fn no_level<T>(name: &str) -> Result<T, CatalogError> {
    invalid!("Service Level {name} doesn't exists.")
}

fn refuse_built_in(name: &str, done: &str, more: &str) -> Result<(), CatalogError> {
    match name {
        DEFAULT_LEVEL => {
            invalid!("The default service level, {DEFAULT_LEVEL}, already exists and cannot be {done}{more}")
        }
        DRIVER_LEVEL => invalid!("The service level '{DRIVER_LEVEL}' is built in and cannot be {done}"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    /// Levels such as `a=30ms,batch,200 b=interactive`, each attached to the role of the same name.
    fn access(levels: &str, grants: &[(&str, &str)]) -> Access {
        let mut access = Access::default();
        for text in levels.split_whitespace() {
            let (name, options) = text.split_once('=').unwrap();
            let mut change = LevelChange::default();
            for option in options.split(',').filter(|option| !option.is_empty()) {
                match (option.strip_suffix("ms"), Workload::from_name(option)) {
                    (Some(ms), _) => change.timeout_ms = Some(Some(ms.parse().unwrap())),
                    (_, Some(workload)) => change.workload = Some(workload),
                    _ => change.shares = Some(option.parse().unwrap()),
                }
            }
            access.create_role(name, RoleChange::default(), false).unwrap();
            access.create_level(name, change, false, 16).unwrap();
            access.attach_level(name, name).unwrap();
        }
        access.create_role("user", RoleChange::default(), true).unwrap();
        for (role, to) in grants {
            access.grant_role(role, to).unwrap();
        }
        access
    }

    /// Checks the effective options of `user`, each with the level that it is from.
    #[track_caller]
    fn check(levels: &str, grants: &[(&str, &str)], expect: &str) {
        let found = access(levels, grants).effective_level("user").map_or("none".to_string(), |found| {
            let EffectiveLevel { timeout_ms, workload, shares } = found;
            let timeout = timeout_ms.value.map_or("-".to_string(), |ms| format!("{ms}ms"));
            format!(
                "{timeout} of {}, {} of {}, {} of {}",
                timeout_ms.level, workload.value, workload.level, shares.value, shares.level
            )
        });
        assert_eq!(found, expect, "{levels} {grants:?}");
    }

    #[test]
    fn of_each_option_the_strictest_counts() {
        check("", &[], "none");
        check("user=30ms,interactive,500", &[], "30ms of user, interactive of user, 500 of user");
        check("a=", &[("a", "user")], "- of a, unspecified of a, 1000 of a");
        // The lowest timeout wins, whichever role has it.
        check("user=30ms a=20ms", &[("a", "user")], "20ms of a, unspecified of user, 1000 of user");
        check("user=20ms a=30ms", &[("a", "user")], "20ms of user, unspecified of user, 1000 of user");
        // An option that is not set does not count.
        check("user= a=30ms,interactive", &[("a", "user")], "30ms of a, interactive of a, 1000 of user");
        check("user=30ms,batch a=", &[("a", "user")], "30ms of user, batch of user, 1000 of user");
        // Batch takes precedence over interactive; the fewest shares win.
        check("user=interactive,100 a=batch,900", &[("a", "user")], "- of user, batch of a, 100 of user");
        check("user=batch,900 a=interactive,100", &[("a", "user")], "- of user, batch of user, 100 of a");
        // Grants pass through roles without a level, along several paths, at any depth.
        check(
            "a=9ms b=8ms,300 c=7ms,batch",
            &[("b", "a"), ("c", "b"), ("a", "user")],
            "7ms of c, batch of c, 300 of b",
        );
        check("a=50 b=batch", &[("a", "user"), ("b", "user")], "- of a, batch of b, 50 of a");
        // Levels of roles to which the user's role was granted do not count.
        check("a=1ms", &[("user", "a")], "none");
    }

    #[test]
    fn rings_of_stored_roles_end() {
        let mut access = access("a=9ms b=8ms", &[("a", "user"), ("b", "a")]);
        access.roles.get_mut("b").unwrap().member_of.insert("user".to_string());
        assert_eq!(access.effective_level("user").unwrap().timeout_ms.value, Some(8));
        assert_eq!(access.roles_of("user", true).len(), 3);
        assert_eq!(access.roles_of("user", false).into_iter().collect::<Vec<_>>(), ["a", "user"]);
    }

    #[test]
    fn what_is_refused() {
        let mut access = access("a=", &[("a", "user")]);
        let none = LevelChange::default();
        let mut refused = |change: &dyn Fn(&mut Access) -> Result<(), CatalogError>, expect: &str| {
            let before = access.clone();
            assert_eq!(change(&mut access).unwrap_err().to_string(), expect);
            access = before;
        };
        refused(&|a| a.create_role("a", RoleChange::default(), false), "a already exists");
        refused(&|a| a.create_role("", RoleChange::default(), false), "Role name can't be an empty string");
        refused(&|a| a.alter_role("b", RoleChange::default()), "b doesn't exist");
        refused(&|a| a.grant_role("a", "user"), "user is a member of a");
        refused(&|a| a.grant_role("user", "a"), "user is a member of a");
        refused(&|a| a.grant_role("a", "a"), "a is a member of a");
        refused(&|a| a.revoke_role("user", "a"), "a is not a member of user");
        refused(&|a| a.revoke_role("b", "b"), "b doesn't exist");
        refused(&|a| a.create_level("a", none, false, 9), "The service level 'a' already exists.");
        refused(
            &|a| a.create_level("$x", none, false, 9),
            "Names starting with '$' are reserved for internal tenants. Use a different name.",
        );
        refused(
            &|a| a.create_level("b", none, false, 1),
            "Can't create service level - no more scheduling groups exist",
        );
        refused(
            &|a| a.drop_level("default", true),
            "The default service level, default, already exists and cannot be dropped",
        );
        refused(&|a| a.alter_level("b", none), "The service level 'b' doesn't exist.");
        refused(&|a| a.drop_level("b", false), "Service Level b doesn't exists.");
        refused(&|a| a.attach_level("b", "user"), "Service Level b doesn't exists.");
        refused(&|a| a.attach_level("a", "nobody"), "nobody doesn't exist");
    }

    #[test]
    fn what_goes_leaves_nothing() {
        let mut access = access("a=", &[("a", "user")]);
        access.drop_level("a", false).unwrap();
        assert_eq!(access.role("a").unwrap().service_level, None);
        access.drop_role("a").unwrap();
        assert!(access.role("user").unwrap().member_of.is_empty());
        access.detach_level("user").unwrap();
    }
}
