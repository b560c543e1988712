//! Which partitions and rows a write is of: what its WHERE, or the key columns of its VALUES, come to.
//!
//! Key columns are given by equality, by a list of choices, or (clustering columns of DELETE) by bounds. What is
//! given by choices multiplies; the product is bounded by [`COMBINATIONS_MAX`].

use std::borrow::Cow;

use model::types::CollectionIter;
use model::types::TupleIter;
use model::{ClusteringKey, ClusteringPrefix, ClusteringRange, PartitionKey, Position, TableSchema};
use smallvec::SmallVec;

use crate::CqlError;
use crate::error::invalid;
use crate::term::{Env, Expr};

/// The peers' limit on keys and clustering values.
pub const KEY_BYTES_MAX: usize = 65_535;

/// How many keys one statement may name by IN.
pub const COMBINATIONS_MAX: usize = 10_000;

pub type KeyValues<'a> = SmallVec<[Cow<'a, [u8]>; 4]>;

/// Some neighbouring key columns.
#[derive(Clone, Debug)]
pub enum KeyPart {
    /// Each has one value.
    Exactly(Vec<Expr>),
    /// Together they have the fields of one tuple.
    Tuple { expr: Expr, width: usize },
    /// Together they have one of these.
    AnyOf(Vec<Vec<Expr>>),
    /// An element of a bound list: values of one column, or tuples of `width`.
    AnyOfList { expr: Expr, width: usize },
}

/// The values of the first columns of a key.
#[derive(Clone, Debug)]
pub enum Keys {
    /// One value for each column: the usual case.
    One(Vec<Expr>),
    Many(Vec<KeyPart>),
}

/// Which rows of a partition.
#[derive(Clone, Debug)]
pub enum Rows {
    /// No clustering column was named.
    Unnamed,
    /// Whole keys; of a table without clustering columns the one row.
    Keys(Keys),
    Ranges(Ranges),
}

/// Rows that begin with a prefix and lie between bounds on the columns behind it.
#[derive(Clone, Debug)]
pub struct Ranges {
    pub prefix: Keys,
    /// By value, not by the table's order.
    pub lower: Option<Bound>,
    pub upper: Option<Bound>,
    /// Whether the bounded columns are in descending order.
    pub descending: bool,
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub values: KeyPart,
    pub inclusive: bool,
}

impl KeyPart {
    pub fn width(&self) -> usize {
        match self {
            Self::Exactly(exprs) => exprs.len(),
            Self::Tuple { width, .. } | Self::AnyOfList { width, .. } => *width,
            Self::AnyOf(choices) => choices.first().map_or(1, Vec::len),
        }
    }

    fn is_one(&self) -> bool {
        matches!(self, Self::Exactly(_))
    }

    /// Every choice, each the values of this part's columns; `names` are those of the columns.
    fn choices<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<KeyValues<'a>>, CqlError> {
        match self {
            Self::Exactly(exprs) => Ok(vec![values_of(exprs, env, names)?]),
            Self::Tuple { expr, width } => {
                let bytes = required(expr, env, names.first().copied().unwrap_or_default())?;
                Ok(vec![split_tuple(&bytes, *width, names)?])
            }
            Self::AnyOf(choices) => choices.iter().map(|exprs| values_of(exprs, env, names)).collect(),
            Self::AnyOfList { expr, width } => {
                let list = required(expr, env, names.first().copied().unwrap_or_default())?;
                let mut out = Vec::new();
                for element in CollectionIter::new(&list)? {
                    let Some(element) = element? else {
                        return invalid!("Invalid null value in condition for column {}", names.join(", "));
                    };
                    match width {
                        1 => out.push(SmallVec::from_iter([Cow::Owned(element.to_vec())])),
                        _ => out.push(split_tuple(element, *width, names)?),
                    }
                }
                Ok(out)
            }
        }
    }
}

#[inline]
fn required<'a>(expr: &'a Expr, env: &Env<'a>, name: &str) -> Result<Cow<'a, [u8]>, CqlError> {
    use crate::term::Value;
    match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => invalid!("Invalid null value in condition for column {name}"),
        Value::Unset => invalid!("Invalid unset value for column {name}"),
    }
}

#[inline]
fn values_of<'a>(exprs: &'a [Expr], env: &Env<'a>, names: &[&str]) -> Result<KeyValues<'a>, CqlError> {
    let values = exprs.iter().enumerate();
    values.map(|(i, expr)| required(expr, env, names.get(i).copied().unwrap_or_default())).collect()
}

fn split_tuple<'a>(bytes: &[u8], width: usize, names: &[&str]) -> Result<KeyValues<'a>, CqlError> {
    let mut out = KeyValues::new();
    for field in TupleIter::new(bytes) {
        let Some(field) = field? else {
            return invalid!(
                "Invalid null value in condition for column {}",
                names.get(out.len()).copied().unwrap_or_default()
            );
        };
        out.push(Cow::Owned(field.to_vec()));
    }
    if out.len() != width {
        return invalid!("Expected {width} elements in value tuple, but got {}", out.len());
    }
    Ok(out)
}

impl Keys {
    /// Of parts that follow each other.
    pub fn new(parts: Vec<KeyPart>) -> Self {
        if !parts.iter().all(KeyPart::is_one) {
            return Self::Many(parts);
        }
        let exprs = parts.into_iter().flat_map(|part| match part {
            KeyPart::Exactly(exprs) => exprs,
            KeyPart::Tuple { .. } | KeyPart::AnyOf(_) | KeyPart::AnyOfList { .. } => vec![],
        });
        Self::One(exprs.collect())
    }

    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Whether it may be more than one key.
    pub fn has_choices(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Many(parts) => {
                parts.iter().any(|part| matches!(part, KeyPart::AnyOf(_) | KeyPart::AnyOfList { .. }))
            }
        }
    }

    /// Every key, in the order of the choices. `names`: of the key's columns.
    pub fn evaluate<'a>(&'a self, env: &Env<'a>, names: &[&str]) -> Result<Vec<KeyValues<'a>>, CqlError> {
        let parts = match self {
            Self::One(exprs) => return Ok(vec![values_of(exprs, env, names)?]),
            Self::Many(parts) => parts,
        };
        let mut keys: Vec<KeyValues<'a>> = vec![KeyValues::new()];
        let mut at = 0;
        for part in parts {
            let choices = part.choices(env, names.get(at..).unwrap_or_default())?;
            at += part.width();
            if keys.len().saturating_mul(choices.len()) > COMBINATIONS_MAX {
                return invalid!(
                    "IN names {} keys; a statement may name {COMBINATIONS_MAX}",
                    keys.len().saturating_mul(choices.len())
                );
            }
            let with_each = |key: &KeyValues<'a>| {
                let key = key.clone();
                choices
                    .iter()
                    .map(move |choice| {
                        let mut longer = key.clone();
                        longer.extend(choice.iter().cloned());
                        longer
                    })
                    .collect::<Vec<_>>()
            };
            keys = keys.iter().flat_map(with_each).collect();
        }
        Ok(keys)
    }

    /// The one key, if there can be only one.
    #[inline]
    pub fn evaluate_one<'a>(
        &'a self,
        env: &Env<'a>,
        name: impl Fn(usize) -> &'a str,
    ) -> Option<Result<KeyValues<'a>, CqlError>> {
        let Self::One(exprs) = self else { return None };
        Some(exprs.iter().enumerate().map(|(i, expr)| required(expr, env, name(i))).collect())
    }
}

/// The partition key of these values.
///
/// # Errors
/// An empty key, or one that is too long.
#[inline]
pub fn partition_key(values: &[Cow<'_, [u8]>]) -> Result<PartitionKey, CqlError> {
    let key = match values {
        [only] if only.is_empty() => return invalid!("Key may not be empty"),
        [only] => only.len(),
        several => several.iter().map(|value| value.len() + 3).sum(),
    };
    if key > KEY_BYTES_MAX {
        return invalid!("Key length of {key} is longer than maximum of {KEY_BYTES_MAX}");
    }
    Ok(match values {
        [only] => PartitionKey::new(&**only),
        several => PartitionKey::new(model::key::composite_key(several.iter().map(|value| &**value))),
    })
}

/// The values as the beginning of a row's key.
///
/// # Errors
/// A value that is too long.
#[inline]
pub fn clustering_prefix(values: &[Cow<'_, [u8]>]) -> Result<ClusteringPrefix, CqlError> {
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    if bytes > KEY_BYTES_MAX {
        return invalid!("The sum of all clustering columns is too long ({bytes} > {KEY_BYTES_MAX})");
    }
    if values.is_empty() {
        return Ok(ClusteringPrefix::EMPTY);
    }
    Ok(ClusteringPrefix::new(values.iter().map(|value| &**value)))
}

pub fn partition_names(schema: &TableSchema) -> Vec<&str> {
    schema.partition_key.iter().map(|column| column.name.as_str()).collect()
}

pub fn clustering_names(schema: &TableSchema) -> Vec<&str> {
    schema.clustering.iter().map(|column| column.name.as_str()).collect()
}

/// Every partition, each once, in the order of the ring.
pub fn partitions(keys: &Keys, schema: &TableSchema, env: &Env<'_>) -> Result<Vec<PartitionKey>, CqlError> {
    let values = keys.evaluate(env, &partition_names(schema))?;
    let mut out = values.iter().map(|values| partition_key(values)).collect::<Result<Vec<_>, _>>()?;
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// Every row key, each once, in the table's order.
pub fn row_keys(keys: &Keys, schema: &TableSchema, env: &Env<'_>) -> Result<Vec<ClusteringKey>, CqlError> {
    let values = keys.evaluate(env, &clustering_names(schema))?;
    let mut out = values.iter().map(|values| clustering_prefix(values)).collect::<Result<Vec<_>, _>>()?;
    out.sort_by(|a, b| schema.compare_keys(a, b));
    out.dedup_by(|a, b| schema.compare_keys(a, b).is_eq());
    Ok(out)
}

impl Bound {
    /// The bound behind a prefix, and whether it is inside.
    fn behind(
        &self,
        prefix: &[Cow<'_, [u8]>],
        env: &Env<'_>,
        names: &[&str],
    ) -> Result<(ClusteringPrefix, bool), CqlError> {
        let choices = self.values.choices(env, names.get(prefix.len()..).unwrap_or_default())?;
        let values = prefix.iter().chain(choices.first().into_iter().flatten()).cloned();
        Ok((clustering_prefix(&values.collect::<KeyValues<'_>>())?, self.inclusive))
    }
}

impl Ranges {
    /// The ranges of rows; some may be empty.
    pub fn evaluate(&self, schema: &TableSchema, env: &Env<'_>) -> Result<Vec<ClusteringRange>, CqlError> {
        let names = clustering_names(schema);
        let prefixes = self.prefix.evaluate(env, &names)?;
        let mut out = Vec::with_capacity(prefixes.len());
        for values in &prefixes {
            let position = |bound: &Option<Bound>| {
                bound.as_ref().map(|bound| bound.behind(values, env, &names)).transpose()
            };
            let (lower, upper) = (position(&self.lower)?, position(&self.upper)?);
            let (first, last) = if self.descending { (upper, lower) } else { (lower, upper) };
            let prefix = clustering_prefix(values)?;
            let start = match first {
                Some((at, true)) => Position::before(at),
                Some((at, false)) => Position::after(at),
                None => Position::before(prefix.clone()),
            };
            let end = match last {
                Some((at, true)) => Position::after(at),
                Some((at, false)) => Position::before(at),
                None => Position::after(prefix),
            };
            out.push(ClusteringRange { start, end });
        }
        Ok(out)
    }
}
