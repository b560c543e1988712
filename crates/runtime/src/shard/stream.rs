//! TCP connection of a shard. Operations are tried first, and wait only if the system would block.
//!
//! The interface is based on readiness, not completion, so that an idle connection holds no buffer, and a
//! protocol without I/O of its own (such as TLS) can be layered on it. One task may read while another
//! writes; for each direction one task at a time may wait.
//!
//! `try_read` and `try_write` never wait. After `WouldBlock`, the caller awaits [`Stream::readable`] or
//! [`Stream::writable`] and tries again. These may resolve early, so the next attempt may return `WouldBlock`
//! again. Both yield first if the turn has used its quota, so a peer that sends without end does not block
//! the shard.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::shard::backend::{Backend, BackendStream};
use crate::stats::StatsCell;

/// A connection. Dropping it closes the connection; if not all bytes of the peer were read, the peer gets a
/// reset.
pub struct Stream {
    inner: Box<dyn BackendStream>,
    peer_addr: SocketAddr,
    backend: Rc<dyn Backend>,
    stats: Rc<StatsCell>,
}

impl Stream {
    pub(crate) fn new(
        inner: Box<dyn BackendStream>,
        peer_addr: SocketAddr,
        backend: Rc<dyn Backend>,
        stats: Rc<StatsCell>,
    ) -> Self {
        stats.add(|stats| stats.open_sockets += 1);
        Self { inner, peer_addr, backend, stats }
    }

    /// Reads up to `into.len()` bytes. If `into` is not empty, 0 is the end: the peer sends no more.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let (start, len) = (into.as_mut_ptr().cast::<MaybeUninit<u8>>(), into.len());
        // SAFETY: the memory is the same; `BackendStream::try_read` writes only initialized bytes into it.
        self.try_read_uninit(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    fn try_read_uninit(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let got = self.inner.try_read(into)?;
        self.stats.add(|stats| stats.socket_read_bytes += got as u64);
        Ok(got)
    }

    /// Writes some of `bytes`; returns their number.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    /// Writes some of the bytes of `parts`, in order; returns their number. At most 1024 parts are used.
    pub fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let put = self.inner.try_write(&parts[..parts.len().min(1024)])?;
        self.stats.add(|stats| stats.socket_written_bytes += put as u64);
        Ok(put)
    }

    /// Resolves when there may be something to read: bytes, the end or an error.
    pub async fn readable(&self) {
        self.wait(|inner, context| inner.poll_readable(context)).await;
    }

    /// Resolves when the system may accept bytes to write, or reports an error.
    pub async fn writable(&self) {
        self.wait(|inner, context| inner.poll_writable(context)).await;
    }

    async fn wait(&self, poll: impl Fn(&dyn BackendStream, &mut Context<'_>) -> Poll<()>) {
        let mut looked = false;
        poll_fn(move |context| {
            let first = !std::mem::replace(&mut looked, true);
            let ready = poll(&*self.inner, context);
            if first && ready.is_ready() && self.backend.need_preempt() {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready
        })
        .await;
    }

    /// Waits for bytes and appends up to `max` of them to `into`; returns their number, 0 at the end. Memory
    /// is reserved only once there are bytes to read, so an empty vector that waits uses none.
    pub async fn read(&self, into: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        assert!(max > 0, "reading nothing looks like the end");
        loop {
            self.readable().await;
            into.reserve(max);
            match self.try_read_uninit(&mut into.spare_capacity_mut()[..max]) {
                Ok(got) => {
                    // SAFETY: `got` bytes of the spare capacity were just written.
                    unsafe { into.set_len(into.len() + got) };
                    return Ok(got);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all of `bytes`, and waits whenever the system would block. If the future is dropped before it
    /// completes, a part may have been written.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(put) => bytes = &bytes[put..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Signals the end of the stream to the peer; reading continues.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.inner.shutdown(false)
    }

    /// Ends both directions even if other owners hold the stream: waiting tasks wake up, reads return the
    /// end, writes fail.
    pub fn shutdown(&self) -> io::Result<()> {
        self.inner.shutdown(true)
    }

    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Whether small writes are sent at once (true) or collected for a while (false, the system's default).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.inner.set_nodelay(nodelay)
    }

    /// Probes an idle peer every `after_s` seconds, and resets the connection if the peer does not answer;
    /// `None` turns probing off.
    pub fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()> {
        self.inner.set_keepalive(after_s)
    }

    /// Sets the size of the system's buffer for each direction in bytes; the system treats it as a hint.
    pub fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()> {
        self.inner.set_buffer_bytes(bytes)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stats.add(|stats| stats.open_sockets -= 1);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.peer_addr)
    }
}
