//! Functions of CQL: which there are, which one a call means, what it gives.

use model::CqlType;

use crate::CqlError;
use crate::error::invalid;
use crate::syntax::Term;
use crate::term::{Expr, Planner};

/// Prepares a call, cast or arithmetic; gives the term and its type.
///
/// `wanted` is the type that the place takes; `name` is what it is for.
pub fn prepare(
    _planner: &mut Planner<'_>,
    term: &Term,
    _name: &str,
    _wanted: Option<&CqlType>,
) -> Result<(Expr, CqlType), CqlError> {
    invalid!("Unknown function '{}'", describe(term))
}

/// The type that a call, cast or arithmetic has by itself.
pub fn natural_type(_planner: &Planner<'_>, _term: &Term) -> Result<Option<CqlType>, CqlError> {
    Ok(None)
}

/// How errors call it.
pub fn describe(term: &Term) -> String {
    match term {
        Term::Call { name, .. } => name.name.text.clone(),
        Term::Cast { .. } => "cast".to_string(),
        _ => "an operation".to_string(),
    }
}
