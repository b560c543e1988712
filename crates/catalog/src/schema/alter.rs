//! The rules of `ALTER TABLE`. They keep data written before a change readable.
//!
//! Rows in memory and in the commit log identify columns by number, SSTables by name. A column therefore
//! keeps its number, name, kind and type until it is dropped. A dropped column leaves a record with its
//! number and the time of the drop; it gets the same number again if it is added again with the same
//! definition. A new column with this name must have a type that can read the old cells, since these stay in
//! SSTables until compaction. Rules and error texts are Cassandra 4.1's (`AlterTableStatement.java`).

use std::sync::Arc;

use model::schema::DroppedColumn;
use model::types::UserType;
use model::{Column, ColumnKind, CqlType, KeyColumn, TableSchema};

use crate::error::{CatalogError, invalid};
use crate::schema::user_types;

/// Maximum number of columns that a table may have had in total: one column dropped and added per second for
/// twelve days.
pub(crate) const MAX_COLUMN_IDS: u32 = 1 << 20;

/// Whether a column's type contains the user type of this name.
pub(crate) fn uses(schema: &TableSchema, name: &str) -> bool {
    let keys = schema.partition_key.iter().chain(&schema.clustering).map(|key| &key.ty);
    keys.chain(schema.columns().iter().map(|column| &column.ty)).any(|ty| user_types::uses(ty, name))
}

/// The same table, with the user type of that name replaced by `new`.
pub(crate) fn with_user_type(schema: &TableSchema, new: &Arc<UserType>) -> Arc<TableSchema> {
    let mut builder =
        TableSchema::builder(&schema.keyspace, &schema.name).id(schema.id).options(schema.options.clone());
    builder = builder.compact(schema.compact);
    if let Some(view) = &schema.view {
        builder = builder.view(view.clone());
    }
    for KeyColumn { name, ty } in &schema.partition_key {
        builder = builder.partition_key(name, user_types::with_user_type(ty, new));
    }
    for KeyColumn { name, ty } in &schema.clustering {
        builder = builder.clustering(name, user_types::with_user_type(ty, new));
    }
    for column in schema.columns() {
        let ty = user_types::with_user_type(&column.ty, new);
        builder = builder.column(Column { ty, ..column.clone() });
    }
    for dropped in &schema.dropped {
        builder = builder.dropped(dropped.clone());
    }
    for index in &schema.indexes {
        builder = builder.index(index.clone());
    }
    builder.build_with_ids_from(schema.column_id_bound()).expect("only a user type has other fields")
}

/// The same table, with dropped columns sorted by name and without user types in their types, because these
/// user types may be dropped.
pub(crate) fn normal(schema: Arc<TableSchema>) -> Arc<TableSchema> {
    if schema.dropped.is_empty() {
        return schema;
    }
    let mut schema = TableSchema::clone(&schema);
    for dropped in &mut schema.dropped {
        dropped.ty = user_types::expand(&dropped.ty);
    }
    schema.dropped.sort_by(|a, b| a.name.cmp(&b.name));
    Arc::new(schema)
}

pub(crate) fn check(old: &TableSchema, new: &TableSchema) -> Result<(), CatalogError> {
    if old.id != new.id {
        return invalid!("Cannot alter table id.");
    }
    check_keys(old, new)?;
    if new.has_counters() != old.has_counters() && !new.columns().is_empty() {
        return invalid!("Cannot mix counter and non counter columns in the same table");
    }
    if new.column_id_bound() < old.column_id_bound() {
        return invalid!(
            "table {}: the bound of column numbers falls from {} to {}; build the schema with ids from {0}",
            old.full_name(),
            old.column_id_bound(),
            new.column_id_bound()
        );
    }
    for column in new.columns() {
        match old.column(column.id) {
            Some(before) => check_kept(before, column)?,
            None => check_added(old, new, column)?,
        }
    }
    for column in old.columns().iter().filter(|column| new.column(column.id).is_none()) {
        check_removed_column(new, column)?;
    }
    for before in &old.dropped {
        let kept = dropped(new, &before.name);
        if kept.is_none_or(|now| now.dropped_time_us < before.dropped_time_us) {
            return invalid!(
                "table {}: the record of the dropped column {} may not go or become older",
                old.full_name(),
                before.name
            );
        }
    }
    Ok(())
}

fn dropped<'a>(schema: &'a TableSchema, name: &str) -> Option<&'a DroppedColumn> {
    schema.dropped.iter().find(|dropped| dropped.name == name)
}

/// Checks the key columns: they may be renamed but not changed otherwise.
fn check_keys(old: &TableSchema, new: &TableSchema) -> Result<(), CatalogError> {
    let types = |keys: &[KeyColumn]| keys.iter().map(|key| key.ty.clone()).collect::<Vec<_>>();
    for (old, new) in [(&old.partition_key, &new.partition_key), (&old.clustering, &new.clustering)] {
        if old.len() > new.len() {
            return invalid!("Cannot drop PRIMARY KEY column {}", old[new.len()].name);
        }
        if types(old) != types(new) {
            return invalid!("Altering column types is no longer supported");
        }
    }
    Ok(())
}

fn check_kept(before: &Column, column: &Column) -> Result<(), CatalogError> {
    if before.name != column.name {
        return invalid!("Cannot rename non PRIMARY KEY column {}", before.name);
    }
    if before.ty != column.ty || before.kind != column.kind {
        return invalid!("Altering column types is no longer supported");
    }
    Ok(())
}

fn check_added(old: &TableSchema, new: &TableSchema, column: &Column) -> Result<(), CatalogError> {
    let is_its_own = dropped(old, &column.name).is_some_and(|before| {
        before.id == Some(column.id) && before.kind == column.kind && before.ty.has_same_values(&column.ty)
    });
    if column.id.0 < old.column_id_bound() && !is_its_own {
        return invalid!(
            "table {}: column {} has the number {}, which another column had; build the schema with ids from {}",
            old.full_name(),
            column.name,
            column.id.0,
            old.column_id_bound()
        );
    }
    // SSTables still contain the cells of dropped columns.
    if new.dropped.iter().any(|dropped| dropped.ty.is_counter() != column.ty.is_counter()) {
        return invalid!("Cannot mix counter and non counter columns in the same table");
    }
    let Some(before) = dropped(new, &column.name) else {
        return Ok(());
    };
    if !can_read(&column.ty, &user_types::expand(&before.ty)) {
        return invalid!(
            "Cannot add a column '{}' of type {}, incompatible with previously dropped column '{}' of type {}",
            column.name,
            column.ty.to_cql(),
            column.name,
            before.ty.to_cql()
        );
    }
    if column.kind != before.kind {
        return invalid!(
            "Cannot re-add previously dropped column '{}' of kind {}, incompatible with previous kind {}",
            column.name,
            kind_word(column.kind),
            kind_word(before.kind)
        );
    }
    if column.ty.is_counter() {
        return invalid!("Cannot re-add previously dropped counter column {}", column.name);
    }
    Ok(())
}

fn kind_word(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Static => "STATIC",
        ColumnKind::Regular => "REGULAR",
    }
}

fn check_removed_column(new: &TableSchema, column: &Column) -> Result<(), CatalogError> {
    if user_types::is_non_frozen_udt(&column.ty) {
        return invalid!("Cannot drop non-frozen column {} of user type {}", column.name, column.ty.to_cql());
    }
    let recorded = dropped(new, &column.name).is_some_and(|record| {
        record.kind == column.kind && user_types::expand(&record.ty) == user_types::expand(&column.ty)
    });
    if !recorded {
        return invalid!("table {}: column {} was dropped without a record", new.full_name(), column.name);
    }
    Ok(())
}

/// Whether cells of type `old` in an SSTable are valid values of `new`. Source: Cassandra's
/// `AbstractType.isSerializationCompatibleWith`.
fn can_read(new: &CqlType, old: &CqlType) -> bool {
    match (new, old) {
        _ if user_types::expand(new) == *old => true,
        (CqlType::Blob, old) => {
            !old.is_multi_cell() && !old.is_counter() && old.sstable_fixed_len().is_none()
        }
        (CqlType::Text, CqlType::Ascii)
        | (CqlType::Uuid, CqlType::TimeUuid)
        | (CqlType::BigInt, CqlType::Timestamp)
        | (CqlType::Timestamp, CqlType::BigInt) => true,
        _ => false,
    }
}
