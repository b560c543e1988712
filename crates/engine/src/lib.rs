//! The storage engine: stores the writes to a directory durably and reads them back.
//!
//! The path of a write: [`engine`] forwards it to the shard of its token ([`node`]); [`shard`] validates it,
//! appends it to the [`commitlog`], applies it to a [`memtable`] of its [`table`] and answers when it is
//! durable; a flush ([`flush`]) writes the memtable as an SSTable and releases the log's segments.
//! The path of a read: [`node`] forwards it to the shards, [`read`] merges memtables and SSTables into pages.
//! Compaction: [`compaction`].
//! A start: [`recover`].

mod cache;
pub mod commitlog;
pub mod compaction;
pub mod engine;
pub mod error;
pub mod flush;
pub mod manifest;
pub mod memtable;
pub mod node;
pub mod options;
mod partition_locks;
pub mod progress;
pub mod read;
pub mod recover;
pub mod report;
pub mod shard;
pub mod sharder;
pub mod table;

pub use cache::{RowCache, RowCacheStats};
pub use engine::{Engine, Pending, ShardOptions};
pub use error::EngineError;
pub use options::{Attachment, CompactionOptions, EngineOptions, OnDamagedLog, ReadOptions};
pub use read::{Page, PagePlace, PagingState, PartitionPage, ReadCommand, UnfinishedPartition};
pub use recover::OpenReport;
