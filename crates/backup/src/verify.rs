//! Reads and checks every object of backups.

use base::HashSet;
use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::fetch;
use crate::manifest::{Manifest, object_name};
use crate::pace::Pace;
use crate::storage::Target;

/// Result of a verification: the objects that were read, and the problems found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The backups that were checked.
    pub backups: Vec<String>,
    /// Objects read, each once.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// One text for each damaged object; it names the object and the first backup that refers to it.
    pub problems: Vec<String>,
}

/// Checks the backup `id`, or all backups. `io_bytes_per_s`: 0 means no limit.
///
/// # Errors
/// The target cannot be read, or there is no such backup. Missing and damaged objects are findings, not
/// errors.
pub fn verify(target: &dyn Target, id: Option<&str>, io_bytes_per_s: u64) -> Result<Verified, BackupError> {
    let ids = match id {
        Some(id) => vec![fetch::manifest(target, id)?.id],
        None => fetch::ids(target)?,
    };
    let mut verified = Verified::default();
    let mut seen = HashSet::default();
    let mut pace = Pace::new(io_bytes_per_s);
    for id in ids {
        match fetch::manifest(target, &id) {
            Ok(manifest) => check(target, &manifest, &mut seen, &mut pace, &mut verified)?,
            Err(error) => verified.problems.push(error.to_string()),
        }
        verified.backups.push(id);
    }
    Ok(verified)
}

fn check(
    target: &dyn Target,
    manifest: &Manifest,
    seen: &mut HashSet<String>,
    pace: &mut Pace,
    verified: &mut Verified,
) -> Result<(), BackupError> {
    for table in &manifest.tables {
        for file in &table.files {
            if !seen.insert(object_name(&table.id, &file.sha256)) {
                continue;
            }
            verified.objects += 1;
            match fetch::check_object(target, table, file, pace, &mut |_| Ok(()))? {
                None => verified.bytes += file.bytes,
                Some(wrong) => verified.problems.push(format!("backup {}: {wrong}", manifest.id)),
            }
        }
    }
    Ok(())
}
