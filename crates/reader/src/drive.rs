//! Futures on one thread: the boxed kind that readers return, waiting for several at once, and running one
//! that never waits.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A future that stays on its shard.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Waits for all; the first error, or nothing.
pub(crate) async fn all<E>(mut futures: Vec<LocalFuture<'_, Result<(), E>>>) -> Result<(), E> {
    let mut failed = None;
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                if let Err(error) = result {
                    failed.get_or_insert(error);
                }
                false
            }
        });
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    failed.map_or(Ok(()), Err)
}

/// The result of a future that has nothing to wait for, such as a read of sources in memory.
///
/// Panics if it does wait: then it belongs on a shard.
pub fn block_on_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future that was to be ready waits; run it on a shard"),
    }
}
