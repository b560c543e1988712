//! Backlog: the bytes that must still be rewritten until a table has its strategy's form. It is the input of
//! the controller ([`crate::controller`]).
//!
//! With size tiers, an SSTable of size s is rewritten log4(table / s) times until it is part of the largest
//! one. The backlog is therefore `Σ s·log4(table / s)`, over the buckets that will be merged: those with at
//! least `min_threshold` runs. With levels, each byte above a level's target is merged with the SSTables that
//! it overlaps in the next level, up to ten times as many bytes, on each level that it still has to descend.
//!
//! Bytes already read by running jobs are not subtracted, because the view does not contain them. The backlog
//! is an overestimate by at most the bytes of the running jobs.

use crate::tiers::{Run, Tiering};

/// log4(`x`).
fn log4(x: f64) -> f64 {
    x.ln() / 4f64.ln()
}

/// Backlog of runs in size tiers, in bytes.
pub fn of_tiers(tiering: &Tiering, runs: Vec<Run<'_>>, now_s: u32) -> f64 {
    let table_bytes: u64 = runs.iter().map(|run| run.bytes).sum();
    let sum: f64 = tiering
        .buckets(runs, now_s)
        .iter()
        .filter(|bucket| bucket.runs.len() >= tiering.min_threshold)
        .flat_map(|bucket| &bucket.runs)
        .filter(|run| run.bytes > 0)
        .map(|run| run.bytes as f64 * log4(table_bytes as f64 / run.bytes as f64))
        .sum();
    sum.max(0.0)
}

/// Backlog of levels, in bytes. `levels`: the bytes and the number of SSTables of each level, from level 0 to
/// the highest non-empty one.
///
/// Ideally the highest level has nine tenths of the bytes, and each level below has the next level's bytes
/// divided by `fanout`, but at least one SSTable. Bytes above this target descend level by level; on each
/// level they are merged with up to `fanout` SSTables of the same size.
pub fn of_levels(levels: &[(u64, usize)], sstable_bytes: u64, fanout: u64) -> f64 {
    let Some(top) = levels.len().checked_sub(1) else { return 0.0 };
    let total: u64 = levels.iter().map(|(bytes, _)| bytes).sum();
    let fanout = fanout as f64;
    let largest = total as f64 / (1.0 + 1.0 / fanout + 1.0 / fanout.powi(2));
    let (mut backlog, mut descending) = (0.0, 0.0);
    for (level, (bytes, _)) in levels[..top].iter().enumerate() {
        let target = (largest / fanout.powi((top - level) as i32)).max(sstable_bytes as f64);
        let excess = (*bytes as f64 + descending - target).max(0.0);
        backlog += excess * fanout.min(levels[level + 1].1 as f64);
        descending = excess;
    }
    backlog
}
