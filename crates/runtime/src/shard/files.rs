//! Directory operations of a shard: open, rename, list, lock. All are asynchronous and run for the current
//! shard.
//!
//! A change to a directory (create, rename, link, remove) is durable once `sync_dir` of that directory has
//! returned; a new directory is durable once its parent was synced. No function here syncs a directory
//! implicitly.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;

use crate::buf::IoBuf;
use crate::file_error::FileError;
use crate::group::IoClass;
use crate::shard::backend::Backend;
use crate::shard::file::File;
use crate::shard::io_gate::IoGate;

/// The file that `lock_dir` locks; it contains the process id of the holder.
pub const LOCK_FILE_NAME: &str = "messina.lock";

/// The most bytes that `read_all` and `write_all` move at once.
const WHOLE_FILE_PART_BYTES: usize = 1 << 20;

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub read: bool,
    pub write: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Create the file, and fail if it exists.
    pub create_new: bool,
    /// Truncate the file to length 0.
    pub truncate: bool,
    /// Bypass the page cache, if the file system supports it; see [`File::is_direct`].
    pub direct: bool,
}

impl OpenOptions {
    /// Read an existing file.
    pub const fn read() -> Self {
        Self { read: true, write: false, create: false, create_new: false, truncate: false, direct: false }
    }

    /// Write (and read) a new file, which must not exist.
    pub const fn create_new() -> Self {
        Self { read: true, write: true, create: false, create_new: true, truncate: false, direct: false }
    }

    /// Write (and read) a file from the start, whether or not it exists.
    pub const fn create_truncate() -> Self {
        Self { read: true, write: true, create: true, create_new: false, truncate: true, direct: false }
    }

    /// Change an existing file.
    pub const fn read_write() -> Self {
        Self { read: true, write: true, create: false, create_new: false, truncate: false, direct: false }
    }

    /// The same options, with or without direct I/O.
    #[must_use]
    pub const fn with_direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name without its directory. Names that are not UTF-8 are not listed.
    pub name: String,
    pub is_dir: bool,
    /// Length of the file; 0 for a directory.
    pub len_bytes: u64,
}

/// Holds the lock of a directory for this process until dropped.
pub struct DirLock {
    _held: Box<dyn Any>,
}

impl fmt::Debug for DirLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirLock")
    }
}

/// The files that a shard can access. Cheap to clone.
#[derive(Clone)]
pub struct Files {
    backend: Rc<dyn Backend>,
    gate: Rc<IoGate>,
}

impl Files {
    pub(crate) fn new(backend: Rc<dyn Backend>, gate: Rc<IoGate>) -> Self {
        Self { backend, gate }
    }

    /// Opens a file.
    pub async fn open(&self, path: &Path, options: OpenOptions) -> Result<File, FileError> {
        let file = self.backend.open(path, &options).await.map_err(failed("open", path))?;
        Ok(File::new(file, path.to_owned(), Rc::clone(&self.gate)))
    }

    /// Removes the name of a file. Its data is freed when no process has it open any more.
    pub async fn remove(&self, path: &Path) -> Result<(), FileError> {
        self.backend.remove(path).await.map_err(failed("remove", path))
    }

    /// Renames `from` to `to`. A file of that name is replaced atomically.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        self.backend.rename(from, to).await.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("to {}: {source}", to.display()));
            FileError::new("rename", from, source)
        })
    }

    /// Gives the file `from` a second name `to`, which must not exist.
    pub async fn hard_link(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        self.backend.hard_link(from, to).await.map_err(|source| {
            let source = io::Error::new(source.kind(), format!("as {}: {source}", to.display()));
            FileError::new("link", from, source)
        })
    }

    /// Creates a directory and its missing parents; it may exist.
    pub async fn create_dir_all(&self, path: &Path) -> Result<(), FileError> {
        self.backend.create_dir_all(path).await.map_err(failed("create directory", path))
    }

    /// Removes a directory and its content.
    pub async fn remove_dir_all(&self, path: &Path) -> Result<(), FileError> {
        self.backend.remove_dir_all(path).await.map_err(failed("remove directory", path))
    }

    /// Makes changes to the names in a directory durable.
    pub async fn sync_dir(&self, path: &Path) -> Result<(), FileError> {
        self.backend.sync_dir(path).await.map_err(failed("sync directory", path))
    }

    /// Whether a file or directory of that name exists.
    pub async fn exists(&self, path: &Path) -> Result<bool, FileError> {
        self.backend.exists(path).await.map_err(failed("look for", path))
    }

    /// The entries of a directory, sorted by name.
    pub async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>, FileError> {
        let mut entries = self.backend.read_dir(path).await.map_err(failed("list", path))?;
        entries.sort_unstable();
        Ok(entries)
    }

    /// Locks a directory for this process, by an exclusive lock on it and on [`LOCK_FILE_NAME`] in it. Fails
    /// if it is locked already ([`FileError::is_locked`]); the error names the holder if the lock file
    /// exists.
    pub async fn lock_dir(&self, path: &Path) -> Result<DirLock, FileError> {
        let held = self.backend.lock_dir(path).await.map_err(failed("lock", path))?;
        Ok(DirLock { _held: held })
    }

    /// Reads a whole file, which must be at most `max_bytes` long.
    pub async fn read_all(&self, path: &Path, class: IoClass, max_bytes: u64) -> Result<Vec<u8>, FileError> {
        let file = self.open(path, OpenOptions::read()).await?;
        let len_bytes = file.len_bytes().await?;
        let too_long = |len_bytes: u64| {
            let text = format!("{len_bytes} bytes long, at most {max_bytes} are expected here");
            FileError::new("read", path, io::Error::new(io::ErrorKind::FileTooLarge, text))
        };
        if len_bytes > max_bytes {
            return Err(too_long(len_bytes));
        }
        let mut bytes = Vec::with_capacity(len_bytes as usize);
        let mut end_bytes = len_bytes;
        loop {
            // Requests at most the remaining length of the file, since a request is charged before it is
            // read.
            let left_bytes = end_bytes - bytes.len() as u64;
            let part_bytes = left_bytes.min(WHOLE_FILE_PART_BYTES as u64) as usize;
            if part_bytes > 0 {
                let part = file.read_at(bytes.len() as u64, part_bytes, class).await?;
                bytes.extend_from_slice(&part);
                // The file was truncated in the meantime.
                if part.len() < part_bytes {
                    return Ok(bytes);
                }
                continue;
            }
            // The file may have grown in the meantime.
            end_bytes = file.len_bytes().await?;
            if end_bytes > max_bytes {
                return Err(too_long(end_bytes));
            }
            if end_bytes <= bytes.len() as u64 {
                return Ok(bytes);
            }
        }
    }

    /// Writes a whole file from the start and syncs its data, but not its directory.
    pub async fn write_all(&self, path: &Path, bytes: &[u8], class: IoClass) -> Result<(), FileError> {
        let file = self.open(path, OpenOptions::create_truncate()).await?;
        let mut buf = IoBuf::new();
        for (chunk, part) in bytes.chunks(WHOLE_FILE_PART_BYTES).enumerate() {
            buf.clear();
            buf.extend_from_slice(part);
            buf = file.write_at((chunk * WHOLE_FILE_PART_BYTES) as u64, buf, class).await?;
        }
        file.sync_data().await
    }

    /// Free space on the file system of `path`, in bytes.
    pub async fn free_bytes(&self, path: &Path) -> Result<u64, FileError> {
        self.backend.free_bytes(path).await.map_err(failed("ask for the free space of", path))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

fn failed<'a>(op: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError::new(op, path, source)
}
