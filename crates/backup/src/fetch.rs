//! Reads manifests and objects of a target, and checks them.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::BackupError;
use crate::manifest::{BACKUPS, FileEntry, Manifest, TableEntry, hex, object_name};
use crate::pace::Pace;
use crate::storage::Target;

/// The ids of all backups, from the oldest to the newest.
///
/// # Errors
/// The target cannot be listed.
pub fn ids(target: &dyn Target) -> Result<Vec<String>, BackupError> {
    let names = target.list(BACKUPS)?.into_iter();
    let id = |name: String| Some(name.strip_prefix(BACKUPS)?.strip_prefix('/')?.to_string());
    let mut ids: Vec<String> = names.filter_map(|(name, _)| id(name)).collect();
    ids.sort();
    Ok(ids)
}

/// The manifest of a backup.
///
/// # Errors
/// There is none, or it is damaged.
pub fn manifest(target: &dyn Target, id: &str) -> Result<Manifest, BackupError> {
    let name = format!("{BACKUPS}/{id}");
    let bytes = target.get(&name)?;
    let bytes = bytes.ok_or_else(|| {
        BackupError(format!(
            "{} has no backup {id}; `messina backup list` shows those that exist",
            target.name()
        ))
    })?;
    let manifest = Manifest::decode(&name, &bytes)?;
    if manifest.id != id {
        return Err(BackupError(format!("{name} is damaged: it is the manifest of {}", manifest.id)));
    }
    Ok(manifest)
}

/// The manifests of all backups, from the oldest to the newest.
///
/// # Errors
/// One of them is damaged.
pub fn manifests(target: &dyn Target) -> Result<Vec<Manifest>, BackupError> {
    ids(target)?.iter().map(|id| manifest(target, id)).collect()
}

/// The manifest of the backup `id`; `None`: of the newest.
///
/// # Errors
/// There is none, or it is damaged.
pub fn chosen(target: &dyn Target, id: Option<&str>) -> Result<Manifest, BackupError> {
    match id {
        Some(id) => manifest(target, id),
        None => match ids(target)?.pop() {
            Some(id) => manifest(target, &id),
            None => Err(BackupError(format!("{} has no backups", target.name()))),
        },
    }
}

/// Reads an object, passes its bytes to `sink`, and compares their length and checksum with `file`. Returns a
/// description of the damage; `None` if there is none.
///
/// # Errors
/// The target or `sink` fails.
pub fn check_object(
    target: &dyn Target,
    table: &TableEntry,
    file: &FileEntry,
    pace: &mut Pace,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<Option<String>, BackupError> {
    let name = object_name(&table.id, &file.sha256);
    let mut hash = Sha256::new();
    let mut found = 0;
    let read = target.read(&name, &mut |part| {
        pace.spend(part.len() as u64);
        hash.update(part);
        found += part.len() as u64;
        // More than the file has is never passed on.
        if found > file.bytes { Ok(()) } else { sink(part) }
    })?;
    let of = format!("{} of {}", file.name, table.full_name());
    Ok(match read {
        None => Some(format!("{name} is missing ({of})")),
        Some(bytes) if bytes != file.bytes => {
            Some(format!("{name} is damaged ({of}): it has {bytes} bytes instead of {}", file.bytes))
        }
        Some(_) if hex(&hash.finalize()) != file.sha256 => {
            Some(format!("{name} is damaged ({of}): its checksum is wrong"))
        }
        Some(_) => None,
    })
}

/// Writes the content of an object to the new file `to` and syncs it.
///
/// # Errors
/// The object is missing or damaged, which the text names; or a file cannot be written.
pub fn fetch(
    target: &dyn Target,
    table: &TableEntry,
    file: &FileEntry,
    to: &Path,
    pace: &mut Pace,
) -> Result<(), BackupError> {
    let failed = |error: std::io::Error| BackupError::of_file("write", to, &error);
    let mut out = File::create_new(to).map_err(failed)?;
    let wrong = check_object(target, table, file, pace, &mut |part| out.write_all(part).map_err(failed))?;
    if let Some(wrong) = wrong {
        return Err(BackupError(format!(
            "{wrong}; nothing was restored: take another backup, or restore the object in {}",
            target.name()
        )));
    }
    out.sync_all().map_err(failed)
}

/// Fetches all files of a table into the directory `dir`, which exists. TOC.txt files come last, so that an
/// SSTable is complete or does not exist.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_table(
    target: &dyn Target,
    table: &TableEntry,
    dir: &Path,
    pace: &mut Pace,
) -> Result<(), BackupError> {
    let is_seal = |file: &&FileEntry| file.name.ends_with("-TOC.txt");
    let seals = table.files.iter().filter(is_seal);
    for file in table.files.iter().filter(|file| !is_seal(file)).chain(seals) {
        fetch(target, table, file, &dir.join(&file.name), pace)?;
    }
    Ok(())
}
