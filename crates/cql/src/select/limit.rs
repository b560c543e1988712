//! LIMIT and PER PARTITION LIMIT.

use model::CqlType;
use protocol::CqlError;
use syntax::Term;

use crate::error::invalid;
use crate::term::{Env, Expr, Planner, Value};

/// The kind of a limit, with the name of its bind marker.
#[derive(Debug)]
pub struct Kind {
    marker: &'static str,
}

pub const OF_ALL: Kind = Kind { marker: "[limit]" };
pub const PER_PARTITION: Kind = Kind { marker: "[per_partition_limit]" };

/// Prepares a limit.
///
/// # Errors
/// The term is not an integer, or is a constant that is not positive.
pub fn prepare(
    planner: &mut Planner<'_>,
    term: Option<&Term>,
    kind: &Kind,
) -> Result<Option<Expr>, CqlError> {
    let Some(term) = term else { return Ok(None) };
    let expr = planner.term(term, kind.marker, &CqlType::Int)?;
    if expr.is_constant() {
        evaluate(Some(&expr), &Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 })?;
    }
    Ok(Some(expr))
}

/// Returns the limit as a number of rows; `u64::MAX` without a limit.
///
/// # Errors
/// The limit is null or not positive.
#[inline]
pub fn evaluate(limit: Option<&Expr>, env: &Env<'_>) -> Result<u64, CqlError> {
    let Some(limit) = limit else { return Ok(u64::MAX) };
    let bytes = match limit.evaluate(env)? {
        Value::Bytes(bytes) => bytes,
        Value::Unset => return Ok(u64::MAX),
        Value::Null => return invalid!("Invalid null value of limit"),
    };
    let Ok(bytes) = <[u8; 4]>::try_from(&*bytes) else { return invalid!("Invalid limit value") };
    match i32::from_be_bytes(bytes) {
        rows @ 1.. => Ok(rows as u64),
        // Cassandra has the same error for both limits.
        _ => invalid!("LIMIT must be strictly positive"),
    }
}
