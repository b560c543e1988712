//! Reads.
//!
//! - [`admission`]: decides which reads may begin, and when;
//! - [`page`]: opens or resumes readers, and drives them until a page is full (`page_builder`);
//! - [`index`]: finds rows by secondary indexes, in the order of the table;
//! - [`trace`]: records the steps of a read, if tracing is on;
//! - [`gather`]: merges the pages of several shards into one.

pub mod admission;
pub mod gather;
pub mod index;
pub mod page;
mod page_builder;
mod read_memory;
pub mod trace;

pub use reader::{Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
