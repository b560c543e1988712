//! Waiting for a [`Semaphore`]: a read's permit, and what is charged to it.
//!
//! A [`Permit`] is what a read has from before its first reader exists until its answer is made; dropping it gives
//! everything back and lets others go on. Readers charge what they hold by [`Charge`]s, which give back what they
//! were charged when they are dropped. Knows no clock: who has a deadline drops the wait ([`Permit::time_out`]).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::ReadError;
use crate::semaphore::{PermitId, PermitState, Refusal, Semaphore};

struct Inner {
    semaphore: Semaphore,
    /// Who waits, by permit.
    wakers: Vec<Option<Waker>>,
}

/// A semaphore whose reads can wait. Belongs to one shard.
pub struct ReadAdmission(RefCell<Inner>);

impl ReadAdmission {
    pub fn new(semaphore: Semaphore) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Inner { semaphore, wakers: vec![] })))
    }

    /// Looks at the semaphore, or changes it.
    pub fn with<T>(&self, f: impl FnOnce(&mut Semaphore) -> T) -> T {
        let result = f(&mut self.0.borrow_mut().semaphore);
        self.wake();
        result
    }

    /// A read of `table` (`ks.table`) comes. The permit may have to be [waited for](Permit::admitted).
    pub fn enter(self: &Rc<Self>, table: &Arc<str>, operation: &'static str) -> Result<Permit, ReadError> {
        let id = self.0.borrow_mut().semaphore.enter(table, operation)?;
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

/// See the head of this file.
pub struct Permit {
    admission: Rc<ReadAdmission>,
    id: PermitId,
    /// See [`Self::shares_items`].
    shared_items: Cell<u64>,
}

impl Permit {
    /// Of its semaphore, and how many wait there.
    pub fn semaphore(&self) -> (String, u64) {
        self.admission.with(|semaphore| (semaphore.name().to_string(), semaphore.stats().queued))
    }

    pub fn is_waiting(&self) -> bool {
        let state = self.admission.0.borrow().semaphore.state(self.id);
        matches!(state, PermitState::WaitingForAdmission | PermitState::WaitingForMemory)
    }

    /// Ends when the read may begin.
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

    /// It has waited too long: what to answer.
    pub fn time_out(&self) -> ReadError {
        self.admission.0.borrow_mut().semaphore.time_out().into()
    }

    /// What is going on, for the log.
    pub fn dump(&self, problem: &str) -> String {
        self.admission.0.borrow().semaphore.dump(problem, Some(self.id))
    }

    /// The read waits for the disk from now on, or goes on.
    pub fn set_awaiting(&self, is_awaiting: bool) {
        self.admission.0.borrow_mut().semaphore.set_awaiting(self.id, is_awaiting);
        if is_awaiting {
            self.admission.wake();
        }
    }

    /// The read has a snapshot of so many things that a cache has too; it keeps them alive when the cache has let them
    /// go.
    pub fn shares_items(&self, items: u64) {
        self.shared_items.set(self.shared_items.get() + items);
    }

    pub fn shared_items(&self) -> u64 {
        self.shared_items.get()
    }

    /// The read is put aside between two pages, and keeps `bytes` alive that it was not charged; it may be evicted.
    pub fn park(&self, bytes: u64) {
        self.admission.0.borrow_mut().semaphore.park(self.id, bytes);
        self.admission.wake();
    }

    /// The next page is asked for. False: the read was evicted meanwhile, and is over.
    pub fn unpark(&self) -> bool {
        self.admission.0.borrow_mut().semaphore.unpark(self.id)
    }

    /// It was parked, and others needed its place.
    pub fn is_evicted(&self) -> bool {
        self.admission.0.borrow().semaphore.state(self.id) == PermitState::Evicted
    }

    /// Whether parked reads of its semaphore were evicted since somebody asked.
    pub fn take_evicted(&self) -> bool {
        self.admission.0.borrow_mut().semaphore.take_evicted()
    }

    /// Charges `bytes` more; waits until they may be held.
    ///
    /// # Errors
    /// The reads of this shard hold so much that this one is refused.
    async fn request(&self, bytes: u64) -> Result<(), ReadError> {
        let granted = self.admission.0.borrow_mut().semaphore.request(self.id, bytes)?;
        if !granted {
            // If this is dropped meanwhile, so is the read, and its permit gives everything back.
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

/// What one holder of a read's memory is charged. Without a permit nothing is counted.
#[derive(Default)]
pub struct Charge {
    permit: Option<Rc<Permit>>,
    bytes: u64,
}

impl Charge {
    pub fn new(permit: Option<Rc<Permit>>) -> Self {
        Self { permit, bytes: 0 }
    }

    /// From now on at least `bytes` are held; to be called before they are allocated.
    ///
    /// # Errors
    /// As of a read that is refused; the charge is as it was.
    pub async fn grow_to(&mut self, bytes: u64) -> Result<(), ReadError> {
        if let Some(permit) = self.permit.as_ref().filter(|_| bytes > self.bytes) {
            permit.request(bytes - self.bytes).await?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// No more than `bytes` are held any longer.
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
