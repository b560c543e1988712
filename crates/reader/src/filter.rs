//! Removes the partitions that other shards own.
//!
//! After a restart with another number of shards, a file contains partitions of several shards. Each shard
//! reads the file through a filter that passes only its own partitions.

use model::PartitionKey;

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::fragment::{Fragment, Reader, Step};

/// Passes the partitions for which `wants` returns true, and skips the others without reading their rows.
pub struct FilterReader<R, F> {
    inner: R,
    wants: F,
}

impl<R: Reader, F: FnMut(&PartitionKey) -> bool> FilterReader<R, F> {
    /// A reader of the partitions of `inner` for which `wants` returns true.
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
