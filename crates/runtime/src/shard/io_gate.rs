//! Asynchronous access to a shard's I/O queue: tasks wait here until the scheduler starts their reads and
//! writes.
//!
//! A request starts at once if no other request waits and the disk has time. It also starts at once if its
//! class precedes the waiting ones, as a read precedes a compaction. The run loop calls `dispatch` once per
//! turn if requests wait, and wakes up for it (`wake_at_ns`). `dispatch` hands a chosen request to the disk
//! itself: the task that requested it may be busy, or may wait for a request queued after this one. A request
//! counts as in flight until the back end returns its [`Pass`] with the number of bytes moved.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use iosched::{Completion, Direction, IoQueue, Ticket, WHOLE_BYTES};

use crate::group::{CpuGroup, GROUPS_MAX, IoClass};
use crate::shard::backend::{Op, Transferred};
use crate::shard::queue::LocalQueue;

/// Hands a request to the disk.
type Start = Box<dyn FnOnce(Pass) -> Op<Transferred>>;

pub(crate) enum State {
    /// A request that waits: the function that starts it, the unit in bytes of a file that bypasses the page
    /// cache, and the waker of the task.
    Waiting(Start, Option<usize>, Option<Waker>),
    Started(Op<Transferred>),
    /// The future was dropped, or has taken the started operation.
    Over,
}

pub(crate) type Waiter = Rc<RefCell<State>>;

/// Access to the I/O queue of one shard.
pub(crate) struct IoGate {
    queue: RefCell<IoQueue<Waiter>>,
    local: Rc<LocalQueue>,
}

impl IoGate {
    pub(crate) fn new(queue: IoQueue<Waiter>, local: Rc<LocalQueue>) -> Self {
        Self { queue: RefCell::new(queue), local }
    }

    pub(crate) fn queue(&self) -> &RefCell<IoQueue<Waiter>> {
        &self.queue
    }

    /// The length of the next part of a request of `bytes`, at most that.
    pub(crate) fn part_bytes(&self, class: IoClass, direction: Direction, bytes: usize) -> usize {
        if bytes <= WHOLE_BYTES as usize {
            return bytes;
        }
        let now_ns = self.local.now_ns();
        let part_max = self.queue.borrow().disk().request_bytes_contended(class.index(), direction, now_ns);
        bytes.min(part_max as usize)
    }

    /// Starts a request of `bytes`, at most [`IoGate::part_bytes`], when the scheduler chooses it, and waits
    /// for its completion. A file that bypasses the page cache is read and written in whole units of
    /// `unit_bytes`.
    pub(crate) fn run(
        self: &Rc<Self>,
        class: IoClass,
        direction: Direction,
        bytes: usize,
        unit_bytes: Option<usize>,
        start: impl FnOnce(Pass) -> Op<Transferred> + 'static,
    ) -> Running {
        let (class, bytes, now_ns) = (class.index(), bytes as u64, self.local.now_ns());
        let ticket = self.queue.borrow_mut().start(class, direction, bytes, now_ns);
        match ticket {
            Some(ticket) => Running::Started(start(self.pass(ticket, unit_bytes))),
            None => {
                let waiting = State::Waiting(Box::new(start), unit_bytes, None);
                let waiter: Waiter = Rc::new(RefCell::new(waiting));
                self.queue.borrow_mut().push(class, direction, bytes, now_ns, Rc::clone(&waiter));
                self.dispatch();
                Running::Queued(waiter)
            }
        }
    }

    /// Calls `write`, which writes `bytes` bytes within the call or returns `None`, if the scheduler lets
    /// such a request start at once.
    pub(crate) fn write_at_once(
        &self,
        class: IoClass,
        bytes: usize,
        write: impl FnOnce() -> Option<io::Result<usize>>,
    ) -> Option<io::Result<usize>> {
        let (bytes, now_ns) = (bytes as u64, self.local.now_ns());
        let ticket = self.queue.borrow_mut().start(class.index(), Direction::Write, bytes, now_ns)?;
        let moved = write();
        let completion = match &moved {
            None => Completion::Cancelled,
            Some(moved) => {
                Completion::Moved { bytes: *moved.as_ref().unwrap_or(&0) as u64, is_direct: false }
            }
        };
        self.complete(ticket, completion);
        moved
    }

    fn pass(self: &Rc<Self>, ticket: Ticket, unit_bytes: Option<usize>) -> Pass {
        Pass { gate: Rc::clone(self), ticket: Some(ticket), unit_bytes }
    }

    /// Starts the requests that may start now; returns their number.
    pub(crate) fn dispatch(self: &Rc<Self>) -> usize {
        let now_ns = self.local.now_ns();
        let mut granted = 0;
        loop {
            let next = self.queue.borrow_mut().next(now_ns);
            let Some((waiter, ticket)) = next else { return granted };
            granted += 1;
            match waiter.replace(State::Over) {
                State::Waiting(start, unit_bytes, waker) => {
                    waiter.replace(State::Started(start(self.pass(ticket, unit_bytes))));
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                // The task does not wait any more: the request is dropped and never reaches the disk.
                State::Started(_) | State::Over => self.complete(ticket, Completion::Cancelled),
            }
        }
    }

    /// The latest time for the next call of `dispatch`.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.queue.borrow().wake_at_ns()
    }

    /// Sets the shares of all classes; the argument is the number of the group.
    pub(crate) fn set_shares(&self, shares: impl Fn(usize) -> u32) {
        let mut queue = self.queue.borrow_mut();
        (0..GROUPS_MAX).for_each(|index| queue.set_shares(index, shares(index)));
    }

    pub(crate) fn reset(&self, group: CpuGroup) {
        self.queue.borrow_mut().reset_stats(group.index());
    }

    fn complete(&self, ticket: Ticket, completion: Completion) {
        self.queue.borrow_mut().complete(ticket, completion, self.local.now_ns());
    }
}

/// See [`IoGate::run`].
pub(crate) enum Running {
    Started(Op<Transferred>),
    Queued(Waiter),
}

impl Future for Running {
    type Output = Transferred;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Transferred> {
        if let Self::Queued(waiter) = &*self {
            let state = waiter.replace(State::Over);
            let started = match state {
                State::Started(op) => op,
                State::Waiting(start, unit_bytes, _) => {
                    waiter.replace(State::Waiting(start, unit_bytes, Some(context.waker().clone())));
                    return Poll::Pending;
                }
                State::Over => unreachable!("who waits is started once"),
            };
            *self = Self::Started(started);
        }
        let Self::Started(op) = &mut *self else { unreachable!("it was started above") };
        op.as_mut().poll(context)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Queued(waiter) = self {
            // Dropped outside of the cell, because its destructor may complete other requests.
            let before = waiter.replace(State::Over);
            drop(before);
        }
    }
}

/// The permission for one request. The request counts as in flight until this is finished or dropped.
pub(crate) struct Pass {
    gate: Rc<IoGate>,
    ticket: Option<Ticket>,
    unit_bytes: Option<usize>,
}

impl Pass {
    /// The disk has completed the request: `moved` bytes were transferred, in whole units except at the end
    /// of a file.
    pub(crate) fn finish(mut self, moved: &io::Result<usize>) {
        let bytes = moved.as_ref().map_or(0, |bytes| bytes.next_multiple_of(self.unit_bytes.unwrap_or(1)));
        self.end(bytes as u64);
    }

    fn end(&mut self, bytes: u64) {
        if let Some(ticket) = self.ticket.take() {
            let is_direct = self.unit_bytes.is_some();
            self.gate.complete(ticket, Completion::Moved { bytes, is_direct });
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        // The result is unknown: the requested number of bytes is counted as moved.
        self.end(u64::MAX);
    }
}
