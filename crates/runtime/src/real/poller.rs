//! Readiness of a shard's sockets: one epoll instance, polled once per turn.
//!
//! A socket is registered once, edge-triggered, for both directions. A report of epoll is kept in the
//! socket's [`Source`] until a system call returns that it would block, so a task that waits checks this
//! state and makes no system call. A sleeping shard is woken through the descriptor of the epoll instance,
//! which every reactor watches.
//!
//! Closing a socket removes it from the epoll instance. If a report is still pending, the changed generation
//! of its entry causes the report to be ignored.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// The most reports that are fetched at once.
const EVENTS_MAX: usize = 512;

const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
/// The peer sends no more: a read always succeeds, at least with the end of the stream.
const ENDED: u8 = 4;

/// Known readiness of one socket, and the tasks that wait for it.
pub(crate) struct Source {
    ready: Cell<u8>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

impl Source {
    fn add(&self, ready: u8) {
        self.ready.set(self.ready.get() | ready);
        let wake = |flags, waiting: &RefCell<Option<Waker>>| {
            if ready & flags != 0
                && let Some(waker) = waiting.take()
            {
                waker.wake();
            }
        };
        wake(READABLE, &self.reader);
        wake(WRITABLE, &self.writer);
    }

    fn poll(&self, flag: u8, waiting: &RefCell<Option<Waker>>, context: &mut Context<'_>) -> Poll<()> {
        if self.ready.get() & flag != 0 {
            return Poll::Ready(());
        }
        let mut waiting = waiting.borrow_mut();
        let known = waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        let earlier = if known { None } else { waiting.replace(context.waker().clone()) };
        drop(waiting);
        drop(earlier);
        Poll::Pending
    }

    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll(READABLE, &self.reader, context)
    }

    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll(WRITABLE, &self.writer, context)
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.ready.get() & READABLE != 0
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.ready.get() & WRITABLE != 0
    }

    /// Records that a read would block; epoll reports the next event.
    pub(crate) fn emptied(&self) {
        self.ready.set(self.ready.get() & !(READABLE | ENDED));
    }

    /// Records that a read returned all bytes; epoll reports the next ones. The end may have been reported
    /// already and is kept.
    pub(crate) fn drained(&self) {
        if self.ready.get() & ENDED == 0 {
            self.ready.set(self.ready.get() & !READABLE);
        }
    }

    /// Records that a write would block; epoll reports when the socket is writable again.
    pub(crate) fn filled(&self) {
        self.ready.set(self.ready.get() & !WRITABLE);
    }

    /// Wakes all waiting tasks.
    pub(crate) fn end(&self) {
        self.add(READABLE | WRITABLE | ENDED);
    }
}

struct Entry {
    generation: u32,
    source: Option<Rc<Source>>,
}

#[derive(Default)]
struct Entries {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Entries {
    fn insert(&mut self, source: Rc<Source>) -> (u32, u32) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, source: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[number as usize];
        entry.source = Some(source);
        (number, entry.generation)
    }

    fn remove(&mut self, number: u32) -> Option<Rc<Source>> {
        let entry = &mut self.entries[number as usize];
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(number);
        entry.source.take()
    }

    fn get(&self, key: u64) -> Option<Rc<Source>> {
        let entry = self.entries.get(key as u32 as usize)?;
        if entry.generation == (key >> 32) as u32 { entry.source.clone() } else { None }
    }

    fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }
}

/// The epoll instance of one shard.
pub(crate) struct Poller {
    epoll: OwnedFd,
    entries: RefCell<Entries>,
    events: RefCell<Vec<epoll::Event>>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, entries: RefCell::default(), events: RefCell::default() })
    }

    /// A descriptor that is readable when a socket has an event.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// The same descriptor, borrowed.
    pub(crate) fn borrowed_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Watches a socket until the result is dropped. The socket counts as writable; epoll reports at once
    /// whether it is readable.
    pub(crate) fn register(self: &Rc<Self>, fd: BorrowedFd<'_>) -> io::Result<Registered> {
        let source = Rc::new(Source {
            ready: Cell::new(WRITABLE),
            reader: RefCell::default(),
            writer: RefCell::default(),
        });
        let (number, generation) = self.entries.borrow_mut().insert(Rc::clone(&source));
        let registered = Registered { poller: Rc::clone(self), number, source };
        let wanted = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let key = u64::from(generation) << 32 | u64::from(number);
        epoll::add(&self.epoll, fd, EventData::new_u64(key), wanted)?;
        Ok(registered)
    }

    /// Processes pending events of the kernel; returns the number of sockets with an event.
    pub(crate) fn poll(&self) -> usize {
        if self.entries.borrow().is_empty() {
            return 0;
        }
        let mut events = self.events.take();
        events.reserve(EVENTS_MAX);
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let into = rustix::buffer::spare_capacity(&mut events);
        let got = match epoll::wait(&self.epoll, into, Some(&no_wait)) {
            Ok(got) => got,
            Err(Errno::INTR) => 0,
            Err(error) => panic!("epoll_wait gives no reports: {error}"),
        };
        for event in events.drain(..) {
            let (flags, key) = (event.flags, event.data.u64());
            let Some(source) = self.entries.borrow().get(key) else { continue };
            let mut ready = 0;
            if flags.contains(EventFlags::IN) {
                ready |= READABLE;
            }
            if flags.contains(EventFlags::OUT) {
                ready |= WRITABLE;
            }
            if flags.contains(EventFlags::RDHUP) {
                ready |= READABLE | ENDED;
            }
            if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
                ready |= READABLE | WRITABLE | ENDED;
            }
            source.add(ready);
        }
        self.events.replace(events);
        got
    }
}

/// Registration of a socket with the poller.
pub(crate) struct Registered {
    poller: Rc<Poller>,
    number: u32,
    pub(crate) source: Rc<Source>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let source = self.poller.entries.borrow_mut().remove(self.number);
        drop(source);
    }
}
