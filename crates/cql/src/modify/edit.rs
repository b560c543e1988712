//! Edits: operations that read stored data before they write. These are updates of counters, operations on
//! list elements by index or by value, and numbers and texts computed from the stored value.

use base::broken;
use model::{
    Cell, Column, ColumnData, ComplexCells, CqlType, Mutation, PathCell, Row, SmallBytes, TableSchema,
    counter::{self, CounterShard},
};
use protocol::CqlError;
use reader::Page;
use syntax::ArithmeticOp;

use super::write::{RowAt, WriteContext};
use crate::error::invalid;
use crate::function;

/// A change of a column of a row, to be resolved after the row has been read.
#[derive(Clone, Debug)]
pub struct Edit {
    pub at: RowAt,
    pub column: Column,
    pub kind: EditKind,
    timestamp_us: i64,
    ttl_s: u32,
    now_s: u32,
}

#[derive(Clone, Debug)]
pub enum EditKind {
    /// Sets an element of a list, or deletes it if `value` is `None`.
    SetIndex {
        index: i32,
        value: Option<SmallBytes>,
    },
    DeleteIndex(i32),
    RemoveValues(Vec<SmallBytes>),
    /// Cells of a list that do not depend on stored data.
    Cells(ComplexCells),
    /// Operations on one list in the order of the statement. Each operation sees the effects of the earlier
    /// ones.
    InOrder(Vec<EditKind>),
    /// Adds to a counter.
    Count(i64),
    /// Computes `stored value op operand`. Null stays null, as in Cassandra.
    Calculate {
        operand: SmallBytes,
        op: ArithmeticOp,
    },
}

/// The node whose counter shard is incremented.
#[derive(Clone, Copy, Debug)]
pub struct CounterNode {
    pub id: [u8; 16],
    /// Wall clock in microseconds: the first clock value of a new counter shard. A shard that was deleted and
    /// created again thereby supersedes remains of the old shard.
    pub wall_us: i64,
}

impl Edit {
    pub fn new(at: RowAt, column: &Column, kind: EditKind, context: &WriteContext<'_>) -> Self {
        let WriteContext { timestamp_us, ttl_s, now_s, .. } = *context;
        Self { at, column: column.clone(), kind, timestamp_us, ttl_s, now_s }
    }

    /// Adds the resolved edit to `mutation`. `page` has the stored rows of the partition.
    ///
    /// # Errors
    /// The list does not have the index, the stored value is not a valid counter, or a number has too many
    /// digits.
    pub fn resolve(&self, mutation: &mut Mutation, page: &Page, node: CounterNode) -> Result<(), CqlError> {
        let schema = mutation.schema.clone();
        let existing = self.at.find(&schema, page).and_then(|row| row.cell(self.column.id));
        let change = match &self.kind {
            EditKind::Count(delta) => self.count(existing, *delta, node)?,
            EditKind::Calculate { operand, op } => self.calculate(existing, operand, *op)?,
            EditKind::InOrder(kinds) => self.in_order(&schema, kinds, existing)?,
            kind => self.list(&schema, kind, elements(existing))?,
        };
        let row = match &self.at {
            RowAt::Static => &mut mutation.partition.static_row,
            RowAt::Key(key) if change.is_empty() && mutation.partition.row(&schema, key).is_none() => {
                return Ok(());
            }
            RowAt::Key(key) => mutation.partition.row_mut(&schema, key.clone()),
        };
        row.merge(&change, &schema);
        Ok(())
    }

    fn in_order(
        &self,
        schema: &TableSchema,
        kinds: &[EditKind],
        existing: Option<&ColumnData>,
    ) -> Result<Row, CqlError> {
        let (mut state, mut changes) = (Row::new(), Row::new());
        if let Some(existing) = existing {
            state.push(self.column.id, existing.clone());
        }
        for kind in kinds {
            let mut cells = elements(state.cell(self.column.id)).to_vec();
            cells.retain(|element| !element.cell.is_tombstone());
            let change = self.list(schema, kind, &cells)?;
            state.merge(&change, schema);
            changes.merge(&change, schema);
        }
        Ok(changes)
    }

    fn list(&self, schema: &TableSchema, kind: &EditKind, cells: &[PathCell]) -> Result<Row, CqlError> {
        let mut row = Row::new();
        let dead = || Cell::tombstone(self.timestamp_us, self.now_s);
        match kind {
            EditKind::SetIndex { index, value } => {
                if cells.is_empty() {
                    return invalid!("Attempted to set an element on a list which is null");
                }
                let cell = value.as_ref().map_or_else(dead, |value| self.live(value.clone()));
                row.set_element(schema, &self.column, at(cells, *index)?.path.clone(), cell);
            }
            EditKind::DeleteIndex(index) => {
                if cells.is_empty() {
                    return invalid!("Attempted to delete an element from a list which is null");
                }
                row.set_element(schema, &self.column, at(cells, *index)?.path.clone(), dead());
            }
            EditKind::RemoveValues(values) => {
                let CqlType::List { element, .. } = &self.column.ty else { return Ok(row) };
                let is_removed =
                    |cell: &&PathCell| values.iter().any(|v| element.compare(v, &cell.cell.value).is_eq());
                for cell in cells.iter().filter(is_removed) {
                    row.set_element(schema, &self.column, cell.path.clone(), dead());
                }
            }
            EditKind::Cells(cells) => {
                row.push(self.column.id, ColumnData::Complex(Box::new(cells.clone())));
            }
            EditKind::Count(_) | EditKind::Calculate { .. } | EditKind::InOrder(_) => {}
        }
        Ok(row)
    }

    fn live(&self, value: SmallBytes) -> Cell {
        match self.ttl_s {
            0 => Cell::live(self.timestamp_us, value),
            ttl_s => Cell::expiring(self.timestamp_us, ttl_s, self.now_s, value),
        }
    }

    fn calculate(
        &self,
        existing: Option<&ColumnData>,
        operand: &SmallBytes,
        op: ArithmeticOp,
    ) -> Result<Row, CqlError> {
        let mut row = Row::new();
        let Some(ColumnData::Simple(cell)) = existing else { return Ok(row) };
        if let Some(value) = function::of_column(&self.column.ty, op, &cell.value, operand)? {
            row.push(self.column.id, ColumnData::Simple(self.live(value.into())));
        }
        Ok(row)
    }

    fn count(&self, existing: Option<&ColumnData>, delta: i64, node: CounterNode) -> Result<Row, CqlError> {
        let delta = if broken::is("counter_once") { delta.wrapping_mul(2) } else { delta };
        let mut shard = CounterShard { id: node.id, clock: node.wall_us, count: delta };
        if let Some(ColumnData::Simple(cell)) = existing {
            let shards = counter::decode(&cell.value).map_err(|error| CqlError::Server(error.to_string()))?;
            if let Some(mine) = shards.iter().find(|shard| shard.id == node.id) {
                shard.clock = node.wall_us.max(mine.clock.saturating_add(1));
                shard.count = mine.count.wrapping_add(delta);
            }
        }
        let mut row = Row::new();
        row.push(
            self.column.id,
            ColumnData::Simple(Cell::live(self.timestamp_us, counter::encode(&[shard]))),
        );
        Ok(row)
    }
}

fn elements(data: Option<&ColumnData>) -> &[PathCell] {
    match data {
        Some(ColumnData::Complex(complex)) => &complex.cells,
        _ => &[],
    }
}

fn at(cells: &[PathCell], index: i32) -> Result<&PathCell, CqlError> {
    match usize::try_from(index).ok().and_then(|index| cells.get(index)) {
        Some(cell) => Ok(cell),
        None => invalid!("List index {index} out of bound, list has size {}", cells.len()),
    }
}
