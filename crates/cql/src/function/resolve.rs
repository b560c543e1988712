//! Overload resolution. Of several overloads only those count whose result fits the place of the call. An
//! overload whose argument types match exactly is chosen first; otherwise the only overload that accepts the
//! arguments. Source of the rules: Cassandra 5.0 `FunctionResolver.java`.

use std::borrow::Cow;
use std::sync::Arc;

use model::CqlType;
use protocol::CqlError;
use syntax::{QualifiedName, Term};

use super::{Aggregate, CallSite, collection, json, native, parameters, user, with_values, written};
use crate::error::invalid;
use crate::term::{Env, Expr, Planner, ScalarFunction, UserCall, is_assignable, literal_fits, of_term};

/// An argument: a term without a fixed type, or an expression with its type.
#[derive(Clone, Debug)]
pub enum Arg<'t> {
    Term(Cow<'t, Term>),
    Typed(Expr, CqlType),
}

/// Prints the term, or the type of an expression.
impl std::fmt::Display for Arg<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Term(term) => f.write_str(&of_term(term)),
            Self::Typed(_, ty) => write!(f, "a value of type {}", ty.to_cql()),
        }
    }
}

impl<'t> Arg<'t> {
    /// The argument of an unprepared term.
    pub fn of(term: &'t Term) -> Self {
        Self::Term(Cow::Borrowed(term))
    }

    /// Returns the natural type of the argument; `None` for a bind marker, null and similar terms.
    pub fn natural_type(&self, planner: &Planner<'_>) -> Result<Option<CqlType>, CqlError> {
        match self {
            Self::Term(term) => planner.natural_type(term),
            Self::Typed(_, ty) => Ok(Some(ty.clone())),
        }
    }

    /// How well the argument fits type `ty`.
    pub fn fits(&self, planner: &Planner<'_>, ty: &CqlType) -> Result<Fit, CqlError> {
        match self {
            Self::Term(term) => fit(planner, term, ty),
            Self::Typed(_, found) => Ok(fit_type(found, ty)),
        }
    }
}

/// How well an argument fits a type, from worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    No,
    /// The argument can be converted, or its bytes have the same meaning in the other type.
    Weak,
    Exact,
}

fn fit_type(found: &CqlType, ty: &CqlType) -> Fit {
    if found.without_reversed().freeze() == ty.without_reversed().freeze() {
        Fit::Exact
    } else if is_assignable(ty, found) {
        Fit::Weak
    } else {
        Fit::No
    }
}

fn fit(planner: &Planner<'_>, term: &Term, ty: &CqlType) -> Result<Fit, CqlError> {
    let all = |fits: Vec<Fit>| fits.into_iter().min().unwrap_or(Fit::Weak);
    let each = |elements: &[Term], ty: &CqlType| {
        elements.iter().map(|element| fit(planner, element, ty)).collect::<Result<Vec<_>, _>>().map(all)
    };
    Ok(match (term, ty.without_reversed()) {
        (Term::Marker(_) | Term::Null(_), _) => Fit::Weak,
        (Term::Literal(literal), ty) => match planner.natural_type(term)? {
            Some(natural) if natural == *ty => Fit::Exact,
            _ if literal_fits(literal.kind, ty) => Fit::Weak,
            _ => Fit::No,
        },
        (Term::Tuple { elements, .. }, ty) if elements.len() == 1 && !matches!(ty, CqlType::Tuple(_)) => {
            fit(planner, &elements[0], ty)?
        }
        (Term::Tuple { elements, .. }, CqlType::Tuple(components)) if elements.len() <= components.len() => {
            let fits = elements.iter().zip(components.iter()).map(|(element, ty)| fit(planner, element, ty));
            all(fits.collect::<Result<Vec<_>, _>>()?).min(Fit::Weak)
        }
        (Term::List { elements, .. }, CqlType::List { element, .. }) => each(elements, element)?,
        (Term::List { elements, .. }, CqlType::Vector { element, dimension })
            if elements.len() == *dimension as usize =>
        {
            each(elements, element)?
        }
        (Term::Set { elements, .. }, CqlType::Set { element, .. }) => each(elements, element)?,
        (Term::Set { elements, .. }, CqlType::Map { .. }) if elements.is_empty() => Fit::Weak,
        (Term::Map { entries, .. }, CqlType::Map { entry, .. }) => {
            let mut worst = Fit::Exact;
            for (key, value) in entries {
                worst = worst.min(fit(planner, key, &entry.0)?).min(fit(planner, value, &entry.1)?);
            }
            worst
        }
        (Term::Udt { .. }, CqlType::Udt { .. }) => Fit::Weak,
        (Term::List { .. }, CqlType::Vector { .. }) => Fit::No,
        (Term::List { .. }, ty) => {
            return invalid!("Unexpected receiver type '{}'; only list and vector are expected", ty.to_cql());
        }
        (Term::Set { .. } | Term::Map { .. } | Term::Udt { .. }, _) => Fit::No,
        (Term::Call { .. } | Term::Arithmetic { .. } | Term::Negate { .. }, ty) => {
            match super::resolve_term(planner, term, Some(ty)) {
                Ok(signature) => fit_type(&signature.result, ty),
                // The call is refused where it is prepared.
                Err(CqlError::Invalid(text)) if text.starts_with("Unknown function") => Fit::Weak,
                Err(_) => Fit::No,
            }
        }
        (term, ty) => planner.natural_type(term)?.map_or(Fit::Weak, |natural| fit_type(&natural, ty)),
    })
}

/// An overload of a function.
#[derive(Clone)]
pub struct Signature {
    pub name: Arc<str>,
    pub args: Vec<CqlType>,
    pub result: CqlType,
    /// Whether equal arguments always give equal results.
    pub is_pure: bool,
    pub run: Arc<ScalarFunction>,
    /// The definition of a user-defined function.
    pub user: Option<UserCall>,
}

impl Signature {
    /// Builds a pure function whose arguments are not null.
    pub fn new(
        name: &str,
        args: impl Into<Vec<CqlType>>,
        result: CqlType,
        run: impl Fn(&[&[u8]]) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync + 'static,
    ) -> Self {
        let run =
            Arc::new(move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| with_values(args, |args| run(args)));
        Self { name: name.into(), args: args.into(), result, is_pure: true, run, user: None }
    }

    /// Builds a function of the execution, such as `now()`, without arguments.
    pub fn of_moment(
        name: &str,
        result: CqlType,
        run: impl Fn(&Env<'_>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(move |env: &Env<'_>, _: &[Option<Cow<'_, [u8]>>]| Ok(Some(run(env))));
        Self { name: name.into(), args: vec![], result, is_pure: false, run, user: None }
    }

    fn describe(&self) -> String {
        let args: Vec<String> = self.args.iter().map(CqlType::to_cql).collect();
        format!("{} : ({}) -> {}", full_name(&self.name), args.join(", "), self.result.to_cql())
    }
}

/// Refuses an aggregate where only a function can be called.
pub fn expect_function(signature: Signature) -> Result<Signature, CqlError> {
    match signature.user {
        Some(UserCall::Aggregate(_)) => {
            invalid!("Aggregation function are not supported in the where clause")
        }
        _ => Ok(signature),
    }
}

/// Returns the function's name with its keyspace.
pub fn full_name(written: &str) -> String {
    if written.contains('.') { written.to_string() } else { format!("system.{written}") }
}

/// Resolves a call of a function by its name. `wanted` is the type of the place that receives the result.
/// Errors call the arguments by `names`, or show them if there are no names.
///
/// # Errors
/// There is no such function, or no overload accepts the arguments.
pub fn call(
    planner: &Planner<'_>,
    name: &QualifiedName,
    (args, names): (&[Arg<'_>], &[String]),
    wanted: Option<&CqlType>,
    site: CallSite,
) -> Result<Signature, CqlError> {
    let own = user::overloads(planner, name);
    let natural = |arg: &Arg<'_>| arg.natural_type(planner);
    let known = match &name.keyspace {
        Some(keyspace) if keyspace.text != "system" => None,
        _ if json::is_from_json(&name.name.text) => {
            let overloads = json::from_json(&name.name.text, wanted)?;
            let types = args.iter().map(natural).collect::<Result<Vec<_>, CqlError>>()?;
            parameters::check(&name.name.text, args, names, &types)?;
            Some(overloads)
        }
        _ if own.is_empty() && Aggregate::is_name(&name.name.text) => {
            return invalid!("Aggregation function are not supported in the where clause");
        }
        _ => {
            let types = args.iter().map(|arg| match arg {
                // A list argument of a similarity function is a vector. The number of its elements is part of
                // the vector's type.
                Arg::Term(term) if collection::is_similarity(&name.name.text) => match &**term {
                    Term::List { elements, .. } => {
                        let dimension = u32::try_from(elements.len()).unwrap_or(u32::MAX);
                        Ok(Some(CqlType::vector(CqlType::Float, dimension)?))
                    }
                    _ => arg.natural_type(planner),
                },
                _ => arg.natural_type(planner),
            });
            let types = types.collect::<Result<Vec<_>, CqlError>>()?;
            if collection::is_similarity(&name.name.text) {
                collection::check_similarity(&full_name(&written(name)), (args, names), &types)?;
            }
            parameters::check(&name.name.text, args, names, &types)?;
            native::overloads(planner, &name.name.text, &types)
        }
    };
    let overloads: Vec<Signature> = own.into_iter().chain(known.into_iter().flatten()).collect();
    if overloads.is_empty() {
        return match site {
            CallSite::Selection => invalid!("Unknown function '{}'", written(name)),
            CallSite::Term => invalid!("Unknown function {} called", written(name)),
        };
    }
    pick(planner, &written(name), overloads, (args, names), wanted)
}

/// Chooses the overload; see the head of this file.
pub fn pick(
    planner: &Planner<'_>,
    name: &str,
    mut overloads: Vec<Signature>,
    (args, names): (&[Arg<'_>], &[String]),
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    if let [only] = &overloads[..] {
        let full_name = full_name(&only.name);
        if only.args.len() != args.len() {
            return invalid!(
                "Invalid number of arguments in call to function {full_name}: {} required but {} provided",
                only.args.len(),
                args.len()
            );
        }
        for (number, (arg, ty)) in args.iter().zip(&only.args).enumerate() {
            if arg.fits(planner, ty)? == Fit::No {
                let arg = names.get(number).cloned().unwrap_or_else(|| arg.to_string());
                return invalid!(
                    "Type error: {arg} cannot be passed as argument {number} of function {full_name} of type {}",
                    ty.to_cql()
                );
            }
        }
    }
    let is_single = overloads.len() == 1;
    let (mut fitting, mut at) = (vec![], 0);
    for overload in &overloads {
        let is_wanted = is_single || wanted.is_none_or(|wanted| is_assignable(wanted, &overload.result));
        if is_wanted && overload.args.len() == args.len() {
            let fits = args.iter().zip(&overload.args).map(|(arg, ty)| arg.fits(planner, ty));
            let worst = fits.collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap_or(Fit::Exact);
            match worst {
                Fit::Exact => return Ok(overload.clone()),
                Fit::Weak => fitting.push(at),
                Fit::No => {}
            }
        }
        at += 1;
    }
    let list =
        |overloads: &[Signature]| overloads.iter().map(Signature::describe).collect::<Vec<_>>().join(", ");
    match fitting[..] {
        [only] => Ok(overloads.swap_remove(only)),
        [] => invalid!(
            "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
            list(&overloads)
        ),
        _ => {
            let matching: Vec<Signature> = fitting.iter().map(|at| overloads[*at].clone()).collect();
            invalid!(
                "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts to disambiguate",
                list(&matching)
            )
        }
    }
}
