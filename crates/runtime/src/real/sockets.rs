//! Non-blocking TCP sockets of the kernel: a call is tried first, and a task waits only if the call would
//! block.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll};

use super::calls::check;
use super::poller::{Poller, Registered};
use crate::shard::backend::{BackendListener, BackendStream, End};
use crate::shard::net::{KEEPALIVE_PROBES, ListenOptions};

fn socket(addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call has no preconditions.
    let fd = check(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_option(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value has the given length; the kernel copies it.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Calls `f` with the address in the system's format.
fn with_address(
    addr: &SocketAddr,
    f: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> libc::c_int,
) -> io::Result<()> {
    let result = match addr {
        SocketAddr::V4(addr) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: addr.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr.ip().octets()) },
                sin_zero: [0; 8],
            };
            f((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
        SocketAddr::V6(addr) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: addr.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: addr.ip().octets() },
                sin6_scope_id: addr.scope_id(),
            };
            f((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
        }
    };
    check(result).map(drop)
}

pub(crate) fn listen(
    poller: &Rc<Poller>,
    addr: SocketAddr,
    options: &ListenOptions,
) -> io::Result<Box<dyn BackendListener>> {
    let fd = socket(&addr)?;
    let raw = fd.as_raw_fd();
    // Without this option a restarted server would have to wait until the old connections have left the
    // TIME_WAIT state.
    set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if options.reuse_port {
        set_option(raw, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    // SAFETY: the address has the given length; the kernel copies it.
    with_address(&addr, |addr, len| unsafe { libc::bind(raw, addr, len) })?;
    let backlog = libc::c_int::try_from(options.backlog).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is open.
    check(unsafe { libc::listen(raw, backlog) })?;
    let listener = TcpListener::from(fd);
    let local_addr = listener.local_addr()?;
    let registered = poller.register(raw)?;
    Ok(Box::new(RealListener { listener, registered, local_addr }))
}

/// Connects; returns once the connection is established.
pub(crate) async fn connect(poller: Rc<Poller>, addr: SocketAddr) -> io::Result<Box<dyn BackendStream>> {
    let fd = socket(&addr)?;
    let raw = fd.as_raw_fd();
    // SAFETY: the address has the given length; the kernel copies it.
    let begun = with_address(&addr, |addr, len| unsafe { libc::connect(raw, addr, len) });
    let under_way = match begun {
        Ok(()) => false,
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) => true,
        Err(error) => return Err(error),
    };
    let stream = RealStream::new(&poller, TcpStream::from(fd))?;
    if under_way {
        let source = &stream.registered.source;
        source.filled();
        poll_fn(|context| source.poll_writable(context)).await;
        if let Some(error) = stream.stream.take_error()? {
            return Err(error);
        }
    }
    Ok(Box::new(stream))
}

pub(crate) fn adopt(poller: &Rc<Poller>, end: End) -> io::Result<Box<dyn BackendStream>> {
    let stream = end.downcast::<TcpStream>().expect("a connection is adopted in the world that accepted it");
    Ok(Box::new(RealStream::new(poller, *stream)?))
}

struct RealListener {
    listener: TcpListener,
    registered: Registered,
    local_addr: SocketAddr,
}

impl BackendListener for RealListener {
    fn try_accept(&self) -> io::Result<(End, SocketAddr)> {
        let accepted = self.listener.accept();
        if accepted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.registered.source.emptied();
        }
        let (stream, peer_addr) = accepted?;
        stream.set_nonblocking(true)?;
        Ok((Box::new(stream), peer_addr))
    }

    fn poll_acceptable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.registered.source.poll_readable(context)
    }

    fn close(&self) {
        // On a listening socket this refuses new connections at once, even if other owners of the descriptor
        // exist. It cannot fail on a socket that listens.
        // SAFETY: the descriptor is open.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        self.registered.source.end();
    }

    fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

struct RealStream {
    stream: TcpStream,
    registered: Registered,
}

impl RealStream {
    fn new(poller: &Rc<Poller>, stream: TcpStream) -> io::Result<Self> {
        let registered = poller.register(stream.as_raw_fd())?;
        Ok(Self { stream, registered })
    }

    fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

/// The result of a transfer; `None` if a signal interrupted the call.
fn moved(result: libc::ssize_t) -> Option<io::Result<usize>> {
    match usize::try_from(result) {
        Ok(moved) => Some(Ok(moved)),
        Err(_negative) => {
            let error = io::Error::last_os_error();
            (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
        }
    }
}

impl BackendStream for RealStream {
    fn try_read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let source = &self.registered.source;
        if !source.is_readable() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let got = loop {
            // SAFETY: the buffer has the given length.
            let got = unsafe { libc::recv(self.fd(), into.as_mut_ptr().cast(), into.len(), 0) };
            if let Some(got) = moved(got) {
                break got;
            }
        };
        // A short read returned all bytes; the next byte causes a new edge.
        match &got {
            Ok(got) if 0 < *got && *got < into.len() => source.drained(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => source.emptied(),
            _ => (),
        }
        got
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let source = &self.registered.source;
        if !source.is_writable() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let put = loop {
            let put = match parts {
                // SAFETY: the buffer has the given length.
                [part] => unsafe {
                    libc::send(self.fd(), part.as_ptr().cast(), part.len(), libc::MSG_NOSIGNAL)
                },
                _ => {
                    // SAFETY: all zeros is an empty message.
                    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
                    // `IoSlice` has the layout of `iovec`.
                    message.msg_iov = parts.as_ptr().cast_mut().cast();
                    message.msg_iovlen = parts.len() as _;
                    // SAFETY: the message contains the given number of slices, which the kernel only reads.
                    unsafe { libc::sendmsg(self.fd(), &message, libc::MSG_NOSIGNAL) }
                }
            };
            if let Some(put) = moved(put) {
                break put;
            }
        };
        if put.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            source.filled();
        }
        put
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.registered.source.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.registered.source.poll_writable(context)
    }

    fn shutdown(&self, reading_too: bool) -> io::Result<()> {
        let how = if reading_too { Shutdown::Both } else { Shutdown::Write };
        let done = self.stream.shutdown(how);
        if reading_too {
            self.registered.source.end();
        }
        match done {
            // The peer has closed the connection before.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.stream.set_nodelay(nodelay)
    }

    fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()> {
        let Some(after_s) = after_s else {
            return set_option(self.fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, 0);
        };
        // The system accepts 1 to 32767 seconds.
        let after_s = after_s.clamp(1, 32_767) as libc::c_int;
        set_option(self.fd(), libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, after_s)?;
        set_option(self.fd(), libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, after_s)?;
        set_option(self.fd(), libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES as libc::c_int)?;
        set_option(self.fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
    }

    fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        set_option(self.fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)?;
        set_option(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)
    }
}
