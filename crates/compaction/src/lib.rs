//! Which SSTables are merged when, into what, and why (see ARCHITECTURE.md, "compaction").
//!
//! Everything here is a function of values: a [`TableView`] goes in, a [`Plan`] with its [`Reason`] comes out.
//! Whoever carries plans out opens files, keeps time and tells the strategy what became of them.

pub mod amplification;
pub mod backlog;
pub mod controller;
pub mod date_tiered;
pub mod explain;
pub mod garbage;
mod hybrid;
pub mod leveled;
mod null;
pub mod options;
mod overlap;
mod plan;
pub mod purge;
pub mod reshape;
mod sample;
mod size_tiered;
mod split;
mod strategy;
pub mod testing;
#[cfg(test)]
mod tests;
mod tiers;
pub mod time_window;
mod tombstones;
pub mod unified;
mod view;
pub mod weight;

pub use date_tiered::DateTiered;
pub use explain::Explanation;
pub use hybrid::{Hybrid, HybridOptions, TombstoneCollection, pieces};
pub use leveled::Leveled;
pub use null::Null;
pub use options::{OptionsError, strategy_from};
pub use overlap::{LeastIndex, count_max, groups, share_outside};
pub use plan::{Finished, Layout, Plan, Reason, RunPiece, Split, needs_bytes};
pub use reshape::Reshape;
pub use sample::{SAMPLED_RUNS_MAX, SamplePlan, SampledGroup, SampledOverlap};
pub use size_tiered::SizeTiered;
pub use strategy::Strategy;
pub use tiers::{Bucket, Bucketing, Run, Tiering, free_runs, ids, runs};
pub use time_window::TimeWindow;
pub use tombstones::{TombstoneRules, drop_plan, fully_expired};
pub use unified::Unified;
pub use view::{DiskView, RunId, SSTableId, SSTableView, TableView};
