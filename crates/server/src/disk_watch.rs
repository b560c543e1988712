//! Logs what fills the disk, when a shard finds it full. The failed flush, or the commit log that cannot
//! grow, has a line of its own, from the shard. Files are counted on a thread of their own, since a directory
//! may have many.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base::LogThrottle;
use engine::Engine;
use engine::shard::EngineShard;
use log::error;
use runtime::{CpuGroup, Shard};

use crate::disk_use::DiskUse;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause between two lines, for a disk that is full now and then.
const PAUSE_US: u64 = 600_000_000;

/// Watches until the shards stop.
pub fn start(engine: &Engine, data_dir: &Path) {
    let remote = engine.remote().clone();
    let mut watch = Watch { data_dir: data_dir.to_owned(), is_full: false, lines: LogThrottle::default() };
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (mut now_us, mut is_full) = (0, false);
            for shard in 0..remote.shard_count() {
                let look = |shard: Shard| async move {
                    let engine = EngineShard::of(&shard).ok()?;
                    let is_full = engine.flushes().no_space().is_some() || engine.log().is_disk_full();
                    Some((shard.now_us(), is_full))
                };
                let Ok(Some(seen)) = remote.call(shard, CpuGroup::Background, look).await else { return };
                (now_us, is_full) = (seen.0, is_full || seen.1);
            }
            watch.saw(now_us, is_full).await;
        }
    });
}

struct Watch {
    data_dir: PathBuf,
    is_full: bool,
    lines: LogThrottle,
}

impl Watch {
    async fn saw(&mut self, now_us: u64, is_full: bool) {
        let is_news = is_full && !self.is_full;
        self.is_full = is_full;
        if is_news && self.lines.admit(now_us, PAUSE_US).is_some() {
            let data_dir = self.data_dir.clone();
            let on_disk = tokio::task::spawn_blocking(move || DiskUse::of(&data_dir)).await;
            let on_disk = on_disk.unwrap_or_default();
            error!(target: "engine", "the disk is full: {on_disk}");
        }
    }
}
