//! The network of a shard: listen, accept, connect. TCP only.
//!
//! How it works:
//! 1. A [`Listener`] belongs to the shard that created it. It accepts connections as [`Accepted`] values,
//!    which can be sent to another shard by a call.
//! 2. [`Net::adopt`] turns an accepted connection into a [`Stream`] of the current shard, where it remains.
//! 3. No buffer is held by a connection that waits: a stream reports that it is readable, and then a task
//!    reads.
//!
//! Guarantees: an accept can fail because the process has too many open files, or the machine too little
//! memory. Such a failure is counted and the accept is retried after [`ACCEPT_PAUSE_US`]. It neither spins
//! nor closes the listener, and connections wait in the backlog meanwhile.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use rustix::io::Errno;

use crate::net_error::NetError;
use crate::shard::backend::{Backend, BackendListener, End};
use crate::shard::queue::LocalQueue;
use crate::shard::stream::Stream;
use crate::shard::timer::{Sleep, Timers};
use crate::stats::StatsCell;

/// The pause of a listener after an accept that failed for lack of descriptors or memory, in microseconds.
pub const ACCEPT_PAUSE_US: u64 = 50_000;

/// The number of keepalive probes without an answer after which a connection is closed.
pub(crate) const KEEPALIVE_PROBES: u32 = 4;

/// Options of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// The most connections that wait to be accepted. The system may allow fewer (`net.core.somaxconn`).
    pub backlog: u32,
    /// Whether several listeners, e.g. one per shard, may share the address; the system then distributes
    /// connections among them.
    pub reuse_port: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 1024, reuse_port: false }
    }
}

/// The network as this shard accesses it.
#[derive(Clone)]
pub struct Net {
    backend: Rc<dyn Backend>,
    timers: Rc<Timers>,
    queue: Rc<LocalQueue>,
    stats: Rc<StatsCell>,
}

impl Net {
    pub(crate) fn new(
        backend: Rc<dyn Backend>,
        timers: Rc<Timers>,
        queue: Rc<LocalQueue>,
        stats: Rc<StatsCell>,
    ) -> Self {
        Self { backend, timers, queue, stats }
    }

    /// Listens on `addr`. Port 0 lets the system choose a port ([`Listener::local_addr`]).
    pub fn listen(&self, addr: SocketAddr, options: ListenOptions) -> Result<Listener, NetError> {
        let listening = self.backend.listen(addr, &options);
        let inner = listening.map_err(|source| NetError::new("listen on", addr, source))?;
        Ok(Listener { inner, closed: Cell::new(false), net: self.clone() })
    }

    /// Connects to `addr`. The system's timeout applies, which may be minutes; to limit it, race the future
    /// against a timer.
    pub async fn connect(&self, addr: SocketAddr) -> Result<Stream, NetError> {
        let connected = self.backend.connect(addr).await;
        let stream = connected.map_err(|source| NetError::new("connect to", addr, source))?;
        self.stats.add(|stats| stats.connected += 1);
        Ok(self.stream(stream, addr))
    }

    /// Turns an accepted connection into a stream of this shard.
    pub fn adopt(&self, accepted: Accepted) -> Result<Stream, NetError> {
        let Accepted { end, peer_addr } = accepted;
        let adopted = self.backend.adopt(end);
        let stream = adopted.map_err(|source| NetError::new("serve", peer_addr, source))?;
        Ok(self.stream(stream, peer_addr))
    }

    fn stream(&self, inner: Box<dyn crate::shard::backend::BackendStream>, peer_addr: SocketAddr) -> Stream {
        Stream::new(inner, peer_addr, Rc::clone(&self.backend), Rc::clone(&self.stats))
    }

    fn pause(&self) -> Sleep {
        Sleep {
            timers: Rc::clone(&self.timers),
            queue: Rc::clone(&self.queue),
            deadline_us: self.backend.now_us().saturating_add(ACCEPT_PAUSE_US),
            key: None,
        }
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Net")
    }
}

/// A connection that no shard has adopted yet. Dropping it closes the connection.
pub struct Accepted {
    end: End,
    peer_addr: SocketAddr,
}

impl Accepted {
    /// The address of the client.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepted({})", self.peer_addr)
    }
}

/// Accepts connections. Dropping it stops listening; connections that wait to be accepted are reset.
pub struct Listener {
    inner: Box<dyn BackendListener>,
    closed: Cell<bool>,
    net: Net,
}

impl Listener {
    /// The next connection; `None` once the listener is closed. One task at a time may wait.
    pub async fn accept(&self) -> Option<Accepted> {
        while !self.closed.get() {
            match self.inner.try_accept() {
                Ok((end, peer_addr)) => {
                    self.net.stats.add(|stats| stats.accepted += 1);
                    return Some(Accepted { end, peer_addr });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll_fn(|context| self.inner.poll_acceptable(context)).await;
                }
                // The connection was closed before it was accepted, or has an error of its own. The next one
                // may be valid.
                Err(error) if is_of_one_connection(&error) => (),
                Err(_exhausted) => {
                    self.net.stats.add(|stats| stats.accept_failures += 1);
                    self.net.pause().await;
                }
            }
        }
        None
    }

    /// Stops listening; a task in `accept` gets `None`.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.inner.close();
        }
    }

    /// The address on which it listens, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.local_addr())
    }
}

/// Whether the error belongs to one connection: accept(2) returns pending errors of the connection that it
/// would have returned, and the next call is for another connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::OPNOTSUPP
        )
    )
}
