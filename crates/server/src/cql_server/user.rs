//! The user of a connection, with a cache of its permissions on tables.
//!
//! Every request on a table asks for the user's permissions, so the connection keeps them for the tables that
//! it used. They are computed from the roles of the catalog. A change of roles or permissions replaces the
//! roles by a new value, and the next request starts an empty cache, so changes act at once on open
//! connections.

use std::cell::RefCell;
use std::sync::Arc;

use base::HashMap;
use catalog::{Access, Permissions, Resource};
use model::{TableId, TableSchema};

/// The cache is emptied when it reaches this number of tables, which bounds the memory of a connection.
const TABLES_MAX: usize = 256;

/// See the head of this file.
pub(crate) struct User {
    pub name: Arc<str>,
    permissions: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    /// The roles from which `tables` was computed; `None` before the first request.
    access: Option<Arc<Access>>,
    tables: HashMap<TableId, Permissions>,
}

impl User {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), permissions: RefCell::default() }
    }

    /// The permissions on a table, given the roles in force.
    pub fn table_permissions(&self, access: &Arc<Access>, table: &TableSchema) -> Permissions {
        let mut known = self.permissions.borrow_mut();
        let is_current = known.access.as_ref().is_some_and(|of| Arc::ptr_eq(of, access));
        if !is_current {
            *known = Known { access: Some(access.clone()), tables: HashMap::default() };
        }
        if let Some(permissions) = known.tables.get(&table.id) {
            return *permissions;
        }
        let resource = Resource::table(&table.keyspace, &table.name);
        let permissions = access.permissions_on(&self.name, &resource);
        if known.tables.len() >= TABLES_MAX {
            known.tables.clear();
        }
        known.tables.insert(table.id, permissions);
        permissions
    }
}

#[cfg(test)]
mod tests {
    use catalog::{Permission, RoleChange};
    use model::CqlType;

    use super::*;

    fn table(name: &str) -> Arc<TableSchema> {
        TableSchema::builder("ks", name).partition_key("k", CqlType::Int).build().unwrap()
    }

    #[test]
    fn the_cache_follows_the_roles_and_stays_small() {
        let mut access = Access::default();
        access.create_role("bob", RoleChange::default(), false).unwrap();
        let (user, t) = (User::new("bob"), table("t"));
        let first = Arc::new(access.clone());
        assert_eq!(user.table_permissions(&first, &t), Permissions::NONE);
        let select = Permissions::NONE.with(Permission::Select);
        access.grant(select, &Resource::Keyspace("ks".to_string()), "bob").unwrap();
        let second = Arc::new(access.clone());
        assert_eq!(user.table_permissions(&second, &t), select);
        assert_eq!(user.table_permissions(&second, &t), select);
        access.drop_role("bob").unwrap();
        assert_eq!(user.table_permissions(&Arc::new(access), &t), Permissions::NONE);
        for number in 0..2 * TABLES_MAX {
            user.table_permissions(&second, &table(&format!("t{number}")));
            assert!(user.permissions.borrow().tables.len() <= TABLES_MAX);
        }
        assert_eq!(user.table_permissions(&second, &t), select);
    }
}
