//! Waiting for something to happen on the same shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Something that happens again and again. Who waits, waits for the next time.
#[derive(Default)]
pub struct Event {
    /// How many times it has happened.
    count: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Event {
    pub fn new() -> Self {
        Self::default()
    }

    /// It happened: everybody who waits goes on.
    pub fn signal(&self) {
        self.count.set(self.count.get() + 1);
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends when it happens the next time, counted from this call and not from the first poll.
    pub fn next(&self) -> NextEvent<'_> {
        NextEvent { event: self, seen: self.count.get() }
    }

    /// Waits until `done` says so; it is asked now and each time after the event.
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
        // Somebody who is polled for other reasons must not be remembered each time.
        if !waiting.iter().rev().take(4).any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
