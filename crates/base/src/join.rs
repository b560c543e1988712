//! Concurrent futures on one thread, without a runtime.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A boxed future that stays on its shard.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Waits for all futures. Returns the first error, if there is one, after all have ended.
pub async fn join_all<E>(mut futures: Vec<LocalFuture<'_, Result<(), E>>>) -> Result<(), E> {
    let mut failed = None;
    poll_fn(|context| {
        futures.retain_mut(|future| match future.as_mut().poll(context) {
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
