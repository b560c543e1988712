//! The errors of the engine.

#![warn(missing_docs)]

use std::fmt;
use std::path::PathBuf;

use catalog::CatalogError;
use model::TableId;
use reader::ReadError;
use runtime::FileError;

use crate::commitlog::LogError;
use crate::commitlog::replay::Gap;

/// Why a request to the engine failed. The text states what happened and the next step.
#[derive(Debug)]
pub enum EngineError {
    /// The request is invalid; it will never succeed.
    Invalid(String),
    /// There is no table with this id: it was dropped, or never existed.
    UnknownTable(TableId),
    /// The schema change is not allowed, or cannot be stored.
    Schema(CatalogError),
    /// The write was not made durable, or could not be.
    Log(LogError),
    /// The read failed: a file is damaged or cannot be read, or a limit is exceeded.
    Read(ReadError),
    /// An SSTable could not be written or opened.
    SSTable(String),
    /// A compaction failed or was stopped; the data is unchanged.
    Compaction(String),
    /// The disk is full. Reads continue, and writes resume when space is freed.
    NoSpace(String),
    /// A file or directory cannot be created, read, written or removed.
    File(FileError),
    /// Durable parts of the commit log are lost, and the options do not allow a start without them.
    DamagedLog(Vec<Gap>),
    /// Another process has the directory open.
    Locked {
        /// The directory.
        data_dir: PathBuf,
        /// The process that has it open, as far as it is known.
        detail: String,
    },
    /// The deadline passed before the request was answered. A write may have happened nevertheless.
    TimedOut,
    /// The engine, or the shard that has the data, has stopped.
    Stopped,
    /// The runtime could not be started.
    Start(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => f.write_str(what),
            Self::UnknownTable(id) => write!(f, "there is no table with id {id}; was it dropped?"),
            Self::Schema(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::SSTable(error) | Self::Compaction(error) => f.write_str(error),
            Self::NoSpace(what) => {
                write!(f, "no space on the disk: {what}; writes resume when space is freed")
            }
            Self::File(error) => error.fmt(f),
            Self::DamagedLog(gaps) => {
                write!(f, "the commit log is damaged, and the lost writes are in no SSTable:")?;
                for gap in gaps {
                    write!(f, "\n  {gap}")?;
                }
                f.write_str(
                    "\nrestore the files, or start with the option to skip the damaged parts and lose their writes",
                )
            }
            Self::Locked { data_dir, detail } => {
                write!(f, "{} is in use: {detail}", data_dir.display())
            }
            Self::TimedOut => f.write_str("the request timed out before it was answered"),
            Self::Stopped => f.write_str("the engine has stopped"),
            Self::Start(detail) => write!(f, "the engine cannot start: {detail}"),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<FileError> for EngineError {
    fn from(error: FileError) -> Self {
        if error.is_no_space() { Self::NoSpace(error.to_string()) } else { Self::File(error) }
    }
}

impl From<CatalogError> for EngineError {
    fn from(error: CatalogError) -> Self {
        Self::Schema(error)
    }
}

impl From<runtime::ShardGone> for EngineError {
    fn from(_: runtime::ShardGone) -> Self {
        Self::Stopped
    }
}
