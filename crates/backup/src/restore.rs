//! Builds a data directory from a backup.
//!
//! Everything is written into `<directory>.restoring` beside the directory, checked while it is written, and
//! synced; then that is renamed. So the directory is complete or does not exist, also after a crash; the next
//! restore removes what an interrupted one left.

use std::fs;
use std::path::{Path, PathBuf};

use engine::table::view_mark::{self, Unbuilt};
use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::fetch;
use crate::manifest::{Manifest, TableEntry};
use crate::pace::Pace;
use crate::storage::Target;
use crate::storage::dir::sync_dir;

/// Result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The backup.
    pub id: String,
    /// The names of the restored tables, without those of the system.
    pub tables: Vec<String>,
    /// Files, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Mutations of the archive that were replayed.
    #[serde(default)]
    pub mutations: u64,
}

/// Restores a whole backup, system tables included, as the data directory `to`. `io_bytes_per_s`: 0 means no
/// limit.
///
/// # Errors
/// `to` exists and is not empty, or an object is missing or damaged, which the text names. Then `to` is as
/// before.
pub fn restore(
    target: &dyn Target,
    manifest: &Manifest,
    to: &Path,
    io_bytes_per_s: u64,
) -> Result<Restored, BackupError> {
    let staged = stage(target, manifest, to, io_bytes_per_s)?;
    staged.publish(to)?;
    Ok(summary(manifest))
}

/// A restored directory that does not have its name yet. It is removed when it is dropped.
pub struct Staged {
    dir: PathBuf,
    is_published: bool,
}

impl Staged {
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Gives the directory its name `to`.
    ///
    /// # Errors
    /// `to` is not empty any more, or cannot be written.
    pub fn publish(mut self, to: &Path) -> Result<(), BackupError> {
        match fs::remove_dir(to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(BackupError::of_file("replace", to, &error));
            }
            _removed => {}
        }
        fs::rename(&self.dir, to).map_err(|error| BackupError::of_file("make", to, &error))?;
        self.is_published = true;
        let parent = to.parent().unwrap_or(Path::new("."));
        sync_dir(parent).map_err(|error| BackupError::of_file("sync", parent, &error))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_published {
            // The next restore removes it, if it remains.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The names and sizes of what a whole restore makes.
pub fn summary(manifest: &Manifest) -> Restored {
    let users = manifest.tables.iter().filter(|table| !table.is_system);
    Restored {
        id: manifest.id.clone(),
        tables: users.map(TableEntry::full_name).collect(),
        files: manifest.tables.iter().map(|table| table.files.len() as u64).sum(),
        bytes: manifest.bytes(),
        mutations: 0,
    }
}

/// Writes the data directory under its temporary name.
///
/// # Errors
/// As [`restore`].
pub fn stage(
    target: &dyn Target,
    manifest: &Manifest,
    to: &Path,
    io_bytes_per_s: u64,
) -> Result<Staged, BackupError> {
    check_empty(to)?;
    let name = to.file_name().ok_or_else(|| BackupError(format!("{} is no directory", to.display())))?;
    let mut temporary = name.to_os_string();
    temporary.push(".restoring");
    let dir = to.with_file_name(temporary);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(BackupError::of_file("remove", &dir, &error));
        }
        _removed => {}
    }
    let staged = Staged { dir, is_published: false };
    let dir = staged.dir();
    make_dir(dir)?;
    for name in ["data", "commitlog", "commitlog/schema", "sstables"] {
        make_dir(&dir.join(name))?;
    }
    write(&dir.join("host_id"), manifest.host_id.as_bytes())?;
    let mut pace = Pace::new(io_bytes_per_s);
    for table in &manifest.tables {
        let keyspace_dir = dir.join("data").join(&table.keyspace);
        let table_dir = keyspace_dir.join(table.dir_name());
        make_dir(&table_dir)?;
        fetch::fetch_table(target, table, &table_dir, &mut pace)?;
        if table.is_unbuilt {
            write(&table_dir.join(view_mark::FILE_NAME), Unbuilt::Again.text().as_bytes())?;
        }
        sync(&table_dir)?;
        sync(&keyspace_dir)?;
    }
    for name in ["data", "commitlog", "."] {
        sync(&dir.join(name))?;
    }
    Ok(staged)
}

/// A directory that a restore may make: it does not exist, or is empty.
///
/// # Errors
/// It has something in it.
pub fn check_empty(to: &Path) -> Result<(), BackupError> {
    match fs::read_dir(to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(BackupError::of_file("read", to, &error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(BackupError(format!(
                "{} is not empty; a whole restore makes a new directory: move this one away, or name another one",
                to.display()
            ))),
        },
    }
}

fn make_dir(dir: &Path) -> Result<(), BackupError> {
    fs::create_dir_all(dir).map_err(|error| BackupError::of_file("create", dir, &error))
}

fn sync(dir: &Path) -> Result<(), BackupError> {
    sync_dir(dir).map_err(|error| BackupError::of_file("sync", dir, &error))
}

fn write(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let write = || {
        let mut file = fs::File::create_new(path)?;
        std::io::Write::write_all(&mut file, content)?;
        file.sync_all()
    };
    write().map_err(|error| BackupError::of_file("write", path, &error))
}
