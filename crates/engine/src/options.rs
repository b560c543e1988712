//! Options with which an engine is opened.

#![warn(missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;

use model::TableSchema;

use sstable::pool::EvictionPolicy;
use sstable::version::Version;
use sstable::write::{LargeDataLimits, SUMMARY_RATIO_DEFAULT, WriteOptions};

use crate::commitlog::SyncMode;
use crate::progress::StartProgress;

/// What a start does if durable parts of the commit log are unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamagedLog {
    /// The start fails; the error lists every damaged part.
    #[default]
    Refuse,
    /// The start ignores the damaged parts; the open report lists them.
    Skip,
}

/// A directory of SSTables to be read as a table.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The directory; nothing is written to it.
    pub dir: PathBuf,
    /// Name of the table. The keyspace is created in memory if there is none of that name.
    pub keyspace: String,
    /// See `keyspace`.
    pub table: String,
    /// Its columns. `None`: those of the SSTables' headers, with `key` and `clustering1` for names that
    /// headers do not have.
    pub schema: Option<Arc<TableSchema>>,
}

/// How reads are served.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Time limit of a page of a single-partition read, including its wait for admission.
    pub timeout_us: u64,
    /// The same for a page of a scan.
    pub range_timeout_us: u64,
    /// Limit of tombstones read for a page of a user's table; a read above it fails. 0: no limit.
    pub tombstone_failure_threshold: u64,
    /// Whether reads use and fill the cache of index pages.
    pub cache_index_pages: bool,
    /// Whether reads of single partitions use the row cache, for tables whose option does not forbid it.
    pub cache_rows: bool,
    /// When the reads of a shard hold more than this multiple of their memory limit, only one read gets more
    /// memory; 0: no such limit.
    pub serialize_limit_multiplier: u64,
    /// When they hold more than this multiple, a read that needs more memory is refused; 0: no such limit.
    pub kill_limit_multiplier: u64,
    /// The eviction policy of the caches.
    pub eviction: EvictionPolicy,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            timeout_us: 5_000_000,
            range_timeout_us: 10_000_000,
            tombstone_failure_threshold: 100_000,
            cache_index_pages: true,
            cache_rows: true,
            serialize_limit_multiplier: 2,
            kill_limit_multiplier: 4,
            eviction: EvictionPolicy::default(),
        }
    }
}

/// Options of a directory. The defaults are those of the server.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// All files of the node are in this directory.
    pub data_dir: PathBuf,
    /// The memory of all shards together: memtables use up to half of it, memtables and caches up to three
    /// quarters.
    pub memory_bytes: u64,
    /// When a write counts as durable.
    pub commitlog_sync: SyncMode,
    /// Bytes of a commit log segment.
    pub commitlog_segment_bytes: u64,
    /// Limit of the commit logs of all shards together.
    pub commitlog_total_bytes: u64,
    /// Closed segments of the commit log are kept until they are archived, and their files are not reused.
    pub archives_commitlog: bool,
    /// What a start does if durable writes of the commit log are lost.
    pub on_damaged_log: OnDamagedLog,
    /// Number, rates and shares of compactions.
    pub compaction: CompactionOptions,
    /// Limits of reads.
    pub reads: ReadOptions,
    /// The format version of written SSTables; the engine must be able to read it.
    pub sstable_version: Version,
    /// Bytes of an SSTable's summary per uncompressed byte of its rows, from 0 to 1; bounded by the table's
    /// `min_index_interval` and `max_index_interval`.
    pub sstable_summary_ratio: f64,
    /// Whether a snapshot is made before a table is truncated or dropped.
    pub auto_snapshot: bool,
    /// From which size on partitions, rows and cells are recorded and logged.
    pub large_data: LargeDataLimits,
    /// Directories of SSTables to be read as tables.
    pub attachments: Vec<Attachment>,
    /// Progress of the start, written by the engine.
    pub progress: Arc<StartProgress>,
}

/// The format of written SSTables, for all tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SSTableForm {
    /// See [`EngineOptions::sstable_version`].
    pub version: Version,
    /// See [`EngineOptions::sstable_summary_ratio`].
    pub summary_ratio: f64,
}

impl SSTableForm {
    /// Sets the options of a writer to this format.
    pub fn apply_to(&self, options: &mut WriteOptions) {
        options.summary.ratio = self.summary_ratio;
    }
}

impl EngineOptions {
    /// The format of written SSTables.
    pub fn sstable_form(&self) -> SSTableForm {
        SSTableForm { version: self.sstable_version, summary_ratio: self.sstable_summary_ratio }
    }
}

/// Options of the compactions of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Limit of uncompressed bytes that jobs read per second; 0: no limit.
    pub throughput_bytes_per_s: u64,
    /// Limit of concurrent jobs on a shard; 0: one of each weight.
    pub concurrent_jobs: u32,
    /// Never merge fewer than `min_threshold` SSTables, even if there is nothing else to do.
    pub enforce_min_threshold: bool,
    /// Limit of the disk space of the data; `None`: the whole disk.
    pub disk_budget_bytes: Option<u64>,
    /// Fixed CPU shares of compactions; 0: derived from their backlog.
    pub static_shares: u32,
    /// Maximum of the derived CPU shares.
    pub max_shares: u32,
    /// Whether strategies start jobs.
    pub is_automatic: bool,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            throughput_bytes_per_s: 0,
            concurrent_jobs: 0,
            enforce_min_threshold: false,
            disk_budget_bytes: None,
            static_shares: 0,
            max_shares: 1000,
            is_automatic: true,
        }
    }
}

impl EngineOptions {
    /// The defaults of Cassandra and ScyllaDB, with memory for a laptop.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            memory_bytes: 512 << 20,
            commitlog_sync: SyncMode::Periodic { period_us: 10_000_000 },
            commitlog_segment_bytes: 32 << 20,
            commitlog_total_bytes: 1 << 30,
            archives_commitlog: false,
            on_damaged_log: OnDamagedLog::Refuse,
            compaction: CompactionOptions::default(),
            reads: ReadOptions::default(),
            sstable_version: Version::DEFAULT,
            sstable_summary_ratio: SUMMARY_RATIO_DEFAULT,
            auto_snapshot: true,
            large_data: LargeDataLimits::default(),
            attachments: vec![],
            progress: Arc::default(),
        }
    }
}
