//! The fallback back end, which works on every system: helper threads call pread, pwrite and fdatasync.

use std::io;
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
        self.doorbell.wait_with(self.sockets.borrowed_fd(), timeout_us);
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
    let Transfer { kind, fd, buf, at, len, offset_bytes, .. } = transfer;
    calls::signed(*offset_bytes)?;
    match kind {
        TransferKind::Read => {
            let (filled, _rest) = rustix::io::pread(fd, buf.memory_at(*at, *len), *offset_bytes)?;
            Ok(filled.len())
        }
        TransferKind::Write => Ok(rustix::io::pwrite(fd, buf.part_at(*at, *len), *offset_bytes)?),
        TransferKind::SyncData => calls::sync_data(fd).map(|()| 0),
    }
}
