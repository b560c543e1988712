//! Checks of a schema statement against the catalog, before its options are checked.
//!
//! `IF [NOT] EXISTS` comes first: a statement that has nothing to do succeeds whatever its options are.
//! Without `IF [NOT] EXISTS`, the errors "already exists" and "does not exist" also come before errors of
//! options, as in Cassandra 5.0. The change repeats the check when it runs, because the catalog may have
//! changed.

use catalog::{Catalog, CatalogError, is_system_keyspace};
use protocol::CqlError;
use syntax::ast::{QualifiedName, Statement};

use super::names::{keyspace_of, writable_keyspace};
use super::refuse;
use crate::error::from_catalog;

/// Whether a schema statement requires its keyspace, table or type to exist or to be absent.
enum Expected {
    Absent { if_not_exists: bool },
    Present { if_exists: bool },
}

#[derive(Clone, Copy)]
enum Kind {
    Keyspace,
    Table,
    Type,
}

/// Whether the statement has to change anything.
///
/// # Errors
/// The statement creates an object that exists, or changes or drops an object that does not exist.
pub(super) fn has_work(
    statement: &Statement,
    catalog: &Catalog,
    in_use: Option<&str>,
) -> Result<bool, CqlError> {
    let absent = |if_not_exists| Expected::Absent { if_not_exists };
    let present = |if_exists| Expected::Present { if_exists };
    let (kind, name, expected): (Kind, Name<'_>, Expected) = match statement {
        Statement::CreateKeyspace(it) => (Kind::Keyspace, Name::of(&it.name.text), absent(it.if_not_exists)),
        Statement::AlterKeyspace(it) => (Kind::Keyspace, Name::of(&it.name.text), present(it.if_exists)),
        Statement::DropKeyspace(it) => (Kind::Keyspace, Name::of(&it.name.text), present(it.if_exists)),
        Statement::CreateTable(it) => {
            (Kind::Table, Name::in_keyspace(&it.name, in_use)?, absent(it.if_not_exists))
        }
        Statement::AlterTable(it) => {
            (Kind::Table, Name::in_keyspace(&it.name, in_use)?, present(it.if_exists))
        }
        Statement::DropTable(it) => {
            (Kind::Table, Name::in_keyspace(&it.name, in_use)?, present(it.if_exists))
        }
        Statement::CreateType(it) => {
            (Kind::Type, Name::in_keyspace(&it.name, in_use)?, absent(it.if_not_exists))
        }
        Statement::AlterType(it) => (Kind::Type, Name::in_keyspace(&it.name, in_use)?, present(it.if_exists)),
        Statement::DropType(it) => (Kind::Type, Name::in_keyspace(&it.name, in_use)?, present(it.if_exists)),
        _ => return Ok(true),
    };
    if matches!(statement, Statement::CreateKeyspace(_)) && is_system_keyspace(name.keyspace) {
        return refuse!("System keyspace '{}' is not user-modifiable", name.keyspace);
    }
    writable_keyspace(name.keyspace)?;
    match expected {
        Expected::Absent { if_not_exists } => {
            if !matches!(kind, Kind::Keyspace) && catalog.keyspace(name.keyspace).is_none() {
                return refuse!("Keyspace '{}' doesn't exist", name.keyspace);
            }
            match name.is_there(kind, catalog) {
                false => Ok(true),
                true if if_not_exists => Ok(false),
                true => Err(from_catalog(name.exists_already(kind))),
            }
        }
        Expected::Present { if_exists } => match name.is_there(kind, catalog) {
            true => Ok(true),
            false if if_exists => Ok(false),
            // The change itself reports a type that does not exist.
            false if matches!(kind, Kind::Type) => Ok(true),
            false => Err(from_catalog(name.does_not_exist())),
        },
    }
}

/// Name of a keyspace, or of a table or type in a keyspace.
struct Name<'a> {
    keyspace: &'a str,
    name: &'a str,
}

impl<'a> Name<'a> {
    fn of(keyspace: &'a str) -> Self {
        Self { keyspace, name: "" }
    }

    fn in_keyspace(name: &'a QualifiedName, in_use: Option<&'a str>) -> Result<Self, CqlError> {
        Ok(Self { keyspace: keyspace_of(name, in_use)?, name: &name.name.text })
    }

    fn is_there(&self, kind: Kind, catalog: &Catalog) -> bool {
        match kind {
            Kind::Keyspace => catalog.keyspace(self.keyspace).is_some(),
            Kind::Table => catalog.table(self.keyspace, self.name).is_some(),
            Kind::Type => catalog.user_type(self.keyspace, self.name).is_some(),
        }
    }

    fn exists_already(&self, kind: Kind) -> CatalogError {
        match kind {
            Kind::Keyspace | Kind::Table => {
                CatalogError::AlreadyExists { keyspace: self.keyspace.into(), table: self.name.into() }
            }
            Kind::Type => {
                CatalogError::Invalid(format!("A user type with name '{}' already exists", self.name))
            }
        }
    }

    fn does_not_exist(&self) -> CatalogError {
        let Self { keyspace, name } = self;
        CatalogError::Invalid(match name.is_empty() {
            true => format!("Keyspace '{keyspace}' doesn't exist"),
            false => format!("Table '{keyspace}.{name}' doesn't exist"),
        })
    }
}
