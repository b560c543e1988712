//! TRUNCATE: when it returns, all earlier writes to a table are removed, also after a crash during it.
//!
//! 1. Jobs and flushes of the table are held back, so that every generation below a limit belongs to earlier
//!    writes. Batches over several shards are held back while the shards determine their positions, so that
//!    the positions divide such batches in the same way on all shards.
//! 2. With `auto_snapshot`: each shard separates earlier from later writes. The earlier ones are flushed, and
//!    a snapshot of all SSTables is made; the later ones stay in the table. So every write acknowledged
//!    before the TRUNCATE that is not in the table afterwards is in the snapshot. If the snapshot fails,
//!    nothing was changed.
//! 3. Without it: every shard drops its memtables.
//! 4. The record ([`Truncation`]) states up to which generation SSTables, and up to which position log
//!    entries, are void.
//! 5. The SSTables that it covers are removed from the table, and then from the disk. After a crash the next
//!    start completes this.
//!
//! The materialized views of a table are truncated with it. Meanwhile no write passes the gate of the table
//! ([`super::views`]), and the views have a mark with which a start builds them again.

use std::rc::Rc;
use std::sync::Arc;

use catalog::is_system_keyspace;
use model::{TableId, TableSchema};
use runtime::{CpuGroup, Shard};

use super::snapshot::{self, Automatic, Cause};
use super::write::between_batches;
use super::{NodeShard, on_all, view_build};
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::truncation::{self, Truncation};
use crate::table::view_mark::{self, Unbuilt};
use crate::table::{files, lost};

/// Truncates a table and its materialized views. See the head of this file.
pub async fn truncate(shard: &Shard, table: TableId) -> Result<(), EngineError> {
    let call = shard.call(0, CpuGroup::Statement, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = match node.views.of(table) {
            Some(plans) if !plans.views.is_empty() => {
                let views = plans.views.iter().map(|plan| plan.view.clone()).collect();
                truncate_with_views(&shard, &node, table, views).await
            }
            _ => truncate_locked(&shard, &node, table).await,
        };
        node.unlock();
        result
    });
    call.await?
}

/// Truncates a table without its views.
pub(super) async fn truncate_one(shard: &Shard, table: TableId) -> Result<(), EngineError> {
    let node = NodeShard::of(shard)?;
    node.lock().await;
    let result = truncate_locked(shard, &node, table).await;
    node.unlock();
    result
}

/// Truncates a table and its views while no write is under way to them. If this does not come to its end, the
/// views are built again.
async fn truncate_with_views(
    shard: &Shard,
    node: &Rc<NodeShard>,
    base: TableId,
    views: Vec<Arc<TableSchema>>,
) -> Result<(), EngineError> {
    let close = move |shard: Shard| async move {
        NodeShard::of(&shard)?.views.close_gate(base).await;
        Ok(())
    };
    let truncate = async {
        on_all(shard, CpuGroup::Statement, close).await?;
        let mut unbuilt = vec![];
        for view in &views {
            let dir = node.table_dir(view);
            unbuilt.push(view_mark::load(shard.files(), &dir).await?);
            view_mark::store(shard.files(), &dir, Unbuilt::Again).await?;
        }
        truncate_locked(shard, node, base).await?;
        for (view, unbuilt) in views.iter().zip(unbuilt) {
            truncate_locked(shard, node, view.id).await?;
            let dir = node.table_dir(view);
            match unbuilt {
                // The build that is under way continues.
                Some(unbuilt) => view_mark::store(shard.files(), &dir, unbuilt).await?,
                None => view_mark::remove(shard.files(), &dir).await?,
            }
        }
        Ok(())
    };
    let result = truncate.await;
    let open = move |shard: Shard| async move {
        NodeShard::of(&shard)?.views.open_gate(base);
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, open).await?;
    if result.is_err() {
        views.iter().for_each(|view| view_build::start(shard, node, view.id));
    }
    result
}

async fn truncate_locked(shard: &Shard, node: &Rc<NodeShard>, id: TableId) -> Result<(), EngineError> {
    let table = match node.catalog.borrow().table_by_id(id) {
        Some(table) => table.clone(),
        None => return Err(EngineError::UnknownTable(id)),
    };
    if is_system_keyspace(&table.schema.keyspace) {
        let what = format!("{} is a system table; it cannot be truncated", table.schema.full_name());
        return Err(EngineError::Invalid(what));
    }
    node.engine.table(id)?.check_writable()?;
    let is_kept = snapshot::is_automatic(node, &table);
    let result =
        if is_kept { keep_and_empty(shard, node, &table).await } else { empty(shard, node, &table).await };
    snapshot::resume_table(shard, id).await?;
    result
}

/// Step 2 and the following steps.
async fn keep_and_empty(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: &catalog::Table,
) -> Result<(), EngineError> {
    let id = table.schema.id;
    let Automatic { positions, .. } = snapshot::automatic(shard, node, table, Cause::Truncate).await?;
    let next =
        move |shard: Shard| async move { Ok(EngineShard::of(&shard)?.table(id)?.sstables.next_generation()) };
    let next = on_all(shard, CpuGroup::Statement, next).await?;
    let record = Truncation { first_generation: next.into_iter().max().unwrap_or(1), positions };
    raise_generations(shard, id, record.first_generation).await?;
    truncation::store(shard.files(), &node.table_dir(&table.schema), &record).await?;
    take_out(shard, node, table, record).await
}

/// Step 3 and the following steps.
async fn empty(shard: &Shard, node: &Rc<NodeShard>, table: &catalog::Table) -> Result<(), EngineError> {
    let id = table.schema.id;
    let block = move |shard: Shard| async move {
        EngineShard::of(&shard)?.compactions().block(id).await;
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, block).await?;
    let (first_generation, positions) = between_batches(shard, forget(shard, id)).await?;
    raise_generations(shard, id, first_generation).await?;
    let record = Truncation { first_generation, positions };
    if let Err(error) = truncation::store(shard.files(), &node.table_dir(&table.schema), &record).await {
        let take_back = move |shard: Shard| async move {
            let engine = EngineShard::of(&shard)?;
            engine.flushes().restore_forgotten(&engine.table(id)?);
            Ok(())
        };
        on_all(shard, CpuGroup::Statement, take_back).await?;
        return Err(error.into());
    }
    take_out(shard, node, table, record).await
}

/// Holds flushes back and removes the memtables, while jobs are held back. Returns the first generation of
/// later writes, and the position of each shard's log.
async fn forget(shard: &Shard, id: TableId) -> Result<(u64, Vec<LogPosition>), EngineError> {
    let block = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let table = engine.table(id)?;
        engine.flushes().block(&table).await;
        Ok(table.sstables.next_generation())
    };
    let next = on_all(shard, CpuGroup::Statement, block).await?;
    let first_generation = next.into_iter().max().unwrap_or(1);
    let forget = move |shard: Shard| async move {
        let table = EngineShard::of(&shard)?.table(id)?;
        let position = table.log.position();
        table.forget_memtables();
        Ok(position)
    };
    Ok((first_generation, on_all(shard, CpuGroup::Statement, forget).await?))
}

/// New SSTables get generations that the record does not cover.
async fn raise_generations(shard: &Shard, id: TableId, first_generation: u64) -> Result<(), EngineError> {
    let raise = move |shard: Shard| async move {
        EngineShard::of(&shard)?.table(id)?.sstables.raise_generation(first_generation, shard.shard_count());
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, raise).await.map(drop)
}

/// Steps 4 and 5 after the record was renamed to its final name. If it is uncertain whether the record
/// survives a loss of power, files and log entries are kept.
async fn take_out(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: &catalog::Table,
    record: Truncation,
) -> Result<(), EngineError> {
    let id = table.schema.id;
    let dir = node.table_dir(&table.schema);
    let synced = shard.files().sync_dir(&dir).await;
    let is_certain = synced.is_ok();
    let covered = record.clone();
    let take_out = move |shard: Shard| {
        let record = covered.clone();
        async move {
            let table = EngineShard::of(&shard)?.table(id)?;
            if is_certain {
                table.release_forgotten()
            } else {
                table.memtables.pin_forgotten()
            }
            table.take_sstables_below(record.first_generation);
            table.set_truncation(record);
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Maintenance, take_out).await?;
    synced?;
    files::remove_below(shard.files(), &dir, record.first_generation).await?;
    lost::forget(shard.files(), &dir).await?;
    Ok(())
}
