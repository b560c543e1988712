//! A shard's timers, in order of deadline, then of registration.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::shard::queue::LocalQueue;

type Key = (u64, u64);

/// The timers of one shard.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: RefCell<BTreeMap<Key, Waker>>,
    next: Cell<u64>,
}

impl Timers {
    /// The earliest deadline, on the shard's monotonic clock.
    pub(crate) fn next_deadline_us(&self) -> Option<u64> {
        self.waiting.borrow().first_key_value().map(|((deadline_us, _), _)| *deadline_us)
    }

    /// Wakes all tasks whose deadline has passed; returns their number.
    pub(crate) fn fire(&self, now_us: u64) -> usize {
        let mut fired = 0;
        while let Some(waker) = self.take_due(now_us) {
            waker.wake();
            fired += 1;
        }
        fired
    }

    fn take_due(&self, now_us: u64) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.first_entry()?;
        (entry.key().0 <= now_us).then(|| entry.remove())
    }

    fn insert(&self, deadline_us: u64, waker: Waker) -> Key {
        let key = (deadline_us, self.next.get());
        self.next.set(key.1 + 1);
        self.waiting.borrow_mut().insert(key, waker);
        key
    }
}

/// Resolves once the deadline has passed.
pub(crate) struct Sleep {
    pub(crate) timers: Rc<Timers>,
    pub(crate) queue: Rc<LocalQueue>,
    pub(crate) deadline_us: u64,
    pub(crate) key: Option<Key>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The time at which this poll began: timers fire by the same reading of the clock.
        if self.queue.now_ns() / 1000 >= self.deadline_us {
            return Poll::Ready(());
        }
        match self.key {
            Some(key) => {
                let old = self.timers.waiting.borrow_mut().insert(key, context.waker().clone());
                drop(old);
            }
            None => self.key = Some(self.timers.insert(self.deadline_us, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.timers.waiting.borrow_mut().remove(&key);
            drop(waker);
        }
    }
}
