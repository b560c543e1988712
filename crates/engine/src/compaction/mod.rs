//! Compactions: SSTables become fewer, and what is dead goes.
//!
//! - [`manager`]: which job runs when; `strategies` and `view` are what it asks and what it shows;
//! - [`job`]: one compaction; `output` and `windows` cut what it writes, `purge` says what may be dropped, `throttle` how fast;
//! - [`record`], `replace`: SSTables take the place of others, whatever happens;
//! - `reshard`, `reshape`: SSTables from elsewhere are brought to the shards that own them, and into the strategy's form;
//! - [`verify`]: what is damaged is found and put aside;
//! - `sample`: how much a merge would free, from a small part of it;
//! - `operations`, [`node`]: what users ask for, of a shard and of all; [`report`], [`history`]: what they are shown.

pub mod error;
pub mod history;
pub mod job;
pub mod manager;
pub mod node;
mod operations;
mod output;
mod purge;
pub mod record;
mod replace;
pub mod report;
mod reshape;
mod reshard;
mod sample;
mod strategies;
mod throttle;
pub mod verify;
mod view;
mod windows;

pub use error::JobError;
pub use history::{Ended, History};
pub use manager::{CompactionSetup, Manager};
pub use purge::{Blocker, KeptTombstones};
