//! Prepares terms of the syntax tree for a wanted type. A call is a term, and its arguments are terms.

use model::CqlType;
use model::types::UserType;
use protocol::CqlError;
use syntax::{Literal, LiteralKind, Term};

use super::resolve::{Arg, Fit};
use crate::error::invalid;
use crate::term::{Expr, Planner, SELECTION, is_assignable, literal_bytes, literal_type, of_term};

impl Planner<'_> {
    /// Prepares a term as a value of type `ty`. `name` describes the term's place in errors and names its
    /// markers.
    ///
    /// # Errors
    /// The term is not a value of the type.
    pub fn term(&mut self, term: &Term, name: &str, ty: &CqlType) -> Result<Expr, CqlError> {
        let ty = ty.without_reversed();
        match term {
            Term::Literal(constant) => self.literal(constant, name, ty),
            Term::Null(_) if ty.is_counter() => {
                invalid!("Invalid null value for counter increment/decrement")
            }
            Term::Null(_) => Ok(Expr::NULL),
            Term::Marker(marker) => Ok(self.marker(marker, name, ty)),
            Term::List { elements, .. } => match ty {
                CqlType::List { element, .. } => {
                    self.sequence(elements, ("list", name), &format!("value({name})"), element, ty)
                }
                CqlType::Vector { element, dimension } => {
                    if elements.len() != *dimension as usize {
                        return invalid!(
                            "Invalid vector literal for {name} of type {}; expected {dimension} elements, but given {}",
                            ty.to_cql(),
                            elements.len()
                        );
                    }
                    self.sequence(elements, ("vector", name), &format!("value({name})"), element, ty)
                }
                CqlType::Set { .. } | CqlType::Map { .. } | CqlType::Tuple(_) | CqlType::Udt { .. } => {
                    invalid!("Unexpected receiver type '{}'; only list and vector are expected", ty.to_cql())
                }
                _ => {
                    invalid!("Unexpected receiver type '{}'; only list and vector are expected", ty.to_cql())
                }
            },
            Term::Set { elements, .. } => match ty {
                CqlType::Set { element, .. } => {
                    self.sequence(elements, ("set", name), &format!("value({name})"), element, ty)
                }
                // `{}` is also the empty map.
                CqlType::Map { .. } if elements.is_empty() => {
                    Expr::Map { ty: ty.clone(), entries: vec![] }.folded()
                }
                _ => invalid!("Invalid set literal for {name} of type {}", ty.to_cql()),
            },
            Term::Map { entries, .. } => {
                let CqlType::Map { entry, .. } = ty else {
                    return invalid!("Invalid map literal for {name} of type {}", ty.to_cql());
                };
                let (key_name, value_name) = (format!("key({name})"), format!("value({name})"));
                let mut prepared = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    prepared.push((
                        self.element(key, ("map", name, "key"), &key_name, &entry.0)?,
                        self.element(value, ("map", name, "value"), &value_name, &entry.1)?,
                    ));
                }
                check_markers("map", name, prepared.iter().flat_map(|(key, value)| [key, value]))?;
                Expr::Map { ty: ty.clone(), entries: prepared }.folded()
            }
            Term::Udt { fields, .. } => match ty {
                CqlType::Udt { user, .. } => {
                    let fields: Vec<_> = fields.iter().map(|(field, term)| (field.as_str(), term)).collect();
                    self.user_type(&user.clone(), &fields, name, ty)
                }
                CqlType::Map { .. } => {
                    invalid!("Invalid map literal for {name}: its keys are names; put strings in quotes")
                }
                _ => invalid!("Invalid user type literal for {name} of type {}", ty.to_cql()),
            },
            Term::Tuple { elements, .. } => match ty {
                CqlType::Tuple(components) => self.tuple(elements, components.iter(), name, ty),
                // As in Cassandra, a user type is a tuple of its fields.
                CqlType::Udt { user, .. } if elements.len() > 1 || user.fields.len() == 1 => {
                    let user = user.clone();
                    self.tuple(elements, user.fields.iter().map(|field| &field.field_type), name, ty)
                }
                // Parentheses around a single term.
                _ if elements.len() == 1 => self.term(&elements[0], name, ty),
                _ => invalid!("Invalid tuple type literal for {name} of type {}", ty.to_cql()),
            },
            Term::Hint { ty: hint, term, .. } => {
                let hinted = self.resolve_type(hint)?;
                if Arg::of(term).fits(self, &hinted)? == Fit::No {
                    if name.contains(SELECTION) {
                        let text = format!("({hint}){}", of_term(term));
                        return invalid!("Cannot assign value {text} to {text} of type {}", hinted.to_cql());
                    }
                    return invalid!("Cannot cast value {} to type {hint}", of_term(term));
                }
                if !is_assignable(ty, &hinted) {
                    return invalid!(
                        "Cannot assign value ({hint}){} to {name} of type {}",
                        of_term(term),
                        ty.to_cql()
                    );
                }
                // As in Cassandra, the hint decides whether the term fits, and the place what it becomes.
                self.term(term, name, ty)
            }
            Term::Call { .. } | Term::Cast { .. } | Term::Arithmetic { .. } | Term::Negate { .. } => {
                let (expr, found) = super::prepare(self, term, Some(ty))?;
                if !is_assignable(ty, &found) {
                    return invalid!(
                        "Type error: cannot assign result of {} (type {}) to {name} (type {})",
                        super::describe(self, term),
                        found.to_cql(),
                        ty.to_cql()
                    );
                }
                Ok(expr)
            }
        }
    }

    fn literal(&self, constant: &Literal, name: &str, ty: &CqlType) -> Result<Expr, CqlError> {
        let is_now = constant.kind == LiteralKind::String && constant.text.eq_ignore_ascii_case("now");
        if is_now && matches!(ty, CqlType::Timestamp | CqlType::LegacyTimestamp) {
            return Ok(super::current_timestamp());
        }
        Ok(Expr::constant(&literal_bytes(constant, name, ty)?))
    }

    /// Prepares an element of a collection, which must not be null. `(what, of, part)` describe the element
    /// in errors: the kind of the literal, the literal's place, and the part of the literal.
    fn element(
        &mut self,
        term: &Term,
        (what, of, part): (&str, &str, &str),
        name: &str,
        ty: &CqlType,
    ) -> Result<Expr, CqlError> {
        if matches!(term, Term::Null(_)) {
            let of_all = if what == "vector" { "vectors" } else { "collections" };
            return invalid!("null is not supported inside {of_all}");
        }
        let found = self.term(term, name, ty);
        self.or_unfit(found, term, ty, |ty| {
            format!("Invalid {what} literal for {of}: {part} {} is not of type {ty}", of_term(term))
        })
    }

    /// Returns `found`. If `found` is an error because the type does not accept this kind of term, returns
    /// the error that `say` builds from the type's name.
    fn or_unfit(
        &self,
        found: Result<Expr, CqlError>,
        term: &Term,
        ty: &CqlType,
        say: impl FnOnce(String) -> String,
    ) -> Result<Expr, CqlError> {
        match found {
            Err(CqlError::Invalid(_)) if !super::can_be(self, term, ty)? => {
                Err(CqlError::Invalid(say(ty.to_cql())))
            }
            found => found,
        }
    }

    fn sequence(
        &mut self,
        elements: &[Term],
        (what, of): (&str, &str),
        element_name: &str,
        element_type: &CqlType,
        ty: &CqlType,
    ) -> Result<Expr, CqlError> {
        let elements = elements
            .iter()
            .map(|element| self.element(element, (what, of, "value"), element_name, element_type));
        let elements = elements.collect::<Result<Vec<_>, _>>()?;
        if what != "vector" {
            check_markers(what, of, elements.iter())?;
        }
        Expr::Sequence { ty: ty.clone(), elements }.folded()
    }

    /// Prepares a tuple literal. `components` are the types of the values; the last values may be left out.
    fn tuple<'t>(
        &mut self,
        elements: &[Term],
        components: impl ExactSizeIterator<Item = &'t CqlType>,
        name: &str,
        ty: &CqlType,
    ) -> Result<Expr, CqlError> {
        let count = components.len();
        let mut prepared = Vec::with_capacity(elements.len());
        for (number, (element, component)) in elements.iter().zip(components).enumerate() {
            let found = self.term(element, &format!("{name}[{number}]"), component);
            prepared.push(self.or_unfit(found, element, component, |ty| {
                format!("Invalid tuple literal for {name}: component {number} is not of type {ty}")
            })?);
        }
        // As in Cassandra, the values are checked before their number.
        if elements.len() > count {
            return invalid!(
                "Invalid tuple literal for {name}: too many elements. Type {} expects {count} but got {}",
                ty.to_cql(),
                elements.len()
            );
        }
        Expr::Sequence { ty: ty.clone(), elements: prepared }.folded()
    }

    fn user_type(
        &mut self,
        user: &UserType,
        fields: &[(&str, &Term)],
        name: &str,
        ty: &CqlType,
    ) -> Result<Expr, CqlError> {
        for (given, _) in fields {
            if !user.fields.iter().any(|field| field.name == *given) {
                return invalid!("Unknown field '{given}' in value of user defined type {}", user.name);
            }
        }
        let mut elements = Vec::with_capacity(user.fields.len());
        for field in &user.fields {
            let given = fields.iter().rev().find(|(given, _)| *given == field.name);
            elements.push(match given {
                Some((_, term)) => {
                    let found = self.term(term, &format!("{name}.{}", field.name), &field.field_type);
                    self.or_unfit(found, term, &field.field_type, |ty| {
                        format!(
                            "Invalid user type literal for {name}: field {} is not of type {ty}",
                            field.name
                        )
                    })?
                }
                None => Expr::NULL,
            });
        }
        Expr::Sequence { ty: ty.clone(), elements }.folded()
    }

    /// Returns the type of a term in a place that wants no particular type; `None` if the term has no natural
    /// type (a bind marker, null, or an empty collection).
    pub fn natural_type(&self, term: &Term) -> Result<Option<CqlType>, CqlError> {
        Ok(match term {
            Term::Literal(constant) => Some(literal_type(constant)),
            Term::Hint { ty, .. } | Term::Cast { ty, .. } => Some(self.resolve_type(ty)?),
            Term::Call { .. } | Term::Arithmetic { .. } | Term::Negate { .. } => {
                super::natural_type(self, term)?
            }
            Term::List { elements, .. } => self.first_type(elements)?.map(CqlType::list),
            Term::Set { elements, .. } => self.first_type(elements)?.map(CqlType::set),
            Term::Map { entries, .. } => match entries.first() {
                Some((key, value)) => match (self.natural_type(key)?, self.natural_type(value)?) {
                    (Some(key), Some(value)) => Some(CqlType::map(key, value)),
                    _ => None,
                },
                None => None,
            },
            // Parentheses around a single term.
            Term::Tuple { elements, .. } if elements.len() == 1 => self.natural_type(&elements[0])?,
            Term::Tuple { elements, .. } => {
                let types = elements.iter().map(|element| self.natural_type(element));
                types.collect::<Result<Option<Vec<_>>, _>>()?.map(CqlType::tuple)
            }
            Term::Null(_) | Term::Marker(_) | Term::Udt { .. } => None,
        })
    }

    fn first_type(&self, elements: &[Term]) -> Result<Option<CqlType>, CqlError> {
        elements.first().map_or(Ok(None), |first| self.natural_type(first))
    }
}

/// Cassandra's rule: a collection literal must not contain bind markers, except in a selection.
fn check_markers<'e>(
    what: &str,
    of: &str,
    mut parts: impl Iterator<Item = &'e Expr>,
) -> Result<(), CqlError> {
    if !of.contains(SELECTION) && parts.any(Expr::has_marker) {
        return invalid!(
            "Invalid {what} literal for {of}: bind variables are not supported inside collection literals"
        );
    }
    Ok(())
}
