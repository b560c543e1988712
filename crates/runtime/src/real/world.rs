//! Back end of a shard on the real machine: the system's clocks and random numbers, files through the reactor
//! and the helper threads, sockets through the poller.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fs;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base::rng::Rng;
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use rustix::time::{ClockId, clock_gettime};

use super::cached_writes::CachedWrites;
use super::calls;
use super::helpers::Helpers;
use super::poller::Poller;
use super::reactor::{Reactor, Transfer, TransferKind};
use super::sockets;
use crate::buf::IoBuf;
use crate::shard::backend::{
    Backend, BackendFile, BackendListener, BackendStream, End, Op, Part, Transferred,
};
use crate::shard::files::{DirEntry, OpenOptions};
use crate::shard::io_gate::Pass;
use crate::shard::net::ListenOptions;

/// After a poll of at least this duration, completions are checked at once, not only once per turn. Polls of
/// a point read are shorter.
const LONG_POLL_NS: u64 = 50_000;

/// The machine, for one shard.
pub(crate) struct RealBackend {
    /// The zero of the clock.
    started_ns: u64,
    turn_ends_ns: Cell<u64>,
    poll_began_ns: Cell<u64>,
    rng: RefCell<Rng>,
    reactor: Rc<dyn Reactor>,
    poller: Rc<Poller>,
    helpers: Helpers,
    cached_writes: Rc<CachedWrites>,
}

/// The monotonic clock in nanoseconds, from an unspecified zero. Every request reads it several times, and
/// differences of `Instant` cost more than the reading.
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[allow(clippy::disallowed_methods, reason = "the real back end's wall clock is read here")]
fn wall_us() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    }
}

fn random_seed() -> io::Result<u64> {
    let mut seed = [0; 8];
    loop {
        match rustix::rand::getrandom(&mut seed, GetRandomFlags::empty()) {
            Ok(8) => return Ok(u64::from_ne_bytes(seed)),
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
}

impl RealBackend {
    pub(crate) fn new(
        started_ns: u64,
        reactor: Rc<dyn Reactor>,
        poller: Rc<Poller>,
        helpers: Helpers,
    ) -> io::Result<Self> {
        let rng = RefCell::new(Rng::new(random_seed()?));
        Ok(Self {
            started_ns,
            turn_ends_ns: Cell::new(u64::MAX),
            poll_began_ns: Cell::new(0),
            rng,
            reactor,
            poller,
            helpers,
            cached_writes: Rc::default(),
        })
    }

    /// Records the beginning of a task's poll.
    pub(crate) fn begin_poll_at_ns(&self, now_ns: u64) {
        self.poll_began_ns.set(now_ns);
    }

    /// Whether the latest poll was long. Completions should then not wait for the end of the turn.
    pub(crate) fn was_long(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.poll_began_ns.get()) >= LONG_POLL_NS
    }

    /// Whether I/O has completed during a long poll, or a watched socket has an event.
    pub(crate) fn has_completions(&self, now_ns: u64) -> bool {
        self.was_long(now_ns) && self.reactor.has_completed()
    }

    /// Sets the time at which the current turn has used its quota.
    pub(crate) fn end_turn_at_ns(&self, at_ns: u64) {
        self.turn_ends_ns.set(at_ns);
    }

    /// Processes the events of sockets; returns the number of sockets with an event.
    pub(crate) fn poll_sockets(&self) -> usize {
        self.poller.poll()
    }

    fn on_helper<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Op<io::Result<T>> {
        on_helper(&self.helpers, job)
    }
}

fn on_helper<T: Send + 'static>(
    helpers: &Helpers,
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Op<io::Result<T>> {
    let reply = helpers.run(job);
    Box::pin(async move { reply.await.unwrap_or_else(|gone| Err(io::Error::other(gone))) })
}

impl Backend for RealBackend {
    fn now_ns(&self) -> u64 {
        monotonic_ns() - self.started_ns
    }

    fn wall_us(&self) -> i64 {
        wall_us()
    }

    fn random_u64(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    fn need_preempt(&self) -> bool {
        let now_ns = self.now_ns();
        now_ns >= self.turn_ends_ns.get() || self.has_completions(now_ns)
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Op<io::Result<Rc<dyn BackendFile>>> {
        let (path, options) = (path.to_owned(), *options);
        let reply = self.helpers.run(move || calls::open(&path, &options));
        let (reactor, helpers) = (Rc::clone(&self.reactor), self.helpers.clone());
        let cached_writes = Rc::clone(&self.cached_writes);
        Box::pin(async move {
            let (fd, direct_read_unit_bytes) =
                reply.await.unwrap_or_else(|gone| Err(io::Error::other(gone)))?;
            let (fd, syncs) = (Arc::new(fd), Rc::default());
            let file = RealFile { fd, direct_read_unit_bytes, reactor, helpers, cached_writes, syncs };
            Ok(Rc::new(file) as Rc<dyn BackendFile>)
        })
    }

    fn remove(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        self.on_helper(move || fs::remove_file(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Op<io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.on_helper(move || fs::rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Op<io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.on_helper(move || fs::hard_link(from, to))
    }

    fn create_dir_all(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        self.on_helper(move || fs::create_dir_all(path))
    }

    fn remove_dir_all(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        self.on_helper(move || fs::remove_dir_all(path))
    }

    fn sync_dir(&self, path: &Path) -> Op<io::Result<()>> {
        let path = path.to_owned();
        self.on_helper(move || calls::sync_dir(&path))
    }

    fn exists(&self, path: &Path) -> Op<io::Result<bool>> {
        let path = path.to_owned();
        self.on_helper(move || fs::exists(path))
    }

    fn read_dir(&self, path: &Path) -> Op<io::Result<Vec<DirEntry>>> {
        let path = path.to_owned();
        self.on_helper(move || calls::read_dir(&path))
    }

    fn lock_dir(&self, path: &Path) -> Op<io::Result<Box<dyn Any>>> {
        let path = path.to_owned();
        let locked = self.on_helper(move || calls::lock_dir(&path));
        Box::pin(async move { Ok(Box::new(locked.await?) as Box<dyn Any>) })
    }

    fn free_bytes(&self, path: &Path) -> Op<io::Result<u64>> {
        let path = path.to_owned();
        self.on_helper(move || calls::free_bytes(&path))
    }

    fn listen(&self, addr: SocketAddr, options: &ListenOptions) -> io::Result<Box<dyn BackendListener>> {
        sockets::listen(&self.poller, addr, options)
    }

    fn connect(&self, addr: SocketAddr) -> Op<io::Result<Box<dyn BackendStream>>> {
        Box::pin(sockets::connect(Rc::clone(&self.poller), addr))
    }

    fn adopt(&self, end: End) -> io::Result<Box<dyn BackendStream>> {
        sockets::adopt(&self.poller, end)
    }
}

struct RealFile {
    fd: Arc<OwnedFd>,
    direct_read_unit_bytes: Option<usize>,
    reactor: Rc<dyn Reactor>,
    helpers: Helpers,
    cached_writes: Rc<CachedWrites>,
    /// One more reference than syncs under way.
    syncs: Rc<()>,
}

impl RealFile {
    fn write_now(&self, bytes: &[u8], offset_bytes: u64) -> Option<io::Result<usize>> {
        let fd = &self.fd;
        if self.cached_writes.can_refuse() {
            match calls::write_at(fd, bytes, offset_bytes, true) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                    self.cached_writes.cannot_refuse();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                moved => return Some(moved),
            }
        }
        Some(calls::write_at(fd, bytes, offset_bytes, false))
    }

    fn transfer(&self, kind: TransferKind, part: Part) -> Transfer {
        let (fd, direct) = (Arc::clone(&self.fd), self.direct_read_unit_bytes.is_some());
        let Part { buf, at, len, offset_bytes } = part;
        Transfer { kind, fd, direct, buf, at, len, offset_bytes }
    }
}

impl BackendFile for RealFile {
    fn direct_read_unit_bytes(&self) -> Option<usize> {
        self.direct_read_unit_bytes
    }

    fn read(&self, part: Part, pass: Pass) -> Op<Transferred> {
        self.reactor.submit(self.transfer(TransferKind::Read, part), Some(pass))
    }

    fn write(&self, part: Part, pass: Pass) -> Op<Transferred> {
        self.reactor.submit(self.transfer(TransferKind::Write, part), Some(pass))
    }

    fn write_at_once(&self, bytes: &[u8], offset_bytes: u64) -> Option<io::Result<usize>> {
        let began_ns = monotonic_ns();
        // A write may wait for a sync of the same file.
        let is_synced_now = Rc::strong_count(&self.syncs) > 1;
        if is_synced_now
            || self.direct_read_unit_bytes.is_some()
            || !self.cached_writes.may_begin(bytes.len(), began_ns)
        {
            return None;
        }
        let sleeps = calls::thread_sleeps();
        let moved = self.write_now(bytes, offset_bytes);
        let took_ns = monotonic_ns().saturating_sub(began_ns);
        if CachedWrites::is_slow(took_ns) && calls::thread_sleeps() != sleeps {
            self.cached_writes.blocked(began_ns + took_ns, took_ns);
        }
        moved
    }

    fn sync_data(&self) -> Op<io::Result<()>> {
        let nothing = Part { buf: IoBuf::new(), at: 0, len: 0, offset_bytes: 0 };
        let synced = self.reactor.submit(self.transfer(TransferKind::SyncData, nothing), None);
        let under_way = Rc::clone(&self.syncs);
        Box::pin(async move {
            let synced = synced.await.1.map(drop);
            drop(under_way);
            synced
        })
    }

    fn allocate(&self, offset_bytes: u64, len_bytes: u64) -> Op<io::Result<()>> {
        let fd = Arc::clone(&self.fd);
        on_helper(&self.helpers, move || calls::allocate(fd, offset_bytes, len_bytes))
    }

    fn truncate(&self, len_bytes: u64) -> Op<io::Result<()>> {
        let fd = Arc::clone(&self.fd);
        on_helper(&self.helpers, move || calls::truncate(fd, len_bytes))
    }

    fn len_bytes(&self) -> Op<io::Result<u64>> {
        // The inode of an open file is in memory, so no helper thread is needed.
        Box::pin(ready(calls::len_bytes(&self.fd)))
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // The last close of a removed file frees its blocks, which may take long, so a helper thread does it.
        let fd = Arc::clone(&self.fd);
        self.helpers.push(Box::new(move || drop(fd)));
    }
}
