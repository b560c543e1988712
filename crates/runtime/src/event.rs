//! Events between tasks of one shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A recurring event. A task that waits for it is woken by its next occurrence.
#[derive(Default)]
pub struct Event {
    /// Number of occurrences so far.
    count: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Event {
    pub fn new() -> Self {
        Self::default()
    }

    /// Signals an occurrence: all waiting tasks are woken.
    pub fn signal(&self) {
        self.count.set(self.count.get() + 1);
        if self.waiting.borrow().is_empty() {
            return;
        }
        let mut waiting = self.waiting.take();
        waiting.drain(..).for_each(Waker::wake);
        // The allocation is reused, unless a task has waited again meanwhile.
        let mut empty = self.waiting.borrow_mut();
        if empty.capacity() == 0 {
            *empty = waiting;
        }
    }

    /// Whether a task waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Waits for the next occurrence after this call, even if the future is polled later.
    pub fn next(&self) -> NextEvent<'_> {
        NextEvent { event: self, seen: self.count.get() }
    }

    /// Waits until `done` returns true. It is called at once and after each occurrence.
    pub async fn until(&self, mut done: impl FnMut() -> bool) {
        loop {
            let next = self.next();
            if done() {
                return;
            }
            next.await;
        }
    }
}

/// See [`Event::next`].
#[must_use = "does nothing unless awaited"]
pub struct NextEvent<'a> {
    event: &'a Event,
    seen: u64,
}

impl Future for NextEvent<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.event.count.get() != self.seen {
            return Poll::Ready(());
        }
        let mut waiting = self.event.waiting.borrow_mut();
        // A task that is polled for other reasons must not be registered each time.
        if !waiting.iter().rev().take(4).any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
