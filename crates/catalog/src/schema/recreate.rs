//! The statements that recreate a table with its id on another node: `schema.cql` of a snapshot.

use std::sync::Arc;

use model::types::UserType;
use model::{CqlType, TableSchema};

use crate::schema::catalog::{Catalog, Table};
use crate::schema::display::{Internals, describe_keyspace, describe_type, describe_view};
use crate::schema::indexes::describe_index;

/// Statements for the table's keyspace, its user types, the table and its indexes, each with `IF NOT EXISTS`
/// and a final `;`. Dropped columns are created and dropped again with their original time, so that SSTables
/// with their cells are read as before.
pub fn recreate_table(catalog: &Catalog, table: &Table) -> String {
    let schema = &table.schema;
    let mut statements: Vec<String> =
        catalog.keyspace(&schema.keyspace).map(describe_keyspace).into_iter().collect();
    statements.extend(user_types_of(schema).iter().map(|user| describe_type(user)));
    statements.push(describe_view(schema, &table.settings, Internals::Shown));
    statements.extend(schema.indexes.iter().map(|index| describe_index(schema, index)));
    let mut out = String::new();
    for statement in statements {
        out.push_str(&if_not_exists(&statement));
        out.push('\n');
    }
    out
}

/// Replaces `CREATE <kind> …` by `CREATE <kind> IF NOT EXISTS …`.
fn if_not_exists(statement: &str) -> String {
    let kinds = [
        "CREATE KEYSPACE ",
        "CREATE TYPE ",
        "CREATE TABLE ",
        "CREATE INDEX ",
        "CREATE CUSTOM INDEX ",
        "CREATE MATERIALIZED VIEW ",
    ];
    let found = kinds.iter().find_map(|kind| Some((kind, statement.strip_prefix(kind)?)));
    let (kind, rest) = found.expect("a description begins so");
    format!("{kind}IF NOT EXISTS {rest}")
}

/// The user types of a table's columns; each type comes after the types that it uses.
pub fn user_types_of(schema: &TableSchema) -> Vec<Arc<UserType>> {
    let mut types = vec![];
    let keys = schema.partition_key.iter().chain(&schema.clustering).map(|column| &column.ty);
    keys.for_each(|ty| collect(ty, &mut types));
    schema.columns().iter().for_each(|column| collect(&column.ty, &mut types));
    types
}

fn collect(ty: &CqlType, types: &mut Vec<Arc<UserType>>) {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            collect(element, types);
        }
        CqlType::Map { entry, .. } => {
            collect(&entry.0, types);
            collect(&entry.1, types);
        }
        CqlType::Tuple(parts) | CqlType::Composite(parts) => {
            parts.iter().for_each(|part| collect(part, types));
        }
        CqlType::Reversed(inner) => collect(inner, types),
        CqlType::Udt { user, .. } => {
            user.fields.iter().for_each(|field| collect(&field.field_type, types));
            if !types.contains(user) {
                types.push(user.clone());
            }
        }
        _ => {}
    }
}
