//! The backups of a target.

use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::fetch;
use crate::storage::Target;

/// A backup, without its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// Its id.
    pub id: String,
    /// Its time, in microseconds since 1970.
    pub at_us: i64,
    /// The id of the node.
    pub host_id: String,
    /// The version of Messina that made it.
    pub version: String,
    /// Tables, without those of the system.
    pub tables: u64,
    /// Files of all tables, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Whether the archive of the commit log goes on from it.
    pub is_archived: bool,
    /// The damage of its manifest, if it cannot be read; then only the id is known.
    pub damage: Option<String>,
}

/// All backups, from the oldest to the newest. Objects are not read.
///
/// # Errors
/// The target cannot be read. A damaged manifest is a backup with `damage`.
pub fn list(target: &dyn Target) -> Result<Vec<BackupSummary>, BackupError> {
    let summary = |id: &String| match fetch::manifest(target, id) {
        Err(error) => {
            BackupSummary { id: id.clone(), damage: Some(error.to_string()), ..BackupSummary::default() }
        }
        Ok(manifest) => BackupSummary {
            id: id.clone(),
            at_us: manifest.at_us,
            host_id: manifest.host_id.clone(),
            version: manifest.version.clone(),
            tables: manifest.tables.iter().filter(|table| !table.is_system).count() as u64,
            files: manifest.tables.iter().map(|table| table.files.len() as u64).sum(),
            bytes: manifest.bytes(),
            is_archived: manifest.archive.is_some(),
            damage: None,
        },
    };
    Ok(fetch::ids(target)?.iter().map(summary).collect())
}
