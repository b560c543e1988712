//! A checkpoint: snapshots of all tables of the node at one point in time, for a backup.
//!
//! 1. The tables are flushed, so that little is left for step 4.
//! 2. Batches over several shards are held back until those in flight are in all memtables; then every shard
//!    pauses its writes. From here no write is applied anywhere.
//! 3. Every shard separates earlier from later writes of every table ([`FlushQueue::cut`]) and returns the
//!    positions of its logs. Writes go on. The pause takes two calls to every shard, and no I/O.
//! 4. The earlier writes are flushed; flushes of later ones are held back. Compactions go on: they do not
//!    change the content of a table.
//! 5. Each table's SSTables are linked into `snapshots/<tag>`, and its flushes are allowed again.
//!
//! So the snapshots of all tables have exactly the writes of step 2: if a write is in one of them, every
//! write that was acknowledged before it began is in them too. The schema lock is held: the system tables
//! have the schema of the tables.
//!
//! [`FlushQueue::cut`]: crate::flush::FlushQueue::cut

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use model::{TableId, TableSchema};
use runtime::{CpuGroup, Shard};

use super::super::write::between_batches;
use super::super::{NodeShard, flush, on_all};
use super::{dir_of, resume_flushes, store};
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::view_mark;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The point in time, by the node's clock, in microseconds since 1970.
    pub at_us: i64,
    /// For each shard, the position in its log at which the writes of the checkpoint end.
    pub positions: Vec<LogPosition>,
    /// The same for the log of the system tables.
    pub schema_position: LogPosition,
    /// By keyspace and name, system tables included.
    pub tables: Vec<CheckpointTable>,
}

/// A table of a checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointTable {
    pub schema: Arc<TableSchema>,
    /// The directory of its snapshot.
    pub dir: PathBuf,
    /// It is a materialized view that lacks rows of its base table.
    pub is_unbuilt: bool,
}

/// Makes snapshots with the name `tag` of all tables of the node except attached ones. After an error none of
/// them remains. The caller removes them with [`super::store::clear`].
///
/// # Errors
/// An SSTable of a table cannot be opened: a backup would contain the damage and look complete.
pub async fn checkpoint(shard: &Shard, tag: String) -> Result<Checkpoint, EngineError> {
    let call = shard.call(0, CpuGroup::Maintenance, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = Box::pin(checkpoint_locked(&shard, &node, &tag)).await;
        node.unlock();
        result
    });
    call.await?
}

/// The positions of one shard's logs: of users' tables, and on shard 0 of the system tables.
type Positions = (i64, LogPosition, Option<LogPosition>);

async fn checkpoint_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    tag: &str,
) -> Result<Checkpoint, EngineError> {
    let tables = tables(shard, node).await?;
    let ids: Vec<TableId> = tables.iter().map(|table| table.schema.id).collect();
    flush(shard, ids.clone()).await?;
    let made = async {
        // Before the cut, because a build may end at any time after it.
        let mut unbuilt = vec![];
        for table in &tables {
            unbuilt.push(view_mark::load(shard.files(), &node.table_dir(&table.schema)).await?.is_some());
        }
        let cuts = between_batches(shard, cut_all(shard, ids.clone())).await?;
        flush_cut(shard, ids.clone()).await?;
        let mut made = vec![];
        for (table, is_unbuilt) in tables.iter().zip(unbuilt) {
            let dir = dir_of(node, table, tag);
            store::make(shard, node, table, &dir).await?;
            resume_flushes(shard, vec![table.schema.id]).await?;
            made.push(CheckpointTable { schema: table.schema.clone(), dir, is_unbuilt });
        }
        Ok::<_, EngineError>((cuts, made))
    };
    let made = made.await;
    resume_flushes(shard, ids).await?;
    match made {
        Ok((cuts, tables)) => Ok(Checkpoint {
            at_us: cuts.iter().map(|(at_us, ..)| *at_us).max().unwrap_or(0),
            positions: cuts.iter().map(|(_, position, _)| *position).collect(),
            schema_position: cuts.iter().find_map(|(.., schema)| *schema).unwrap_or_default(),
            tables,
        }),
        Err(error) => {
            for table in &tables {
                // The next start removes unfinished ones, and users can clear complete ones.
                let _ = shard.files().remove_dir_all(&dir_of(node, table, tag)).await;
            }
            Err(error)
        }
    }
}

/// The stored tables of the node, by keyspace and name.
async fn tables(shard: &Shard, node: &NodeShard) -> Result<Vec<Arc<catalog::Table>>, EngineError> {
    let mut tables: Vec<_> = node.catalog.borrow().all_tables().cloned().collect();
    // Computed tables have no directory, and attached ones are not the node's.
    tables.retain(|table| node.engine.table(table.schema.id).is_ok_and(|table| !table.is_read_only()));
    tables.sort_by(|a, b| (&a.schema.keyspace, &a.schema.name).cmp(&(&b.schema.keyspace, &b.schema.name)));
    let ids: Vec<TableId> = tables.iter().map(|table| table.schema.id).collect();
    let check = move |shard: Shard| {
        let ids = ids.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            ids.into_iter()
                .filter_map(|id| engine.table(id).ok())
                .try_for_each(|table| table.check_readable())
        }
    };
    on_all(shard, CpuGroup::Maintenance, check).await?;
    Ok(tables)
}

/// Pauses the writes of all shards, cuts, and lets the writes go on, also after an error.
async fn cut_all(shard: &Shard, ids: Vec<TableId>) -> Result<Vec<Positions>, EngineError> {
    let pause = |shard: Shard| async move {
        EngineShard::of(&shard)?.pause_writes();
        Ok(())
    };
    let cut = move |shard: Shard| {
        let ids = ids.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            // There is no await here, so the tables of a shard are cut at the same point of its log.
            ids.iter().filter_map(|id| engine.table(*id).ok()).for_each(|table| {
                engine.flushes().cut(&table);
            });
            let schema_log = &NodeShard::of(&shard)?.schema_log;
            let schema_position = schema_log.as_ref().map(|log| log.position());
            Ok((shard.wall_us(), engine.log().position(), schema_position))
        }
    };
    let resume = |shard: Shard| async move {
        EngineShard::of(&shard)?.resume_writes();
        Ok(())
    };
    let cuts = match on_all(shard, CpuGroup::Statement, pause).await {
        Ok(_) => on_all(shard, CpuGroup::Statement, cut).await,
        Err(error) => Err(error),
    };
    on_all(shard, CpuGroup::Statement, resume).await?;
    cuts
}

/// Waits until the writes before the cut are in SSTables.
async fn flush_cut(shard: &Shard, ids: Vec<TableId>) -> Result<(), EngineError> {
    let wait = move |shard: Shard| {
        let ids = ids.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            let tables = ids.iter().filter_map(|id| engine.table(*id).ok());
            let tickets: Vec<_> = tables.map(|table| engine.flushes().ticket_of_cut(&table)).collect();
            for ticket in tickets {
                ticket.flushed().await?;
            }
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Memtable, wait).await.map(drop)
}

/// The beginning of the tags of snapshots that backups make.
pub const TAG_PREFIX: &str = "backup-";
