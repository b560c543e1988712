//! Flush and sync on all shards.

use model::TableId;
use runtime::{CpuGroup, Shard};

use super::on_all;
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
