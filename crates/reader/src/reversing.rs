//! The old method of reverse reads: reads each partition forward into memory, and reverses it.
//!
//! It works with any forward reader. Its cost is that of the whole partition for every page: time and memory
//! for all wanted rows, however few of them the page uses. Readers that walk backwards cost only the page.
//! This reader is for sources that cannot walk backwards, and for comparisons. Guarantees: the fragments are
//! the same as in a reverse read of the source; the memory is charged to the permit; a partition over the
//! memory limit is refused.

use std::collections::VecDeque;
use std::rc::Rc;

use model::{PartitionKey, RangeTombstoneChange, Tombstone};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::error::LimitExceeded;
use crate::fragment::{Fragment, Reader, Step};
use crate::permit::{Charge, Permit};

/// The most fragments that one load reads, so that the caller can yield between loads.
const FRAGMENTS_A_LOAD: u32 = 256;
/// Granularity of charges to the permit.
const CHARGE_STEP_BYTES: u64 = 64 * 1024;

/// Reader that reverses the partitions of a forward reader. See the head of this file.
pub struct ReversingReader<R> {
    inner: R,
    memory_bytes_max: u64,
    /// The fragments of the next partition that were read so far.
    taken: Taken,
    /// The fragments of one partition that are still to be emitted.
    out: VecDeque<Fragment>,
    is_inside: bool,
    is_at_end: bool,
    charge: Charge,
}

impl<R: Reader> ReversingReader<R> {
    /// `inner` reads forward. A partition with more than `memory_bytes_max` of wanted rows is refused.
    pub fn new(inner: R, memory_bytes_max: u64, permit: Option<Rc<Permit>>) -> Self {
        Self {
            inner,
            memory_bytes_max,
            taken: Taken::default(),
            out: VecDeque::new(),
            is_inside: false,
            is_at_end: false,
            charge: Charge::new(permit),
        }
    }

    /// Reads further fragments, at most to the end of the partition.
    async fn read_on(&mut self) -> Result<(), ReadError> {
        for _ in 0..FRAGMENTS_A_LOAD {
            match self.inner.next()? {
                Step::Ready(Fragment::PartitionEnd) => {
                    self.out = std::mem::take(&mut self.taken).reversed();
                    return Ok(());
                }
                Step::Ready(fragment) => self.taken.push(fragment),
                Step::Load => self.inner.load().await?,
                Step::End => {
                    self.is_at_end = true;
                    return Ok(());
                }
            }
            if self.taken.bytes > self.memory_bytes_max {
                return Err(ReadError::Limit(self.taken.refusal(self.memory_bytes_max)));
            }
        }
        self.charge.grow_to(self.taken.bytes.next_multiple_of(CHARGE_STEP_BYTES)).await
    }
}

impl<R: Reader> Reader for ReversingReader<R> {
    fn next(&mut self) -> Result<Step, ReadError> {
        match self.out.pop_front() {
            Some(fragment) => {
                self.is_inside = fragment != Fragment::PartitionEnd;
                if !self.is_inside {
                    self.charge.shrink_to(0);
                }
                Ok(Step::Ready(fragment))
            }
            None if self.is_at_end => Ok(Step::End),
            None => Ok(Step::Load),
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { if self.out.is_empty() && !self.is_at_end { self.read_on().await } else { Ok(()) } })
    }

    fn skip_partition(&mut self) {
        if std::mem::take(&mut self.is_inside) {
            self.out.clear();
            self.charge.shrink_to(0);
        }
    }
}

/// The fragments of a partition in forward order.
#[derive(Default)]
struct Taken {
    start: Option<Fragment>,
    fixed: Option<Fragment>,
    rest: Vec<Fragment>,
    bytes: u64,
}

impl Taken {
    fn push(&mut self, fragment: Fragment) {
        self.bytes += size_of::<Fragment>() as u64;
        match fragment {
            Fragment::PartitionStart { .. } => self.start = Some(fragment),
            Fragment::Static(ref row) => {
                self.bytes += row.heap_bytes() as u64;
                self.fixed = Some(fragment);
            }
            Fragment::Row(ref row) => {
                self.bytes += (row.key.as_bytes().len() + row.row.heap_bytes()) as u64;
                self.rest.push(fragment);
            }
            Fragment::Change(_) => self.rest.push(fragment),
            Fragment::PartitionEnd => unreachable!("the end is not kept"),
        }
    }

    fn key(&self) -> Option<&PartitionKey> {
        match &self.start {
            Some(Fragment::PartitionStart { key, .. }) => Some(key),
            _ => None,
        }
    }

    /// The text is that of the ScyllaDB versions that read in this way.
    fn refusal(&self, limit_bytes: u64) -> LimitExceeded {
        let key = self.key().map_or_else(String::new, |key| key.bytes().escape_ascii().to_string());
        LimitExceeded::Memory(format!(
            "Memory usage of reversed read exceeds hard limit of {limit_bytes} (configured via \
             max_memory_for_unlimited_query_hard_limit), while reading partition {key}"
        ))
    }

    /// In reverse order, the range tombstone in force from a change on is the one that was in force before
    /// it.
    fn reversed(self) -> VecDeque<Fragment> {
        let mut rest = self.rest;
        let mut in_front = Tombstone::LIVE;
        for fragment in &mut rest {
            if let Fragment::Change(RangeTombstoneChange { tombstone, .. }) = fragment {
                std::mem::swap(tombstone, &mut in_front);
            }
        }
        let head = self.start.into_iter().chain(self.fixed);
        head.chain(rest.into_iter().rev()).chain([Fragment::PartitionEnd]).collect()
    }
}
