//! What a drop leaves in a table's directory until all of it is gone: an empty file `dropped`.
//!
//! 1. It is there for good before the schema says that the table is gone ([`mark`]).
//! 2. When the schema has said so, everything in the directory but snapshots is removed, and this file last
//!    ([`remove`]).
//! 3. A start, or a table of the same id that is made, looks for it ([`settle`]): if the schema has the table, it was
//!    not dropped after all; otherwise step 2 is done again.
//!
//! So what was dropped never comes back with a table of the same id, wherever a crash or a disk that fails ended the
//! drop. A directory without this file may have been put there by somebody, and is left alone.

use std::path::Path;

use runtime::{FileError, Files, IoClass};

use super::files::{SNAPSHOTS, list, remove as remove_sstables};

pub const FILE_NAME: &str = "dropped";

/// The table in `dir` is about to be dropped. Durable when this returns, unless the disk is full: dropping is how it
/// gets room.
pub async fn mark(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.write_all(&dir.join(FILE_NAME), &[], IoClass::Maintenance).await {
        // Somebody has taken the directory away.
        Err(error) if error.is_not_found() || error.is_no_space() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => files.sync_dir(dir).await,
    }
}

/// Removes what is in `dir` but snapshots, and `dir` if there are none. Nothing happens if it is not there.
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

/// Ends a drop that was begun in `dir`, if one was: undoes it if the table is there. Gives whether it removed anything.
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
