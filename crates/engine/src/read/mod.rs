//! Answering reads.
//!
//! - [`command`]: what is asked: partitions, rows, direction, limits, where to go on;
//! - [`page`]: what is answered, and where the next page begins;
//! - [`run`]: driving readers until a page is full;
//! - [`gather`]: one page out of the pages of several shards.

pub mod command;
pub mod gather;
pub mod page;
pub mod run;

pub use command::{PagingState, ReadCommand};
pub use page::{Page, PartitionPage};
