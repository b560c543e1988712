//! A TCP connection of a shard: try, and wait only if the system says that it would block.
//!
//! Readiness instead of completion, so that an idle connection holds no buffer and a protocol that does no I/O of
//! its own (TLS, say) can sit in between. One task may read while another writes; of each kind, one at a time waits.
//!
//! `try_read` and `try_write` never wait. After `WouldBlock`, await [`Stream::readable`] or [`Stream::writable`] and
//! try again; they may resolve early, so trying may block again. Both let others run first if the turn has used its
//! quota, so a peer that sends without end does not hold up the shard.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::backend::{Backend, BackendStream};
use crate::stats::StatsCell;

/// A connection. Dropping it closes it; if the peer's bytes were not all read, the peer sees a reset.
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

    /// Reads up to `into.len()` bytes; 0 is the end (the peer sends no more), if `into` is not empty.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let (start, len) = (into.as_mut_ptr().cast::<MaybeUninit<u8>>(), into.len());
        // SAFETY: the same memory; `BackendStream::try_read` writes nothing but bytes into it.
        self.try_read_uninit(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    fn try_read_uninit(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let got = self.inner.try_read(into)?;
        self.stats.add(|stats| stats.socket_read_bytes += got as u64);
        Ok(got)
    }

    /// Writes some of `bytes`; how many.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write_vectored(&[IoSlice::new(bytes)])
    }

    /// Writes some of the bytes of `parts`, in order; how many. At most 1024 parts are looked at.
    pub fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let put = self.inner.try_write(&parts[..parts.len().min(1024)])?;
        self.stats.add(|stats| stats.socket_written_bytes += put as u64);
        Ok(put)
    }

    /// Resolves when there may be something to read: bytes, the end or an error.
    pub async fn readable(&self) {
        self.wait(|inner, context| inner.poll_readable(context)).await;
    }

    /// Resolves when there may be room to write, or an error.
    pub async fn writable(&self) {
        self.wait(|inner, context| inner.poll_writable(context)).await;
    }

    async fn wait(&self, poll: impl Fn(&dyn BackendStream, &mut Context<'_>) -> Poll<()>) {
        let mut looked = false;
        poll_fn(|context| {
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

    /// Waits for bytes and appends up to `max` of them to `into`; 0 is the end. Memory for them is reserved only
    /// once there is something to read, so an empty vector that waits costs nothing.
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

    /// Writes all of `bytes`, waiting for room as often as it takes. Dropped in between, it has written a part.
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

    /// Tells the peer that no more bytes come; reading goes on.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.inner.shutdown(false)
    }

    /// Ends both directions though others may still hold the stream: tasks that wait wake up, reads come to the
    /// end, writes fail.
    pub fn shutdown(&self) -> io::Result<()> {
        self.inner.shutdown(true)
    }

    /// The other side.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// This side.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Whether small writes are sent at once (true) or gathered for a while (the system's default).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.inner.set_nodelay(nodelay)
    }

    /// Asks an idle peer every `after_s` seconds whether it is still there, and resets the connection when it does
    /// not answer; none switches it off.
    pub fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()> {
        self.inner.set_keepalive(after_s)
    }

    /// How many bytes the system should keep in each direction; it takes this as a hint.
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
