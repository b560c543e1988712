//! Operations of a statement on one column, prepared from assignments and deletions.
//!
//! Error messages follow Cassandra 4.1 `cql3/Operation.java`.

use model::Column;
use model::types::CqlType;
use protocol::CqlError;
use syntax::{ArithmeticOp, Assignment, AssignmentOp, DeleteTarget, Ident, Term};

use crate::error::invalid;
use crate::function::{is_numeric, is_string};
use crate::term::{Expr, Planner, of_term};

/// An operation on a column.
#[derive(Clone, Debug)]
pub struct Operation {
    pub column: Column,
    pub kind: OperationKind,
}

#[derive(Clone, Debug)]
pub enum OperationKind {
    /// Sets a column of one cell to a value, or to a tombstone for null.
    Set(Expr),
    /// Deletes the previous content of a column of many cells, and writes the new value.
    Replace(Expr),
    /// Appends elements to a list, or adds elements to a set or entries to a map.
    Append(Expr),
    /// Prepends elements to a list.
    Prepend(Expr),
    /// Removes elements from a set, or removes entries from a map by a set of keys.
    Remove(Expr),
    /// Removes every element of a list that equals one of the given elements.
    RemoveFromList(Expr),
    /// Sets an entry of a map, or writes its tombstone for null.
    Put {
        key: Expr,
        value: Expr,
    },
    /// Sets the element of a list at an index.
    SetIndex {
        index: Expr,
        value: Expr,
    },
    /// Sets a field of a UDT by its number, or writes its tombstone for null.
    SetField {
        field: [u8; 2],
        value: Expr,
    },
    /// Adds to a counter or subtracts from it.
    Count {
        delta: Expr,
        subtract: bool,
    },
    /// Adds to a number, subtracts from it, or appends to a text. Allowed only in a conditional statement,
    /// which locks the partition.
    Calculate {
        operand: Expr,
        op: ArithmeticOp,
    },
    /// Deletes the whole column.
    Delete,
    /// Deletes an entry of a map or an element of a set.
    DeleteElement(Expr),
    DeleteIndex(Expr),
    DeleteField([u8; 2]),
}

impl OperationKind {
    /// Whether the operation depends on the stored elements of a list.
    pub fn reads_list(&self) -> bool {
        matches!(self, Self::RemoveFromList(_) | Self::SetIndex { .. } | Self::DeleteIndex(_))
    }

    /// Whether the operation depends on stored data.
    pub fn reads(&self) -> bool {
        self.reads_list() || matches!(self, Self::Count { .. } | Self::Calculate { .. })
    }
}

/// Prepares `column = value` of SET or VALUES.
fn set(planner: &mut Planner<'_>, column: &Column, value: &Term) -> Result<OperationKind, CqlError> {
    Ok(set_to(column, self::value(planner, column, value)?))
}

/// As [`set`], for a prepared value.
pub fn set_to(column: &Column, expr: Expr) -> OperationKind {
    if column.is_complex() { OperationKind::Replace(expr) } else { OperationKind::Set(expr) }
}

/// Prepares the value that a column is set to.
///
/// # Errors
/// The column is a counter, or the term is not a value of the column's type.
pub fn value(planner: &mut Planner<'_>, column: &Column, value: &Term) -> Result<Expr, CqlError> {
    let expr = planner.term(value, &column.name, &column.ty)?;
    if column.ty.is_counter() {
        return invalid!(
            "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
            column.name
        );
    }
    Ok(expr)
}

/// Prepares one assignment of SET. `column` is the column that the assignment names. An assignment that
/// calculates with the stored number or text is allowed only in a conditional statement (`is_conditional`).
pub fn assign(
    planner: &mut Planner<'_>,
    column: &Column,
    assignment: &Assignment,
    is_conditional: bool,
) -> Result<OperationKind, CqlError> {
    let name = &column.name;
    let refuse = |what: &str| invalid!("Invalid operation ({assignment}) for {what} column {name}");
    let ty = &column.ty;
    match &assignment.op {
        AssignmentOp::Set(value) => set(planner, column, value),
        AssignmentOp::SetField { field, value } => {
            let CqlType::Udt { user, multi_cell } = ty else { return refuse("non-UDT") };
            if !multi_cell {
                return refuse("frozen UDT");
            }
            let number = field_number(column, field)?;
            let field_type = user.fields[usize::from(number)].field_type.clone();
            let value = planner.term(value, &format!("{name}.{}", field.text), &field_type)?;
            Ok(OperationKind::SetField { field: number.to_be_bytes(), value })
        }
        AssignmentOp::SetElement { key, value } => {
            if !ty.is_collection() {
                return refuse("non collection");
            }
            if !ty.is_multi_cell() {
                return refuse("frozen collection");
            }
            match ty {
                CqlType::List { element, .. } => Ok(OperationKind::SetIndex {
                    index: planner.term(key, &format!("idx({name})"), &CqlType::Int)?,
                    value: planner.term(value, &format!("value({name})"), &element.clone())?,
                }),
                CqlType::Map { entry, .. } => Ok(OperationKind::Put {
                    key: planner.term(key, &format!("key({name})"), &entry.0)?,
                    value: planner.term(value, &format!("value({name})"), &entry.1)?,
                }),
                _ => refuse("set"),
            }
        }
        AssignmentOp::Add(value) | AssignmentOp::Subtract(value) => {
            let subtract = matches!(assignment.op, AssignmentOp::Subtract(_));
            if ty.is_counter() {
                return Ok(OperationKind::Count { delta: planner.term(value, name, ty)?, subtract });
            }
            if is_conditional && (is_numeric(ty) || (is_string(ty) && !subtract)) {
                let op = if subtract { ArithmeticOp::Subtract } else { ArithmeticOp::Add };
                return Ok(OperationKind::Calculate { operand: planner.term(value, name, ty)?, op });
            }
            if !ty.is_collection() {
                if matches!(ty, CqlType::Tuple(_) | CqlType::Udt { .. }) && !subtract {
                    return refuse("tuple");
                }
                if !is_conditional {
                    return refuse("non counter");
                }
                let what = if subtract { "non-numeric" } else { "non-numeric and non-text" };
                return invalid!("Invalid operation ({assignment}) for {what} type {name}");
            }
            if !ty.is_multi_cell() {
                return refuse("frozen collection");
            }
            // Cassandra returns this error for every invalid value.
            let of_map = |found: Result<Expr, CqlError>, what: &str| match found {
                Err(CqlError::Invalid(_)) => {
                    invalid!("Value for a map {what}, but was: '{}'", of_term(value))
                }
                found => found,
            };
            Ok(match ty {
                CqlType::Map { .. } if !subtract => {
                    let found = planner.term(value, name, ty);
                    OperationKind::Append(of_map(found, "addition has to be a map")?)
                }
                _ if !subtract => OperationKind::Append(planner.term(value, name, ty)?),
                CqlType::List { .. } => OperationKind::RemoveFromList(planner.term(value, name, ty)?),
                CqlType::Map { entry, .. } => {
                    // Braces with entries are a map, not a set of keys.
                    let keys = CqlType::set(entry.0.clone());
                    let found = planner.term(value, name, &keys);
                    OperationKind::Remove(of_map(found, "substraction has to be a set")?)
                }
                _ => OperationKind::Remove(planner.term(value, name, ty)?),
            })
        }
        AssignmentOp::Prepend(value) => match ty {
            CqlType::List { multi_cell: true, .. } => {
                Ok(OperationKind::Prepend(planner.term(value, name, ty)?))
            }
            // Cassandra prints the operation with a minus.
            CqlType::List { .. } => {
                invalid!("Invalid operation ({name} = {value} - {name}) for frozen list column {name}")
            }
            // `c = 1 + c` and `s = {1} + s` mean the same as with swapped operands.
            CqlType::Counter => {
                Ok(OperationKind::Count { delta: planner.term(value, name, ty)?, subtract: false })
            }
            _ => invalid!("Invalid operation ({name} = {value} - {name}) for non list column {name}"),
        },
    }
}

/// Prepares the deletion of `column`, or of a part of it.
pub fn delete(
    planner: &mut Planner<'_>,
    column: &Column,
    target: &DeleteTarget,
) -> Result<OperationKind, CqlError> {
    let name = &column.name;
    let ty = &column.ty;
    match target {
        DeleteTarget::Column(_) => Ok(OperationKind::Delete),
        DeleteTarget::Field { field, .. } => match ty {
            CqlType::Udt { multi_cell: true, .. } => {
                Ok(OperationKind::DeleteField(field_number(column, field)?.to_be_bytes()))
            }
            CqlType::Udt { .. } => invalid!("Frozen UDT column {name} does not support field deletions"),
            _ => invalid!("Invalid field deletion operation for non-UDT column {name}"),
        },
        DeleteTarget::Element { key, .. } => match ty {
            _ if !ty.is_collection() => {
                invalid!("Invalid deletion operation for non collection column {name}")
            }
            _ if !ty.is_multi_cell() => {
                invalid!("Invalid deletion operation for frozen collection column {name}")
            }
            CqlType::Map { entry, .. } => {
                Ok(OperationKind::DeleteElement(planner.term(key, &format!("key({name})"), &entry.0)?))
            }
            CqlType::Set { element, .. } => {
                Ok(OperationKind::DeleteElement(planner.term(key, &format!("value({name})"), element)?))
            }
            _ => Ok(OperationKind::DeleteIndex(planner.term(key, &format!("idx({name})"), &CqlType::Int)?)),
        },
    }
}

/// Returns the number of a UDT's field, which is its cell path.
pub fn field_number(column: &Column, field: &Ident) -> Result<u16, CqlError> {
    let CqlType::Udt { user, .. } = column.ty.without_reversed() else {
        return invalid!("Column {} is no user defined type and has no fields", column.name);
    };
    let found = user.fields.iter().position(|known| known.name == field.text);
    match found.and_then(|number| u16::try_from(number).ok()) {
        Some(number) => Ok(number),
        None => {
            invalid!("UDT column {} does not have a field named {}", column.name, field.text)
        }
    }
}

/// Whether a statement may have both assignments for one column.
pub fn are_compatible(a: &AssignmentOp, b: &AssignmentOp) -> bool {
    match (a, b) {
        (AssignmentOp::Set(_), _) | (_, AssignmentOp::Set(_)) => false,
        (AssignmentOp::SetField { field: a, .. }, AssignmentOp::SetField { field: b, .. }) => a != b,
        _ => true,
    }
}
