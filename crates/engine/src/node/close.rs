//! Closes a node: flushes what can be flushed; the rest is durable in the log.

use std::pin::pin;

use runtime::{CpuGroup, Shard};

use super::{Deadline, NodeShard, flush, on_all};
use crate::error::EngineError;
use crate::shard::EngineShard;

/// Time limit for storing the compaction history, in case the disk does not accept it.
const HISTORY_SAVE_US: u64 = 10_000_000;

/// Flushes what can be flushed, makes the rest durable in the log, and stops. Later requests are refused.
pub async fn close(shard: &Shard) -> Result<(), EngineError> {
    let end_builds = shard.call(0, CpuGroup::Maintenance, |shard| async move {
        NodeShard::of(&shard)?.view_builds.stop();
        Ok::<(), EngineError>(())
    });
    end_builds.await??;
    // Jobs end first, so that no flush waits for one and the history is complete.
    let end_jobs = |shard: Shard| async move {
        EngineShard::of(&shard)?.compactions().stop().await;
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, end_jobs).await?;
    // The history is written like other data, so it is saved before the flush.
    let saved = shard.call(0, CpuGroup::Maintenance, |shard| async move {
        let deadline = Deadline(Some(shard.now_us() + HISTORY_SAVE_US));
        let save = async {
            let engine = EngineShard::of(&shard)?;
            engine.save_compaction_history().await;
            engine.save_compaction_log().await;
            Ok(())
        };
        deadline.limit(&shard, pin!(save)).await
    });
    // Only the history depends on it.
    let _ = saved.await;
    // Data that cannot be flushed for lack of space is in the log.
    let flushed = flush(shard, vec![]).await;
    let settle = |shard: Shard| async move {
        EngineShard::of(&shard)?.settle().await;
        Ok(())
    };
    on_all(shard, CpuGroup::CommitLog, settle).await?;
    let stop = |shard: Shard| async move {
        let node = NodeShard::of(&shard)?;
        node.engine.stop().await;
        node.engine.log().close().await?;
        if let Some(schema_log) = &node.schema_log {
            schema_log.close().await?;
        }
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, stop).await?;
    match flushed {
        Err(EngineError::NoSpace(_)) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}
