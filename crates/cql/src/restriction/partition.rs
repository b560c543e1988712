//! The selected partitions: keys or a token range.

use model::{PartitionKey, PartitionRange, RingPosition, TableSchema};
use protocol::CqlError;
use smallvec::SmallVec;

use super::IN_PRODUCT_MAX;
use super::relation::Test;
use super::terms::{Bound, Bytes, Terms, required};
use crate::error::invalid;
use crate::key::{check_not_empty, maybe_empty_partition_key};
use crate::term::{Env, Value};

/// The restrictions of the partition key.
#[derive(Clone, Debug)]
pub struct PartitionRestriction {
    /// One test for each partition key column; empty if the statement selects a token range.
    keys: Vec<Test>,
    token: Option<Test>,
    is_in: bool,
}

/// The selected partitions of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// Keys without duplicates, in the order of the key columns' values; may be empty.
    Keys(SmallVec<[PartitionKey; 1]>),
    Range(PartitionRange),
}

impl Partitions {
    /// # Errors
    /// One of the keys is empty.
    pub fn check_not_empty(&self) -> Result<(), CqlError> {
        match self {
            Self::Keys(keys) => keys.iter().try_for_each(check_not_empty),
            Self::Range(_) => Ok(()),
        }
    }
}

impl PartitionRestriction {
    /// `keys` has an equality or IN for each key column, or is empty.
    pub(super) fn new(keys: Vec<Test>, token: Option<Test>) -> Self {
        let is_in = keys.iter().any(|test| matches!(test, Test::In(_)));
        Self { keys, token, is_in }
    }

    /// Whether every partition of the table is selected.
    pub fn is_everything(&self) -> bool {
        self.keys.is_empty() && self.token.is_none()
    }

    /// Whether the statement gives keys, by = or IN.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether at most one partition is selected.
    pub fn is_single(&self) -> bool {
        !self.keys.is_empty() && !self.is_in
    }

    /// Whether the key column has a single value.
    pub fn has_eq(&self, column: usize) -> bool {
        matches!(self.keys.get(column), Some(Test::Eq(_)))
    }

    /// Whether a key column is restricted by IN.
    pub fn is_in(&self) -> bool {
        self.is_in
    }

    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the key of a restriction that [`Self::is_single`] and has no token.
    ///
    /// # Errors
    /// A value is null or unset, or the values do not form a key.
    #[inline]
    pub fn key<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<PartitionKey, CqlError> {
        let key = self.single_key(schema, env)?;
        check_not_empty(&key)?;
        Ok(key)
    }

    #[inline]
    fn single_key<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<PartitionKey, CqlError> {
        let mut values: SmallVec<[Bytes<'a>; 4]> = SmallVec::with_capacity(self.keys.len());
        for (test, column) in self.keys.iter().zip(&schema.partition_key) {
            match test {
                Test::Eq(Terms::Each(terms)) if terms.len() == 1 => {
                    values.push(required(&terms[0], env, &column.name)?);
                }
                _ => unreachable!("a single partition is one by equalities"),
            }
        }
        maybe_empty_partition_key(schema, &values)
    }

    /// Returns the selected partitions. One of the keys may be empty: the caller checks that.
    ///
    /// # Errors
    /// A value is null or unset, the values do not form a key, or there are more than [`IN_PRODUCT_MAX`]
    /// keys.
    pub fn partitions<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<Partitions, CqlError> {
        let ends = self.token.as_ref().map(|test| token_ends(test, env)).transpose()?;
        if self.keys.is_empty() {
            let Some((start, end)) = ends else { return Ok(Partitions::Range(PartitionRange::all())) };
            let range = token_range(start, end);
            return Ok(range.map_or_else(|| Partitions::Keys(SmallVec::new()), Partitions::Range));
        }
        let mut keys: SmallVec<[PartitionKey; 1]> = match self.is_in {
            true => self.product(schema, env)?.into(),
            false => SmallVec::from_iter([self.single_key(schema, env)?]),
        };
        if let Some((start, end)) = ends {
            keys.retain(|key| is_between(key.token(), start, end));
        }
        Ok(Partitions::Keys(keys))
    }

    /// Returns every combination of the columns' values, sorted column by column as in Cassandra and
    /// ScyllaDB.
    fn product<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<Vec<PartitionKey>, CqlError> {
        let mut combinations: Vec<Vec<Bytes<'a>>> = vec![vec![]];
        for (test, column) in self.keys.iter().zip(&schema.partition_key) {
            let name = [column.name.as_str()];
            let mut values: Vec<Bytes<'a>> = match test {
                Test::Eq(terms) => terms.evaluate(env, &name)?,
                Test::In(terms) => terms.evaluate(env, &name)?.into_iter().flatten().collect(),
                _ => unreachable!("keys are named by equality and IN"),
            };
            values.sort_by(|a, b| column.ty.compare(a, b));
            values.dedup();
            let count = combinations.len().saturating_mul(values.len());
            if count > IN_PRODUCT_MAX {
                return invalid!(
                    "The IN restrictions of the partition key name {count} partitions, more than the maximum of {IN_PRODUCT_MAX}"
                );
            }
            combinations = combinations
                .iter()
                .flat_map(|first| {
                    values.iter().map(move |value| {
                        let mut longer = first.clone();
                        longer.push(value.clone());
                        longer
                    })
                })
                .collect();
        }
        combinations.iter().map(|values| maybe_empty_partition_key(schema, values)).collect()
    }
}

/// An end of a token restriction: the token, and whether the end is inclusive.
type TokenEnd = Option<(i64, bool)>;

/// Evaluates a token restriction: its start and its end.
fn token_ends<'a>(test: &'a Test, env: &Env<'a>) -> Result<(TokenEnd, TokenEnd), CqlError> {
    let token = |terms: &'a Terms| -> Result<i64, CqlError> {
        if let Terms::Each(each) = terms
            && let [term] = &each[..]
            && matches!(term.evaluate(env)?, Value::Null)
        {
            return invalid!("Invalid null token value");
        }
        let values = terms.evaluate(env, &["partition key token"])?;
        match <[u8; 8]>::try_from(&*values[0]) {
            Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
            Err(_) => invalid!("Invalid empty value for the partition key token"),
        }
    };
    Ok(match test {
        Test::Eq(terms) => {
            let at = token(terms)?;
            (Some((at, true)), Some((at, true)))
        }
        Test::Slice(slice) => {
            let bound = |bound: &'a Option<Bound>| {
                let evaluate = |bound: &'a Bound| Ok::<_, CqlError>((token(&bound.terms)?, bound.inclusive));
                bound.as_ref().map(evaluate).transpose()
            };
            (bound(&slice.start)?, bound(&slice.end)?)
        }
        _ => unreachable!("tokens are compared"),
    })
}

/// Whether a token is between both ends. As in Cassandra, a restriction of given keys wraps around: with a
/// start above its end it selects the tokens outside. The smallest token as an upper bound is no bound.
fn is_between(token: i64, start: TokenEnd, end: TokenEnd) -> bool {
    let end = end.filter(|(token, _)| *token != i64::MIN);
    let above = start.is_none_or(|(start, inclusive)| token > start || inclusive && token == start);
    let below = end.is_none_or(|(end, inclusive)| token < end || inclusive && token == end);
    match (start, end) {
        (Some((start, _)), Some((end, _))) if start > end => above || below,
        _ => above && below,
    }
}

/// Returns the range between both ends; `None` if it contains no token. As in Cassandra and ScyllaDB, the
/// smallest token also stands for the end of the ring. No partition comes before the smallest token, so as an
/// upper bound it means no bound.
fn token_range(start: TokenEnd, end: TokenEnd) -> Option<PartitionRange> {
    let end = end.filter(|(token, _)| *token != i64::MIN);
    if let (Some((first, with_first)), Some((last, with_last))) = (start, end)
        && (first > last || (first == last && !(with_first && with_last)))
    {
        return None;
    }
    let start = match start {
        None => RingPosition::BeforeToken(i64::MIN),
        Some((token, true)) => RingPosition::BeforeToken(token),
        Some((token, false)) => RingPosition::AfterToken(token),
    };
    let end = match end {
        None => RingPosition::AfterToken(i64::MAX),
        Some((token, true)) => RingPosition::AfterToken(token),
        Some((token, false)) => RingPosition::BeforeToken(token),
    };
    Some(PartitionRange::Between { start, end })
}
