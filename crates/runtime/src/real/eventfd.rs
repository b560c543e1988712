//! The doorbell of a shard: an eventfd on which a sleeping shard waits, and to which other threads write.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::shard::queue::Doorbell;

#[derive(Clone)]
pub(crate) struct EventFd(Arc<OwnedFd>);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(fd)))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Clears earlier rings.
    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _counter_is_empty = rustix::io::read(&self.0, &mut count);
    }

    /// Sleeps until a ring, until `other` is readable or until the timeout; clears the rings.
    pub(crate) fn wait_with(&self, other: BorrowedFd<'_>, timeout_us: Option<u64>) {
        let mut waiting = [self.0.as_fd(), other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let timeout = timeout_us
            .map(|us| Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as _ });
        // An interrupted sleep returns early, which is allowed.
        let _interrupted = rustix::event::poll(&mut waiting, timeout.as_ref());
        if !waiting[0].revents().is_empty() {
            self.clear();
        }
    }
}

impl Doorbell for EventFd {
    fn ring(&self) {
        // The write fails only if the counter is full; then a ring is pending anyway.
        let _counter_is_full = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
