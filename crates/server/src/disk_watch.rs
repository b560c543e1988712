//! Logs flush failures, commit logs that cannot grow or have failed, and recoveries from both, with what
//! fills the disk; also failed compactions, and a `disk_budget` that is too small for compactions.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Engine;
use engine::commitlog::LogError;
use engine::compaction::report::ManagerStats;
use engine::shard::EngineShard;
use runtime::{CpuGroup, Shard};

use crate::disk_use::DiskUse;
use crate::{error, info, warning};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Minimal interval between two log lines of a shard about a full disk, or about a budget that is too small.
const AGAIN_AFTER_US: u64 = 600_000_000;

/// Polls every shard until it stops.
pub fn start(engine: &Engine, data_dir: &Path) {
    let remote = engine.remote();
    for shard in 0..remote.shard_count() {
        let remote = remote.clone();
        let mut watch = Watch { shard, data_dir: data_dir.to_owned(), ..Watch::default() };
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let look =
                    |shard: Shard| async move { Some(Seen::of(&shard, &*EngineShard::of(&shard).ok()?)) };
                let Ok(Some(seen)) = remote.call(shard, CpuGroup::Background, look).await else { return };
                watch.saw(seen).await;
            }
        });
    }
}

/// State of a shard at one poll.
struct Seen {
    at_us: u64,
    /// The error of the last flush.
    unflushed: Option<String>,
    /// Why the commit log cannot grow, and whether flushes will free space for it.
    no_space: Option<(String, bool)>,
    /// The error after which the commit log takes no writes until a restart.
    failure: Option<LogError>,
    compactions: ManagerStats,
}

impl Seen {
    fn of(shard: &Shard, engine: &EngineShard) -> Self {
        Self {
            at_us: shard.now_us(),
            unflushed: engine.flushes().stats().last_error,
            no_space: engine.log().no_space(),
            failure: engine.log().failure(),
            compactions: engine.compactions().stats().0,
        }
    }
}

/// What was already logged about a shard.
#[derive(Default)]
struct Watch {
    shard: u32,
    data_dir: PathBuf,
    is_unflushed: bool,
    is_full: bool,
    full_told_at_us: Option<u64>,
    has_failed: bool,
    failed_compactions: u64,
    beyond_budget: u64,
    budget_told_at_us: Option<u64>,
}

impl Watch {
    async fn saw(&mut self, seen: Seen) {
        let shard = self.shard;
        let is_news =
            (seen.unflushed.is_some() && !self.is_unflushed) || (seen.no_space.is_some() && !self.is_full);
        if is_news {
            let data_dir = self.data_dir.clone();
            let on_disk = tokio::task::spawn_blocking(move || DiskUse::of(&data_dir)).await;
            let on_disk = on_disk.unwrap_or_default();
            if let Some(why) = seen.unflushed.as_ref().filter(|_| !self.is_unflushed) {
                error!("engine", "shard {shard} cannot flush and retries: {why}; {on_disk}");
            }
            if let Some((why, can_free)) = seen.no_space.as_ref().filter(|_| !self.is_full)
                && may_tell(&mut self.full_told_at_us, seen.at_us)
            {
                let then = if *can_free { "wait for flushes" } else { "are refused until space is freed" };
                error!(
                    "engine",
                    "shard {shard}: the commit log cannot grow, and writes {then}: {why}; {on_disk}"
                );
            }
        }
        if seen.unflushed.is_none() && self.is_unflushed {
            info!("engine", "shard {shard} flushes again");
        }
        (self.is_unflushed, self.is_full) = (seen.unflushed.is_some(), seen.no_space.is_some());
        if let Some(failure) = seen.failure.filter(|_| !self.has_failed) {
            error!("engine", "shard {shard}: {failure}");
            self.has_failed = true;
        }
        self.saw_compactions(seen.compactions, seen.at_us);
    }

    fn saw_compactions(&mut self, seen: ManagerStats, now_us: u64) {
        let shard = self.shard;
        if seen.failed > self.failed_compactions {
            let more = match seen.failed - self.failed_compactions {
                1 => String::new(),
                count => format!(" (the last of {count})"),
            };
            let why = seen.last_error.unwrap_or_default();
            error!("compaction", "shard {shard}: a compaction failed{more}: {why}");
            self.failed_compactions = seen.failed;
        }
        if let Some(what) = seen.last_beyond_budget.filter(|_| seen.beyond_budget > self.beyond_budget)
            && may_tell(&mut self.budget_told_at_us, now_us)
        {
            warning!("compaction", "shard {shard}: {what}; raise disk_budget, or remove data");
            self.beyond_budget = seen.beyond_budget;
        }
    }
}

/// Whether the last such line is at least [`AGAIN_AFTER_US`] old or there was none; records `now_us` if so.
fn may_tell(told_at_us: &mut Option<u64>, now_us: u64) -> bool {
    let may = told_at_us.is_none_or(|at_us| now_us.saturating_sub(at_us) >= AGAIN_AFTER_US);
    if may {
        *told_at_us = Some(now_us);
    }
    may
}
