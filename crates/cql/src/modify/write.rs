//! Builds writes from a prepared change and the values of an execution.
//!
//! Most of a write does not depend on stored data. The parts that do, such as counters and list elements by
//! index or value, are [`Edit`]s, which are converted to cells after their row has been read.

use std::borrow::Cow;
use std::sync::Arc;

use model::types::{CollectionIter, CqlType, MapIter, TupleIter};
use model::{
    Cell, ClusteringKey, ClusteringRow, Column, ColumnData, ComplexCells, Liveness, Mutation, PartitionKey,
    PathCell, Row, SmallBytes, TableId, TableSchema, Tombstone,
};
use protocol::CqlError;
use reader::Page;

use super::change::{Change, Verb};
use super::edit::{Edit, EditKind};
use super::list_path::ListPaths;
use super::operation::{Operation, OperationKind};
use super::target::Rows;
use crate::error::invalid;
use crate::term::{Env, Expr, Value};

/// Values and times with which a write is built.
#[derive(Clone, Copy)]
pub struct WriteContext<'a> {
    pub env: Env<'a>,
    pub paths: &'a ListPaths<'a>,
    pub timestamp_us: i64,
    /// Timestamp of deletions of ranges and partitions, in microseconds.
    pub deletion_us: i64,
    /// Time to live in seconds; 0 for data that does not expire.
    pub ttl_s: u32,
    pub now_s: u32,
}

/// Position of a row in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowAt {
    Static,
    Key(ClusteringKey),
}

/// A write to one partition. The edits depend on stored data.
#[derive(Clone, Debug)]
pub struct PartitionWrite {
    pub mutation: Mutation,
    pub edits: Vec<Edit>,
}

/// The writes of a request, one for each partition.
#[derive(Debug, Default)]
pub struct Writes {
    pub writes: Vec<PartitionWrite>,
    by_partition: base::HashMap<(TableId, PartitionKey), usize>,
}

impl Writes {
    fn of(&mut self, schema: &Arc<TableSchema>, key: PartitionKey) -> &mut PartitionWrite {
        let at = *self.by_partition.entry((schema.id, key)).or_insert_with_key(|(_, key)| {
            let mutation = Mutation::new(schema.clone(), key.clone());
            self.writes.push(PartitionWrite { mutation, edits: Vec::new() });
            self.writes.len() - 1
        });
        &mut self.writes[at]
    }
}

impl RowAt {
    /// Returns the row from the page of its partition; `None` if the page does not have the row.
    pub fn find<'p>(&self, schema: &TableSchema, page: &'p Page) -> Option<&'p Row> {
        let partition = page.partitions.first()?;
        match self {
            Self::Static => Some(&partition.static_row).filter(|row| !row.is_empty()),
            Self::Key(key) => {
                let found = partition.rows.binary_search_by(|row| schema.compare_keys(&row.key, key)).ok()?;
                Some(&partition.rows[found].row)
            }
        }
    }
}

impl WriteContext<'_> {
    fn cell(&self, value: impl Into<SmallBytes>) -> Cell {
        match self.ttl_s {
            0 => Cell::live(self.timestamp_us, value),
            ttl_s => Cell::expiring(self.timestamp_us, ttl_s, self.now_s, value),
        }
    }

    fn dead(&self) -> Cell {
        Cell::tombstone(self.timestamp_us, self.now_s)
    }

    /// Returns a cell with the value, or a tombstone for null.
    pub fn cell_or_dead(&self, value: Option<impl Into<SmallBytes>>) -> Cell {
        value.map_or_else(|| self.dead(), |value| self.cell(value))
    }

    fn liveness(&self) -> Liveness {
        match self.ttl_s {
            0 => Liveness::new(self.timestamp_us),
            ttl_s => Liveness::expiring(self.timestamp_us, ttl_s, self.now_s),
        }
    }

    /// Tombstone for a partition or a range of rows.
    fn tombstone(&self) -> Tombstone {
        Tombstone::new(self.deletion_us, self.now_s)
    }

    /// Tombstone for a row or a collection.
    fn small_tombstone(&self) -> Tombstone {
        Tombstone::new(self.timestamp_us, self.now_s)
    }

    /// Tombstone for the previous content of a collection. It does not cover cells of the same write.
    fn before(&self) -> Tombstone {
        Tombstone::new(self.timestamp_us.saturating_sub(1).max(i64::MIN + 1), self.now_s)
    }
}

/// Builds the mutation in the usual case: [`Change::is_one_row`].
#[inline]
pub fn one_row(
    change: &Change,
    key: PartitionKey,
    rows: Rows,
    context: &WriteContext<'_>,
) -> Result<Mutation, CqlError> {
    let schema = &change.schema;
    let mut mutation = Mutation::new(schema.clone(), key);
    let Rows::Keys(keys) = rows else { return Ok(mutation) };
    let mut row = row_of(change, &change.row_ops, context, |_, _| Ok(()))?;
    if change.has_liveness() {
        row.liveness = context.liveness();
    }
    if let (Some(key), false) = (keys.into_iter().next(), row.is_empty()) {
        mutation.partition.push_row(schema, ClusteringRow { key, row });
    }
    Ok(mutation)
}

/// Adds the writes of a change to `writes`, one for each partition.
pub fn add(
    change: &Change,
    keys: impl IntoIterator<Item = PartitionKey>,
    rows: &Rows,
    context: &WriteContext<'_>,
    writes: &mut Writes,
) -> Result<(), CqlError> {
    for key in keys {
        partition(change, rows, context, writes.of(&change.schema, key))?;
    }
    Ok(())
}

fn partition(
    change: &Change,
    rows: &Rows,
    context: &WriteContext<'_>,
    write: &mut PartitionWrite,
) -> Result<(), CqlError> {
    let schema = &*change.schema;
    let PartitionWrite { mutation, edits } = write;
    if change.deletes_rows() {
        let tombstone = context.tombstone();
        match rows {
            Rows::Unnamed => mutation.partition.tombstone = mutation.partition.tombstone.max(tombstone),
            Rows::Keys(_) if schema.clustering.is_empty() => {
                mutation.partition.tombstone = mutation.partition.tombstone.max(tombstone);
            }
            Rows::Keys(keys) => {
                for key in keys {
                    let mut row = Row::new();
                    row.deletion = context.small_tombstone();
                    mutation.row_mut(key.clone()).merge(&row, schema);
                }
            }
            Rows::Ranges(ranges) => {
                ranges.iter().for_each(|range| mutation.delete_range(range.clone(), tombstone));
            }
        }
        return Ok(());
    }
    if !change.static_ops.is_empty() {
        let row = row_of(change, &change.static_ops, context, |column, kind| {
            push(edits, schema, Edit::new(RowAt::Static, column, kind, context))
        })?;
        mutation.partition.static_row.merge(&row, schema);
    }
    let keys = match rows {
        Rows::Keys(keys) if !change.row_ops.is_empty() || change.verb == Verb::Insert => &keys[..],
        _ => &[],
    };
    for key in keys {
        let mut row = row_of(change, &change.row_ops, context, |column, kind| {
            push(edits, schema, Edit::new(RowAt::Key(key.clone()), column, kind, context))
        })?;
        if change.has_liveness() {
            row.liveness = context.liveness();
        }
        if !row.is_empty() {
            mutation.row_mut(key.clone()).merge(&row, schema);
        }
    }
    Ok(())
}

/// Adds an edit. Several updates of one counter are summed.
fn push(edits: &mut Vec<Edit>, schema: &TableSchema, edit: Edit) -> Result<(), CqlError> {
    if schema.has_counters()
        && let Some(same) =
            edits.iter_mut().find(|same| same.at == edit.at && same.column.id == edit.column.id)
        && let (EditKind::Count(sum), EditKind::Count(delta)) = (&mut same.kind, &edit.kind)
    {
        *sum = sum.wrapping_add(*delta);
        return Ok(());
    }
    edits.push(edit);
    Ok(())
}

/// Builds the row that the operations write. Operations that depend on stored data are passed to `edit`.
#[inline]
fn row_of(
    change: &Change,
    operations: &[Operation],
    context: &WriteContext<'_>,
    mut edit: impl FnMut(&Column, EditKind) -> Result<(), CqlError>,
) -> Result<Row, CqlError> {
    let mut row = Row::with_capacity(operations.len());
    let mut left = operations;
    while let Some((Operation { column, kind }, rest)) = left.split_first() {
        let same = rest.iter().take_while(|other| other.column.id == column.id).count();
        if same > 0 && left[..=same].iter().any(|operation| operation.kind.reads_list()) {
            let kinds = in_order(change, &left[..=same], context)?;
            edit(column, EditKind::InOrder(kinds))?;
            left = &rest[same..];
            continue;
        }
        left = rest;
        match kind {
            OperationKind::Set(expr) => {
                let cell = match expr.evaluate(&context.env)? {
                    Value::Bytes(bytes) => context.cell(&*bytes),
                    Value::Null => context.dead(),
                    Value::Unset => continue,
                };
                row.push(column.id, ColumnData::Simple(cell));
            }
            OperationKind::Delete if !column.is_complex() => {
                row.push(column.id, ColumnData::Simple(context.dead()));
            }
            kind => many_cells(change, column, kind, context, &mut row, &mut edit)?,
        }
    }
    Ok(row)
}

/// Returns several operations on one list as edits, in the order of the statement.
fn in_order(
    change: &Change,
    operations: &[Operation],
    context: &WriteContext<'_>,
) -> Result<Vec<EditKind>, CqlError> {
    let mut kinds = Vec::with_capacity(operations.len());
    for Operation { column, kind } in operations {
        let mut row = Row::new();
        let mut edit = |_: &Column, kind| {
            kinds.push(kind);
            Ok(())
        };
        many_cells(change, column, kind, context, &mut row, &mut edit)?;
        if let Some(ColumnData::Complex(cells)) = row.cell(column.id) {
            kinds.push(EditKind::Cells(ComplexCells::clone(cells)));
        }
    }
    Ok(kinds)
}

/// Applies an operation to a column of many cells, or passes it to `edit`.
fn many_cells(
    change: &Change,
    column: &Column,
    kind: &OperationKind,
    context: &WriteContext<'_>,
    row: &mut Row,
    edit: &mut dyn FnMut(&Column, EditKind) -> Result<(), CqlError>,
) -> Result<(), CqlError> {
    let env = &context.env;
    let mut complex = ComplexCells::default();
    let one = |path: &[u8], cell: Cell| vec![PathCell { path: path.into(), cell }];
    match kind {
        OperationKind::Set(_) => {}
        OperationKind::Delete => complex.deletion = context.small_tombstone(),
        OperationKind::Replace(expr) => {
            let value = match expr.evaluate(env)? {
                Value::Unset => return Ok(()),
                value => value.required(|| column.name.clone())?,
            };
            complex.deletion = context.before();
            if let Some(bytes) = value {
                complex.cells = elements(&column.ty, &bytes, context, Placing::Behind)?;
            }
        }
        OperationKind::Append(expr) | OperationKind::Prepend(expr) => {
            let Value::Bytes(bytes) = expr.evaluate(env)? else { return Ok(()) };
            let placing = match kind {
                OperationKind::Append(_) => Placing::Behind,
                _ => Placing::InFront,
            };
            complex.cells = elements(&column.ty, &bytes, context, placing)?;
        }
        OperationKind::Remove(expr) => {
            let Value::Bytes(bytes) = expr.evaluate(env)? else { return Ok(()) };
            for key in items(&bytes)? {
                complex.cells.push(PathCell { path: key?.into(), cell: context.dead() });
            }
        }
        OperationKind::Put { key, value } => {
            let key = path(key, env, "map key")?;
            let value = match value.evaluate(env)? {
                Value::Unset => return Ok(()),
                value => value.required(|| column.name.clone())?,
            };
            complex.cells = one(&key, context.cell_or_dead(value.as_deref()));
        }
        OperationKind::DeleteElement(key) => {
            let what = if matches!(column.ty, CqlType::Set { .. }) { "set element" } else { "map key" };
            complex.cells = one(&path(key, env, what)?, context.dead());
        }
        OperationKind::SetField { field, value } => {
            let value = match value.evaluate(env)? {
                Value::Unset => return Ok(()),
                value => value.required(|| column.name.clone())?,
            };
            complex.cells = one(field, context.cell_or_dead(value.as_deref()));
        }
        OperationKind::DeleteField(field) => complex.cells = one(field, context.dead()),
        OperationKind::RemoveFromList(expr) => {
            let Value::Bytes(bytes) = expr.evaluate(env)? else { return Ok(()) };
            let values = items(&bytes)?.map(|item| Ok(SmallBytes::from(item?)));
            return edit(column, EditKind::RemoveValues(values.collect::<Result<_, CqlError>>()?));
        }
        OperationKind::SetIndex { index, value } => {
            let index = list_index(index, env)?;
            let value = match value.evaluate(env)? {
                Value::Unset => return Ok(()),
                value => value.required(|| column.name.clone())?,
            };
            return edit(column, EditKind::SetIndex { index, value: value.map(|value| (&*value).into()) });
        }
        OperationKind::DeleteIndex(index) => {
            if matches!(index.evaluate(env)?, Value::Unset) {
                return Ok(());
            }
            return edit(column, EditKind::DeleteIndex(list_index(index, env)?));
        }
        OperationKind::Count { delta, subtract } => {
            let bytes = match delta.evaluate(env)? {
                Value::Unset => return Ok(()),
                Value::Null => return invalid!("Invalid null value for counter increment/decrement"),
                Value::Bytes(bytes) => bytes,
            };
            let Ok(delta) = <[u8; 8]>::try_from(&*bytes).map(i64::from_be_bytes) else {
                return invalid!("Invalid value for counter increment: it takes a bigint");
            };
            if *subtract && delta == i64::MIN {
                return invalid!(
                    "The negation of {delta} overflows supported counter precision (signed 8 bytes integer)"
                );
            }
            return edit(column, EditKind::Count(if *subtract { -delta } else { delta }));
        }
        OperationKind::Calculate { operand, op } => {
            let operand = match operand.evaluate(env)? {
                Value::Unset => return Ok(()),
                Value::Null => return invalid!("Invalid null value for increment of column {}", column.name),
                Value::Bytes(bytes) => SmallBytes::from(&*bytes),
            };
            return edit(column, EditKind::Calculate { operand, op: *op });
        }
    }
    put(row, &change.schema, column, complex);
    Ok(())
}

/// Adds cells in any order to a column of the row. If two cells have the same path, the later one is kept.
fn put(row: &mut Row, schema: &TableSchema, column: &Column, mut complex: ComplexCells) {
    complex.cells.sort_by(|a, b| schema.compare_paths(column, &a.path, &b.path));
    complex.cells.dedup_by(|later, kept| {
        let is_same = schema.compare_paths(column, &later.path, &kept.path).is_eq();
        if is_same {
            std::mem::swap(&mut later.cell, &mut kept.cell);
        }
        is_same
    });
    if complex.is_empty() {
        return;
    }
    let data = ColumnData::Complex(Box::new(complex));
    if row.cells().last().is_none_or(|(last, _)| *last < column.id) {
        row.push(column.id, data);
    } else {
        let mut more = Row::with_capacity(1);
        more.push(column.id, data);
        row.merge(&more, schema);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Placing {
    Behind,
    InFront,
}

/// Builds the cells of a collection or of a UDT from its serialized value.
fn elements(
    ty: &CqlType,
    bytes: &[u8],
    context: &WriteContext<'_>,
    placing: Placing,
) -> Result<Vec<PathCell>, CqlError> {
    // Each element takes at least four bytes, so the capacity is bounded by the length of the client's value.
    let mut cells = Vec::with_capacity(count(bytes).min(bytes.len() / 4));
    match ty {
        CqlType::Set { .. } => {
            for item in items(bytes)? {
                cells.push(PathCell { path: item?.into(), cell: context.cell(SmallBytes::new()) });
            }
        }
        CqlType::Map { .. } if bytes.is_empty() => {}
        CqlType::Map { .. } => {
            for entry in MapIter::new(bytes)? {
                let (Some(key), Some(value)) = entry? else { return null_inside() };
                cells.push(PathCell { path: key.into(), cell: context.cell(value) });
            }
        }
        CqlType::Udt { .. } => {
            for (number, field) in (0u16..).zip(TupleIter::new(bytes)) {
                if let Some(value) = field? {
                    cells.push(PathCell { path: number.to_be_bytes().into(), cell: context.cell(value) });
                }
            }
        }
        _ => {
            let values = items(bytes)?.collect::<Result<Vec<_>, _>>()?;
            let element =
                |(path, value): ([u8; 16], &[u8])| PathCell { path: path.into(), cell: context.cell(value) };
            match placing {
                Placing::Behind => {
                    cells.extend(values.into_iter().map(|value| element((context.paths.append(), value))));
                }
                Placing::InFront => {
                    cells.extend(context.paths.prepend(values.len()).zip(values).map(element));
                }
            }
        }
    }
    Ok(cells)
}

fn count(bytes: &[u8]) -> usize {
    let count = bytes.first_chunk::<4>().map_or(0, |count| i32::from_be_bytes(*count));
    usize::try_from(count).unwrap_or(0)
}

/// The elements of a list or set. A null element is an error.
fn items(bytes: &[u8]) -> Result<impl Iterator<Item = Result<&[u8], CqlError>>, CqlError> {
    const EMPTY: [u8; 4] = [0; 4];
    let bytes = if bytes.is_empty() { &EMPTY } else { bytes };
    Ok(CollectionIter::new(bytes)?.map(|item| item?.map_or_else(null_inside, Ok)))
}

fn null_inside<T>() -> Result<T, CqlError> {
    invalid!("null is not supported inside collections")
}

/// Evaluates the key of a map's entry, or an element of a set.
fn path<'a>(expr: &'a Expr, env: &Env<'a>, what: &str) -> Result<Cow<'a, [u8]>, CqlError> {
    match expr.evaluate(env)? {
        Value::Null => invalid!("Invalid null {what}"),
        Value::Unset => invalid!("Invalid unset {what}"),
        Value::Bytes(bytes) => Ok(bytes),
    }
}

fn list_index(expr: &Expr, env: &Env<'_>) -> Result<i32, CqlError> {
    match expr.evaluate(env)? {
        Value::Null => invalid!("Invalid null value for list index"),
        Value::Unset => invalid!("Invalid unset value for list index"),
        Value::Bytes(bytes) => match <[u8; 4]>::try_from(&*bytes) {
            Ok(bytes) => Ok(i32::from_be_bytes(bytes)),
            Err(_) => invalid!("Invalid value for list index: it takes an int"),
        },
    }
}
