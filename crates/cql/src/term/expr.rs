//! Prepared terms and their evaluation.
//!
//! Terms of WHERE and VALUES and the selectors of SELECT are the same thing; a selector has [`Expr::Input`] where
//! it speaks of the row. What does not depend on markers, rows or the moment has been evaluated already when the
//! statement was prepared.

use std::borrow::Cow;
use std::sync::Arc;

use model::SmallBytes;
use model::types::{CollectionBuilder, CqlType, build_tuple, build_vector};

use super::markers::bound_value;
use crate::CqlError;
use crate::error::invalid;
use crate::protocol;

/// What a term is when a statement runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bytes(Cow<'a, [u8]>),
    Null,
    /// A marker that the client left open: what it would change is left as it is.
    Unset,
}

impl<'a> Value<'a> {
    /// `None` for null.
    ///
    /// # Errors
    /// Unset, which `what` cannot be.
    pub fn required(self, what: impl FnOnce() -> String) -> Result<Option<Cow<'a, [u8]>>, CqlError> {
        match self {
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Null => Ok(None),
            Self::Unset => invalid!("Invalid unset value for {}", what()),
        }
    }
}

/// What an evaluation may look at.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    /// What the client bound, one value for each marker.
    pub bound: &'a [protocol::Value<'a>],
    /// For [`Expr::Input`].
    pub inputs: &'a [Option<Cow<'a, [u8]>>],
    /// The clock of the request: microseconds since the Unix epoch.
    pub now_us: i64,
    pub random: &'a dyn Fn() -> u64,
}

/// A scalar function with its arguments; `function` knows the functions there are.
#[derive(Clone)]
pub struct Call {
    pub name: Arc<str>,
    pub args: Vec<Expr>,
    /// Arguments in, result out. Null arguments are `None`; the result is valid for the function's type.
    pub run: Arc<ScalarFunction>,
}

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
    /// What the client bound to the marker; checked against the type.
    Marker {
        index: usize,
        ty: CqlType,
    },
    /// A value of the row, by its number among the inputs.
    Input(usize),
    /// A list, set (sorted, each element once), tuple, UDT or vector, by its type.
    Sequence {
        ty: CqlType,
        elements: Vec<Expr>,
    },
    /// Keys and values.
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

    /// Whether it is the same in every execution.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// Whether a part of it is bound by the client.
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

    /// The term's value.
    ///
    /// # Errors
    /// A bound value is no value of the type, null is inside a collection, a function refuses its arguments.
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

    /// Evaluates now what does not depend on an execution.
    pub(super) fn folded(self) -> Result<Self, CqlError> {
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
        // Of equal keys the last one in the text stays.
        if entries.get(i + 1).is_none_or(|(next, _)| entry.0.compare(key, next).is_ne()) {
            out.push(key);
            out.push(value);
        }
    }
    Ok(out.finish_map())
}
