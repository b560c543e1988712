//! Non-blocking TCP sockets of the kernel: a call is tried first, and a task waits only if the call would
//! block.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt,
};

use super::poller::{Poller, Registered};
use crate::shard::backend::{BackendListener, BackendStream, End};
use crate::shard::net::{KEEPALIVE_PROBES, ListenOptions};

fn socket(addr: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

pub(crate) fn listen(
    poller: &Rc<Poller>,
    addr: SocketAddr,
    options: &ListenOptions,
) -> io::Result<Box<dyn BackendListener>> {
    let fd = socket(&addr)?;
    // Without this option a restarted server would have to wait until the old connections have left the
    // TIME_WAIT state.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    net::bind(&fd, &addr)?;
    net::listen(&fd, i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    let listener = TcpListener::from(fd);
    let local_addr = listener.local_addr()?;
    let registered = poller.register(listener.as_fd())?;
    Ok(Box::new(RealListener { listener, registered, local_addr }))
}

/// Connects; returns once the connection is established.
pub(crate) async fn connect(poller: Rc<Poller>, addr: SocketAddr) -> io::Result<Box<dyn BackendStream>> {
    let fd = socket(&addr)?;
    let under_way = match net::connect(&fd, &addr) {
        Ok(()) => false,
        Err(Errno::INPROGRESS | Errno::INTR) => true,
        Err(error) => return Err(error.into()),
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
        let _cannot_fail = net::shutdown(&self.listener, net::Shutdown::Both);
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
        let registered = poller.register(stream.as_fd())?;
        Ok(Self { stream, registered })
    }
}

impl BackendStream for RealStream {
    fn try_read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let source = &self.registered.source;
        if !source.is_readable() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let got = retry_on_intr(|| {
            let ((filled, _rest), _len) = net::recv(&self.stream, &mut *into, RecvFlags::empty())?;
            Ok(filled.len())
        });
        // A short read returned all bytes; the next byte causes a new edge.
        match &got {
            Ok(got) if 0 < *got && *got < into.len() => source.drained(),
            Err(Errno::WOULDBLOCK) => source.emptied(),
            _ => (),
        }
        Ok(got?)
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let source = &self.registered.source;
        if !source.is_writable() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let put = retry_on_intr(|| match parts {
            [part] => net::send(&self.stream, part, SendFlags::NOSIGNAL),
            _ => {
                let mut nothing = SendAncillaryBuffer::default();
                net::sendmsg(&self.stream, parts, &mut nothing, SendFlags::NOSIGNAL)
            }
        });
        if put == Err(Errno::WOULDBLOCK) {
            source.filled();
        }
        Ok(put?)
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
            return Ok(sockopt::set_socket_keepalive(&self.stream, false)?);
        };
        // The system accepts 1 to 32767 seconds.
        let after = Duration::from_secs(after_s.clamp(1, 32_767).into());
        sockopt::set_tcp_keepidle(&self.stream, after)?;
        sockopt::set_tcp_keepintvl(&self.stream, after)?;
        sockopt::set_tcp_keepcnt(&self.stream, KEEPALIVE_PROBES)?;
        Ok(sockopt::set_socket_keepalive(&self.stream, true)?)
    }

    fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()> {
        let bytes = bytes.min(i32::MAX as u32) as usize;
        sockopt::set_socket_send_buffer_size(&self.stream, bytes)?;
        Ok(sockopt::set_socket_recv_buffer_size(&self.stream, bytes)?)
    }
}
