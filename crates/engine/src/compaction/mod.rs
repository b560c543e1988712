//! Compactions: SSTables become fewer, and what is dead goes.
//!
//! - [`manager`]: which job runs when; `strategies` and `view` are what it asks and what it shows; its parts are
//!   `schedule`, `running`, `table_state`, `pause`, `pressure`; what becomes of a job is in `lifecycle`;
//! - [`job`]: one compaction; `output` and `windows` cut what it writes, `purge` says what may be dropped, `throttle`
//!   how fast;
//! - [`record`], `replace`: SSTables take the place of others, whatever happens;
//! - `reshard`, `reshape`: SSTables from elsewhere are brought to the shards that own them, and into the strategy's
//!   form;
//! - [`verify`]: what is damaged is found and put aside; [`scrub`]: and what of it is sound takes its place;
//! - `index_build`: SSTables get the secondary indexes that they lack;
//! - `sample`: how much a merge would free, from a small part of it;
//! - `operations`: what users ask for; [`report`], [`history`]: what they are shown;
//! - `compaction_log`: the lines of `log_all`.

mod compaction_log;
pub mod error;
mod futile;
pub mod history;
mod host;
mod index_build;
pub mod job;
mod lifecycle;
pub mod manager;
mod operations;
mod output;
mod pause;
mod pressure;
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
mod strategies;
mod table_state;
mod throttle;
pub mod verify;
mod view;
mod windows;

pub use compaction::garbage::Granularity;
pub use compaction_log::CompactionLog;
pub use error::JobError;
pub use history::{Ended, History};
pub use manager::{CompactionSetup, Manager};
pub use purge::{Blocker, KeptTombstones};
