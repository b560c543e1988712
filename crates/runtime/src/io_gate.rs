//! Where reads and writes wait for their turn: a shard's queue before the disk, with tasks that wait.
//!
//! A request that finds nobody waiting and time left passes without having waited. The run loop calls `dispatch` once a
//! turn if somebody waits, and wakes up for it (`wake_at_ns`). A pass that is dropped ends its request.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use iosched::{Direction, IoQueue, Ticket};

use crate::group::{CpuGroup, GROUPS_MAX, IoClass};
use crate::queue::LocalQueue;

pub(crate) enum State {
    Waiting(Option<Waker>),
    Granted(Ticket),
    /// The future is gone, or has its ticket.
    Over,
}

pub(crate) type Waiter = Rc<RefCell<State>>;

/// The gate of one shard.
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

    /// The longest request that passes whole.
    pub(crate) fn request_bytes_max(&self, direction: Direction) -> usize {
        self.queue.borrow().disk().request_bytes_max(direction) as usize
    }

    /// Waits for the turn of a request of `bytes`; at most [`IoGate::request_bytes_max`].
    pub(crate) fn enter(self: &Rc<Self>, class: IoClass, direction: Direction, bytes: usize) -> Enter {
        let (class, bytes, now_ns) = (class.index(), bytes as u64, self.local.now_ns());
        let mut queue = self.queue.borrow_mut();
        let state = match queue.start(class, direction, bytes, now_ns) {
            Some(ticket) => Entering::AtOnce(ticket),
            None => {
                let waiter: Waiter = Rc::new(RefCell::new(State::Waiting(None)));
                queue.push(class, direction, bytes, now_ns, Rc::clone(&waiter));
                Entering::Queued(waiter)
            }
        };
        drop(queue);
        Enter { gate: Rc::clone(self), state }
    }

    /// Lets those go whose turn has come; how many.
    pub(crate) fn dispatch(&self) -> usize {
        let now_ns = self.local.now_ns();
        let mut granted = 0;
        loop {
            let next = self.queue.borrow_mut().next(now_ns);
            let Some((waiter, ticket)) = next else { return granted };
            granted += 1;
            let before = waiter.replace(State::Over);
            match before {
                State::Waiting(waker) => {
                    waiter.replace(State::Granted(ticket));
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                State::Granted(_) | State::Over => self.queue.borrow_mut().complete(ticket, now_ns),
            }
        }
    }

    /// When `dispatch` must be called at the latest.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.queue.borrow().wake_at_ns()
    }

    /// Shares by number of the group.
    pub(crate) fn set_shares(&self, shares: impl Fn(usize) -> u32) {
        let mut queue = self.queue.borrow_mut();
        (0..GROUPS_MAX).for_each(|index| queue.set_shares(index, shares(index)));
    }

    pub(crate) fn reset(&self, group: CpuGroup) {
        self.queue.borrow_mut().reset_stats(group.index());
    }

    fn complete(&self, ticket: Ticket) {
        self.queue.borrow_mut().complete(ticket, self.local.now_ns());
    }
}

enum Entering {
    AtOnce(Ticket),
    Queued(Waiter),
    Over,
}

/// See [`IoGate::enter`].
pub(crate) struct Enter {
    gate: Rc<IoGate>,
    state: Entering,
}

impl Future for Enter {
    type Output = Pass;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Pass> {
        let ticket = match std::mem::replace(&mut self.state, Entering::Over) {
            Entering::AtOnce(ticket) => ticket,
            Entering::Queued(waiter) => match waiter.replace(State::Over) {
                State::Granted(ticket) => ticket,
                State::Waiting(_) => {
                    waiter.replace(State::Waiting(Some(context.waker().clone())));
                    self.state = Entering::Queued(waiter);
                    return Poll::Pending;
                }
                State::Over => unreachable!("who waits is granted once"),
            },
            Entering::Over => unreachable!("a future is not polled after its end"),
        };
        Poll::Ready(Pass { gate: Rc::clone(&self.gate), ticket: Some(ticket) })
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        let ticket = match std::mem::replace(&mut self.state, Entering::Over) {
            Entering::AtOnce(ticket) => Some(ticket),
            Entering::Queued(waiter) => match waiter.replace(State::Over) {
                State::Granted(ticket) => Some(ticket),
                State::Waiting(_) | State::Over => None,
            },
            Entering::Over => None,
        };
        if let Some(ticket) = ticket {
            self.gate.complete(ticket);
        }
    }
}

/// The right to one request. The disk counts it as under way until this is dropped.
pub(crate) struct Pass {
    gate: Rc<IoGate>,
    ticket: Option<Ticket>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.gate.complete(ticket);
        }
    }
}
