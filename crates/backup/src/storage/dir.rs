//! A directory as the target of backups.
//!
//! An object is written as `partial/<number>`, synced, and renamed; the directory is synced after it. So a
//! crash leaves complete objects, and files in `partial/` that the next prune removes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Chunks, Target, wrong_length};
use crate::clock;
use crate::error::BackupError;

/// Where files are that are being written.
const PARTIAL: &str = "partial";
/// Bytes of one read.
const READ_BYTES: usize = 1 << 20;

/// See the head of this file.
pub struct DirTarget {
    root: PathBuf,
    puts: AtomicU64,
}

impl DirTarget {
    /// The directory is created by the first put.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), puts: AtomicU64::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a directory below the root, or the root, and makes its name durable.
    fn make_dir(&self, dir: &Path) -> Result<(), BackupError> {
        if dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(dir).map_err(|error| BackupError::of_file("create", dir, &error))?;
        for parent in dir.ancestors().skip(1) {
            // Directories above the root may belong to other users.
            if sync_dir(parent).is_err() || parent == self.root.parent().unwrap_or(Path::new("")) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, name: &str, bytes: u64, chunks: &mut Chunks<'_>) -> Result<(), BackupError> {
        let failed = |error: io::Error| BackupError::of_file("write", path, &error);
        let mut file = File::create(path).map_err(failed)?;
        let mut written = 0;
        while let Some(chunk) = chunks()? {
            file.write_all(&chunk).map_err(failed)?;
            written += chunk.len() as u64;
        }
        if written != bytes {
            return Err(wrong_length(name, bytes, written));
        }
        file.sync_all().map_err(failed)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

impl Target for DirTarget {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn put(&self, name: &str, bytes: u64, chunks: &mut Chunks<'_>) -> Result<(), BackupError> {
        let partial = self.root.join(PARTIAL);
        self.make_dir(&partial)?;
        let number = self.puts.fetch_add(1, Ordering::Relaxed);
        let temporary = partial.join(format!("{}-{}-{number}", std::process::id(), clock::now_us()));
        let path = self.path(name);
        let written = self.write(&temporary, name, bytes, chunks).and_then(|()| {
            let dir = path.parent().unwrap_or(&self.root);
            self.make_dir(dir)?;
            let failed = |error: io::Error| BackupError::of_file("write", &path, &error);
            fs::rename(&temporary, &path).map_err(failed)?;
            sync_dir(dir).map_err(failed)
        });
        if written.is_err() {
            // A prune removes it, if it remains.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn read(
        &self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Option<u64>, BackupError> {
        let path = self.path(name);
        let failed = |error: io::Error| BackupError::of_file("read", &path, &error);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut buf = vec![0; READ_BYTES];
        let mut total = 0u64;
        loop {
            let count = file.read(&mut buf).map_err(failed)?;
            if count == 0 {
                return Ok(Some(total));
            }
            sink(&buf[..count])?;
            total += count as u64;
        }
    }

    fn list(&self, dir: &str) -> Result<Vec<(String, u64)>, BackupError> {
        let mut found = vec![];
        let mut left = vec![dir.to_string()];
        while let Some(dir) = left.pop() {
            let path = self.path(&dir);
            let failed = |error: io::Error| BackupError::of_file("list", &path, &error);
            let entries = match fs::read_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let name = format!("{dir}/{}", entry.file_name().to_string_lossy());
                match entry.metadata() {
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed(error)),
                    Ok(of) if of.is_dir() => left.push(name),
                    Ok(of) => found.push((name, of.len())),
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BackupError::of_file("remove", &path, &error))
            }
            _removed => Ok(()),
        }
    }
}
