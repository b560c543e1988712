//! The mark of an unfinished drop in a table's directory: an empty file `dropped`.
//!
//! 1. The file is durable before the drop is stored in the schema ([`mark`]).
//! 2. After that, everything in the directory except snapshots is removed, and this file last ([`remove`]).
//! 3. A start, and the creation of a table with the same id, check for the file ([`settle`]): if the schema
//!    has the table, it was not dropped; otherwise step 2 is repeated.
//!
//! So dropped data never returns with a table of the same id, wherever a crash or a disk error interrupted
//! the drop. A directory without this file may have been created by a user, and is left alone.

use std::path::Path;

use runtime::{FileError, Files, IoClass};

use super::files::{SNAPSHOTS, list, remove as remove_sstables};

pub const FILE_NAME: &str = "dropped";

/// Marks the table in `dir` before it is dropped. Durable when this returns, unless the disk is full: a drop
/// is a way to free space.
pub async fn mark(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.write_all(&dir.join(FILE_NAME), &[], IoClass::Maintenance).await {
        // The directory was removed by someone else.
        Err(error) if error.is_not_found() || error.is_no_space() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => files.sync_dir(dir).await,
    }
}

/// Removes everything in `dir` except snapshots, and `dir` itself if there are none. Does nothing if it does
/// not exist.
pub async fn remove(files: &Files, dir: &Path) -> Result<(), FileError> {
    if !files.exists(dir).await? {
        return Ok(());
    }
    let sealed = list(files, dir).await?;
    remove_sstables(files, dir, &sealed).await?;
    let mut has_snapshots = false;
    for entry in files.read_dir(dir).await? {
        let path = dir.join(&entry.name);
        match (entry.is_dir, &entry.name[..]) {
            (true, SNAPSHOTS) => has_snapshots = true,
            (true, _) => files.remove_dir_all(&path).await?,
            (false, FILE_NAME) => {}
            (false, _) => files.remove(&path).await?,
        }
    }
    files.sync_dir(dir).await?;
    if has_snapshots { unmark(files, dir).await } else { files.remove_dir_all(dir).await }
}

/// Completes an unfinished drop in `dir`, or undoes it if the table exists. Returns whether it removed
/// anything.
pub async fn settle(files: &Files, dir: &Path, is_table_there: bool) -> Result<bool, FileError> {
    if !files.exists(&dir.join(FILE_NAME)).await? {
        return Ok(false);
    }
    let ended = if is_table_there { unmark(files, dir).await } else { remove(files, dir).await };
    ended.map(|()| !is_table_there)
}

async fn unmark(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.remove(&dir.join(FILE_NAME)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _removed => files.sync_dir(dir).await,
    }
}
