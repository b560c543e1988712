//! Futures on one thread: the boxed kind that readers return, and running one that never waits.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub use base::drive::LocalFuture;

/// The result of a future that has nothing to wait for, such as a read of sources in memory.
///
/// Panics if it does wait: then it belongs on a shard.
pub fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future that was to be ready waits; run it on a shard"),
    }
}
