//! Tells the log when a shard cannot flush or its commit log has failed, and when it flushes again; and of compactions
//! that failed.

use std::time::Duration;

use engine::Engine;
use engine::shard::EngineShard;
use runtime::{CpuGroup, Shard};

use crate::{error, info};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks at every shard until it is gone.
pub fn start(engine: &Engine) {
    let remote = engine.remote();
    for shard in 0..remote.shard_count() {
        let remote = remote.clone();
        tokio::spawn(async move {
            let mut told = None;
            let mut has_failed = false;
            let mut failed_compactions = 0;
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let look = |shard: Shard| async move {
                    let engine = EngineShard::of(&shard).ok()?;
                    let (compactions, _) = engine.compactions().stats();
                    let compactions = (compactions.failed, compactions.last_error);
                    Some((engine.flushes().stats().last_error, engine.log().failure(), compactions))
                };
                let Ok(Some((unflushed, failure, (failed, why)))) =
                    remote.call(shard, CpuGroup::Background, look).await
                else {
                    return;
                };
                match &unflushed {
                    Some(error) if told.is_none() => {
                        error!("engine", "shard {shard} cannot flush, and tries again until it can: {error}");
                    }
                    None if told.is_some() => info!("engine", "shard {shard} flushes again"),
                    _ => {}
                }
                told = unflushed;
                if failed > failed_compactions {
                    let more = match failed - failed_compactions {
                        1 => String::new(),
                        count => format!(" (the last of {count})"),
                    };
                    error!(
                        "compaction",
                        "shard {shard}: a compaction failed{more}: {}",
                        why.unwrap_or_default()
                    );
                    failed_compactions = failed;
                }
                if let Some(failure) = failure.filter(|_| !has_failed) {
                    error!("engine", "shard {shard}: {failure}");
                    has_failed = true;
                }
            }
        });
    }
}
