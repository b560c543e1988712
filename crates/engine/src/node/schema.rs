//! Schema changes: decided by the caller, stored in the system tables, published to every shard.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

use base::broken;
use catalog::system::is_system_keyspace;
use catalog::{Catalog, Changed, SchemaChange};
use model::{ClusteringRange, TableId, TableSchema};
use runtime::{CpuGroup, Shard};

use super::{Deadline, NodeShard, on_all, snapshot, table_dir, view_build, views};
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::dropped;
use crate::table::truncation::{self, Truncation};
use crate::table::view_mark::{self, Unbuilt};

/// Time limit for writes to end that know a dropped view.
const DRAIN_US: u64 = 5_000_000;

/// Time limit for the flush of the system tables after a schema change.
const SCHEMA_FLUSH_US: u64 = 2_000_000;

/// Changes the schema. When this returns, the change is durable and published to every shard. `change` gets
/// the current catalog and returns the new one.
pub async fn change_schema<F>(shard: &Shard, change: F) -> Result<Vec<SchemaChange>, EngineError>
where
    F: FnOnce(&Catalog) -> Changed + Send + 'static,
{
    let call = shard.call(0, CpuGroup::Statement, |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = change_schema_locked(&shard, &node, change).await;
        node.unlock();
        result
    });
    call.await?
}

async fn change_schema_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    change: impl FnOnce(&Catalog) -> Changed,
) -> Result<Vec<SchemaChange>, EngineError> {
    let old = node.catalog.borrow().clone();
    let (new, changes) = change(&old)?;
    check_unchanged(node, &old, &new)?;
    let gone = removed_tables(&old, &new);
    snapshot::before_drop(shard, node, gone.iter().filter_map(|id| Some(&**old.table_by_id(*id)?))).await?;
    let timestamp_us = shard.wall_us().max(node.last_schema_us.get().saturating_add(1));
    node.last_schema_us.set(timestamp_us);
    // The directories are created first, because a published table can be flushed.
    let made = new.all_tables().filter(|table| old.table_by_id(table.schema.id).is_none());
    let made: Vec<&TableSchema> = made.map(|table| &*table.schema).collect();
    for schema in &made {
        dropped::settle(shard.files(), &node.table_dir(schema), false).await?;
    }
    make_dirs(shard, &node.options.data_dir, made.iter().copied()).await?;
    let new_views: Vec<TableId> =
        made.iter().filter(|schema| schema.view.is_some()).map(|schema| schema.id).collect();
    for view in made.iter().filter(|schema| schema.view.is_some()) {
        let dir = node.table_dir(view);
        view_mark::store(shard.files(), &dir, Unbuilt::Behind(i64::MIN)).await?;
    }
    for schema in made.into_iter().filter(|schema| node.dropped.borrow().contains(&schema.id)) {
        forget_logged(shard, &node.table_dir(schema)).await?;
    }
    let gone: Vec<&TableSchema> =
        gone.iter().filter_map(|id| old.table_by_id(*id)).map(|table| &*table.schema).collect();
    for schema in &gone {
        dropped::mark(shard.files(), &node.table_dir(schema)).await?;
    }
    // All mutations are in one chunk of the log, so that a crash leaves the old schema or the new one.
    let mut mutations = catalog::mutations_for(&old, &new, timestamp_us, shard.wall_s());
    if broken::is("schema_whole") {
        mutations.pop();
    }
    if has_change_logs(&new) && !has_change_logs(&old) && !has_generation(node).await? {
        mutations.extend(catalog::generation(timestamp_us));
    }
    node.engine.apply_batch(mutations, true).await?;
    // The change is durable in the log of the system tables. A flush that fails now, or waits for other
    // failing flushes, continues in the background.
    let system: Vec<TableId> = catalog::system_tables().iter().map(|schema| schema.id).collect();
    let until = Deadline(Some(shard.now_us() + SCHEMA_FLUSH_US));
    drop(until.limit(shard, pin!(node.engine.flush(&system))).await);
    node.dropped.borrow_mut().extend(gone.iter().map(|schema| schema.id));
    publish(shard, new.clone()).await?;
    new_views.into_iter().for_each(|view| view_build::start(shard, node, view));
    for schema in gone {
        dropped::remove(shard.files(), &node.table_dir(schema)).await?;
    }
    Ok(changes)
}

fn has_change_logs(catalog: &Catalog) -> bool {
    catalog.all_tables().any(|table| table.settings.change_log().is_some())
}

/// Whether the streams of change logs are stored.
async fn has_generation(node: &Rc<NodeShard>) -> Result<bool, EngineError> {
    let (id, key) = (catalog::cdc_generations().id, catalog::generations_key());
    let stored = node.engine.stored(id, &key, vec![ClusteringRange::all()]).await?;
    Ok(!stored.rows().is_empty())
}

/// A table with the id of a dropped one starts empty: log entries of the dropped one must not be replayed
/// into it.
async fn forget_logged(shard: &Shard, dir: &Path) -> Result<(), EngineError> {
    let position = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.log().position()) };
    let positions = on_all(shard, CpuGroup::Statement, position).await?;
    let Truncation { first_generation, .. } = truncation::load(shard.files(), dir).await?;
    truncation::store(shard.files(), dir, &Truncation { first_generation, positions }).await?;
    Ok(shard.files().sync_dir(dir).await?)
}

/// Publishes a catalog to every shard, which creates, alters and drops tables accordingly.
pub async fn publish(shard: &Shard, catalog: Catalog) -> Result<(), EngineError> {
    // Jobs end on all shards while every shard still has the table: a reshard job holds `files_lock` on every
    // shard, and releases it by the table's id.
    views::take_over(shard, &catalog, false).await?;
    let has_gone = {
        let node = NodeShard::of(shard)?;
        let old = node.catalog.borrow().clone();
        let is_gone = |table: &catalog::Table| catalog.table_by_id(table.schema.id).is_none();
        let follows = |table: &catalog::Table| {
            table.schema.view.is_some() || old.base_of_change_log(&table.schema).is_some()
        };
        old.all_tables().any(|table| follows(table) && is_gone(table))
    };
    if has_gone {
        // Writes that still know the view, or the change log, need its table.
        let until = Deadline(Some(shard.now_us() + DRAIN_US));
        drop(until.limit(shard, pin!(views::drain(shard))).await);
    }
    let (new, with_views) = (catalog.clone(), catalog.clone());
    let end_jobs = move |shard: Shard| {
        let new = new.clone();
        async move {
            let node = NodeShard::of(&shard)?;
            let gone = removed_tables(&node.catalog.borrow(), &new);
            for id in gone {
                node.engine.compactions().block(id).await;
            }
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Statement, end_jobs).await?;
    let take_over = move |shard: Shard| {
        let catalog = catalog.clone();
        async move { take_over(&shard, catalog).await }
    };
    on_all(shard, CpuGroup::Statement, take_over).await?;
    views::take_over(shard, &with_views, true).await
}

/// The tables that `new` does not have any more.
fn removed_tables(old: &Catalog, new: &Catalog) -> Vec<TableId> {
    let gone = old.all_tables().filter(|table| new.table_by_id(table.schema.id).is_none());
    gone.map(|table| table.schema.id).collect()
}

async fn take_over(shard: &Shard, new: Catalog) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    let old = node.catalog.replace(new.clone());
    let engine = &node.engine;
    for id in removed_tables(&old, &new) {
        if let Some(table) = engine.take_table(id) {
            engine.flushes().block(&table).await;
            table.drop_contents();
            engine.flushes().allow(&table);
            engine.compactions().forget_table(id);
            if let Some(manifest) = &table.sstables.manifest {
                manifest.remove(shard.files()).await;
            }
        }
    }
    for table in new.all_tables().filter(|table| !is_system_keyspace(&table.schema.keyspace)) {
        match engine.table(table.schema.id) {
            Ok(known) => {
                if known.schema() != table.schema {
                    known.set_schema(table.schema.clone());
                }
                if known.is_flush_due_for_indexes() {
                    // An index is built from SSTables. The flush continues by itself.
                    drop(engine.flushes().seal(&known));
                }
                known.set_caching(table.settings.caches_rows());
                if !known.is_read_only() {
                    engine.compactions().set_table(&known, &table.settings);
                }
            }
            Err(_) => {
                let made = node.make_table(&table.schema);
                made.open_sstables(shard.files(), engine.cache(), shard.shard_count()).await?;
                let truncation = truncation::load(shard.files(), &made.dir).await?;
                // Without SSTables, generations would start below the record's first valid one, and the next
                // start would remove newer SSTables.
                made.sstables.raise_generation(truncation.first_generation, shard.shard_count());
                made.set_truncation(truncation);
                engine.add_table(made.clone(), &table.settings);
                made.set_caching(table.settings.caches_rows());
            }
        }
    }
    Ok(())
}

/// Creates the directories of tables, durably.
pub async fn make_dirs<'a>(
    shard: &Shard,
    data_dir: &Path,
    schemas: impl IntoIterator<Item = &'a TableSchema>,
) -> Result<(), EngineError> {
    let files = shard.files();
    let mut above = BTreeSet::new();
    for schema in schemas {
        let dir = table_dir(data_dir, schema);
        files.create_dir_all(&dir).await?;
        above.extend(dir.ancestors().skip(1).take(3).map(Path::to_path_buf));
    }
    for dir in above {
        files.sync_dir(&dir).await?;
    }
    Ok(())
}

/// Refuses schema changes of attached tables and their keyspaces, because they cannot be stored.
fn check_unchanged(node: &Rc<NodeShard>, old: &Catalog, new: &Catalog) -> Result<(), EngineError> {
    for table in node.engine.tables().iter().filter(|table| table.is_read_only()) {
        let schema = table.schema();
        let is_same = new.table_by_id(schema.id).is_some_and(|table| table.schema == schema);
        if !is_same {
            return Err(EngineError::Invalid(format!(
                "{} is attached and cannot be changed or dropped; a start without it is one",
                schema.full_name()
            )));
        }
    }
    for name in node.attached_keyspaces.borrow().iter() {
        let ids = |catalog: &Catalog| catalog.tables(name).map(|table| table.schema.id).collect::<Vec<_>>();
        let types = |catalog: &Catalog| catalog.types(name).cloned().collect::<Vec<_>>();
        let is_same =
            old.keyspace(name) == new.keyspace(name) && ids(old) == ids(new) && types(old) == types(new);
        if !is_same {
            return Err(EngineError::Invalid(format!(
                "keyspace {name} is there only for attached tables and cannot be changed; use another keyspace"
            )));
        }
    }
    Ok(())
}
