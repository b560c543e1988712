//! The mark of a lost table directory: a file `lost` in a directory that was missing at a start.
//!
//! A table's directory is durable before the table is stored in the schema, so a missing one was removed by
//! someone else, with every SSTable in it. The start creates it again with the file `lost`, and the table
//! refuses reads, as with an SSTable that cannot be opened. A user restores the SSTables and removes the
//! file, or only removes the file to continue without them. A truncate removes it too.

use std::path::Path;

use runtime::{FileError, Files, IoClass};

pub const FILE_NAME: &str = "lost";

/// Marks the table in `dir`. Durable when this returns.
pub async fn mark(files: &Files, dir: &Path) -> Result<(), FileError> {
    files.write_all(&dir.join(FILE_NAME), &[], IoClass::Maintenance).await?;
    files.sync_dir(dir).await
}

/// The problem of the table in `dir` and its remedy; `None` if there is no mark.
pub async fn problem(files: &Files, dir: &Path) -> Result<Option<String>, FileError> {
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

/// Removes the mark.
pub async fn forget(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.remove(&dir.join(FILE_NAME)).await {
        Err(error) if !error.is_not_found() => Err(error),
        Err(_) => Ok(()),
        Ok(()) => files.sync_dir(dir).await,
    }
}
