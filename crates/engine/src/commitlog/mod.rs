//! The commit log of a shard: makes a write durable before its memtable is flushed.
//!
//! - [`mod@format`]: byte layout of segments and chunks (`docs/formats/commitlog.md`);
//! - [`segment`]: the segments in use, their entries that no SSTable contains, and the creation of segments;
//! - [`manifest`]: the list of segments that must exist;
//! - [`log`]: appends, and the tasks that write and sync;
//! - [`others`]: entries of batches, which memtables of several shards have;
//! - [`census`]: the files of earlier runs, and the ones that are missing;
//! - [`replay`]: reading the log after a crash;
//! - [`archive`]: closed segments that are kept until they are copied elsewhere.
//!
//! Guarantees by sync mode: with `batch` and `group`, an acknowledged write has been synced. With `periodic`,
//! it has been handed to the operating system, so it survives the process, and a sync follows within the
//! period. A segment is released when every memtable with one of its entries has been flushed; entries are
//! counted, so the order in which flushes end does not matter.

pub mod archive;
pub mod census;
pub mod format;
pub mod log;
pub mod manifest;
pub mod others;
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

/// The time at which a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When the operating system has it; synced at this interval.
    Periodic { period_us: u64 },
    /// When it is synced. Writes that arrive during a sync share the next one.
    Batch,
    /// When it is synced; a sync waits this long for further writes.
    Group { window_us: u64 },
}

#[derive(Clone, Debug)]
pub struct CommitLogOptions {
    pub dir: PathBuf,
    /// Size of a segment. A mutation may have about half of it.
    pub segment_bytes: u64,
    /// Limit of this shard's segments; memtables are flushed in time. Two segments are always allowed, and
    /// recycled files may exceed the limit by one segment.
    pub total_bytes_max: u64,
    pub sync: SyncMode,
    /// Closed segments are kept until they are archived: see [`archive`].
    pub is_archived: bool,
}

/// The position of an entry: segment id, then byte in the segment. Positions of one shard's log rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    pub segment: u64,
    pub offset_bytes: u32,
}

#[derive(Clone, Debug)]
pub enum LogError {
    /// The entry is larger than half a segment.
    TooLarge { entry_bytes: usize, max_bytes: usize },
    /// There is no space for another segment, or it cannot be created for another reason.
    NoSpace(Arc<FileError>),
    /// A write or sync of the log failed; nothing is acknowledged until a restart.
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
