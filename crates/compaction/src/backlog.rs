//! How many bytes must still be rewritten until a table is in its strategy's form; the input of the controller
//! ([`crate::controller`]).
//!
//! In tiers, an SSTable of size s is rewritten log4(table / s) times until it is part of the largest. So the backlog
//! is `Σ s·log4(table / s)`, over the buckets that will be merged: those with `min_threshold` runs. In levels, each
//! byte above a level's target is merged with what it overlaps in the next: up to ten times as much, on each level that
//! it still has to descend.
//!
//! What running jobs have read already is not taken off: the view does not tell. It is an overestimate of at most the
//! bytes of the running jobs.

use crate::tiers::{Run, Tiering};

/// log4(`x`).
fn log4(x: f64) -> f64 {
    x.ln() / 4f64.ln()
}

/// Of runs in tiers of sizes.
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

/// Of levels: the bytes and the number of SSTables of each, from level 0 to the highest that has some.
///
/// Ideally the highest has nine of ten bytes, and each below it a `fanout`th of the next, but at least an SSTable.
/// What is above that descends level by level, each time merged with up to `fanout` SSTables of its size.
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
