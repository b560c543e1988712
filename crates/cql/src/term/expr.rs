//! Prepared terms and their evaluation.
//!
//! Terms of WHERE and VALUES and selectors of SELECT have the same representation. A selector refers to a
//! value of the row with [`Expr::Input`]. Parts that depend neither on bind markers nor on rows nor on the
//! time of execution are evaluated when the statement is prepared.

use std::borrow::Cow;
use std::sync::Arc;

use model::SmallBytes;
use model::types::{CollectionBuilder, CqlType, build_tuple, build_vector};
use protocol::CqlError;

use super::markers::{InList, bound_in_list, bound_value};
use crate::error::invalid;

/// The value of a term in an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bytes(Cow<'a, [u8]>),
    Null,
    /// A bind marker that the client left unset. The statement does not change the data that this value would
    /// set.
    Unset,
}

impl<'a> Value<'a> {
    /// Returns the bytes, or `None` for null.
    ///
    /// # Errors
    /// The value is unset, which `what` does not allow.
    pub fn required(self, what: impl FnOnce() -> String) -> Result<Option<Cow<'a, [u8]>>, CqlError> {
        match self {
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Null => Ok(None),
            Self::Unset => invalid!("Invalid unset value for {}", what()),
        }
    }
}

/// The inputs of an evaluation.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// The client's values, one for each bind marker.
    pub bound: &'a [protocol::Value<'a>],
    /// The values for [`Expr::Input`].
    pub inputs: &'a [Option<Cow<'a, [u8]>>],
    /// The clock of the request: microseconds since the Unix epoch.
    pub now_us: i64,
    pub random: &'a dyn Fn() -> u64,
}

/// A scalar function with its arguments. The functions are defined in `function`.
#[derive(Clone)]
pub struct Call {
    pub name: Arc<str>,
    pub args: Vec<Expr>,
    /// Computes the result from the arguments. Null arguments are `None`. The result is a valid value of the
    /// function's type.
    pub run: Arc<ScalarFunction>,
}

/// The implementation of a scalar function.
pub type ScalarFunction =
    dyn Fn(&Env<'_>, &[Option<Cow<'_, [u8]>>]) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync;

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.name, self.args)
    }
}

/// A prepared term.
#[derive(Clone, Debug)]
pub enum Expr {
    /// `None` is null.
    Constant(Option<SmallBytes>),
    /// The client's value for a bind marker. It is checked against the type.
    Marker {
        index: usize,
        ty: CqlType,
    },
    /// A value of the row, by its index among the inputs.
    Input(usize),
    /// A list, set (sorted, without duplicates), tuple, UDT or vector, according to its type.
    Sequence {
        ty: CqlType,
        elements: Vec<Expr>,
    },
    /// A map, as keys and values.
    Map {
        ty: CqlType,
        entries: Vec<(Expr, Expr)>,
    },
    Call(Call),
}

impl Expr {
    pub const NULL: Self = Self::Constant(None);

    pub fn constant(bytes: &[u8]) -> Self {
        Self::Constant(Some(bytes.into()))
    }

    /// Whether the expression is constant.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// Whether a part of the expression is a bind marker.
    pub fn has_marker(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Input(_) => false,
            Self::Marker { .. } => true,
            Self::Sequence { elements, .. } => elements.iter().any(Self::has_marker),
            Self::Map { entries, .. } => {
                entries.iter().any(|(key, value)| key.has_marker() || value.has_marker())
            }
            Self::Call(call) => call.args.iter().any(Self::has_marker),
        }
    }

    /// Returns the value of the expression.
    ///
    /// # Errors
    /// A bound value is not valid for its type, a collection contains null, or a function rejects its
    /// arguments.
    #[inline]
    pub fn evaluate<'a>(&'a self, env: &Env<'a>) -> Result<Value<'a>, CqlError> {
        match self {
            Self::Constant(Some(bytes)) => Ok(Value::Bytes(Cow::Borrowed(bytes))),
            Self::Constant(None) => Ok(Value::Null),
            Self::Marker { index, ty } => bound_value(env.bound, *index, ty),
            Self::Input(number) => Ok(match env.inputs.get(*number) {
                Some(Some(bytes)) => Value::Bytes(bytes.clone()),
                _ => Value::Null,
            }),
            Self::Sequence { ty, elements } => sequence(ty, elements, env).map(owned),
            Self::Map { ty, entries } => map(ty, entries, env).map(owned),
            Self::Call(call) => {
                let args = call.args.iter().map(|arg| {
                    arg.evaluate(env)?.required(|| format!("argument in call to function {}", call.name))
                });
                let args = args.collect::<Result<Vec<_>, _>>()?;
                Ok((call.run)(env, &args)?.map_or(Value::Null, owned))
            }
        }
    }

    /// Evaluates the bind marker for the list of an IN. Unlike in other lists, its elements may be null.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_in<'a>(&'a self, env: &Env<'a>) -> Result<InList<'a>, CqlError> {
        match self {
            Self::Marker { index, ty } => bound_in_list(env.bound, *index, ty),
            _ => invalid!("the list of an IN is a bind marker"),
        }
    }

    /// Evaluates a collection, tuple or UDT whose parts are all constants. Returns any other expression
    /// unchanged.
    pub(crate) fn folded(self) -> Result<Self, CqlError> {
        let is_constant = match &self {
            Self::Sequence { elements, .. } => elements.iter().all(Self::is_constant),
            Self::Map { entries, .. } => {
                entries.iter().all(|(key, value)| key.is_constant() && value.is_constant())
            }
            _ => false,
        };
        if !is_constant {
            return Ok(self);
        }
        let env = Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 };
        match self.evaluate(&env)? {
            Value::Bytes(bytes) => Ok(Self::Constant(Some((&*bytes).into()))),
            Value::Null | Value::Unset => Ok(Self::NULL),
        }
    }
}

fn owned<'a>(bytes: Vec<u8>) -> Value<'a> {
    Value::Bytes(Cow::Owned(bytes))
}

fn element<'a>(expr: &'a Expr, env: &Env<'a>) -> Result<Cow<'a, [u8]>, CqlError> {
    match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => invalid!("null is not supported inside collections"),
        Value::Unset => invalid!("unset value is not supported inside collections"),
    }
}

fn sequence(ty: &CqlType, elements: &[Expr], env: &Env<'_>) -> Result<Vec<u8>, CqlError> {
    match ty.without_reversed() {
        CqlType::Tuple(_) | CqlType::Udt { .. } => {
            let fields = elements.iter().enumerate().map(|(number, field)| {
                field.evaluate(env)?.required(|| match ty.without_reversed() {
                    CqlType::Udt { user, .. } => {
                        format!("field '{}' of user defined type {}", user.fields[number].name, user.name)
                    }
                    _ => format!("tuple field number {number}"),
                })
            });
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            Ok(build_tuple(fields.iter().map(Option::as_deref)))
        }
        CqlType::Vector { element: element_type, .. } => {
            let elements = elements.iter().map(|item| match item.evaluate(env)? {
                Value::Bytes(bytes)
                    if element_type.sstable_fixed_len().is_some_and(|len| len != bytes.len()) =>
                {
                    invalid!("null is not supported inside vectors")
                }
                Value::Bytes(bytes) => Ok(bytes),
                Value::Null | Value::Unset => invalid!("null is not supported inside vectors"),
            });
            let elements = elements.collect::<Result<Vec<_>, CqlError>>()?;
            Ok(build_vector(element_type, elements.iter().map(|element| &**element)))
        }
        other => {
            let elements = elements.iter().map(|item| element(item, env));
            let mut elements = elements.collect::<Result<Vec<_>, _>>()?;
            if let CqlType::Set { element, .. } = other {
                elements.sort_by(|a, b| element.compare(a, b));
                elements.dedup_by(|a, b| element.compare(a, b).is_eq());
            }
            let mut out = CollectionBuilder::new();
            elements.iter().for_each(|element| out.push(element));
            Ok(out.finish())
        }
    }
}

fn map(ty: &CqlType, entries: &[(Expr, Expr)], env: &Env<'_>) -> Result<Vec<u8>, CqlError> {
    let CqlType::Map { entry, .. } = ty.without_reversed() else {
        return Err(CqlError::Server(format!("a map was prepared for type {}", ty.to_cql())));
    };
    let entries = entries.iter().map(|(key, value)| Ok((element(key, env)?, element(value, env)?)));
    let mut entries = entries.collect::<Result<Vec<_>, CqlError>>()?;
    entries.sort_by(|(a, _), (b, _)| entry.0.compare(a, b));
    let mut out = CollectionBuilder::new();
    for (i, (key, value)) in entries.iter().enumerate() {
        // The last of several equal keys in the text is kept.
        if entries.get(i + 1).is_none_or(|(next, _)| entry.0.compare(key, next).is_ne()) {
            out.push(key);
            out.push(value);
        }
    }
    Ok(out.finish_map())
}
