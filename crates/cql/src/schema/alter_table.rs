//! ALTER TABLE and DROP TABLE.

use std::sync::Arc;

use catalog::{Catalog, CatalogError, Changed, Table, TableSettings};
use model::schema::TableBuilder;
use model::{CompactStorage, CqlType, KeyColumn, TableSchema, ViewDefinition};
use protocol::CqlError;
use syntax::ast::{AlterTable, AlterTableOp, ColumnDef, DropTable, Ident, Mask};

use super::create_table::{NO_TTL_ON_COUNTERS, STATICS_NEED_CLUSTERING, check_nesting};
use super::index::indexes_of;
use super::names::{keyspace_of, type_of, writable_keyspace};
use super::table_options::GivenOptions;
use super::view::{renamed as renamed_view, with_views};
use super::{SchemaContext, SchemaPlan, mask, refuse, to_catalog_error, unchanged};

/// Computes the change of an existing table.
type AlterFunction = Box<dyn FnOnce(&Catalog, &Table) -> Changed + Send>;

pub(super) fn drop(drop: &DropTable, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&drop.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let (name, if_exists) = (drop.name.name.text.clone(), drop.if_exists);
    Ok(SchemaPlan::new(move |catalog| match catalog.table(&keyspace, &name) {
        None if if_exists => unchanged(catalog),
        Some(table) if table.schema.view.is_some() => refuse!(
            "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
        ),
        _ => catalog.drop_table(&keyspace, &name),
    }))
}

pub(super) fn plan(alter: &AlterTable, context: &SchemaContext<'_>) -> Result<SchemaPlan, CqlError> {
    let keyspace = keyspace_of(&alter.name, context.keyspace)?.to_string();
    writable_keyspace(&keyspace)?;
    let mut warnings = vec![];
    let op: AlterFunction = match alter.op.clone() {
        AlterTableOp::Add { if_not_exists, columns } => {
            mask::check_enabled(columns.iter().filter_map(|column| column.mask.as_ref()), context)?;
            Box::new(move |catalog, table| add(catalog, table, &columns, if_not_exists))
        }
        AlterTableOp::Drop { if_exists, columns, timestamp } => {
            let time_us = match timestamp {
                None => context.timestamp_us,
                Some(literal) => literal.text.parse().map_err(|_| {
                    CqlError::Syntax(format!(
                        "Invalid value {} for TIMESTAMP: it must fit 64 bits",
                        literal.text
                    ))
                })?,
            };
            Box::new(move |catalog, table| drop_columns(catalog, table, &columns, if_exists, time_us))
        }
        AlterTableOp::Rename { if_exists, columns } => {
            Box::new(move |catalog, table| rename(catalog, table, &columns, if_exists))
        }
        AlterTableOp::With(properties) => {
            let given = GivenOptions::new(&properties)?;
            if given.id.is_some() {
                return Err(CqlError::Config("Cannot alter table id.".to_string()));
            }
            warnings = given.warnings(false);
            Box::new(move |catalog, table| set_options(catalog, table, &given))
        }
        AlterTableOp::AlterType { .. } => return refuse!("Altering column types is no longer supported"),
        AlterTableOp::DropCompactStorage if !context.rules.may_drop_compact_storage => {
            return refuse!("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.");
        }
        AlterTableOp::DropCompactStorage => Box::new(drop_compact_storage),
        AlterTableOp::Mask { if_exists, column, mask } => {
            mask::check_enabled(&mask, context)?;
            Box::new(move |catalog, table| set_mask(catalog, table, &column, mask.as_ref(), if_exists))
        }
    };
    let (name, if_exists) = (alter.name.name.text.clone(), alter.if_exists);
    let renames = matches!(alter.op, AlterTableOp::Rename { .. });
    let changes_columns = renames || matches!(alter.op, AlterTableOp::Add { .. } | AlterTableOp::Drop { .. });
    let plan = SchemaPlan::new(move |catalog| match catalog.table(&keyspace, &name) {
        Some(table) if table.schema.view.is_some() => {
            refuse!("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead")
        }
        Some(table) => {
            check_change_log(catalog, table, changes_columns, renames)?;
            op(catalog, table)
        }
        None if if_exists => unchanged(catalog),
        None => refuse!("Table '{keyspace}.{name}' doesn't exist"),
    });
    Ok(plan.with_warnings(warnings))
}

/// Refuses changes of columns that a change log, or its base table, cannot have.
fn check_change_log(
    catalog: &Catalog,
    table: &Table,
    changes_columns: bool,
    renames: bool,
) -> Result<(), CatalogError> {
    if changes_columns && let Some(base) = catalog.base_of_change_log(&table.schema) {
        return refuse!(
            "Cannot change the columns of a CDC log: they follow those of {}",
            base.schema.full_name()
        );
    }
    if renames && table.settings.change_log().is_some() {
        return refuse!("Cannot rename columns of {} while CDC is enabled for it", table.schema.full_name());
    }
    Ok(())
}

/// Returns the change to the new definition, or no change if the definition is the same.
fn altered(catalog: &Catalog, old: &Table, schema: Arc<TableSchema>, settings: TableSettings) -> Changed {
    if schema == old.schema && settings == *old.settings {
        return unchanged(catalog);
    }
    catalog.alter_table(schema, settings)
}

fn built(catalog: &Catalog, old: &Table, builder: TableBuilder, settings: TableSettings) -> Changed {
    let schema = builder.build_with_ids_from(old.schema.column_id_bound());
    let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
    altered(catalog, old, schema, settings)
}

fn is_key_column(schema: &TableSchema, name: &str) -> bool {
    schema.partition_key.iter().chain(&schema.clustering).any(|key| key.name == name)
}

/// Whether the column is the clustering column of a compact table without clustering columns.
fn is_hidden_key(schema: &TableSchema, name: &str) -> bool {
    schema.is_static_compact() && schema.clustering.iter().any(|key| key.name == name)
}

fn add(catalog: &Catalog, table: &Table, columns: &[ColumnDef], if_not_exists: bool) -> Changed {
    let schema = &table.schema;
    let mut builder = schema.to_builder();
    let mut settings = TableSettings::clone(&table.settings);
    let mut added: Vec<&str> = vec![];
    let mut of_views: Vec<(&str, CqlType)> = vec![];
    for column in columns {
        let ColumnDef { name, ty, is_static, mask: _ } = column;
        let name = name.as_str();
        let ty = type_of(catalog, &schema.keyspace, ty)?;
        if is_key_column(schema, name) || schema.column_named(name).is_some() || added.contains(&name) {
            if if_not_exists {
                continue;
            }
            return refuse!("Column with name '{name}' already exists");
        }
        if schema.is_compact() {
            return refuse!("Cannot add new column to a COMPACT STORAGE table");
        }
        if *is_static && schema.clustering.is_empty() {
            return refuse!("{STATICS_NEED_CLUSTERING}");
        }
        check_nesting(&ty).map_err(to_catalog_error)?;
        if ty.is_counter() && !schema.has_counters() {
            let text = format!(
                "{}: Cannot have a counter column (\"{name}\") in a non counter table",
                schema.full_name()
            );
            return Err(CatalogError::Configuration(text));
        }
        if !ty.is_counter() && schema.has_counters() {
            let text = format!(
                "{}: Cannot have a non counter column (\"{name}\") in a counter table",
                schema.full_name()
            );
            return Err(CatalogError::Configuration(text));
        }
        mask::add(catalog, &mut settings, (&schema.keyspace, &schema.name), column, &ty)?;
        if !*is_static {
            of_views.push((name, ty.clone()));
        }
        builder = if *is_static { builder.static_column(name, ty) } else { builder.regular(name, ty) };
        added.push(name);
    }
    let masks = settings.masks.clone();
    let changed = built(catalog, table, builder, settings);
    with_views(changed, schema, |view| {
        if !view.schema.view.as_ref().is_some_and(|view| view.selects_all) {
            return Ok(None);
        }
        let mut settings = TableSettings::clone(&view.settings);
        let mut builder = view.schema.to_builder();
        for (name, ty) in &of_views {
            builder = builder.regular(*name, ty.clone());
            if let Some(mask) = masks.get(*name) {
                settings.masks.insert((*name).to_string(), mask.clone());
            }
        }
        Ok((!of_views.is_empty()).then_some((builder, settings)))
    })
}

fn drop_columns(
    catalog: &Catalog,
    table: &Table,
    columns: &[Ident],
    if_exists: bool,
    time_us: i64,
) -> Changed {
    let schema = &table.schema;
    let mut builder = schema.to_builder();
    let mut settings = TableSettings::clone(&table.settings);
    for name in columns.iter().map(Ident::as_str) {
        if is_key_column(schema, name) && !is_hidden_key(schema, name) {
            return refuse!("Cannot drop PRIMARY KEY column {name}");
        }
        if schema.defined_column(name).is_none() {
            if if_exists {
                continue;
            }
            return refuse!("Column {name} was not found in table '{}'", schema.full_name());
        }
        if schema.is_dense() {
            return refuse!("Cannot drop columns from a COMPACT STORAGE table with clustering columns");
        }
        if let Some(indexes) = indexes_of(schema, name) {
            return refuse!(
                "Cannot drop column {name} because it has dependent secondary indexes ({indexes})"
            );
        }
        if catalog.views_of(schema).next().is_some() {
            return refuse!(
                "Cannot drop column {name} on base table {} with materialized views",
                schema.name
            );
        }
        builder = builder.drop_column(name, time_us);
        settings.masks.remove(name);
    }
    built(catalog, table, builder, settings)
}

fn rename(catalog: &Catalog, table: &Table, columns: &[(Ident, Ident)], if_exists: bool) -> Changed {
    let mut schema = TableSchema::clone(&table.schema);
    let mut settings = TableSettings::clone(&table.settings);
    let mut renamed = vec![];
    for (from, to) in columns {
        let (from, to) = (from.as_str(), to.as_str());
        let name = schema.full_name();
        if !is_key_column(&schema, from) || is_hidden_key(&schema, from) {
            match schema.defined_column(from) {
                Some(_) => return refuse!("Cannot rename non PRIMARY KEY column {from}"),
                None if if_exists => continue,
                None => return refuse!("Undefined column name {from} in table {name}"),
            }
        }
        if is_key_column(&schema, to) || schema.column_named(to).is_some() {
            return refuse!(
                "Cannot rename column {from} to {to} in table '{name}'; another column with that name already exists"
            );
        }
        if let Some(indexes) = indexes_of(&schema, from) {
            return refuse!(
                "Can't rename column {from} because it has dependent secondary indexes ({indexes})"
            );
        }
        let mut keys = schema.partition_key.iter_mut().chain(&mut schema.clustering);
        let key: Option<&mut KeyColumn> = keys.find(|key| key.name == from);
        key.expect("it is a key column").name = to.to_string();
        if let Some(mask) = settings.masks.remove(from) {
            settings.masks.insert(to.to_string(), mask);
        }
        renamed.push((from, to));
    }
    let changed = altered(catalog, table, Arc::new(schema), settings);
    with_views(changed, &table.schema, |view| {
        let mut settings = TableSettings::clone(&view.settings);
        let mut builder = view.schema.to_builder();
        let Some(definition) = &view.schema.view else { return Ok(None) };
        let mut definition = ViewDefinition::clone(definition);
        for (from, to) in &renamed {
            definition = renamed_view(&definition, from, to)?;
            builder = builder.rename_key(from, to);
            if let Some(mask) = settings.masks.remove(*from) {
                settings.masks.insert((*to).to_string(), mask);
            }
        }
        Ok((!renamed.is_empty()).then(|| (builder.view(Arc::new(definition)), settings)))
    })
}

/// Sets or removes the mask of a column.
fn set_mask(
    catalog: &Catalog,
    table: &Table,
    column: &Ident,
    mask: Option<&Mask>,
    if_exists: bool,
) -> Changed {
    let schema = &table.schema;
    let name = column.as_str();
    let key = schema.partition_key.iter().chain(&schema.clustering).find(|key| key.name == name);
    let Some(ty) = key.map(|key| &key.ty).or(schema.column_named(name).map(|column| &column.ty)) else {
        if if_exists {
            return unchanged(catalog);
        }
        return refuse!("Column with name '{name}' doesn't exist on table '{}'", schema.name);
    };
    let mut settings = TableSettings::clone(&table.settings);
    match mask {
        Some(mask) => {
            let mask = mask::prepare(catalog, (&schema.keyspace, &schema.name), name, ty, mask);
            settings.masks.insert(name.to_string(), mask.map_err(to_catalog_error)?);
        }
        None => {
            settings.masks.remove(name);
        }
    }
    if settings == *table.settings {
        return unchanged(catalog);
    }
    let mask = settings.masks.get(name).cloned();
    // A new value of the schema, so that prepared statements are prepared again with the mask.
    let changed = catalog.alter_table(Arc::new(TableSchema::clone(schema)), settings);
    with_views(changed, schema, |view| {
        let keys = view.schema.partition_key.iter().chain(&view.schema.clustering);
        if !keys.map(|key| &key.name).any(|key| key == name) && view.schema.defined_column(name).is_none() {
            return Ok(None);
        }
        let mut settings = TableSettings::clone(&view.settings);
        match &mask {
            Some(mask) => settings.masks.insert(name.to_string(), mask.clone()),
            None => settings.masks.remove(name),
        };
        Ok(Some((view.schema.to_builder(), settings)))
    })
}

fn drop_compact_storage(catalog: &Catalog, table: &Table) -> Changed {
    if !table.schema.is_compact() {
        return refuse!("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
    }
    let mut schema = TableSchema::clone(&table.schema);
    schema.compact = CompactStorage::No;
    altered(catalog, table, Arc::new(schema), TableSettings::clone(&table.settings))
}

fn set_options(catalog: &Catalog, table: &Table, given: &GivenOptions) -> Changed {
    let mut schema = TableSchema::clone(&table.schema);
    let mut settings = TableSettings::clone(&table.settings);
    given.apply(&mut schema.options, &mut settings).map_err(to_catalog_error)?;
    if schema.has_counters() && schema.options.default_ttl_s > 0 {
        return refuse!("{NO_TTL_ON_COUNTERS}");
    }
    if schema.options.gc_grace_s == 0 && catalog.views_of(&schema).next().is_some() {
        return refuse!(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value is used \
             to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire \
             before being replayed."
        );
    }
    altered(catalog, table, Arc::new(schema), settings)
}
