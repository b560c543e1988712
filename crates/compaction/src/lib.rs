//! Decides which SSTables are merged when, into what, and why (see docs/code-map.md, "compaction").
//!
//! All decisions are functions of values: from a [`TableView`] to a [`Plan`] with its [`Reason`]. The caller
//! runs the plans: it opens files, keeps time and reports the results to the strategy.

#![warn(missing_docs)]

pub mod amplification;
pub mod backlog;
mod considered;
pub mod controller;
pub mod date_tiered;
pub mod explain;
pub mod garbage;
mod incremental;
mod job_rules;
pub mod leveled;
mod null;
pub mod option_values;
pub mod options;
mod options_error;
mod overlap;
mod plan;
pub mod purge;
mod repaired;
pub mod reshape;
mod sample;
mod size_tiered;
pub mod spec;
mod split;
mod sstable_id;
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
pub use incremental::{Incremental, IncrementalOptions, TombstoneCollection, pieces};
pub use job_rules::JobRules;
pub use leveled::Leveled;
pub use null::Null;
pub use options::{check_options, strategy_from};
pub use options_error::OptionsError;
pub use overlap::{LeastIndex, count_max, groups, share_outside};
pub use plan::{Finished, Layout, Plan, Reason, RunPiece, Split, needs_bytes};
pub use repaired::RepairedApart;
pub use reshape::Reshape;
pub use sample::{SAMPLED_RUNS_MAX, SamplePlan, SampledGroup, SampledOverlap};
pub use size_tiered::SizeTiered;
pub use spec::{COMMON, Kind, OptionSpec, STRATEGIES, StrategySpec};
pub use sstable_id::{RunId, SSTableId};
pub use strategy::Strategy;
pub use tiers::{Bucket, Bucketing, Run, Tiering, free_runs, ids, runs};
pub use time_window::TimeWindow;
pub use tombstones::{TombstoneRules, drop_plan, fully_expired};
pub use unified::Unified;
pub use view::{DiskView, SSTableView, TableView};
