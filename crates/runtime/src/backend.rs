//! What a world must offer to a shard: a clock, random numbers, a turn's end, and files.
//!
//! `real` and `sim` implement it; the types above (`Shard`, `Files`, `File`) hold it behind `Rc<dyn …>` and
//! add what both share: retries of short reads and writes, alignment, errors that name the file, accounting.

use std::any::Any;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;

use crate::buf::IoBuf;
use crate::files::{DirEntry, OpenOptions};

/// An operation under way. It owns what it works on, so that dropping it stops nothing and frees nothing early.
pub(crate) type Op<T> = Pin<Box<dyn Future<Output = T>>>;

/// What a transfer brings back: the buffer, and how many bytes were moved.
pub(crate) type Transferred = (IoBuf, io::Result<usize>);

pub(crate) trait Backend {
    fn now_us(&self) -> u64;
    fn wall_us(&self) -> i64;
    fn random_u64(&self) -> u64;
    /// The current turn has used its quota.
    fn need_preempt(&self) -> bool;

    fn open(&self, path: &Path, options: &OpenOptions) -> Op<io::Result<Rc<dyn BackendFile>>>;
    fn remove(&self, path: &Path) -> Op<io::Result<()>>;
    fn rename(&self, from: &Path, to: &Path) -> Op<io::Result<()>>;
    fn hard_link(&self, from: &Path, to: &Path) -> Op<io::Result<()>>;
    fn create_dir_all(&self, path: &Path) -> Op<io::Result<()>>;
    fn remove_dir_all(&self, path: &Path) -> Op<io::Result<()>>;
    fn sync_dir(&self, path: &Path) -> Op<io::Result<()>>;
    fn exists(&self, path: &Path) -> Op<io::Result<bool>>;
    fn read_dir(&self, path: &Path) -> Op<io::Result<Vec<DirEntry>>>;
    /// The lock lasts until the returned value is dropped.
    fn lock_dir(&self, path: &Path) -> Op<io::Result<Box<dyn Any>>>;
    fn free_bytes(&self, path: &Path) -> Op<io::Result<u64>>;
}

pub(crate) trait BackendFile {
    /// Offsets, lengths and memory must be aligned.
    fn is_direct(&self) -> bool;
    /// Reads up to `len` bytes at `offset_bytes` into the memory of `buf` from byte `at` on. May be short.
    fn read(&self, buf: IoBuf, at: usize, len: usize, offset_bytes: u64) -> Op<Transferred>;
    /// Writes up to `len` bytes of the memory of `buf` from byte `at` on to `offset_bytes`. May be short.
    fn write(&self, buf: IoBuf, at: usize, len: usize, offset_bytes: u64) -> Op<Transferred>;
    fn sync_data(&self) -> Op<io::Result<()>>;
    fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Op<io::Result<()>>;
    fn truncate(&self, len_bytes: u64) -> Op<io::Result<()>>;
    fn len_bytes(&self) -> Op<io::Result<u64>>;
}
