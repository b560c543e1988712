//! CREATE TABLE.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Catalog, CatalogError, TableSettings};
use model::{CompactStorage, CqlType, TableOptions, TableSchema};
use protocol::CqlError;
use syntax::ast::{CreateTable, Ident, Ordering, PrimaryKeyDef};
use uuid::Uuid;

use super::names::{keyspace_of, type_of, writable_keyspace};
use super::table_options::GivenOptions;
use super::{SchemaContext, SchemaPlan, mask, refuse, to_catalog_error, unchanged};
use crate::error::from_catalog;

pub(super) fn plan(create: &CreateTable, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&create.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    check_text(create)?;
    if create.with.compact_storage.is_some() && !context.rules.may_create_compact {
        return refuse!(
            "Guardrail compact_tables_enabled violated: Creation of new COMPACT STORAGE tables is not allowed"
        );
    }
    mask::check_enabled(create.columns.iter().filter_map(|column| column.mask.as_ref()), context)?;
    let given = GivenOptions::new(&create.with.properties)?;
    let warnings = given.warnings(true);
    let (mut options, mut settings) = (TableOptions::default(), TableSettings::default());
    given.apply(&mut options, &mut settings)?;
    let id = given.id.unwrap_or(context.new_table_id);
    let create = create.clone();
    let plan = SchemaPlan::new(move |catalog| {
        if catalog.keyspace(&keyspace).is_none() {
            return refuse!("Keyspace '{keyspace}' doesn't exist");
        }
        let name = &create.name.name.text;
        if catalog.table(&keyspace, name).is_some() {
            if create.if_not_exists {
                return unchanged(catalog);
            }
            return Err(CatalogError::AlreadyExists { keyspace, table: name.clone() });
        }
        let schema = schema_of(catalog, &keyspace, &create, id, options).map_err(to_catalog_error)?;
        for column in &create.columns {
            let ty = type_of(catalog, &keyspace, &column.ty)?;
            mask::add(catalog, &mut settings, (&keyspace, name), column, &ty)?;
        }
        catalog.create_table(schema, settings)
    });
    Ok(plan.with_warnings(warnings))
}

/// Checks the rules that depend neither on types nor on options.
fn check_text(create: &CreateTable) -> Result<(), CqlError> {
    let table = &create.name.name.text;
    for (at, column) in create.columns.iter().enumerate() {
        let name = &column.name.text;
        if create.columns[..at].iter().any(|other| other.name.text == *name) {
            return refuse!("Duplicate column '{name}' declaration for table '{table}'");
        }
    }
    for (at, order) in create.with.clustering_order.iter().enumerate() {
        let name = &order.column.text;
        if create.with.clustering_order[..at].iter().any(|other| other.column.text == *name) {
            return refuse!("Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'");
        }
    }
    match create.primary_keys.len() {
        0 => refuse!("No PRIMARY KEY specifed for table '{table}' (exactly one required)"),
        1 => Ok(()),
        _ => refuse!("Multiple PRIMARY KEY specified for table '{table}' (exactly one required)"),
    }
}

fn schema_of(
    catalog: &Catalog,
    keyspace: &str,
    create: &CreateTable,
    id: Uuid,
    options: TableOptions,
) -> Result<Arc<TableSchema>, CqlError> {
    let table = &create.name.name.text;
    let mut types = BTreeMap::new();
    for column in &create.columns {
        let ty = type_of(catalog, keyspace, &column.ty).map_err(from_catalog)?;
        check_nesting(&ty)?;
        types.insert(column.name.text.as_str(), ty);
    }
    let statics: Vec<&str> =
        create.columns.iter().filter(|column| column.is_static).map(|column| column.name.as_str()).collect();
    let key = &create.primary_keys[0];
    check_key(table, key, &types, &statics)?;
    let mut builder = TableSchema::builder(keyspace, table).id(id);
    for column in &key.partition {
        let ty = types.remove(column.as_str()).expect("the key was checked");
        builder = builder.partition_key(&column.text, ty);
    }
    check_order(create, key)?;
    for column in &key.clustering {
        let ty = types.remove(column.as_str()).expect("the key was checked");
        let mut orders = create.with.clustering_order.iter();
        let order = orders.find(|order| order.column == *column).map(|order| order.ordering);
        let ty = if order == Some(Ordering::Descending) { CqlType::reversed(ty) } else { ty };
        builder = builder.clustering(&column.text, ty);
    }
    let compact = match (create.with.compact_storage.is_some(), key.clustering.is_empty()) {
        (false, _) => CompactStorage::No,
        (true, true) => CompactStorage::Static,
        (true, false) => CompactStorage::Dense,
    };
    if compact != CompactStorage::No {
        check_compact(compact, &types, &statics)?;
    } else if key.clustering.is_empty() && !statics.is_empty() {
        return refuse!("{STATICS_NEED_CLUSTERING}");
    }
    let counters = types.values().filter(|ty| ty.is_counter()).count();
    if counters > 0 && counters < types.len() {
        return refuse!("Cannot mix counter and non counter columns in the same table");
    }
    if counters > 0 && options.default_ttl_s > 0 {
        return refuse!("{NO_TTL_ON_COUNTERS}");
    }
    let mut names: Vec<String> = create.columns.iter().map(|column| column.name.text.clone()).collect();
    let has_value = !types.is_empty();
    for (name, ty) in types {
        builder = match statics.contains(&name) || compact == CompactStorage::Static {
            true => builder.static_column(name, ty),
            false => builder.regular(name, ty),
        };
    }
    // The hidden columns, with the first names that no other column has.
    let mut free_name = |prefix: &str, first: &str| {
        let numbered = (1..).map(|number| format!("{prefix}{number}"));
        let mut candidates = [first.to_string()].into_iter().chain(numbered);
        let name = candidates.find(|name| !names.contains(name)).expect("names are numbered without end");
        names.push(name.clone());
        name
    };
    match compact {
        CompactStorage::Static => {
            let value = if counters > 0 { CqlType::Counter } else { CqlType::Blob };
            builder = builder.clustering(free_name("column", "column1"), CqlType::Text);
            builder = builder.regular(free_name("value", "value"), value);
        }
        CompactStorage::Dense if !has_value => {
            builder = builder.regular(free_name("value", "value"), CqlType::Empty);
        }
        CompactStorage::Dense | CompactStorage::No => {}
    }
    builder.compact(compact).options(options).build().map_err(|error| CqlError::Invalid(error.to_string()))
}

/// Checks the columns outside the primary key of a table with COMPACT STORAGE.
fn check_compact(
    compact: CompactStorage,
    types: &BTreeMap<&str, CqlType>,
    statics: &[&str],
) -> Result<(), CqlError> {
    if types.values().any(CqlType::is_multi_cell) {
        return refuse!("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    if !statics.is_empty() {
        return refuse!("Static columns are not supported in COMPACT STORAGE tables");
    }
    if compact == CompactStorage::Static && types.is_empty() {
        return refuse!("No definition found that is not part of the PRIMARY KEY");
    }
    if compact == CompactStorage::Dense && types.len() > 1 {
        let names: Vec<&str> = types.keys().copied().collect();
        return refuse!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            names.join(", ")
        );
    }
    Ok(())
}

pub(super) const STATICS_NEED_CLUSTERING: &str = "Static columns are only useful (and thus allowed) if the table has at \
                                                  least one clustering column";
pub(super) const NO_TTL_ON_COUNTERS: &str = "Cannot set default_time_to_live on a table with counters";

/// Refuses a non-frozen user type with non-frozen fields, because each field of a non-frozen type is a single
/// cell.
pub(super) fn check_nesting(ty: &CqlType) -> Result<(), CqlError> {
    match ty {
        CqlType::Udt { user, multi_cell: true }
            if user.fields.iter().any(|field| field.field_type.is_multi_cell()) =>
        {
            refuse!("Non-frozen UDTs with nested non-frozen collections are not supported")
        }
        _ => Ok(()),
    }
}

fn check_key(
    table: &str,
    key: &PrimaryKeyDef,
    types: &BTreeMap<&str, CqlType>,
    statics: &[&str],
) -> Result<(), CqlError> {
    let columns: Vec<&Ident> = key.partition.iter().chain(&key.clustering).collect();
    for (at, column) in columns.iter().enumerate() {
        let name = column.as_str();
        let Some(ty) = types.get(name) else {
            return refuse!("Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'");
        };
        if columns[..at].contains(column) {
            return refuse!("Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'");
        }
        if ty.is_multi_cell() {
            let what = if ty.is_collection() { "collection" } else { "user-defined" };
            let shown = match ty {
                CqlType::Udt { user, .. } => format!("\"{}.{}\"", user.keyspace, user.name),
                ty => ty.to_cql(),
            };
            return refuse!("Invalid non-frozen {what} type {shown} for PRIMARY KEY column '{name}'");
        }
        if ty.is_counter() {
            return refuse!("counter type is not supported for PRIMARY KEY column '{name}'");
        }
        if ty.references_duration() {
            return refuse!("duration type is not supported for PRIMARY KEY column '{name}'");
        }
        if statics.contains(&name) {
            return refuse!("Static column '{name}' cannot be part of the PRIMARY KEY");
        }
    }
    Ok(())
}

/// Checks that CLUSTERING ORDER names the first clustering columns in their order.
fn check_order(create: &CreateTable, key: &PrimaryKeyDef) -> Result<(), CqlError> {
    let orders = &create.with.clustering_order;
    let others = orders.iter().map(|order| &order.column).filter(|column| !key.clustering.contains(column));
    let others: Vec<&str> = others.map(Ident::as_str).collect();
    if !others.is_empty() {
        return refuse!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            others.join(", ")
        );
    }
    for (order, column) in orders.iter().zip(&key.clustering) {
        if order.column == *column {
            continue;
        }
        if orders.iter().any(|order| order.column == *column) {
            return refuse!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({} must appear before {})",
                column.text,
                order.column.text
            );
        }
        return refuse!("Missing CLUSTERING ORDER for column {}", column.text);
    }
    Ok(())
}
