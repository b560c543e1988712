//! A client's connection: sends requests of the native protocol, and matches answers by stream.
//!
//! One task writes, one reads; any number of tasks may send requests concurrently, each on a stream of its
//! own. The connection checks that every request gets exactly one answer within [`PATIENCE_US`] or its
//! connection ends, that every answer belongs to a request, and that the server closes no connection without
//! a reason.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use protocol::client::{RequestHead, ResponseMessage, write_request};
use protocol::{
    BODY_BYTES_MAX_DEFAULT, Compression, EVENT_STREAM, Inbound, Outbound, ProtocolVersion, Request, Response,
    Side, Startup,
};
use runtime::{CpuGroup, Event, Shard, Stream};

use super::access::Login;
use super::notes::{Checker, Notes};

/// A request without an answer after this virtual time hangs. Longer than all timeouts of the server
/// together.
pub const PATIENCE_US: u64 = 60_000_000;

/// Size of a read from the socket.
const READ_BYTES: usize = 16 << 10;

/// How a client reads its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Promptly,
    ByteAtATime,
    /// Answers stay in the socket.
    NotAtAll,
}

/// See the head of this file.
pub struct Connection {
    shard: Shard,
    notes: Rc<Notes>,
    stream: Stream,
    pub version: ProtocolVersion,
    inner: RefCell<Inner>,
    /// Signalled when an answer or the end has arrived.
    changed: Event,
    to_send: Event,
    resumed: Event,
    reading: Cell<Reading>,
    ended: Cell<bool>,
    /// This side has closed the connection.
    closed: Cell<bool>,
    /// The client violates the protocol: any answer is accepted.
    pub is_rude: Cell<bool>,
}

struct Inner {
    inbound: Inbound,
    outbound: Outbound,
    /// By stream: the request, and its answer once it has arrived.
    waiting: BTreeMap<i16, (String, Option<Response>)>,
    next_stream: i16,
    /// Answers of a rude connection that belong to no request.
    stray: u64,
}

/// The output of `wanted` if it ends within `us` microseconds.
pub async fn within<T>(shard: &Shard, us: u64, wanted: impl Future<Output = T>) -> Option<T> {
    let (mut wanted, mut alarm) = (pin!(wanted), pin!(shard.sleep_us(us)));
    poll_fn(|context| match wanted.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
    })
    .await
}

impl Connection {
    /// Connects without sending anything. `None`: there is no listener.
    pub async fn connect(
        shard: &Shard,
        notes: &Rc<Notes>,
        address: SocketAddr,
        version: ProtocolVersion,
    ) -> Option<Rc<Self>> {
        let stream = shard.net().connect(address).await.ok()?;
        let this = Rc::new(Self {
            shard: shard.clone(),
            notes: notes.clone(),
            stream,
            version,
            inner: RefCell::new(Inner {
                inbound: Inbound::new(Side::Client, BODY_BYTES_MAX_DEFAULT),
                outbound: Outbound::new(),
                waiting: BTreeMap::new(),
                next_stream: 0,
                stray: 0,
            }),
            changed: Event::new(),
            to_send: Event::new(),
            resumed: Event::new(),
            reading: Cell::new(Reading::Promptly),
            ended: Cell::new(false),
            closed: Cell::new(false),
            is_rude: Cell::new(false),
        });
        shard.spawn(CpuGroup::Statement, this.clone().receive()).detach();
        shard.spawn(CpuGroup::Statement, this.clone().write()).detach();
        Some(this)
    }

    /// Connects and sends STARTUP. `None`: the node is down, or the connection ended.
    pub async fn open(
        shard: &Shard,
        notes: &Rc<Notes>,
        address: SocketAddr,
        version: ProtocolVersion,
        compression: Option<Compression>,
        login: Option<Login>,
    ) -> Option<Rc<Self>> {
        let this = Self::connect(shard, notes, address, version).await?;
        this.startup(compression, login).await.then_some(this)
    }

    /// Sends STARTUP and logs in, if a login is given; returns whether the server is ready.
    pub async fn startup(&self, compression: Option<Compression>, login: Option<Login>) -> bool {
        if !self.begin(compression, login.is_some()).await {
            return false;
        }
        let Some(login) = login else { return true };
        let request = Request::AuthResponse { token: Some(&login.token()) };
        match self.ask("AUTH_RESPONSE", &request).await {
            Some(Response::AuthSuccess { .. }) => true,
            Some(other) => {
                self.notes.fail(Checker::Access, format!("{login:?} is answered with {other:?}"));
                false
            }
            None => false,
        }
    }

    /// Sends STARTUP; returns whether the server is ready, or asks for a password.
    pub async fn begin(&self, compression: Option<Compression>, asks_for_password: bool) -> bool {
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        match compression {
            Some(Compression::Lz4) => options.push(("COMPRESSION", "lz4")),
            Some(Compression::Snappy) => options.push(("COMPRESSION", "snappy")),
            None => {}
        }
        match self.ask("STARTUP", &Request::Startup(Startup { options })).await {
            Some(answer)
                if match answer {
                    Response::Ready => !asks_for_password,
                    Response::Authenticate { .. } => asks_for_password,
                    _ => false,
                } =>
            {
                let inner = &mut *self.inner.borrow_mut();
                inner.inbound.started(self.version, compression);
                inner.outbound.started(self.version, compression);
                true
            }
            Some(other) => {
                self.notes.fail(Checker::Answers, format!("STARTUP is answered with {other:?}"));
                false
            }
            None => false,
        }
    }

    pub fn has_ended(&self) -> bool {
        self.ended.get()
    }

    pub fn reading(&self) -> Reading {
        self.reading.get()
    }

    pub fn set_reading(&self, reading: Reading) {
        self.reading.set(reading);
        self.resumed.signal();
    }

    /// Closes the connection, whatever is in flight.
    pub fn close(&self) {
        self.closed.set(true);
        self.ended.set(true);
        // The other side may have closed the connection already.
        let _ = self.stream.shutdown();
        self.changed.signal();
        self.to_send.signal();
        self.resumed.signal();
    }

    /// Sends nothing more; the server may close the connection after its answers.
    pub fn half_close(&self) {
        self.closed.set(true);
        // The other side may have closed the connection already.
        let _ = self.stream.shutdown_write();
    }

    /// Waits until the server closes the connection; returns whether it did so in time.
    pub async fn is_closed_within(&self, us: u64) -> bool {
        within(&self.shard, us, self.changed.until(|| self.ended.get())).await.is_some()
    }

    /// Number of requests without an answer.
    pub fn unanswered(&self) -> usize {
        self.inner.borrow().waiting.values().filter(|(_, answer)| answer.is_none()).count()
    }

    /// The encoded bytes of a request, on a stream of its own.
    pub fn bytes_of(&self, what: &str, request: &Request<'_>) -> (i16, Vec<u8>) {
        let stream = self.take_stream(what);
        let inner = &mut *self.inner.borrow_mut();
        let head = RequestHead::new(self.version, stream);
        inner.outbound.envelope(|out| write_request(out, &head, request));
        let bytes = inner.outbound.ready().to_vec();
        inner.outbound.sent(bytes.len());
        (stream, bytes)
    }

    /// Sends raw bytes, bypassing the writing task; returns whether the connection took them.
    pub async fn send_raw(&self, bytes: &[u8]) -> bool {
        matches!(within(&self.shard, PATIENCE_US, self.stream.write_all(bytes)).await, Some(Ok(())))
    }

    fn take_stream(&self, what: &str) -> i16 {
        let inner = &mut *self.inner.borrow_mut();
        loop {
            let stream = inner.next_stream;
            inner.next_stream = if stream == i16::MAX { 0 } else { stream + 1 };
            if let std::collections::btree_map::Entry::Vacant(free) = inner.waiting.entry(stream) {
                free.insert((what.to_string(), None));
                return stream;
            }
        }
    }

    /// Sends a request and returns its stream; `None`: the connection has ended.
    pub fn send(&self, what: &str, request: &Request<'_>) -> Option<i16> {
        if self.ended.get() {
            return None;
        }
        self.notes.count(|counts| counts.requests += 1);
        let stream = self.take_stream(what);
        let head = RequestHead::new(self.version, stream);
        self.inner.borrow_mut().outbound.envelope(|out| write_request(out, &head, request));
        self.to_send.signal();
        Some(stream)
    }

    /// The answer on a stream; `None`: the connection ended before it arrived.
    pub async fn answer(&self, stream: i16) -> Option<Response> {
        let is_there =
            || self.ended.get() || matches!(self.inner.borrow().waiting.get(&stream), Some((_, Some(_))));
        let in_time = within(&self.shard, PATIENCE_US, self.changed.until(is_there)).await;
        let (what, answer) = self.inner.borrow_mut().waiting.remove(&stream)?;
        if in_time.is_none() && !self.is_rude.get() {
            self.notes.fail(
                Checker::Answers,
                format!("a request hangs: no answer after {} s: {what}", PATIENCE_US / 1_000_000),
            );
        }
        self.notes.count(|counts| match answer {
            Some(_) => counts.answers += 1,
            None => counts.unanswered += 1,
        });
        answer
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, what: &str, request: &Request<'_>) -> Option<Response> {
        let stream = self.send(what, request)?;
        self.answer(stream).await
    }

    async fn write(self: Rc<Self>) {
        loop {
            let more = self.to_send.next();
            if self.ended.get() {
                return;
            }
            let bytes = self.inner.borrow_mut().outbound.ready().to_vec();
            if bytes.is_empty() {
                more.await;
                continue;
            }
            self.inner.borrow_mut().outbound.sent(bytes.len());
            if self.stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }

    async fn receive(self: Rc<Self>) {
        let mut bytes = vec![];
        loop {
            self.resumed.until(|| self.reading.get() != Reading::NotAtAll || self.ended.get()).await;
            let bytes_max = if self.reading.get() == Reading::ByteAtATime { 1 } else { READ_BYTES };
            bytes.clear();
            match self.stream.read(&mut bytes, bytes_max).await {
                Ok(0) | Err(_) => break,
                Ok(_) => self.take(&bytes),
            }
        }
        let excuses = self.notes.excuses.get();
        let may_end = self.closed.get()
            || self.is_rude.get()
            || excuses.network
            || excuses.is_stopping
            || (excuses.idle && self.unanswered() == 0);
        if !may_end {
            self.notes.fail(Checker::Connections, "the server closed a connection without a reason");
        }
        self.ended.set(true);
        self.changed.signal();
        self.to_send.signal();
    }

    fn take(&self, bytes: &[u8]) {
        let inner = &mut *self.inner.borrow_mut();
        inner.inbound.feed(bytes);
        loop {
            match inner.inbound.next() {
                Ok(None) => break,
                Ok(Some(envelope)) => {
                    let stream = envelope.header.stream;
                    let response = match ResponseMessage::decode(&envelope) {
                        Ok(message) => message.response,
                        Err(error) => {
                            self.notes
                                .fail(Checker::Answers, format!("an answer that cannot be read: {error}"));
                            continue;
                        }
                    };
                    match inner.waiting.get_mut(&stream) {
                        Some((_, answer @ None)) => *answer = Some(response),
                        _ if stream == EVENT_STREAM => {}
                        _ if self.is_rude.get() => inner.stray += 1,
                        Some((what, Some(_))) => {
                            self.notes
                                .fail(Checker::Answers, format!("a second answer to {what}: {response:?}"));
                        }
                        None => self
                            .notes
                            .fail(Checker::Answers, format!("no request on stream {stream}: {response:?}")),
                    }
                }
                // Bytes of an unknown version are answered in the highest version.
                Err(_) if self.is_rude.get() => break,
                Err(error) => {
                    self.notes.fail(Checker::Answers, format!("bytes that are no answer: {error:?}"));
                    break;
                }
            }
        }
        self.changed.signal();
    }
}
