//! The commit log of a shard: what makes a write durable before its memtable is flushed.
//!
//! - [`mod@format`]: segments and chunks as bytes (`docs/formats/commitlog.md`);
//! - [`segment`]: the files in use, what each still holds that is not in an SSTable, and where new ones come from;
//! - [`manifest`]: which segments there must be;
//! - [`log`]: appending, and the task that writes and syncs;
//! - [`census`]: what an earlier run left, and what of it is missing;
//! - [`replay`]: reading it all back after a crash.
//!
//! Guarantees, by sync mode: `batch` and `group`: an acknowledged write has been synced. `periodic`: it has
//! been handed to the operating system, so it survives the process, and a sync follows within the period.
//! A segment is given up when every memtable that holds one of its writes has been flushed, by count, so the
//! order in which flushes end does not matter.

pub mod census;
pub mod format;
pub mod log;
pub mod manifest;
pub mod replay;
pub mod segment;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use runtime::FileError;

pub use log::{Appended, CommitLog};
pub use replay::{ReplayReport, Replayed};
pub use segment::SegmentRefs;

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Once the operating system has it; synced every so often.
    Periodic { period_us: u64 },
    /// Once it is synced. Writes that arrive during a sync share the next one.
    Batch,
    /// Once it is synced; a sync waits this long for company.
    Group { window_us: u64 },
}

#[derive(Clone, Debug)]
pub struct CommitLogOptions {
    pub dir: PathBuf,
    /// Size of a segment; a mutation may be half as large.
    pub segment_bytes: u64,
    /// Segments of this shard never take more; memtables are flushed in time.
    pub total_bytes_max: u64,
    pub sync: SyncMode,
}

/// Where an entry stands: segment id, then byte in the segment. Positions of one shard's log rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    pub segment: u64,
    pub offset_bytes: u32,
}

#[derive(Clone, Debug)]
pub enum LogError {
    /// The entry is larger than any segment may take.
    TooLarge { entry_bytes: usize, max_bytes: usize },
    /// There is no room for another segment, or it cannot be made for another reason.
    NoSpace(Arc<FileError>),
    /// The log could not be written or synced; nothing more is acknowledged until a restart.
    Failed(Arc<FileError>),
    /// The log is closed.
    Closed,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { entry_bytes, max_bytes } => write!(
                f,
                "the mutation takes {entry_bytes} bytes; at most {max_bytes} fit into half a commit log segment: \
                 split it, or raise commitlog_segment_size"
            ),
            Self::NoSpace(error) if error.is_no_space() => {
                write!(f, "the commit log cannot grow: {error}; writes are refused until space is freed")
            }
            Self::NoSpace(error) => {
                write!(f, "the commit log cannot grow: {error}; writes are refused until it can")
            }
            Self::Failed(error) => write!(
                f,
                "the commit log failed: {error}; writes are refused until the node is restarted on a sound disk"
            ),
            Self::Closed => f.write_str("the commit log is closed: the node is stopping"),
        }
    }
}

impl std::error::Error for LogError {}
