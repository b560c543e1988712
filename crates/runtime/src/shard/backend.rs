//! Interface that a back end (a world) offers to a shard: clock, random numbers, end of the turn, files and
//! sockets.
//!
//! `real` and `sim` implement it. The types above it (`Shard`, `Files`, `File`, `Net`, `Stream`) hold it in
//! an `Rc<dyn …>` and add the code that both share: retries of short reads and writes, alignment, errors that
//! name the file, accounting.

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
use crate::shard::files::{DirEntry, OpenOptions};
use crate::shard::io_gate::Pass;
use crate::shard::net::ListenOptions;

/// An operation in flight. It owns its buffers, so that dropping the future neither stops the operation nor
/// frees memory that the operation still uses.
pub(crate) type Op<T> = Pin<Box<dyn Future<Output = T>>>;

/// Result of a transfer: the buffer, and the number of bytes moved.
pub(crate) type Transferred = (IoBuf, io::Result<usize>);

pub(crate) trait Backend {
    /// Nanoseconds on a monotonic clock.
    fn now_ns(&self) -> u64;
    fn now_us(&self) -> u64 {
        self.now_ns() / 1000
    }
    fn wall_us(&self) -> i64;
    fn random_u64(&self) -> u64;
    /// Whether the current turn of the run loop has used its time quota.
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
    /// The lock is held until the returned value is dropped.
    fn lock_dir(&self, path: &Path) -> Op<io::Result<Box<dyn Any>>>;
    fn free_bytes(&self, path: &Path) -> Op<io::Result<u64>>;

    fn listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Box<dyn BackendListener>>;
    fn connect(&self, addr: SocketAddr) -> Op<io::Result<Box<dyn BackendStream>>>;
    /// `end` must come from a listener of the same world.
    fn adopt(&self, end: End) -> io::Result<Box<dyn BackendStream>>;
}

/// One end of a connection that is sent between shards. Dropping it closes the connection.
pub(crate) type End = Box<dyn Any + Send>;

pub(crate) trait BackendListener {
    /// A connection and the address of its client, or `WouldBlock`.
    fn try_accept(&self) -> io::Result<(End, SocketAddr)>;
    /// Ready if `try_accept` may return something other than `WouldBlock`.
    fn poll_acceptable(&self, context: &mut Context<'_>) -> Poll<()>;
    /// Stops listening and wakes the task that waits.
    fn close(&self);
    fn local_addr(&self) -> SocketAddr;
}

/// A connection. It keeps one waker for each direction, the latest.
pub(crate) trait BackendStream {
    /// Writes bytes at the start of `into`, and nothing else. Returns their number; 0 is the end of the
    /// stream.
    fn try_read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize>;
    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()>;
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()>;
    /// Ends writing and, with `reading_too`, reading.
    fn shutdown(&self, reading_too: bool) -> io::Result<()>;
    fn local_addr(&self) -> io::Result<SocketAddr>;
    fn set_nodelay(&self, nodelay: bool) -> io::Result<()>;
    fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()>;
    fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()>;
}

/// Parameters of a transfer: up to `len` bytes between the memory of `buf` from byte `at` on, and a file from
/// `offset_bytes` on. Fewer may be moved.
pub(crate) struct Part {
    pub(crate) buf: IoBuf,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) offset_bytes: u64,
}

pub(crate) trait BackendFile {
    /// `None` if the file goes through the page cache. Otherwise a power of two of at most `ALIGNMENT_BYTES`:
    /// offsets, lengths and buffer positions of reads must be multiples of it. Those of writes must be
    /// multiples of `ALIGNMENT_BYTES`.
    fn direct_read_unit_bytes(&self) -> Option<usize>;
    /// Reads into the buffer. `pass` is finished when the disk completes the read, even if no task has polled
    /// the operation by then.
    fn read(&self, part: Part, pass: Pass) -> Op<Transferred>;
    /// Writes from the buffer; `pass` as in `read`.
    fn write(&self, part: Part, pass: Pass) -> Op<Transferred>;
    /// Copies bytes into the page cache within this call and returns the number of bytes written, if this
    /// will probably not block; otherwise `None`, and nothing was written. Not for direct files.
    fn write_at_once(&self, bytes: &[u8], offset_bytes: u64) -> Option<io::Result<usize>>;
    fn sync_data(&self) -> Op<io::Result<()>>;
    fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Op<io::Result<()>>;
    fn truncate(&self, len_bytes: u64) -> Op<io::Result<()>>;
    fn len_bytes(&self) -> Op<io::Result<u64>>;
}
