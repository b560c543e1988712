//! Values of rows: single cells without a copy, and collections built from their cells.

use std::borrow::Cow;

use model::types::CqlType;
use model::{Cell, ClusteringRow, Column, ColumnData, ComplexCells, Row, TableSchema, counter};
use protocol::CqlError;
use syntax::CellTime;

use crate::outcome::ResultRows;
use crate::restriction::{ColumnRef, contains, contains_key};

/// A row that was read, before the selection is applied.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'r> {
    /// The values of the partition key columns.
    pub partition_key: &'r [&'r [u8]],
    pub static_row: &'r Row,
    /// `None` if the partition has only static content.
    pub row: Option<&'r ClusteringRow>,
}

impl<'r> RowView<'r> {
    /// Returns the cells of a static or regular column; `None` for key columns and missing cells.
    #[inline]
    pub fn data(&self, column: ColumnRef) -> Option<&'r ColumnData> {
        match column {
            ColumnRef::Static(id) => self.static_row.cell(id),
            ColumnRef::Regular(id) => self.row?.row.cell(id),
            ColumnRef::PartitionKey(_) | ColumnRef::Clustering(_) => None,
        }
    }

    #[inline]
    fn key_value(&self, column: ColumnRef) -> Option<&'r [u8]> {
        match column {
            ColumnRef::PartitionKey(at) => self.partition_key.get(at).copied(),
            ColumnRef::Clustering(at) => self.row?.key.values().nth(at),
            ColumnRef::Static(_) | ColumnRef::Regular(_) => None,
        }
    }

    /// Returns the column's value in frozen form, and a counter as a bigint.
    pub fn value(&self, schema: &TableSchema, column: ColumnRef) -> Result<Option<Cow<'r, [u8]>>, CqlError> {
        if column.is_key() {
            return Ok(self.key_value(column).map(Cow::Borrowed));
        }
        match self.data(column) {
            None => Ok(None),
            Some(ColumnData::Simple(cell)) if schema.has_counters() => {
                Ok(Some(Cow::Owned(counter_total(cell)?.to_be_bytes().to_vec())))
            }
            Some(ColumnData::Simple(cell)) => Ok(Some(Cow::Borrowed(&cell.value))),
            Some(ColumnData::Complex(cells)) if cells.cells.is_empty() => Ok(None),
            Some(ColumnData::Complex(cells)) => {
                let mut out = vec![];
                write_complex(column.ty(schema), cells, &mut out);
                Ok(Some(Cow::Owned(out)))
            }
        }
    }

    /// Appends the column's value to a result, with a single copy from the cell.
    #[inline]
    pub fn write(
        &self,
        schema: &TableSchema,
        column: ColumnRef,
        out: &mut ResultRows,
    ) -> Result<(), CqlError> {
        if column.is_key() {
            out.cell(self.key_value(column));
            return Ok(());
        }
        match self.data(column) {
            None => out.cell(None),
            Some(ColumnData::Simple(cell)) if schema.has_counters() => {
                out.cell(Some(&counter_total(cell)?.to_be_bytes()));
            }
            Some(ColumnData::Simple(cell)) => out.cell(Some(&cell.value)),
            Some(ColumnData::Complex(cells)) if cells.cells.is_empty() => out.cell(None),
            Some(ColumnData::Complex(cells)) => {
                out.cell_with(|out| write_complex(column.ty(schema), cells, out));
            }
        }
        Ok(())
    }
}

fn counter_total(cell: &Cell) -> Result<i64, CqlError> {
    counter::total(&cell.value)
        .map_err(|error| CqlError::Server(format!("a counter cannot be read: {error:?}")))
}

fn put(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends the frozen form of a multi-cell column.
fn write_complex(ty: &CqlType, cells: &ComplexCells, out: &mut Vec<u8>) {
    if let CqlType::Udt { user, .. } = ty {
        for field in 0..user.fields.len() {
            let path = (field as i16).to_be_bytes();
            match cells.cells.iter().find(|cell| *cell.path == path) {
                Some(cell) => put(out, &cell.cell.value),
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        return;
    }
    out.extend_from_slice(&(cells.cells.len() as i32).to_be_bytes());
    for cell in &cells.cells {
        match ty {
            CqlType::List { .. } => put(out, &cell.cell.value),
            CqlType::Set { .. } => put(out, &cell.path),
            _ => {
                put(out, &cell.path);
                put(out, &cell.cell.value);
            }
        }
    }
}

/// The cells of a column whose times are selected.
#[derive(Clone, Debug)]
pub enum Cells<'k> {
    All,
    /// The element with this path. Paths are compared in the order of the column's type.
    One(&'k [u8]),
    /// Elements between two paths, both inclusive; `None` is an open end.
    Between(Option<&'k [u8]>, Option<&'k [u8]>),
}

/// Whether a frozen set has the element, or a frozen map the key.
fn has_element(ty: &CqlType, value: &[u8], key: &[u8]) -> bool {
    match ty {
        CqlType::Set { .. } => contains(ty, value, key),
        _ => contains_key(ty, value, key),
    }
}

/// Returns `writetime`, `maxwritetime` or `ttl` of a column's cells. For several cells the result is a list
/// with an entry for each.
pub fn cell_time(
    what: CellTime,
    data: Option<&ColumnData>,
    column: &Column,
    of: &Cells<'_>,
    now_s: u32,
) -> Option<Vec<u8>> {
    let time = |cell: &Cell| match what {
        CellTime::WriteTime | CellTime::MaxWriteTime => Some(cell.timestamp_us.to_be_bytes().to_vec()),
        CellTime::Ttl => cell.is_expiring().then(|| {
            let left = cell.local_deletion_time_s.saturating_sub(now_s);
            (left.min(i32::MAX as u32) as i32).to_be_bytes().to_vec()
        }),
    };
    let cells = match data? {
        // An element that a frozen collection does not have has no time.
        ColumnData::Simple(cell) => match of {
            Cells::One(key) if !has_element(&column.ty, &cell.value, key) => return None,
            _ => return time(cell),
        },
        ColumnData::Complex(cells) => &cells.cells,
    };
    let path_type = column.ty.cell_path_type()?;
    let compare = |path: &[u8], key: &[u8]| path_type.compare(path, key);
    let chosen = cells.iter().filter(|cell| match of {
        Cells::All => true,
        Cells::One(key) => compare(&cell.path, key).is_eq(),
        Cells::Between(from, to) => {
            from.is_none_or(|from| compare(&cell.path, from).is_ge())
                && to.is_none_or(|to| compare(&cell.path, to).is_le())
        }
    });
    if what == CellTime::MaxWriteTime {
        return chosen.map(|cell| cell.cell.timestamp_us).max().map(|time| time.to_be_bytes().to_vec());
    }
    if let Cells::One(_) = of {
        return chosen.map(|cell| &cell.cell).next().and_then(time);
    }
    let times: Vec<Option<Vec<u8>>> = match &column.ty {
        // A UDT has an entry for each field, including missing ones.
        CqlType::Udt { user, .. } if matches!(of, Cells::All) => (0..user.fields.len())
            .map(|field| {
                let path = (field as i16).to_be_bytes();
                cells.iter().find(|cell| *cell.path == path).and_then(|cell| time(&cell.cell))
            })
            .collect(),
        _ => chosen.map(|cell| time(&cell.cell)).collect(),
    };
    if cells.is_empty() {
        return None;
    }
    let mut out = (times.len() as i32).to_be_bytes().to_vec();
    for time in times {
        match time {
            Some(time) => put(&mut out, &time),
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    Some(out)
}
