//! Errors of a read.

use std::fmt;
use std::path::PathBuf;

use crate::semaphore::Refusal;

/// A failed read. The variant determines the reaction of the caller.
#[derive(Debug)]
pub enum ReadError {
    /// A file contains invalid data. The remainder of the table is not affected.
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where in the file, in bytes from its start.
        offset_bytes: u64,
        /// What was found in place of what was expected.
        detail: String,
    },
    /// The operating system could not read a file.
    Io {
        /// The file.
        file: PathBuf,
        /// Where the read began, in bytes from the start of the file.
        offset_bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The shard is too busy to execute this read or to let it wait longer.
    Refused(Refusal),
    /// This read needs more than any single read may use.
    Limit(LimitExceeded),
    /// The shard that has the data is stopping.
    ShuttingDown,
}

/// The limit that a read has exceeded. The texts are Cassandra's and ScyllaDB's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitExceeded {
    /// `tombstone_failure_threshold`
    Tombstones(String),
    /// `max_memory_for_unlimited_query_hard_limit`
    Memory(String),
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tombstones(text) | Self::Memory(text) => f.write_str(text),
        }
    }
}

impl ReadError {
    /// A copy of the error, for another reader that waited for the same load.
    #[must_use]
    pub fn copied(&self) -> Self {
        match self {
            Self::Corrupt { file, offset_bytes, detail } => {
                Self::Corrupt { file: file.clone(), offset_bytes: *offset_bytes, detail: detail.clone() }
            }
            Self::Io { file, offset_bytes, source } => {
                let source = match source.raw_os_error() {
                    Some(code) => std::io::Error::from_raw_os_error(code),
                    None => std::io::Error::new(source.kind(), source.to_string()),
                };
                Self::Io { file: file.clone(), offset_bytes: *offset_bytes, source }
            }
            Self::Refused(refusal) => Self::Refused(refusal.clone()),
            Self::Limit(limit) => Self::Limit(limit.clone()),
            Self::ShuttingDown => Self::ShuttingDown,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { file, offset_bytes, detail } => write!(
                f,
                "{} at byte {offset_bytes}: {detail}; take the file out of the table's directory and restore it from a backup",
                file.display()
            ),
            Self::Io { file, offset_bytes, source } => {
                write!(f, "cannot read {} at byte {offset_bytes}: {source}; check the disk", file.display())
            }
            Self::Refused(refusal) => f.write_str(refusal.text()),
            Self::Limit(limit) => limit.fmt(f),
            Self::ShuttingDown => f.write_str("the node is shutting down; ask again when it is back"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Corrupt { .. } | Self::Refused(_) | Self::Limit(_) | Self::ShuttingDown => None,
        }
    }
}
