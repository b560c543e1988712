//! Errors of writing an SSTable.

use std::fmt;

use reader::ReadError;
use runtime::FileError;

/// Writing an SSTable failed. The SSTable is not sealed.
#[derive(Debug)]
pub enum WriteError {
    /// A file operation failed. [`FileError::is_no_space`] identifies a full disk.
    File(FileError),
    /// The reader of the fragments failed.
    Read(ReadError),
    /// A value does not have the fixed length of its type. Readers of the file could not find the end of the
    /// value.
    Value {
        /// Full table name: `keyspace.table`.
        table: String,
        column: String,
        /// The only length in bytes, besides 0, of values of the column's type.
        expected_bytes: usize,
        found_bytes: usize,
    },
    /// After `cause`, removing the written files failed too. [`super::clean_up`] removes them at the next
    /// start.
    Leftover { cause: Box<WriteError>, cleaning: FileError },
}

impl WriteError {
    /// Whether the device or the quota is full. A retry succeeds after space has been freed.
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
                write!(f, "{cause}; and the written files remain until the next start: {cleaning}")
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
