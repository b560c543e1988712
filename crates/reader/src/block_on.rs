//! Futures on one thread: the boxed future that readers return, and a function that runs a future that never
//! waits.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub use base::join::LocalFuture;

/// The result of a future that does not wait, such as a read of sources in memory.
///
/// Panics if the future waits; such a future has to run on a shard.
pub fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future that was to be ready waits; run it on a shard"),
    }
}
