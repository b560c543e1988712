//! Errors of opening an SSTable, with the action to take.

use std::fmt;
use std::path::{Path, PathBuf};

use reader::ReadError;
use runtime::FileError;

use crate::component::FormatError;
use crate::name::{Component, SSTableName};

/// Opening or verifying an SSTable failed.
#[derive(Debug)]
pub enum SSTableError {
    /// A file that TOC.txt lists, or that every SSTable has, does not exist.
    Missing { file: PathBuf },
    /// The bytes of a component do not conform to the format.
    Format { file: PathBuf, error: FormatError },
    /// Components contradict one another.
    Inconsistent { file: PathBuf, detail: String },
    /// The SSTable seems sound, but this build cannot read it.
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
            Self::Missing { file } => {
                write!(f, "{} is missing ({}); {RESTORE}", file.display(), needed_by(file))
            }
            Self::Format { file, error } => write!(f, "{}: {error}; {RESTORE}", file.display()),
            Self::Inconsistent { file, detail } => write!(f, "{}: {detail}; {RESTORE}", file.display()),
            Self::Unsupported { file, detail } => write!(f, "{}: {detail}", file.display()),
            Self::File(error) => write!(f, "{error}"),
            Self::Read(error) => write!(f, "{error}"),
        }
    }
}

/// The reason why a missing file should exist.
pub(crate) fn needed_by(file: &Path) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match SSTableName::parse_file_name(name) {
        Ok((sstable, component)) if component != Component::Toc => {
            let toc = file.with_file_name(sstable.file_name(&Component::Toc));
            format!("{} lists {component}, or the format needs it", toc.display())
        }
        _ => "every SSTable has it".to_owned(),
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
