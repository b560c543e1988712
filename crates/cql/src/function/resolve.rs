//! Which overload a call means: the one whose arguments are exactly those given, else the only one that takes them,
//! else the only one of these that gives what is wanted.

use std::borrow::Cow;
use std::sync::Arc;

use model::CqlType;

use super::{collection, json, native, with_values, written};
use crate::CqlError;
use crate::error::invalid;
use crate::syntax::{QualifiedName, Term};
use crate::term::{Env, Expr, Planner, ScalarFunction, is_assignable, literal_fits};

/// An argument: a term whose type is not fixed yet, or something that has one.
#[derive(Clone, Debug)]
pub enum Arg<'t> {
    Term(Cow<'t, Term>),
    Typed(Expr, CqlType),
}

/// The term, or the type of what has one.
impl std::fmt::Display for Arg<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Term(term) => write!(f, "{term}"),
            Self::Typed(_, ty) => write!(f, "a value of type {}", ty.to_cql()),
        }
    }
}

impl<'t> Arg<'t> {
    pub fn of(term: &'t Term) -> Self {
        Self::Term(Cow::Borrowed(term))
    }

    /// `None`: a marker, null, and the like.
    pub fn natural_type(&self, planner: &Planner<'_>) -> Result<Option<CqlType>, CqlError> {
        match self {
            Self::Term(term) => planner.natural_type(term),
            Self::Typed(_, ty) => Ok(Some(ty.clone())),
        }
    }

    /// Whether it can be a value of `ty`.
    pub fn fits(&self, planner: &Planner<'_>, ty: &CqlType) -> Result<Fit, CqlError> {
        match self {
            Self::Term(term) => fit(planner, term, ty),
            Self::Typed(_, found) => Ok(fit_type(found, ty)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    No,
    /// It can be made one, or the bytes mean the same.
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
        (Term::List { .. } | Term::Set { .. } | Term::Map { .. } | Term::Udt { .. }, _) => Fit::No,
        (term, ty) => planner.natural_type(term)?.map_or(Fit::Weak, |natural| fit_type(&natural, ty)),
    })
}

/// One overload of a function.
#[derive(Clone)]
pub struct Signature {
    pub name: Arc<str>,
    pub args: Vec<CqlType>,
    pub result: CqlType,
    /// The same arguments give the same result every time.
    pub is_pure: bool,
    pub run: Arc<ScalarFunction>,
}

impl Signature {
    /// A pure function of arguments that are not null.
    pub fn new(
        name: &str,
        args: impl Into<Vec<CqlType>>,
        result: CqlType,
        run: impl Fn(&[&[u8]]) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync + 'static,
    ) -> Self {
        let run =
            Arc::new(move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| with_values(args, |args| run(args)));
        Self { name: name.into(), args: args.into(), result, is_pure: true, run }
    }

    /// A function of the moment.
    pub fn of_moment(
        name: &str,
        result: CqlType,
        run: impl Fn(&Env<'_>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let run = Arc::new(move |env: &Env<'_>, _: &[Option<Cow<'_, [u8]>>]| Ok(Some(run(env))));
        Self { name: name.into(), args: vec![], result, is_pure: false, run }
    }

    fn describe(&self) -> String {
        let args: Vec<String> = self.args.iter().map(CqlType::to_cql).collect();
        format!("{} : ({}) -> {}", self.name, args.join(", "), self.result.to_cql())
    }
}

/// With the keyspace that functions are in.
pub fn full_name(written: &str) -> String {
    if written.contains('.') { written.to_string() } else { format!("system.{written}") }
}

pub fn call(
    planner: &Planner<'_>,
    name: &QualifiedName,
    args: &[Arg<'_>],
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    let known = match &name.keyspace {
        Some(keyspace) if keyspace.text != "system" => None,
        _ if json::is_from_json(&name.name.text) => Some(json::from_json(&name.name.text, wanted)?),
        _ => {
            let types = args.iter().map(|arg| match arg {
                // A list as such, and so it must tell of how many elements it is.
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
                collection::check_similarity(&full_name(&written(name)), args, &types)?;
            }
            native::overloads(planner, &name.name.text, &types)
        }
    };
    match known {
        Some(overloads) => pick(planner, &written(name), overloads, args, wanted),
        None => invalid!("Unknown function '{}'", written(name)),
    }
}

/// The overload that is meant; see the head of this file.
pub fn pick(
    planner: &Planner<'_>,
    name: &str,
    mut overloads: Vec<Signature>,
    args: &[Arg<'_>],
    wanted: Option<&CqlType>,
) -> Result<Signature, CqlError> {
    if let [only] = &overloads[..] {
        let full_name = full_name(name);
        if only.args.len() != args.len() {
            return invalid!(
                "Invalid number of arguments in call to function {full_name}: {} required but {} provided",
                only.args.len(),
                args.len()
            );
        }
        for (number, (arg, ty)) in args.iter().zip(&only.args).enumerate() {
            if arg.fits(planner, ty)? == Fit::No {
                return invalid!(
                    "Type error: {arg} cannot be passed as argument {number} of function {full_name} of type {}",
                    ty.to_cql()
                );
            }
        }
    }
    let (mut fitting, mut at) = (vec![], 0);
    for overload in &overloads {
        if overload.args.len() == args.len() {
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
    if fitting.len() > 1
        && let Some(wanted) = wanted
    {
        let gives: Vec<usize> = fitting
            .iter()
            .copied()
            .filter(|at| fit_type(&overloads[*at].result, wanted) == Fit::Exact)
            .collect();
        if gives.len() == 1 {
            fitting = gives;
        }
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
