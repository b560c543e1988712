//! The mark of a materialized view that is not built: a file `unbuilt` in the view's directory.
//!
//! The mark is durable before the view is stored in the schema, and before a truncate of its base table
//! begins. It is removed when the view has every row of its base table, and those rows are durable. So a
//! start finds each view that a crash has left incomplete. The content is the progress: `token T`, the base
//! table's partitions up to this token are in the view; or `again`, the view must be emptied first.

use std::path::Path;

use runtime::{FileError, Files, IoClass};

pub const FILE_NAME: &str = "unbuilt";
const TEMPORARY_NAME: &str = "unbuilt.tmp";
const BYTES_MAX: u64 = 4096;

/// What remains to be done for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbuilt {
    /// The view may have rows that it must not have: empty it, then build it.
    Again,
    /// The partitions of the base table after this token must still be added.
    Behind(i64),
}

impl Unbuilt {
    pub fn text(self) -> String {
        match self {
            Self::Again => "again\n".to_string(),
            Self::Behind(token) => format!("token {token}\n"),
        }
    }

    /// An unreadable mark means that nothing is known about the view.
    fn parse(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).ok().map(str::trim_end);
        let token = text.and_then(|text| text.strip_prefix("token ")?.parse().ok());
        token.map_or(Self::Again, Self::Behind)
    }
}

/// The mark in `dir`; `None` if the view is built.
pub async fn load(files: &Files, dir: &Path) -> Result<Option<Unbuilt>, FileError> {
    let path = dir.join(FILE_NAME);
    if !files.exists(&path).await? {
        return Ok(None);
    }
    let bytes = files.read_all(&path, IoClass::Maintenance, BYTES_MAX).await?;
    Ok(Some(Unbuilt::parse(&bytes)))
}

/// Replaces the mark. Durable when this returns.
pub async fn store(files: &Files, dir: &Path, unbuilt: Unbuilt) -> Result<(), FileError> {
    let temporary = dir.join(TEMPORARY_NAME);
    files.write_all(&temporary, unbuilt.text().as_bytes(), IoClass::Maintenance).await?;
    files.rename(&temporary, &dir.join(FILE_NAME)).await?;
    files.sync_dir(dir).await
}

/// Removes the mark. Durable when this returns.
pub async fn remove(files: &Files, dir: &Path) -> Result<(), FileError> {
    match files.remove(&dir.join(FILE_NAME)).await {
        Err(error) if !error.is_not_found() => Err(error),
        Err(_) => Ok(()),
        Ok(()) => files.sync_dir(dir).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_cannot_be_read_means_everything() {
        for unbuilt in [Unbuilt::Again, Unbuilt::Behind(i64::MIN), Unbuilt::Behind(-7)] {
            assert_eq!(Unbuilt::parse(unbuilt.text().as_bytes()), unbuilt);
        }
        for text in ["", "token", "token x", "token 9223372036854775808"] {
            assert_eq!(Unbuilt::parse(text.as_bytes()), Unbuilt::Again);
        }
        assert_eq!(Unbuilt::parse(&[0xff]), Unbuilt::Again);
    }
}
