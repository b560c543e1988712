//! Stored values of columns, in the form that a client reads.

use std::borrow::Cow;

use model::types::{CollectionBuilder, CqlType, build_tuple};
use model::{Column, ColumnData, ComplexCells, Row, SmallBytes};

/// Returns the column's value in a row that was read; `None` for null. The value of a counter is its context.
pub fn value<'r>(column: &Column, row: Option<&'r Row>) -> Option<Cow<'r, [u8]>> {
    match row?.cell(column.id)? {
        ColumnData::Simple(cell) => Some(Cow::Borrowed(&cell.value)),
        ColumnData::Complex(complex) if complex.cells.is_empty() => None,
        ColumnData::Complex(complex) => Some(Cow::Owned(assemble(&column.ty, complex))),
    }
}

fn assemble(ty: &CqlType, complex: &ComplexCells) -> Vec<u8> {
    let mut out = CollectionBuilder::new();
    match ty {
        CqlType::Set { .. } => complex.cells.iter().for_each(|element| out.push(&element.path)),
        CqlType::Map { .. } => {
            for element in &complex.cells {
                out.push(&element.path);
                out.push(&element.cell.value);
            }
            return out.finish_map();
        }
        CqlType::Udt { user, .. } => {
            let field = |number: usize| {
                let path = u16::try_from(number).ok()?.to_be_bytes();
                element(complex, &path).map(SmallBytes::as_slice)
            };
            return build_tuple((0..user.fields.len()).map(field));
        }
        _ => complex.cells.iter().for_each(|element| out.push(&element.cell.value)),
    }
    out.finish()
}

/// Returns the value of the element with exactly this path.
pub fn element<'r>(complex: &'r ComplexCells, path: &[u8]) -> Option<&'r SmallBytes> {
    complex.cells.iter().find(|element| *element.path == *path).map(|element| &element.cell.value)
}
