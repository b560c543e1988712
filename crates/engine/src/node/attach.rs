//! Attached tables: SSTables of another directory as tables of this node, for reading only.
//!
//! An attached table is in the catalog of the running node, where clients see it, but not on its disk: a
//! start without it does not know it. Its directory is listed once, at the start, and all files are opened
//! then; it is never locked and never written. Writes, truncates, snapshots and schema changes are refused.

use std::sync::Arc;

use base::murmur3;
use catalog::{Catalog, Keyspace, TableSettings};
use model::types::{CqlType, UserType};
use model::{TableId, TableSchema};
use runtime::{CpuGroup, Shard};
use sstable::dump::named_schema;
use sstable::tools::{Finding, SSTablePath, check_fit, merged_header, read_statistics};

use super::{NodeShard, on_all, publish};
use crate::error::EngineError;
use crate::options::Attachment;
use crate::table::{Table, files};

/// Opens all attachments on every shard.
///
/// # Errors
/// A directory has no SSTable, or its SSTables belong to different tables, or do not fit the stated schema.
pub async fn open_all(shard: &Shard, attachments: &[Attachment]) -> Result<(), EngineError> {
    if attachments.is_empty() {
        return Ok(());
    }
    let node = NodeShard::of(shard)?;
    let mut catalog = node.catalog.borrow().clone();
    let mut attached = vec![];
    for attachment in attachments {
        let schema = schema_of(shard, attachment).await?;
        if catalog.keyspace(&schema.keyspace).is_none() {
            catalog = catalog.create_keyspace(Keyspace::simple(schema.keyspace.as_str())?)?.0;
            node.attached_keyspaces.borrow_mut().push(schema.keyspace.clone());
        }
        catalog = with_types(catalog, &schema)?;
        catalog = catalog.create_table(schema.clone(), TableSettings::default())?.0;
        // The catalog may have added defaults.
        let schema = catalog.table_by_id(schema.id).map_or(schema, |table| table.schema.clone());
        attached.push((schema, attachment.dir.clone()));
    }
    let open = move |shard: Shard| {
        let attached = attached.clone();
        async move {
            let node = NodeShard::of(&shard)?;
            let engine = &node.engine;
            for (schema, dir) in attached {
                let table = Table::attached(schema, dir, engine.log().clone(), shard.id(), node.sharder);
                table.open_sstables(shard.files(), engine.cache(), shard.shard_count()).await?;
                engine.add_table(table, &TableSettings::default());
            }
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Maintenance, open).await?;
    publish(shard, catalog).await
}

/// The schema of the directory's SSTables, under the name of the attachment.
async fn schema_of(shard: &Shard, attachment: &Attachment) -> Result<Arc<TableSchema>, EngineError> {
    let dir = &attachment.dir;
    let invalid = |what: String| EngineError::Invalid(format!("cannot attach {}: {what}", dir.display()));
    let names = files::list(shard.files(), dir).await?;
    if names.is_empty() {
        return Err(invalid("there is no SSTable in it".to_string()));
    }
    let mut headers = vec![];
    for name in names {
        let place = SSTablePath { dir: dir.clone(), name };
        match read_statistics(shard.files(), &place).await {
            Ok(statistics) => headers.push((place, statistics.header)),
            Err(error) => return Err(invalid(Finding::from(&error).to_string())),
        }
    }
    let merged = merged_header(headers.iter().map(|(_, header)| header));
    let merged = merged.map_err(|conflict| invalid(format!("{}: {conflict}", headers[conflict.index].0)))?;
    let header = merged.expect("there is an SSTable");
    let (keyspace, table) = (&attachment.keyspace, &attachment.table);
    let described = match &attachment.schema {
        Some(schema) => schema.clone(),
        None => named_schema(&header, keyspace, table)
            .map_err(|error| invalid(format!("the header describes no table: {error}")))?,
    };
    for (place, header) in &headers {
        check_fit(&described, header).map_err(|misfit| invalid(format!("{place}: {misfit}")))?;
    }
    // The same at every start, and different from the id of every table of this node, even if the SSTables
    // came from one.
    let (high, low) = murmur3::hash128(format!("attached {keyspace}.{table} {}", dir.display()).as_bytes());
    let id = uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes());
    let schema = rebuilt(&described, keyspace, table, id.into_uuid());
    schema.map_err(|error| invalid(error.to_string()))
}

/// The same columns under another name.
fn rebuilt(
    schema: &TableSchema,
    keyspace: &str,
    table: &str,
    id: TableId,
) -> Result<Arc<TableSchema>, model::schema::SchemaError> {
    let mut builder = TableSchema::builder(keyspace, table).id(id).options(schema.options.clone());
    for column in &schema.partition_key {
        builder = builder.partition_key(column.name.clone(), moved(&column.ty, keyspace));
    }
    for column in &schema.clustering {
        builder = builder.clustering(column.name.clone(), moved(&column.ty, keyspace));
    }
    for column in schema.columns() {
        let mut column = column.clone();
        column.ty = moved(&column.ty, keyspace);
        builder = builder.column(column);
    }
    builder.build()
}

/// The type with its user-defined types in another keyspace.
fn moved(ty: &CqlType, keyspace: &str) -> CqlType {
    let inner = |ty: &CqlType| Arc::new(moved(ty, keyspace));
    match ty {
        CqlType::List { element, multi_cell } => {
            CqlType::List { element: inner(element), multi_cell: *multi_cell }
        }
        CqlType::Set { element, multi_cell } => {
            CqlType::Set { element: inner(element), multi_cell: *multi_cell }
        }
        CqlType::Map { entry, multi_cell } => {
            let entry = Arc::new((moved(&entry.0, keyspace), moved(&entry.1, keyspace)));
            CqlType::Map { entry, multi_cell: *multi_cell }
        }
        CqlType::Tuple(parts) => CqlType::Tuple(parts.iter().map(|part| moved(part, keyspace)).collect()),
        CqlType::Composite(parts) => {
            CqlType::Composite(parts.iter().map(|part| moved(part, keyspace)).collect())
        }
        CqlType::Vector { element, dimension } => {
            CqlType::Vector { element: inner(element), dimension: *dimension }
        }
        CqlType::Reversed(ty) => CqlType::Reversed(inner(ty)),
        CqlType::Udt { user, multi_cell } => {
            let mut user = UserType::clone(user);
            user.keyspace = keyspace.to_owned();
            for field in &mut user.fields {
                field.field_type = moved(&field.field_type, keyspace);
            }
            CqlType::Udt { user: Arc::new(user), multi_cell: *multi_cell }
        }
        other => other.clone(),
    }
}

/// The catalog with the user-defined types of the table's columns added.
fn with_types(mut catalog: Catalog, schema: &TableSchema) -> Result<Catalog, EngineError> {
    for user in catalog::user_types_of(schema) {
        match catalog.user_type(&user.keyspace, &user.name) {
            None => catalog = catalog.create_type(UserType::clone(&user))?.0,
            Some(known) if **known == *user => {}
            Some(_) => {
                return Err(EngineError::Invalid(format!(
                    "cannot attach {}: its type {} is another one in keyspace {}; attach it under another keyspace",
                    schema.full_name(),
                    user.name,
                    user.keyspace
                )));
            }
        }
    }
    Ok(catalog)
}
