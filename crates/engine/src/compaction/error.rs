//! The reasons why a job did not end well.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use reader::ReadError;
use runtime::FileError;
use sstable::read::SSTableError;
use sstable::write::WriteError;

#[derive(Debug)]
pub enum JobError {
    /// The job was asked to stop.
    Stopped,
    Read(ReadError),
    Write(WriteError),
    /// An output was written and cannot be opened.
    Open(SSTableError),
    File(FileError),
    /// It is unknown whether the outputs will count after a restart. Until then the inputs stay as they are.
    InDoubt(FileError),
    /// The outputs count, and the replaced files could not be removed.
    Unfinished(Arc<FileError>),
    /// The request cannot be fulfilled: an SSTable does not exist, or another job has it.
    Refused(String),
}

impl JobError {
    /// Whether the disk is full.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Write(error) => error.is_no_space(),
            Self::File(error) => error.is_no_space(),
            _ => false,
        }
    }

    /// The corrupt file, if this is why the job failed.
    pub fn corrupt_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Read(ReadError::Corrupt { file, .. })
            | Self::Write(WriteError::Read(ReadError::Corrupt { file, .. })) => Some(file),
            _ => None,
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the compaction was stopped"),
            Self::Read(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::InDoubt(error) => {
                write!(f, "{error}; a restart will show whether the compaction took effect")
            }
            Self::Unfinished(error) => write!(
                f,
                "the compaction succeeded, but the SSTables that it replaced still use disk space: {error}; their removal is \
                 retried"
            ),
            Self::Refused(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for JobError {}

impl From<ReadError> for JobError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<WriteError> for JobError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<SSTableError> for JobError {
    fn from(error: SSTableError) -> Self {
        Self::Open(error)
    }
}

impl From<FileError> for JobError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
