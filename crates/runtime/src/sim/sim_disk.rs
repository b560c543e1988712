//! Access to the simulated disk from outside, for tests that inspect, create or damage files.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::world::World;

/// The disk of a world. Its methods are instant and durable, and do not count as I/O operations.
#[derive(Clone)]
pub struct SimDisk(pub(crate) Rc<World>);

impl SimDisk {
    /// All files, by path.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        self.0.disk.borrow().walk(|path, _| files.push(path.to_owned()));
        files
    }

    /// The bytes of a file as processes see them.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let disk = self.0.disk.borrow();
        let inode = disk.lookup(path)?;
        let file = disk.file(inode).ok_or(io::ErrorKind::IsADirectory)?;
        Ok(file.bytes().to_vec())
    }

    /// Creates a file with these bytes, and its directories, durably.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.disk.borrow_mut();
        let dir = path.parent().unwrap_or(Path::new("/"));
        disk.create_dir_all(dir)?;
        let inode = match disk.lookup(path) {
            Ok(inode) => inode,
            Err(_absent) => disk.create(path)?,
        };
        disk.with_file(inode, |file| {
            file.resize(0);
            file.write(0, bytes);
            file.sync(file.latest_change());
        })
        .ok_or(io::ErrorKind::IsADirectory)?;
        for dir in path.ancestors().skip(1) {
            let covered = disk.latest_change();
            disk.sync_dir(dir, covered)?;
        }
        Ok(())
    }

    /// Flips the bits of `mask` (XOR) in one byte, on the device and in the page cache.
    pub fn flip(&self, path: &Path, offset_bytes: u64, mask: u8) -> io::Result<()> {
        let byte = *self.read(path)?.get(offset_bytes as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.overwrite(path, offset_bytes, &[byte ^ mask])
    }

    /// Overwrites bytes inside a file, on the device and in the page cache; the length does not change.
    pub fn overwrite(&self, path: &Path, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.disk.borrow_mut();
        let inode = disk.lookup(path)?;
        let changed = disk.with_file(inode, |file| file.overwrite(offset_bytes as usize, bytes));
        changed.ok_or(io::ErrorKind::IsADirectory.into())
    }

    /// Sets the length of a file, durably.
    pub fn truncate(&self, path: &Path, len_bytes: u64) -> io::Result<()> {
        let mut disk = self.0.disk.borrow_mut();
        let inode = disk.lookup(path)?;
        let changed = disk.with_file(inode, |file| {
            file.resize(len_bytes as usize);
            file.sync(file.latest_change());
        });
        changed.ok_or(io::ErrorKind::IsADirectory.into())
    }

    /// Removes a file, durably.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.disk.borrow_mut();
        disk.remove(path)?;
        let covered = disk.latest_change();
        disk.sync_dir(path.parent().unwrap_or(Path::new("/")), covered)
    }

    /// Total length of the files in a directory and its subdirectories.
    pub fn used_bytes_in(&self, dir: &Path) -> u64 {
        let mut bytes = 0;
        self.0.disk.borrow().walk(|path, data| {
            if path.starts_with(dir) {
                bytes += data.bytes().len() as u64;
            }
        });
        bytes
    }

    /// Total length of all files.
    pub fn used_bytes(&self) -> u64 {
        self.0.disk.borrow().used_bytes()
    }
}
