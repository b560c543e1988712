//! The selected rows of a partition, as ranges of clustering keys.
//!
//! Equalities and IN form prefixes. A slice may follow them and must be the last restriction. A slice of
//! several columns with different directions is several ranges: `(a, b) > (1, 2)` is `a = 1 AND b > 2` and
//! `a > 1`. Both ends of the slice are split in this way, and the result is the intersection. Adjacent ranges
//! are joined, so columns of one direction give a single range.

use model::{ClusteringKey, ClusteringPrefix, ClusteringRange, Position, TableSchema};
use protocol::CqlError;
use smallvec::SmallVec;

use super::relation::{Restriction, Test};
use super::terms::{Bound, Bytes, Terms, required};
use super::{ColumnRef, IN_PRODUCT_MAX};
use crate::error::invalid;
use crate::key::clustering_prefix;
use crate::term::Env;

/// The restrictions of the first clustering columns, without a gap.
#[derive(Clone, Debug, Default)]
pub struct ClusteringRestriction {
    /// In the order of the columns. Only the last restriction may be a slice.
    restrictions: Vec<Restriction>,
    /// Number of columns with = or IN.
    fixed: usize,
    /// Whether all restrictions are equalities of single columns.
    is_plain: bool,
    /// Whether null may be the end of a slice of one column. As in Cassandra it is before all values in the
    /// table's order.
    allows_null_ends: bool,
}

type Values<'a> = Vec<Bytes<'a>>;

impl ClusteringRestriction {
    pub(super) fn new(restrictions: Vec<Restriction>, allows_null_ends: bool) -> Self {
        let fixed = restrictions
            .iter()
            .filter(|restriction| !matches!(restriction.test, Test::Slice(_)))
            .map(|restriction| restriction.columns.len())
            .sum();
        let is_plain = restrictions
            .iter()
            .all(|restriction| matches!(&restriction.test, Test::Eq(Terms::Each(terms)) if terms.len() == 1));
        Self { restrictions, fixed, is_plain, allows_null_ends }
    }

    /// Whether every row is selected.
    pub fn is_everything(&self) -> bool {
        self.restrictions.is_empty()
    }

    /// Number of clustering columns with = or IN.
    pub fn fixed_columns(&self) -> usize {
        self.fixed
    }

    /// Whether the column has a single value.
    pub fn has_eq(&self, column: usize) -> bool {
        let wanted = ColumnRef::Clustering(column);
        self.restrictions.iter().any(|restriction| {
            matches!(restriction.test, Test::Eq(_)) && restriction.columns.contains(&wanted)
        })
    }

    pub fn has_slice(&self) -> bool {
        self.restrictions.last().is_some_and(|last| matches!(last.test, Test::Slice(_)))
    }

    pub fn has_in(&self) -> bool {
        self.restrictions.iter().any(|restriction| matches!(restriction.test, Test::In(_)))
    }

    /// Returns the selected ranges, disjoint and ascending in the table's order. The result is empty if no
    /// row can match.
    ///
    /// # Errors
    /// A value is null, unset or not valid in a key, or there are more than [`IN_PRODUCT_MAX`] prefixes.
    pub fn ranges<'a>(
        &'a self,
        schema: &TableSchema,
        env: &Env<'a>,
    ) -> Result<SmallVec<[ClusteringRange; 1]>, CqlError> {
        if self.restrictions.is_empty() {
            return Ok(SmallVec::from_elem(ClusteringRange::all(), 1));
        }
        if self.is_plain {
            return Ok(SmallVec::from_elem(ClusteringRange::of_prefix(self.plain_prefix(schema, env)?), 1));
        }
        let prefixes = self.prefixes(schema, env)?;
        let mut ranges = vec![];
        match self.restrictions.last().map(|last| (&last.test, &last.columns)) {
            Some((Test::Slice(slice), columns)) => {
                let names: Vec<&str> = columns.iter().map(|column| column.name(schema)).collect();
                let end = |bound: &'a Option<Bound>| -> Result<Option<SliceEnd<'a>>, CqlError> {
                    let Some(bound) = bound else { return Ok(None) };
                    let names = &names[..bound.terms.len()];
                    let values = match self.allows_null_ends {
                        true => bound.terms.or_null(env, names)?,
                        false => Some(bound.terms.evaluate(env, names)?),
                    };
                    Ok(Some((values, bound.inclusive)))
                };
                let (start, end) = (end(&slice.start)?, end(&slice.end)?);
                for prefix in &prefixes {
                    slice_ranges(schema, prefix, start.as_ref(), end.as_ref(), &mut ranges)?;
                }
            }
            _ => {
                for prefix in &prefixes {
                    ranges.push(ClusteringRange::of_prefix(clustering_prefix(schema, prefix)?));
                }
            }
        }
        Ok(joined(schema, ranges).into())
    }

    /// Returns the keys of the selected rows if every clustering column has = or IN. In a dense table the
    /// last columns may have no restriction; their values are null.
    ///
    /// # Errors
    /// As [`Self::ranges`].
    pub fn keys<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<Vec<ClusteringKey>, CqlError> {
        if self.is_plain {
            return Ok(vec![self.plain_prefix(schema, env)?.padded(schema.clustering.len())]);
        }
        let prefixes = self.prefixes(schema, env)?;
        let keys = prefixes.iter().map(|prefix| {
            Ok::<_, CqlError>(clustering_prefix(schema, prefix)?.padded(schema.clustering.len()))
        });
        let mut keys = keys.collect::<Result<Vec<_>, _>>()?;
        keys.sort_by(|a, b| schema.compare_keys(a, b));
        keys.dedup();
        Ok(keys)
    }

    #[inline]
    fn plain_prefix<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<ClusteringPrefix, CqlError> {
        let mut values: SmallVec<[Bytes<'a>; 4]> = SmallVec::with_capacity(self.restrictions.len());
        for (restriction, column) in self.restrictions.iter().zip(&schema.clustering) {
            if let Test::Eq(Terms::Each(terms)) = &restriction.test {
                values.push(required(&terms[0], env, &column.name)?);
            }
        }
        clustering_prefix(schema, &values)
    }

    /// Returns every combination of the values of = and IN.
    fn prefixes<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<Vec<Values<'a>>, CqlError> {
        let mut prefixes: Vec<Values<'a>> = vec![vec![]];
        for restriction in &self.restrictions {
            let names: Vec<&str> = restriction.columns.iter().map(|column| column.name(schema)).collect();
            let choices = match &restriction.test {
                Test::Eq(terms) => vec![terms.evaluate_fixed(env, &names)?],
                Test::In(terms) => terms.evaluate(env, &names)?,
                _ => break,
            };
            let count = prefixes.len().saturating_mul(choices.len());
            if count > IN_PRODUCT_MAX {
                return invalid!(
                    "The IN restrictions of the clustering columns name {count} rows, more than the maximum of {IN_PRODUCT_MAX}"
                );
            }
            let longer = |prefix: &Values<'a>, choice: &Values<'a>| {
                prefix.iter().chain(choice).cloned().collect::<Values<'a>>()
            };
            prefixes = prefixes
                .iter()
                .flat_map(|prefix| choices.iter().map(move |choice| longer(prefix, choice)))
                .collect();
        }
        Ok(prefixes)
    }
}

/// Splits the restrictions of clustering columns into those that form ranges and those that filter.
pub(super) fn split(restrictions: Vec<Restriction>) -> (Vec<Restriction>, Vec<Restriction>) {
    let first = |restriction: &Restriction| match restriction.columns[0] {
        ColumnRef::Clustering(at) => at,
        _ => usize::MAX,
    };
    let mut restrictions = restrictions;
    // The sort is stable. Within a column, restrictions that form no range come after those that do.
    restrictions.sort_by_key(|restriction| {
        let makes_ranges = matches!(restriction.test, Test::Eq(_) | Test::In(_) | Test::Slice(_));
        (first(restriction), !makes_ranges)
    });
    let (mut ranges, mut filters) = (vec![], vec![]);
    let mut next = Some(0);
    for restriction in restrictions {
        match (&restriction.test, next) {
            (Test::Eq(_) | Test::In(_), Some(at)) if first(&restriction) == at => {
                next = Some(at + restriction.columns.len());
                ranges.push(restriction);
            }
            (Test::Slice(_), Some(at)) if first(&restriction) == at => {
                next = None;
                ranges.push(restriction);
            }
            _ => filters.push(restriction),
        }
    }
    (ranges, filters)
}

/// The end of a slice: the values of its columns, `None` for null, and whether the end is inclusive.
type SliceEnd<'a> = (Option<Values<'a>>, bool);

type End<'e, 'a> = Option<&'e SliceEnd<'a>>;

fn slice_ranges<'a>(
    schema: &TableSchema,
    prefix: &Values<'a>,
    start: End<'_, 'a>,
    end: End<'_, 'a>,
    out: &mut Vec<ClusteringRange>,
) -> Result<(), CqlError> {
    let above = pieces(schema, prefix, start, true)?;
    let below = pieces(schema, prefix, end, false)?;
    for a in &above {
        for b in &below {
            let start = later(schema, &a.start, &b.start);
            let end = earlier(schema, &a.end, &b.end);
            if schema.compare_positions(start, end).is_lt() {
                out.push(ClusteringRange { start: start.clone(), end: end.clone() });
            }
        }
    }
    Ok(())
}

fn later<'p>(schema: &TableSchema, a: &'p Position, b: &'p Position) -> &'p Position {
    if schema.compare_positions(a, b).is_ge() { a } else { b }
}

fn earlier<'p>(schema: &TableSchema, a: &'p Position, b: &'p Position) -> &'p Position {
    if schema.compare_positions(a, b).is_le() { a } else { b }
}

/// Returns the rows with `prefix` whose next columns are above the end, or below it if not `above`. The
/// comparison is by values, not in the table's order. The result has one range for each column of the end:
/// the rows that are equal in all earlier columns and above the end in this column.
fn pieces<'a>(
    schema: &TableSchema,
    prefix: &Values<'a>,
    end: End<'_, 'a>,
    above: bool,
) -> Result<Vec<ClusteringRange>, CqlError> {
    let Some((values, inclusive)) = end else {
        return Ok(vec![ClusteringRange::of_prefix(clustering_prefix(schema, prefix)?)]);
    };
    let Some(values) = values else {
        let is_after = above != schema.clustering[prefix.len()].ty.is_reversed();
        let all = ClusteringRange::of_prefix(clustering_prefix(schema, prefix)?);
        return Ok(if is_after { vec![all] } else { vec![] });
    };
    let mut pieces = vec![];
    let mut agreed: Values<'a> = prefix.clone();
    for (number, value) in values.iter().enumerate() {
        let around = clustering_prefix(schema, &agreed)?;
        let descending = schema.clustering[agreed.len()].ty.is_reversed();
        agreed.push(value.clone());
        let at = clustering_prefix(schema, &agreed)?;
        let with_it = *inclusive && number + 1 == values.len();
        // Rows above the value come after it in an ascending column, and before it in a descending one.
        pieces.push(if above != descending {
            let start = if with_it { Position::before(at) } else { Position::after(at) };
            ClusteringRange { start, end: Position::after(around) }
        } else {
            let end = if with_it { Position::after(at) } else { Position::before(at) };
            ClusteringRange { start: Position::before(around), end }
        });
    }
    Ok(pieces)
}

/// Sorts ranges, and joins those that touch or overlap.
fn joined(schema: &TableSchema, mut ranges: Vec<ClusteringRange>) -> Vec<ClusteringRange> {
    ranges.sort_by(|a, b| schema.compare_positions(&a.start, &b.start));
    let mut joined: Vec<ClusteringRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if schema.compare_positions(&range.start, &last.end).is_le() => {
                if schema.compare_positions(&range.end, &last.end).is_gt() {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}
