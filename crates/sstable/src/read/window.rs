//! The piece of a file that a reader looks at: contiguous bytes that move through the data, either way.
//!
//! Three ways to fetch, chosen by what the reader is after:
//! - [`Fetch::Cached`]: chunks through the cache. One chunk is looked at in place; several are copied together.
//! - [`Fetch::Bypass`]: the same without the cache; who keeps walking forward is given a scan.
//! - [`Fetch::Scan`]: large requests past the cache, the next one under way while the current is looked at. What was
//!   fetched is decoded a piece at a time, so that the reader finds it in the CPU's cache.
//!
//! What is in front of the reader is dropped when more is fetched, so a window holds what was asked for, plus at
//! most [`AHEAD_BYTES_MAX`] ([`SCAN_BYTES_MAX`] in a scan) and a chunk.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use reader::{Charge, Permit, ReadError};
use runtime::{FileError, IoBuf, IoClass};

use super::chunked::{ChunkedFile, Run, StoredRun};
use super::room::Room;

/// The most that a reader of single partitions fetches beyond what it needs.
const AHEAD_BYTES_MAX: u64 = 128 * 1024;
/// A scan's first request and its largest; each is twice the one before.
const SCAN_BYTES_MIN: u64 = 128 * 1024;
pub(super) const SCAN_BYTES_MAX: u64 = 512 * 1024;
/// What a scan decodes at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// How a reader fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    Cached,
    Bypass,
    Scan,
}

enum Held {
    /// One chunk, shared with the cache.
    Shared(Rc<[u8]>),
    Own(Room),
}

/// A request of a scan that is under way.
struct Ahead {
    run: Run,
    request: Pin<Box<dyn Future<Output = Result<IoBuf, FileError>>>>,
    done: Option<Result<IoBuf, FileError>>,
}

impl Ahead {
    fn holds(&self, chunk: u64) -> bool {
        (self.run.first..self.run.first + self.run.count).contains(&chunk)
    }

    /// What came of it.
    async fn landed(self: Box<Self>) -> (Run, Result<IoBuf, FileError>) {
        let Self { run, request, done } = *self;
        match done {
            Some(done) => (run, done),
            None => (run, request.await),
        }
    }
}

/// See the head of this file.
pub(super) struct Window {
    fetch: Fetch,
    class: IoClass,
    /// Where `held` starts in the data.
    start: u64,
    held: Held,
    /// What the next fetch adds to what is needed.
    ahead_bytes: u64,
    ahead: Option<Box<Ahead>>,
    /// What a scan has fetched and not decoded; it goes on where the window ends.
    stored: Option<Box<StoredRun>>,
    charge: Charge,
}

impl Window {
    pub(super) fn new(fetch: Fetch, class: IoClass) -> Self {
        let ahead_bytes = if fetch == Fetch::Scan { SCAN_BYTES_MIN } else { 0 };
        let charge = Charge::default();
        let held = Held::Own(Room::default());
        Self { fetch, class, start: 0, held, ahead_bytes, ahead: None, stored: None, charge }
    }

    pub(super) fn fetch(&self) -> Fetch {
        self.fetch
    }

    pub(super) fn class(&self) -> IoClass {
        self.class
    }

    /// What it holds is charged to the read, from before it is allocated.
    #[must_use]
    pub(super) fn charged_to(mut self, permit: &Option<Rc<Permit>>) -> Self {
        self.charge = Charge::new(permit.clone());
        self
    }

    /// Charges what is held, and `count` chunks that are about to be fetched: as they are stored and decoded.
    async fn charge_for(&mut self, file: &ChunkedFile, count: u64) -> Result<(), ReadError> {
        self.charge.grow_to(self.bytes().len() as u64 + 2 * count * file.chunk_bytes()).await
    }

    /// What was fetched is decoded: charges no more than what is held.
    fn settle(&mut self, file: &ChunkedFile) {
        self.charge.shrink_to(self.bytes().len() as u64 + self.fetched_bytes(file));
    }

    /// What a scan has fetched, or is about to, and not decoded.
    fn fetched_bytes(&self, file: &ChunkedFile) -> u64 {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.run.count * file.chunk_bytes());
        ahead + self.stored.as_ref().map_or(0, |stored| stored.held_bytes())
    }

    /// The next fetch brings `bytes` at least, as far as there are any before `until`.
    pub(super) fn expect(&mut self, bytes: u64) {
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

    /// What is here from `position` on; nothing if the window is elsewhere.
    #[inline]
    pub(super) fn rest(&self, position: u64) -> &[u8] {
        let from = position.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.bytes().get(from..)).unwrap_or_default()
    }

    /// A reader at `position` goes on where it is.
    fn follows(&self, position: u64) -> bool {
        self.start <= position && position < self.end()
    }

    fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end()
    }

    /// Fetches so that `rest(position)` has `need` bytes, or all up to the end of the data. `until` is where the
    /// reader will want nothing more, as far as it knows.
    pub(super) async fn fill(
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
            // So far into a large partition the reader is taken for one that wants all of it.
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
        // Windows end where a chunk ends.
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

    /// The window's own memory, or new.
    fn take_own(&mut self) -> Room {
        match std::mem::replace(&mut self.held, Held::Own(Room::default())) {
            Held::Own(bytes) => bytes,
            Held::Shared(_) => Room::default(),
        }
    }

    /// Drops what is in front of `position` and gives the rest to be added to. Until it is put back, the window
    /// is empty.
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

    /// Keeps what has been fetched from `chunk` on; all of it goes if `chunk` is not in it.
    async fn jump(&mut self, file: &ChunkedFile, chunk: u64) -> Result<(), ReadError> {
        if self.stored.as_mut().is_some_and(|stored| stored.skip_to(chunk)) {
            return Ok(());
        }
        self.stored = None;
        if self.ahead.as_ref().is_some_and(|ahead| ahead.holds(chunk)) {
            let ahead = self.ahead.take().expect("looked at above");
            let (run, stored) = ahead.landed().await;
            let mut stored = file.stored_run(run, stored)?;
            stored.skip_to(chunk);
            self.stored = Some(Box::new(stored));
        }
        self.ahead = None;
        Ok(())
    }

    /// Waits for the request that is under way, or makes one, for what begins at `from`; then the next one is begun.
    async fn fetch_next(
        &mut self,
        file: &ChunkedFile,
        held_bytes: u64,
        from: u64,
        end: u64,
        until: u64,
    ) -> Result<(), ReadError> {
        let (run, stored) = match self.ahead.take() {
            Some(ahead) => ahead.landed().await,
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

    /// The next request from `from`: to `end` at least, and not far beyond `until`.
    fn next_run(&mut self, file: &ChunkedFile, from: u64, end: u64, until: u64) -> Run {
        let unit_bytes = file.scan_unit_bytes();
        let to = from.saturating_add(self.ahead_bytes).min(until).max(end).max(from + 1);
        self.ahead_bytes = (self.ahead_bytes * 2).min(SCAN_BYTES_MAX);
        let to = to.div_ceil(unit_bytes).saturating_mul(unit_bytes).min(file.data_bytes());
        let (first, behind) = (from / file.chunk_bytes(), to.div_ceil(file.chunk_bytes()));
        Run { first, count: behind - first }
    }

    /// Hands the next request to the disk, without waiting for it.
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
            // The shard hands requests to the kernel between tasks: it gets its turn now, or the disk would
            // only begin when the scan has to wait anyway.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.ahead = Some(Box::new(ahead));
        Ok(())
    }

    /// Fetches so that the window holds `start..end`, and as much in front of it as a reader who walks
    /// downwards to `floor` will soon want. What is behind `end` is dropped.
    pub(super) async fn fill_back(
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
        // Windows of those who walk downwards start where a chunk starts.
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
