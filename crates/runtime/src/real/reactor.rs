//! Interface of the I/O back ends: passes reads, writes and syncs of one shard to the kernel, and puts the
//! shard to sleep.
//!
//! There are three implementations: `uring`, `aio`, `threads`. An operation owns its buffer and its
//! descriptor until the kernel has finished with both. A task that waits holds only a slot, and may be
//! dropped.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::buf::IoBuf;
use crate::shard::backend::{Op, Transferred};
use crate::shard::io_gate::Pass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferKind {
    Read,
    Write,
    SyncData,
}

/// One operation for the kernel, on `len` bytes of the memory of `buf` from byte `at` on.
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
    /// The address at which the kernel reads or writes. The memory does not move while the operation owns the
    /// buffer.
    pub(crate) fn memory(&mut self) -> *mut u8 {
        assert!(self.at + self.len <= self.buf.capacity(), "a transfer stays inside its buffer");
        self.buf.raw_at(self.at)
    }
}

pub(crate) trait Reactor {
    /// Accepts an operation, which may wait for `push`. `pass` is finished when the kernel has completed it.
    fn submit(&self, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred>;
    /// The number of accepted operations that wait for `push`.
    fn waiting(&self) -> usize;
    /// Submits the accepted operations to the kernel.
    fn push(&self);
    /// Delivers the results of completed operations; returns their number.
    fn reap(&self) -> usize;
    /// Whether `reap` would find a completion, as far as is known without a system call.
    fn has_completed(&self) -> bool {
        false
    }
    /// Lets `has_completed` also report the next event of a socket, once.
    fn watch_sockets(&self) {}
    /// Sleeps until an operation completes, the doorbell rings, a socket has an event or the timeout passes.
    /// May return early.
    fn park(&self, timeout_us: Option<u64>);
    /// The number of operations whose memory the kernel still uses.
    fn in_flight(&self) -> usize;
}

/// The result of an operation that is refused without a system call.
pub(crate) fn refused(transfer: Transfer, pass: Option<Pass>, error: io::Error) -> Op<Transferred> {
    let moved = Err(error);
    if let Some(pass) = pass {
        pass.finish(&moved);
    }
    Box::pin(std::future::ready((transfer.buf, moved)))
}

/// Place where one waiting task finds the result of one operation.
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

/// Waits for the result in a slot.
pub(crate) struct SlotFuture(pub(crate) Rc<Slot>);

impl Future for SlotFuture {
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

/// Operations in flight, by number.
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
