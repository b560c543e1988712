//! Answering reads.
//!
//! - [`admission`]: which reads may begin, and when;
//! - [`run`]: driving readers until a page is full;
//! - [`parked`]: reads between two pages;
//! - [`traced`]: what a read did, for those who asked;
//! - [`gather`]: one page out of the pages of several shards.

pub mod admission;
pub mod gather;
pub mod parked;
mod read_memory;
pub mod run;
pub mod traced;

pub use reader::{Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
