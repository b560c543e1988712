//! Literals of tuples, lists, sets, maps and user types in a selection, which may contain columns.
//!
//! A literal of constants is a term. A literal with columns has the type of its type hint.

use model::CqlType;
use protocol::CqlError;
use syntax::{Selector, Term};

use super::Builder;
use crate::error::invalid;
use crate::function::Arg;
use crate::term::{Expr, SELECTION, is_assignable};

pub(super) fn is_bare(selector: &Selector) -> bool {
    matches!(selector, Selector::Literal(_) | Selector::Null(_) | Selector::Marker(_))
}

/// Converts a selector without columns and calls to a term; `None` for any other selector. `ty` is the wanted
/// type.
pub(super) fn constant(selector: &Selector, ty: &CqlType) -> Option<Term> {
    match (selector, ty) {
        (Selector::MapOrUdt { entries, span }, CqlType::Udt { user, .. }) => {
            let field = |(key, value): &(Selector, Selector)| {
                let Selector::Column(name) = key else { return None };
                let known = user.fields.iter().find(|field| field.name == name.as_str());
                Some((
                    name.clone(),
                    constant(value, known.map_or(&CqlType::Empty, |field| &field.field_type))?,
                ))
            };
            let fields = entries.iter().map(field).collect::<Option<_>>()?;
            Some(Term::Udt { fields, span: *span })
        }
        (Selector::MapOrUdt { .. }, _) => constant_map(selector),
        (Selector::Literal(literal), _) => Some(Term::Literal(literal.clone())),
        (Selector::Null(span), _) => Some(Term::Null(*span)),
        (Selector::Marker(marker), _) => Some(Term::Marker(marker.clone())),
        (Selector::List { elements, span }, ty) => {
            let element = match ty {
                CqlType::List { element, .. } | CqlType::Vector { element, .. } => element,
                _ => &CqlType::Empty,
            };
            let elements =
                elements.iter().map(|selector| constant(selector, element)).collect::<Option<_>>()?;
            Some(Term::List { elements, span: *span })
        }
        (Selector::Set { elements, span }, ty) => {
            let element = match ty {
                CqlType::Set { element, .. } => element,
                _ => &CqlType::Empty,
            };
            let elements =
                elements.iter().map(|selector| constant(selector, element)).collect::<Option<_>>()?;
            Some(Term::Set { elements, span: *span })
        }
        (Selector::Tuple { elements, span }, ty) => {
            let component = |number: usize| match ty {
                CqlType::Tuple(components) => components.get(number).unwrap_or(&CqlType::Empty),
                other => other,
            };
            let elements = elements.iter().enumerate();
            let elements = elements.map(|(number, selector)| constant(selector, component(number)));
            Some(Term::Tuple { elements: elements.collect::<Option<_>>()?, span: *span })
        }
        (Selector::Hint { ty, of, span }, _) => {
            let term = Box::new(constant(of, &CqlType::Empty)?);
            Some(Term::Hint { ty: ty.clone(), term, span: *span })
        }
        _ => None,
    }
}

pub(super) fn constant_map(selector: &Selector) -> Option<Term> {
    let Selector::MapOrUdt { entries, span } = selector else { return None };
    let entry = |(key, value): &(Selector, Selector)| {
        Some((constant(key, &CqlType::Empty)?, constant(value, &CqlType::Empty)?))
    };
    Some(Term::Map { entries: entries.iter().map(entry).collect::<Option<_>>()?, span: *span })
}

impl Builder<'_, '_> {
    /// Prepares a selector as a value of the type that a type hint gives.
    pub(super) fn select_as(&mut self, selector: &Selector, ty: &CqlType) -> Result<Expr, CqlError> {
        let unfit = |found: &str| {
            invalid!("Cannot assign value {} of type {found} to type {}", selector.column_name(), ty.to_cql())
        };
        let elements = match (selector, ty) {
            (Selector::List { elements, .. }, CqlType::Vector { element, dimension }) => {
                if elements.len() != *dimension as usize {
                    return invalid!(
                        "Invalid vector literal for {} of type {}; expected {dimension} elements, but given {}",
                        selector.column_name(),
                        ty.to_cql(),
                        elements.len()
                    );
                }
                self.each_as(elements.iter().map(|selector| (selector, &**element)))?
            }
            (Selector::List { elements, .. }, CqlType::List { element, .. })
            | (Selector::Set { elements, .. }, CqlType::Set { element, .. }) => {
                self.each_as(elements.iter().map(|selector| (selector, &**element)))?
            }
            (Selector::Tuple { elements, .. }, CqlType::Tuple(components))
                if elements.len() <= components.len() =>
            {
                self.each_as(elements.iter().zip(components.iter()))?
            }
            (Selector::Tuple { elements, .. }, _) if elements.len() == 1 => {
                return self.select_as(&elements[0], ty);
            }
            (Selector::MapOrUdt { entries, .. }, CqlType::Map { entry, .. }) => {
                let prepared = entries.iter().map(|(key, value)| {
                    Ok((self.select_as(key, &entry.0)?, self.select_as(value, &entry.1)?))
                });
                let entries = prepared.collect::<Result<_, CqlError>>()?;
                return Ok(Expr::Map { ty: ty.clone(), entries });
            }
            (Selector::MapOrUdt { entries, .. }, CqlType::Udt { user, .. }) => {
                let given = |name: &str| {
                    let is = |key: &Selector| matches!(key, Selector::Column(key) if key.as_str() == name);
                    entries.iter().rev().find(|(key, _)| is(key))
                };
                let known = |key: &Selector| {
                    user.fields
                        .iter()
                        .any(|field| matches!(key, Selector::Column(key) if key.as_str() == field.name))
                };
                if let Some((key, _)) = entries.iter().find(|(key, _)| !known(key)) {
                    return invalid!(
                        "Unknown field '{}' in value of user defined type {}",
                        key.column_name(),
                        user.name
                    );
                }
                let fields = user.fields.iter().map(|field| match given(&field.name) {
                    Some((_, value)) => self.select_as(value, &field.field_type),
                    None => Ok(Expr::NULL),
                });
                fields.collect::<Result<_, _>>()?
            }
            _ => {
                return match self.select(selector)? {
                    Arg::Term(term) => self.planner.term(&term, SELECTION, ty),
                    Arg::Typed(expr, found) if is_assignable(ty, &found) => Ok(expr),
                    Arg::Typed(_, found) => unfit(&found.to_cql()),
                };
            }
        };
        Ok(Expr::Sequence { ty: ty.clone(), elements })
    }

    fn each_as<'s>(
        &mut self,
        selectors: impl Iterator<Item = (&'s Selector, &'s CqlType)>,
    ) -> Result<Vec<Expr>, CqlError> {
        selectors.map(|(selector, ty)| self.select_as(selector, ty)).collect()
    }
}
