//! The values that columns are compared with: prepared terms and their evaluation.

use std::borrow::Cow;

use model::types::{CqlType, TupleIter};
use protocol::CqlError;

use crate::error::invalid;
use crate::term::{Env, Expr, InList, Value};

/// A serialized value of an execution.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// Terms with one value for each column of a relation.
#[derive(Clone, Debug)]
pub enum Terms {
    /// One term for each column.
    Each(Vec<Expr>),
    /// A tuple of all columns, or a bind marker for one.
    Tuple { tuple: Expr, columns: usize },
}

/// The values of IN.
#[derive(Clone, Debug)]
pub enum InTerms {
    List(Vec<Terms>),
    /// A bind marker for a list of values.
    Values(Expr),
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

    /// Returns the values, one for each column. `names` are the names of the columns. `null` makes the error
    /// for a null of the column with this name.
    pub fn each<'a>(
        &'a self,
        env: &Env<'a>,
        names: &[&str],
        null: impl Fn(&str) -> CqlError,
    ) -> Result<Vec<Bytes<'a>>, CqlError> {
        let bytes = match self {
            Self::Each(terms) => {
                let each = terms.iter().zip(names).map(|(term, name)| match term.evaluate(env)? {
                    Value::Bytes(bytes) => Ok(bytes),
                    Value::Null => Err(null(name)),
                    Value::Unset => invalid!("Invalid unset value for column {name}"),
                });
                return each.collect();
            }
            Self::Tuple { tuple, .. } => match tuple.evaluate(env)? {
                Value::Bytes(bytes) => bytes,
                Value::Null => return Err(null(&together(names))),
                Value::Unset => return invalid!("Invalid unset value for tuple ({})", names.join(",")),
            },
        };
        let fields = split_tuple(&bytes, names.len())?;
        fields.into_iter().zip(names).map(|(field, name)| field.ok_or_else(|| null(name))).collect()
    }

    /// As [`Self::evaluate`] of an equality, which has another text for a null among the values of a tuple.
    pub fn evaluate_fixed<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Bytes<'a>>, CqlError> {
        match self {
            Self::Each(_) => self.evaluate(env, names),
            Self::Tuple { .. } => self
                .each(env, names, |name| CqlError::Invalid(format!("Invalid null value for column {name}"))),
        }
    }

    /// Returns the values, one for each column. `names` are the names of the columns.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Bytes<'a>>, CqlError> {
        self.each(env, names, |name| {
            CqlError::Invalid(format!("Invalid null value in condition for column {name}"))
        })
    }
}

impl InTerms {
    /// Returns the values in the list, each with one value for each column. `names` are the names of the
    /// columns.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Vec<Bytes<'a>>>, CqlError> {
        let null_of_several = || {
            CqlError::Invalid(format!("Invalid null value in condition for columns: [{}]", names.join(", ")))
        };
        match self {
            Self::List(list) => {
                // A single alternative is an equality for Cassandra.
                let each = list.iter().map(|terms| match terms {
                    Terms::Tuple { .. } if list.len() > 1 => terms.each(env, names, |_| null_of_several()),
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
                let tuples = match list.evaluate_in(env)? {
                    InList::Values(tuples) => tuples,
                    InList::Null => return invalid!("Invalid null value for IN restriction"),
                    InList::Unset => return invalid!("Invalid unset value for in({})", names.join(",")),
                };
                let each = tuples.into_iter().map(|tuple| {
                    let fields = split_tuple(&tuple.ok_or_else(null_of_several)?, names.len())?;
                    let fields = fields.into_iter().map(|field| field.ok_or_else(null_of_several));
                    fields.collect::<Result<Vec<_>, CqlError>>()
                });
                each.collect()
            }
        }
    }

    /// As [`Self::evaluate`], but with `None` for each null among the values of a single column.
    pub fn or_null<'a>(
        &'a self,
        env: &Env<'a>,
        names: &[&str],
    ) -> Result<Vec<Option<Vec<Bytes<'a>>>>, CqlError> {
        match self {
            Self::List(list) => list.iter().map(|terms| terms.or_null(env, names)).collect(),
            Self::Values(list) => match list.evaluate_in(env)? {
                InList::Values(values) => {
                    Ok(values.into_iter().map(|value| value.map(|value| vec![value])).collect())
                }
                InList::Null => invalid!("Invalid null value for column {}", together(names)),
                InList::Unset => invalid!("Invalid unset value for column {}", together(names)),
            },
            Self::Tuples(_) => Ok(self.evaluate(env, names)?.into_iter().map(Some).collect()),
        }
    }
}

/// Formats the names of several columns for error messages, as `(a,b)`.
pub fn together(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_string(),
        several => format!("({})", several.join(",")),
    }
}

/// Returns the fields of a tuple; fields that it does not have are null.
fn split_tuple<'a>(bytes: &[u8], columns: usize) -> Result<Vec<Option<Bytes<'a>>>, CqlError> {
    let mut fields = Vec::with_capacity(columns);
    for field in TupleIter::new(bytes).take(columns) {
        fields.push(field?.map(|field| Cow::Owned(field.to_vec())));
    }
    fields.resize(columns, None);
    Ok(fields)
}

/// Returns the type of a bind marker for several columns.
pub fn tuple_type<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> CqlType {
    CqlType::tuple(types.into_iter().cloned())
}
