//! The parameters of native functions that accept arguments of many types, and the checks of their arguments.
//!
//! A call of such a function is checked before its overload is built: the number of arguments, whether their
//! types are known, and whether each parameter accepts its argument. Other functions have fixed signatures
//! and are checked in `resolve.rs`. Source of the texts: Cassandra 5.0 `FunctionFactory.java` and
//! `FunctionParameter.java`.

use model::CqlType;
use protocol::CqlError;

use super::number::is_numeric;
use super::resolve::Arg;
use crate::error::invalid;

/// What a parameter accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameter {
    Any,
    /// A value of the type of the first argument.
    AsFirst,
    Collection,
    SetOrList,
    NumericSetOrList,
    Map,
    String,
    Text,
    Int,
}

use Parameter::{Any, AsFirst, Collection, Int, Map, NumericSetOrList, SetOrList, String as Str, Text};

impl Parameter {
    fn shown(self) -> &'static str {
        match self {
            Any | AsFirst => "any",
            Collection => "collection",
            SetOrList | NumericSetOrList => "numeric_set_or_list",
            Map => "map",
            Str => "[text|varchar|ascii]",
            Text => "text",
            Int => "int",
        }
    }

    /// Whether the parameter has a type of its own, which an argument without a type takes.
    fn has_type(self) -> bool {
        matches!(self, Str | Text | Int | AsFirst)
    }

    /// What the parameter wants, for errors, if it does not accept values of type `ty`.
    fn refusal(self, ty: &CqlType) -> Option<String> {
        let is_list_or_set = matches!(ty, CqlType::List { .. } | CqlType::Set { .. });
        let wants = match self {
            Any | AsFirst => return None,
            Collection => (!ty.is_collection()).then_some("a collection argument"),
            SetOrList => (!is_list_or_set).then_some("a set or list argument"),
            NumericSetOrList => {
                let is_numeric = match ty {
                    CqlType::List { element, .. } | CqlType::Set { element, .. } => is_numeric(element),
                    _ => false,
                };
                (!is_numeric).then_some("a numeric set/list argument")
            }
            Map => (!matches!(ty, CqlType::Map { .. })).then_some("a map argument"),
            Str | Text => {
                let accepted = matches!(ty, CqlType::Text | CqlType::Ascii);
                return (!accepted).then(|| format!("an argument of type {}", self.shown()));
            }
            Int => (*ty != CqlType::Int).then_some("an argument of type int"),
        };
        wants.map(str::to_string)
    }
}

/// The parameters of a function, and the number of those that are required; `None` if the function has fixed
/// signatures.
fn of(name: &str) -> Option<(&'static [Parameter], usize)> {
    Some(match name {
        "map_keys" | "map_values" => (&[Map], 1),
        "collection_count" => (&[Collection], 1),
        "collection_min" | "collection_max" => (&[SetOrList], 1),
        "collection_sum" | "collection_avg" => (&[NumericSetOrList], 1),
        "mask_null" | "mask_default" => (&[Any], 1),
        "mask_replace" => (&[Any, AsFirst], 2),
        "mask_inner" | "mask_outer" => (&[Str, Int, Int, Text], 3),
        "mask_hash" => (&[Any, Text], 1),
        "fromjson" | "from_json" => (&[Text], 1),
        _ => return None,
    })
}

/// Checks the arguments of a call. `types` are their types as far as they are known, `names` their texts.
///
/// # Errors
/// The number of arguments is wrong, the type of one cannot be inferred, or a parameter does not accept its
/// argument.
pub fn check(
    name: &str,
    args: &[Arg<'_>],
    names: &[String],
    types: &[Option<CqlType>],
) -> Result<(), CqlError> {
    let Some((parameters, required)) = of(name) else { return Ok(()) };
    let described = || {
        let shown = parameters.iter().enumerate().map(|(at, parameter)| match at < required {
            true => parameter.shown().to_string(),
            false => format!("[{}]", parameter.shown()),
        });
        format!("system.{name}({})", shown.collect::<Vec<_>>().join(", "))
    };
    if args.len() < required || args.len() > parameters.len() {
        return invalid!("Invalid number of arguments for function {}", described());
    }
    for (at, (arg, parameter)) in args.iter().zip(parameters).enumerate() {
        let shown = || names.get(at).cloned().unwrap_or_else(|| arg.to_string());
        match types[at].as_ref().map(CqlType::without_reversed) {
            None if parameter.has_type() => {}
            None => {
                return invalid!(
                    "Cannot infer type of argument {} in call to function {}: use type casts to disambiguate",
                    shown(),
                    described()
                );
            }
            Some(ty) => {
                if let Some(wanted) = parameter.refusal(ty) {
                    return invalid!(
                        "Function system.{name} requires {wanted}, but found argument {} of type {}",
                        shown(),
                        ty.to_cql()
                    );
                }
            }
        }
    }
    Ok(())
}
