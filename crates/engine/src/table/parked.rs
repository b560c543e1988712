//! Parked reads: the readers of a page stay open, so that the next page resumes them instead of searching its
//! position again.
//!
//! - A parked read keeps its permit with its charge, and is also charged for its snapshot of the row cache.
//!   When other reads need the memory, the semaphore evicts it. After that, or after [`PARKED_US_MAX`]
//!   without a request, it is dropped, and the next page opens new readers.
//! - It returns the data of the time when it was opened: all its pages have the same state of the table on
//!   this shard.
//! - It keeps memtables and SSTables alive. The table therefore drops all of its parked reads when one of
//!   those is replaced, or its schema changes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reader::{PagingState, Permit, ReadCommand};

/// How long a parked read waits for its next page.
pub const PARKED_US_MAX: u64 = 10_000_000;

struct Parked<R> {
    command: ReadCommand,
    /// Its position.
    next: PagingState,
    read: R,
    permit: Rc<Permit>,
    since_us: u64,
}

/// The parked reads of a table on a shard; `R` is the state of a read.
pub struct ParkedReads<R> {
    reads: RefCell<Vec<Parked<R>>>,
    /// Number of calls of [`ParkedReads::clear`].
    cleared: Cell<u64>,
}

/// The time at which a read was opened, relative to calls of [`ParkedReads::clear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedAt(u64);

impl<R> Default for ParkedReads<R> {
    fn default() -> Self {
        Self { reads: RefCell::default(), cleared: Cell::new(0) }
    }
}

impl<R> ParkedReads<R> {
    /// The value with which a read opened in this turn is parked.
    pub fn opened_at(&self) -> OpenedAt {
        OpenedAt(self.cleared.get())
    }

    /// Parks a read whose position is `next`. It keeps `snapshot_bytes` alive in addition to its charge. A
    /// read opened before the last [`ParkedReads::clear`] is dropped.
    pub fn park(
        &self,
        command: &ReadCommand,
        next: &PagingState,
        (read, opened_at): (R, OpenedAt),
        permit: Rc<Permit>,
        snapshot_bytes: u64,
        now_us: u64,
    ) {
        if opened_at != self.opened_at() {
            return;
        }
        permit.park(snapshot_bytes);
        let (command, next) = (command.clone(), next.clone());
        self.reads.borrow_mut().push(Parked { command, next, read, permit, since_us: now_us });
        self.sweep(now_us);
    }

    /// The read whose next page `command` requests, if it is parked at that position.
    pub fn take(&self, command: &ReadCommand) -> Option<(R, Rc<Permit>)> {
        let paging = command.paging.as_ref()?;
        let mut all = self.reads.borrow_mut();
        let at = all.iter().position(|parked| parked.next.read_id == paging.read_id)?;
        let Parked { command: parked, next, read, permit, .. } = all.swap_remove(at);
        let stands_there = next.place.is_same(&paging.place) && parked.wants_same(command);
        (stands_there && permit.unpark()).then_some((read, permit))
    }

    /// Drops reads that were evicted, or have waited too long.
    pub fn sweep(&self, now_us: u64) {
        let stays =
            |parked: &Parked<R>| !parked.permit.is_evicted() && now_us < parked.since_us + PARKED_US_MAX;
        if !self.reads.borrow().iter().all(stays) {
            let all = self.reads.take();
            *self.reads.borrow_mut() = all.into_iter().filter(stays).collect();
        }
    }

    /// Drops all.
    pub fn clear(&self) {
        self.cleared.set(self.cleared.get() + 1);
        drop(self.reads.take());
    }

    pub fn len(&self) -> usize {
        self.reads.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.reads.borrow().is_empty()
    }
}
