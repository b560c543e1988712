//! Undoes a start that failed: the next one finds the commit log as this one found it.
//!
//! The logs are closed, which removes segments without entries. Then the manifests of this run are removed;
//! the one of the schema's log first, because it proves that the one of the first shard existed
//! (`commitlog::census`). Some stay:
//!
//! - once the schema's log has released earlier runs: its manifest and the corresponding one of the first
//!   shard; instead, those of earlier failed starts are removed, so that their number does not grow;
//! - once the log of users' tables has released earlier runs: all.
//!
//! Errors are ignored: the start already has one, and a later start removes files that stay.

use runtime::{CpuGroup, Files, Shard};

use super::StartProgress;
use crate::commitlog::census::Census;
use crate::node::{NodeShard, on_all};
use crate::shard::EngineShard;

pub(super) async fn abandon(shard: &Shard, progress: &StartProgress) {
    // A shard that was not started has nothing to undo.
    let Ok(first) = NodeShard::of(shard) else { return };
    let (keeps_schema, keeps_all) = (progress.schema_given_up, progress.given_up);
    let Some(schema_log) = &first.schema_log else { return };
    let is_closed = schema_log.close().await.is_ok();
    let is_removed = || async { is_closed && matches!(schema_log.remove_manifest().await, Ok(true)) };
    if !keeps_schema && !keeps_all && !is_removed().await {
        // The manifest of the schema's log requires that of the first shard, so that one stays.
        return;
    }
    let undo = move |shard: Shard| async move {
        let Ok(engine) = EngineShard::of(&shard) else { return Ok(()) };
        let is_named_by_schema = shard.id() == 0 && keeps_schema;
        if engine.log().close().await.is_ok() && !is_named_by_schema && !keeps_all {
            let _ = engine.log().remove_manifest().await;
        }
        Ok(())
    };
    let _ = on_all(shard, CpuGroup::Maintenance, undo).await;
    if keeps_schema && !keeps_all {
        remove_earlier(shard.files(), &progress.old).await;
    }
}

async fn remove_earlier(files: &Files, old: &Census) {
    for manifest in old.of_failed_starts() {
        let _ = files.remove(&manifest.path).await;
    }
    let _ = files.sync_dir(&old.dir).await;
}
