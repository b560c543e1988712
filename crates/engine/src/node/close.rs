//! The end of a node: what can be flushed is flushed, the rest is durable in the log.

use std::pin::pin;

use runtime::{CpuGroup, Shard};

use super::{Deadline, NodeShard, flush, on_all};
use crate::error::EngineError;
use crate::shard::EngineShard;

/// A stop waits no longer than this for a disk that does not take the history of compactions.
const HISTORY_SAVE_US: u64 = 10_000_000;

/// Flushes what can be flushed, makes the rest durable in the log, and stops. What is asked afterwards is refused.
pub async fn close(shard: &Shard) -> Result<(), EngineError> {
    // Jobs end first: no flush waits for one, and all that they did is known.
    let end_jobs = |shard: Shard| async move {
        EngineShard::of(&shard)?.compactions().stop().await;
        Ok(())
    };
    on_all(shard, CpuGroup::Maintenance, end_jobs).await?;
    // It is written as all else, so it comes in front of the flush.
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
    // Nothing but the history depends on it.
    let _ = saved.await;
    // What a full disk keeps from being flushed is in the log.
    let flushed = flush(shard, vec![]).await;
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
