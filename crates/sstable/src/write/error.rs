//! Why an SSTable could not be written.

use std::fmt;

use reader::ReadError;
use runtime::FileError;

/// An SSTable could not be written; nothing of it is sealed.
#[derive(Debug)]
pub enum WriteError {
    /// A file operation failed. [`FileError::is_no_space`] tells a full disk.
    File(FileError),
    /// The reader whose fragments were to be written failed.
    Read(ReadError),
    /// A value does not have the length its type says, so a reader of the file would lose its place.
    Value {
        /// `keyspace.table`
        table: String,
        column: String,
        /// The only length, but 0, that values of the column's type have.
        expected_bytes: usize,
        found_bytes: usize,
    },
    /// After `cause`, the files written so far could not be removed either; [`super::clean_up`] does it at the
    /// next start.
    Leftover { cause: Box<WriteError>, cleaning: FileError },
}

impl WriteError {
    /// The device or the quota is full; freeing space lets a retry succeed.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::File(error) => error.is_no_space(),
            Self::Leftover { cause, .. } => cause.is_no_space(),
            Self::Read(_) | Self::Value { .. } => false,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::Value { table, column, expected_bytes, found_bytes } => write!(
                f,
                "{table}: a value of column {column} has {found_bytes} bytes where its type has \
                 {expected_bytes}; delete or overwrite the row"
            ),
            Self::Leftover { cause, cleaning } => {
                write!(f, "{cause}; and what was written remains until the next start: {cleaning}")
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Read(error) => Some(error),
            Self::Value { .. } => None,
            Self::Leftover { cause, .. } => Some(cause),
        }
    }
}

impl From<FileError> for WriteError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<ReadError> for WriteError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
