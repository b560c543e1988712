//! The fragments of a partition in the order in which they are read, and the trait of their readers.
//!
//! A partition is a `PartitionStart`, at most one `Static`, then `Row`s and `Change`s in the order of their
//! positions (falling in a reverse read), then a `PartitionEnd`. A `Change` gives the range tombstone that is
//! in force from its position on, in the direction of the read. None is in force at the start of a partition,
//! nor after the end of each wanted range. Tombstones are not applied to rows; this is the task of
//! `CompactReader`.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use model::{
    ClusteringKey, ClusteringRange, PartitionKey, PartitionRange, RangeTombstoneChange, Row, TableSchema,
    Tombstone,
};

use crate::ReadError;
use crate::block_on::LocalFuture;
use crate::permit::Permit;
use crate::trace::Tracer;

/// A fragment of one partition. Rows are shared, not copied: a memtable returns the rows that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// The first fragment of a partition: its key, and the deletion of the partition ([`Tombstone::LIVE`]:
    /// none).
    PartitionStart {
        /// The key of the partition.
        key: PartitionKey,
        /// The deletion of the partition.
        tombstone: Tombstone,
    },
    /// The static row. Comes after the start of the partition, at most once.
    Static(Rc<Row>),
    /// From this position on, another range tombstone is in force, or none.
    Change(RangeTombstoneChange),
    /// A row. Rows and changes come in the order of their positions.
    Row(RowFragment),
    /// The last fragment of a partition.
    PartitionEnd,
}

/// A row of a partition: its position by value, its content shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFragment {
    /// The clustering key: all clustering columns of the table.
    pub key: ClusteringKey,
    /// Deletion, liveness and cells. Shared with the source, so it is never changed in place.
    pub row: Rc<Row>,
}

/// Result of a request for the next fragment.
#[derive(Debug)]
pub enum Step {
    /// The next fragment.
    Ready(Fragment),
    /// The next fragment is known only after `load` has been awaited.
    Load,
    /// There is no further partition. Returned again on each further call.
    End,
}

/// A stream of fragments. Partitions rise by token and key, even in a reverse read, which only reverses the
/// order inside each partition.
pub trait Reader {
    /// The next fragment. Never waits and does little work per call, so that the caller can yield between
    /// calls. After an error the reader must not be used again.
    fn next(&mut self) -> Result<Step, ReadError>;

    /// Loads the data for which `next` returned `Step::Load`. A call without need does nothing.
    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>>;

    /// Skips the remainder of the current partition, including its `PartitionEnd`. Between partitions it does
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

/// Parameters of a reader.
#[derive(Clone)]
pub struct ReadSpec {
    /// The schema by which the data is interpreted: the current one.
    pub schema: Arc<TableSchema>,
    /// The partitions to read: a key, or a range of the ring. Readers return them in the order of the ring.
    pub partitions: PartitionRange,
    /// Wanted rows of each partition; disjoint, rising in the table's order. The static row is always wanted.
    /// Empty: only the partition and its static row.
    pub ranges: Arc<[ClusteringRange]>,
    /// Whether rows are read from the last to the first.
    pub reversed: bool,
    /// The permit that is charged for the memory of readers; `None`: not counted.
    pub permit: Option<Rc<Permit>>,
    /// Receives notes of what readers do; `None`: not traced.
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
    /// Reads everything in `partitions`.
    pub fn new(schema: Arc<TableSchema>, partitions: PartitionRange) -> Self {
        let ranges = Arc::new([ClusteringRange::all()]);
        Self { schema, partitions, ranges, reversed: false, permit: None, trace: None }
    }

    /// Restricts the read to these ranges of rows, which are sorted and do not overlap. Static rows are
    /// returned too.
    #[must_use]
    pub fn ranges(mut self, ranges: impl Into<Arc<[ClusteringRange]>>) -> Self {
        self.ranges = ranges.into();
        self
    }

    /// Sets the direction of the rows in each partition. Partitions ascend in both directions.
    #[must_use]
    pub fn reversed(mut self, reversed: bool) -> Self {
        self.reversed = reversed;
        self
    }

    /// Sets the permit that is charged with the memory of the read; `None`: nothing is charged.
    #[must_use]
    pub fn permit(mut self, permit: Option<Rc<Permit>>) -> Self {
        self.permit = permit;
        self
    }

    /// Sets the receiver of the read's activities; `None`: they are not recorded.
    #[must_use]
    pub fn trace(mut self, trace: Option<Tracer>) -> Self {
        self.trace = trace;
        self
    }

    /// Adds a note to the trace. `text` is called only if the read is traced.
    #[inline]
    pub fn note(&self, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.note(text());
        }
    }

    /// Whether every row of a partition is wanted, so that nothing has to be cut.
    pub fn wants_all_rows(&self) -> bool {
        self.ranges.len() == 1 && self.ranges[0].is_all()
    }
}

/// A source of readers. Its content does not change under an open reader.
pub trait Source {
    /// A reader of the data that `spec` selects. Opening reads nothing; the first [`Reader::load`] does.
    fn reader(&self, spec: &ReadSpec) -> Box<dyn Reader>;
}
