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
