//! A table whose directory was not there at a start: what was in it, nobody knows.
//!
//! A table's directory is durable before the schema says that there is the table, so one that is missing has been taken
//! away, and with it every SSTable. It is made anew, with a file `lost` in it, and the table refuses reads, as one with
//! an SSTable that cannot be opened does, until somebody has restored the SSTables and removes the file; or removes it
//! to go on without them. A truncate removes it too.

use std::path::Path;

use runtime::{FileError, Files, IoClass};

pub const FILE_NAME: &str = "lost";

/// Durable when this returns.
pub async fn mark(files: &Files, dir: &Path) -> Result<(), FileError> {
    files.write_all(&dir.join(FILE_NAME), &[], IoClass::Maintenance).await?;
    files.sync_dir(dir).await
}

/// What is wrong with the table in `dir`, and what to do about it; `None` if nothing is.
pub async fn look(files: &Files, dir: &Path) -> Result<Option<String>, FileError> {
    let file = dir.join(FILE_NAME);
    Ok(files.exists(&file).await?.then(|| {
        format!(
            "{} was missing at a start, with every SSTable in it; stop the node, restore them from a backup, and remove {} (or \
             only that file, to continue without them)",
            dir.display(),
            file.display()
        )
    }))
}

/// What was lost is needed no more.
pub async fn forget(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.remove(&dir.join(FILE_NAME)).await {
        Err(error) if !error.is_not_found() => Err(error),
        Err(_) => Ok(()),
        Ok(()) => files.sync_dir(dir).await,
    }
}
