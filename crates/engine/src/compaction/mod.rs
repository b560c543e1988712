//! Compactions: SSTables become fewer, and what is dead goes.
//!
//! - [`manager`]: which job runs when; `strategies` and `view` are what it asks and what it shows; a table of it is in `managed`,
//!   what becomes of a job in `lifecycle`, what it keeps back and speaks for in `pressure`;
//! - [`job`]: one compaction; `output` and `windows` cut what it writes, `purge` says what may be dropped, `throttle` how fast;
//! - [`record`], `replace`: SSTables take the place of others, whatever happens;
//! - `reshard`, `reshape`: SSTables from elsewhere are brought to the shards that own them, and into the strategy's form;
//! - [`verify`]: what is damaged is found and put aside; [`scrub`]: and what of it is sound takes its place;
//! - `sample`: how much a merge would free, from a small part of it;
//! - `operations`, [`node`]: what users ask for, of a shard and of all; [`report`], [`history`] (stored by `history_table`): what they are shown.

pub mod error;
mod futile;
pub mod history;
pub(crate) mod history_table;
pub mod job;
mod lifecycle;
mod managed;
pub mod manager;
pub mod node;
mod operations;
mod output;
mod pressure;
mod purge;
pub mod record;
mod replace;
pub mod report;
mod reshape;
mod reshard;
mod sample;
pub mod scrub;
mod strategies;
mod throttle;
pub mod verify;
mod view;
mod windows;

pub use compaction::garbage::Granularity;
pub use error::JobError;
pub use history::{Ended, History};
pub use manager::{CompactionSetup, Manager};
pub use purge::{Blocker, KeptTombstones};
