//! The reply to a call on another shard: a future on any executor, or a wait that blocks the thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::shard::queue;

/// The shard stopped before it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardGone;

impl fmt::Display for ShardGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the shard stopped before it answered: the runtime is shutting down or one of its tasks panicked",
        )
    }
}

impl std::error::Error for ShardGone {}

enum State<T> {
    Open(Option<Waker>),
    Answered(Result<T, ShardGone>),
    Taken,
}

struct Slot<T>(Mutex<State<T>>);

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No user code runs under the lock, so the state is consistent even if the lock is poisoned.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pending reply. Dropping it does not stop the work.
#[must_use = "a reply does nothing unless awaited or waited for"]
pub struct Reply<T> {
    slot: Arc<Slot<T>>,
    may_block: bool,
}

/// The sender of the reply. Dropping it without an answer sends [`ShardGone`].
pub(crate) struct ReplySender<T> {
    slot: Arc<Slot<T>>,
}

/// A connected sender and receiver. `may_block`: whether another thread answers, so that the receiver may
/// block.
pub(crate) fn reply<T>(may_block: bool) -> (ReplySender<T>, Reply<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Open(None))));
    (ReplySender { slot: Arc::clone(&slot) }, Reply { slot, may_block })
}

impl<T> ReplySender<T> {
    pub(crate) fn send(self, value: T) {
        self.finish(Ok(value));
    }

    fn finish(&self, result: Result<T, ShardGone>) {
        let mut state = self.slot.lock();
        if let State::Open(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Answered(result);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for ReplySender<T> {
    fn drop(&mut self) {
        self.finish(Err(ShardGone));
    }
}

impl<T> Reply<T> {
    /// Blocks the calling thread until the reply arrives. Must not be called on a shard, because it would
    /// block the shard.
    pub fn wait(mut self) -> Result<T, ShardGone> {
        assert!(self.may_block, "a simulated world runs on this thread: use SimWorld::run_until");
        assert!(!queue::on_a_shard(), "waiting here would stop this thread's shard: await the reply instead");
        let thread = Arc::new(ThreadWaker(std::thread::current()));
        let waker = Waker::from(thread);
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut self).poll(&mut context) {
                return result;
            }
            std::thread::park();
        }
    }

    /// Whether the reply has arrived.
    pub fn is_ready(&self) -> bool {
        matches!(&*self.slot.lock(), State::Answered(_))
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, ShardGone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        match &mut *state {
            State::Open(waker) => {
                match waker {
                    Some(old) if old.will_wake(context.waker()) => (),
                    _ => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            State::Answered(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(result) => Poll::Ready(result),
                State::Open(_) | State::Taken => unreachable!("matched just now"),
            },
            State::Taken => panic!("a reply was polled after its answer was taken"),
        }
    }
}

struct ThreadWaker(std::thread::Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
