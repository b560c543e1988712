//! The window of a reader: a contiguous range of bytes that moves through a file's data, forward or backward.
//!
//! Three ways to fetch, chosen by the kind of read:
//! - [`Fetch::Cached`]: chunks come from the cache. A single chunk is used in place; several chunks are
//!   copied into one buffer.
//! - [`Fetch::Bypass`]: the same without the cache. A reader that keeps moving forward is switched to a scan.
//! - [`Fetch::Scan`]: large requests without the cache; the next request is in flight while the current data
//!   are parsed. Fetched chunks are decoded piece by piece, so that the reader finds the decoded bytes in the
//!   CPU's cache.
//!
//! The bytes before the reader's position are dropped when more are fetched. So a window holds the requested
//! bytes, plus at most [`AHEAD_BYTES_MAX`] ([`SCAN_BYTES_MAX`] in a scan) and a chunk.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use reader::{Charge, Permit, ReadError};
use runtime::{FileError, IoBuf, IoClass};

use super::chunked::{ChunkedFile, Run, StoredRun};
use super::room::Room;

/// Maximum read-ahead of a reader of single partitions, in bytes.
const AHEAD_BYTES_MAX: u64 = 128 * 1024;
/// Bytes of a scan's first request and of its largest; each request is twice as long as the previous one.
const SCAN_BYTES_MIN: u64 = 128 * 1024;
pub(in crate::read) const SCAN_BYTES_MAX: u64 = 512 * 1024;
/// Bytes that a scan decodes at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// How a reader fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Fetch {
    Cached,
    Bypass,
    Scan,
}

enum Held {
    /// One chunk, shared with the cache.
    Shared(Rc<[u8]>),
    Own(Room),
}

/// A request of a scan that is in flight.
struct Ahead {
    run: Run,
    request: Pin<Box<dyn Future<Output = Result<IoBuf, FileError>>>>,
    done: Option<Result<IoBuf, FileError>>,
}

impl Ahead {
    fn holds(&self, chunk: u64) -> bool {
        (self.run.first..self.run.first + self.run.count).contains(&chunk)
    }

    /// Awaits the request and returns its result.
    async fn wait(self: Box<Self>) -> (Run, Result<IoBuf, FileError>) {
        let Self { run, request, done } = *self;
        match done {
            Some(done) => (run, done),
            None => (run, request.await),
        }
    }
}

/// See the head of this file.
pub(in crate::read) struct Window {
    fetch: Fetch,
    class: IoClass,
    /// Position in the data at which `held` starts.
    start: u64,
    held: Held,
    /// Bytes of read-ahead of the next fetch.
    ahead_bytes: u64,
    ahead: Option<Box<Ahead>>,
    /// Chunks that a scan has fetched and not decoded yet; they continue at the end of the window.
    stored: Option<Box<StoredRun>>,
    charge: Charge,
}

impl Window {
    pub(in crate::read) fn new(fetch: Fetch, class: IoClass) -> Self {
        let ahead_bytes = if fetch == Fetch::Scan { SCAN_BYTES_MIN } else { 0 };
        let charge = Charge::default();
        let held = Held::Own(Room::default());
        Self { fetch, class, start: 0, held, ahead_bytes, ahead: None, stored: None, charge }
    }

    pub(in crate::read) fn fetch(&self) -> Fetch {
        self.fetch
    }

    pub(in crate::read) fn class(&self) -> IoClass {
        self.class
    }

    /// Charges the window's memory to the read, before the memory is allocated.
    #[must_use]
    pub(in crate::read) fn charged_to(mut self, permit: &Option<Rc<Permit>>) -> Self {
        self.charge = Charge::new(permit.clone());
        self
    }

    /// Charges the held bytes and `count` chunks that are about to be fetched, each of them in stored and in
    /// decoded form.
    async fn charge_for(&mut self, file: &ChunkedFile, count: u64) -> Result<(), ReadError> {
        self.charge.grow_to(self.bytes().len() as u64 + 2 * count * file.chunk_bytes()).await
    }

    /// Reduces the charge to the held bytes after the fetched chunks were decoded.
    fn settle(&mut self, file: &ChunkedFile) {
        self.charge.shrink_to(self.bytes().len() as u64 + self.fetched_bytes(file));
    }

    /// Bytes that a scan has fetched or requested and not decoded yet.
    fn fetched_bytes(&self, file: &ChunkedFile) -> u64 {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.run.count * file.chunk_bytes());
        ahead + self.stored.as_ref().map_or(0, |stored| stored.held_bytes())
    }

    /// Makes the next fetch read at least `bytes` bytes, if there are as many before `until`.
    pub(in crate::read) fn expect(&mut self, bytes: u64) {
        self.ahead_bytes = bytes.min(AHEAD_BYTES_MAX);
    }

    fn bytes(&self) -> &[u8] {
        match &self.held {
            Held::Shared(bytes) => bytes,
            Held::Own(bytes) => bytes,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.bytes().len() as u64
    }

    /// The held bytes from `position` on; empty if the window does not contain `position`.
    #[inline]
    pub(in crate::read) fn rest(&self, position: u64) -> &[u8] {
        let from = position.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.bytes().get(from..)).unwrap_or_default()
    }

    /// Whether the window contains `position`, so that a reader there continues in it.
    fn follows(&self, position: u64) -> bool {
        self.start <= position && position < self.end()
    }

    fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end()
    }

    /// Fetches so that `rest(position)` has `need` bytes, or all bytes up to the end of the data. The reader
    /// expects to need nothing from `until` on.
    pub(in crate::read) async fn fill(
        &mut self,
        file: &ChunkedFile,
        position: u64,
        need: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let end = position.saturating_add(need).min(file.data_bytes());
        if position >= end || self.holds(position, end) {
            return Ok(());
        }
        if self.fetch == Fetch::Bypass && self.ahead_bytes == AHEAD_BYTES_MAX && self.follows(position) {
            // A reader that has come this far in a large partition probably reads all of it.
            self.fetch = Fetch::Scan;
        }
        match self.fetch {
            Fetch::Scan => self.fill_scan(file, position, end, until).await?,
            Fetch::Cached | Fetch::Bypass => self.fill_chunks(file, position, end, until).await?,
        }
        self.settle(file);
        Ok(())
    }

    async fn fill_chunks(
        &mut self,
        file: &ChunkedFile,
        position: u64,
        end: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let wanted_end = position.saturating_add(self.ahead_bytes).min(until).max(end).min(file.data_bytes());
        self.ahead_bytes = (self.ahead_bytes * 2).min(AHEAD_BYTES_MAX).max(file.chunk_bytes());
        let last = (wanted_end - 1) / file.chunk_bytes();
        if !self.follows(position) {
            let first = position / file.chunk_bytes();
            self.charge_for(file, last - first + 1).await?;
            if first == last && self.fetch == Fetch::Cached {
                self.held = Held::Shared(file.chunk(first, self.class).await?);
                self.start = file.chunk_start(first);
                return Ok(());
            }
            let mut own = self.take_own();
            own.clear();
            let run = Run { first, count: last - first + 1 };
            self.append(file, &run, &mut own).await?;
            self.start = file.chunk_start(first);
            self.held = Held::Own(own);
            return Ok(());
        }
        // A window ends at the end of a chunk.
        let first = self.end() / file.chunk_bytes();
        self.charge_for(file, last - first + 1).await?;
        let mut own = self.own_from(position);
        let run = Run { first, count: last - first + 1 };
        self.append(file, &run, &mut own).await?;
        self.held = Held::Own(own);
        Ok(())
    }

    async fn append(&self, file: &ChunkedFile, run: &Run, out: &mut Room) -> Result<(), ReadError> {
        match self.fetch {
            Fetch::Cached => file.append_cached(run, self.class, out).await,
            Fetch::Bypass | Fetch::Scan => file.append(run, self.class, out).await,
        }
    }

    /// Takes the window's own buffer, or creates one.
    fn take_own(&mut self) -> Room {
        match std::mem::replace(&mut self.held, Held::Own(Room::default())) {
            Held::Own(bytes) => bytes,
            Held::Shared(_) => Room::default(),
        }
    }

    /// Drops the bytes before `position` and returns the remaining ones in a buffer to append to. The window
    /// is empty until the buffer is put back.
    fn own_from(&mut self, position: u64) -> Room {
        let from = (position - self.start) as usize;
        self.start = position;
        match std::mem::replace(&mut self.held, Held::Own(Room::default())) {
            Held::Own(mut bytes) => {
                bytes.drop_front(from);
                bytes
            }
            Held::Shared(bytes) => Room::from(&bytes[from..]),
        }
    }

    async fn fill_scan(
        &mut self,
        file: &ChunkedFile,
        position: u64,
        end: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let goes_on = self.start <= position && position <= self.end() && !self.bytes().is_empty();
        let mut own = if goes_on {
            self.own_from(position)
        } else {
            let unit_start = position - position % file.scan_unit_bytes();
            self.jump(file, unit_start / file.chunk_bytes()).await?;
            let mut own = self.take_own();
            own.clear();
            self.start = unit_start;
            own
        };
        while self.start + (own.len() as u64) < end {
            let from = self.start + own.len() as u64;
            if self.stored.as_ref().is_none_or(|stored| stored.is_empty()) {
                self.stored = None;
                self.fetch_next(file, own.len() as u64, from, end, until).await?;
            }
            let stored = self.stored.as_mut().expect("fetched above");
            assert!(file.chunk_start(stored.next_chunk()) == from, "a scan goes on where it stopped");
            file.decode_some(stored, (end - from).max(PIECE_BYTES), &mut own)?;
        }
        self.held = Held::Own(own);
        Ok(())
    }

    /// Keeps the fetched chunks from `chunk` on; drops all of them if `chunk` is not among them.
    async fn jump(&mut self, file: &ChunkedFile, chunk: u64) -> Result<(), ReadError> {
        if self.stored.as_mut().is_some_and(|stored| stored.skip_to(chunk)) {
            return Ok(());
        }
        self.stored = None;
        if self.ahead.as_ref().is_some_and(|ahead| ahead.holds(chunk)) {
            let ahead = self.ahead.take().expect("looked at above");
            let (run, stored) = ahead.wait().await;
            let mut stored = file.stored_run(run, stored)?;
            stored.skip_to(chunk);
            self.stored = Some(Box::new(stored));
        }
        self.ahead = None;
        Ok(())
    }

    /// Waits for the request in flight, or makes one that starts at `from`. Then starts the next request.
    async fn fetch_next(
        &mut self,
        file: &ChunkedFile,
        held_bytes: u64,
        from: u64,
        end: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let (run, stored) = match self.ahead.take() {
            Some(ahead) => ahead.wait().await,
            None => {
                let run = self.next_run(file, from, end, until);
                self.charge.grow_to(held_bytes + 2 * run.count * file.chunk_bytes()).await?;
                (run, file.request_run(&run, self.class)?.await)
            }
        };
        self.stored = Some(Box::new(file.stored_run(run, stored)?));
        let behind = file.chunk_start(run.first + run.count);
        if behind < until.min(file.data_bytes()) {
            self.start_ahead(file, held_bytes, behind, until).await?;
        }
        Ok(())
    }

    /// The next request from `from`: at least to `end`, and not far beyond `until`.
    fn next_run(&mut self, file: &ChunkedFile, from: u64, end: u64, until: u64) -> Run {
        let unit_bytes = file.scan_unit_bytes();
        let to = from.saturating_add(self.ahead_bytes).min(until).max(end).max(from + 1);
        self.ahead_bytes = (self.ahead_bytes * 2).min(SCAN_BYTES_MAX);
        let to = to.div_ceil(unit_bytes).saturating_mul(unit_bytes).min(file.data_bytes());
        let (first, behind) = (from / file.chunk_bytes(), to.div_ceil(file.chunk_bytes()));
        Run { first, count: behind - first }
    }

    /// Hands the next request to the kernel without waiting for its completion.
    async fn start_ahead(
        &mut self,
        file: &ChunkedFile,
        held_bytes: u64,
        from: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let run = self.next_run(file, from, from, until);
        let stored_bytes = self.stored.as_ref().map_or(0, |stored| stored.held_bytes());
        let held_bytes = held_bytes + stored_bytes + PIECE_BYTES;
        self.charge.grow_to(held_bytes + run.count * file.chunk_bytes()).await?;
        let request = Box::pin(file.request_run(&run, self.class)?);
        let mut ahead = Ahead { run, request, done: None };
        let mut started = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut started, true) {
                return Poll::Ready(());
            }
            if let Poll::Ready(stored) = ahead.request.as_mut().poll(cx) {
                ahead.done = Some(stored);
                return Poll::Ready(());
            }
            // Yield once: the shard hands requests to the kernel between tasks. Without the yield the request
            // would start only when the scan waits anyway.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.ahead = Some(Box::new(ahead));
        Ok(())
    }

    /// Fetches so that the window holds `start..end`, and before `start` the bytes that a reader moving
    /// backward to `floor` will need soon. Drops the bytes after `end`.
    pub(in crate::read) async fn fill_back(
        &mut self,
        file: &ChunkedFile,
        start: u64,
        end: u64,
        floor: u64,
    ) -> Result<(), ReadError> {
        assert!(start < end && end <= file.data_bytes() && floor <= start, "{floor} {start}..{end}");
        if self.holds(start, end) {
            return Ok(());
        }
        (self.ahead, self.stored) = (None, None);
        let wanted_start = end.saturating_sub(self.ahead_bytes.min(AHEAD_BYTES_MAX)).max(floor).min(start);
        self.ahead_bytes = (self.ahead_bytes * 2).min(AHEAD_BYTES_MAX).max(file.chunk_bytes());
        let first = wanted_start / file.chunk_bytes();
        let last = (end - 1) / file.chunk_bytes();
        self.charge_for(file, last - first + 1).await?;
        // The window of a reader that moves backward starts at the start of a chunk.
        let kept = self.start < end && end <= self.end() && self.start.is_multiple_of(file.chunk_bytes());
        if !kept && first == last && self.fetch == Fetch::Cached {
            self.held = Held::Shared(file.chunk(first, self.class).await?);
            self.start = file.chunk_start(first);
            self.settle(file);
            return Ok(());
        }
        let last = if kept { self.start / file.chunk_bytes() - 1 } else { last };
        let mut own = Room::default();
        self.append(file, &Run { first, count: last - first + 1 }, &mut own).await?;
        if kept {
            own.extend_from_slice(&self.bytes()[..(end - self.start) as usize]);
        }
        self.start = file.chunk_start(first);
        self.held = Held::Own(own);
        self.settle(file);
        Ok(())
    }
}
