//! The doorbell of a shard: an eventfd on which a sleeping shard waits, and to which other threads write.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::calls::check;
use crate::shard::queue::Doorbell;

#[derive(Clone)]
pub(crate) struct EventFd(Arc<OwnedFd>);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call has no preconditions.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Clears earlier rings.
    pub(crate) fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: the buffer has eight bytes. An error for an empty counter is ignored.
        unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
    }

    /// Sleeps until a ring, until `other` is readable or until the timeout; clears the rings.
    pub(crate) fn wait_with(&self, other: RawFd, timeout_us: Option<u64>) {
        let mut waiting = [self.fd(), other].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let timeout = timeout_us.map(|us| libc::timespec {
            tv_sec: (us / 1_000_000) as libc::time_t,
            tv_nsec: (us % 1_000_000 * 1000) as libc::c_long,
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array has two pollfds, and the timeout lives until the call returns. An interrupted
        // sleep returns early, which is allowed.
        unsafe { libc::ppoll(waiting.as_mut_ptr(), 2, timeout, std::ptr::null()) };
        if waiting[0].revents != 0 {
            self.clear();
        }
    }
}

impl Doorbell for EventFd {
    fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the buffer has eight bytes. The write fails only if the counter is full; then a ring is
        // pending anyway.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }
}
