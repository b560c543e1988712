//! Decodes the body of a row: liveness, deletion and cells.
//!
//! ```text
//! body    := [vint timestamp, [vint ttl, vint expiry]] [deletion] [columns]
//!            cells of the columns in file order
//! cell    := flags, [vint timestamp], [vint deletion time], [vint ttl], [vstr path], [value]
//! columns := fewer than 64: vint with a set bit for each missing column
//!            64 or more: vint number of missing columns, then the numbers of the present or of the missing
//!            columns, whichever are fewer
//! ```
//! The decoded row has its columns in the order of column ids and omits cells that the row's own deletion
//! shadows. Decoding allocates the list of cells and the values that do not fit into `SmallBytes`; columns
//! that are skipped cost no allocation.

use base::bytes::Take;
use model::{
    Cell, ColumnData, ColumnId, ComplexCells, Liveness, NO_DELETION_TIME_S, PathCell, Row, SmallBytes,
    Tombstone,
};

use super::columns::{MappedColumn, MappedColumns};
use super::unfiltered::{Bases, HAS_ALL_COLUMNS, HAS_COMPLEX_DELETION, HAS_DELETION, HAS_TIMESTAMP, HAS_TTL};
use crate::component::{FormatError, Named, check_count};

const CELL_DELETED: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
/// An expired cell whose value was removed (ADR 0005). Cassandra and ScyllaDB read such a cell as an expiring
/// one with an empty value.
const CELL_EXPIRED: u8 = CELL_DELETED | CELL_EXPIRING;
const CELL_EMPTY_VALUE: u8 = 0x04;
const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;
const CELL_FLAGS: u8 = 0x1f;

/// From this number of columns on, a list and not a bitmap states which columns are present.
const BITMAP_COLUMNS: usize = 64;

/// Decodes rows. Reuses its buffers between rows.
#[derive(Default)]
pub(in crate::read) struct RowDecoder {
    /// Numbers of the columns that the row has, if it does not have all.
    present: Vec<usize>,
    /// Cells before they are sorted by column id.
    unsorted: Vec<(ColumnId, ColumnData)>,
}

impl RowDecoder {
    /// Decodes `body`, which is the whole row after its head. Errors carry offsets from the start of `body`.
    pub(in crate::read) fn decode(
        &mut self,
        flags: u8,
        body: &[u8],
        columns: &MappedColumns,
        bases: &Bases,
    ) -> Result<Row, FormatError> {
        self.unsorted.clear();
        let mut take = Take::new(body);
        let has_all = flags & HAS_ALL_COLUMNS != 0;
        let liveness =
            if flags & HAS_TIMESTAMP != 0 { liveness(flags, &mut take, bases)? } else { Liveness::NONE };
        let deletion = if flags & HAS_DELETION != 0 { bases.deletion(&mut take)? } else { Tombstone::LIVE };
        let count = if has_all {
            columns.columns.len()
        } else {
            self.read_present(&mut take, columns.columns.len())?;
            self.present.len()
        };
        let mut row = Row::with_capacity(count);
        row.liveness = liveness;
        row.deletion = deletion;
        let context = RowContext { flags, liveness, bases };
        let mut deletes = !deletion.is_live();
        for index in 0..count {
            let column = &columns.columns[if has_all { index } else { self.present[index] }];
            let data = if column.is_complex {
                let complex = context.complex(&mut take, column)?;
                deletes |= complex.as_ref().is_some_and(|complex| !complex.deletion.is_live());
                complex.map(|complex| ColumnData::Complex(Box::new(complex)))
            } else {
                context.cell(&mut take, column)?.map(ColumnData::Simple)
            };
            let (Some(target), Some(data)) = (column.target, data) else { continue };
            if columns.rises {
                row.push(target, data);
            } else {
                self.unsorted.push((target, data));
            }
        }
        if !take.is_empty() {
            let found = format!("{} more bytes", take.remaining());
            return Err(FormatError::new("row", take.offset(), "its end, by its size", found));
        }
        if !self.unsorted.is_empty() {
            self.unsorted.sort_unstable_by_key(|(id, _)| *id);
            for (id, data) in self.unsorted.drain(..) {
                row.push(id, data);
            }
        }
        if deletes {
            row.shadow(Tombstone::LIVE);
        }
        Ok(row)
    }

    /// Reads which of the `all` columns the row has.
    fn read_present(&mut self, take: &mut Take<'_>, all: usize) -> Result<(), FormatError> {
        self.present.clear();
        let at = take.offset();
        let encoded = take.vint().named("columns of a row")?;
        if all < BITMAP_COLUMNS {
            if encoded >> all != 0 {
                let expected = format!("a bit for each of {all} columns");
                return Err(FormatError::new("columns of a row", at, expected, format!("{encoded:x}")));
            }
            self.present.extend((0..all).filter(|index| encoded & (1 << index) == 0));
            return Ok(());
        }
        let missing = usize::try_from(encoded).ok().filter(|missing| *missing <= all).ok_or_else(|| {
            FormatError::new("missing columns of a row", at, format!("at most {all}"), encoded.to_string())
        })?;
        let present = all - missing;
        let lists_present = present < all / 2;
        let listed = if lists_present { present } else { missing };
        check_count("columns of a row", at, listed as u64, 1, take.remaining())?;
        let mut next = 0;
        for _ in 0..listed {
            let at = take.offset();
            let number = take.vint().named("number of a column")?;
            let index = usize::try_from(number).ok().filter(|index| (next..all).contains(index));
            let index = index.ok_or_else(|| {
                let expected = format!("{next} to {}", all - 1);
                FormatError::new("number of a column", at, expected, number.to_string())
            })?;
            if lists_present {
                self.present.push(index);
            } else {
                self.present.extend(next..index);
            }
            next = index + 1;
        }
        if !lists_present {
            self.present.extend(next..all);
        }
        Ok(())
    }
}

fn liveness(flags: u8, take: &mut Take<'_>, bases: &Bases) -> Result<Liveness, FormatError> {
    let timestamp_us = bases.timestamp(take)?;
    if flags & HAS_TTL == 0 {
        return Ok(Liveness::new(timestamp_us));
    }
    let ttl_s = bases.ttl(take)?;
    let local_expiration_s = bases.deletion_time(take)?;
    Ok(Liveness { timestamp_us, ttl_s, local_expiration_s })
}

/// Properties of the row that its cells inherit.
struct RowContext<'a> {
    flags: u8,
    liveness: Liveness,
    bases: &'a Bases,
}

/// A cell up to its path and value.
struct CellTimes {
    flags: u8,
    timestamp_us: i64,
    local_deletion_time_s: u32,
    ttl_s: u32,
}

impl RowContext<'_> {
    #[inline]
    fn times(&self, take: &mut Take<'_>) -> Result<CellTimes, FormatError> {
        let at = take.offset();
        let flags = take.u8().named("flags of a cell")?;
        let (is_deleted, is_expiring) = (flags & CELL_DELETED != 0, flags & CELL_EXPIRING != 0);
        let row_has_ttl = self.liveness.ttl_s != 0 && self.liveness.ttl_s != Liveness::EXPIRED_TTL_S;
        let is_sound = flags & !CELL_FLAGS == 0
            && (!(is_deleted && is_expiring) || flags & CELL_EMPTY_VALUE != 0)
            && (flags & CELL_ROW_TIMESTAMP == 0 || !self.liveness.is_none())
            && (flags & CELL_ROW_TTL == 0 || (is_expiring && row_has_ttl));
        if !is_sound {
            let expected = "a live, expiring or deleted cell with the times of its row";
            return Err(FormatError::new("flags of a cell", at, expected, format!("{flags:02x}")));
        }
        let timestamp_us = if flags & CELL_ROW_TIMESTAMP != 0 {
            self.liveness.timestamp_us
        } else {
            self.bases.timestamp(take)?
        };
        let (mut local_deletion_time_s, mut ttl_s) = (NO_DELETION_TIME_S, 0);
        if flags & CELL_ROW_TTL != 0 {
            (local_deletion_time_s, ttl_s) = (self.liveness.local_expiration_s, self.liveness.ttl_s);
        } else if is_deleted || is_expiring {
            let at = take.offset();
            local_deletion_time_s = self.bases.deletion_time(take)?;
            if local_deletion_time_s == NO_DELETION_TIME_S {
                return Err(FormatError::new("deletion time of a cell", at, "a time", "none"));
            }
            if is_expiring {
                ttl_s = self.bases.ttl(take)?;
            }
        }
        Ok(CellTimes { flags, timestamp_us, local_deletion_time_s, ttl_s })
    }

    /// The cell of a simple column; `None` if it is omitted.
    #[inline]
    fn cell(&self, take: &mut Take<'_>, column: &MappedColumn) -> Result<Option<Cell>, FormatError> {
        let times = self.times(take)?;
        let value = read_value(take, times.flags, column.value_len)?;
        let keep = column.target.is_some() && times.timestamp_us > column.dropped_us;
        Ok(keep.then(|| times.into_cell(value)))
    }

    /// The cells of a complex column; `None` if nothing of it remains.
    fn complex(
        &self,
        take: &mut Take<'_>,
        column: &MappedColumn,
    ) -> Result<Option<ComplexCells>, FormatError> {
        let mut complex = ComplexCells::default();
        if self.flags & HAS_COMPLEX_DELETION != 0 {
            let deletion = self.bases.deletion(take)?;
            if deletion.timestamp_us > column.dropped_us {
                complex.deletion = deletion;
            }
        }
        let at = take.offset();
        let count = take.vint().named("number of elements")?;
        // An element takes at least the bytes of its flags and of the length of its path.
        let count = check_count("number of elements", at, count, 2, take.remaining())?;
        let is_wanted = column.target.is_some();
        if is_wanted {
            // Reserve no more than the remaining bytes can encode: an element is larger in memory than in the
            // row.
            complex.cells.reserve_exact(count.min(take.remaining() / size_of::<PathCell>() + 4));
        }
        for _ in 0..count {
            let times = self.times(take)?;
            let path = take.vint_bytes().named("path of an element")?;
            let value = read_value(take, times.flags, column.value_len)?;
            if is_wanted && times.timestamp_us > column.dropped_us {
                complex.cells.push(PathCell { path: path.into(), cell: times.into_cell(value) });
            }
        }
        Ok((is_wanted && !complex.is_empty()).then_some(complex))
    }
}

#[inline]
fn read_value<'a>(take: &mut Take<'a>, flags: u8, value_len: Option<usize>) -> Result<&'a [u8], FormatError> {
    if flags & CELL_EMPTY_VALUE != 0 {
        return Ok(&[]);
    }
    match value_len {
        Some(len) => take.bytes(len).named("value of a cell"),
        None => take.vint_bytes().named("value of a cell"),
    }
}

impl CellTimes {
    #[inline]
    fn into_cell(self, value: &[u8]) -> Cell {
        let value = if self.flags & CELL_DELETED != 0 { SmallBytes::new() } else { value.into() };
        let Self { timestamp_us, local_deletion_time_s, ttl_s, .. } = self;
        if self.flags & CELL_EXPIRED == CELL_EXPIRED {
            return Cell::expired(timestamp_us, ttl_s, local_deletion_time_s);
        }
        Cell { timestamp_us, local_deletion_time_s, ttl_s, value }
    }
}
