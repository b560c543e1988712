//! Linux AIO: direct reads and writes by io_submit, for systems that block io_uring (mostly containers).
//!
//! Only direct files use it. For buffered files io_submit would execute the work synchronously and block the
//! shard, so those, and syncs, go to helper threads. Completions ring the shard's doorbell, so one eventfd
//! wakes the shard for all events.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use super::calls;
use super::eventfd::EventFd;
use super::helpers::Helpers;
use super::poller::Poller;
use super::reactor::{Reactor, Slot, SlotFuture, Transfer, TransferKind, UnderWay, refused};
use super::threads::on_helper;
use crate::shard::backend::{Op, Transferred};
use crate::shard::io_gate::Pass;

/// The most operations in the kernel at a time for one shard. The machine-wide limit (fs.aio-max-nr) is often
/// 65,536.
const EVENTS_MAX: usize = 128;

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_FLAG_RESFD: u32 = 1;

/// `struct iocb` of linux/aio_abi.h, little-endian layout.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buf: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}
const _: () = assert!(size_of::<ControlBlock>() == 64, "the kernel's iocb is 64 bytes");
const _: () = assert!(cfg!(target_endian = "little"), "key and rw_flags swap places on big-endian machines");

/// `struct io_event` of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

pub(crate) struct Aio {
    context: libc::c_ulong,
    under_way: RefCell<UnderWay>,
    /// Operations that were accepted but not yet submitted.
    backlog: RefCell<VecDeque<usize>>,
    in_kernel: Cell<usize>,
    helpers: Helpers,
    doorbell: EventFd,
    sockets: Rc<Poller>,
}

impl Aio {
    pub(crate) fn new(helpers: Helpers, doorbell: EventFd, sockets: Rc<Poller>) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel fills `context`, which must be 0 before.
        check(unsafe { libc::syscall(libc::SYS_io_setup, EVENTS_MAX, &mut context) })?;
        Ok(Self {
            context,
            under_way: RefCell::default(),
            backlog: RefCell::default(),
            in_kernel: Cell::new(0),
            helpers,
            doorbell,
            sockets,
        })
    }

    fn finish(&self, number: usize, moved: io::Result<usize>) {
        let (transfer, slot) = self.under_way.borrow_mut().remove(number);
        slot.complete(transfer.buf, moved);
    }

    fn control_block(&self, number: usize) -> ControlBlock {
        let mut under_way = self.under_way.borrow_mut();
        let transfer = under_way.get_mut(number);
        ControlBlock {
            data: number as u64,
            opcode: match transfer.kind {
                TransferKind::Read => IOCB_CMD_PREAD,
                TransferKind::Write => IOCB_CMD_PWRITE,
                TransferKind::SyncData => unreachable!("syncs go to helper threads"),
            },
            fd: transfer.fd.as_raw_fd() as u32,
            buf: transfer.memory() as u64,
            bytes: transfer.len as u64,
            offset: transfer.offset_bytes as i64,
            flags: IOCB_FLAG_RESFD,
            eventfd: self.doorbell.fd() as u32,
            ..ControlBlock::default()
        }
    }
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_negative| io::Error::last_os_error())
}

impl Reactor for Aio {
    fn submit(&self, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred> {
        if !transfer.direct || transfer.kind == TransferKind::SyncData {
            return on_helper(&self.helpers, transfer, pass);
        }
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
        loop {
            let room = EVENTS_MAX - self.in_kernel.get();
            let numbers: Vec<usize> = self.backlog.borrow().iter().copied().take(room).collect();
            if numbers.is_empty() {
                return;
            }
            let blocks: Vec<ControlBlock> =
                numbers.iter().map(|number| self.control_block(*number)).collect();
            let pointers: Vec<*const ControlBlock> = blocks.iter().map(std::ptr::from_ref).collect();
            // SAFETY: the array contains `pointers.len()` valid blocks, which the kernel copies. The buffers
            // to which they point stay in `under_way` until their completion arrives.
            let submitted = check(unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, pointers.len(), pointers.as_ptr())
            });
            match submitted {
                Ok(count) => {
                    self.in_kernel.set(self.in_kernel.get() + count);
                    self.backlog.borrow_mut().drain(..count);
                    if count == 0 {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.in_kernel.get() > 0 => {
                    return;
                }
                Err(error) => {
                    // The error belongs to the first operation; the others are submitted again.
                    let first = self.backlog.borrow_mut().pop_front().expect("something was submitted");
                    self.finish(first, Err(error));
                }
            }
        }
    }

    fn reap(&self) -> usize {
        let mut finished = 0;
        while self.in_kernel.get() > 0 {
            let mut events = [Event::default(); 64];
            let mut no_wait = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `events` has space for `room` entries, and the timeout lives until the call returns.
            let got = check(unsafe {
                let (room, events) = (events.len(), events.as_mut_ptr());
                libc::syscall(libc::SYS_io_getevents, self.context, 0_usize, room, events, &mut no_wait)
            });
            let got = match got {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("io_getevents gives no completions: {error}"),
            };
            for event in &events[..got] {
                self.in_kernel.set(self.in_kernel.get() - 1);
                let moved = match event.result {
                    result if result < 0 => Err(io::Error::from_raw_os_error(-result as i32)),
                    result => Ok(result as usize),
                };
                self.finish(event.data as usize, moved);
            }
            finished += got;
        }
        finished
    }

    fn park(&self, timeout_us: Option<u64>) {
        self.doorbell.wait_with(self.sockets.borrowed_fd(), timeout_us);
    }

    fn in_flight(&self) -> usize {
        self.under_way.borrow().len()
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is owned and not used any more; the call waits for operations that the kernel
        // still has.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
