//! Flush and sync on all shards.

use model::TableId;
use runtime::{CpuGroup, Shard};

use super::{NodeShard, on_all};
use crate::commitlog::format::split_id;
use crate::error::EngineError;
use crate::shard::EngineShard;

/// Flushes the tables, or all if none is given.
pub async fn flush(shard: &Shard, tables: Vec<TableId>) -> Result<(), EngineError> {
    let flush = move |shard: Shard| {
        let tables = tables.clone();
        async move { EngineShard::of(&shard)?.flush(&tables).await }
    };
    on_all(shard, CpuGroup::Memtable, flush).await.map(drop)
}

/// Makes all acknowledged writes durable against power loss, in any sync mode.
pub async fn sync(shard: &Shard) -> Result<(), EngineError> {
    let sync = |shard: Shard| async move { Ok(EngineShard::of(&shard)?.log().sync().await?) };
    on_all(shard, CpuGroup::CommitLog, sync).await.map(drop)
}

/// State of the logs after [`rotate_logs`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Every write that was acknowledged before this time, in microseconds since 1970, is in a closed
    /// segment.
    pub complete_until_us: i64,
    /// For each shard, an id: all segments of its log with lower ids are closed and synced. Logs of shards
    /// that do not exist any more have closed segments only.
    pub first_open: Vec<u64>,
    /// The same for the log of the system tables.
    pub first_open_schema: u64,
}

impl Rotation {
    /// Whether the segment with this id, of the system tables' log if `of_schema`, is closed.
    pub fn is_closed(&self, id: u64, of_schema: bool) -> bool {
        let shard = split_id(id).0 as usize;
        let first_open = match of_schema {
            true => (shard == 0).then_some(&self.first_open_schema),
            false => self.first_open.get(shard),
        };
        first_open.is_none_or(|first_open| id < *first_open)
    }
}

/// Closes the open segments of all logs, so that they can be archived.
pub async fn rotate_logs(shard: &Shard) -> Result<Rotation, EngineError> {
    let complete_until_us = shard.wall_us();
    let rotate = |shard: Shard| async move {
        let node = NodeShard::of(&shard)?;
        let first_open = node.engine.log().rotate().await?;
        let first_open_schema = match &node.schema_log {
            Some(log) => Some(log.rotate().await?),
            None => None,
        };
        Ok((first_open, first_open_schema))
    };
    let mut rotation = Rotation { complete_until_us, ..Rotation::default() };
    for (first_open, first_open_schema) in on_all(shard, CpuGroup::CommitLog, rotate).await? {
        rotation.first_open.push(first_open);
        rotation.first_open_schema = first_open_schema.unwrap_or(rotation.first_open_schema);
    }
    Ok(rotation)
}
