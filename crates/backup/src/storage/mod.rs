//! Where backups are kept: named objects in a directory ([`dir`]) or in object storage (`object.rs`, with the
//! build feature `object-storage`).
//!
//! Names are paths with `/`. A put is atomic and durable: after a crash an object is complete or does not
//! exist. All functions block their thread.

pub mod dir;
#[cfg(feature = "object-storage")]
pub mod object;

use std::path::Path;

use crate::error::BackupError;

/// The next bytes of an object that is being written; `None` at its end.
pub type Chunks<'a> = dyn FnMut() -> Result<Option<Vec<u8>>, BackupError> + 'a;

/// See the head of this file.
pub trait Target: Send + Sync {
    /// The target as its user names it, for messages.
    fn name(&self) -> String;

    /// Writes an object of `bytes` bytes, replacing one of the same name.
    ///
    /// # Errors
    /// `chunks` fails or gives another number of bytes, or the target fails. Then the object is unchanged.
    fn put(&self, name: &str, bytes: u64, chunks: &mut Chunks<'_>) -> Result<(), BackupError>;

    /// Reads an object from its begin to its end; `sink` gets the parts in order. Returns the number of
    /// bytes, or `None` if there is no such object.
    ///
    /// # Errors
    /// `sink` fails, or the target does.
    fn read(
        &self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Option<u64>, BackupError>;

    /// The objects whose names begin with `<dir>/`, each with its length, by name.
    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, BackupError>;

    /// Removes an object. One that does not exist is no error.
    fn remove(&self, name: &str) -> Result<(), BackupError>;
}

impl dyn Target + '_ {
    /// Writes a small object.
    ///
    /// # Errors
    /// The target fails.
    pub fn put_bytes(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let mut rest = Some(content.to_vec());
        self.put(name, content.len() as u64, &mut || Ok(rest.take()))
    }

    /// Reads a small object whole; `None` if there is none.
    ///
    /// # Errors
    /// The target fails, or the object is larger than [`SMALL_BYTES_MAX`].
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
        let mut content = vec![];
        let read = self.read(name, &mut |part| {
            if content.len() + part.len() > SMALL_BYTES_MAX {
                return Err(BackupError(format!("{name} is larger than {SMALL_BYTES_MAX} bytes")));
            }
            content.extend_from_slice(part);
            Ok(())
        })?;
        Ok(read.map(|_| content))
    }
}

/// Limit of objects that are read into memory: manifests.
pub const SMALL_BYTES_MAX: usize = 256 << 20;

/// Schemes of object storage.
const OBJECT_STORAGE: [&str; 6] = ["s3://", "s3a://", "gs://", "az://", "azure://", "abfss://"];

/// Opens a target: a directory (a path or `file:///…`), which is created, or object storage (`s3://`,
/// `gs://`, `az://` with bucket and prefix). Nothing is written yet.
///
/// # Errors
/// The URL has another scheme, or this build has no object storage.
pub fn open_target(url: &str) -> Result<Box<dyn Target>, BackupError> {
    if let Some(path) = url.strip_prefix("file://") {
        if !path.starts_with('/') {
            return Err(BackupError(format!("{url}: write file:///… with an absolute path")));
        }
        return Ok(Box::new(dir::DirTarget::new(Path::new(path))));
    }
    if OBJECT_STORAGE.iter().any(|scheme| url.starts_with(scheme)) {
        #[cfg(feature = "object-storage")]
        return Ok(Box::new(object::ObjectTarget::open(url)?));
        #[cfg(not(feature = "object-storage"))]
        return Err(BackupError(format!(
            "{url}: this build has no object storage; build it with `--features object-storage`, or name a directory"
        )));
    }
    if url.is_empty() || url.contains("://") {
        return Err(BackupError(format!(
            "{url:?} is no target of backups; write a directory, file:///…, s3://bucket/prefix, gs://… or az://…"
        )));
    }
    Ok(Box::new(dir::DirTarget::new(Path::new(url))))
}

/// The error of a put whose chunks had another length.
fn wrong_length(name: &str, expected: u64, found: u64) -> BackupError {
    BackupError(format!("{name}: {found} bytes were to be written, and {expected} were expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_by_paths_and_urls() {
        assert_eq!(open_target("some/dir").unwrap().name(), "some/dir");
        assert_eq!(open_target("file:///some/dir").unwrap().name(), "/some/dir");
        for wrong in ["", "ftp://a/b", "file://host/path", "file:relative://"] {
            assert!(open_target(wrong).is_err(), "{wrong}");
        }
        #[cfg(not(feature = "object-storage"))]
        assert!(open_target("s3://bucket").err().unwrap().0.contains("--features object-storage"));
    }
}
