//! The fallback back end, which works on every system: helper threads call pread, pwrite and fdatasync.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use super::calls;
use super::eventfd::EventFd;
use super::helpers::Helpers;
use super::poller::Poller;
use super::reactor::{Reactor, Transfer, TransferKind};
use crate::buf::IoBuf;
use crate::shard::backend::{Op, Transferred};
use crate::shard::io_gate::Pass;

pub(crate) struct Threads {
    helpers: Helpers,
    doorbell: EventFd,
    sockets: Rc<Poller>,
}

impl Threads {
    pub(crate) fn new(helpers: Helpers, doorbell: EventFd, sockets: Rc<Poller>) -> Self {
        Self { helpers, doorbell, sockets }
    }
}

impl Reactor for Threads {
    fn submit(&self, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred> {
        on_helper(&self.helpers, transfer, pass)
    }

    fn waiting(&self) -> usize {
        0
    }

    fn push(&self) {}

    fn reap(&self) -> usize {
        0
    }

    fn park(&self, timeout_us: Option<u64>) {
        self.doorbell.wait_with(self.sockets.fd(), timeout_us);
    }

    fn in_flight(&self) -> usize {
        // The jobs own their buffers, and the pool outlives the shards.
        0
    }
}

/// Executes the operation on a helper thread. A pass cannot be sent to another thread, so it is finished when
/// the result is polled.
pub(crate) fn on_helper(helpers: &Helpers, transfer: Transfer, pass: Option<Pass>) -> Op<Transferred> {
    let reply = helpers.run(move || blocking(transfer));
    Box::pin(async move {
        let transferred = reply.await;
        let transferred = transferred.unwrap_or_else(|gone| (IoBuf::new(), Err(io::Error::other(gone))));
        if let Some(pass) = pass {
            pass.finish(&transferred.1);
        }
        transferred
    })
}

fn blocking(mut transfer: Transfer) -> Transferred {
    let moved = move_bytes(&mut transfer);
    (transfer.buf, moved)
}

fn move_bytes(transfer: &mut Transfer) -> io::Result<usize> {
    let fd = transfer.fd.as_raw_fd();
    let offset = calls::signed(transfer.offset_bytes)?;
    let (memory, len) = (transfer.memory(), transfer.len);
    let moved = match transfer.kind {
        // SAFETY: `len` bytes from `memory` on are in the buffer, which the transfer owns until this function
        // returns.
        TransferKind::Read => unsafe { libc::pread(fd, memory.cast(), len, offset) },
        // SAFETY: as above.
        TransferKind::Write => unsafe { libc::pwrite(fd, memory.cast_const().cast(), len, offset) },
        TransferKind::SyncData => return calls::sync_data(fd).map(|()| 0),
    };
    usize::try_from(moved).map_err(|_negative| io::Error::last_os_error())
}
