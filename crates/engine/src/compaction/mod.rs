//! Compaction: jobs merge a table's SSTables into fewer ones and drop dead data.
//!
//! - [`manager`] decides which job runs when. It asks the strategy (`table_strategy`) and passes it a `view`
//!   of the table. Its parts are `schedule`, `running`, `table_state`, `pause` and `back_pressure`;
//!   `job_lifecycle` starts jobs and processes their results.
//! - [`job`] runs one compaction. `output` and `windows` cut its output into SSTables, `purge` decides what
//!   may be dropped, `throttle` limits the read rate.
//! - [`record`] and `replace` replace SSTables by others in a way that survives crashes.
//! - `reshard` and `reshape` bring SSTables from elsewhere to the shards that own them, and into the
//!   strategy's form. `index_build` builds the secondary indexes that SSTables lack.
//! - [`verify`] finds damaged SSTables and puts them into quarantine; [`scrub`] replaces damaged SSTables by
//!   their readable part.
//! - `sample` estimates from a small part of the data how many bytes a merge would free.
//! - `user_requests` runs the requests of users; [`report`] and [`history`] are the figures and jobs shown to
//!   them.
//! - [`explain`] states why jobs run or wait, and why tombstones are not purged.
//! - `compaction_log` writes the lines of the option `log_all`.

mod back_pressure;
mod compaction_log;
pub mod error;
pub mod explain;
mod futile;
pub mod history;
mod host;
mod index_build;
pub mod job;
mod job_lifecycle;
pub mod manager;
mod output;
mod pause;
mod purge;
mod read_rate;
pub mod record;
mod replace;
pub mod report;
mod reshape;
mod reshard;
mod running;
mod sample;
mod schedule;
pub mod scrub;
mod table_state;
mod table_strategy;
mod throttle;
mod user_requests;
pub mod verify;
mod view;
mod windows;

pub use compaction::garbage::Granularity;
pub use compaction_log::CompactionLog;
pub use error::JobError;
pub use history::History;
pub use manager::{CompactionSetup, Manager};
pub use purge::{Blocker, KeptTombstones};
