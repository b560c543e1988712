//! Requests end in time: what is not done by then is dropped, on whichever shard it is.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use runtime::Shard;

use crate::error::EngineError;

/// When a request is given up, on the clock of [`Shard::now_us`], which all shards share. What belongs to it runs in
/// the CPU group of the task that asks, on every shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(pub Option<u64>);

impl Deadline {
    /// It is never given up.
    pub const NONE: Self = Self(None);

    pub(super) fn left_us(self, shard: &Shard) -> Option<u64> {
        self.0.map(|deadline_us| deadline_us.saturating_sub(shard.now_us()))
    }

    /// That there is time left.
    pub(super) fn check(self, shard: &Shard) -> Result<(), EngineError> {
        if self.left_us(shard) == Some(0) { Err(EngineError::TimedOut) } else { Ok(()) }
    }

    /// What `work` gives, if it does so in time; otherwise it is dropped. It is not begun when the time is over.
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
