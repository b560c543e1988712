//! A row: whether it was inserted, whether it was deleted, and its cells.
//!
//! The same type is a write (what the statement changes), what a source holds, and what a read has merged so
//! far: merging rows is the union of what they say. What a row's own deletion covers is left out by
//! [`Row::shadow`], which every merge runs, so a row never carries cells that its own tombstone deletes.
//!
//! Cells are sorted by [`ColumnId`]; the elements of a complex column by its path type.

use std::cmp::Ordering;

use crate::SmallBytes;
use crate::cell::Cell;
use crate::clustering::ClusteringKey;
use crate::schema::{Column, ColumnId, TableSchema};
use crate::tombstone::{NO_DELETION_TIME_S, NO_TIMESTAMP_US, Tombstone};

/// The row marker: `INSERT` writes it, `UPDATE` does not. It keeps a row alive that has no live cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// [`NO_TIMESTAMP_US`]: there is no marker.
    pub timestamp_us: i64,
    /// 0: does not expire. [`Self::EXPIRED_TTL_S`]: a marker that is already dead.
    pub ttl_s: u32,
    /// When it expires, or [`NO_DELETION_TIME_S`].
    pub local_expiration_s: u32,
}

impl Liveness {
    pub const NONE: Self =
        Self { timestamp_us: NO_TIMESTAMP_US, ttl_s: 0, local_expiration_s: NO_DELETION_TIME_S };

    /// The TTL by which the peers mark a row marker that has expired for good.
    pub const EXPIRED_TTL_S: u32 = i32::MAX as u32;

    pub fn new(timestamp_us: i64) -> Self {
        Self { timestamp_us, ..Self::NONE }
    }

    pub fn expiring(timestamp_us: i64, ttl_s: u32, now_s: u32) -> Self {
        let local_expiration_s = now_s.saturating_add(ttl_s).min(NO_DELETION_TIME_S - 1);
        Self { timestamp_us, ttl_s, local_expiration_s }
    }

    #[inline]
    pub fn is_none(&self) -> bool {
        self.timestamp_us == NO_TIMESTAMP_US
    }

    pub fn is_expiring(&self) -> bool {
        self.ttl_s != 0
    }

    #[inline]
    pub fn is_live_at(&self, now_s: u32) -> bool {
        !self.is_none()
            && (self.ttl_s == 0 || (self.ttl_s != Self::EXPIRED_TTL_S && now_s < self.local_expiration_s))
    }

    /// For a marker that is dead: since when, for gc_grace. The peers' dead marker carries that time itself.
    pub fn dead_since_s(&self) -> u32 {
        match self.ttl_s {
            Self::EXPIRED_TTL_S => self.local_expiration_s,
            ttl_s => self.local_expiration_s.saturating_sub(ttl_s),
        }
    }

    /// The one that wins: the later timestamp, then a dead marker, then an expiring one, then the later
    /// expiry, then the smaller TTL. Source: the peers' `LivenessInfo`; the TTL makes the order total.
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
    /// List: a timeuuid; set: the element; map: the key; UDT: the field's number as an i16.
    pub path: SmallBytes,
    pub cell: Cell,
}

/// The cells of a non-frozen collection or UDT, and the deletion of what was there before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComplexCells {
    pub deletion: Tombstone,
    /// Sorted by path, no path twice.
    pub cells: Vec<PathCell>,
}

/// What one column of a row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnData {
    Simple(Cell),
    Complex(Box<ComplexCells>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub deletion: Tombstone,
    pub liveness: Liveness,
    /// Sorted by column id, no id twice.
    cells: Vec<(ColumnId, ColumnData)>,
}

/// A row with its place in the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringRow {
    pub key: ClusteringKey,
    pub row: Row,
}

impl ClusteringRow {
    /// Bytes on the heap behind this value, itself not included.
    pub fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.row.heap_bytes()
    }
}

impl Row {
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for `columns` cells.
    pub fn with_capacity(columns: usize) -> Self {
        Self { cells: Vec::with_capacity(columns), ..Self::default() }
    }

    /// Says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live() && self.liveness.is_none() && self.cells.is_empty()
    }

    pub fn cells(&self) -> &[(ColumnId, ColumnData)] {
        &self.cells
    }

    pub fn cell(&self, id: ColumnId) -> Option<&ColumnData> {
        let at = self.cells.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.cells[at].1)
    }

    /// Adds a column whose id is greater than all present; for sources that produce them in order.
    #[inline]
    pub fn push(&mut self, id: ColumnId, data: ColumnData) {
        assert!(self.cells.last().is_none_or(|(last, _)| *last < id), "cells rise by column id");
        self.make_room();
        self.cells.push((id, data));
    }

    /// Sets a cell of a simple column, merging with what the row already says of it.
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

    /// Room for one more cell. Rows stay in memory for long and many have one column, so the first cell gets
    /// room for itself alone, where `Vec` would take it for four.
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

    /// Deletes the elements of a complex column written up to the tombstone's timestamp.
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

    /// Takes over all that `other` says. Commutative, associative, idempotent.
    pub fn merge(&mut self, other: &Self, schema: &TableSchema) {
        let deletion = self.deletion.max(other.deletion);
        if schema.has_counters() && !deletion.is_live() {
            // Merged counters have the later of both timestamps: what is deleted must be gone before.
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
        // The usual case needs no insertion: every column of `other` is already here.
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

    /// Drops what the row's own deletion, or `outer` (of its range or partition), deletes. A row deletion
    /// that `outer` covers is dropped as well.
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

    /// Drops cells and marker that `by` has overwritten, so that merged with `by` it is what it was. Not for counters,
    /// which are added up; not the row's deletion ([`Self::shadow`]).
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

    /// Whether a read at `now_s` finds anything here: a live marker or a live cell. Assumes that what is
    /// deleted has been left out ([`Self::shadow`]).
    pub fn is_live_at(&self, now_s: u32) -> bool {
        self.liveness.is_live_at(now_s)
            || self.cells.iter().any(|(_, data)| match data {
                ColumnData::Simple(cell) => cell.is_live_at(now_s),
                ColumnData::Complex(complex) => complex.cells.iter().any(|c| c.cell.is_live_at(now_s)),
            })
    }

    /// Keeps the columns for which `keep` says so; it may change them.
    pub fn retain_columns(&mut self, mut keep: impl FnMut(ColumnId, &mut ColumnData) -> bool) {
        self.cells.retain_mut(|(id, data)| keep(*id, data));
    }

    /// Whether all of it can be returned under `schema`; if not, [`Self::retain_known`].
    pub fn is_known(&self, schema: &TableSchema) -> bool {
        let again = schema.made_again();
        let is_known = |(id, _): &(ColumnId, ColumnData)| {
            schema.column(*id).is_some() && again.iter().all(|(other, _)| other != id)
        };
        self.cells.iter().all(is_known)
    }

    /// Leaves out the cells of columns that `schema` does not have, and of those that were made again what was written up to the
    /// drop, as readers of SSTables do.
    pub fn retain_known(&mut self, schema: &TableSchema) {
        self.cells.retain_mut(|(id, data)| {
            let again = schema.made_again().iter().find(|(other, _)| other == id);
            schema.column(*id).is_some() && again.is_none_or(|(_, dropped_us)| data.retain_after(*dropped_us))
        });
    }

    /// Bytes on the heap behind this row, itself not included.
    pub fn heap_bytes(&self) -> usize {
        let values: usize = self.cells.iter().map(|(_, data)| data.heap_bytes()).sum();
        self.cells.capacity() * size_of::<(ColumnId, ColumnData)>() + values
    }
}

impl ColumnData {
    /// Leaves out what was written at `time_us` or before; false if nothing is left.
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
                // A dropped column: nobody will read it; any order is right.
                None => mine.merge(theirs, |a, b| a.cmp(b)),
            },
            _ => unreachable!("a column is simple or complex for life"),
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Simple(cell) => cell.heap_bytes(),
            Self::Complex(complex) => size_of::<ComplexCells>() + complex.heap_bytes(),
        }
    }
}

impl ComplexCells {
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

    /// Drops the elements that this column's own deletion or `outer` deletes.
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
