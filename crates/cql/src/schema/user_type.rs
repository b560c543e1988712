//! CREATE, ALTER and DROP TYPE.

use catalog::{Catalog, CatalogError};
use model::types::{UdtField, UserType};
use protocol::CqlError;
use syntax::ast::{AlterType, AlterTypeOp, CreateType, DropType, Ident, TypeName, TypeNode};

use super::names::{keyspace_of, type_of, writable_keyspace};
use super::{SchemaContext, SchemaPlan, refuse, unchanged};

pub(super) fn create(create: &CreateType, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&create.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let create = create.clone();
    Ok(SchemaPlan::new(move |catalog| {
        let name = &create.name.name.text;
        if catalog.keyspace(&keyspace).is_none() {
            return refuse!("Keyspace '{keyspace}' doesn't exist");
        }
        if catalog.user_type(&keyspace, name).is_some() && create.if_not_exists {
            return unchanged(catalog);
        }
        create.fields.iter().try_for_each(|(_, ty)| check_field(ty))?;
        let field = |(name, ty): &(_, _)| field(catalog, &keyspace, name, ty);
        let fields = create.fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        catalog.create_type(UserType { keyspace: keyspace.clone(), name: name.clone(), fields })
    }))
}

/// Cassandra checks this before it looks for the types that are named.
fn check_field(ty: &TypeName) -> Result<(), CatalogError> {
    match ty.node {
        TypeNode::User(_) => refuse!("A user type cannot contain non-frozen UDTs"),
        _ => Ok(()),
    }
}

fn field(catalog: &Catalog, keyspace: &str, name: &Ident, ty: &TypeName) -> Result<UdtField, CatalogError> {
    Ok(UdtField { name: name.text.clone(), field_type: type_of(catalog, keyspace, ty)? })
}

pub(super) fn alter(alter: &AlterType, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&alter.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let alter = alter.clone();
    Ok(SchemaPlan::new(move |catalog| {
        let name = &alter.name.name.text;
        let Some(old) = catalog.user_type(&keyspace, name) else {
            return match alter.if_exists {
                true => unchanged(catalog),
                false => refuse!("Type {keyspace}.{name} doesn't exist"),
            };
        };
        let mut user = UserType::clone(old);
        match &alter.op {
            AlterTypeOp::AlterField { .. } => return refuse!("Altering field types is no longer supported"),
            AlterTypeOp::Add { if_not_exists, field: new, ty } => {
                if user.fields.iter().any(|field| field.name == new.text) {
                    if *if_not_exists {
                        return unchanged(catalog);
                    }
                    return refuse!(
                        "Cannot add field {0} to type {keyspace}.{name}: a field with name {0} already exists",
                        new.text
                    );
                }
                check_field(ty)?;
                user.fields.push(field(catalog, &keyspace, new, ty)?);
            }
            AlterTypeOp::Rename { if_exists, fields } => {
                for (from, to) in fields {
                    // Fields are found by their names before the statement, so that two fields can exchange
                    // names.
                    match old.fields.iter().position(|field| field.name == from.text) {
                        Some(at) => user.fields[at].name = to.text.clone(),
                        None if *if_exists => {}
                        // Spelled as Cassandra spells it.
                        None => return refuse!("Unkown field {} in user type {keyspace}.{name}", from.text),
                    }
                }
                let is_again =
                    |at: usize| user.fields[..at].iter().any(|other| other.name == user.fields[at].name);
                if let Some(at) = (0..user.fields.len()).find(|at| is_again(*at)) {
                    // Cassandra names the keyspace where it means the type.
                    return refuse!("Duplicate field name {} in type {keyspace}", user.fields[at].name);
                }
            }
        }
        if user == **old {
            return unchanged(catalog);
        }
        catalog.alter_type(user)
    }))
}

pub(super) fn drop(drop: &DropType, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&drop.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let (name, if_exists) = (drop.name.name.text.clone(), drop.if_exists);
    Ok(SchemaPlan::new(move |catalog| match catalog.user_type(&keyspace, &name) {
        None if if_exists => unchanged(catalog),
        _ => catalog.drop_type(&keyspace, &name),
    }))
}
