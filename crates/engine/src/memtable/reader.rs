//! Reads a snapshot of a memtable, or of one of its partitions, in both directions.
//!
//! Rows and range tombstone changes are read in parallel, each with its own cursor. A slice begins with a
//! search, so rows before it cost nothing. Cells of columns that the reader's schema does not have are left
//! out, because a memtable keeps cells that were written before a column was dropped.

use std::hint::black_box;
use std::sync::Arc;

use model::{
    ClusteringRange, PartitionKey, Position, RangeTombstoneChange, RingPosition, Row, Side, TableSchema,
    Tombstone,
};
use reader::{Fragment, LocalFuture, ReadError, ReadSpec, Reader, RowFragment, Step};
use std::rc::Rc;

use super::partition::MemPartition;
use super::tree::{Cursor, Tree};

/// Size of a cache line of the CPU.
const LINE_BYTES: usize = 64;
/// Bytes of a row that are prefetched; the CPU itself prefetches the rest of a longer value.
const TOUCHED_BYTES_MAX: usize = 1024;

/// Reads one partition.
pub struct PartitionReader {
    schema: Arc<TableSchema>,
    ranges: Arc<[ClusteringRange]>,
    reversed: bool,
    /// The reader most likely needs following rows too, so their memory is prefetched; see [`touch`].
    touches_ahead: bool,
    partition: Option<(PartitionKey, MemPartition)>,
    state: State,
}

enum State {
    Start,
    Static,
    /// Before the range with this number, in the direction of the read.
    Between(usize),
    Inside(InRange),
    Done,
}

struct InRange {
    number: usize,
    rows: Cursor<model::ClusteringKey, Rc<Row>>,
    next_row: Option<RowFragment>,
    /// Number of following rows whose memory was prefetched, if prefetching is on.
    touched: Option<usize>,
    /// The next range tombstone change to be checked: its index if forward, its index + 1 if reverse.
    change: usize,
    in_force: Tombstone,
    /// The tombstone in force at the start of the range has not been output yet.
    opening: bool,
}

impl PartitionReader {
    pub fn new(spec: &ReadSpec, partition: Option<(PartitionKey, MemPartition)>) -> Self {
        let state = if partition.is_some() { State::Start } else { State::Done };
        Self {
            schema: spec.schema.clone(),
            ranges: spec.ranges.clone(),
            reversed: spec.reversed,
            touches_ahead: false,
            partition,
            state,
        }
    }

    /// Continues with another partition.
    fn restart(&mut self, key: PartitionKey, partition: MemPartition) {
        self.partition = Some((key, partition));
        self.state = State::Start;
    }

    /// The next fragment, `None` after the end of the partition.
    fn fragment(&mut self) -> Option<Fragment> {
        let (key, partition) = self.partition.as_ref()?;
        loop {
            match &mut self.state {
                State::Start => {
                    self.state = State::Static;
                    return Some(Fragment::PartitionStart {
                        key: key.clone(),
                        tombstone: partition.tombstone,
                    });
                }
                State::Static => {
                    self.state = State::Between(0);
                    if let Some(row) = &partition.static_row {
                        let row = known_columns(&self.schema, row);
                        if !row.is_empty() {
                            return Some(Fragment::Static(row));
                        }
                    }
                }
                State::Between(number) if *number == self.ranges.len() => {
                    self.state = State::Done;
                    return Some(Fragment::PartitionEnd);
                }
                State::Between(number) => {
                    let range = range(&self.ranges, *number, self.reversed);
                    let touched = self.touches_ahead.then_some(0);
                    let inside = open(&self.schema, partition, range, *number, self.reversed, touched);
                    self.state = State::Inside(inside);
                }
                State::Inside(inside) => {
                    let range = range(&self.ranges, inside.number, self.reversed);
                    if let Some(fragment) = inside.step(&self.schema, partition, range, self.reversed) {
                        return Some(fragment);
                    }
                    self.state = State::Between(inside.number + 1);
                }
                State::Done => return None,
            }
        }
    }
}

fn range(ranges: &[ClusteringRange], number: usize, reversed: bool) -> &ClusteringRange {
    if reversed { &ranges[ranges.len() - 1 - number] } else { &ranges[number] }
}

fn open(
    schema: &TableSchema,
    partition: &MemPartition,
    range: &ClusteringRange,
    number: usize,
    reversed: bool,
    touched: Option<usize>,
) -> InRange {
    let begin = if reversed { &range.end } else { &range.start };
    let order =
        |key: &model::ClusteringKey| schema.compare_parts((key, Side::At), (&begin.prefix, begin.side));
    let rows = partition.rows.cursor(order);
    let (change, in_force) = match &partition.range_tombstones {
        None => (0, Tombstone::LIVE),
        Some(ranges) => {
            let changes = ranges.changes();
            // Forward: the tombstone in force after the beginning. Reverse: the one before it.
            let change = changes.partition_point(|change| {
                let order = schema.compare_positions(&change.position, begin);
                if reversed { order.is_lt() } else { order.is_le() }
            });
            (change, change.checked_sub(1).map_or(Tombstone::LIVE, |last| changes[last].tombstone))
        }
    };
    let opening = !in_force.is_live();
    let mut inside = InRange { number, rows, next_row: None, touched, change, in_force, opening };
    inside.fetch_row(schema, range, reversed);
    inside
}

impl InRange {
    fn fetch_row(&mut self, schema: &TableSchema, range: &ClusteringRange, reversed: bool) {
        let entry = if reversed { self.rows.prev() } else { self.rows.next() };
        self.next_row = entry.and_then(|(key, row)| {
            let end = if reversed { &range.start } else { &range.end };
            let order = schema.compare_parts((key, Side::At), (&end.prefix, end.side));
            let inside = if reversed { order.is_gt() } else { order.is_lt() };
            inside.then(|| RowFragment { key: key.clone(), row: known_columns(schema, row) })
        });
        if let Some(touched) = &mut self.touched {
            if *touched == 0 {
                let soon = self.rows.rest_of_leaf();
                *touched = soon.len() + 1;
                black_box(soon.iter().map(|(_, row)| touch(row)).sum::<u64>());
            }
            *touched -= 1;
        }
    }

    fn step(
        &mut self,
        schema: &TableSchema,
        partition: &MemPartition,
        range: &ClusteringRange,
        reversed: bool,
    ) -> Option<Fragment> {
        let (begin, end) = if reversed { (&range.end, &range.start) } else { (&range.start, &range.end) };
        if self.opening {
            self.opening = false;
            return Some(change(begin, self.in_force));
        }
        if let Some(next) = self.next_change(schema, partition, end, reversed) {
            let before_row = self.next_row.as_ref().is_none_or(|row| {
                let position = (&next.position.prefix, next.position.side);
                let order = schema.compare_parts(position, (&row.key, Side::At));
                if reversed { order.is_gt() } else { order.is_lt() }
            });
            if before_row {
                self.change = if reversed { self.change - 1 } else { self.change + 1 };
                self.in_force = next.tombstone;
                return Some(Fragment::Change(next));
            }
        }
        if let Some(row) = self.next_row.take() {
            self.fetch_row(schema, range, reversed);
            // After deleted counters or dropped columns a row may be empty.
            return if row.row.is_empty() {
                self.step(schema, partition, range, reversed)
            } else {
                Some(Fragment::Row(row))
            };
        }
        if !self.in_force.is_live() {
            self.in_force = Tombstone::LIVE;
            return Some(change(end, Tombstone::LIVE));
        }
        None
    }

    /// The next change before `end`.
    fn next_change(
        &self,
        schema: &TableSchema,
        partition: &MemPartition,
        end: &Position,
        reversed: bool,
    ) -> Option<RangeTombstoneChange> {
        let changes = partition.range_tombstones.as_ref()?.changes();
        let index = if reversed { self.change.checked_sub(1)? } else { self.change };
        let found = changes.get(index)?;
        let order = schema.compare_positions(&found.position, end);
        let inside = if reversed { order.is_gt() } else { order.is_lt() };
        inside.then(|| match reversed {
            false => found.clone(),
            // In reverse, the tombstone that was in force before the change begins at it.
            true => RangeTombstoneChange {
                position: found.position.clone(),
                tombstone: index.checked_sub(1).map_or(Tombstone::LIVE, |before| changes[before].tombstone),
            },
        })
    }
}

/// Prefetches a row: reads a byte of each cache line that a reader of this row will need. Rows are scattered
/// in memory, and a memtable is larger than the CPU's caches. For several rows at once the cache misses
/// overlap, where a reader would wait for them one by one. Returns a value that depends on all bytes read.
#[inline]
pub(super) fn touch(row: &Row) -> u64 {
    let mut left_bytes = TOUCHED_BYTES_MAX;
    let mut sum = 0;
    for (_, data) in row.cells() {
        let model::ColumnData::Simple(cell) = data else { continue };
        let value: &[u8] = &cell.value;
        let value = &value[..value.len().min(left_bytes)];
        left_bytes -= value.len();
        sum += value.iter().step_by(LINE_BYTES).chain(value.last()).map(|byte| u64::from(*byte)).sum::<u64>();
    }
    sum
}

/// The row without cells of columns that were dropped after they were written. Usually the row itself.
fn known_columns(schema: &TableSchema, row: &Rc<Row>) -> Rc<Row> {
    if schema.dropped.is_empty() || row.is_known(schema) {
        return row.clone();
    }
    let mut known = (**row).clone();
    known.retain_known(schema);
    Rc::new(known)
}

fn change(position: &Position, tombstone: Tombstone) -> Fragment {
    Fragment::Change(RangeTombstoneChange { position: position.clone(), tombstone })
}

impl Reader for PartitionReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        Ok(self.fragment().map_or(Step::End, Step::Ready))
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Ok(()) })
    }

    fn skip_partition(&mut self) {
        if !matches!(self.state, State::Start) {
            self.state = State::Done;
        }
    }
}

/// Reads a range of partitions.
pub struct MemtableReader {
    end: RingPosition,
    partitions: Cursor<PartitionKey, MemPartition>,
    current: PartitionReader,
    /// Number of following partitions whose memory was prefetched; see [`MemPartition::touch`].
    touched: usize,
}

impl MemtableReader {
    pub fn new(spec: &ReadSpec, partitions: &Tree<PartitionKey, MemPartition>) -> Self {
        let start = spec.partitions.start();
        let touches_ahead = spec.wants_all_rows() && !spec.reversed;
        Self {
            end: spec.partitions.end(),
            partitions: partitions.cursor(|key| start.side_of(key)),
            current: PartitionReader { touches_ahead, ..PartitionReader::new(spec, None) },
            touched: 0,
        }
    }
}

impl Reader for MemtableReader {
    fn next(&mut self) -> Result<Step, ReadError> {
        loop {
            if let Some(fragment) = self.current.fragment() {
                return Ok(Step::Ready(fragment));
            }
            match self.partitions.next() {
                Some((key, partition)) if self.end.side_of(key).is_lt() => {
                    self.current.restart(key.clone(), partition.clone());
                }
                _ => return Ok(Step::End),
            }
            if self.touched == 0 {
                let soon = self.partitions.rest_of_leaf();
                self.touched = soon.len() + 1;
                black_box(soon.iter().map(|(_, partition)| partition.touch()).sum::<u64>());
            }
            self.touched -= 1;
        }
    }

    fn load(&mut self) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(async { Ok(()) })
    }

    fn skip_partition(&mut self) {
        self.current.skip_partition();
    }
}
