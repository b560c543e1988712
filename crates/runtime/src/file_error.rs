//! Error of a file operation: the operation, the file, the offset in it, and the system's error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file operation failed.
#[derive(Debug)]
pub struct FileError {
    /// The operation, e.g. `"read"`.
    pub op: &'static str,
    /// The file or directory of the operation.
    pub path: PathBuf,
    /// Offset in the file, if the operation has one.
    pub offset_bytes: Option<u64>,
    /// The error that the system returned.
    pub source: io::Error,
}

impl FileError {
    /// An error without an offset in the file.
    pub fn new(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self { op, path: path.to_owned(), offset_bytes: None, source }
    }

    /// An error at an offset in the file.
    pub fn at(op: &'static str, path: &Path, offset_bytes: u64, source: io::Error) -> Self {
        Self { op, path: path.to_owned(), offset_bytes: Some(offset_bytes), source }
    }

    /// Whether the device or the disk quota is full; a retry can succeed after space was freed.
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether the file exists although it was to be created.
    pub fn is_already_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether another process or runtime holds the lock of the directory.
    pub fn is_locked(&self) -> bool {
        self.source.kind() == io::ErrorKind::ResourceBusy
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.op, self.path.display())?;
        if let Some(offset_bytes) = self.offset_bytes {
            write!(f, " at byte {offset_bytes}")?;
        }
        write!(f, ": {}", self.source)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_operation_file_and_place() {
        let error = FileError::at("write", Path::new("/data/a"), 4096, io::ErrorKind::StorageFull.into());
        assert!(error.to_string().starts_with("cannot write /data/a at byte 4096: "), "{error}");
        assert!(error.is_no_space() && !error.is_not_found());
    }
}
