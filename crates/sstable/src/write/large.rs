//! Finds large partitions, rows and cells while an SSTable is written.
//!
//! The cost is one comparison per row. Cells are inspected only in a row that is long enough to have a large
//! one: a cell is not larger than its row, and a collection of many elements makes a long row. Of each kind,
//! the [`LargeDataLimits::records_max`] records that exceed the limit by the largest factor are kept.

use model::{ColumnData, PartitionKey, Position, Row, TableSchema};

use crate::component::large_data::{LargeCell, LargeData, LargePartition, LargeRow, RowPlace};

/// Minimum bytes of a collection element in Data.db: flags and the length of its key.
const ELEMENT_BYTES_MIN: u64 = 2;

/// Upper limits of normal sizes. Data above a limit are large; `u64::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeDataLimits {
    /// Bytes of a partition in one SSTable, before compression.
    pub partition_bytes: u64,
    /// Rows of a partition in one SSTable.
    pub partition_rows: u64,
    /// Bytes of a row, before compression.
    pub row_bytes: u64,
    /// Bytes of a cell's value, or of all values and keys of a collection.
    pub cell_bytes: u64,
    /// Elements of a collection.
    pub collection_elements: u64,
    /// Maximum number of partitions, of rows and of cells that are recorded for an SSTable.
    pub records_max: usize,
}

impl Default for LargeDataLimits {
    /// ScyllaDB's defaults.
    fn default() -> Self {
        Self {
            partition_bytes: 1000 << 20,
            partition_rows: 100_000,
            row_bytes: 10 << 20,
            cell_bytes: 1 << 20,
            collection_elements: 10_000,
            records_max: 10,
        }
    }
}

/// The records of a kind that exceed the limit by the largest factors.
struct Largest<T> {
    kept: Vec<(f64, T)>,
    max: usize,
}

impl<T> Largest<T> {
    fn new(max: usize) -> Self {
        Self { kept: vec![], max }
    }

    fn offer(&mut self, times: f64, make: impl FnOnce() -> T) {
        if self.kept.len() < self.max {
            self.kept.push((times, make()));
            return;
        }
        let least = self.kept.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(least) = least.filter(|least| least.0 < times) {
            *least = (times, make());
        }
    }

    fn finish(mut self) -> Vec<T> {
        self.kept.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.kept.into_iter().map(|(_, kept)| kept).collect()
    }
}

/// The larger ratio of a number to its limit; `None` if no number exceeds its limit.
fn times_over(numbers: [(u64, u64); 2]) -> Option<f64> {
    let is_over = numbers.iter().any(|(number, limit)| number > limit);
    let times = numbers.map(|(number, limit)| number as f64 / limit.max(1) as f64);
    is_over.then_some(times[0].max(times[1]))
}

/// See the head of this file.
pub(super) struct LargeDataFinder {
    limits: LargeDataLimits,
    /// A row of at most this number of bytes contains nothing large.
    unsuspicious_bytes: u64,
    partitions: Largest<LargePartition>,
    rows: Largest<LargeRow>,
    cells: Largest<LargeCell>,
}

/// A row to inspect.
pub(super) struct RowSeen<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) key: &'a PartitionKey,
    /// `None` for the static row.
    pub(super) position: Option<&'a Position>,
    pub(super) row: &'a Row,
    pub(super) bytes: u64,
}

impl RowSeen<'_> {
    fn place(&self) -> RowPlace {
        let values = |position: &Position| position.prefix.values().map(<[u8]>::to_vec).collect();
        RowPlace { key: self.key.bytes().to_vec(), clustering: self.position.map(values) }
    }
}

impl LargeDataFinder {
    pub(super) fn new(limits: LargeDataLimits) -> Self {
        let of_elements = limits.collection_elements.saturating_mul(ELEMENT_BYTES_MIN);
        Self {
            limits,
            unsuspicious_bytes: limits.row_bytes.min(limits.cell_bytes).min(of_elements),
            partitions: Largest::new(limits.records_max),
            rows: Largest::new(limits.records_max),
            cells: Largest::new(limits.records_max),
        }
    }

    /// Whether a row of this length has to be [inspected](Self::row).
    #[inline]
    pub(super) fn is_suspicious(&self, row_bytes: u64) -> bool {
        row_bytes > self.unsuspicious_bytes
    }

    #[cold]
    pub(super) fn row(&mut self, seen: &RowSeen<'_>) {
        let RowSeen { schema, row, bytes, .. } = seen;
        if let Some(times) = times_over([(*bytes, self.limits.row_bytes), (0, 1)]) {
            self.rows.offer(times, || LargeRow { place: seen.place(), bytes: *bytes });
        }
        for (id, data) in row.cells() {
            let (bytes, elements) = match data {
                ColumnData::Simple(cell) => (cell.value.len() as u64, None),
                ColumnData::Complex(complex) => {
                    let bytes = complex.cells.iter().map(|it| it.path.len() + it.cell.value.len());
                    (bytes.sum::<usize>() as u64, Some(complex.cells.len() as u64))
                }
            };
            let over = times_over([
                (bytes, self.limits.cell_bytes),
                (elements.unwrap_or(0), self.limits.collection_elements),
            ]);
            // A column that was dropped in the meantime is not written.
            let Some((times, column)) = over.zip(schema.column(*id)) else { continue };
            self.cells.offer(times, || LargeCell {
                place: seen.place(),
                column: column.name.clone(),
                bytes,
                elements,
            });
        }
    }

    #[inline]
    pub(super) fn partition(&mut self, found: impl FnOnce() -> LargePartition, bytes: u64, rows: u64) {
        if bytes <= self.limits.partition_bytes && rows <= self.limits.partition_rows {
            return;
        }
        let limits = &self.limits;
        let times = times_over([(bytes, limits.partition_bytes), (rows, limits.partition_rows)]);
        self.partitions.offer(times.unwrap_or(0.0), found);
    }

    /// The records of an SSTable that was written at `written_ms`; `None` if there are none.
    pub(super) fn finish(self, written_ms: i64) -> Option<LargeData> {
        let Self { partitions, rows, cells, .. } = self;
        let (partitions, rows, cells) = (partitions.finish(), rows.finish(), cells.finish());
        let found = LargeData { written_ms, partitions, rows, cells };
        (!found.is_empty()).then_some(found)
    }
}
