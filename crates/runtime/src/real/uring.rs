//! io_uring: reads, writes and data syncs are put directly into the kernel's queue, with one system call per
//! turn.
//!
//! The ring is created on the shard's thread, with single issuer and deferred task work if the kernel
//! supports them, otherwise with fewer features. To sleep, the shard waits for one completion; the doorbell
//! and the sockets have a poll request each in the ring.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::calls;
use super::eventfd::EventFd;
use super::poller::Poller;
use super::reactor::{Reactor, Slot, SlotFuture, Transfer, TransferKind, UnderWay, refused};
use crate::shard::backend::{Op, Transferred};
use crate::shard::io_gate::Pass;

/// Entries of the submission queue; the completion queue has twice that number.
const ENTRIES: u32 = 256;

/// User data of the poll requests; operations are numbered from 0.
const DOORBELL: u64 = u64::MAX;
const SOCKETS: u64 = u64::MAX - 1;

pub(crate) struct Uring {
    ring: RefCell<IoUring>,
    under_way: RefCell<UnderWay>,
    /// Operations that were accepted but are not yet in the ring.
    backlog: RefCell<VecDeque<usize>>,
    in_ring: Cell<usize>,
    /// Whether the poll request of the doorbell is in the ring.
    hears_doorbell: Cell<bool>,
    /// Whether the poll request of the sockets is in the ring.
    hears_sockets: Cell<bool>,
    doorbell: EventFd,
    sockets: Rc<Poller>,
}

impl Uring {
    pub(crate) fn new(doorbell: EventFd, sockets: Rc<Poller>) -> io::Result<Self> {
        let ring = build()?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            let text = "the kernel's io_uring is too old: it cannot wait with a timeout (5.11 can)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self {
            ring: RefCell::new(ring),
            under_way: RefCell::default(),
            backlog: RefCell::default(),
            in_ring: Cell::new(0),
            hears_doorbell: Cell::new(false),
            hears_sockets: Cell::new(false),
            doorbell,
            sockets,
        })
    }

    /// Moves operations from the backlog into the ring as far as they fit; true if entries wait to be
    /// submitted.
    fn fill(&self, ring: &mut IoUring) -> bool {
        let room = ring.params().cq_entries() as usize - 1;
        let mut backlog = self.backlog.borrow_mut();
        let mut under_way = self.under_way.borrow_mut();
        let mut queue = ring.submission();
        while self.in_ring.get() < room && !queue.is_full() {
            let Some(number) = backlog.pop_front() else { break };
            let entry = entry(under_way.get_mut(number)).user_data(number as u64);
            // SAFETY: the buffer and the descriptor stay in `under_way` until the completion arrives.
            unsafe { queue.push(&entry) }.expect("the queue was not full");
            self.in_ring.set(self.in_ring.get() + 1);
        }
        !queue.is_empty()
    }

    /// Adds the poll requests that are not in the ring; true if both are.
    fn listen(&self, ring: &mut IoUring) -> bool {
        let sources = [
            (&self.hears_doorbell, self.doorbell.fd(), DOORBELL),
            (&self.hears_sockets, self.sockets.fd(), SOCKETS),
        ];
        for (hears, fd, user_data) in sources {
            if !hears.get() {
                let poll = opcode::PollAdd::new(Fd(fd), PollFlags::IN.bits().into()).build();
                // SAFETY: the descriptor is owned and outlives the ring.
                let pushed = unsafe { ring.submission().push(&poll.user_data(user_data)) };
                hears.set(pushed.is_ok());
            }
        }
        self.hears_doorbell.get() && self.hears_sockets.get()
    }
}

/// Whether the kernel accepts no more entries at the moment; the next turn tries again.
fn is_busy(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::TIME))
}

fn build() -> io::Result<IoUring> {
    let mut failed = None;
    let attempts: [fn(&mut io_uring::Builder); 3] = [
        |builder| {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        },
        |builder| {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        },
        |_builder| (),
    ];
    for attempt in attempts {
        let mut builder = IoUring::builder();
        builder.dontfork();
        attempt(&mut builder);
        match builder.build(ENTRIES) {
            Ok(ring) => return Ok(ring),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => failed = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(failed.expect("every attempt failed"))
}

fn entry(transfer: &mut Transfer) -> squeue::Entry {
    let fd = Fd(transfer.fd.as_raw_fd());
    let (memory, offset) = (transfer.memory(), transfer.offset_bytes);
    // The kernel moves at most this number of bytes at once anyway; a longer request becomes a short
    // transfer.
    let len = transfer.len.min(1 << 30) as u32;
    match transfer.kind {
        TransferKind::Read => opcode::Read::new(fd, memory, len).offset(offset).build(),
        TransferKind::Write => opcode::Write::new(fd, memory.cast_const(), len).offset(offset).build(),
        TransferKind::SyncData => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
    }
}

impl Reactor for Uring {
    fn submit(&self, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred> {
        // An offset of -1 would mean the descriptor's own position.
        if let Err(error) = calls::signed(transfer.offset_bytes) {
            return refused(transfer, pass, error);
        }
        let slot = Slot::new(pass);
        let number = self.under_way.borrow_mut().insert(transfer, Rc::clone(&slot));
        self.backlog.borrow_mut().push_back(number);
        Box::pin(SlotFuture(slot))
    }

    fn waiting(&self) -> usize {
        self.backlog.borrow().len()
    }

    fn push(&self) {
        let ring = &mut *self.ring.borrow_mut();
        while self.fill(ring) {
            match ring.submit() {
                Ok(_) => (),
                Err(error) if is_busy(&error) => return,
                Err(error) => panic!("io_uring takes no submissions: {error}"),
            }
        }
    }

    fn reap(&self) -> usize {
        let mut finished = 0;
        loop {
            let completion = {
                let mut ring = self.ring.borrow_mut();
                let completion = ring.completion().next();
                match completion {
                    Some(completion) => completion,
                    None => {
                        let queue = ring.submission();
                        let (owes_work, overflown) = (queue.taskrun(), queue.cq_overflow());
                        drop(queue);
                        if !owes_work && !overflown {
                            return finished;
                        }
                        match ring.submit_and_wait(0) {
                            Ok(_) => (),
                            Err(error) if is_busy(&error) => (),
                            Err(error) => panic!("io_uring gives no completions: {error}"),
                        }
                        match ring.completion().next() {
                            Some(completion) => completion,
                            None => return finished,
                        }
                    }
                }
            };
            match completion.user_data() {
                DOORBELL => {
                    self.hears_doorbell.set(false);
                    self.doorbell.clear();
                    continue;
                }
                SOCKETS => {
                    self.hears_sockets.set(false);
                    continue;
                }
                _ => (),
            }
            let (transfer, slot) = self.under_way.borrow_mut().remove(completion.user_data() as usize);
            self.in_ring.set(self.in_ring.get() - 1);
            let moved = match completion.result() {
                result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                result => Ok(result as usize),
            };
            slot.complete(transfer.buf, moved);
            finished += 1;
        }
    }

    fn has_completed(&self) -> bool {
        let ring = &mut *self.ring.borrow_mut();
        !ring.completion().is_empty() || ring.submission().taskrun()
    }

    fn watch_sockets(&self) {
        if self.hears_sockets.get() {
            return;
        }
        let ring = &mut *self.ring.borrow_mut();
        self.listen(ring);
        // If the kernel accepts nothing now, the next turn submits the entries.
        let _ = ring.submit();
    }

    fn park(&self, timeout_us: Option<u64>) {
        let ring = &mut *self.ring.borrow_mut();
        // With a full submission queue, the next turn submits entries first.
        if !self.listen(ring) || !ring.completion().is_empty() {
            return;
        }
        let timeout =
            timeout_us.map(|us| Timespec::new().sec(us / 1_000_000).nsec((us % 1_000_000 * 1000) as u32));
        let waited = match &timeout {
            Some(timeout) => ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(timeout)),
            None => ring.submit_and_wait(1),
        };
        match waited {
            Ok(_) => (),
            Err(error) if is_busy(&error) => (),
            Err(error) => panic!("io_uring cannot wait: {error}"),
        }
    }

    fn in_flight(&self) -> usize {
        self.under_way.borrow().len()
    }
}
