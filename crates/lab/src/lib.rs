//! The lab: what compaction strategies cost on a workload, without a server (see docs/code-map.md, "lab").
//!
//! A workload file describes a table as distributions, a node and a load ([`workload`]). The lab simulates
//! one shard ([`world`]) with the production strategies of `compaction`, their admission, controller and
//! purge rules, and the disk model of `iosched`. SSTables are samples of rows (`sketch`), so that terabytes
//! take seconds. Everything is a function of the workload and a seed.

pub mod capacity;
mod job;
pub mod outcome;
pub mod page;
pub mod plots;
mod population;
pub mod quantity;
mod reads;
pub mod report;
mod sketch;
mod store;
#[cfg(test)]
mod tests;
pub mod workload;
pub mod world;
mod writer;

pub use outcome::{SimulationResult, TimelinePoint};
pub use workload::{NamedStrategy, Workload, WorkloadError};
pub use world::{RunOptions, run};
