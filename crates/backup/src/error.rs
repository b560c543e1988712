//! Why a backup or a restore failed.

use std::fmt;
use std::path::Path;

use engine::EngineError;

/// The error of a backup or a restore. Its text names the object or file, the fault, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupError(pub String);

impl BackupError {
    /// An operation on a file failed.
    pub fn of_file(what: &str, path: &Path, error: &std::io::Error) -> Self {
        Self(format!("cannot {what} {}: {error}", path.display()))
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BackupError {}

impl From<String> for BackupError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<EngineError> for BackupError {
    fn from(error: EngineError) -> Self {
        Self(error.to_string())
    }
}
