//! The storage engine: a directory that takes writes, survives anything, and reads back.
//!
//! Follow a write: [`engine`] hands it to the shard of its token ([`node`]); [`shard`] checks it, appends it to
//! the [`commitlog`], applies it to a [`memtable`] of its [`table`] and answers when it is durable; a flush
//! ([`flush`]) makes the memtable an SSTable and gives the log's segments up.
//! Follow a read: [`node`] asks the shards, [`read`] merges what memtables and SSTables have into pages.
//! Follow a compaction: [`compaction`].
//! Follow a start: [`recover`].

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
