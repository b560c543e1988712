//! SELECT statements on storage in memory: results, errors, and that the rows do not depend on the page size.
//! Random statements are compared with an evaluation that reads every row.

mod groups;
mod indexes;
mod laws;
mod statements;

use std::sync::Arc;

use model::{CqlType, Mutation, PartitionKey, TableSchema};
use reader::block_on_ready;
use syntax::{Statement, parse};

use super::*;
use crate::outcome::{Execution, ResultRows};
use crate::testing::MemoryCoordinator;

pub(super) const NOW_US: i64 = 1_700_000_000_000_000;

pub(super) fn plan(storage: &MemoryCoordinator, text: &str) -> Result<SelectPlan, CqlError> {
    use crate::Storage;
    let parsed = parse(text)?;
    let Statement::Select(select) = &parsed.statement else { panic!("no SELECT: {text}") };
    let catalog = storage.catalog();
    let keyspace = select.table.keyspace.as_ref().expect("a keyspace").text.clone();
    let planner = Planner::new(&catalog, &keyspace, &select.table.name.text, parsed.markers.len());
    prepare(planner, select)
}

pub(super) fn execution<'a>(page_rows: Option<u32>, paging_state: Option<&'a [u8]>) -> Execution<'a> {
    Execution { now_us: NOW_US, timestamp_us: None, now_s: None, page_rows, paging_state }
}

pub(crate) type Cells = Vec<Option<Vec<u8>>>;

pub(crate) fn rows_of(result: &ResultRows, columns: usize) -> Vec<Cells> {
    let cells = result.joined_cells();
    let mut rest = &cells[..];
    let mut rows = vec![];
    for _ in 0..result.count() {
        let mut row = vec![];
        for _ in 0..columns {
            let (len, tail) = rest.split_first_chunk::<4>().expect("a length");
            rest = tail;
            row.push(usize::try_from(i32::from_be_bytes(*len)).ok().map(|len| {
                let (value, tail) = rest.split_at(len);
                rest = tail;
                value.to_vec()
            }));
        }
        rows.push(row);
    }
    assert!(rest.is_empty(), "as many cells as rows and columns");
    rows
}

/// Reads all rows, page by page.
pub(super) fn pages(
    storage: &MemoryCoordinator,
    plan: &SelectPlan,
    bound: &[protocol::Value<'_>],
    page_rows: Option<u32>,
) -> Result<Vec<Cells>, CqlError> {
    let mut all = vec![];
    let mut state: Option<Vec<u8>> = None;
    for _ in 0..10_000 {
        let result = block_on_ready(execute(plan, storage, bound, &execution(page_rows, state.as_deref())))?;
        if let Some(page_rows) = page_rows {
            assert!(result.count() <= page_rows, "{} rows on a page of {page_rows}", result.count());
        }
        all.extend(rows_of(&result, plan.columns().len()));
        state = result.paging_state;
        if state.is_none() {
            return Ok(all);
        }
        assert!(page_rows.is_some(), "without paging there is one page");
    }
    panic!("the pages do not end");
}

/// Formats rows as text. Cells are separated by `|`, and a null is empty.
pub(super) fn table_text(plan: &SelectPlan, rows: &[Cells]) -> Vec<String> {
    let row = |row: &Cells| {
        let cells = row.iter().zip(plan.columns()).map(|(cell, column)| {
            let ty = if column.column_type.is_counter() { &CqlType::BigInt } else { &column.column_type };
            let text = cell.as_ref().map_or(String::new(), |cell| ty.text_of(cell));
            // Strings are printed without quotes.
            match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
                Some(inner) if !inner.contains('\'') => inner.to_string(),
                _ => text,
            }
        });
        cells.collect::<Vec<_>>().join("|")
    };
    rows.iter().map(row).collect()
}

/// Writes a row. `values` has names and values of columns, as text.
pub(super) fn write_row(
    storage: &MemoryCoordinator,
    schema: &Arc<TableSchema>,
    key: &PartitionKey,
    clustering: Option<&[&[u8]]>,
    values: &[(&str, &str)],
) {
    use model::{Cell, ClusteringKey, Liveness};
    let mut mutation = Mutation::new(schema.clone(), key.clone());
    let row = match clustering {
        Some(clustering) => {
            let row = mutation.row_mut(ClusteringKey::new(clustering.iter().copied()));
            row.liveness = Liveness::new(NOW_US);
            row
        }
        None => &mut mutation.partition.static_row,
    };
    for (name, text) in values {
        let column = schema.column_named(name).expect("a column");
        let bytes = column.ty.bytes_of(text).expect("a value");
        if !column.is_complex() {
            row.set(column, Cell::live(NOW_US, bytes.as_slice()));
            continue;
        }
        match &column.ty {
            CqlType::Map { .. } => {
                for entry in model::types::MapIter::new(&bytes).expect("a map") {
                    let (Some(key), Some(value)) = entry.expect("an entry") else { panic!("null") };
                    row.set_element(schema, column, key, Cell::live(NOW_US, value));
                }
            }
            CqlType::Set { .. } => {
                for element in model::types::CollectionIter::new(&bytes).expect("a set") {
                    let element = element.expect("an element").expect("not null");
                    row.set_element(schema, column, element, Cell::live(NOW_US, &[][..]));
                }
            }
            CqlType::List { .. } => {
                let all = model::types::CollectionIter::new(&bytes).expect("a list");
                for (number, element) in all.enumerate() {
                    let element = element.expect("an element").expect("not null");
                    let path = (0x11EE_0000_u128 << 64 | 0x1000 << 64 | number as u128).to_be_bytes();
                    row.set_element(schema, column, &path[..], Cell::live(NOW_US, element));
                }
            }
            _ => {
                for (number, field) in model::types::TupleIter::new(&bytes).enumerate() {
                    if let Some(field) = field.expect("a field") {
                        let path = (number as i16).to_be_bytes();
                        row.set_element(schema, column, &path[..], Cell::live(NOW_US, field));
                    }
                }
            }
        }
    }
    storage.write(&mutation);
}
