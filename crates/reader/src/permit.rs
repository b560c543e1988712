//! Permits of a [`Semaphore`] for asynchronous reads: waiting for admission and charging memory.
//!
//! A read holds a [`Permit`] from before its first reader exists until its answer is made. Dropping the
//! permit releases everything and lets other reads go on. Readers charge the memory that they hold by
//! [`Charge`]s; dropping a charge releases its memory. The module has no clock: a caller with a deadline
//! drops the wait ([`Permit::time_out`]).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::ReadError;
use crate::semaphore::{PermitId, PermitState, ReadKind, Refusal, Semaphore};

struct Inner {
    semaphore: Semaphore,
    /// Wakers of waiting reads, by permit number.
    wakers: Vec<Option<Waker>>,
}

/// A semaphore whose reads can wait. It belongs to one shard.
pub struct ReadAdmission(RefCell<Inner>);

impl ReadAdmission {
    /// Admission by `semaphore`, with no read active or waiting.
    pub fn new(semaphore: Semaphore) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Inner { semaphore, wakers: vec![] })))
    }

    /// Calls `f` with the semaphore, then wakes the reads that may go on.
    pub fn with<T>(&self, f: impl FnOnce(&mut Semaphore) -> T) -> T {
        let result = f(&mut self.0.borrow_mut().semaphore);
        self.wake();
        result
    }

    /// Enters a read of `table` (`ks.table`). The permit may have to be [waited for](Permit::admitted).
    pub fn enter(
        self: &Rc<Self>,
        table: &Arc<str>,
        operation: &'static str,
        kind: ReadKind,
    ) -> Result<Permit, ReadError> {
        let id = self.0.borrow_mut().semaphore.enter(table, operation, kind)?;
        Ok(Permit { admission: Rc::clone(self), id, shared_items: Cell::new(0) })
    }

    fn wake(&self) {
        loop {
            let inner = &mut *self.0.borrow_mut();
            let Some(id) = inner.semaphore.next_ready() else { return };
            let waker = inner.wakers.get_mut(id.0 as usize).and_then(Option::take);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// The permit of one read. See the head of this file.
pub struct Permit {
    admission: Rc<ReadAdmission>,
    id: PermitId,
    /// See [`Self::shares_items`].
    shared_items: Cell<u64>,
}

impl Permit {
    /// The name of the semaphore, and the number of reads that wait there.
    pub fn semaphore(&self) -> (String, u64) {
        self.admission.with(|semaphore| (semaphore.name().to_string(), semaphore.stats().queued))
    }

    /// Whether the read waits for admission or memory.
    pub fn is_waiting(&self) -> bool {
        let state = self.admission.0.borrow().semaphore.state(self.id);
        matches!(state, PermitState::WaitingForAdmission | PermitState::WaitingForMemory)
    }

    /// Waits until the read may begin.
    pub async fn admitted(&self) {
        poll_fn(|cx| {
            if !self.is_waiting() {
                return Poll::Ready(());
            }
            let wakers = &mut self.admission.0.borrow_mut().wakers;
            let at = self.id.0 as usize;
            if wakers.len() <= at {
                wakers.resize(at + 1, None);
            }
            wakers[at] = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Counts a read that has waited too long, and returns the error to answer.
    pub fn time_out(&self) -> ReadError {
        self.admission.0.borrow_mut().semaphore.time_out().into()
    }

    /// A dump of the semaphore, for the log.
    pub fn dump(&self, problem: &str) -> String {
        self.admission.0.borrow().semaphore.dump(problem, Some(self.id))
    }

    /// Sets whether the read waits for the disk.
    pub fn set_awaiting(&self, is_awaiting: bool) {
        self.admission.0.borrow_mut().semaphore.set_awaiting(self.id, is_awaiting);
        if is_awaiting {
            self.admission.wake();
        }
    }

    /// Adds `items` to the number of cache items that the read's snapshots share with a cache. A snapshot
    /// keeps its items alive after the cache has evicted them.
    pub fn shares_items(&self, items: u64) {
        self.shared_items.set(self.shared_items.get() + items);
    }

    /// The sum of all [`Self::shares_items`].
    pub fn shared_items(&self) -> u64 {
        self.shared_items.get()
    }

    /// Parks the read between two pages. It keeps `bytes` alive that were not charged to it, and may be
    /// evicted.
    pub fn park(&self, bytes: u64) {
        self.admission.0.borrow_mut().semaphore.park(self.id, bytes);
        self.admission.wake();
    }

    /// Resumes the read for its next page. False: the read was evicted meanwhile and is over.
    pub fn unpark(&self) -> bool {
        self.admission.0.borrow_mut().semaphore.unpark(self.id)
    }

    /// Whether the read was parked and then evicted in favour of others.
    pub fn is_evicted(&self) -> bool {
        self.admission.0.borrow().semaphore.state(self.id) == PermitState::Evicted
    }

    /// Whether parked reads of the semaphore were evicted since the last call.
    pub fn take_evicted(&self) -> bool {
        self.admission.0.borrow_mut().semaphore.take_evicted()
    }

    /// Charges `bytes` more; waits until they may be held.
    ///
    /// # Errors
    /// The reads of this shard hold too much memory, and this read is refused.
    async fn request(&self, bytes: u64) -> Result<(), ReadError> {
        let granted = self.admission.0.borrow_mut().semaphore.request(self.id, bytes)?;
        if !granted {
            // If this future is dropped, so is the read, and its permit releases everything.
            self.admitted().await;
        }
        Ok(())
    }

    fn release(&self, bytes: u64) {
        self.admission.0.borrow_mut().semaphore.release(self.id, bytes);
        self.admission.wake();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let inner = &mut *self.admission.0.borrow_mut();
            inner.semaphore.leave(self.id);
            if let Some(waker) = inner.wakers.get_mut(self.id.0 as usize) {
                *waker = None;
            }
        }
        self.admission.wake();
    }
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Memory charged by one holder within a read. Without a permit nothing is counted.
#[derive(Default)]
pub struct Charge {
    permit: Option<Rc<Permit>>,
    bytes: u64,
}

impl Charge {
    /// A charge of 0 bytes.
    pub fn new(permit: Option<Rc<Permit>>) -> Self {
        Self { permit, bytes: 0 }
    }

    /// Grows the charge to at least `bytes`; to be called before the memory is allocated. Waits until the
    /// memory may be held.
    ///
    /// # Errors
    /// The read is refused; the charge remains as it was.
    pub async fn grow_to(&mut self, bytes: u64) -> Result<(), ReadError> {
        if let Some(permit) = self.permit.as_ref().filter(|_| bytes > self.bytes) {
            permit.request(bytes - self.bytes).await?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Shrinks the charge to at most `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(permit) = self.permit.as_ref().filter(|_| bytes < self.bytes) {
            permit.release(self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
