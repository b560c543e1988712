//! The one read trait, forward and reverse, and what can be made of readers without knowing where data lie.
//!
//! A [`Source`] (a memtable, an SSTable, several of them merged) opens [`Reader`]s; a reader yields the
//! [`Fragment`]s of the wanted partitions one after another. Everything that keeps this promise passes the
//! [`examination`].
//!
//! A [`ReadCommand`] is what a client wants of a table, a [`Page`] what it gets.
//!
//! **Invariant:** nothing here opens a file, knows a clock or starts a task. A reader that must wait says
//! `Step::Load`; whoever drives it awaits `load` in its own runtime.

pub mod chain;
pub mod collect;
pub mod command;
pub mod compact;
mod drive;
pub mod error;
pub mod examination;
pub mod filter;
pub mod fragment;
#[cfg(test)]
mod laws;
pub mod memory;
pub mod merge;
pub mod page;
pub mod permit;
pub mod reversing;
pub mod semaphore;
pub mod shadow;
pub mod slice;
pub mod trace;

pub use chain::ChainReader;
pub use collect::{collect, collect_partitions};
pub use command::{PagePlace, PagingState, ReadCommand, UnfinishedPartition};
pub use compact::{CompactReader, Garbage, Keep, Passed, PurgePolicy};
pub use drive::{LocalFuture, block_on_ready};
pub use error::{LimitExceeded, ReadError};
pub use filter::FilterReader;
pub use fragment::{Fragment, ReadSpec, Reader, RowFragment, Source, Step};
pub use memory::MemorySource;
pub use merge::{MergeCounts, MergeReader, MergeSource};
pub use page::{Page, PartitionPage};
pub use permit::{Charge, Permit, ReadAdmission};
pub use reversing::ReversingReader;
pub use semaphore::{Refusal, Semaphore, SemaphoreLimits, SemaphoreStats};
pub use shadow::{ShadowReader, Shadowing};
pub use slice::SliceReader;
pub use trace::{ReadTrace, Tracer};
