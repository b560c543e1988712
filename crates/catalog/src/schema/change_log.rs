//! Change logs (CDC): which table is the log of which, and how a log follows its base table.
//!
//! The log of a table `t` is the table `t_scylla_cdc_log` of the same keyspace, as in ScyllaDB. It comes into
//! being when `cdc` is enabled for `t`, gets and loses columns with it, and is dropped with it. When `cdc` is
//! disabled, it stays as an ordinary table, whose entries can still be read; enabling `cdc` again continues
//! it.
//!
//! **Generations:** libraries that read logs learn the streams from two tables of `system_distributed`. The
//! streams of a node never change ([`model::change_log::Stream`]), so there is one generation; it begins when
//! the node's first log is created.

use std::sync::Arc;

use model::change_log::{
    BATCH_SEQ_NO, DELETED, DELETED_ELEMENTS, STREAM_ID, SUFFIX, Stream, TIME, log_columns,
};
use model::types::CollectionBuilder;
use model::{
    Cell, ChangeLogOptions, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, TableOptions,
    TableSchema,
};

use crate::error::{CatalogError, invalid};
use crate::options::settings::TableSettings;
use crate::options::text_map::map;
use crate::schema::catalog::{Catalog, Changed, Table};
use crate::system::definition::name_uuid;
use crate::system::{cdc_generations, cdc_streams};

/// Windows of a log's compaction in the time after which its entries expire, as in ScyllaDB.
const WINDOWS: u32 = 24;

impl Catalog {
    /// The log of a table for which `cdc` is enabled.
    pub fn change_log_of(&self, base: &Table) -> Option<&Arc<Table>> {
        base.settings.change_log()?;
        self.table(&base.schema.keyspace, &log_name(&base.schema))
    }

    /// The table whose log this is, if `cdc` is enabled for it.
    pub fn base_of_change_log(&self, log: &TableSchema) -> Option<&Arc<Table>> {
        let base = self.table(&log.keyspace, log.name.strip_suffix(SUFFIX)?)?;
        base.settings.change_log().map(|_| base)
    }
}

/// Whether a table has the primary key of a log.
fn is_log(schema: &TableSchema) -> bool {
    let keys = schema.partition_key.iter().chain(&schema.clustering).map(|key| &key.name);
    keys.eq([STREAM_ID, TIME, BATCH_SEQ_NO])
}

fn log_name(base: &TableSchema) -> String {
    format!("{}{SUFFIX}", base.name)
}

/// Creates or alters the log of a table that was created (`is_created`) or altered.
pub(super) fn follow(changed: Changed, base: &TableSchema, is_created: bool) -> Changed {
    let (catalog, mut changes) = changed?;
    let base = catalog.table(&base.keyspace, &base.name).cloned();
    let Some((base, options)) = base.and_then(|base| Some((base.clone(), base.settings.change_log()?)))
    else {
        return Ok((catalog, changes));
    };
    let name = log_name(&base.schema);
    let (catalog, more) = match catalog.table(&base.schema.keyspace, &name) {
        Some(log) if is_created || !is_log(&log.schema) => {
            return invalid!(
                "Cannot create CDC log table for table {}: a table of the name {} exists already",
                base.schema.full_name(),
                log.schema.full_name()
            );
        }
        Some(log) => {
            let log = log.clone();
            altered(&catalog, &base.schema, &log)?
        }
        None => created(&catalog, &base.schema, options)?,
    };
    changes.extend(more);
    Ok((catalog, changes))
}

/// Refuses what cannot have a log.
pub(super) fn check_base(base: &TableSchema) -> Result<(), CatalogError> {
    if base.has_counters() {
        return invalid!("CDC is not supported for tables with counters: {}", base.full_name());
    }
    if base.view.is_some() {
        return invalid!("CDC is not supported for materialized views: {}", base.full_name());
    }
    if base.is_compact() {
        return invalid!("CDC is not supported for tables with COMPACT STORAGE: {}", base.full_name());
    }
    if base.name.ends_with(SUFFIX) {
        return invalid!("CDC is not supported for a CDC log: {}", base.full_name());
    }
    let keys = base.partition_key.iter().chain(&base.clustering).map(|key| &key.name);
    let mut names = keys.chain(base.columns().iter().map(|column| &column.name));
    if let Some(name) = names.find(|name| name.starts_with("cdc$")) {
        return invalid!("Cannot enable CDC for {}: the column {name} begins with cdc$", base.full_name());
    }
    Ok(())
}

fn created(catalog: &Catalog, base: &TableSchema, options: ChangeLogOptions) -> Changed {
    // Each node, and each load of the schema, gives it the same id.
    let id = name_uuid(&[b"change log of ", &base.id.as_bytes()[..]].concat());
    let storage = TableOptions {
        gc_grace_s: 0,
        comment: format!("CDC log for {}", base.full_name()),
        ..Default::default()
    };
    let mut builder = TableSchema::builder(&base.keyspace, log_name(base))
        .id(id)
        .options(storage)
        .partition_key(STREAM_ID, CqlType::Blob)
        .clustering(TIME, CqlType::TimeUuid)
        .clustering(BATCH_SEQ_NO, CqlType::Int);
    for (name, ty) in log_columns(base) {
        builder = builder.regular(name, ty);
    }
    let schema = builder.build().map_err(|error| CatalogError::Invalid(error.to_string()))?;
    let minutes = match options.ttl_s {
        0 => 24 * 60,
        ttl_s => ttl_s.div_ceil(WINDOWS).div_ceil(60),
    };
    let compaction = map(&[
        ("class", "TimeWindowCompactionStrategy"),
        ("compaction_window_size", &minutes.to_string()),
        ("compaction_window_unit", "MINUTES"),
        ("expired_sstable_check_frequency_seconds", "1800"),
    ]);
    catalog.create_table(schema, TableSettings { compaction, ..TableSettings::default() })
}

/// Gives a log the columns that its base table has got, and drops those that it has lost.
fn altered(catalog: &Catalog, base: &TableSchema, log: &Table) -> Changed {
    if let Some(view) = catalog.views_of(&log.schema).next() {
        return invalid!(
            "The CDC log {} has the materialized view {}, which entries would not reach. Drop the view before CDC \
             is enabled",
            log.schema.full_name(),
            view.schema.name
        );
    }
    let wanted = log_columns(base);
    let mut builder = log.schema.to_builder();
    let mut is_same = true;
    for column in log.schema.columns() {
        let is_wanted = wanted.iter().any(|(name, ty)| *name == column.name && *ty == column.ty);
        let of_base = [DELETED_ELEMENTS, DELETED].iter().find_map(|prefix| column.name.strip_prefix(prefix));
        let of_base = of_base.unwrap_or(&column.name);
        let dropped = base.dropped.iter().find(|dropped| dropped.name == of_base);
        match dropped {
            _ if is_wanted => {}
            Some(dropped) => {
                builder = builder.drop_column(&column.name, dropped.dropped_time_us);
                is_same = false;
            }
            // A column of another name is left; one of another type cannot be.
            None if wanted.iter().all(|(name, _)| *name != column.name) => {}
            None => {
                return invalid!(
                    "The CDC log {} has the column {} with another type. Drop the log (DROP TABLE) before \
                     CDC is enabled",
                    log.schema.full_name(),
                    column.name
                );
            }
        }
    }
    for (name, ty) in wanted {
        if log.schema.column_named(&name).is_none_or(|column| column.ty != ty) {
            builder = builder.regular(name, ty);
            is_same = false;
        }
    }
    if is_same {
        return Ok((catalog.clone(), vec![]));
    }
    let schema = builder.build_with_ids_from(log.schema.column_id_bound());
    let schema = schema.map_err(|error| CatalogError::Invalid(error.to_string()))?;
    catalog.alter_table(schema, TableSettings::clone(&log.settings))
}

/// The partition of `system_distributed.cdc_generation_timestamps` with all generations.
pub fn generations_key() -> PartitionKey {
    PartitionKey::new(b"timestamps".to_vec())
}

/// The writes that make the streams known as a generation that begins at `begin_us`.
pub fn generation(begin_us: i64) -> [Mutation; 2] {
    let begin = (begin_us.div_euclid(1000)).to_be_bytes();
    let mut times = Mutation::new(cdc_generations(), generations_key());
    times.row_mut(ClusteringPrefix::new([&begin[..]])).liveness = Liveness::new(begin_us);
    let mut streams = Mutation::new(cdc_streams(), PartitionKey::new(begin.to_vec()));
    let schema = streams.schema.clone();
    let Some(column) = schema.column_named("streams") else { return [times, streams] };
    for stream in Stream::all() {
        let row = streams.row_mut(ClusteringPrefix::new([&stream.range_end.to_be_bytes()[..]]));
        row.liveness = Liveness::new(begin_us);
        let mut ids = CollectionBuilder::new();
        ids.push(&stream.id);
        row.set(column, Cell::live(begin_us, ids.finish()));
    }
    [times, streams]
}
