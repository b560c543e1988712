//! Simulated network: listeners by address, and connections of two pipes each.
//!
//! Written bytes are in transit for the latency of an operation and arrive in order, in pieces of any size.
//! The end of a direction follows its last byte. A side that closes with unread bytes, or to which its peer
//! writes after it has closed, breaks the connection. Bytes in transit are then lost, bytes that have arrived
//! can be read, and afterwards both ends get ECONNRESET, as in TCP.
//!
//! A side may also vanish: its peer gets neither the end nor an error, and no system takes what it writes.
//! The peer's system breaks the connection when keepalive has had no answer, if nothing was in transit, and
//! otherwise after [`FaultPlan::net_gives_up_us`].
//!
//! A connection is protected by a lock because its ends may be sent between shards; there is only one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;

use super::backend::{begin, os_error};
use super::faults::{FaultPlan, chance};
use super::world::World;
use crate::shard::backend::{BackendListener, BackendStream, End, Op};
use crate::shard::net::{KEEPALIVE_PROBES, ListenOptions};

/// Default capacity of a pipe in bytes, for bytes in transit and unread.
const PIPE_BYTES: usize = 64 << 10;

/// The first port that the network assigns.
const FIRST_FREE_PORT: u16 = 32_768;

/// The listeners by address, of all nodes of a world.
#[derive(Default)]
pub(crate) struct Network {
    listeners: BTreeMap<SocketAddr, Vec<Weak<Listening>>>,
    ports_taken: u16,
}

impl Network {
    fn free_port(&mut self) -> u16 {
        let port = FIRST_FREE_PORT + self.ports_taken;
        self.ports_taken = (self.ports_taken + 1) % (u16::MAX - FIRST_FREE_PORT);
        port
    }

    fn at(&self, addr: SocketAddr) -> Vec<Rc<Listening>> {
        let listeners = self.listeners.get(&addr).into_iter().flatten();
        listeners.filter_map(Weak::upgrade).filter(|listening| !listening.closed.get()).collect()
    }

    /// The listeners that get connections to `addr`: those of the address itself, otherwise those of the
    /// unspecified address.
    fn reached_by(&self, addr: SocketAddr) -> Vec<Rc<Listening>> {
        let exactly = self.at(addr);
        if exactly.is_empty() { self.at(unspecified(addr)) } else { exactly }
    }
}

fn unspecified(addr: SocketAddr) -> SocketAddr {
    let ip = if addr.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
    };
    SocketAddr::new(ip, addr.port())
}

/// One direction of a connection.
struct Pipe {
    on_its_way: VecDeque<u8>,
    arrived: VecDeque<u8>,
    /// Whether an operation that delivers bytes is in flight.
    delivering: bool,
    /// Whether no further bytes will be written.
    ended: bool,
    /// Whether the reading end is closed.
    unread: bool,
    capacity: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new() -> Self {
        Self {
            on_its_way: VecDeque::new(),
            arrived: VecDeque::new(),
            delivering: false,
            ended: false,
            unread: false,
            capacity: PIPE_BYTES,
            reader: None,
            writer: None,
        }
    }

    fn held(&self) -> usize {
        self.on_its_way.len() + self.arrived.len()
    }

    fn is_at_end(&self) -> bool {
        self.ended && self.held() == 0
    }
}

/// A connection; side 0 connected, side 1 accepted. A side writes to the pipe of its number.
struct Link {
    pipes: [Pipe; 2],
    broken: bool,
    /// Whether a side has closed without notifying its peer.
    vanished: [bool; 2],
    /// Microseconds after which a side probes an idle connection.
    keepalive_us: [Option<u64>; 2],
}

impl Link {
    fn new() -> Self {
        let pipes = [Pipe::new(), Pipe::new()];
        Self { pipes, broken: false, vanished: [false; 2], keepalive_us: [None; 2] }
    }

    fn break_off(&mut self, wake: &mut Vec<Waker>) {
        self.broken = true;
        for pipe in &mut self.pipes {
            pipe.on_its_way.clear();
            wake.extend(pipe.reader.take());
            wake.extend(pipe.writer.take());
        }
    }
}

/// One side of a connection. Dropping it closes the side.
struct SimEnd {
    link: Arc<Mutex<Link>>,
    side: usize,
    addr: SocketAddr,
}

fn locked(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    // There is one thread, and a panic ends the world.
    link.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes a connection under its lock, and afterwards wakes the wakers that `work` has collected.
fn change<T>(link: &Mutex<Link>, work: impl FnOnce(&mut Link, &mut Vec<Waker>) -> T) -> T {
    let mut wake = Vec::new();
    let result = work(&mut locked(link), &mut wake);
    for waker in wake {
        waker.wake();
    }
    result
}

impl SimEnd {
    fn end_writing(&self) {
        change(&self.link, |link, wake| {
            let pipe = &mut link.pipes[self.side];
            pipe.ended = true;
            wake.extend(pipe.writer.take());
            if pipe.held() == 0 {
                wake.extend(pipe.reader.take());
            }
        });
    }
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        if locked(&self.link).vanished[self.side] {
            return;
        }
        change(&self.link, |link, wake| {
            let coming = &mut link.pipes[1 - self.side];
            coming.unread = true;
            if coming.held() > 0 {
                link.break_off(wake);
            }
        });
        self.end_writing();
    }
}

/// Delivers bytes of a pipe after a delay, repeatedly until none is in transit.
fn deliver(world: &World, link: &Arc<Mutex<Link>>, side: usize) {
    let link = Arc::clone(link);
    world.begin(
        None,
        Box::new(move |world| {
            let more = change(&link, |link, wake| {
                if link.broken {
                    return false;
                }
                if link.vanished[1 - side] {
                    // Nobody takes the bytes; they stay in the buffer of the side that wrote them.
                    link.pipes[side].delivering = false;
                    return false;
                }
                let mut rng = world.rng.borrow_mut();
                if link.pipes[side].unread || chance(&mut rng, world.faults.borrow().net_reset) {
                    link.break_off(wake);
                    return false;
                }
                let pipe = &mut link.pipes[side];
                let all = pipe.on_its_way.len();
                let count = if all < 2 || rng.chance(1, 2) { all } else { 1 + rng.index(all) };
                pipe.arrived.extend(pipe.on_its_way.drain(..count));
                wake.extend(pipe.reader.take());
                pipe.delivering = count < all;
                pipe.delivering
            });
            if more {
                deliver(world, &link, side);
            }
        }),
    );
}

/// Breaks the connection for `side`, whose peer has vanished, when its system notices that.
fn notice_later(world: &World, link: &Arc<Mutex<Link>>, side: usize) {
    let Some(keepalive_us) = locked(link).keepalive_us[side] else { return };
    let link = Arc::clone(link);
    let noticed = move |world: &World| {
        let has_unacknowledged = !locked(&link).pipes[side].on_its_way.is_empty();
        if has_unacknowledged {
            let gives_up_us = world.faults.borrow().net_gives_up_us;
            world.after(gives_up_us, Box::new(move |_| change(&link, Link::break_off)));
        } else {
            change(&link, Link::break_off);
        }
    };
    world.after(keepalive_us * u64::from(1 + KEEPALIVE_PROBES), Box::new(noticed));
}

/// The state that a listener shares with the clients that connect to it.
struct Listening {
    waiting: RefCell<VecDeque<(SimEnd, SocketAddr)>>,
    acceptor: RefCell<Option<Waker>>,
    backlog: usize,
    reuse_port: bool,
    closed: Cell<bool>,
}

pub(super) fn listen(
    world: &World,
    addr: SocketAddr,
    options: &ListenOptions,
) -> io::Result<Box<dyn BackendListener>> {
    let network = &mut *world.network.borrow_mut();
    let port = if addr.port() == 0 { network.free_port() } else { addr.port() };
    let addr = SocketAddr::new(addr.ip(), port);
    let others = network.reached_by(addr);
    if others.iter().any(|other| !(other.reuse_port && options.reuse_port)) {
        return Err(os_error(Errno::ADDRINUSE));
    }
    let listening = Rc::new(Listening {
        waiting: RefCell::default(),
        acceptor: RefCell::default(),
        backlog: options.backlog.max(1) as usize,
        reuse_port: options.reuse_port,
        closed: Cell::new(false),
    });
    let here = network.listeners.entry(addr).or_default();
    here.retain(|other| other.strong_count() > 0);
    here.push(Rc::downgrade(&listening));
    Ok(Box::new(SimListener { listening, addr }))
}

/// Connects to a listener. A full backlog ends in a timeout, as no answer arrives.
pub(super) fn connect(world: &Rc<World>, addr: SocketAddr) -> Op<io::Result<Box<dyn BackendStream>>> {
    let shared = Rc::clone(world);
    begin(world, move |world| {
        let reached = world.network.borrow().reached_by(addr);
        if reached.is_empty() {
            return Err(os_error(Errno::CONNREFUSED));
        }
        let listening =
            &reached[if reached.len() == 1 { 0 } else { world.rng.borrow_mut().index(reached.len()) }];
        if listening.waiting.borrow().len() >= listening.backlog {
            return Err(os_error(Errno::TIMEDOUT));
        }
        let from = SocketAddr::new(addr.ip(), world.network.borrow_mut().free_port());
        let link = Arc::new(Mutex::new(Link::new()));
        let accepted = SimEnd { link: Arc::clone(&link), side: 1, addr };
        listening.waiting.borrow_mut().push_back((accepted, from));
        let waker = listening.acceptor.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        let end = SimEnd { link, side: 0, addr: from };
        Ok(Box::new(SimStream { world: shared, end }) as Box<dyn BackendStream>)
    })
}

pub(super) fn adopt(world: &Rc<World>, end: End) -> Box<dyn BackendStream> {
    let end = end.downcast::<SimEnd>().expect("a connection is adopted in the world that accepted it");
    Box::new(SimStream { world: Rc::clone(world), end: *end })
}

struct SimListener {
    listening: Rc<Listening>,
    addr: SocketAddr,
}

impl BackendListener for SimListener {
    fn try_accept(&self) -> io::Result<(End, SocketAddr)> {
        let next = self.listening.waiting.borrow_mut().pop_front();
        let (end, peer_addr) = next.ok_or(io::ErrorKind::WouldBlock)?;
        Ok((Box::new(end), peer_addr))
    }

    fn poll_acceptable(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.listening.closed.get() || !self.listening.waiting.borrow().is_empty() {
            return Poll::Ready(());
        }
        let earlier = self.listening.acceptor.replace(Some(context.waker().clone()));
        drop(earlier);
        Poll::Pending
    }

    fn close(&self) {
        self.listening.closed.set(true);
        let refused = self.listening.waiting.take();
        for (end, _peer_addr) in &refused {
            change(&end.link, Link::break_off);
        }
        drop(refused);
        if let Some(waker) = self.listening.acceptor.take() {
            waker.wake();
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.close();
    }
}

struct SimStream {
    world: Rc<World>,
    end: SimEnd,
}

impl SimStream {
    /// The number of bytes that this transfer moves, of `len`.
    fn moved(&self, len: usize) -> usize {
        self.world.faults.borrow().moved(&mut self.world.rng.borrow_mut(), len)
    }

    /// Closes this side without notifying the peer, by chance; returns whether it did.
    fn vanishes(&self) -> bool {
        let FaultPlan { net_silent_close, net_vanish, .. } = *self.world.faults.borrow();
        let vanishes = {
            let mut rng = self.world.rng.borrow_mut();
            chance(&mut rng, net_silent_close) || (self.end.side == 0 && chance(&mut rng, net_vanish))
        };
        if vanishes {
            change(&self.end.link, |link, wake| {
                link.vanished[self.end.side] = true;
                wake.extend(link.pipes[1 - self.end.side].reader.take());
                wake.extend(link.pipes[self.end.side].writer.take());
            });
            notice_later(&self.world, &self.end.link, 1 - self.end.side);
        }
        vanishes
    }

    fn poll(
        &self,
        context: &mut Context<'_>,
        look: impl FnOnce(&mut Link) -> (bool, &mut Option<Waker>),
    ) -> Poll<()> {
        let mut link = locked(&self.end.link);
        let broken = link.broken || link.vanished[self.end.side];
        let (ready, waiting) = look(&mut link);
        if broken || ready {
            return Poll::Ready(());
        }
        let earlier = waiting.replace(context.waker().clone());
        drop(link);
        drop(earlier);
        Poll::Pending
    }
}

impl BackendStream for SimStream {
    fn try_read(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        change(&self.end.link, |link, wake| {
            let broken = link.broken;
            let has_vanished = link.vanished[self.end.side];
            let pipe = &mut link.pipes[1 - self.end.side];
            if into.is_empty() || pipe.unread || has_vanished {
                return Ok(0);
            }
            let there = pipe.arrived.len().min(into.len());
            if there == 0 {
                return match (broken, pipe.is_at_end()) {
                    (true, _) => Err(os_error(Errno::CONNRESET)),
                    (false, true) => Ok(0),
                    (false, false) => Err(io::ErrorKind::WouldBlock.into()),
                };
            }
            let count = self.moved(there);
            for (place, byte) in into.iter_mut().zip(pipe.arrived.drain(..count)) {
                place.write(byte);
            }
            wake.extend(pipe.writer.take());
            Ok(count)
        })
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let (put, begins) = change(&self.end.link, |link, _wake| {
            let broken = link.broken || link.vanished[self.end.side];
            let pipe = &mut link.pipes[self.end.side];
            if broken || pipe.ended {
                return Err(os_error(Errno::PIPE));
            }
            let room = pipe.capacity.saturating_sub(pipe.held()).min(len);
            if room == 0 && len > 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let put = self.moved(room);
            let bytes = parts.iter().flat_map(|part| part.iter().copied());
            pipe.on_its_way.extend(bytes.take(put));
            let begins = put > 0 && !std::mem::replace(&mut pipe.delivering, true);
            Ok((put, begins))
        })?;
        if begins {
            deliver(&self.world, &self.end.link, self.end.side);
        }
        Ok(put)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll(context, |link| {
            let pipe = &mut link.pipes[1 - self.end.side];
            (!pipe.arrived.is_empty() || pipe.is_at_end() || pipe.unread, &mut pipe.reader)
        })
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll(context, |link| {
            let pipe = &mut link.pipes[self.end.side];
            (pipe.held() < pipe.capacity || pipe.ended, &mut pipe.writer)
        })
    }

    fn shutdown(&self, reading_too: bool) -> io::Result<()> {
        if locked(&self.end.link).vanished[self.end.side] || (reading_too && self.vanishes()) {
            return Ok(());
        }
        self.end.end_writing();
        if reading_too {
            change(&self.end.link, |link, wake| {
                let coming = &mut link.pipes[1 - self.end.side];
                coming.unread = true;
                wake.extend(coming.reader.take());
            });
        }
        Ok(())
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.end.addr)
    }

    fn set_nodelay(&self, _nodelay: bool) -> io::Result<()> {
        Ok(())
    }

    fn set_keepalive(&self, after_s: Option<u32>) -> io::Result<()> {
        let side = self.end.side;
        let keepalive_us = after_s.map(|s| u64::from(s) * 1_000_000);
        locked(&self.end.link).keepalive_us[side] = keepalive_us;
        if locked(&self.end.link).vanished[1 - side] {
            notice_later(&self.world, &self.end.link, side);
        }
        Ok(())
    }

    /// Sets the buffer of the direction that this end writes.
    fn set_buffer_bytes(&self, bytes: u32) -> io::Result<()> {
        locked(&self.end.link).pipes[self.end.side].capacity = (bytes as usize).max(1);
        Ok(())
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if !locked(&self.end.link).vanished[self.end.side] {
            self.vanishes();
        }
    }
}
