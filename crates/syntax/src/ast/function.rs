//! Statements on user-defined functions and aggregates.

use super::{Ident, QualifiedName, Term, TypeName};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: QualifiedName,
    /// A name may occur twice; the planner refuses that.
    pub arguments: Vec<(Ident, TypeName)>,
    /// `CALLED ON NULL INPUT`; otherwise `RETURNS NULL ON NULL INPUT`.
    pub called_on_null: bool,
    pub returns: TypeName,
    /// In lower case, unless it is quoted.
    pub language: Ident,
    pub body: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: QualifiedName,
    pub arguments: Vec<TypeName>,
    pub state_function: Ident,
    pub state_type: TypeName,
    pub final_function: Option<Ident>,
    /// Without bind markers.
    pub initial: Option<Term>,
}

/// DROP FUNCTION or DROP AGGREGATE.
#[derive(Clone, Debug, PartialEq)]
pub struct DropFunction {
    pub if_exists: bool,
    pub name: QualifiedName,
    /// `None`: the statement names no types, and the function must have one overload.
    pub arguments: Option<Vec<TypeName>>,
}
