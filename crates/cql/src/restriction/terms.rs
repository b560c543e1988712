//! The values that columns are tested against: prepared, and as they are in one execution.

use std::borrow::Cow;

use model::types::{CollectionIter, CqlType, TupleIter};

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Env, Expr, Value};

/// A value of an execution.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// One value for each of the columns of a relation.
#[derive(Clone, Debug)]
pub enum Terms {
    /// One by one.
    Each(Vec<Expr>),
    /// A marker that stands for a tuple of them.
    Tuple { tuple: Expr, columns: usize },
}

/// What follows IN.
#[derive(Clone, Debug)]
pub enum InTerms {
    List(Vec<Terms>),
    /// A marker for a list of values, or of tuples if there are several columns.
    Marker {
        list: Expr,
        columns: usize,
    },
}

/// One end of a slice.
#[derive(Clone, Debug)]
pub struct Bound {
    pub terms: Terms,
    pub inclusive: bool,
}

/// The term's value, which is neither null nor unset.
///
/// # Errors
/// It is; `name` is the column's.
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

    pub fn len(&self) -> usize {
        match self {
            Self::Each(terms) => terms.len(),
            Self::Tuple { columns, .. } => *columns,
        }
    }

    /// The values, one for each column; `names` are the columns'.
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
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<Vec<Bytes<'a>>>, CqlError> {
        match self {
            Self::List(list) => list.iter().map(|terms| terms.evaluate(env, names)).collect(),
            Self::Marker { list, columns } => {
                let name = together(names);
                let bytes = match list.evaluate(env)? {
                    Value::Bytes(bytes) => bytes,
                    Value::Null => return invalid!("Invalid null value for column {name}"),
                    Value::Unset => return invalid!("Invalid unset value for column {name}"),
                };
                let element = |element: Result<Option<&[u8]>, _>| match element? {
                    None => invalid!("Invalid null value in condition for column {name}"),
                    Some(value) if *columns == 1 => Ok(vec![Cow::Owned(value.to_vec())]),
                    Some(tuple) => split_tuple(tuple, names),
                };
                CollectionIter::new(&bytes)?.map(element).collect()
            }
        }
    }
}

/// `(a, b)` as errors name several columns.
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

/// The type of a marker for several columns together.
pub fn tuple_type<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> CqlType {
    CqlType::tuple(types.into_iter().cloned())
}
