//! Encodes rows and cells for Data.db, and collects their figures for Statistics.db.
//!
//! ```text
//! row  := flags [extended flags] clustering | vint size of the rest | vint size of the one before | body
//! body := [timestamp [ttl, expiry]] [deletion] [missing columns] columns
//! cell := flags [timestamp] [deletion time] [ttl] [path] [value]
//! ```
//! Times are differences to the header's bases, in wrapping arithmetic. A cell with the timestamp of the row
//! marker, or with its TTL and expiry, does not repeat them. The row marker stores the TTL before the expiry,
//! a cell the expiry before the TTL; the format requires this. Source: Cassandra's
//! `UnfilteredSerializer`, `Cell`, `Columns`.

use base::bytes::put_vint_bytes;
use base::vint;
use model::{Cell, ColumnData, ComplexCells, Liveness, Row, Tombstone};

use super::columns::{DiskColumn, DiskColumns};
use super::error::WriteError;
use crate::component::deletion_time::{DeletionTime, NO_DELETION_TIME_S};
use crate::component::statistics::{DeltaBases, StatsCollector};

/// End of a partition. This value is the whole byte, not a flag.
pub(super) const END_OF_PARTITION: u8 = 0x01;
pub(super) const IS_MARKER: u8 = 0x02;
const HAS_TIMESTAMP: u8 = 0x04;
const HAS_TTL: u8 = 0x08;
const HAS_DELETION: u8 = 0x10;
const HAS_ALL_COLUMNS: u8 = 0x20;
const HAS_COMPLEX_DELETION: u8 = 0x40;
const EXTENSION: u8 = 0x80;
/// The only extended flag that this build writes.
pub(super) const EXTENDED_IS_STATIC: u8 = 0x01;

const CELL_IS_DELETED: u8 = 0x01;
const CELL_IS_EXPIRING: u8 = 0x02;
const CELL_HAS_EMPTY_VALUE: u8 = 0x04;
const CELL_USES_ROW_TIMESTAMP: u8 = 0x08;
const CELL_USES_ROW_TTL: u8 = 0x10;

/// From this number of columns on, the present or missing columns are listed by number and not by a bitmap.
const BITMAP_COLUMNS_MAX: usize = 64;

/// Largest local deletion time in versions before `oa`.
const DELETION_TIME_S_MAX: i32 = NO_DELETION_TIME_S - 1;

/// A local deletion or expiry time in the 31 bits of versions before `oa`. Later times are capped.
#[inline]
pub(super) fn local_time_s(time_s: u32) -> i32 {
    if time_s == model::NO_DELETION_TIME_S {
        return NO_DELETION_TIME_S;
    }
    i32::try_from(time_s).unwrap_or(DELETION_TIME_S_MAX).min(DELETION_TIME_S_MAX)
}

#[inline]
fn ttl_s(ttl_s: u32) -> i32 {
    i32::try_from(ttl_s).unwrap_or(i32::MAX)
}

pub(super) fn deletion_time(tombstone: Tombstone) -> DeletionTime {
    DeletionTime {
        marked_for_delete_at_us: tombstone.timestamp_us,
        local_deletion_time_s: local_time_s(tombstone.deletion_time_s),
    }
}

/// Reports a deletion to `stats`, unless it is live.
pub(super) fn report_deletion(stats: &mut StatsCollector, tombstone: Tombstone) {
    if !tombstone.is_live() {
        stats.update_timestamp(tombstone.timestamp_us);
        stats.update_deletion_time(local_time_s(tombstone.deletion_time_s));
    }
}

/// Encodes times as differences to the header's bases.
#[derive(Clone, Copy)]
pub(super) struct Deltas(pub(super) DeltaBases);

impl Deltas {
    #[inline]
    fn timestamp(self, out: &mut Vec<u8>, timestamp_us: i64) {
        vint::write_unsigned(out, timestamp_us.wrapping_sub(self.0.min_timestamp_us) as u64);
    }

    /// A 32-bit difference is sign-extended before it is encoded as a vint.
    #[inline]
    fn local_time(self, out: &mut Vec<u8>, time_s: i32) {
        let delta = time_s.wrapping_sub(self.0.min_local_deletion_time_s);
        vint::write_unsigned(out, i64::from(delta) as u64);
    }

    #[inline]
    fn ttl(self, out: &mut Vec<u8>, ttl_s: i32) {
        vint::write_unsigned(out, i64::from(ttl_s.wrapping_sub(self.0.min_ttl_s)) as u64);
    }

    pub(super) fn deletion(self, out: &mut Vec<u8>, tombstone: Tombstone) {
        self.timestamp(out, tombstone.timestamp_us);
        self.local_time(out, local_time_s(tombstone.deletion_time_s));
    }
}

/// Figures of a row, collected so that the collector is called once for all live cells of a row.
struct RowFigures {
    timestamps_us: (i64, i64),
    has_live: bool,
    has_expiring: bool,
    cells: u64,
    columns: u64,
}

impl RowFigures {
    const NONE: Self = Self {
        timestamps_us: (i64::MAX, i64::MIN),
        has_live: false,
        has_expiring: false,
        cells: 0,
        columns: 0,
    };

    #[inline]
    fn add(&mut self, stats: &mut StatsCollector, timestamp_us: i64, local_time_s: i32, ttl_s: i32) {
        self.timestamps_us.0 = self.timestamps_us.0.min(timestamp_us);
        self.timestamps_us.1 = self.timestamps_us.1.max(timestamp_us);
        if local_time_s == NO_DELETION_TIME_S && ttl_s == 0 {
            self.has_live = true;
        } else {
            self.has_expiring |= ttl_s != 0;
            stats.update_deletion_time(local_time_s);
            stats.update_ttl(ttl_s);
        }
    }

    fn report(&self, stats: &mut StatsCollector) {
        if self.timestamps_us.0 <= self.timestamps_us.1 {
            stats.update_timestamp(self.timestamps_us.0);
            stats.update_timestamp(self.timestamps_us.1);
        }
        if self.has_live {
            stats.update_deletion_time(NO_DELETION_TIME_S);
            stats.update_ttl(0);
        }
        stats.add_row(self.columns);
    }
}

/// Encodes rows. Holds the flags and the body of the last encoded row.
pub(super) struct RowEncoder {
    deltas: Deltas,
    body: Vec<u8>,
    flags: u8,
    /// The row's columns as (index on disk, index in the row), in disk order.
    present: Vec<(u16, u32)>,
    is_dead: bool,
    table: String,
}

impl RowEncoder {
    /// `table` is the full table name, for errors.
    pub(super) fn new(bases: DeltaBases, table: String) -> Self {
        Self { deltas: Deltas(bases), body: vec![], flags: 0, present: vec![], is_dead: false, table }
    }

    pub(super) fn deltas(&self) -> Deltas {
        self.deltas
    }

    /// The flags of the last encoded row.
    pub(super) fn flags(&self) -> u8 {
        self.flags
    }

    /// The flags of the last encoded static row; [`EXTENDED_IS_STATIC`] follows them in the file.
    pub(super) fn static_flags(&self) -> u8 {
        self.flags | EXTENSION
    }

    /// Whether the last encoded row has nothing that is live or expiring.
    pub(super) fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The body of the last encoded row, which follows the two sizes.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Clears the buffer for another body and returns it.
    pub(super) fn body_mut(&mut self) -> &mut Vec<u8> {
        self.body.clear();
        &mut self.body
    }

    /// Whether any part of `row` will be written.
    pub(super) fn has_content(&mut self, columns: &DiskColumns, row: &Row) -> bool {
        self.arrange(columns, row)
    }

    /// Collects the row's columns that will be written: no dropped columns, and no complex columns without
    /// content. Returns false if nothing of the row remains.
    fn arrange(&mut self, columns: &DiskColumns, row: &Row) -> bool {
        self.present.clear();
        for ((id, data), at) in row.cells().iter().zip(0u32..) {
            let Some(index) = columns.index(*id) else { continue };
            if matches!(data, ColumnData::Complex(complex) if complex.is_empty()) {
                continue;
            }
            self.present.push((index, at));
        }
        if !columns.ids_rise {
            self.present.sort_unstable();
        }
        !self.present.is_empty() || !row.liveness.is_none() || !row.deletion.is_live()
    }

    /// Encodes flags and body of `row` and reports the row to `stats`. Returns the number of cells; `None`,
    /// without a report, if nothing of the row remains.
    pub(super) fn encode(
        &mut self,
        columns: &DiskColumns,
        row: &Row,
        stats: &mut StatsCollector,
    ) -> Result<Option<u64>, WriteError> {
        if !self.arrange(columns, row) {
            return Ok(None);
        }
        let deltas = self.deltas;
        let mut figures = RowFigures::NONE;
        self.flags = 0;
        self.body.clear();
        let liveness = row.liveness;
        if !liveness.is_none() {
            let (ttl_s, expiry_s) = (ttl_s(liveness.ttl_s), local_time_s(liveness.local_expiration_s));
            self.flags |= HAS_TIMESTAMP;
            deltas.timestamp(&mut self.body, liveness.timestamp_us);
            if liveness.is_expiring() {
                self.flags |= HAS_TTL;
                deltas.ttl(&mut self.body, ttl_s);
                deltas.local_time(&mut self.body, expiry_s);
            }
            figures.add(stats, liveness.timestamp_us, expiry_s, ttl_s);
        }
        if !row.deletion.is_live() {
            self.flags |= HAS_DELETION;
            deltas.deletion(&mut self.body, row.deletion);
            report_deletion(stats, row.deletion);
        }
        if self.present.len() == columns.len() {
            self.flags |= HAS_ALL_COLUMNS;
        } else {
            encode_subset(&mut self.body, &self.present, columns.len());
        }
        let has_deletion = |(_, at): &(u16, u32)| match &row.cells()[*at as usize].1 {
            ColumnData::Simple(_) => false,
            ColumnData::Complex(complex) => !complex.deletion.is_live(),
        };
        let has_complex_deletion = self.present.iter().any(has_deletion);
        if has_complex_deletion {
            self.flags |= HAS_COMPLEX_DELETION;
        }
        let mut cells = CellEncoder { deltas, liveness, table: &self.table, stats, figures: &mut figures };
        for (index, at) in &self.present {
            let column = &columns.columns[usize::from(*index)];
            match &row.cells()[*at as usize].1 {
                ColumnData::Simple(cell) => cells.simple(&mut self.body, column, cell)?,
                ColumnData::Complex(complex) => {
                    cells.complex(&mut self.body, column, complex, has_complex_deletion)?;
                }
            }
        }
        let cells = figures.cells;
        self.is_dead = !figures.has_live && !figures.has_expiring;
        figures.report(stats);
        Ok(Some(cells))
    }

    /// Encodes flags and body of an empty static row. In a table with static columns every partition has a
    /// static row.
    pub(super) fn encode_nothing(&mut self, columns: &DiskColumns) {
        assert!(columns.len() > 0, "only tables with static columns have static rows");
        self.flags = 0;
        self.body.clear();
        encode_subset(&mut self.body, &[], columns.len());
    }
}

/// Encodes which of `columns` columns a row has. `present` rises and does not contain all of them.
fn encode_subset(out: &mut Vec<u8>, present: &[(u16, u32)], columns: usize) {
    if columns < BITMAP_COLUMNS_MAX {
        let all = (1u64 << columns) - 1;
        let missing = present.iter().fold(all, |missing, (index, _)| missing & !(1 << index));
        vint::write_unsigned(out, missing);
        return;
    }
    vint::write_unsigned(out, (columns - present.len()) as u64);
    if present.len() < columns / 2 {
        for (index, _) in present {
            vint::write_unsigned(out, u64::from(*index));
        }
        return;
    }
    let mut present = present.iter().map(|(index, _)| usize::from(*index)).peekable();
    for index in 0..columns {
        if present.next_if_eq(&index).is_none() {
            vint::write_unsigned(out, index as u64);
        }
    }
}

struct CellEncoder<'a> {
    deltas: Deltas,
    /// The liveness of the row; cells do not repeat equal times.
    liveness: Liveness,
    table: &'a str,
    stats: &'a mut StatsCollector,
    figures: &'a mut RowFigures,
}

impl CellEncoder<'_> {
    #[inline]
    fn simple(&mut self, out: &mut Vec<u8>, column: &DiskColumn, cell: &Cell) -> Result<(), WriteError> {
        self.figures.columns += 1;
        self.cell(out, column, cell, None)
    }

    fn complex(
        &mut self,
        out: &mut Vec<u8>,
        column: &DiskColumn,
        complex: &ComplexCells,
        row_has_complex_deletion: bool,
    ) -> Result<(), WriteError> {
        if row_has_complex_deletion {
            self.deltas.deletion(out, complex.deletion);
        }
        report_deletion(self.stats, complex.deletion);
        vint::write_unsigned(out, complex.cells.len() as u64);
        // As in Cassandra and ScyllaDB, a column that consists only of a deletion does not count as set.
        self.figures.columns += u64::from(!complex.cells.is_empty());
        for element in &complex.cells {
            self.cell(out, column, &element.cell, Some(&element.path))?;
        }
        Ok(())
    }

    #[inline]
    fn cell(
        &mut self,
        out: &mut Vec<u8>,
        column: &DiskColumn,
        cell: &Cell,
        path: Option<&[u8]>,
    ) -> Result<(), WriteError> {
        let Liveness { timestamp_us, ttl_s: row_ttl_s, local_expiration_s } = self.liveness;
        let value: &[u8] = &cell.value;
        let mut flags = 0;
        if value.is_empty() {
            flags |= CELL_HAS_EMPTY_VALUE;
        }
        let is_expiring = cell.is_expiring();
        let has_local_time = cell.local_deletion_time_s != model::NO_DELETION_TIME_S || is_expiring;
        if is_expiring {
            flags |= CELL_IS_EXPIRING;
            if cell.is_expired() {
                // The value was removed (ADR 0005). Cassandra and ScyllaDB read the cell as an expiring one.
                flags |= CELL_IS_DELETED;
            }
        } else if has_local_time {
            flags |= CELL_IS_DELETED;
        }
        if !self.liveness.is_none() && cell.timestamp_us == timestamp_us {
            flags |= CELL_USES_ROW_TIMESTAMP;
        }
        if is_expiring && cell.ttl() == row_ttl_s && cell.local_deletion_time_s == local_expiration_s {
            flags |= CELL_USES_ROW_TTL;
        }
        out.push(flags);
        if flags & CELL_USES_ROW_TIMESTAMP == 0 {
            self.deltas.timestamp(out, cell.timestamp_us);
        }
        let (local_time_s, ttl_s) = (local_time_s(cell.local_deletion_time_s), ttl_s(cell.ttl()));
        if has_local_time && flags & CELL_USES_ROW_TTL == 0 {
            self.deltas.local_time(out, local_time_s);
            if is_expiring {
                self.deltas.ttl(out, ttl_s);
            }
        }
        if let Some(path) = path {
            put_vint_bytes(out, path);
        }
        if !value.is_empty() {
            match column.fixed_bytes {
                None => vint::write_unsigned(out, value.len() as u64),
                Some(bytes) if bytes == value.len() => (),
                Some(bytes) => return Err(self.wrong_length(column, bytes, value.len())),
            }
            out.extend_from_slice(value);
        }
        self.figures.cells += 1;
        self.figures.add(self.stats, cell.timestamp_us, local_time_s, ttl_s);
        Ok(())
    }

    #[cold]
    fn wrong_length(&self, column: &DiskColumn, expected_bytes: usize, found_bytes: usize) -> WriteError {
        WriteError::Value {
            table: self.table.to_owned(),
            column: column.name.clone(),
            expected_bytes,
            found_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(present: impl Iterator<Item = u16>, columns: usize) -> Vec<u8> {
        let present: Vec<(u16, u32)> = present.zip(0..).collect();
        let mut out = vec![];
        encode_subset(&mut out, &present, columns);
        out
    }

    #[test]
    fn missing_columns_are_bits_or_numbers() {
        assert_eq!(subset([0, 2].into_iter(), 4), [0b1010]);
        assert_eq!(subset([].into_iter(), 63)[..2], [0xff, 0x7f]);
        // From 64 columns on: the number of missing columns, then the numbers of the missing or of the
        // present ones, whichever are fewer.
        assert_eq!(subset([3, 63].into_iter(), 64), [62, 3, 63]);
        assert_eq!(subset(0..31, 64)[..3], [33, 0, 1]);
        assert_eq!(subset(0..32, 64)[..3], [32, 32, 33]);
        assert_eq!(subset((0..64).filter(|n| *n != 7), 64), [1, 7]);
        assert_eq!(subset([].into_iter(), 64), [64]);
    }

    #[test]
    fn local_times_fit_31_bits() {
        assert_eq!(local_time_s(model::NO_DELETION_TIME_S), i32::MAX);
        for late in [0x7fff_fffe, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1] {
            assert_eq!(local_time_s(late), i32::MAX - 1);
        }
        assert_eq!(local_time_s(7), 7);
    }
}
