//! The least postings after a point, as many as fit: candidates are enumerated window by window, so that the
//! memory of a read is bounded, however many there are.

use std::rc::Rc;
use std::sync::Arc;

use model::index::Posting;
use model::{PartitionKey, TableSchema};
use reader::{Charge, Permit, ReadError, ReadSpec};

/// Postings of a window.
pub(super) const POSTINGS_MAX: usize = 2048;

/// Where a window begins.
#[derive(Clone, Debug)]
pub(super) enum After {
    Posting(Posting),
    Partition(PartitionKey),
}

impl After {
    pub(super) fn key(&self) -> &PartitionKey {
        match self {
            Self::Posting(posting) => &posting.key,
            Self::Partition(key) => key,
        }
    }

    fn is_before(&self, posting: &Posting, schema: &TableSchema) -> bool {
        match self {
            Self::Posting(after) => posting.compare(after, schema).is_gt(),
            Self::Partition(after) => posting.key > *after,
        }
    }
}

/// See the head of this file.
pub(super) struct Window {
    schema: Arc<TableSchema>,
    /// Rows outside of these are not wanted.
    ranges: Arc<[model::ClusteringRange]>,
    wants_all_rows: bool,
    after: Option<After>,
    postings: Vec<Posting>,
    /// Of the postings after this one some were left out.
    end: Option<Posting>,
    postings_max: usize,
    heap_bytes: u64,
    charge: Charge,
}

impl Window {
    /// An empty window on the postings after `after`; `None`: from the beginning.
    pub(super) fn new(spec: &ReadSpec, permit: Option<Rc<Permit>>, after: Option<After>) -> Self {
        Self {
            schema: spec.schema.clone(),
            ranges: spec.ranges.clone(),
            wants_all_rows: spec.wants_all_rows(),
            after,
            postings: vec![],
            end: None,
            postings_max: POSTINGS_MAX,
            heap_bytes: 0,
            charge: Charge::new(permit),
        }
    }

    pub(super) fn after(&self) -> Option<&After> {
        self.after.as_ref()
    }

    /// Whether the window ends before the posting.
    pub(super) fn is_past(&self, posting: &Posting) -> bool {
        self.end.as_ref().is_some_and(|end| posting.compare(end, &self.schema).is_gt())
    }

    pub(super) fn push(&mut self, posting: &Posting) {
        let is_early = |after: &After| !after.is_before(posting, &self.schema);
        if self.after.as_ref().is_some_and(is_early) || self.is_past(posting) || !self.wants(posting) {
            return;
        }
        self.heap_bytes += posting.heap_bytes() as u64;
        self.postings.push(posting.clone());
        if self.postings.len() >= 2 * self.postings_max {
            self.settle();
        }
    }

    fn wants(&self, posting: &Posting) -> bool {
        let Some(row) = posting.row.as_ref().filter(|_| !self.wants_all_rows) else { return true };
        self.ranges.iter().any(|range| self.schema.range_contains(range, row))
    }

    /// Sorts the postings of the window, and drops those beyond its capacity.
    pub(super) fn settle(&mut self) {
        let schema = &self.schema;
        self.postings.sort_by(|a, b| a.compare(b, schema));
        // Sources may have different bytes of equal keys.
        self.postings.dedup_by(|a, b| a.compare(b, schema).is_eq());
        if self.postings.len() > self.postings_max {
            self.postings.truncate(self.postings_max);
            self.end = self.postings.last().cloned();
        }
        self.heap_bytes = self.postings.iter().map(|posting| posting.heap_bytes() as u64).sum();
    }

    /// Charges the held memory to the read.
    pub(super) async fn charge(&mut self) -> Result<(), ReadError> {
        let bytes = (self.postings.capacity() * size_of::<Posting>()) as u64 + self.heap_bytes;
        self.charge.grow_to(bytes).await
    }

    /// The postings, in order, and where the next window begins; `None`: there is nothing after them.
    pub(super) fn finish(self) -> (Vec<Posting>, Option<Posting>, Charge) {
        (self.postings, self.end, self.charge)
    }
}
