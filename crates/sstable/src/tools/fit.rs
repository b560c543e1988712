//! Checks whether an SSTable fits a table: compares its header with the table's schema.
//!
//! The header contains the types of key columns without their names, and types and names of other columns. An
//! SSTable fits if reading with the schema returns the written values: types are equal, a user-defined type
//! may have been extended by fields, and a column may be ascii where the table has text.

use std::fmt;

use model::types::CqlType;
use model::{ColumnKind, TableSchema};

use crate::component::statistics::{HeaderColumn, SerializationHeader};

/// All differences; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit(pub Vec<String>);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Misfit {}

/// `Ok` if an SSTable with this header can be read as one of the table.
pub fn check_fit(schema: &TableSchema, header: &SerializationHeader) -> Result<(), Misfit> {
    let mut misfits = vec![];
    let table = schema.full_name();
    let keys = match CqlType::from_java_name(&header.key_type) {
        Ok(CqlType::Composite(components)) if schema.partition_key.len() > 1 => components.to_vec(),
        Ok(one) => vec![one],
        Err(error) => {
            misfits.push(format!("its partition key has type {}: {error}", header.key_type));
            vec![]
        }
    };
    let there: Vec<&CqlType> = schema.partition_key.iter().map(|column| &column.ty).collect();
    let all_fit = keys.len() == there.len() && keys.iter().zip(&there).all(|(a, b)| fits(a, b));
    if !keys.is_empty() && !all_fit {
        misfits.push(format!(
            "its partition key is ({}), that of {table} ({})",
            names(&keys.iter().collect::<Vec<_>>()),
            names(&there)
        ));
    }
    let clustering: Result<Vec<CqlType>, _> =
        header.clustering_types.iter().map(|class| CqlType::from_java_name(class)).collect();
    let there: Vec<&CqlType> = schema.clustering.iter().map(|column| &column.ty).collect();
    match clustering {
        Err(error) => misfits.push(format!("its clustering key has an unknown type: {error}")),
        Ok(here) => {
            let same = |(a, b): (&CqlType, &&CqlType)| a.is_reversed() == b.is_reversed() && fits(a, b);
            if here.len() != there.len() || !here.iter().zip(&there).all(same) {
                misfits.push(format!(
                    "its clustering key is ({}), that of {table} ({})",
                    names(&here.iter().collect::<Vec<_>>()),
                    names(&there)
                ));
            }
        }
    }
    for (kind, columns) in
        [(ColumnKind::Static, &header.static_columns), (ColumnKind::Regular, &header.regular_columns)]
    {
        misfits.extend(columns.iter().filter_map(|column| misfit_of(schema, kind, column)));
    }
    if misfits.is_empty() { Ok(()) } else { Err(Misfit(misfits)) }
}

fn misfit_of(schema: &TableSchema, kind: ColumnKind, column: &HeaderColumn) -> Option<String> {
    let name = String::from_utf8_lossy(&column.name);
    let here = match CqlType::from_java_name(&column.type_name) {
        Ok(here) => here,
        Err(error) => return Some(format!("column {name} has type {}: {error}", column.type_name)),
    };
    let static_word = if kind == ColumnKind::Static { " static" } else { "" };
    let found = schema.columns().iter().find(|other| other.name.as_bytes() == column.name);
    match found {
        Some(other) if other.kind != kind => {
            let there = if other.kind == ColumnKind::Static { "static" } else { "not static" };
            Some(format!("column {name} is {} here and {there} in the table", static_or_not(kind)))
        }
        Some(other) if fits(&here, &other.ty) => None,
        Some(other) => {
            Some(format!("column {name} is {} here and {} in the table", here.to_cql(), other.ty.to_cql()))
        }
        None if schema.dropped.iter().any(|dropped| dropped.name.as_bytes() == column.name) => None,
        None => Some(format!(
            "it has a column {name} that the table does not have; ALTER TABLE {} ADD {name} {}{static_word} adds it",
            schema.full_name(),
            here.to_cql()
        )),
    }
}

fn static_or_not(kind: ColumnKind) -> &'static str {
    if kind == ColumnKind::Static { "static" } else { "not static" }
}

fn names(types: &[&CqlType]) -> String {
    types.iter().map(|ty| ty.to_cql()).collect::<Vec<_>>().join(", ")
}

/// Whether every value of type `here` is a value of type `there`.
fn fits(here: &CqlType, there: &CqlType) -> bool {
    match (here, there) {
        (CqlType::Ascii, CqlType::Text) | (CqlType::LegacyTimestamp, CqlType::Timestamp) => true,
        (CqlType::List { element: a, multi_cell: m }, CqlType::List { element: b, multi_cell: n })
        | (CqlType::Set { element: a, multi_cell: m }, CqlType::Set { element: b, multi_cell: n }) => {
            m == n && fits(a, b)
        }
        (CqlType::Map { entry: a, multi_cell: m }, CqlType::Map { entry: b, multi_cell: n }) => {
            m == n && fits(&a.0, &b.0) && fits(&a.1, &b.1)
        }
        (CqlType::Tuple(a), CqlType::Tuple(b)) => {
            a.len() <= b.len() && a.iter().zip(b.iter()).all(|(a, b)| fits(a, b))
        }
        // The type's keyspace is that of its creation and may differ. Fields are appended and can be renamed.
        (CqlType::Udt { user: a, multi_cell: m }, CqlType::Udt { user: b, multi_cell: n }) => {
            m == n
                && a.name == b.name
                && a.fields.len() <= b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|(a, b)| fits(&a.field_type, &b.field_type))
        }
        (CqlType::Reversed(a), CqlType::Reversed(b)) => fits(a, b),
        (here, there) => here == there,
    }
}
