//! A connection: requests in, answers out, each at its own pace and within bounds.
//!
//! One task reads and starts a task for each request; the answers are appended as they come, in any order, and
//! another task sends what has gathered. Reading stops while too many requests are under way, too many bytes of requests
//! on the shard, or too many bytes of answers wait because the client does not take them.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use cql::protocol::{Envelope, Event as Pushed, EventType, Header, Inbound, Outbound, Reply, Side};
use cql::system::ClientInfo;
use runtime::{CpuGroup, Event};

use super::CqlShard;
use super::session::{self, Session};
use super::transport::Transport;

/// Answers that wait to be sent; more, and no further request is read.
const PENDING_BYTES_MAX: usize = 1 << 20;

/// See the head of this file.
pub(crate) struct Connection {
    pub cql: Rc<CqlShard>,
    transport: Transport,
    outbound: RefCell<Outbound>,
    pub session: Session,
    requests: Cell<u32>,
    requests_total: Cell<u64>,
    /// Something is to be sent.
    to_send: Event,
    /// Some request has ended, or bytes have left.
    relieved: Event,
    /// Nothing more will be read or sent.
    closed: Cell<bool>,
    /// Close when everything has been sent.
    closing: Cell<bool>,
}

impl Connection {
    /// Serves the connection to its end.
    pub async fn serve(cql: Rc<CqlShard>, transport: Transport) {
        let this = Rc::new(Self {
            cql: cql.clone(),
            transport,
            outbound: RefCell::new(Outbound::new()),
            session: Session::default(),
            requests: Cell::new(0),
            requests_total: Cell::new(0),
            to_send: Event::new(),
            relieved: Event::new(),
            closed: Cell::new(false),
            closing: Cell::new(false),
        });
        let id = cql.add_connection(this.clone());
        let sending = cql.shard.spawn(CpuGroup::Statement, this.clone().send());
        // Who breaks off is not complained about; what is under way ends by itself.
        if this.clone().receive().await.is_err() {
            this.close();
        } else {
            this.relieved.until(|| this.requests.get() == 0 || this.closed.get()).await;
            this.closing.set(true);
            this.to_send.signal();
        }
        sending.await;
        cql.connections.borrow_mut().remove(&id);
    }

    async fn receive(self: Rc<Self>) -> io::Result<()> {
        let mut inbound = Inbound::new(Side::Server, self.cql.options.body_bytes_max);
        loop {
            loop {
                match inbound.next() {
                    Ok(None) => break,
                    Ok(Some(Envelope { header, body })) => {
                        if let Some((version, compression)) = self.request(header, body) {
                            inbound.started(version, compression);
                        }
                    }
                    Err(error) => {
                        self.answer(|out| error.write(out));
                        if error.close {
                            return Ok(());
                        }
                    }
                }
                if !self.may_read() {
                    self.wait_for_relief().await;
                    if self.closed.get() {
                        return Ok(());
                    }
                }
            }
            let read = loop {
                match self.transport.try_read(inbound.space()) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.transport.readable().await
                    }
                    done => break done?,
                }
            };
            if read == 0 || self.closed.get() {
                return Ok(());
            }
            inbound.filled(read);
        }
    }

    /// Begins to answer a request. If it settles how the connection goes on, that is returned.
    fn request(self: &Rc<Self>, header: Header, body: &[u8]) -> Option<session::Started> {
        self.requests_total.set(self.requests_total.get() + 1);
        let counter = &self.cql.counters.requests;
        counter.set(counter.get() + 1);
        if let Some(done) = session::answer_at_once(self, header, body) {
            return done;
        }
        // The request outlives what was read.
        let body = body.to_vec();
        let bytes = body.len();
        self.cql.take_room(bytes);
        self.requests.set(self.requests.get() + 1);
        let this = self.clone();
        let request = async move {
            session::answer(&this, header, &body).await;
            drop(body);
            this.cql.give_room(bytes);
            this.requests.set(this.requests.get() - 1);
            this.relieved.signal();
        };
        self.cql.shard.spawn(CpuGroup::Statement, request).detach();
        None
    }

    fn may_read(&self) -> bool {
        self.requests.get() < self.cql.options.requests_per_connection_max
            && self.outbound.borrow().pending_bytes() < PENDING_BYTES_MAX
            && self.cql.has_room()
    }

    async fn wait_for_relief(&self) {
        loop {
            if self.closed.get() || self.may_read() {
                return;
            }
            if self.cql.has_room() {
                self.relieved.next().await;
            } else {
                self.cql.released.next().await;
            }
        }
    }

    /// Appends an answer, which `append` writes as one envelope.
    pub fn answer(&self, append: impl FnOnce(&mut Vec<u8>)) {
        if !self.closed.get() {
            self.outbound.borrow_mut().envelope(append);
            self.to_send.signal();
        }
    }

    /// As [`Self::answer`], and what follows is framed as STARTUP agreed.
    pub fn answer_startup(&self, append: impl FnOnce(&mut Vec<u8>), started: session::Started) {
        let mut outbound = self.outbound.borrow_mut();
        outbound.envelope(append);
        outbound.started(started.0, started.1);
        self.to_send.signal();
    }

    /// Tells the client of an event, if it asked for those.
    pub fn push(&self, event: &Pushed) {
        let session = &self.session;
        if session.wants(event.event_type())
            && let Some(version) = session.version()
            // A client that takes nothing is told nothing: events are not queued without bound.
            && self.outbound.borrow().pending_bytes() < PENDING_BYTES_MAX
        {
            self.answer(|out| Reply::event(version, out, event));
        }
    }

    async fn send(self: Rc<Self>) {
        loop {
            let more = self.to_send.next();
            let sent = {
                let mut outbound = self.outbound.borrow_mut();
                let ready = outbound.ready();
                if ready.is_empty() && !self.transport.has_unsent() {
                    None
                } else {
                    let sent = self.transport.try_write(ready);
                    if let Ok(sent) = sent {
                        outbound.sent(sent);
                    }
                    Some(sent)
                }
            };
            match sent {
                None if self.closing.get() || self.closed.get() => break,
                None => more.await,
                Some(Ok(_)) => self.relieved.signal(),
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.transport.writable().await
                }
                Some(Err(_)) => break,
            }
        }
        self.close();
    }

    /// Ends the connection now.
    pub fn close(&self) {
        if !self.closed.replace(true) {
            self.transport.shutdown();
            self.to_send.signal();
            self.relieved.signal();
            self.cql.released.signal();
        }
    }

    pub fn peer_addr(&self) -> std::net::SocketAddr {
        self.transport.peer_addr()
    }

    /// What `system_views.clients` says of it.
    pub fn client_info(&self) -> ClientInfo {
        let (driver_name, driver_version) = self.session.driver.borrow().clone().unzip();
        ClientInfo {
            address: self.peer_addr().ip(),
            port: self.peer_addr().port(),
            protocol_version: self.session.version().map_or(0, |version| version.number()),
            requests: self.requests_total.get(),
            username: "anonymous".to_string(),
            driver_name,
            driver_version,
            tls: self.transport.tls_parameters(),
        }
    }

    /// Registers for events.
    pub fn register(&self, events: &[EventType]) {
        self.session.register(events);
    }
}
