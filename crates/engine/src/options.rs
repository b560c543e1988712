//! What an engine is opened with.

use std::path::PathBuf;

use sstable::version::Version;

use crate::commitlog::SyncMode;

/// What to do when durable parts of the commit log cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamagedLog {
    /// Do not start; the error names every damaged place.
    #[default]
    Refuse,
    /// Start without what is in the damaged places; the open report names them.
    Skip,
}

#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Everything lives below this directory.
    pub data_dir: PathBuf,
    /// The memory of all shards together: memtables take up to half of it, the chunk cache a quarter.
    pub memory_bytes: u64,
    pub commitlog_sync: SyncMode,
    pub commitlog_segment_bytes: u64,
    /// The commit logs of all shards together.
    pub commitlog_total_bytes: u64,
    pub on_damaged_log: OnDamagedLog,
    /// What SSTables are written as; one that can be read.
    pub sstable_version: Version,
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
            sstable_version: Version::DEFAULT,
        }
    }
}
