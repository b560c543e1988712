//! A row: its marker, its tombstone, and its cells.
//!
//! The same type serves as a write (the changes of a statement), as the content of a source, and as the
//! merged result of a read so far. Merging two rows unites their content. [`Row::shadow`] removes the data
//! that the row's own tombstone covers. Every merge calls it, so a row never contains cells that its own
//! tombstone deletes.
//!
//! Cells are sorted by [`ColumnId`]; the elements of a complex column by its path type.

use std::cmp::Ordering;

use crate::SmallBytes;
use crate::cell::Cell;
use crate::clustering::ClusteringKey;
use crate::schema::{Column, ColumnId, TableSchema};
use crate::tombstone::{NO_DELETION_TIME_S, NO_TIMESTAMP_US, Tombstone};

/// The row marker, which `INSERT` writes and `UPDATE` does not. It keeps a row without live cells alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// [`NO_TIMESTAMP_US`]: no marker.
    pub timestamp_us: i64,
    /// 0: does not expire. [`Self::EXPIRED_TTL_S`]: an expired marker.
    pub ttl_s: u32,
    /// Time of expiry, or [`NO_DELETION_TIME_S`].
    pub local_expiration_s: u32,
}

impl Liveness {
    /// No marker.
    pub const NONE: Self =
        Self { timestamp_us: NO_TIMESTAMP_US, ttl_s: 0, local_expiration_s: NO_DELETION_TIME_S };

    /// The TTL with which Cassandra and ScyllaDB store a row marker that has expired.
    pub const EXPIRED_TTL_S: u32 = i32::MAX as u32;

    /// A marker without a TTL.
    pub fn new(timestamp_us: i64) -> Self {
        Self { timestamp_us, ..Self::NONE }
    }

    /// A marker written at `now_s` that expires at `now_s + ttl_s`, limited to values below
    /// [`NO_DELETION_TIME_S`].
    pub fn expiring(timestamp_us: i64, ttl_s: u32, now_s: u32) -> Self {
        let local_expiration_s = now_s.saturating_add(ttl_s).min(NO_DELETION_TIME_S - 1);
        Self { timestamp_us, ttl_s, local_expiration_s }
    }

    /// Whether the row has no primary key liveness: no INSERT wrote it, or it was deleted.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.timestamp_us == NO_TIMESTAMP_US
    }

    /// Whether it was written with a TTL, even if it has expired.
    pub fn is_expiring(&self) -> bool {
        self.ttl_s != 0
    }

    /// Whether the marker exists and has not expired at `now_s`.
    #[inline]
    pub fn is_live_at(&self, now_s: u32) -> bool {
        !self.is_none()
            && (self.ttl_s == 0 || (self.ttl_s != Self::EXPIRED_TTL_S && now_s < self.local_expiration_s))
    }

    /// For a dead marker: the time since which it is dead, for gc_grace. An expired marker of Cassandra and
    /// ScyllaDB stores that time directly.
    pub fn dead_since_s(&self) -> u32 {
        match self.ttl_s {
            Self::EXPIRED_TTL_S => self.local_expiration_s,
            ttl_s => self.local_expiration_s.saturating_sub(ttl_s),
        }
    }

    /// The winner of two markers: the later timestamp, then an expired marker, then an expiring one, then the
    /// later expiry, then the smaller TTL. Source: `LivenessInfo` of Cassandra; the TTL makes the order
    /// total.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let key = |l: &Self| {
            let rank = if l.ttl_s == Self::EXPIRED_TTL_S { 2 } else { u32::from(l.ttl_s != 0) };
            (l.timestamp_us, rank, l.local_expiration_s, u32::MAX - l.ttl_s)
        };
        if key(&other) > key(&self) { other } else { self }
    }
}

impl Default for Liveness {
    fn default() -> Self {
        Self::NONE
    }
}

/// One element of a collection or UDT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCell {
    /// List: a timeuuid. Set: the element. Map: the key. UDT: the field's number as an i16.
    pub path: SmallBytes,
    /// The value of the element and its timestamps.
    pub cell: Cell,
}

/// The cells of a non-frozen collection or UDT, and the tombstone of its earlier elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComplexCells {
    /// The deletion of all elements older than it, as an assignment of a whole collection writes it.
    pub deletion: Tombstone,
    /// Sorted by path, without duplicates.
    pub cells: Vec<PathCell>,
}

/// Content of one column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnData {
    /// The cell of a column of one value, including frozen collections.
    Simple(Cell),
    /// The cells of a collection or UDT that is not frozen, one for each element.
    Complex(Box<ComplexCells>),
}

/// A row without its key. See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The deletion of the row; [`Tombstone::LIVE`]: none.
    pub deletion: Tombstone,
    /// The primary key liveness: the row exists without cells.
    pub liveness: Liveness,
    /// Sorted by column id, without duplicates.
    cells: Vec<(ColumnId, ColumnData)>,
}

/// A row with its key in the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringRow {
    /// The clustering key.
    pub key: ClusteringKey,
    /// The content of the row.
    pub row: Row,
}

impl ClusteringRow {
    /// Heap memory of this value in bytes, excluding the value itself.
    pub fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.row.heap_bytes()
    }
}

impl Row {
    /// A row without content.
    pub const NOTHING: Self = Self { deletion: Tombstone::LIVE, liveness: Liveness::NONE, cells: Vec::new() };

    /// A row without content, to which cells are added.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty row with space for `columns` cells.
    pub fn with_capacity(columns: usize) -> Self {
        Self { cells: Vec::with_capacity(columns), ..Self::default() }
    }

    /// Whether the row contains neither data nor a tombstone.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live() && self.liveness.is_none() && self.cells.is_empty()
    }

    pub(crate) fn cells_mut(&mut self) -> impl Iterator<Item = &mut ColumnData> {
        self.cells.iter_mut().map(|(_, data)| data)
    }

    /// The columns with data, by rising id.
    pub fn cells(&self) -> &[(ColumnId, ColumnData)] {
        &self.cells
    }

    /// The data of a column; `None` if the row has none.
    pub fn cell(&self, id: ColumnId) -> Option<&ColumnData> {
        let at = self.cells.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.cells[at].1)
    }

    /// Adds a column whose id is greater than all present; for sources that produce columns in order.
    #[inline]
    pub fn push(&mut self, id: ColumnId, data: ColumnData) {
        assert!(self.cells.last().is_none_or(|(last, _)| *last < id), "cells rise by column id");
        self.make_room();
        self.cells.push((id, data));
    }

    /// Sets a cell of a simple column, merged with the cell that the row already has.
    pub fn set(&mut self, column: &Column, cell: Cell) {
        debug_assert!(!column.is_complex());
        match self.cells.binary_search_by_key(&column.id, |(id, _)| *id) {
            Ok(at) => match &mut self.cells[at].1 {
                ColumnData::Simple(existing) if column.ty.is_counter() => existing.merge_counter(&cell),
                ColumnData::Simple(existing) => existing.merge(&cell),
                ColumnData::Complex(_) => unreachable!("a column is simple or complex for life"),
            },
            Err(at) => {
                self.make_room();
                self.cells.insert(at, (column.id, ColumnData::Simple(cell)));
            }
        }
    }

    /// Allocates space for one more cell. Rows stay in memory for a long time and many have one column, so
    /// the first cell gets space only for itself, where `Vec` would allocate four.
    #[inline]
    fn make_room(&mut self) {
        if self.cells.capacity() == 0 {
            self.cells.reserve_exact(1);
        }
    }

    /// Sets an element of a complex column.
    pub fn set_element(
        &mut self,
        schema: &TableSchema,
        column: &Column,
        path: impl Into<SmallBytes>,
        cell: Cell,
    ) {
        let path = path.into();
        let complex = self.complex_mut(column);
        let order = |probe: &PathCell| schema.compare_paths(column, &probe.path, &path);
        match complex.cells.binary_search_by(order) {
            Ok(at) => complex.cells[at].cell.merge(&cell),
            Err(at) => complex.cells.insert(at, PathCell { path, cell }),
        }
        complex.shadow(Tombstone::LIVE);
    }

    /// Deletes the elements of a complex column that were written at the tombstone's timestamp or before.
    pub fn delete_elements(&mut self, column: &Column, deletion: Tombstone) {
        let complex = self.complex_mut(column);
        complex.deletion = complex.deletion.max(deletion);
        complex.shadow(Tombstone::LIVE);
    }

    fn complex_mut(&mut self, column: &Column) -> &mut ComplexCells {
        debug_assert!(column.is_complex());
        let at = match self.cells.binary_search_by_key(&column.id, |(id, _)| *id) {
            Ok(at) => at,
            Err(at) => {
                self.cells.insert(at, (column.id, ColumnData::Complex(Box::default())));
                at
            }
        };
        match &mut self.cells[at].1 {
            ColumnData::Complex(complex) => complex,
            ColumnData::Simple(_) => unreachable!("a column is simple or complex for life"),
        }
    }

    /// Merges `other` into this row. Commutative, associative and idempotent.
    pub fn merge(&mut self, other: &Self, schema: &TableSchema) {
        let deletion = self.deletion.max(other.deletion);
        if schema.has_counters() && !deletion.is_live() {
            // A merged counter has the later of both timestamps, so tombstones must be applied before the
            // merge.
            let mut other = other.clone();
            other.shadow(deletion);
            self.shadow(deletion);
            self.deletion = deletion;
            self.liveness = self.liveness.max(other.liveness);
            self.merge_cells(&other, schema);
            return;
        }
        self.deletion = deletion;
        self.liveness = self.liveness.max(other.liveness);
        self.merge_cells(other, schema);
        self.shadow(Tombstone::LIVE);
    }

    fn merge_cells(&mut self, other: &Self, schema: &TableSchema) {
        if self.cells.is_empty() {
            self.cells.clone_from(&other.cells);
            return;
        }
        // In the common case no insertion is needed: every column of `other` is present.
        let mut at = 0;
        let mut missing = 0;
        for (id, data) in &other.cells {
            while at < self.cells.len() && self.cells[at].0 < *id {
                at += 1;
            }
            match self.cells.get_mut(at) {
                Some((found, existing)) if found == id => existing.merge(data, *id, schema),
                _ => missing += 1,
            }
        }
        if missing == 0 {
            return;
        }
        let mut merged = Vec::with_capacity(self.cells.len() + missing);
        let mut mine = std::mem::take(&mut self.cells).into_iter().peekable();
        for (id, data) in &other.cells {
            while let Some(entry) = mine.next_if(|(mine, _)| mine < id) {
                merged.push(entry);
            }
            match mine.next_if(|(mine, _)| mine == id) {
                Some(entry) => merged.push(entry),
                None => merged.push((*id, data.clone())),
            }
        }
        merged.extend(mine);
        self.cells = merged;
    }

    /// Removes the data that the row's own tombstone, or `outer` (of its range or partition), deletes. Also
    /// removes a row tombstone that `outer` covers.
    pub fn shadow(&mut self, outer: Tombstone) {
        if outer.max(self.deletion) == outer {
            self.deletion = Tombstone::LIVE;
        }
        let deletion = self.deletion.max(outer);
        if deletion.is_live() && !self.has_complex_deletion() {
            return;
        }
        if deletion.deletes(self.liveness.timestamp_us) {
            self.liveness = Liveness::NONE;
        }
        self.cells.retain_mut(|(_, data)| match data {
            ColumnData::Simple(cell) => !deletion.deletes(cell.timestamp_us),
            ColumnData::Complex(complex) => {
                complex.shadow(deletion);
                !complex.is_empty()
            }
        });
    }

    /// Removes cells and the marker that `by` has overwritten, such that merging with `by` gives the same
    /// result as before. Does not apply to counters, which are added up, nor to the row tombstone
    /// ([`Self::shadow`]).
    pub fn remove_overwritten(&mut self, by: &Self, schema: &TableSchema) {
        if by.liveness.max(self.liveness) == by.liveness {
            self.liveness = Liveness::NONE;
        }
        self.cells.retain_mut(|(id, data)| match (data, by.cell(*id)) {
            (ColumnData::Simple(mine), Some(ColumnData::Simple(theirs))) => !mine.is_overwritten_by(theirs),
            (ColumnData::Complex(mine), Some(ColumnData::Complex(theirs))) => {
                match schema.column(*id) {
                    Some(column) => {
                        mine.remove_overwritten(theirs, |a, b| schema.compare_paths(column, a, b));
                    }
                    None => mine.remove_overwritten(theirs, |a, b| a.cmp(b)),
                }
                !mine.is_empty()
            }
            _ => true,
        });
    }

    fn has_complex_deletion(&self) -> bool {
        self.cells.iter().any(|(_, data)| match data {
            ColumnData::Simple(_) => false,
            ColumnData::Complex(complex) => !complex.deletion.is_live(),
        })
    }

    /// Whether a read at `now_s` finds data here: a live marker or a live cell. Deleted data must have been
    /// removed before ([`Self::shadow`]).
    pub fn is_live_at(&self, now_s: u32) -> bool {
        self.liveness.is_live_at(now_s)
            || self.cells.iter().any(|(_, data)| match data {
                ColumnData::Simple(cell) => cell.is_live_at(now_s),
                ColumnData::Complex(complex) => complex.cells.iter().any(|c| c.cell.is_live_at(now_s)),
            })
    }

    /// Keeps the columns for which `keep` returns true; `keep` may change them.
    pub fn retain_columns(&mut self, mut keep: impl FnMut(ColumnId, &mut ColumnData) -> bool) {
        self.cells.retain_mut(|(id, data)| keep(*id, data));
    }

    /// Whether the whole row can be returned under `schema`. If not, [`Self::retain_known`] removes the
    /// remainder.
    pub fn is_known(&self, schema: &TableSchema) -> bool {
        let again = schema.recreated();
        let is_known = |(id, _): &(ColumnId, ColumnData)| {
            schema.column(*id).is_some() && again.iter().all(|(other, _)| other != id)
        };
        self.cells.iter().all(is_known)
    }

    /// Removes the cells of columns that `schema` does not have. Of columns that were dropped and created
    /// again it removes the cells written up to the drop, as readers of SSTables do.
    pub fn retain_known(&mut self, schema: &TableSchema) {
        self.cells.retain_mut(|(id, data)| {
            let again = schema.recreated().iter().find(|(other, _)| other == id);
            schema.column(*id).is_some() && again.is_none_or(|(_, dropped_us)| data.retain_after(*dropped_us))
        });
    }

    /// Heap memory of this row in bytes, excluding the row itself.
    pub fn heap_bytes(&self) -> usize {
        let values: usize = self.cells.iter().map(|(_, data)| data.heap_bytes()).sum();
        self.cells.capacity() * size_of::<(ColumnId, ColumnData)>() + values
    }
}

impl ColumnData {
    /// Whether a part of it was written after `time_us`.
    pub fn is_written_after(&self, time_us: i64) -> bool {
        match self {
            Self::Simple(cell) => cell.timestamp_us > time_us,
            Self::Complex(complex) => {
                complex.deletion.timestamp_us > time_us
                    || complex.cells.iter().any(|element| element.cell.timestamp_us > time_us)
            }
        }
    }

    /// Removes data written at `time_us` or before; false if nothing is left.
    fn retain_after(&mut self, time_us: i64) -> bool {
        match self {
            Self::Simple(cell) => cell.timestamp_us > time_us,
            Self::Complex(complex) => {
                if complex.deletion.timestamp_us <= time_us {
                    complex.deletion = Tombstone::LIVE;
                }
                complex.cells.retain(|element| element.cell.timestamp_us > time_us);
                !complex.is_empty()
            }
        }
    }

    fn merge(&mut self, other: &Self, id: ColumnId, schema: &TableSchema) {
        match (self, other) {
            (Self::Simple(mine), Self::Simple(theirs)) => {
                if schema.has_counters() {
                    mine.merge_counter(theirs);
                } else {
                    mine.merge(theirs);
                }
            }
            (Self::Complex(mine), Self::Complex(theirs)) => match schema.column(id) {
                Some(column) => mine.merge(theirs, |a, b| schema.compare_paths(column, a, b)),
                // The column was dropped, so its elements are never read, and any order is correct.
                None => mine.merge(theirs, |a, b| a.cmp(b)),
            },
            _ => unreachable!("a column is simple or complex for life"),
        }
    }

    /// Heap memory of this value in bytes.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Simple(cell) => cell.heap_bytes(),
            Self::Complex(complex) => size_of::<ComplexCells>() + complex.heap_bytes(),
        }
    }
}

impl ComplexCells {
    /// Whether it contains neither elements nor a tombstone.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live() && self.cells.is_empty()
    }

    fn merge(&mut self, other: &Self, compare: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.deletion = self.deletion.max(other.deletion);
        let mut merged = Vec::with_capacity(self.cells.len().max(other.cells.len()));
        let mut mine = std::mem::take(&mut self.cells).into_iter().peekable();
        for theirs in &other.cells {
            while let Some(entry) = mine.next_if(|mine| compare(&mine.path, &theirs.path).is_lt()) {
                merged.push(entry);
            }
            match mine.next_if(|mine| compare(&mine.path, &theirs.path).is_eq()) {
                Some(mut entry) => {
                    entry.cell.merge(&theirs.cell);
                    merged.push(entry);
                }
                None => merged.push(theirs.clone()),
            }
        }
        merged.extend(mine);
        self.cells = merged;
        self.shadow(Tombstone::LIVE);
    }

    fn remove_overwritten(&mut self, by: &Self, compare: impl Fn(&[u8], &[u8]) -> Ordering) {
        self.shadow(by.deletion);
        self.cells.retain(|mine| {
            let found = by.cells.binary_search_by(|theirs| compare(&theirs.path, &mine.path));
            found.map_or(true, |at| !mine.cell.is_overwritten_by(&by.cells[at].cell))
        });
    }

    /// Removes the elements that the column's own tombstone or `outer` deletes.
    pub fn shadow(&mut self, outer: Tombstone) {
        if outer.max(self.deletion) == outer {
            self.deletion = Tombstone::LIVE;
        }
        let deletion = self.deletion.max(outer);
        if !deletion.is_live() {
            self.cells.retain(|element| !deletion.deletes(element.cell.timestamp_us));
        }
    }

    fn heap_bytes(&self) -> usize {
        let values: usize = self.cells.iter().map(|c| c.path.heap_bytes() + c.cell.heap_bytes()).sum();
        self.cells.capacity() * size_of::<PathCell>() + values
    }
}
