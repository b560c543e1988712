//! The columns that the selectors of a SELECT name. They decide, before WHERE is prepared, whether a
//! statement selects only static columns.

use model::{ColumnKind, TableSchema};
use protocol::CqlError;
use syntax::{Selection, Selector};

use crate::restriction::ColumnRef;

/// Whether the selection names static columns, and no others but partition key columns.
///
/// # Errors
/// A column does not exist.
pub fn is_only_static(schema: &TableSchema, selection: &Selection) -> Result<bool, CqlError> {
    let Selection::Items(items) = selection else { return Ok(false) };
    if schema.columns_of(ColumnKind::Static).next().is_none() {
        return Ok(false);
    }
    // As in Cassandra, columns are looked up only until the question is answered.
    let any = |wanted: fn(&ColumnRef) -> bool| -> Result<bool, CqlError> {
        for item in items {
            if columns(schema, &item.selector)?.iter().any(wanted) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let of_row = |column: &ColumnRef| matches!(column, ColumnRef::Clustering(_) | ColumnRef::Regular(_));
    Ok(any(|column| matches!(column, ColumnRef::Static(_)))? && !any(of_row)?)
}

/// The columns that a selector names.
///
/// # Errors
/// A column does not exist.
pub fn columns(schema: &TableSchema, selector: &Selector) -> Result<Vec<ColumnRef>, CqlError> {
    let mut columns = vec![];
    add(schema, selector, &mut columns)?;
    Ok(columns)
}

fn add(schema: &TableSchema, selector: &Selector, out: &mut Vec<ColumnRef>) -> Result<(), CqlError> {
    match selector {
        Selector::Column(name) => out.push(ColumnRef::named(schema, name.as_str())?),
        Selector::Literal(_) | Selector::Null(_) | Selector::Marker(_) | Selector::CountRows(_) => {}
        Selector::CellTime { of, .. }
        | Selector::Cast { of, .. }
        | Selector::Hint { of, .. }
        | Selector::Field { of, .. }
        | Selector::Element { of, .. }
        | Selector::Slice { of, .. }
        | Selector::Negate { of, .. } => add(schema, of, out)?,
        Selector::Call { args: parts, .. }
        | Selector::Tuple { elements: parts, .. }
        | Selector::List { elements: parts, .. }
        | Selector::Set { elements: parts, .. } => {
            for part in parts {
                add(schema, part, out)?;
            }
        }
        // A key may be the name of a field.
        Selector::MapOrUdt { entries, .. } => {
            for (_, value) in entries {
                add(schema, value, out)?;
            }
        }
        Selector::Arithmetic { left, right, .. } => {
            add(schema, left, out)?;
            add(schema, right, out)?;
        }
    }
    Ok(())
}
