//! Computes the writes to a materialized view that follow from a write to its base table.
//!
//! Input: the rows of the base partition that the write affects, as they are stored before it, with
//! tombstones and expired cells, and the write. Output: mutations of the view. The same input gives the same
//! output, apart from the deletion time of markers, which is `now_s`.
//!
//! A base row corresponds to at most one row of the view at a time: its **entry**. Without a column added to
//! the key, the entry has the same key for ever, and its content is a copy of the base row's; what changed in
//! the base row is written to the view with the same timestamps. With such a column, the value of that column
//! decides the key:
//!
//! | value before | after | written |
//! |---|---|---|
//! | none | A | the whole row, and a row marker with timestamp, TTL and expiry of the column's cell, to A |
//! | A | A | the cells that changed, and the marker |
//! | A | none or B | a dead marker with the timestamp of A's cell, to A; or the row tombstone, if it deleted the cell |
//!
//! A row of such a view exists only while its marker is live. A dead marker does not delete the cells of the
//! entry, so they are right when the same value comes back with a later timestamp. (A tombstone would delete
//! cells that are older than it and still belong to the base row.)
//!
//! Guarantee (the law in `cql::tests::view_laws`): after any writes in any order, each applied with what it
//! caused, a read of the view at any time shows the rows that the definition of the view gives for the base
//! table's final state at that time. It holds for views that some of the writes created entries in twice,
//! because everything written carries the timestamps of the base table, and merging is idempotent.
//!
//! Limits: a tombstone that compactions have purged is unknown to both sides. A write with a timestamp older
//! than a purged tombstone can be visible in one of base table and view only, as in Cassandra.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use base::HashMap;

use crate::cell::Cell;
use crate::clustering::{ClusteringKey, ClusteringPrefix};
use crate::key::{PartitionKey, column_values, composite_key};
use crate::partition::{Mutation, Partition};
use crate::row::{ColumnData, ComplexCells, Liveness, PathCell, Row};
use crate::schema::{ColumnId, TableSchema};
use crate::types::{CollectionIter, CqlType, MapIter};
use crate::view_definition::{ViewCondition, ViewTest, ViewValues};

/// Largest length of a partition key and of a clustering value.
const KEY_BYTES_MAX: usize = 65_535;

/// Where the value of a key column of the view comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    PartitionKey(usize),
    Clustering(usize),
    /// The column added to the key.
    Added,
}

/// A base table and one of its views. See the head of the file.
#[derive(Clone, Debug)]
pub struct ViewPlan {
    base: Arc<TableSchema>,
    /// The schema of the view.
    pub view: Arc<TableSchema>,
    partition_key: Vec<Source>,
    clustering: Vec<Source>,
    added: Option<ColumnId>,
    /// Columns of the base table and the same columns of the view.
    selected: Vec<(ColumnId, ColumnId)>,
    hidden: Option<ColumnId>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    columns: Vec<(Source, CqlType)>,
    test: ViewTest,
}

/// Why a base row cannot be in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewError(String);

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A view row to be written.
struct Entry {
    key: PartitionKey,
    row_key: ClusteringKey,
}

impl ViewPlan {
    /// # Errors
    /// The view does not match the base table.
    pub fn new(base: &Arc<TableSchema>, view: &Arc<TableSchema>) -> Result<Self, ViewError> {
        let wrong = |what: &str| ViewError(format!("view {}: {what}", view.full_name()));
        let not_of_base = |column: &str| wrong(&format!("column {column} is not a column of the base table"));
        let Some(definition) = &view.view else { return Err(wrong("not a view")) };
        let source = |name: &str| {
            let position = |keys: &[crate::KeyColumn]| keys.iter().position(|key| key.name == name);
            position(&base.partition_key)
                .map(Source::PartitionKey)
                .or_else(|| position(&base.clustering).map(Source::Clustering))
        };
        let mut added = None;
        let mut sources = |keys: &[crate::KeyColumn]| -> Result<Vec<Source>, ViewError> {
            let mut out = vec![];
            for key in keys {
                out.push(match (source(&key.name), base.column_named(&key.name)) {
                    (Some(source), _) => source,
                    (None, Some(column)) if added.is_none() && !column.is_complex() => {
                        added = Some(column.id);
                        Source::Added
                    }
                    _ => return Err(not_of_base(&key.name)),
                });
            }
            Ok(out)
        };
        let (partition_key, clustering) = (sources(&view.partition_key)?, sources(&view.clustering)?);
        let mut selected = vec![];
        for column in view.columns().iter().filter(|column| !view.is_hidden(column)) {
            match base.column_named(&column.name) {
                Some(of_base) => selected.push((of_base.id, column.id)),
                None => return Err(not_of_base(&column.name)),
            }
        }
        let condition = |condition: &ViewCondition| {
            let column = |name: &String| {
                let source = source(name)?;
                let ty = match source {
                    Source::PartitionKey(at) => &base.partition_key[at].ty,
                    Source::Clustering(at) => &base.clustering[at].ty,
                    Source::Added => return None,
                };
                Some((source, ty.without_reversed().clone()))
            };
            let columns = condition.columns.iter().map(column).collect::<Option<Vec<_>>>()?;
            Some(Condition { columns, test: condition.test.clone() })
        };
        let Some(conditions) = definition.conditions.iter().map(condition).collect::<Option<Vec<_>>>() else {
            return Err(wrong("a condition is not on the base table's key"));
        };
        let hidden = view.hidden_view_column().map(|column| column.id);
        let (base, view) = (base.clone(), view.clone());
        Ok(Self { base, view, partition_key, clustering, added, selected, hidden, conditions })
    }

    /// The mutations of the view that follow from `change`, a write to the partition `key` of the base table.
    /// `before` has the stored rows that `change` affects, and the tombstones in force there.
    ///
    /// # Errors
    /// A value is too long for the view's key.
    pub fn mutations(
        &self,
        key: &PartitionKey,
        before: &Partition,
        change: &Partition,
        now_s: u32,
    ) -> Result<Vec<Mutation>, ViewError> {
        let values = column_values(self.base.partition_key.len(), key);
        let mut after = before.clone();
        after.merge(change, &self.base);
        let mut out: Vec<Mutation> = vec![];
        let mut by_key: HashMap<PartitionKey, usize> = HashMap::default();
        for row in after.rows() {
            if row.key.has_nulls() || !self.accepts(&values, &row.key) {
                continue;
            }
            let old = before.row(&self.base, &row.key).cloned().unwrap_or_default();
            let old = effective(old, before, &self.base, &row.key);
            let new = effective(row.row.clone(), &after, &self.base, &row.key);
            if old == new {
                continue;
            }
            self.changes(&values, &row.key, &old, &new, now_s, &mut |entry, row| {
                let at = *by_key.entry(entry.key.clone()).or_insert_with(|| {
                    out.push(Mutation::new(self.view.clone(), entry.key.clone()));
                    out.len() - 1
                });
                out[at].row_mut(entry.row_key).merge(&row, &self.view);
            })?;
        }
        Ok(out)
    }

    /// The changes of the entries of one base row. Both states have the strongest tombstone in force as their
    /// row tombstone.
    fn changes(
        &self,
        key: &[Vec<u8>],
        row_key: &ClusteringKey,
        old: &Row,
        new: &Row,
        now_s: u32,
        write: &mut dyn FnMut(Entry, Row),
    ) -> Result<(), ViewError> {
        if !has_values(old) && !has_values(new) {
            // Neither has an entry, and the base table's tombstones keep older values out of the view, too.
            return Ok(());
        }
        let Some(added) = self.added else {
            if let Some(entry) = self.entry(key, row_key, None)? {
                let row = self.difference(old, new);
                if !row.is_empty() {
                    write(entry, row);
                }
            }
            return Ok(());
        };
        let (before, after) = (valued(old, added), valued(new, added));
        let is_same = matches!((before, after), (Some(a), Some(b)) if a.value == b.value);
        if let Some(cell) = after
            && let Some(entry) = self.entry(key, row_key, Some(&cell.value))?
        {
            let mut row = self.difference(if is_same { old } else { &NOTHING }, new);
            row.liveness = Liveness {
                timestamp_us: cell.timestamp_us,
                ttl_s: cell.ttl(),
                local_expiration_s: cell.local_deletion_time_s,
            };
            write(entry, row);
        }
        if let Some(cell) = before
            && !is_same
            && let Some(entry) = self.entry(key, row_key, Some(&cell.value))?
        {
            let mut row = self.difference(old, new);
            row.liveness = match new.deletion.deletes(cell.timestamp_us) {
                true => Liveness::NONE,
                false => Liveness {
                    timestamp_us: cell.timestamp_us,
                    ttl_s: Liveness::EXPIRED_TTL_S,
                    local_expiration_s: now_s,
                },
            };
            write(entry, row);
        }
        Ok(())
    }

    /// What a row of the view that has the content of `old` needs to get that of `new`.
    fn difference(&self, old: &Row, new: &Row) -> Row {
        let mut changed = new.clone();
        changed.remove_overwritten(old, &self.base);
        let mut row = Row::new();
        if old.deletion != new.deletion {
            row.deletion = new.deletion;
        }
        if self.added.is_none() {
            row.liveness = changed.liveness;
        }
        let mut cells: Vec<(ColumnId, ColumnData)> = vec![];
        for (base, view) in &self.selected {
            if let Some(data) = changed.cell(*base) {
                cells.push((*view, data.clone()));
            }
        }
        if let Some(hidden) = self.hidden {
            let elements = self.hidden_difference(old, new, &changed);
            if !elements.is_empty() {
                let complex = ComplexCells { cells: elements, ..ComplexCells::default() };
                cells.push((hidden, ColumnData::Complex(Box::new(complex))));
            }
        }
        cells.sort_by_key(|(id, _)| *id);
        cells.into_iter().for_each(|(id, data)| row.push(id, data));
        row
    }

    /// The times of the cells that the view does not select, as elements of its hidden column.
    fn hidden_difference(&self, old: &Row, new: &Row, changed: &Row) -> Vec<PathCell> {
        let is_selected = |id: ColumnId| self.selected.iter().any(|(base, _)| *base == id);
        let mut out = vec![];
        let mut add = |id: ColumnId, path: &[u8], cell: Cell| {
            let mut name = id.0.to_be_bytes().to_vec();
            name.extend(path);
            out.push(PathCell { path: name.into(), cell });
        };
        for (id, data) in changed.cells().iter().filter(|(id, _)| !is_selected(*id)) {
            match data {
                ColumnData::Simple(cell) => add(*id, &[], without_value(cell)),
                ColumnData::Complex(complex) => {
                    complex.cells.iter().for_each(|one| add(*id, &one.path, without_value(&one.cell)));
                }
            }
        }
        // The hidden column has no tombstone of a whole collection: each deleted element gets its own.
        for (id, data) in old.cells().iter().filter(|(id, _)| !is_selected(*id)) {
            let (ColumnData::Complex(old), Some(ColumnData::Complex(new))) = (data, new.cell(*id)) else {
                continue;
            };
            let deleted = old.cells.iter().filter(|one| new.deletion.deletes(one.cell.timestamp_us));
            for one in deleted.filter(|one| new.cells.iter().all(|kept| kept.path != one.path)) {
                add(*id, &one.path, Cell::tombstone(new.deletion.timestamp_us, new.deletion.deletion_time_s));
            }
        }
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    /// The key of a base row's entry. `None`: the view's partition key would be empty, which no key can be.
    fn entry(
        &self,
        key: &[Vec<u8>],
        row_key: &ClusteringKey,
        added: Option<&[u8]>,
    ) -> Result<Option<Entry>, ViewError> {
        let value = |source: &Source| -> &[u8] {
            match *source {
                Source::PartitionKey(at) => &key[at],
                Source::Clustering(at) => row_key.values().nth(at).unwrap_or_default(),
                Source::Added => added.unwrap_or_default(),
            }
        };
        let parts: Vec<&[u8]> = self.partition_key.iter().map(value).collect();
        let clustering: Vec<&[u8]> = self.clustering.iter().map(value).collect();
        if let Some(long) = parts.iter().chain(&clustering).find(|value| value.len() > KEY_BYTES_MAX) {
            return Err(too_long(long.len()));
        }
        let bytes = match &parts[..] {
            [one] => one.to_vec(),
            parts => composite_key(parts.iter().copied()),
        };
        if bytes.len() > KEY_BYTES_MAX {
            return Err(too_long(bytes.len()));
        }
        let row_key = ClusteringPrefix::new(clustering);
        Ok((!bytes.is_empty()).then(|| Entry { key: PartitionKey::new(bytes), row_key }))
    }

    fn accepts(&self, key: &[Vec<u8>], row_key: &ClusteringPrefix) -> bool {
        self.conditions.iter().all(|condition| {
            let value = |(source, _): &(Source, CqlType)| match *source {
                Source::PartitionKey(at) => key[at].clone(),
                Source::Clustering(at) => row_key.values().nth(at).unwrap_or_default().to_vec(),
                Source::Added => vec![],
            };
            let values: Vec<Vec<u8>> = condition.columns.iter().map(value).collect();
            let types: Vec<&CqlType> = condition.columns.iter().map(|(_, ty)| ty).collect();
            passes(&condition.test, &types, &values)
        })
    }
}

static NOTHING: Row = Row::NOTHING;

fn too_long(bytes: usize) -> ViewError {
    ViewError(format!("Key length of {bytes} is longer than maximum of {KEY_BYTES_MAX}"))
}

/// The row with the strongest tombstone in force as its row tombstone.
fn effective(mut row: Row, partition: &Partition, schema: &TableSchema, key: &ClusteringKey) -> Row {
    row.deletion = row.deletion.max(partition.tombstone_at(schema, key));
    row.shadow(crate::Tombstone::LIVE);
    row
}

/// The cell of the column added to the key, if it has a value. An expired cell has one until a compaction
/// removes it; its entry has expired with it.
fn valued(row: &Row, column: ColumnId) -> Option<&Cell> {
    match row.cell(column) {
        Some(ColumnData::Simple(cell)) if !cell.is_tombstone() && !cell.is_expired() => Some(cell),
        _ => None,
    }
}

/// Whether the row has a marker or a cell with a value, live or expired.
fn has_values(row: &Row) -> bool {
    let is_value = |cell: &Cell| !cell.is_tombstone();
    !row.liveness.is_none()
        || row.cells().iter().any(|(_, data)| match data {
            ColumnData::Simple(cell) => is_value(cell),
            ColumnData::Complex(complex) => complex.cells.iter().any(|one| is_value(&one.cell)),
        })
}

fn without_value(cell: &Cell) -> Cell {
    Cell { value: crate::SmallBytes::new(), ..cell.clone() }
}

fn passes(test: &ViewTest, types: &[&CqlType], values: &[Vec<u8>]) -> bool {
    let compare = |wanted: &ViewValues| {
        let orders =
            types.iter().zip(values).zip(wanted).map(|((ty, value), wanted)| ty.compare(value, wanted));
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let (Some(ty), Some(first)) = (types.first(), values.first()) else { return true };
    match test {
        ViewTest::In(all) => all.iter().any(|wanted| compare(wanted).is_eq()),
        ViewTest::Slice { start, end } => {
            let is_after = |(wanted, inclusive): &(ViewValues, bool)| {
                let order = compare(wanted);
                order.is_gt() || order.is_eq() && *inclusive
            };
            let is_before = |(wanted, inclusive): &(ViewValues, bool)| {
                let order = compare(wanted);
                order.is_lt() || order.is_eq() && *inclusive
            };
            start.as_ref().is_none_or(is_after) && end.as_ref().is_none_or(is_before)
        }
        ViewTest::Contains(wanted) => contains(ty, first, wanted, false),
        ViewTest::ContainsKey(wanted) => contains(ty, first, wanted, true),
    }
}

/// Whether a frozen collection has this element or value, or this key.
fn contains(ty: &CqlType, collection: &[u8], wanted: &[u8], is_key: bool) -> bool {
    let is_it =
        |ty: &CqlType, value: Option<&[u8]>| value.is_some_and(|value| ty.compare(value, wanted).is_eq());
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let mut elements = CollectionIter::new(collection).into_iter().flatten();
            elements.any(|one| one.is_ok_and(|one| is_it(element, one)))
        }
        CqlType::Map { entry, .. } => {
            let mut entries = MapIter::new(collection).into_iter().flatten();
            entries.any(|pair| {
                pair.is_ok_and(
                    |(key, value)| if is_key { is_it(&entry.0, key) } else { is_it(&entry.1, value) },
                )
            })
        }
        _ => false,
    }
}
