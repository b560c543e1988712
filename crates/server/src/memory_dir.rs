//! `--in-memory`: a data directory in memory, if the system offers one, that is removed at the end.
//!
//! It is made below `/dev/shm` if that has enough space, else below the directory for temporary files. A
//! killed process cannot remove its directory; the next process does. It recognizes abandoned directories by
//! a lock file that no process has locked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::disk_use::file_system;

const NAME: &str = "messina-in-memory-";
/// Containers often have a `/dev/shm` of 64 MiB, which is too small for data.
const ROOM_BYTES: u64 = 256 << 20;

/// Removed with its content when dropped.
pub struct MemoryDir {
    path: PathBuf,
}

impl MemoryDir {
    /// `temporary`: the directory for temporary files, for systems whose `/dev/shm` is small.
    pub fn make(temporary: &Path) -> io::Result<Self> {
        let shm = Path::new("/dev/shm");
        let above = if free_bytes(shm) >= ROOM_BYTES { shm } else { temporary };
        remove_abandoned(above);
        let path = above.join(format!("{NAME}{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory now. Files that cannot be removed are left for the next process.
    pub fn remove(&self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

impl Drop for MemoryDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the directories of processes that no longer run.
fn remove_abandoned(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // A directory without a lock file is just being made.
        let Ok(lock) = File::open(entry.path().join(runtime::LOCK_FILE_NAME)) else { continue };
        if lock.try_lock().is_ok() {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Bytes that are free for this user; 0 if unknown.
fn free_bytes(path: &Path) -> u64 {
    file_system(path).map_or(0, |of| of.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreferenced_entries_are_removed() {
        let above =
            crate::config::temporary_dir().join(format!("messina-memory-dir-test-{}", std::process::id()));
        let dir = |name: &str| above.join(format!("{NAME}{name}"));
        for name in ["dead", "alive", "young"] {
            fs::create_dir_all(dir(name)).unwrap();
        }
        fs::create_dir_all(above.join("stranger")).unwrap();
        File::create(dir("dead").join(runtime::LOCK_FILE_NAME)).unwrap();
        let held = File::create(dir("alive").join(runtime::LOCK_FILE_NAME)).unwrap();
        held.lock().unwrap();
        remove_abandoned(&above);
        assert!(!dir("dead").exists());
        assert!(dir("alive").exists() && dir("young").exists() && above.join("stranger").exists());
        fs::remove_dir_all(above).unwrap();
    }
}
