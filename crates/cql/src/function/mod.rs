//! Functions of CQL: their names, the overload that a call selects, and their results.
//!
//! | question | file |
//! |---|---|
//! | terms of the text, prepared for a wanted type | `prepare.rs` |
//! | overload that a call selects | `resolve.rs`; arguments of functions of many types `parameters.rs` |
//! | functions by name | `native.rs`; of times `time.rs`, of collections and vectors `collection.rs` |
//! | `CAST` | `cast.rs` |
//! | `+ - * / %` | `arithmetic.rs` |
//! | numbers of all types and their conversions | `number.rs`; logarithms of decimals `decimal_math.rs` |
//! | days, months and durations | `calendar.rs`; `floor` of times `floor.rs` |
//! | `toJson`, `fromJson` | `json.rs` |
//! | functions that mask values | `mask.rs` |
//! | aggregate functions | `aggregate.rs` |
//! | user-defined functions and aggregates | `user.rs` |
//!
//! A function returns null if an argument is null, except for the functions that mask values. Calls with
//! constant arguments are evaluated when the statement is prepared, except for functions such as `now()`
//! whose result changes.
//!
//! Source: Cassandra 4.1 and 5.0 `cql3/functions`.

mod aggregate;
mod arithmetic;
mod calendar;
mod cast;
mod collection;
mod decimal_math;
mod floor;
mod json;
mod mask;
mod native;
mod number;
mod parameters;
mod prepare;
mod resolve;
#[cfg(test)]
mod tests;
mod time;
mod user;

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{ColumnMask, MaskArgument};
use model::CqlType;

pub use aggregate::{Accumulator, Aggregate};
pub use arithmetic::{is_string, of_column};
pub use collection::{Similarity, floats_of};
pub use mask::Masker;
pub use number::is_numeric;
pub use resolve::Arg;
use resolve::Signature;
pub use user::{DISABLED, is_defined};

use crate::error::invalid;
use crate::term::{Call, Env, Expr, Planner, SELECTION, UserCall, Value, of_term};
use protocol::CqlError;
use syntax::{ArithmeticOp, QualifiedName, Term, TypeName};

/// Prepares a call, a cast or an arithmetic term. Returns the expression and its type.
///
/// `wanted` is the type of the place that receives the value.
///
/// # Errors
/// There is no such function, or the function does not accept the arguments.
pub fn prepare(
    planner: &mut Planner<'_>,
    term: &Term,
    wanted: Option<&CqlType>,
) -> Result<(Expr, CqlType), CqlError> {
    let signature = resolve_term(planner, term, wanted)?;
    apply(planner, &signature, arguments(term), CallSite::Term)
}

/// Returns the type of a call, a cast or an arithmetic term, independent of its place.
///
/// # Errors
/// As [`prepare`].
pub fn natural_type(planner: &Planner<'_>, term: &Term) -> Result<Option<CqlType>, CqlError> {
    if let Term::Cast { ty, .. } = term {
        return planner.resolve_type(ty).map(Some);
    }
    Ok(Some(resolve_term(planner, term, None)?.result))
}

/// Whether the kind of the term allows it in a place of type `ty`.
///
/// # Errors
/// As [`prepare`].
pub fn can_be(planner: &Planner<'_>, term: &Term, ty: &CqlType) -> Result<bool, CqlError> {
    Ok(Arg::of(term).fits(planner, ty)? != resolve::Fit::No)
}

/// Returns the term's description for error messages.
pub fn describe(planner: &Planner<'_>, term: &Term) -> String {
    match term {
        Term::Call { name, .. } if name.keyspace.is_none() && user::is_defined(planner, &name.name.text) => {
            format!("function {}.{}", planner.keyspace, name.name.text)
        }
        Term::Call { name, .. } => format!("function {}", resolve::full_name(&written(name))),
        Term::Cast { ty, .. } => format!("a cast to {ty}"),
        Term::Arithmetic { op, .. } => format!("operation {}", op.symbol()),
        _ => "a negation".to_string(),
    }
}

/// A call in a selection.
pub enum Called {
    Value(Expr, CqlType),
    /// A user-defined aggregate and its arguments.
    Aggregate(Aggregate, Vec<Expr>),
}

/// Prepares a call in a selection. Each argument is a term or an already prepared expression. Errors call the
/// arguments by `names`.
///
/// # Errors
/// As [`prepare`].
pub fn call(
    planner: &mut Planner<'_>,
    name: &QualifiedName,
    args: Vec<Arg<'_>>,
    names: &[String],
) -> Result<Called, CqlError> {
    let signature = resolve::call(planner, name, (&args, names), None, CallSite::Selection)?;
    if let Some(UserCall::Aggregate(aggregate)) = &signature.user {
        planner.calls.extend(signature.user.clone());
        let aggregate = Aggregate::user(aggregate, planner.catalog.scripts());
        return Ok(Called::Aggregate(
            aggregate,
            arguments_of(planner, &signature, args, CallSite::Selection)?,
        ));
    }
    let (expr, ty) = apply(planner, &signature, args, CallSite::Selection)?;
    Ok(Called::Value(expr, ty))
}

/// Prepares `CAST(arg AS ty)` in a selection. `is_descending`: the argument is a column in descending order,
/// whose type is another one than `ty` for Cassandra. Errors call the argument by `name`.
///
/// # Errors
/// As [`prepare`].
pub fn cast(
    planner: &mut Planner<'_>,
    arg: Arg<'_>,
    ty: &TypeName,
    is_descending: bool,
    name: &str,
) -> Result<(Expr, CqlType), CqlError> {
    let to = planner.resolve_type(ty)?;
    if let Arg::Typed(expr, from) = &arg
        && !is_descending
        && from.freeze() == to.freeze()
    {
        return Ok((expr.clone(), to));
    }
    let Some(from) = arg.natural_type(planner)? else { return untyped_cast(&to) };
    let signature = cast::signature(&from, &to, is_descending, name)?;
    apply(planner, &signature, vec![arg], CallSite::Selection)
}

/// Prepares `left op right` in a selection. Error messages call the operands by `names`.
///
/// # Errors
/// As [`prepare`].
pub fn arithmetic(
    planner: &mut Planner<'_>,
    op: ArithmeticOp,
    args: [Arg<'_>; 2],
    names: [&str; 2],
) -> Result<(Expr, CqlType), CqlError> {
    let signature = arithmetic::resolve(planner, op, &args, names, None)?;
    apply(planner, &signature, args.into(), CallSite::Selection)
}

/// Prepares `-arg` in a selection.
///
/// # Errors
/// As [`prepare`].
pub fn negate(
    planner: &mut Planner<'_>,
    arg: Arg<'_>,
    wanted: Option<&CqlType>,
) -> Result<(Expr, CqlType), CqlError> {
    let signature = arithmetic::resolve_negate(planner, &arg, wanted)?;
    apply(planner, &signature, vec![arg], CallSite::Selection)
}

/// Prepares the mask of a column of type `column`. Returns it with the type of its results; `None` if the
/// function does not mask.
///
/// # Errors
/// There is no such function, it does not accept the arguments, or they are not constants.
pub fn column_mask(
    planner: &mut Planner<'_>,
    name: &QualifiedName,
    column: &CqlType,
    arguments: &[Term],
) -> Result<Option<(ColumnMask, CqlType)>, CqlError> {
    let mut args = vec![Arg::Typed(Expr::Input(0), column.without_reversed().clone())];
    args.extend(arguments.iter().map(Arg::of));
    let signature = resolve::call(planner, name, (&args, &[]), None, CallSite::Term)?;
    if signature.user.is_some() || !mask::is_mask(&name.name.text) {
        return Ok(None);
    }
    let (expr, result) = apply(planner, &signature, args, CallSite::Term)?;
    let Expr::Call(call) = expr else {
        return Err(CqlError::Server(format!("the mask {} is no call", signature.name)));
    };
    let arguments = call.args.into_iter().zip(&signature.args).skip(1).map(|(expr, ty)| match expr {
        Expr::Constant(value) => {
            Ok(MaskArgument { ty: ty.clone(), value: value.map(|value| value.to_vec()) })
        }
        _ => invalid!("The arguments of the mask {} are not constants", signature.name),
    });
    let arguments = arguments.collect::<Result<_, CqlError>>()?;
    Ok(Some((ColumnMask { function: name.name.text.clone(), arguments }, result)))
}

/// The time at which the statement is executed, as a timestamp.
pub fn current_timestamp() -> Expr {
    let signature = time::current_timestamp("currenttimestamp");
    Expr::Call(Call { name: signature.name, args: vec![], run: signature.run })
}

/// Whether a built-in function or aggregate has this name.
pub fn is_built_in(planner: &Planner<'_>, name: &str) -> bool {
    let takes = |count: usize| native::overloads(planner, name, &vec![None; count]).is_some();
    Aggregate::is_name(name) || json::is_from_json(name) || (0..4).any(takes)
}

/// Builds a call of an internal function, such as an element of a map or a field of a UDT.
pub fn built_in(
    name: &str,
    args: Vec<Expr>,
    run: impl Fn(&[&[u8]]) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync + 'static,
) -> Expr {
    let run =
        Arc::new(move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| with_values(args, |args| run(args)));
    Expr::Call(Call { name: name.into(), args, run })
}

/// As [`built_in`], with `of` and `keys` as arguments. A null key is refused; `use_of` describes the key in
/// the error.
pub fn built_in_by_key(
    name: &str,
    of: Expr,
    keys: Vec<Expr>,
    use_of: String,
    run: impl Fn(&[&[u8]]) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync + 'static,
) -> Expr {
    let args = [of].into_iter().chain(keys).collect();
    let run = Arc::new(move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| {
        if args[1..].iter().any(Option::is_none) {
            return invalid!("Invalid null value for {use_of}");
        }
        with_values(args, |args| run(args))
    });
    Expr::Call(Call { name: name.into(), args, run })
}

fn arguments(term: &Term) -> Vec<Arg<'_>> {
    match term {
        Term::Call { args, .. } => args.iter().map(Arg::of).collect(),
        Term::Cast { term, .. } | Term::Negate { term, .. } => vec![Arg::of(term)],
        Term::Arithmetic { left, right, .. } => vec![Arg::of(left), Arg::of(right)],
        _ => vec![],
    }
}

fn resolve_term(planner: &Planner<'_>, term: &Term, wanted: Option<&CqlType>) -> Result<Signature, CqlError> {
    let args = arguments(term);
    match term {
        Term::Call { name, .. } => {
            let names: Vec<String> = args.iter().map(ToString::to_string).collect();
            resolve::call(planner, name, (&args, &names), wanted, CallSite::Term)
                .and_then(resolve::expect_function)
        }
        Term::Cast { ty, .. } => resolve_cast(planner, &args[0], ty),
        Term::Arithmetic { op, left, right, .. } => {
            let names = [of_term(left), of_term(right)];
            arithmetic::resolve(planner, *op, &args, [&names[0], &names[1]], wanted)
        }
        Term::Negate { .. } => arithmetic::resolve_negate(planner, &args[0], wanted),
        _ => Err(CqlError::Server("a term that is no function was resolved as one".to_string())),
    }
}

fn resolve_cast(planner: &Planner<'_>, arg: &Arg<'_>, ty: &TypeName) -> Result<Signature, CqlError> {
    let to = planner.resolve_type(ty)?;
    match arg.natural_type(planner)? {
        Some(from) => cast::signature(&from, &to, false, &arg.to_string()),
        None => untyped_cast(&to),
    }
}

fn untyped_cast<T>(to: &CqlType) -> Result<T, CqlError> {
    invalid!(
        "Cannot infer the type of the value that is cast to {}; put a type in parentheses before it",
        to.to_cql()
    )
}

/// The name as written in the text: `ks.f` or `f`. A keyspace that `select/qualified.rs` has added is left
/// out.
fn written(name: &QualifiedName) -> String {
    match &name.keyspace {
        Some(keyspace) if keyspace.span.start != name.name.span.start => {
            format!("{}.{}", keyspace.text, name.name.text)
        }
        _ => name.name.text.clone(),
    }
}

/// The clause that contains a call. It determines the names of bind markers in the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallSite {
    Term,
    Selection,
}

fn arguments_of(
    planner: &mut Planner<'_>,
    signature: &Signature,
    args: Vec<Arg<'_>>,
    place: CallSite,
) -> Result<Vec<Expr>, CqlError> {
    let mut prepared = Vec::with_capacity(args.len());
    for (number, (arg, ty)) in args.into_iter().zip(&signature.args).enumerate() {
        prepared.push(match arg {
            Arg::Typed(expr, _) => expr,
            Arg::Term(term) if place == CallSite::Selection => planner.term(&term, SELECTION, ty)?,
            Arg::Term(term) => {
                let name = format!("arg{number}({})", resolve::full_name(&signature.name));
                planner.term(&term, &name, ty)?
            }
        });
    }
    Ok(prepared)
}

fn apply(
    planner: &mut Planner<'_>,
    signature: &Signature,
    args: Vec<Arg<'_>>,
    place: CallSite,
) -> Result<(Expr, CqlType), CqlError> {
    let prepared = arguments_of(planner, signature, args, place)?;
    planner.calls.extend(signature.user.clone());
    let foldable = signature.is_pure && prepared.iter().all(Expr::is_constant);
    let call = Call { name: signature.name.clone(), args: prepared, run: signature.run.clone() };
    let mut expr = Expr::Call(call);
    if foldable {
        let env = Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 };
        expr = match expr.evaluate(&env)? {
            Value::Bytes(bytes) => Expr::constant(&bytes),
            Value::Null | Value::Unset => Expr::NULL,
        };
    }
    Ok((expr, signature.result.clone()))
}

/// Returns null if an argument is null, otherwise the result of `run` for the values.
fn with_values<'v>(
    args: &'v [Option<Cow<'_, [u8]>>],
    run: impl FnOnce(&[&'v [u8]]) -> Result<Option<Vec<u8>>, CqlError>,
) -> Result<Option<Vec<u8>>, CqlError> {
    let values: Option<smallvec::SmallVec<[&[u8]; 4]>> = args.iter().map(Option::as_deref).collect();
    values.map_or(Ok(None), |values| run(&values))
}
