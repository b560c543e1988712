//! What a statement on the schema finds in the catalog before its options are judged.
//!
//! `IF [NOT] EXISTS` decides first: a statement that it leaves nothing to do is carried out by doing nothing, whatever
//! its options say. Without it, "exists already" and "does not exist" come before errors about options, too, as in
//! Cassandra 5.0. The change asks again when it runs: the catalog may be another one by then.

use catalog::{Catalog, CatalogError};

use super::names::{keyspace_of, writable_keyspace};
use super::refuse;
use crate::CqlError;
use crate::syntax::ast::{QualifiedName, Statement};

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

/// Whether the statement has anything to do.
///
/// # Errors
/// It creates what is there, or changes or drops what is not.
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
    writable_keyspace(name.keyspace)?;
    match expected {
        Expected::Absent { if_not_exists } => {
            if !matches!(kind, Kind::Keyspace) && catalog.keyspace(name.keyspace).is_none() {
                return refuse!("Keyspace '{}' doesn't exist", name.keyspace);
            }
            match name.is_there(kind, catalog) {
                false => Ok(true),
                true if if_not_exists => Ok(false),
                true => Err(name.exists_already(kind).into()),
            }
        }
        Expected::Present { if_exists } => match name.is_there(kind, catalog) {
            true => Ok(true),
            false if if_exists => Ok(false),
            // Nothing is judged of types before the change says so itself.
            false if matches!(kind, Kind::Type) => Ok(true),
            false => Err(name.does_not_exist().into()),
        },
    }
}

/// A keyspace, or something in it.
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
