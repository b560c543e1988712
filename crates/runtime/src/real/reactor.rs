//! What carries reads, writes and syncs of one shard to the kernel, and puts the shard to sleep.
//!
//! Three ways: `uring`, `aio`, `threads`. An operation owns its buffer and its descriptor until the kernel is done
//! with both; whoever waits holds only a slot, and may go away.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::backend::{Op, Transferred};
use crate::buf::IoBuf;
use crate::io_gate::Pass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferKind {
    Read,
    Write,
    SyncData,
}

/// One operation for the kernel: `len` bytes of the memory of `buf` from byte `at` on.
pub(crate) struct Transfer {
    pub(crate) kind: TransferKind,
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) direct: bool,
    pub(crate) buf: IoBuf,
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) offset_bytes: u64,
}

impl Transfer {
    /// Where the kernel reads or writes. The memory does not move while the buffer is owned by the operation.
    pub(crate) fn memory(&mut self) -> *mut u8 {
        assert!(self.at + self.len <= self.buf.capacity(), "a transfer stays inside its buffer");
        self.buf.raw_at(self.at)
    }
}

pub(crate) trait Reactor {
    /// Takes an operation on; it may wait for `push`. `pass` is finished when the kernel is done with it.
    fn submit(&self, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred>;
    /// How many operations were taken on and wait for `push`.
    fn waiting(&self) -> usize;
    /// Gives the kernel what was taken on.
    fn push(&self);
    /// Hands out what has completed; returns how much.
    fn reap(&self) -> usize;
    /// Whether `reap` would find something, as far as can be told without a system call.
    fn has_completed(&self) -> bool {
        false
    }
    /// From now on `has_completed` also says whether a socket has something to report, until it has said so once.
    fn watch_sockets(&self) {}
    /// Sleeps until something completes, the doorbell rings, a socket has something to report or the time
    /// is over. May return early.
    fn park(&self, timeout_us: Option<u64>);
    /// Operations that the kernel still holds memory of.
    fn in_flight(&self) -> usize;
}

/// The outcome of an operation that the kernel is not asked for.
pub(crate) fn refused(transfer: Transfer, pass: Option<Pass>, error: io::Error) -> Op<Transferred> {
    let moved = Err(error);
    if let Some(pass) = pass {
        pass.finish(&moved);
    }
    Box::pin(std::future::ready((transfer.buf, moved)))
}

/// Where one waiter finds the outcome of one operation.
pub(crate) struct Slot {
    state: RefCell<(Option<Waker>, Option<Transferred>)>,
    pass: Cell<Option<Pass>>,
}

impl Slot {
    pub(crate) fn new(pass: Option<Pass>) -> Rc<Self> {
        Rc::new(Self { state: RefCell::default(), pass: Cell::new(pass) })
    }

    pub(crate) fn complete(&self, buf: IoBuf, moved: io::Result<usize>) {
        if let Some(pass) = self.pass.take() {
            pass.finish(&moved);
        }
        let waker = {
            let mut state = self.state.borrow_mut();
            state.1 = Some((buf, moved));
            state.0.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits at a slot.
pub(crate) struct AtSlot(pub(crate) Rc<Slot>);

impl Future for AtSlot {
    type Output = Transferred;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Transferred> {
        let mut state = self.0.state.borrow_mut();
        match state.1.take() {
            Some(transferred) => Poll::Ready(transferred),
            None => {
                state.0 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Operations under way, by number.
#[derive(Default)]
pub(crate) struct UnderWay {
    entries: Vec<Option<(Transfer, Rc<Slot>)>>,
    free: Vec<usize>,
}

impl UnderWay {
    pub(crate) fn insert(&mut self, transfer: Transfer, slot: Rc<Slot>) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.entries[number] = Some((transfer, slot));
                number
            }
            None => {
                self.entries.push(Some((transfer, slot)));
                self.entries.len() - 1
            }
        }
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Transfer {
        &mut self.entries[number].as_mut().expect("the operation is under way").0
    }

    pub(crate) fn remove(&mut self, number: usize) -> (Transfer, Rc<Slot>) {
        let entry = self.entries[number].take().expect("an operation completes once");
        self.free.push(number);
        entry
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
