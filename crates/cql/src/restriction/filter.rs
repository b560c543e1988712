//! Filters: tests that cannot be answered by keys, and therefore run on every row that is read. ALLOW
//! FILTERING permits them.
//!
//! A column without a value passes no test. Values are compared in the order of their type, independent of
//! the table's clustering order.

use std::borrow::Cow;
use std::cmp::Ordering;

use model::index::encode_term;
use model::types::{CollectionIter, CqlType, MapIter};
use model::{TableSchema, TermAnalysis};
use protocol::CqlError;
use smallvec::SmallVec;

use super::ColumnRef;
use super::indexed::IndexedRestrictions;
use super::like::LikePattern;
use super::relation::{Restriction, Test};
use super::terms::{Bytes, Terms};
use crate::error::invalid;
use crate::term::{Env, Expr, Value};

/// The filters of a prepared statement.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    restrictions: Vec<Restriction>,
    /// The change of texts before each restriction compares them.
    analyses: Vec<TermAnalysis>,
    checked: CheckedValues,
}

/// Restrictions that filter no row, but whose values must be neither null nor unset.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedValues {
    pub restrictions: Vec<Restriction>,
    /// Number of filters whose values are evaluated before.
    pub before_filter: usize,
}

/// Filters with the values of an execution.
#[derive(Debug)]
pub struct BoundFilters<'a> {
    filters: Vec<BoundFilter<'a>>,
}

#[derive(Debug)]
struct BoundFilter<'a> {
    columns: SmallVec<[ColumnRef; 2]>,
    types: Vec<CqlType>,
    test: BoundTest<'a>,
    analysis: TermAnalysis,
}

type Values<'a> = Vec<Bytes<'a>>;

#[derive(Debug)]
enum BoundTest<'a> {
    Eq(Values<'a>),
    In(Vec<Values<'a>>),
    Slice { start: Option<(Values<'a>, bool)>, end: Option<(Values<'a>, bool)> },
    Contains(Bytes<'a>),
    ContainsKey(Bytes<'a>),
    Like(LikePattern),
    Entry { key: Bytes<'a>, value: Bytes<'a> },
}

impl Filters {
    /// `indexed` decides how the restrictions that indexes answer compare texts.
    pub(super) fn new(
        restrictions: Vec<Restriction>,
        checked: CheckedValues,
        indexed: Option<&IndexedRestrictions>,
    ) -> Self {
        let analysis =
            |one: &Restriction| indexed.map_or(TermAnalysis::NONE, |indexed| indexed.analysis(one));
        let analyses = restrictions.iter().map(analysis).collect();
        Self { restrictions, analyses, checked }
    }

    pub fn is_empty(&self) -> bool {
        self.restrictions.is_empty()
    }

    /// Whether a filter tests a column for which `wanted` is true.
    pub fn any(&self, wanted: impl Fn(ColumnRef) -> bool) -> bool {
        self.restrictions.iter().flat_map(|restriction| &restriction.columns).any(|column| wanted(*column))
    }

    /// Evaluates the values of the filters.
    ///
    /// # Errors
    /// A value is null, unset or not valid for its column's type.
    pub fn bind<'a>(&'a self, schema: &TableSchema, env: &Env<'a>) -> Result<BoundFilters<'a>, CqlError> {
        let mut filters = Vec::with_capacity(self.restrictions.len());
        for (at, (restriction, analysis)) in self.restrictions.iter().zip(&self.analyses).enumerate() {
            if at == self.checked.before_filter {
                self.checked.check(schema, env)?;
            }
            filters.push(bind(restriction, *analysis, schema, env)?);
        }
        if self.restrictions.len() <= self.checked.before_filter {
            self.checked.check(schema, env)?;
        }
        Ok(BoundFilters { filters })
    }
}

impl CheckedValues {
    fn check(&self, schema: &TableSchema, env: &Env<'_>) -> Result<(), CqlError> {
        self.restrictions.iter().try_for_each(|one| bind(one, TermAnalysis::NONE, schema, env).map(|_| ()))
    }
}

fn bind<'a>(
    restriction: &'a Restriction,
    analysis: TermAnalysis,
    schema: &TableSchema,
    env: &Env<'a>,
) -> Result<BoundFilter<'a>, CqlError> {
    let names: Vec<&str> = restriction.columns.iter().map(|column| column.name(schema)).collect();
    let supported = |expr: &'a Expr, what: &str, name: &str| supported(expr, env, what, name);
    let one = |expr| supported(expr, "value", names[0]);
    let each = |terms: &'a Terms| match terms {
        Terms::Each(exprs) => {
            exprs.iter().zip(&names).map(|(expr, name)| supported(expr, "value", name)).collect()
        }
        terms => terms
            .each(env, &names, |name| CqlError::Invalid(format!("Unsupported null value for column {name}"))),
    };
    let test = match &restriction.test {
        Test::Eq(terms) => BoundTest::Eq(each(terms)?),
        // A null among the values matches no row, so it is dropped.
        Test::In(terms) => BoundTest::In(terms.or_null(env, &names)?.into_iter().flatten().collect()),
        Test::Slice(slice) => {
            let end = |bound: &'a Option<super::terms::Bound>| {
                let evaluate = |bound: &'a super::terms::Bound| {
                    let values = each(&bound.terms)?;
                    Ok::<_, CqlError>((values, bound.inclusive))
                };
                bound.as_ref().map(evaluate).transpose()
            };
            BoundTest::Slice { start: end(&slice.start)?, end: end(&slice.end)? }
        }
        Test::Contains(expr) => BoundTest::Contains(one(expr)?),
        Test::ContainsKey(expr) => BoundTest::ContainsKey(one(expr)?),
        Test::Like(expr) => BoundTest::Like(LikePattern::new(&one(expr)?)?),
        Test::Entry { key, value } => BoundTest::Entry {
            key: supported(key, "map key", names[0])?,
            value: supported(value, "map value", names[0])?,
        },
    };
    let types: Vec<CqlType> = restriction.columns.iter().map(|column| column.ty(schema).clone()).collect();
    let test = if analysis.is_none() { test } else { test.analysed(&types[0], analysis) };
    Ok(BoundFilter { columns: restriction.columns.clone(), types, test, analysis })
}

/// Returns the value of a term that must be neither null nor unset. `what` and `name` describe the value and
/// its column in errors.
fn supported<'a>(expr: &'a Expr, env: &Env<'a>, what: &str, name: &str) -> Result<Bytes<'a>, CqlError> {
    match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => invalid!("Unsupported null {what} for column {name}"),
        Value::Unset => invalid!("Unsupported unset {what} for column {name}"),
    }
}

impl BoundFilters<'_> {
    /// Whether a row passes all filters. `value` returns the value of a column, with collections in frozen
    /// form.
    pub fn pass<'r>(&self, mut value: impl FnMut(ColumnRef) -> Option<Cow<'r, [u8]>>) -> bool {
        self.filters.iter().all(|filter| {
            let values: Option<SmallVec<[Cow<'r, [u8]>; 2]>> =
                filter.columns.iter().map(|column| value(*column)).collect();
            values.is_some_and(|values| match filter.analysis.is_none() {
                true => filter.test.holds(&filter.types, &values),
                false => filter.test.holds_analysed(&filter.types[0], &values[0], filter.analysis),
            })
        })
    }
}

impl BoundTest<'_> {
    fn holds(&self, types: &[CqlType], have: &[Cow<'_, [u8]>]) -> bool {
        match self {
            Self::Eq(values) => compare(types, have, values).is_eq(),
            Self::In(list) => list.iter().any(|values| compare(types, have, values).is_eq()),
            Self::Slice { start, end } => {
                let above = start.as_ref().is_none_or(|(values, inclusive)| {
                    let order = compare(types, have, values);
                    order.is_gt() || (*inclusive && order.is_eq())
                });
                above
                    && end.as_ref().is_none_or(|(values, inclusive)| {
                        let order = compare(types, have, values);
                        order.is_lt() || (*inclusive && order.is_eq())
                    })
            }
            Self::Contains(wanted) => contains(&types[0], &have[0], wanted),
            Self::ContainsKey(wanted) => contains_key(&types[0], &have[0], wanted),
            Self::Like(pattern) => pattern.matches(&have[0]),
            Self::Entry { key: wanted, value } => {
                map_entries(&types[0], &have[0]).is_some_and(|mut entries| {
                    entries.any(|(key, found, ty)| {
                        ty.0.compare(key, wanted).is_eq() && ty.1.compare(found, value).is_eq()
                    })
                })
            }
        }
    }
}

/// A text as analysis changes it, so that texts that count as equal are the same bytes.
fn analysed(ty: &CqlType, text: &[u8], analysis: TermAnalysis) -> Vec<u8> {
    encode_term(ty, text, analysis)
}

impl<'a> BoundTest<'a> {
    /// The same test with its values as analysis changes them. Only tests of equality with texts are
    /// analysed.
    fn analysed(self, ty: &CqlType, analysis: TermAnalysis) -> Self {
        let (key, value) = element_types(ty);
        let changed = |ty: &CqlType, value: Bytes<'a>| Cow::Owned(analysed(ty, &value, analysis));
        match self {
            Self::Eq(values) => {
                Self::Eq(values.into_iter().map(|value| Cow::Owned(analysed(ty, &value, analysis))).collect())
            }
            Self::Contains(wanted) => Self::Contains(changed(value, wanted)),
            Self::ContainsKey(wanted) => Self::ContainsKey(changed(key, wanted)),
            Self::Entry { key: wanted, value: with } => {
                Self::Entry { key: changed(key, wanted), value: changed(value, with) }
            }
            other => other,
        }
    }

    /// [`Self::holds`] of a test that [`Self::analysed`] returned.
    fn holds_analysed(&self, ty: &CqlType, have: &[u8], analysis: TermAnalysis) -> bool {
        let (key_type, value_type) = element_types(ty);
        let is = |ty: &CqlType, have: &[u8], wanted: &[u8]| analysed(ty, have, analysis) == wanted;
        let any_entry = |test: &dyn Fn(&[u8], &[u8]) -> bool| {
            map_entries(ty, have).is_some_and(|mut entries| entries.any(|(key, value, _)| test(key, value)))
        };
        match self {
            Self::Eq(values) => values.iter().all(|wanted| is(ty, have, wanted)),
            Self::Contains(wanted) if matches!(ty, CqlType::Map { .. }) => {
                any_entry(&|_, value| is(value_type, value, wanted))
            }
            Self::Contains(wanted) => CollectionIter::new(have).is_ok_and(|mut all| {
                all.any(|item| matches!(item, Ok(Some(item)) if is(value_type, item, wanted)))
            }),
            Self::ContainsKey(wanted) => any_entry(&|key, _| is(key_type, key, wanted)),
            Self::Entry { key: wanted, value: with } => {
                any_entry(&|key, value| is(key_type, key, wanted) && is(value_type, value, with))
            }
            other => other.holds(std::slice::from_ref(ty), &[Cow::Borrowed(have)]),
        }
    }
}

/// The types of the keys and of the values of a map, or of the elements of a list or set twice; otherwise the
/// type itself.
fn element_types(ty: &CqlType) -> (&CqlType, &CqlType) {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => (element, element),
        CqlType::Map { entry, .. } => (&entry.0, &entry.1),
        ty => (ty, ty),
    }
}

/// Compares as many columns as `wanted` has.
fn compare(types: &[CqlType], have: &[Cow<'_, [u8]>], wanted: &[Bytes<'_>]) -> Ordering {
    let each = types.iter().zip(have).zip(wanted);
    each.map(|((ty, a), b)| compare_as(ty, a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares two values of a type, and counters as bigints.
fn compare_as(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    if ty.is_counter() { CqlType::BigInt.compare(a, b) } else { ty.compare(a, b) }
}

/// Whether a list or set contains the element, or a map contains the value.
pub fn contains(ty: &CqlType, bytes: &[u8], wanted: &[u8]) -> bool {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            CollectionIter::new(bytes).is_ok_and(|mut all| {
                all.any(|item| matches!(item, Ok(Some(item)) if element.compare(item, wanted).is_eq()))
            })
        }
        _ => map_entries(ty, bytes)
            .is_some_and(|mut entries| entries.any(|(_, value, ty)| ty.1.compare(value, wanted).is_eq())),
    }
}

/// Whether a map contains the key.
pub fn contains_key(ty: &CqlType, bytes: &[u8], wanted: &[u8]) -> bool {
    map_entries(ty, bytes)
        .is_some_and(|mut entries| entries.any(|(key, _, ty)| ty.0.compare(key, wanted).is_eq()))
}

type Entry<'v> = (&'v [u8], &'v [u8], &'v (CqlType, CqlType));

fn map_entries<'v>(ty: &'v CqlType, bytes: &'v [u8]) -> Option<impl Iterator<Item = Entry<'v>>> {
    let CqlType::Map { entry, .. } = ty else { return None };
    let entries = MapIter::new(bytes).ok()?;
    Some(entries.filter_map(move |item| match item {
        Ok((Some(key), Some(value))) => Some((key, value, &**entry)),
        _ => None,
    }))
}
