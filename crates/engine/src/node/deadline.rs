//! Deadlines: the work of a request is dropped at its deadline, on every shard.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use runtime::Shard;

use crate::error::EngineError;

/// The time at which a request is dropped, on the clock of [`Shard::now_us`], which all shards share. The
/// work of a request runs in the CPU group of the calling task, on every shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(pub Option<u64>);

impl Deadline {
    /// No deadline.
    pub const NONE: Self = Self(None);

    pub(super) fn left_us(self, shard: &Shard) -> Option<u64> {
        self.0.map(|deadline_us| deadline_us.saturating_sub(shard.now_us()))
    }

    /// An error if the deadline is over.
    pub(super) fn check(self, shard: &Shard) -> Result<(), EngineError> {
        if self.left_us(shard) == Some(0) { Err(EngineError::TimedOut) } else { Ok(()) }
    }

    /// The result of `work` if it completes in time; otherwise `work` is dropped. It is not started after the
    /// deadline.
    pub(super) async fn limit<T>(
        self,
        shard: &Shard,
        mut work: Pin<&mut impl Future<Output = Result<T, EngineError>>>,
    ) -> Result<T, EngineError> {
        let Some(left_us) = self.left_us(shard) else { return work.await };
        self.check(shard)?;
        let mut alarm = pin!(shard.sleep_us(left_us));
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => alarm.as_mut().poll(context).map(|()| Err(EngineError::TimedOut)),
        })
        .await
    }
}
