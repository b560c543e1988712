//! What a world must offer to a shard: a clock, random numbers, a turn's end, files and sockets.
//!
//! `real` and `sim` implement it; the types above (`Shard`, `Files`, `File`, `Net`, `Stream`) hold it behind `Rc<dyn …>` and
//! add what both share: retries of short reads and writes, alignment, errors that name the file, accounting.

use std::any::Any;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::buf::IoBuf;
use crate::files::{DirEntry, OpenOptions};
use crate::io_gate::Pass;
use crate::net::ListenOptions;

/// An operation under way. It owns what it works on, so that dropping it stops nothing and frees nothing early.
pub(crate) type Op<T> = Pin<Box<dyn Future<Output = T>>>;

/// What a transfer brings back: the buffer, and how many bytes were moved.
pub(crate) type Transferred = (IoBuf, io::Result<usize>);

pub(crate) trait Backend {
    /// Nanoseconds on a clock that never goes back.
    fn now_ns(&self) -> u64;
    fn now_us(&self) -> u64 {
        self.now_ns() / 1000
    }
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

    fn listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Box<dyn BackendListener>>;
    fn connect(&self, addr: SocketAddr) -> Op<io::Result<Box<dyn BackendStream>>>;
    /// The end came from a listener of the same world.
    fn adopt(&self, end: End) -> io::Result<Box<dyn BackendStream>>;
}

/// One end of a connection on its way between shards. Dropping it closes the connection.
pub(crate) type End = Box<dyn Any + Send>;

pub(crate) trait BackendListener {
    /// A connection and who connected, or `WouldBlock`.
    fn try_accept(&self) -> io::Result<(End, SocketAddr)>;
    /// Ready if `try_accept` may have something else than `WouldBlock`.
    fn poll_acceptable(&self, context: &mut Context<'_>) -> Poll<()>;
    /// Stops listening and wakes who waits.
    fn close(&self);
    fn local_addr(&self) -> SocketAddr;
}

/// Each direction remembers one waker, the latest.
pub(crate) trait BackendStream {
    /// Writes bytes into `into` from its start on, and nothing else; how many. 0 is the end.
    fn try_read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize>;
    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()>;
    /// Ends writing, and reading too if asked for.
    fn shutdown(&self, reading_too: bool) -> io::Result<()>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
    fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()>;
    fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()>;
}

/// Up to `len` bytes of the memory of `buf` from byte `at` on, and of a file from `offset_bytes` on. Fewer may be moved.
pub(crate) struct Part {
    pub(crate) buf: IoBuf,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) offset_bytes: u64,
}

pub(crate) trait BackendFile {
    /// `None` if it goes through the page cache. Otherwise offsets, lengths and places in the buffer of reads are multiples
    /// of this power of two, which is at most `ALIGNMENT_BYTES`, and those of writes multiples of `ALIGNMENT_BYTES`.
    fn direct_read_unit_bytes(&self) -> Option<usize>;
    /// Reads into the buffer. `pass` is finished when the disk is done, whether or not anybody has looked by then.
    fn read(&self, part: Part, pass: Pass) -> Op<Transferred>;
    /// Writes from the buffer; the same of `pass`.
    fn write(&self, part: Part, pass: Pass) -> Op<Transferred>;
    fn sync_data(&self) -> Op<io::Result<()>>;
    fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Op<io::Result<()>>;
    fn truncate(&self, len_bytes: u64) -> Op<io::Result<()>>;
    fn len_bytes(&self) -> Op<io::Result<u64>>;
}
