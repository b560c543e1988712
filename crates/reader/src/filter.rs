//! Leaves out the partitions that somebody else answers for.
//!
//! After a restart with another number of shards a file holds partitions of several; each shard reads it through
//! a filter that lets only its own pass.

use model::PartitionKey;

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::fragment::{Fragment, Reader, Step};

/// Passes the partitions for which `wants` says so, and skips the others without looking into them.
pub struct FilterReader<R, F> {
    inner: R,
    wants: F,
}

impl<R: Reader, F: FnMut(&PartitionKey) -> bool> FilterReader<R, F> {
    pub fn new(inner: R, wants: F) -> Self {
        Self { inner, wants }
    }
}

impl<R: Reader, F: FnMut(&PartitionKey) -> bool> Reader for FilterReader<R, F> {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            let step = self.inner.next()?;
            match &step {
                Step::Ready(Fragment::PartitionStart { key, .. }) if !(self.wants)(key) => {
                    self.inner.skip_partition();
                }
                _ => return Ok(step),
            }
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        self.inner.load()
    }

    fn skip_partition(&mut self) {
        self.inner.skip_partition();
    }
}
