//! Keeps the resident memory of the process below `--memory` by shrinking caches.
//!
//! Caches count the bytes that they hold. Resident memory is more: the allocator rounds sizes up, and the
//! allocator and the kernel keep partly free pages; how much depends on the load. The resident set is
//! therefore polled twenty times a second. The caches of every shard may use a part of their budget: the part
//! is cut while too much is resident, and grows slowly while there is room.
//!
//! The main thread reads `/proc/self/statm` ([`watch`]), because the kernel adds up counters of all cores for
//! it; no shard waits for that. Shards read the latest value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::Engine;
use engine::shard::EngineShard;
use runtime::CpuGroup;

const LOOK_US: u64 = 50_000;
/// Polls between two cuts: evicted memory returns to the kernel only gradually.
const LOOKS_A_CUT: u32 = 6;
/// Thresholds, as parts of `--memory`: caches shrink above the first and may grow below the second.
const HIGH: f64 = 0.78;
const LOW: f64 = 0.72;
/// Caches keep at least this part of their budget.
const PART_MIN: f64 = 0.1;
/// Increase of the part at each poll.
const GROWTH: f64 = 0.005;

/// Computes the part of their budget that caches may use.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Governor {
    memory_bytes: u64,
    part: f64,
    looks_since_cut: u32,
}

impl Governor {
    fn new(memory_bytes: u64) -> Self {
        Self { memory_bytes: memory_bytes.max(1), part: 1.0, looks_since_cut: LOOKS_A_CUT }
    }

    /// The new part, given the resident bytes and the part of their budget that caches hold. A cut starts
    /// from what the caches hold: cutting an unused budget frees nothing.
    fn adjust(&mut self, resident_bytes: u64, cached_part: f64) -> f64 {
        let filled = resident_bytes as f64 / self.memory_bytes as f64;
        self.looks_since_cut = self.looks_since_cut.saturating_add(1);
        if filled > HIGH && self.looks_since_cut >= LOOKS_A_CUT {
            self.part = (self.part.min(cached_part) - (filled - HIGH)).clamp(PART_MIN, 1.0);
            self.looks_since_cut = 0;
        } else if filled < LOW {
            self.part = (self.part + GROWTH).min(1.0);
        }
        self.part
    }
}

/// Starts a governor on every shard. The returned counter holds the resident bytes; [`watch`] keeps it up to
/// date.
///
/// # Errors
/// The shards have stopped.
pub fn start(engine: &Engine, memory_bytes: u64) -> Result<Arc<AtomicU64>, engine::EngineError> {
    let resident = Arc::new(AtomicU64::new(resident_bytes()));
    for shard in 0..engine.remote().shard_count() {
        let resident = resident.clone();
        let started = engine.ask(shard, move |shard| async move {
            let engine = EngineShard::of(&shard)?;
            let here = shard.clone();
            let governing = async move {
                let mut governor = Governor::new(memory_bytes);
                while !engine.is_stopping() {
                    here.sleep_us(LOOK_US).await;
                    let before = governor.part;
                    let part = governor.adjust(resident.load(Ordering::Relaxed), engine.cached_part());
                    if part != before {
                        engine.set_cached_part_max(part);
                    }
                }
            };
            shard.spawn(CpuGroup::Background, governing).detach();
            Ok(())
        });
        started.wait()?;
    }
    Ok(resident)
}

/// Updates the counter of resident bytes. Does not end.
pub async fn watch(resident: Arc<AtomicU64>) {
    loop {
        resident.store(resident_bytes(), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_micros(LOOK_US)).await;
    }
}

/// Resident memory of this process in bytes; 0 if the system does not report it.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_shrink_by_what_is_too_much_and_grow_slowly() {
        let percent = |part: f64| (part * 100.0).round();
        let mut governor = Governor::new(1000);
        assert_eq!(governor.adjust(770, 1.0), 1.0);
        assert_eq!(percent(governor.adjust(880, 1.0)), 90.0);
        // Evicted memory has not returned to the kernel yet.
        assert_eq!(percent(governor.adjust(880, 0.9)), 90.0);
        for _ in 0..LOOKS_A_CUT {
            governor.adjust(770, 0.9);
        }
        assert_eq!(percent(governor.adjust(830, 0.9)), 85.0);
        let slowly = governor.adjust(500, 0.8);
        assert!(slowly > 0.85 && slowly < 0.87, "{slowly}");
        assert_eq!((0..100).map(|_| governor.adjust(500, 0.8)).last(), Some(1.0));
    }

    #[test]
    fn the_number_is_kept_up_to_date() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let resident = Arc::new(AtomicU64::new(0));
        let watching = watch(resident.clone());
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_millis(1), watching).await.unwrap_err() });
        assert!(resident.load(Ordering::Relaxed) > 1 << 20);
    }

    #[test]
    fn caches_that_hold_little_are_cut_from_that_and_keep_something() {
        let mut governor = Governor::new(1000);
        assert_eq!((governor.adjust(830, 0.5) * 100.0).round(), 45.0);
        let mut governor = Governor::new(1000);
        for _ in 0..100 {
            governor.adjust(5000, 1.0);
        }
        assert_eq!(governor.part, PART_MIN);
    }
}
