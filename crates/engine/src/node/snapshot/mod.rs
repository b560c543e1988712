//! Snapshots: hard links to the SSTables of a table, with the files that are needed to create the table
//! again.
//!
//! A snapshot is the directory `snapshots/<tag>` of a table's directory. It has the SSTables, `manifest.json`
//! ([`manifest`]) and `schema.cql` ([`catalog::recreate_table`]), like Cassandra's.
//!
//! 1. While a snapshot is being made, its directory has a file `unfinished`. A start removes such a directory
//!    (`store::clean_up`), so a snapshot is complete or does not exist.
//! 2. On demand ([`snapshot`]): the table is flushed; jobs continue meanwhile.
//! 3. With `auto_snapshot`, TRUNCATE and DROP make one first (`automatic`, `before_drop`). Jobs of the table,
//!    and flushes of later writes, are held back meanwhile; the writes are not. If the snapshot fails,
//!    nothing is truncated or dropped.
//! 4. For a backup, a [`checkpoint`](mod@checkpoint) makes snapshots of all tables at one point in time.
//! 5. The directory of a dropped table stays as long as it has snapshots, so snapshots are found by listing
//!    directories and not through the schema ([`store::list`], [`store::clear`]).

pub mod checkpoint;
pub mod manifest;
pub mod store;

use std::path::PathBuf;
use std::rc::Rc;

use catalog::is_system_keyspace;
use model::TableId;
use runtime::{CpuGroup, Shard};

use super::write::between_batches;
use super::{NodeShard, flush, on_all};
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::shard::EngineShard;
use crate::table::files::SNAPSHOTS;

/// Flushes a table and links its SSTables into `snapshots/<tag>` of its directory. Returns the number of
/// links.
pub async fn snapshot(shard: &Shard, table: TableId, tag: String) -> Result<u64, EngineError> {
    if tag.is_empty()
        || !tag.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        || tag.starts_with('.')
    {
        let what = format!("{tag:?} cannot name a snapshot; use letters, digits, - _ and .");
        return Err(EngineError::Invalid(what));
    }
    // The schema lock, because a truncate or a schema change would remove SSTables that are being linked.
    let call = shard.call(0, CpuGroup::Maintenance, move |shard| async move {
        let node = NodeShard::of(&shard)?;
        node.lock().await;
        let result = snapshot_locked(&shard, &node, table, &tag).await;
        node.unlock();
        result
    });
    call.await?
}

async fn snapshot_locked(
    shard: &Shard,
    node: &Rc<NodeShard>,
    id: TableId,
    tag: &str,
) -> Result<u64, EngineError> {
    let table = node.catalog.borrow().table_by_id(id).cloned();
    let table = table.ok_or(EngineError::UnknownTable(id))?;
    node.engine.table(id)?.check_writable()?;
    let to = dir_of(node, &table, tag);
    if shard.files().exists(&to).await? {
        let name = table.schema.full_name();
        return Err(EngineError::Invalid(format!("{name} has a snapshot {tag} already")));
    }
    flush(shard, vec![id]).await?;
    store::make(shard, node, &table, &to).await
}

fn dir_of(node: &NodeShard, table: &catalog::Table, tag: &str) -> PathBuf {
    node.table_dir(&table.schema).join(SNAPSHOTS).join(tag)
}

/// The statement that makes an automatic snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Truncate,
    Drop,
}

impl Cause {
    /// The tag, as Cassandra names it.
    fn tag(self, at_ms: i64, table: &str) -> String {
        let prefix = match self {
            Self::Truncate => "truncated",
            Self::Drop => "dropped",
        };
        format!("{prefix}-{at_ms}-{table}")
    }

    /// The error of the statement when the snapshot fails.
    fn refused(self, table: &catalog::Table, error: EngineError) -> EngineError {
        let what = match self {
            Self::Truncate => "truncated",
            Self::Drop => "dropped",
        };
        let say = |why: &str| {
            format!(
                "{} was not {what}, because no snapshot of it can be made ({why}); free disk space, for example with `nodetool \
                 clearsnapshot`, or turn snapshots off (auto_snapshot: false, or the table's allow_auto_snapshot = false)",
                table.schema.full_name()
            )
        };
        match error {
            EngineError::NoSpace(why) => EngineError::NoSpace(say(&why)),
            EngineError::File(_) | EngineError::SSTable(_) => EngineError::SSTable(say(&error.to_string())),
            other => other,
        }
    }
}

/// Whether a snapshot of the table is made before it is truncated or dropped.
pub(crate) fn is_automatic(node: &NodeShard, table: &catalog::Table) -> bool {
    node.options.auto_snapshot
        && !is_system_keyspace(&table.schema.keyspace)
        && table.settings.allows_auto_snapshot()
}

/// A snapshot that was made before a TRUNCATE or a DROP.
pub(crate) struct Automatic {
    dir: PathBuf,
    /// For each shard, the position in its log at which the writes of the snapshot end.
    pub positions: Vec<LogPosition>,
}

/// Makes a snapshot of all earlier writes. Jobs of the table, and flushes of later writes, are held back
/// until [`resume_table`], which must be called after an error too.
pub(crate) async fn automatic(
    shard: &Shard,
    node: &Rc<NodeShard>,
    table: &catalog::Table,
    cause: Cause,
) -> Result<Automatic, EngineError> {
    let id = table.schema.id;
    let block = move |shard: Shard| async move {
        EngineShard::of(&shard)?.compactions().block(id).await;
        Ok(())
    };
    let cut = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        Ok(engine.flushes().cut(&engine.table(id)?))
    };
    let flush = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        let ticket = engine.flushes().ticket_of_cut(&*engine.table(id)?);
        ticket.flushed().await
    };
    let make = async {
        on_all(shard, CpuGroup::Memtable, block).await?;
        let positions = between_batches(shard, on_all(shard, CpuGroup::Memtable, cut)).await?;
        on_all(shard, CpuGroup::Memtable, flush).await?;
        let mut at_ms = shard.wall_us() / 1000;
        let dir = loop {
            let dir = dir_of(node, table, &cause.tag(at_ms, &table.schema.name));
            if !shard.files().exists(&dir).await? {
                break dir;
            }
            at_ms += 1;
        };
        store::make(shard, node, table, &dir).await?;
        Ok(Automatic { dir, positions })
    };
    make.await.map_err(|error| cause.refused(table, error))
}

/// Allows jobs and flushes of the table again.
pub(crate) async fn resume_table(shard: &Shard, id: TableId) -> Result<(), EngineError> {
    let allow = move |shard: Shard| async move {
        let engine = EngineShard::of(&shard)?;
        engine.flushes().allow(&*engine.table(id)?);
        engine.compactions().allow(id);
        Ok(())
    };
    on_all(shard, CpuGroup::Statement, allow).await.map(drop)
}

/// Allows flushes of the tables again after a cut.
async fn resume_flushes(shard: &Shard, ids: Vec<TableId>) -> Result<(), EngineError> {
    let allow = move |shard: Shard| {
        let ids = ids.clone();
        async move {
            let engine = EngineShard::of(&shard)?;
            ids.iter()
                .filter_map(|id| engine.table(*id).ok())
                .for_each(|table| engine.flushes().allow(&table));
            Ok(())
        }
    };
    on_all(shard, CpuGroup::Statement, allow).await.map(drop)
}

/// Makes a snapshot of each table that requires one. After an error none of them remains.
pub(crate) async fn before_drop(
    shard: &Shard,
    node: &Rc<NodeShard>,
    tables: impl Iterator<Item = &catalog::Table>,
) -> Result<(), EngineError> {
    let mut made: Vec<PathBuf> = vec![];
    for table in tables.filter(|table| is_automatic(node, table)) {
        // Without its directory there is nothing to link, and nothing can be flushed.
        if !shard.files().exists(&node.table_dir(&table.schema)).await? {
            continue;
        }
        let result = automatic(shard, node, table, Cause::Drop).await;
        resume_table(shard, table.schema.id).await?;
        match result {
            Ok(Automatic { dir, .. }) => made.push(dir),
            Err(error) => {
                for dir in made {
                    // One that remains is complete, and users can clear it.
                    let _ = shard.files().remove_dir_all(&dir).await;
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_cassandras() {
        assert_eq!(Cause::Truncate.tag(1_700_000_000_123, "t"), "truncated-1700000000123-t");
        assert_eq!(Cause::Drop.tag(5, "users"), "dropped-5-users");
    }
}
