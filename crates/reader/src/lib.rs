//! The read trait, forward and reverse, and combinators of readers that do not depend on where data is
//! stored.
//!
//! A [`Source`] (a memtable, an SSTable, several of them merged) opens [`Reader`]s. A reader yields the
//! [`Fragment`]s of the wanted partitions one after another. Every source passes the [`examination`].
//!
//! A [`ReadCommand`] contains the parameters of a client's read of a table, a [`Page`] its result.
//!
//! **Invariant:** nothing in this crate opens a file, uses a clock or starts a task. A reader that must wait
//! returns `Step::Load`; its caller awaits `load` in the caller's own runtime.

#![warn(missing_docs)]

mod admission_queue;
mod block_on;
pub mod chain;
pub mod collect;
pub mod command;
pub mod compact;
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

pub use block_on::{LocalFuture, block_on_ready};
pub use chain::ChainReader;
pub use collect::{collect, collect_partitions};
pub use command::{IndexClause, IndexQuery, PagePlace, PagingState, ReadCommand, UnfinishedPartition};
pub use compact::{CompactReader, Garbage, Keep, Passed, PurgePolicy};
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
