//! What an engine is opened with.

use std::path::PathBuf;
use std::sync::Arc;

use model::TableSchema;

use sstable::pool::EvictionPolicy;
use sstable::version::Version;
use sstable::write::{LargeDataLimits, SUMMARY_RATIO_DEFAULT, WriteOptions};

use crate::commitlog::SyncMode;
use crate::progress::StartProgress;

/// What to do when durable parts of the commit log cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamagedLog {
    /// Do not start; the error names every damaged place.
    #[default]
    Refuse,
    /// Start without what is in the damaged places; the open report names them.
    Skip,
}

/// A directory of somebody else's SSTables that is to be read as a table.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Nothing is ever written here.
    pub dir: PathBuf,
    /// How the table is called. The keyspace is made, in memory, if there is none of that name.
    pub keyspace: String,
    pub table: String,
    /// Its columns; without it those of the headers, with `key` and `clustering1` for names that they do not have.
    pub schema: Option<Arc<TableSchema>>,
}

/// How reads are served.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// How long a read of single partitions waits to be admitted.
    pub timeout_us: u64,
    /// How long a page of a scan waits.
    pub range_timeout_us: u64,
    /// A page of a table of users that is read past more tombstones is refused; 0: none is.
    pub tombstone_failure_threshold: u64,
    /// Whether reads look into cached index pages and fill them.
    pub cache_index_pages: bool,
    /// Whether reads of single partitions keep rows in memory, of tables whose option does not forbid it.
    pub cache_rows: bool,
    /// When reads of a shard hold more than so many times the memory that they are admitted for, only one gets more; 0:
    /// no such limit.
    pub serialize_limit_multiplier: u64,
    /// When they hold more than so many times it, who asks for more is refused; 0: no such limit.
    pub kill_limit_multiplier: u64,
    /// Who goes first when caches have to give way.
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

#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Everything lives below this directory.
    pub data_dir: PathBuf,
    /// The memory of all shards together: memtables take up to half of it, with the caches up to three quarters.
    pub memory_bytes: u64,
    pub commitlog_sync: SyncMode,
    pub commitlog_segment_bytes: u64,
    /// The commit logs of all shards together.
    pub commitlog_total_bytes: u64,
    pub on_damaged_log: OnDamagedLog,
    pub compaction: CompactionOptions,
    pub reads: ReadOptions,
    /// What SSTables are written as; one that can be read.
    pub sstable_version: Version,
    /// Bytes of an SSTable's summary for each byte of its rows before compression, from 0 to 1; bounded by the table's
    /// `min_index_interval` and `max_index_interval`.
    pub sstable_summary_ratio: f64,
    /// Tables leave a snapshot before they are emptied or dropped.
    pub auto_snapshot: bool,
    /// From which size on partitions, rows and cells are recorded and logged.
    pub large_data: LargeDataLimits,
    pub attachments: Vec<Attachment>,
    /// A start says here how far it is.
    pub progress: Arc<StartProgress>,
}

/// How SSTables are written, whatever their table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SSTableForm {
    pub version: Version,
    pub summary_ratio: f64,
}

impl SSTableForm {
    pub fn apply_to(&self, options: &mut WriteOptions) {
        options.summary.ratio = self.summary_ratio;
    }
}

impl EngineOptions {
    /// How it writes SSTables.
    pub fn sstable_form(&self) -> SSTableForm {
        SSTableForm { version: self.sstable_version, summary_ratio: self.sstable_summary_ratio }
    }
}

/// How compactions of all shards together run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Bytes that jobs may read in a second, before compression; 0: no limit.
    pub throughput_bytes_per_s: u64,
    /// At most so many jobs on a shard; 0: one of each weight.
    pub concurrent_jobs: u32,
    /// Fewer than `min_threshold` SSTables are never merged, even if there is nothing else to do.
    pub enforce_min_threshold: bool,
    /// What the data may take of the disk; `None`: all of it.
    pub disk_budget_bytes: Option<u64>,
    /// Compactions get so many CPU shares, whatever there is to do; 0: by their backlog.
    pub static_shares: u32,
    /// And so many at most.
    pub max_shares: u32,
    /// Tables are compacted by themselves.
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
    /// The peers' defaults, with memory for a laptop.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            memory_bytes: 512 << 20,
            commitlog_sync: SyncMode::Periodic { period_us: 10_000_000 },
            commitlog_segment_bytes: 32 << 20,
            commitlog_total_bytes: 1 << 30,
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
