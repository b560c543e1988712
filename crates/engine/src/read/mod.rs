//! Answering reads.
//!
//! - [`admission`]: which reads may begin, and when;
//! - [`page`]: readers are opened, or gone on with, and driven until a page is full (`page_builder`);
//! - [`index`]: rows that secondary indexes find, in the order of the table;
//! - [`trace`]: what a read did, for those who asked;
//! - [`gather`]: one page out of the pages of several shards.

pub mod admission;
pub mod gather;
pub mod index;
pub mod page;
mod page_builder;
mod read_memory;
pub mod trace;

pub use reader::{Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
