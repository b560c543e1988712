//! Locks of partitions, for writes that depend on existing data. The lock of a partition is granted in the
//! order of arrival.
//!
//! Plain writes take no lock. A read-modify-write reads and writes under the lock; plain writes may happen in
//! between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use base::{HashMap, broken};
use model::{PartitionKey, TableId};

type LockKey = (TableId, PartitionKey);

#[derive(Default)]
struct Waiter {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// See the head of this file.
#[derive(Default)]
pub struct PartitionLocks {
    /// The waiters of each held lock.
    held: RefCell<HashMap<LockKey, VecDeque<Rc<Waiter>>>>,
}

/// Releases the lock when dropped.
pub struct PartitionGuard<'a> {
    locks: &'a PartitionLocks,
    place: LockKey,
}

impl PartitionLocks {
    pub async fn lock(&self, table: TableId, key: PartitionKey) -> PartitionGuard<'_> {
        let place = (table, key);
        if broken::is("partition_lock") {
            return PartitionGuard { locks: self, place };
        }
        let waiter = {
            let mut held = self.held.borrow_mut();
            match held.get_mut(&place) {
                None => {
                    held.insert(place.clone(), VecDeque::new());
                    None
                }
                Some(waiting) => {
                    let waiter = Rc::<Waiter>::default();
                    waiting.push_back(waiter.clone());
                    Some(waiter)
                }
            }
        };
        if let Some(waiter) = waiter {
            let mut queued = Queued { locks: self, place: &place, waiter: &waiter, done: false };
            poll_fn(|context| {
                if waiter.granted.get() {
                    return Poll::Ready(());
                }
                *waiter.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            queued.done = true;
        }
        PartitionGuard { locks: self, place }
    }

    fn release(&self, place: &LockKey) {
        let mut held = self.held.borrow_mut();
        let Some(waiting) = held.get_mut(place) else { return };
        match waiting.pop_front() {
            None => {
                held.remove(place);
            }
            Some(next) => {
                next.granted.set(true);
                let waker = next.waker.take();
                drop(held);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Number of locked partitions.
    #[cfg(test)]
    fn held_count(&self) -> usize {
        self.held.borrow().len()
    }
}

/// Removes a waiter that is dropped before it takes the lock.
struct Queued<'a> {
    locks: &'a PartitionLocks,
    place: &'a LockKey,
    waiter: &'a Rc<Waiter>,
    done: bool,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.waiter.granted.get() {
            self.locks.release(self.place);
        } else if let Some(waiting) = self.locks.held.borrow_mut().get_mut(self.place) {
            waiting.retain(|other| !Rc::ptr_eq(other, self.waiter));
        }
    }
}

impl Drop for PartitionGuard<'_> {
    fn drop(&mut self) {
        self.locks.release(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn key(name: &str) -> PartitionKey {
        PartitionKey::new(name)
    }

    #[test]
    fn a_second_one_waits_until_the_first_is_done_and_others_are_not_disturbed() {
        let (locks, table) = (PartitionLocks::default(), TableId::nil());
        let first = poll(pin!(locks.lock(table, key("a")))).expect("free");
        let mut second = pin!(locks.lock(table, key("a")));
        assert!(poll(second.as_mut()).is_none());
        drop(poll(pin!(locks.lock(table, key("b")))).expect("another partition"));
        drop(first);
        drop(poll(second.as_mut()).expect("handed over"));
        assert_eq!(locks.held_count(), 0);
    }

    #[test]
    fn an_abandoned_waiter_is_skipped() {
        let (locks, table) = (PartitionLocks::default(), TableId::nil());
        let first = poll(pin!(locks.lock(table, key("a")))).expect("free");
        let mut third = pin!(locks.lock(table, key("a")));
        {
            let mut second = Box::pin(locks.lock(table, key("a")));
            assert!(poll(second.as_mut()).is_none());
            assert!(poll(third.as_mut()).is_none());
            drop(first);
            // The lock now belongs to the second waiter, which is dropped without having taken it.
        }
        drop(poll(third.as_mut()).expect("handed on"));
        assert_eq!(locks.held_count(), 0);
    }
}
