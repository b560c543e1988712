//! A client connection: requests in, answers out, each at its own pace and in bounded memory.
//!
//! One task reads and starts a task for each request. Answers are appended as they are ready, in any order,
//! and another task sends what has gathered. Reading stops while too many requests are in flight, the
//! session's service level is overloaded (`overload`), or too many bytes of answers wait for the client or
//! are expected to.
//!
//! Large unpaged answers are sent block by block and hold a reservation of the shard's `ResultMemory` until
//! they are sent. A client that takes them too slowly is disconnected when other requests wait for that
//! memory (`taking`).
//!
//! Guarantees: an idle connection keeps a few kilobytes. All connections together keep at most the bytes that
//! `CqlOptions` allows, whatever clients send or do not read, plus the messages and pages that are being
//! processed.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use base::broken;
use catalog::Workload;
use cql::CellBlocks;
use cql::system::ClientInfo;
use log::{debug, info, warn};
use protocol::{
    CqlError, Envelope, Event as Pushed, EventType, Header, Inbound, Outbound, ProtocolVersion, Reply, Side,
};
use runtime::{CpuGroup, Event};

use super::CqlShard;
use super::levels::{Level, count};
use super::login::{self, SetupStage};
use super::overload::{AdmissionDecision, ShedReason};
use super::session::{self, Arrival, Session};
use super::taking::{Taking, TakingVerdict};
use super::transport::Transport;

/// Limit in bytes of the answers that wait to be sent or are expected; above it no further request is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The same limit while all connections of the shard together exceed theirs.
const ANSWER_BYTES_MAX_IN_NEED: usize = 64 << 10;
/// Expected bytes of an answer before the first one: a full page.
const FIRST_ANSWER_BYTES: usize = 1 << 20;
/// Lower bound of the expected bytes of an answer.
const LEAST_ANSWER_BYTES: usize = 4 << 10;
/// Number of requests after which the expected bytes of a connection's answers are reliable.
const FIRST_REQUESTS: u64 = 8;
/// Page limit while memory for an expected answer is missing: for the first requests of a connection, and for
/// a request that is the only one of its connection.
const SHORT_PAGE_BYTES: u64 = 32 << 10;
/// Bytes that the buffers of an idle connection may keep.
const IDLE_BYTES_MAX: usize = 8 << 10;
/// Bytes that an incomplete message may always have, whatever other connections hold.
const UNFINISHED_BYTES_MIN: usize = 1 << 20;

/// How long a request waits for memory that other answers hold.
const ANSWER_ROOM_WITHIN_US: u64 = 5_000_000;
const NO_ANSWER_ROOM: &str =
    "too many answers wait for clients that do not take them; retry, or request less at a time";

/// Number of answers that are sent without waiting for the shard to become idle. The client can go on
/// meanwhile; otherwise client and shard would work in turn.
const ANSWERS_A_WRITE: u32 = 16;

/// See the head of this file.
pub(crate) struct Connection {
    this: Weak<Self>,
    pub cql: Rc<CqlShard>,
    transport: Transport,
    outbound: RefCell<Outbound<CellBlocks>>,
    pub session: Session,
    requests: Cell<u32>,
    /// Answers since the last write.
    unsent_answers: Cell<u32>,
    /// See [`Self::send_soon`].
    is_send_queued: Cell<bool>,
    /// The last write found the socket full.
    is_blocked: Cell<bool>,
    /// How fast the client takes its large answers.
    taking: Cell<Taking>,
    requests_total: Cell<u64>,
    /// When bytes last came or went, or a request was in flight; updated only if there is an idle timeout.
    last_active_us: Cell<u64>,
    /// Expected bytes of an answer: the maximum of the latest ones, decaying by an eighth per answer.
    expected_bytes: Cell<usize>,
    /// What this connection adds to the shard's `answer_bytes` and `unfinished_bytes`.
    answer_bytes: Cell<usize>,
    unfinished_bytes: Cell<usize>,
    /// Signalled when there are bytes to send.
    to_send: Event,
    /// Signalled when a request has ended or bytes were sent.
    relieved: Event,
    /// Nothing more will be read or sent.
    closed: Cell<bool>,
    /// Close when everything has been sent.
    closing: Cell<bool>,
    /// The latest refusal; see [`Refusing`].
    refusing: RefCell<Option<Refusing>>,
}

/// A refusal that applies to all following requests of the level. While this task only reads requests, no
/// request ends, so the reason for one refusal holds for all requests that were read with it.
struct Refusing {
    level: Rc<Level>,
    error: CqlError,
}

/// Time limit of the TLS handshake: a client that does not complete it holds a socket and TLS keys for
/// nothing.
const HANDSHAKE_US_MAX: u64 = 10_000_000;

/// Permission to produce an answer. While it is held, the expected bytes of the answer are counted.
struct AnswerMemory {
    cql: Rc<CqlShard>,
    bytes: usize,
    /// Limit of the page.
    page_bytes_max: u64,
}

impl Drop for AnswerMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let expected = &self.cql.expected_answer_bytes;
            expected.set(expected.get() - self.bytes);
            self.cql.answers_left.signal();
        }
    }
}

impl Connection {
    /// Serves the connection to its end.
    pub async fn serve(cql: Rc<CqlShard>, transport: Transport) {
        let this = Rc::new_cyclic(|this| Self {
            this: this.clone(),
            cql: cql.clone(),
            transport,
            outbound: RefCell::default(),
            session: Session::default(),
            requests: Cell::new(0),
            unsent_answers: Cell::new(0),
            is_send_queued: Cell::new(false),
            is_blocked: Cell::new(false),
            taking: Cell::default(),
            requests_total: Cell::new(0),
            last_active_us: Cell::new(cql.shard.now_us()),
            expected_bytes: Cell::new(FIRST_ANSWER_BYTES),
            answer_bytes: Cell::new(0),
            unfinished_bytes: Cell::new(0),
            to_send: Event::new(),
            relieved: Event::new(),
            closed: Cell::new(false),
            closing: Cell::new(false),
            refusing: RefCell::default(),
        });
        let id = cql.add_connection(this.clone());
        debug!(target: "cql", "connection {id} of {} opened", this.peer_addr());
        let sending = cql.shard.spawn(CpuGroup::Statement, this.clone().send());
        // A client that disconnects is not logged, and its requests end by themselves. The answers of a
        // client that was idle for too long are not sent either.
        if this.clone().receive().await.is_err() {
            this.close();
        } else {
            this.clone().finish().await;
        }
        this.keeps_unfinished(0);
        sending.await;
        *this.outbound.borrow_mut() = Outbound::default();
        this.keeps_answers();
        cql.connections.borrow_mut().remove(&id);
        debug!(target: "cql", "connection {id} of {} ended", this.peer_addr());
    }

    /// Closes the connection when all requests in flight have been answered and the answers sent. The caller
    /// ensures that nothing more is read.
    pub async fn finish(self: Rc<Self>) {
        self.relieved.until(|| self.requests.get() == 0 || self.closed.get()).await;
        self.closing.set(true);
        self.to_send.signal();
    }

    async fn receive(self: Rc<Self>) -> io::Result<()> {
        let mut inbound = Inbound::new(Side::Server, self.cql.options.body_bytes_max);
        let began_us = self.cql.shard.now_us();
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
                    self.wait_for_relief(began_us).await;
                    self.refusing.take();
                }
                if self.is_ending() {
                    return Ok(());
                }
                // A flood of refused requests yields to other tasks, too.
                if self.cql.shard.need_preempt() {
                    self.cql.shard.yield_now().await;
                    self.refusing.take();
                }
            }
            if self.is_to_be_delayed() {
                self.wait_for_relief(began_us).await;
            }
            self.keeps_unfinished(inbound.memory_bytes());
            if self.is_too_much() {
                self.refuse_unfinished();
                return Ok(());
            }
            let read = loop {
                let read = self.transport.try_read(&mut self.cql.read_buffer.borrow_mut());
                match read {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if inbound.memory_bytes() > IDLE_BYTES_MAX {
                            inbound.release_memory();
                            self.keeps_unfinished(inbound.memory_bytes());
                        }
                        if self.unless_silent(began_us, self.transport.readable()).await.is_none() {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                        if self.is_ending() {
                            return Ok(());
                        }
                    }
                    done => break done?,
                }
            };
            if read == 0 {
                return Ok(());
            }
            self.is_active();
            inbound.feed(&self.cql.read_buffer.borrow()[..read]);
            self.refusing.take();
        }
    }

    /// Waits for `wanted`; `None`: the client was silent for too long, and the connection must be closed.
    /// `began_us`: when the connection was accepted.
    async fn unless_silent<T>(&self, began_us: u64, wanted: impl Future<Output = T>) -> Option<T> {
        let mut wanted = pin!(wanted);
        loop {
            let Some((deadline_us, why)) = self.patience(began_us) else { return Some(wanted.await) };
            let now_us = self.cql.shard.now_us();
            if now_us >= deadline_us && !broken::is("idle_closed") {
                info!(target: "cql", "closing the connection of {}, {why}", self.peer_addr());
                return None;
            }
            let mut alarm = pin!(self.cql.shard.sleep_us(deadline_us.saturating_sub(now_us).max(1000)));
            let done = poll_fn(|context| match wanted.as_mut().poll(context) {
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending => alarm.as_mut().poll(context).map(|()| None),
            });
            if let Some(value) = done.await {
                return Some(value);
            }
        }
    }

    /// The time until which the client may be silent, and the reason logged after it. A client with requests
    /// in flight is not idle, unless its socket takes nothing: the requests may then be waiting for memory
    /// that the connection's own answers hold.
    fn patience(&self, began_us: u64) -> Option<(u64, String)> {
        if self.transport.is_shaking_hands() {
            let why = format!("its TLS handshake took more than {} s", HANDSHAKE_US_MAX / 1_000_000);
            return Some((began_us + HANDSHAKE_US_MAX, why));
        }
        let timeout_us = self.cql.options.idle_timeout_us?;
        if self.requests.get() > 0 && !self.is_blocked.get() {
            self.last_active_us.set(self.cql.shard.now_us());
        }
        let takes_nothing = if self.is_blocked.get() { ", and it takes no answers" } else { "" };
        let why = format!("idle for {} ms{takes_nothing}", timeout_us / 1000);
        Some((self.last_active_us.get() + timeout_us, why))
    }

    /// Records that bytes were received or sent.
    fn is_active(&self) {
        if self.cql.options.idle_timeout_us.is_some() {
            self.last_active_us.set(self.cql.shard.now_us());
        }
    }

    /// Whether nothing more is to be read.
    fn is_ending(&self) -> bool {
        self.closed.get() || self.cql.is_stopping.get()
    }

    /// Whether the shard's incomplete messages exceed their limit and this connection's is not small.
    fn is_too_much(&self) -> bool {
        self.unfinished_bytes.get() > UNFINISHED_BYTES_MIN
            && self.cql.unfinished_bytes.get() > self.cql.options.unfinished_bytes_max
    }

    fn refuse_unfinished(&self) {
        let version = self.session.version().unwrap_or(ProtocolVersion::HIGHEST);
        let text = "too many large requests arrive at once; send smaller ones, or fewer at a time";
        self.cql.memory_refused(text);
        let error = CqlError::Overloaded(text.to_string());
        self.answer(|out| Reply::new(version, 0).error(out, &error));
    }

    fn keeps_unfinished(&self, bytes: usize) {
        let all = &self.cql.unfinished_bytes;
        all.set(all.get() - self.unfinished_bytes.replace(bytes) + bytes);
    }

    fn keeps_answers(&self) {
        let bytes = self.outbound.borrow().memory_bytes();
        let all = &self.cql.answer_bytes;
        let before = self.answer_bytes.replace(bytes);
        all.set(all.get() - before + bytes);
        if bytes < before {
            self.cql.answers_left.signal();
        }
    }

    /// Starts to answer a request. Returns version and compression if the request was a STARTUP that sets
    /// them.
    fn request(self: &Rc<Self>, header: Header, body: &[u8]) -> Option<session::Started> {
        self.requests_total.set(self.requests_total.get() + 1);
        let counter = &self.cql.counters.requests;
        counter.set(counter.get() + 1);
        if let Some(done) = session::answer_at_once(self, header, body) {
            self.refusing.take();
            return done;
        }
        if let Some(refusing) = &*self.refusing.borrow() {
            self.refuse(header, refusing);
            return None;
        }
        let served = self.session.served_for(&self.cql, header, body);
        let level = served.level.clone();
        if let AdmissionDecision::Refuse(reason) = self.cql.admission(&served, body.len()) {
            let text = reason.to_string();
            let is_of_this_one = reason == ShedReason::TooManyBytes;
            if is_of_this_one {
                self.cql.memory_refused(&text);
            }
            let refusing = Refusing { level, error: CqlError::Overloaded(text) };
            self.refuse(header, &refusing);
            if !is_of_this_one {
                self.refusing.replace(Some(refusing));
            }
            return None;
        }
        count(&level.counters.requests);
        // The request outlives the read buffer.
        let body = body.to_vec();
        let bytes = body.len();
        let (group, at_us) = (level.group.get(), self.cql.shard.now_us());
        self.cql.begin_request(&level, bytes, at_us);
        self.requests.set(self.requests.get() + 1);
        let this = self.clone();
        let request = async move {
            let expected_bytes = this.expected_bytes.get();
            let room = this.wait_for_answer_memory().await;
            let is_cut = room.as_ref().is_none_or(|room| room.page_bytes_max < u64::MAX);
            if let Some(room) = room {
                let arrival = Arrival { at_us, served, page_bytes_max: room.page_bytes_max };
                // A request that waits for the CPU is small: the future that answers it is allocated when it
                // runs.
                session::answer(&this, header, &body, &arrival).await;
                drop(room);
            } else {
                let version = this.session.version().unwrap_or(ProtocolVersion::HIGHEST);
                this.cql.memory_refused(NO_ANSWER_ROOM);
                let error = CqlError::Overloaded(NO_ANSWER_ROOM.to_string());
                this.answer(|out| Reply::new(version, header.stream).error(out, &error));
            }
            if is_cut {
                // A limited or missing answer does not show how large a full one would be.
                this.expected_bytes.set(expected_bytes.max(this.expected_bytes.get()));
            }
            drop(body);
            let now_us = this.cql.shard.now_us();
            this.cql.end_request(&level, bytes, now_us);
            level.counters.latency.add_us(now_us - at_us);
            this.requests.set(this.requests.get() - 1);
            this.relieved.signal();
        };
        self.cql.shard.spawn(group, request).detach();
        None
    }

    /// Starts to check a password.
    pub fn log_in(self: &Rc<Self>, header: Header, token: &[u8]) {
        let Some(passwords) = self.cql.options.passwords.clone() else { return };
        self.requests.set(self.requests.get() + 1);
        let (this, token) = (self.clone(), token.to_vec());
        let looked_at = async move {
            login::log_in(&this, &passwords, header, &token).await;
            this.requests.set(this.requests.get() - 1);
            this.relieved.signal();
        };
        let group = self.cql.levels.of_drivers().level.group.get();
        self.cql.shard.spawn(group, looked_at).detach();
    }

    /// Whether the session's level is overloaded and its clients can wait.
    fn is_to_be_delayed(&self) -> bool {
        if self.session.stage.get() != SetupStage::Ready {
            return false;
        }
        let served = self.session.served(&self.cql.levels);
        // Interactive requests are refused instead.
        served.workload != Workload::Interactive && self.cql.admission(&served, 0) == AdmissionDecision::Delay
    }

    fn may_read(&self) -> bool {
        self.requests.get() < self.cql.options.requests_per_connection_max
            && !self.is_to_be_delayed()
            && self.outbound.borrow().pending_bytes()
                + self.requests.get() as usize * self.expected_bytes.get()
                < self.answer_bytes_max()
    }

    fn answer_bytes_max(&self) -> usize {
        if self.is_in_need() { ANSWER_BYTES_MAX_IN_NEED } else { ANSWER_BYTES_MAX }
    }

    /// Whether the answers of all connections together exceed their limit.
    fn is_in_need(&self) -> bool {
        self.cql.answer_bytes.get() >= self.cql.options.answer_bytes_max
    }

    async fn wait_for_relief(&self, began_us: u64) {
        if self.is_to_be_delayed() {
            count(&self.session.served(&self.cql.levels).level.counters.delayed);
        }
        loop {
            if self.is_ending() || self.may_read() {
                return;
            }
            if self.is_to_be_delayed() && !self.is_blocked.get() {
                self.cql.released.next().await;
            } else if self.is_to_be_delayed() {
                if self.unless_silent(began_us, self.cql.released.next()).await.is_none() {
                    self.close();
                }
            } else if self.unless_silent(began_us, self.relieved.next()).await.is_none() {
                // The client takes no answers.
                self.close();
            }
        }
    }

    /// Waits until the expected bytes of an answer fit beside the answers of all connections that wait for
    /// clients or are being produced. Small answers, unless the connection's own answers wait, and short
    /// pages need not wait. `None`: the wait took too long.
    async fn wait_for_answer_memory(&self) -> Option<AnswerMemory> {
        if let Some(room) = self.reserve_answer_memory() {
            return Some(room);
        }
        let mut alarm = pin!(self.cql.shard.sleep_us(ANSWER_ROOM_WITHIN_US));
        loop {
            let mut left = pin!(self.cql.answers_left.next());
            let in_time = poll_fn(|context| match left.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => alarm.as_mut().poll(context).map(|()| false),
            });
            if !in_time.await {
                return None;
            }
            if let Some(room) = self.reserve_answer_memory() {
                return Some(room);
            }
        }
    }

    fn reserve_answer_memory(&self) -> Option<AnswerMemory> {
        let cql = self.cql.clone();
        // At most half of the limit is waited for: idle connections keep some bytes, so the whole limit is
        // hardly ever free.
        let expected = self.expected_bytes.get().min(cql.options.answer_bytes_max / 2);
        if self.is_ending() || self.outbound.borrow().pending_bytes() + expected <= ANSWER_BYTES_MAX_IN_NEED {
            return Some(AnswerMemory { cql, bytes: 0, page_bytes_max: u64::MAX });
        }
        let taken = cql.answer_bytes.get() + cql.expected_answer_bytes.get();
        // A single answer is allowed, however large.
        if taken == 0 || taken + expected <= cql.options.answer_bytes_max {
            cql.expected_answer_bytes.set(cql.expected_answer_bytes.get() + expected);
            return Some(AnswerMemory { cql, bytes: expected, page_bytes_max: u64::MAX });
        }
        let gets_short_page = self.requests_total.get() <= FIRST_REQUESTS || self.requests.get() == 1;
        gets_short_page.then_some(AnswerMemory { cql, bytes: 0, page_bytes_max: SHORT_PAGE_BYTES })
    }

    /// Appends an answer, which `append` writes as one envelope.
    pub fn answer(&self, append: impl FnOnce(&mut Vec<u8>)) {
        self.append(append, 1);
    }

    /// Appends a large answer, which `append` begins and `rest` ends.
    pub fn answer_streamed(&self, append: impl FnOnce(&mut Vec<u8>), rest: CellBlocks) {
        if self.closed.get() {
            return;
        }
        let mut outbound = self.outbound.borrow_mut();
        let was_taken = outbound.streamed_bytes() == 0;
        outbound.streamed(append, rest);
        let (now_us, bytes) = (self.cql.shard.now_us(), outbound.streamed_bytes() as u64);
        drop(outbound);
        self.taking.set(if was_taken {
            Taking::begin(now_us, bytes)
        } else {
            self.taking.get().with_more(bytes)
        });
        self.keeps_answers();
        self.send_soon();
    }

    /// Refuses a request at once. The refusals of a flood are sent when all received requests have been
    /// processed.
    fn refuse(&self, header: Header, refusing: &Refusing) {
        count(&refusing.level.counters.shed);
        session::count_error(self);
        self.append(|out| Reply::new(header.version, header.stream).error(out, &refusing.error), 0);
    }

    fn append(&self, append: impl FnOnce(&mut Vec<u8>), counts: u32) {
        let is_lost = broken::is("answer_sent") && self.requests_total.get().is_multiple_of(16);
        if !self.closed.get() && !is_lost {
            let mut outbound = self.outbound.borrow_mut();
            let before = outbound.pending_bytes();
            outbound.envelope(append);
            let bytes = outbound.pending_bytes() - before;
            drop(outbound);
            let expected = self.expected_bytes.get();
            self.expected_bytes.set(bytes.max(expected - expected / 8).max(LEAST_ANSWER_BYTES));
            self.keeps_answers();
            self.send_soon();
            let unsent = self.unsent_answers.get() + counts;
            self.unsent_answers.set(unsent);
            if unsent >= ANSWERS_A_WRITE && !self.is_blocked.get() {
                // The sending task gets the same error.
                let _ = self.try_send();
            }
        }
    }

    /// Wakes the sending task after the requests of this group that are ready now, so that one write sends
    /// all their answers. The sending task is of another group than the tasks of a service level, and would
    /// run between any two of them.
    fn send_soon(&self) {
        let group = self.cql.shard.current_group();
        match self.this.upgrade() {
            Some(this) if group != CpuGroup::Statement => {
                if !self.is_send_queued.replace(true) {
                    let signal = async move {
                        this.is_send_queued.set(false);
                        this.to_send.signal();
                    };
                    self.cql.shard.spawn(group, signal).detach();
                }
            }
            _ => self.to_send.signal(),
        }
    }

    /// Sends as much as possible without waiting; `None`: there is nothing to send.
    fn try_send(&self) -> Option<io::Result<usize>> {
        let mut outbound = self.outbound.borrow_mut();
        let ready = outbound.ready();
        if ready.is_empty() && !self.transport.has_unsent() {
            return None;
        }
        let sent = self.transport.try_write(ready);
        match &sent {
            Ok(sent) => {
                self.unsent_answers.set(0);
                self.is_blocked.set(false);
                self.is_active();
                self.taking.set(self.taking.get().took(*sent as u64));
                outbound.sent(*sent);
                drop(outbound);
                self.release_outbound();
            }
            Err(_) => {
                if !self.is_blocked.replace(true) {
                    // Until now the requests in flight counted as activity.
                    self.is_active();
                }
            }
        }
        Some(sent)
    }

    /// Frees the memory of sent answers, unless more answers are expected soon.
    fn release_outbound(&self) {
        let mut outbound = self.outbound.borrow_mut();
        let is_busy = self.requests.get() > 0 && !self.is_in_need();
        if !is_busy && outbound.pending_bytes() == 0 && outbound.memory_bytes() > IDLE_BYTES_MAX {
            outbound.release_memory();
        }
    }

    /// Like [`Self::answer`]; later envelopes are framed as STARTUP agreed.
    pub fn answer_startup(&self, append: impl FnOnce(&mut Vec<u8>), started: session::Started) {
        let mut outbound = self.outbound.borrow_mut();
        outbound.envelope(append);
        outbound.started(started.0, started.1);
        self.to_send.signal();
    }

    /// Sends an event to the client if it registered for its type.
    pub fn push(&self, event: &Pushed) {
        let session = &self.session;
        if session.wants(event.event_type())
            && let Some(version) = session.version()
            // Events are dropped while the client takes no answers, so that they are not queued without
            // bound.
            && self.outbound.borrow().pending_bytes() < self.answer_bytes_max()
        {
            self.answer(|out| Reply::event(version, out, event));
        }
    }

    async fn send(self: Rc<Self>) {
        loop {
            let more = self.to_send.next();
            let sent = self.try_send();
            self.keeps_answers();
            match sent {
                None if self.closing.get() || self.closed.get() => break,
                None => {
                    self.release_outbound();
                    self.keeps_answers();
                    more.await;
                }
                Some(Ok(_)) => self.relieved.signal(),
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.becomes_writable().await {
                        break;
                    }
                    self.is_blocked.set(false);
                }
                Some(Err(_)) => break,
            }
        }
        self.close();
    }

    /// Waits until the socket is writable; `false`: the client takes its large answers too slowly.
    async fn becomes_writable(&self) -> bool {
        let mut writable = pin!(self.transport.writable());
        loop {
            let large_bytes = self.outbound.borrow().streamed_bytes();
            if large_bytes == 0 {
                writable.await;
                return true;
            }
            let (now_us, period_us) = (self.cql.shard.now_us(), self.cql.runtime.timeouts.get().write_us);
            let others_wait = self.cql.result_memory.large_waiting() > 0;
            let mut taking = self.taking.get();
            let admission = taking.judge(now_us, period_us, others_wait);
            self.taking.set(taking);
            let left_us = match admission {
                TakingVerdict::WaitUs(left_us) => left_us,
                TakingVerdict::TooSlow { taken_bytes, least_bytes } => {
                    warn!(
                        target: "cql",
                        "closing the connection of {}: it took {taken_bytes} bytes of a large answer in {} ms \
                         (write_request_timeout), less than {least_bytes}, while other results wait for memory; \
                         {large_bytes} bytes are lost",
                        self.peer_addr(),
                        period_us / 1000
                    );
                    return false;
                }
            };
            let mut alarm = pin!(self.cql.shard.sleep_us(left_us));
            let is_writable = poll_fn(|context| match writable.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => alarm.as_mut().poll(context).map(|()| false),
            });
            if is_writable.await {
                return true;
            }
        }
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

    /// The row of this connection in `system_views.clients`.
    pub fn client_info(&self) -> ClientInfo {
        let (driver_name, driver_version) = self.session.driver.borrow().clone().unzip();
        ClientInfo {
            address: self.peer_addr().ip(),
            port: self.peer_addr().port(),
            protocol_version: self.session.version().map_or(0, |version| version.number()),
            requests: self.requests_total.get(),
            username: self.session.user().map_or("anonymous".to_string(), |user| user.name.to_string()),
            driver_name,
            driver_version,
            shard: self.cql.shard.id(),
            stage: self.session.stage_name(),
            options: self.session.options.borrow().clone(),
            keyspace: self.session.keyspace().map(|keyspace| keyspace.to_string()),
            tls: self.transport.tls_parameters(),
        }
    }

    /// Registers for events.
    pub fn register(&self, events: &[EventType]) {
        self.session.register(events);
    }
}
