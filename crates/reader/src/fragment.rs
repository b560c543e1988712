//! The pieces of a partition in the order in which they are read, and who yields them.
//!
//! A partition is: `PartitionStart`, at most one `Static`, then `Row`s and `Change`s in the order of their
//! positions (falling in a reverse read), then `PartitionEnd`. A `Change` says which range deletion is in
//! force from its position on, in the direction of the read; at the start nothing is in force, and at the end
//! of every wanted range nothing is again. Deletions are not applied to rows: that is `CompactReader`'s work.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, RangeTombstoneChange, Row, TableSchema,
    Tombstone,
};

use crate::ReadError;
use crate::drive::LocalFuture;
use crate::permit::Permit;
use crate::trace::Tracer;

/// One piece of one partition. Rows are shared, not copied: a memtable hands out what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fragment {
    PartitionStart { key: PartitionKey, tombstone: Tombstone },
    Static(Rc<Row>),
    Change(RangeTombstoneChange),
    Row(RowFragment),
    PartitionEnd,
}

/// A row of a partition: its place by value, its content shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFragment {
    pub key: ClusteringKey,
    pub row: Rc<Row>,
}

/// What a reader says when it is asked for the next fragment.
#[derive(Debug)]
pub enum Step {
    Ready(Fragment),
    /// Nothing can be said before `load` has been awaited.
    Load,
    /// There is no further partition. Said again each time.
    End,
}

/// A stream of fragments. Partitions rise by token and key, also in a reverse read, which turns the order
/// inside each partition.
pub trait Reader {
    /// The next fragment. Cheap: never waits, and does little work per call, so that the caller can stop in
    /// between. After an error the reader is not used any more.
    fn next(&mut self) -> Result<Step, ReadError>;

    /// Fetches what `next` asked for by `Step::Load`. May be called without need; then it does nothing.
    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>>;

    /// Leaves the rest of the current partition out, its `PartitionEnd` included. Between partitions it does
    /// nothing.
    fn skip_partition(&mut self);
}

impl<R: Reader + ?Sized> Reader for Box<R> {
    fn next(&mut self) -> Result<Step, ReadError> {
        (**self).next()
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        (**self).load()
    }

    fn skip_partition(&mut self) {
        (**self).skip_partition();
    }
}

/// What a read wants.
#[derive(Clone)]
pub struct ReadSpec {
    /// The schema by which the data are to be understood: today's.
    pub schema: Arc<TableSchema>,
    pub partitions: PartitionRange,
    /// Which rows of each partition; disjoint, rising in the table's order. The static row is always wanted.
    /// None wanted: only partition and static row.
    pub ranges: Arc<[ClusteringRange]>,
    /// Rows from the last to the first.
    pub reversed: bool,
    /// Whom readers charge what they hold; `None`: nobody counts.
    pub permit: Option<Rc<Permit>>,
    /// Whom readers tell what they do; `None`: nobody asked.
    pub trace: Option<Tracer>,
}

impl fmt::Debug for ReadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schema, partitions, ranges, reversed, permit: _, trace: _ } = self;
        let mut debug = f.debug_struct("ReadSpec");
        debug.field("table", &schema.full_name()).field("partitions", partitions);
        debug.field("ranges", ranges).field("reversed", reversed).finish()
    }
}

impl ReadSpec {
    /// Everything of the wanted partitions.
    pub fn new(schema: Arc<TableSchema>, partitions: PartitionRange) -> Self {
        let ranges = Arc::new([ClusteringRange::all()]);
        Self { schema, partitions, ranges, reversed: false, permit: None, trace: None }
    }

    #[must_use]
    pub fn ranges(mut self, ranges: impl Into<Arc<[ClusteringRange]>>) -> Self {
        self.ranges = ranges.into();
        self
    }

    #[must_use]
    pub fn reversed(mut self, reversed: bool) -> Self {
        self.reversed = reversed;
        self
    }

    #[must_use]
    pub fn permit(mut self, permit: Option<Rc<Permit>>) -> Self {
        self.permit = permit;
        self
    }

    #[must_use]
    pub fn trace(mut self, trace: Option<Tracer>) -> Self {
        self.trace = trace;
        self
    }

    /// Tells whoever asked.
    #[inline]
    pub fn note(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.note(text());
        }
    }

    /// Every row of a partition, so nothing has to be cut.
    pub fn wants_all_rows(&self) -> bool {
        self.ranges.len() == 1 && self.ranges[0].is_all()
    }
}

/// Something that can be read. What it holds does not change under an open reader.
pub trait Source {
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader>;
}
