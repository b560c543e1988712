//! Resolves the names of keyspaces, tables and types.

use std::sync::Arc;

use catalog::virtual_tables::is_virtual_keyspace;
use catalog::{Catalog, CatalogError, Table, is_system_keyspace};
use model::{CqlType, TableId};
use protocol::CqlError;
use syntax::ast::{Ident, QualifiedName, TypeName, TypeNode};

use super::refuse;

/// Returns the keyspace of a name, or the keyspace in use.
///
/// # Errors
/// The name has no keyspace, and none is in use.
pub fn keyspace_of<'a>(name: &'a QualifiedName, in_use: Option<&'a str>) -> Result<&'a str, CqlError> {
    match (&name.keyspace, in_use) {
        (Some(keyspace), _) => Ok(&keyspace.text),
        (None, Some(keyspace)) => Ok(keyspace),
        (None, None) => refuse!(
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
        ),
    }
}

/// Returns the table of a statement on data.
///
/// # Errors
/// The keyspace or the table does not exist.
pub fn table_of<'a>(
    catalog: &'a Catalog,
    name: &QualifiedName,
    in_use: Option<&str>,
) -> Result<&'a Arc<Table>, CqlError> {
    let keyspace = keyspace_of(name, in_use)?;
    if catalog.keyspace(keyspace).is_none() {
        return refuse!("keyspace {keyspace} does not exist");
    }
    match catalog.table(keyspace, &name.name.text) {
        Some(table) => Ok(table),
        None => refuse!("table {} does not exist", name.name.text),
    }
}

/// Returns the keyspace of a USE statement.
///
/// # Errors
/// The keyspace does not exist.
pub fn used_keyspace(catalog: &Catalog, name: &Ident) -> Result<String, CqlError> {
    match catalog.keyspace(&name.text) {
        Some(keyspace) => Ok(keyspace.name.clone()),
        None => refuse!("Keyspace '{}' does not exist", name.text),
    }
}

/// Returns the table of a TRUNCATE statement.
///
/// # Errors
/// As [`table_of`], or the table belongs to a system keyspace, is virtual or is a view.
pub fn truncated_table(
    catalog: &Catalog,
    name: &QualifiedName,
    in_use: Option<&str>,
) -> Result<TableId, CqlError> {
    let table = table_of(catalog, name, in_use)?;
    if is_virtual_keyspace(&table.schema.keyspace) {
        return refuse!("Truncation is not supported by table {}", table.schema.full_name());
    }
    writable_keyspace(&table.schema.keyspace)?;
    if table.schema.view.is_some() {
        return refuse!("Cannot TRUNCATE materialized view directly; must truncate base table instead");
    }
    Ok(table.schema.id)
}

/// Returns an error for system keyspaces, which no user may change.
pub(super) fn writable_keyspace(keyspace: &str) -> Result<(), CqlError> {
    if is_system_keyspace(keyspace) {
        let text = format!("{} keyspace is not user-modifiable.", keyspace.to_ascii_lowercase());
        return Err(CqlError::Unauthorized(text));
    }
    Ok(())
}

fn is_collection(node: &TypeNode) -> bool {
    matches!(node, TypeNode::List(_) | TypeNode::Set(_) | TypeNode::Map(..))
}

/// Resolves a type, with the user types of `keyspace`.
pub(super) fn type_of(catalog: &Catalog, keyspace: &str, ty: &TypeName) -> Result<CqlType, CatalogError> {
    check_user_types(catalog, keyspace, ty, false)?;
    catalog.parse_type(keyspace, &ty.to_string())
}

fn check_user_types(
    catalog: &Catalog,
    keyspace: &str,
    ty: &TypeName,
    in_frozen: bool,
) -> Result<(), CatalogError> {
    let check = |inner: &TypeName| {
        if !in_frozen && matches!(inner.node, TypeNode::User(_)) && is_collection(&ty.node) {
            return refuse!("Non-frozen UDTs are not allowed inside collections: {ty}");
        }
        let in_frozen = in_frozen || !is_collection(&ty.node);
        check_user_types(catalog, keyspace, inner, in_frozen)
    };
    match &ty.node {
        TypeNode::Native(_) | TypeNode::Custom(_) => Ok(()),
        TypeNode::List(inner)
        | TypeNode::Set(inner)
        | TypeNode::Frozen(inner)
        | TypeNode::Vector(inner, _) => check(inner),
        TypeNode::Map(key, value) => check(key).and_then(|()| check(value)),
        TypeNode::Tuple(components) => components.iter().try_for_each(check),
        TypeNode::User(name) => {
            let of = name.keyspace.as_ref().map_or(keyspace, |keyspace| &keyspace.text);
            if of != keyspace {
                return refuse!(
                    "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {of}; user types can \
                     only be used in the keyspace they are defined in"
                );
            }
            match catalog.user_type(keyspace, &name.name.text) {
                Some(_) => Ok(()),
                None => refuse!("Unknown type {keyspace}.{}", name.name.text),
            }
        }
    }
}
