//! The values that columns are compared with: prepared terms and their evaluation.

use std::borrow::Cow;

use model::types::{CollectionIter, CqlType, TupleIter};
use protocol::CqlError;

use crate::error::invalid;
use crate::term::{Env, Expr, Value};

/// A serialized value of an execution.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// Terms with one value for each column of a relation.
#[derive(Clone, Debug)]
pub enum Terms {
    /// One term for each column.
    Each(Vec<Expr>),
    /// A bind marker for a tuple of all columns.
    Tuple { tuple: Expr, columns: usize },
}

/// The values of IN.
#[derive(Clone, Debug)]
pub enum InTerms {
    List(Vec<Terms>),
    /// A bind marker for a list of values.
    Values {
        list: Expr,
        /// Whether an empty value is null, for types whose values are never empty.
        empty_is_null: bool,
    },
    /// A bind marker for a list of tuples.
    Tuples(Expr),
}

/// One end of a slice.
#[derive(Clone, Debug)]
pub struct Bound {
    pub terms: Terms,
    pub inclusive: bool,
}

/// Returns the value of a term that must be neither null nor unset.
///
/// # Errors
/// The value is null or unset. `name` is the column's name.
#[inline]
pub fn required<'a>(expr: &'a Expr, env: &Env<'a>, name: &str) -> Result<Bytes<'a>, CqlError> {
    match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => invalid!("Invalid null value in condition for column {name}"),
        Value::Unset => invalid!("Invalid unset value for column {name}"),
    }
}

impl Terms {
    pub fn one(expr: Expr) -> Self {
        Self::Each(vec![expr])
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        match self {
            Self::Each(terms) => terms.len(),
            Self::Tuple { columns, .. } => *columns,
        }
    }

    /// As [`Self::evaluate`], but returns `None` if the terms are a single value and it is null.
    pub fn or_null<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Option<Vec<Bytes<'a>>>, CqlError> {
        if let Self::Each(terms) = self
            && let [term] = &terms[..]
            && matches!(term.evaluate(env)?, Value::Null)
        {
            return Ok(None);
        }
        self.evaluate(env, names).map(Some)
    }

    /// As [`Self::evaluate`] of an equality or IN, which has another text for a null among several values.
    pub fn evaluate_fixed<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Bytes<'a>>, CqlError> {
        let Self::Each(terms) = self else { return self.evaluate(env, names) };
        for (term, name) in terms.iter().zip(names).filter(|_| terms.len() > 1) {
            if matches!(term.evaluate(env)?, Value::Null) {
                return invalid!("Invalid null value for column {name}");
            }
        }
        self.evaluate(env, names)
    }

    /// Returns the values, one for each column. `names` are the names of the columns.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Bytes<'a>>, CqlError> {
        match self {
            Self::Each(terms) => {
                terms.iter().zip(names).map(|(term, name)| required(term, env, name)).collect()
            }
            Self::Tuple { tuple, .. } => {
                let bytes = required(tuple, env, &together(names))?;
                split_tuple(&bytes, names)
            }
        }
    }
}

impl InTerms {
    /// Returns the values in the list, each with one value for each column. `names` are the names of the
    /// columns.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Vec<Bytes<'a>>>, CqlError> {
        match self {
            Self::List(list) => {
                // A single alternative is an equality for Cassandra.
                let each = list.iter().map(|terms| match terms {
                    Terms::Each(several) if several.len() > 1 && list.len() > 1 => {
                        for term in several {
                            if matches!(term.evaluate(env)?, Value::Null) {
                                return invalid!(
                                    "Invalid null value in condition for columns: [{}]",
                                    names.join(", ")
                                );
                            }
                        }
                        terms.evaluate(env, names)
                    }
                    terms => terms.evaluate_fixed(env, names),
                });
                each.collect()
            }
            Self::Values { .. } => {
                let each = self.or_null(env, names)?.into_iter().map(|value| match value {
                    Some(values) => Ok(values),
                    None => invalid!("Invalid null value in condition for column {}", names[0]),
                });
                each.collect()
            }
            Self::Tuples(list) => {
                let element = |tuple: Option<&[u8]>| match tuple {
                    Some(tuple) => split_tuple(tuple, names),
                    None => invalid!("Invalid null value in condition for columns: [{}]", names.join(", ")),
                };
                elements(list, env, names, element)
            }
        }
    }
}

impl InTerms {
    /// As [`Self::evaluate`], but with `None` for each null among the values of a single column.
    pub fn or_null<'a>(
        &'a self,
        env: &Env<'a>,
        names: &[&str],
    ) -> Result<Vec<Option<Vec<Bytes<'a>>>>, CqlError> {
        match self {
            Self::List(list) => list.iter().map(|terms| terms.or_null(env, names)).collect(),
            Self::Values { list, empty_is_null } => {
                let is_value = |value: &&[u8]| !(*empty_is_null && value.is_empty());
                let element = |value: Option<&[u8]>| {
                    Ok(value.filter(is_value).map(|value| vec![Cow::Owned(value.to_vec())]))
                };
                elements(list, env, names, element)
            }
            Self::Tuples(_) => Ok(self.evaluate(env, names)?.into_iter().map(Some).collect()),
        }
    }
}

/// Returns the result of `element` for each element of a bound list.
fn elements<'a, T>(
    list: &'a Expr,
    env: &Env<'a>,
    names: &[&str],
    element: impl Fn(Option<&[u8]>) -> Result<T, CqlError>,
) -> Result<Vec<T>, CqlError> {
    let bytes = match list.evaluate(env)? {
        Value::Bytes(bytes) => bytes,
        Value::Null => return invalid!("Invalid null value for column {}", together(names)),
        Value::Unset => return invalid!("Invalid unset value for column {}", together(names)),
    };
    CollectionIter::new(&bytes)?.map(|value| element(value?)).collect()
}

/// Formats the names of several columns for error messages, as `(a,b)`.
pub fn together(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_string(),
        several => format!("({})", several.join(",")),
    }
}

fn split_tuple<'a>(bytes: &[u8], names: &[&str]) -> Result<Vec<Bytes<'a>>, CqlError> {
    let mut fields = Vec::with_capacity(names.len());
    for field in TupleIter::new(bytes) {
        match field? {
            Some(field) => fields.push(Cow::Owned(field.to_vec())),
            None => return invalid!("Invalid null value in condition for column {}", together(names)),
        }
    }
    if fields.len() != names.len() {
        return invalid!("Invalid null value in condition for column {}", together(names));
    }
    Ok(fields)
}

/// Returns the type of a bind marker for several columns.
pub fn tuple_type<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> CqlType {
    CqlType::tuple(types.into_iter().cloned())
}
