//! Which SSTables are merged when, into what, and why (see ARCHITECTURE.md, "compaction").
//!
//! Everything here is a function of values: a [`TableView`] goes in, a [`Plan`] with its [`Reason`] comes out.
//! Whoever carries plans out opens files, keeps time and tells the strategy what became of them.

pub mod explain;
mod plan;
mod sample;
mod strategy;
mod tiers;
mod view;

pub use plan::{Finished, Layout, Plan, Reason, RunPiece, Split, needs_bytes};
pub use sample::{SAMPLED_RUNS_MAX, SamplePlan, SampledGroup, SampledOverlap};
pub use strategy::Strategy;
pub use tiers::{Bucket, Bucketing, Run, Tiering, free_runs, ids, runs};
pub use view::{DiskView, RunId, SSTableId, SSTableView, TableView};
