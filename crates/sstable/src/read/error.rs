//! Why an SSTable cannot be opened, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use reader::ReadError;
use runtime::FileError;

use crate::component::FormatError;

/// An SSTable could not be opened or checked.
#[derive(Debug)]
pub enum SSTableError {
    /// A file that TOC.txt lists, or that every SSTable has, is not there.
    Missing { file: PathBuf },
    /// A component's bytes are not what the format says.
    Format { file: PathBuf, error: FormatError },
    /// Components contradict one another.
    Inconsistent { file: PathBuf, detail: String },
    /// Sound, as far as we can tell, but this build cannot read it.
    Unsupported { file: PathBuf, detail: String },
    /// The operating system could not open or read a file.
    File(FileError),
    /// Reading Data.db or Index.db failed.
    Read(ReadError),
}

impl fmt::Display for SSTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RESTORE: &str =
            "take the SSTable's files out of the table's directory and restore them from a backup";
        match self {
            Self::Missing { file } => write!(f, "{} is missing; {RESTORE}", file.display()),
            Self::Format { file, error } => write!(f, "{}: {error}; {RESTORE}", file.display()),
            Self::Inconsistent { file, detail } => write!(f, "{}: {detail}; {RESTORE}", file.display()),
            Self::Unsupported { file, detail } => write!(f, "{}: {detail}", file.display()),
            Self::File(error) => write!(f, "{error}"),
            Self::Read(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SSTableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Format { error, .. } => Some(error),
            Self::File(error) => Some(error),
            Self::Read(error) => Some(error),
            Self::Missing { .. } | Self::Inconsistent { .. } | Self::Unsupported { .. } => None,
        }
    }
}

impl From<FileError> for SSTableError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<ReadError> for SSTableError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
