//! Tells the log when a shard cannot flush or its commit log has failed, and when it flushes again.

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
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let look = |shard: Shard| async move {
                    let engine = EngineShard::of(&shard).ok()?;
                    Some((engine.flushes().stats().last_error, engine.log().failure()))
                };
                let Ok(Some((unflushed, failure))) = remote.call(shard, CpuGroup::Background, look).await
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
                if let Some(failure) = failure.filter(|_| !has_failed) {
                    error!("engine", "shard {shard}: {failure}");
                    has_failed = true;
                }
            }
        });
    }
}
