//! Reads between two of their pages: the readers stay open, so that the next page goes on where the last one ended
//! instead of looking for the place again.
//!
//! - A parked read keeps its permit and what is charged to it, and is charged for the snapshot of the row cache that it
//!   has. When others need that, the semaphore evicts it; then, or when nobody has asked for [`PARKED_US_MAX`], it is
//!   dropped, and the next page opens readers anew.
//! - It shows what there was when it was opened: all its pages are of one state of the table on this shard.
//! - It keeps memtables and SSTables alive. So the table drops all of its parked reads whenever one of those is
//!   replaced, or its schema changes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reader::{PagingState, Permit, ReadCommand};

/// So long a parked read waits for its next page.
pub const PARKED_US_MAX: u64 = 10_000_000;

struct Parked<R> {
    command: ReadCommand,
    /// Where it stands.
    next: PagingState,
    read: R,
    permit: Rc<Permit>,
    since_us: u64,
}

/// The parked reads of a table on a shard; `R` is what is kept of a read.
pub struct ParkedReads<R> {
    reads: RefCell<Vec<Parked<R>>>,
    /// How often all were dropped.
    cleared: Cell<u64>,
}

/// When a read was opened, as far as [`ParkedReads::clear`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedAt(u64);

impl<R> Default for ParkedReads<R> {
    fn default() -> Self {
        Self { reads: RefCell::default(), cleared: Cell::new(0) }
    }
}

impl<R> ParkedReads<R> {
    /// What a read that is opened in this turn is to be parked with.
    pub fn opened_at(&self) -> OpenedAt {
        OpenedAt(self.cleared.get())
    }

    /// Puts a read aside that stands at `next` and is open there. It keeps `snapshot_bytes` alive besides what it is
    /// charged. One that was opened before what it reads was replaced is dropped, as it would have been here.
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

    /// The read of which `command` is the next page, if it is here and stands there.
    pub fn take(&self, command: &ReadCommand) -> Option<(R, Rc<Permit>)> {
        let paging = command.paging.as_ref()?;
        let mut all = self.reads.borrow_mut();
        let at = all.iter().position(|parked| parked.next.read_id == paging.read_id)?;
        let Parked { command: parked, next, read, permit, .. } = all.swap_remove(at);
        let stands_there = next.place.is_same(&paging.place) && parked.wants_same(command);
        (stands_there && permit.unpark()).then_some((read, permit))
    }

    /// Drops those that were evicted, or have waited for too long.
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
