//! Answering reads.
//!
//! - [`admission`]: which reads may begin, and when;
//! - [`run`]: driving readers until a page is full;
//! - [`parked`]: reads between two pages;
//! - [`gather`]: one page out of the pages of several shards.

pub mod admission;
pub mod gather;
pub mod parked;
mod read_memory;
pub mod run;

pub use reader::{Page, PagingState, PartitionPage, ReadCommand};
