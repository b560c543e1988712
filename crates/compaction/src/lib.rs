//! Which SSTables are merged when, into what, and why (see ARCHITECTURE.md, "compaction").
//!
//! Everything here is a function of values: a [`TableView`] goes in, a [`Plan`] with its [`Reason`] comes out.
//! Whoever carries plans out opens files, keeps time and tells the strategy what became of them.

mod plan;
mod strategy;
mod view;

pub use plan::{Finished, Layout, Plan, Reason, Split};
pub use strategy::Strategy;
pub use view::{DiskView, RunId, SSTableId, SSTableView, TableView};
