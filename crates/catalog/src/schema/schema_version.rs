//! The version of a schema, by which clients see whether nodes agree.

use std::sync::Arc;

use uuid::Uuid;

use crate::schema::catalog::Catalog;
use crate::schema::store::mutations_for;
use crate::system::definition::name_uuid;
use crate::system::is_system_keyspace;

impl Catalog {
    /// A UUID computed from the contents of all user keyspaces. Nodes with the same schema have the same
    /// UUID; clients compare it to check whether nodes agree.
    pub fn schema_version(&self) -> Uuid {
        let users = self.entries().iter().filter(|(name, _)| !is_system_keyspace(name));
        let users = users.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        let mut bytes = Vec::new();
        for mutation in mutations_for(&Self::empty(), &Self::from_entries(users, Arc::default()), 0, 0) {
            model::codec::encode(&mutation, &mut bytes);
        }
        name_uuid(&bytes)
    }
}
