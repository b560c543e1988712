//! The network of a shard: listen, accept, connect. TCP only.
//!
//! How it works:
//! 1. A [`Listener`] belongs to the shard that made it. What it accepts is an [`Accepted`], which may go to another
//!    shard by a call.
//! 2. [`Net::adopt`] makes it a [`Stream`] of the shard it is on; from then on it stays there.
//! 3. Nothing holds a buffer while it waits: a stream says that it is readable, and then somebody reads.
//!
//! Guarantees: an accept that fails because the process has too many files open, or the machine too little memory,
//! is counted and tried again after [`ACCEPT_PAUSE_US`]; it neither spins nor ends the listener, and connections
//! wait in its backlog meanwhile.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::backend::{Backend, BackendListener, End};
use crate::net_error::NetError;
use crate::stats::StatsCell;
use crate::stream::Stream;
use crate::timer::{Sleep, Timers};

/// How long a listener waits after an accept has failed for lack of something.
pub const ACCEPT_PAUSE_US: u64 = 50_000;

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many connections may wait to be accepted. The system may allow fewer (`net.core.somaxconn`).
    pub backlog: u32,
    /// Several listeners, e.g. one for each shard, may share the address; the system spreads connections over them.
    pub reuse_port: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 1024, reuse_port: false }
    }
}

/// The network this shard sees.
#[derive(Clone)]
pub struct Net {
    backend: Rc<dyn Backend>,
    timers: Rc<Timers>,
    stats: Rc<StatsCell>,
}

impl Net {
    pub(crate) fn new(backend: Rc<dyn Backend>, timers: Rc<Timers>, stats: Rc<StatsCell>) -> Self {
        Self { backend, timers, stats }
    }

    /// Listens on `addr`; port 0 lets the system choose ([`Listener::local_addr`]).
    pub fn listen(&self, addr: SocketAddr, options: ListenOptions) -> Result<Listener, NetError> {
        let listening = self.backend.listen(addr, &options);
        let inner = listening.map_err(|source| NetError::new("listen on", addr, source))?;
        Ok(Listener { inner, closed: Cell::new(false), net: self.clone() })
    }

    /// Connects to `addr`. Gives up when the system does, which may take minutes: race it against a timer.
    pub async fn connect(&self, addr: SocketAddr) -> Result<Stream, NetError> {
        let connected = self.backend.connect(addr).await;
        let stream = connected.map_err(|source| NetError::new("connect to", addr, source))?;
        self.stats.add(|stats| stats.connected += 1);
        Ok(self.stream(stream, addr))
    }

    /// Makes an accepted connection a stream of this shard.
    pub fn adopt(&self, accepted: Accepted) -> Result<Stream, NetError> {
        let Accepted { end, peer_addr } = accepted;
        let adopted = self.backend.adopt(end);
        let stream = adopted.map_err(|source| NetError::new("serve", peer_addr, source))?;
        Ok(self.stream(stream, peer_addr))
    }

    fn stream(&self, inner: Box<dyn crate::backend::BackendStream>, peer_addr: SocketAddr) -> Stream {
        Stream::new(inner, peer_addr, Rc::clone(&self.backend), Rc::clone(&self.stats))
    }

    fn pause(&self) -> Sleep {
        Sleep {
            timers: Rc::clone(&self.timers),
            backend: Rc::clone(&self.backend),
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

/// A connection that no shard has adopted yet. Dropping it closes it.
pub struct Accepted {
    end: End,
    peer_addr: SocketAddr,
}

impl Accepted {
    /// Who connected.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accepted({})", self.peer_addr)
    }
}

/// Takes connections. Dropping it stops listening; connections that wait to be accepted are reset.
pub struct Listener {
    inner: Box<dyn BackendListener>,
    closed: Cell<bool>,
    net: Net,
}

impl Listener {
    /// The next connection, or none once the listener is closed. One task at a time may wait.
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
                // Gone before it was taken, or hit by an error of its own: the next one may be well.
                Err(error) if is_of_one_connection(&error) => (),
                Err(_exhausted) => {
                    self.net.stats.add(|stats| stats.accept_failures += 1);
                    self.net.pause().await;
                }
            }
        }
        None
    }

    /// Stops listening; a task in `accept` gets none.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.inner.close();
        }
    }

    /// The address it listens on, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.local_addr())
    }
}

/// accept(2) hands out errors of the connection it would have given; the next call is about another one.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENOPROTOOPT
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
                | libc::EOPNOTSUPP
        )
    )
}
