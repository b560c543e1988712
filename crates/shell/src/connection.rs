//! A blocking connection to a server.
//!
//! 1. [`Connection::open`] tries the newest version of the protocol first and older ones if the server
//!    refuses it. It also logs in.
//! 2. [`Connection::request`] sends a request and waits for its answer. Each request has its own stream, so
//!    that late answers to abandoned requests can be recognized and skipped.
//! 3. [`Connection::submit`] and [`Connection::answer`] do the same for several requests in flight.
//! 4. Events that arrive in the meantime are recorded; see [`Connection::take_schema_changed`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use protocol::CqlError;
use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, EVENT_STREAM, EventType, Inbound, Outbound, ProtocolVersion, Request, Response,
    Side, Startup,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::{ClientConnection, StreamOwned};

use super::failure::Failure;
use crate::tls::TlsClient;

/// First byte of a TLS server's answer to bytes that are not TLS.
const TLS_ALERT: u8 = 0x15;
/// Requests of this size together are sent at once.
const SEND_BYTES: usize = 64 << 10;

/// The stream of a request, and its answer.
pub type Answer = (i16, Result<ResponseMessage, CqlError>);

/// The server's address and the login data.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub tls: Option<TlsClient>,
    pub credentials: Option<Credentials>,
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
}

#[derive(Clone)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// Does not print the password.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A connection to a server; see the head of this file.
pub struct Connection {
    socket: Socket,
    inbound: Inbound,
    outbound: Outbound,
    version: ProtocolVersion,
    next_stream: i16,
    timeout: Duration,
    schema_changed: bool,
    is_logged_in: bool,
    /// Whether [`Self::answer_until`] was called.
    is_nonblocking: bool,
    /// Such as `127.0.0.1:9042`; for error messages.
    address: String,
}

impl Connection {
    /// # Errors
    /// [`Failure::Connection`], with a text on what to do; [`Failure::Refused`] for a wrong password.
    pub fn open(target: &Target) -> Result<Self, Failure> {
        Self::open_with(target, true)
    }

    /// As [`Self::open`], without events: for connections that only load or read data.
    ///
    /// # Errors
    /// The same as [`Self::open`].
    pub fn open_without_events(target: &Target) -> Result<Self, Failure> {
        Self::open_with(target, false)
    }

    fn open_with(target: &Target, has_events: bool) -> Result<Self, Failure> {
        let mut refusal = None;
        for &version in ProtocolVersion::ALL.iter().rev() {
            let mut connection = Self::connect(target, version)?;
            match connection.start(target, has_events) {
                Ok(()) => return Ok(connection),
                Err(Failure::Refused(error @ CqlError::Protocol(_))) => refusal = Some(error),
                Err(failure) => return Err(failure),
            }
        }
        let refusal = refusal.map_or(String::new(), |error| error.to_string());
        Err(Failure::Connection(format!(
            "{}:{} supports no protocol version of this shell: {refusal}",
            target.host, target.port
        )))
    }

    fn connect(target: &Target, version: ProtocolVersion) -> Result<Self, Failure> {
        let address = address(&target.host, target.port);
        let fail = |text: String| Failure::Connection(text);
        let found = (target.host.as_str(), target.port).to_socket_addrs();
        let found = found.map_err(|error| fail(format!("no host {:?}: {error}", target.host)))?;
        let mut last = None;
        let mut stream = None;
        for candidate in found {
            match TcpStream::connect_timeout(&candidate, target.connect_timeout) {
                Ok(connected) => {
                    stream = Some(connected);
                    break;
                }
                Err(error) => last = Some(error),
            }
        }
        let Some(stream) = stream else {
            return Err(fail(match last {
                Some(error) => unreachable_text(target, &address, &error),
                None => format!("no host {:?}", target.host),
            }));
        };
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(target.request_timeout)))
            .and_then(|()| stream.set_write_timeout(Some(target.request_timeout)));
        set.map_err(|error| fail(format!("{address}: {error}")))?;
        let socket = match &target.tls {
            Some(tls) => Socket::Tls(Box::new(tls.wrap(&target.host, stream).map_err(fail)?)),
            None => Socket::Plain(stream),
        };
        Ok(Self {
            socket,
            inbound: Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT),
            outbound: Outbound::new(),
            version,
            next_stream: 0,
            timeout: target.request_timeout,
            schema_changed: false,
            is_logged_in: false,
            is_nonblocking: false,
            address,
        })
    }

    fn start(&mut self, target: &Target, has_events: bool) -> Result<(), Failure> {
        let options = vec![
            ("CQL_VERSION", "3.0.0"),
            ("DRIVER_NAME", "messina shell"),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
        ];
        let answer = self.request(&Request::Startup(Startup { options }), false)?.response;
        self.inbound.started(self.version, None);
        self.outbound.started(self.version, None);
        match answer {
            Response::Ready => {}
            Response::Authenticate { .. } => self.log_in(target.credentials.as_ref())?,
            other => return Err(self.unexpected(&other)),
        }
        if !has_events {
            return Ok(());
        }
        let events = [EventType::SchemaChange].into_iter().collect();
        match self.request(&Request::Register { events }, false)?.response {
            Response::Ready => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn log_in(&mut self, credentials: Option<&Credentials>) -> Result<(), Failure> {
        let Some(Credentials { user, password }) = credentials else {
            let text = format!("{} requires a user: messina shell -u USER -p PASSWORD", self.address);
            return Err(Failure::Connection(text));
        };
        let token = format!("\0{user}\0{password}");
        let request = Request::AuthResponse { token: Some(token.as_bytes()) };
        match self.request(&request, false)?.response {
            Response::AuthSuccess { .. } => {
                self.is_logged_in = true;
                Ok(())
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Whether the server asked for a user and accepted the password.
    pub fn is_logged_in(&self) -> bool {
        self.is_logged_in
    }

    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Whether the server closed the connection while no request was in flight.
    pub fn is_closed(&self) -> bool {
        let stream = match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => &stream.sock,
        };
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let peeked = stream.peek(&mut [0]);
        let is_closed = match peeked {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        stream.set_nonblocking(false).is_err() || is_closed
    }

    /// Whether the server has reported a schema change since the last call.
    pub fn take_schema_changed(&mut self) -> bool {
        std::mem::take(&mut self.schema_changed)
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`Failure::Refused`] for an error of the server. The connection stays usable after
    /// [`Failure::Timeout`] and [`Failure::Interrupted`], but not after [`Failure::Connection`].
    pub fn request(&mut self, request: &Request<'_>, tracing: bool) -> Result<ResponseMessage, Failure> {
        let stream = self.append(request, tracing);
        loop {
            let (answers, response) = self.answer()?;
            if answers == stream {
                return response.map_err(Failure::Refused);
            }
        }
    }

    /// Puts a request into the buffer of requests to send, and returns its stream. Full buffers are sent. The
    /// answer comes from [`Self::answer`].
    ///
    /// # Errors
    /// [`Failure::Connection`] and [`Failure::Timeout`].
    pub fn submit(&mut self, request: &Request<'_>) -> Result<i16, Failure> {
        let stream = self.append(request, false);
        if self.outbound.pending_bytes() >= SEND_BYTES {
            self.send()?;
        }
        Ok(stream)
    }

    fn append(&mut self, request: &Request<'_>, tracing: bool) -> i16 {
        let stream = self.next_stream;
        self.next_stream = (stream + 1) % i16::MAX;
        let mut head = RequestHead::new(self.version, stream);
        head.tracing = tracing;
        self.outbound.envelope(|out| write_request(out, &head, request));
        stream
    }

    /// Sends the buffered requests.
    ///
    /// # Errors
    /// [`Failure::Connection`].
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.send()
    }

    /// Sends the buffered requests and waits for the next answer. Returns its stream and the answer.
    ///
    /// # Errors
    /// As [`Self::request`], except for errors of the server, which are answers.
    pub fn answer(&mut self) -> Result<Answer, Failure> {
        self.send()?;
        loop {
            match self.received()? {
                Some(answer) => return Ok(answer),
                None => self.receive()?,
            }
        }
    }

    /// The next answer among the bytes that have arrived; reads nothing.
    ///
    /// # Errors
    /// [`Failure::Connection`]: the bytes are no answer.
    pub fn received(&mut self) -> Result<Option<Answer>, Failure> {
        loop {
            match self.inbound.next() {
                Ok(Some(envelope)) => {
                    let stream = envelope.header.stream;
                    let message = ResponseMessage::decode(&envelope)
                        .map_err(|error| Failure::Connection(format!("{}: {error}", self.address)))?;
                    if stream == EVENT_STREAM {
                        self.schema_changed |= matches!(message.response, Response::Event(_));
                        continue;
                    }
                    return Ok(Some(match message.response {
                        Response::Error(error) => (stream, Err(error)),
                        _ => (stream, Ok(message)),
                    }));
                }
                Ok(None) => return Ok(None),
                Err(error) => {
                    return Err(Failure::Connection(format!("{}: {}", self.address, error.error)));
                }
            }
        }
    }

    /// As [`Self::answer`], but waits until `deadline` at most. From the first call on the socket does not
    /// block, so that a wait is exact to some 50 us; timeouts of a socket are exact to some milliseconds.
    ///
    /// # Errors
    /// As [`Self::answer`], without [`Failure::Timeout`].
    pub fn answer_until(&mut self, deadline: Instant) -> Result<Option<Answer>, Failure> {
        if !self.is_nonblocking {
            let set = self.tcp().set_nonblocking(true);
            set.map_err(|error| self.broken(&error))?;
            self.is_nonblocking = true;
        }
        self.send()?;
        loop {
            if let Some(answer) = self.received()? {
                return Ok(Some(answer));
            }
            match self.receive() {
                Ok(()) => {}
                Err(Failure::Timeout { .. }) if !self.wait(PollFlags::IN, deadline)? => return Ok(None),
                Err(Failure::Timeout { .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits until the socket is ready for `events`; false: not before `deadline`.
    fn wait(&self, events: PollFlags, deadline: Instant) -> Result<bool, Failure> {
        let left = deadline.saturating_duration_since(now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        match poll(&mut [PollFd::new(self.tcp(), events)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) if super::terminal::take_interrupted() => Err(Failure::Interrupted),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(self.broken(&error.into())),
        }
    }

    fn tcp(&self) -> &TcpStream {
        match &self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => &stream.sock,
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        loop {
            let ready = self.outbound.ready();
            let written = match ready.is_empty() {
                true => self.socket.flush().map(|()| 0),
                false => self.socket.write(ready),
            };
            match written {
                Ok(0) if self.outbound.pending_bytes() == 0 => return Ok(()),
                Ok(sent) => self.outbound.sent(sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The server may be waiting for its answers to be read before it reads on.
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.is_nonblocking => {
                    match self.receive() {
                        Ok(()) => {}
                        Err(Failure::Timeout { .. }) => {
                            let deadline = now() + self.timeout;
                            if !self.wait(PollFlags::IN | PollFlags::OUT, deadline)? {
                                return Err(Failure::Timeout { after_s: self.timeout.as_secs_f64() });
                            }
                        }
                        Err(failure) => return Err(failure),
                    }
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn receive(&mut self) -> Result<(), Failure> {
        let space = self.inbound.space();
        match self.socket.read(space) {
            Ok(0) => {
                let text = format!("{} has closed the connection", self.address);
                Err(Failure::Connection(text))
            }
            Ok(_) if space[0] == TLS_ALERT && matches!(self.socket, Socket::Plain(_)) && self.is_new() => {
                Err(Failure::Connection(format!("{} requires TLS: add --ssl", self.address)))
            }
            Ok(bytes) => {
                self.inbound.filled(bytes);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    Err(Failure::Timeout { after_s: self.timeout.as_secs_f64() })
                }
                ErrorKind::Interrupted if super::terminal::take_interrupted() => Err(Failure::Interrupted),
                ErrorKind::Interrupted => Ok(()),
                _ => Err(self.broken(&error)),
            },
        }
    }

    /// Whether only the first request has been sent.
    fn is_new(&self) -> bool {
        self.next_stream == 1
    }

    fn broken(&self, error: &io::Error) -> Failure {
        if error.kind() == ErrorKind::InvalidData && self.is_new() {
            let text = error.to_string();
            if !text.contains("certificate") {
                return Failure::Connection(format!(
                    "{} does not support TLS: leave out --ssl, or name the TLS port ({text})",
                    self.address
                ));
            }
            let hint = "--ssl-ca names a file with it or with its authority";
            return Failure::Connection(format!(
                "no encrypted connection to {}: {text} ({hint})",
                self.address
            ));
        }
        Failure::Connection(format!("the connection to {} broke: {error}", self.address))
    }

    fn unexpected(&self, response: &Response) -> Failure {
        Failure::Connection(format!("{} answered with an unexpected {response:?}", self.address))
    }
}

#[allow(clippy::disallowed_methods, reason = "waits for a server")]
fn now() -> Instant {
    Instant::now()
}

/// Formats the address as `127.0.0.1:9042` or `[::1]:9042`.
pub fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn unreachable_text(target: &Target, address: &str, error: &io::Error) -> String {
    let is_here = matches!(target.host.as_str(), "localhost" | "::1") || target.host.starts_with("127.");
    match error.kind() {
        ErrorKind::ConnectionRefused if is_here => {
            format!("no server listens on {address}: start one with: messina")
        }
        ErrorKind::ConnectionRefused => format!(
            "no server listens on {address}: is the server running there, and does it listen on that address (rpc_address, \
             native_transport_port)?"
        ),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => format!(
            "no answer from {address} within {} s: is the address right, and does a firewall let it through?",
            target.connect_timeout.as_secs_f64()
        ),
        _ => format!("no connection to {address}: {error}"),
    }
}
