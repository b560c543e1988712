//! The use of secondary indexes: which restrictions an index answers, whether others remain that only a
//! filter can test, and the query that storage receives.
//!
//! 1. A restriction is *supported* by an index of its column if the index answers its operator. All
//!    storage-attached indexes of a table work together, as one *group*; every other index is a group of its
//!    own.
//! 2. A WHERE needs no ALLOW FILTERING if a single group supports all restrictions that keys and ranges of
//!    rows do not answer.
//! 3. Storage receives every restriction that some index supports, of whichever group, as a clause on terms.
//!    Storage returns at least the rows that satisfy all clauses; the filters test them again.
//!
//! Source of the rules: Cassandra 5.0 `cql3/restrictions/IndexRestrictions.java`,
//! `SingleColumnRestriction.java`, `index/internal/CassandraIndexFunctions.java`,
//! `index/sai/utils/IndexTermType.java`.

use std::ops::Bound as TermBound;
use std::sync::Arc;

use model::{CqlType, IndexDefinition, IndexKind, IndexPart, IndexTerms, TableSchema, TermAnalysis};
use protocol::CqlError;
use reader::{IndexClause, IndexQuery};

use super::ColumnRef;
use super::relation::{Restriction, Slice, Test};
use super::terms::{Bound, Terms, required};
use crate::error::invalid;
use crate::term::Env;

/// Largest length of a value that an index is searched for, in bytes.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;

/// The indexes that a statement may use.
pub struct Indexes {
    indexes: Vec<IndexTerms>,
}

/// A restriction that an index answers.
#[derive(Clone, Debug)]
struct Answered {
    terms: Arc<IndexTerms>,
    /// Position of the index's column among the columns of the restriction.
    at: usize,
    restriction: Restriction,
}

/// The restrictions that indexes answer, at least one.
#[derive(Clone, Debug)]
pub struct IndexedRestrictions {
    answered: Vec<Answered>,
    /// Why Cassandra refuses one of the restrictions beside an index.
    refusal: Option<&'static str>,
}

impl Indexes {
    /// The indexes of the table. `is_single_partition`: the WHERE gives the whole partition key, as local
    /// indexes require.
    pub fn of(schema: &TableSchema, is_single_partition: bool) -> Self {
        let usable = |index: &&Arc<IndexDefinition>| index.kind != IndexKind::Local || is_single_partition;
        let terms =
            schema.indexes.iter().filter(usable).filter_map(|index| IndexTerms::new(schema, index).ok());
        Self { indexes: terms.collect() }
    }

    /// No index, for statements that change data.
    pub fn none() -> Self {
        Self { indexes: vec![] }
    }

    /// Whether an index answers one of the restrictions.
    pub fn answer_any<'r>(
        &self,
        schema: &TableSchema,
        restrictions: impl IntoIterator<Item = &'r Restriction>,
    ) -> bool {
        restrictions.into_iter().any(|restriction| self.answer(schema, restriction))
    }

    /// Whether an index answers the restriction.
    pub fn answer(&self, schema: &TableSchema, restriction: &Restriction) -> bool {
        self.indexes.iter().any(|index| supports(schema, index, restriction).is_some())
    }

    /// Whether filters are needed besides the indexes of one group to test all restrictions.
    pub fn need_filtering(&self, schema: &TableSchema, restrictions: &[&Restriction]) -> bool {
        let (attached, others): (Vec<_>, Vec<_>) =
            self.indexes.iter().partition(|index| index.index().kind == IndexKind::StorageAttached);
        let groups = std::iter::once(attached).chain(others.into_iter().map(|index| vec![index]));
        let mut groups = groups.filter(|group| !group.is_empty());
        !groups.any(|group| restrictions.iter().all(|one| is_enough(schema, &group, one, restrictions)))
    }

    /// Returns the restrictions that the indexes answer; `None` if there are none. A restriction that a
    /// storage-attached index answers is not also searched in an index of another kind, because the analysis
    /// of the former decides what is equal.
    pub fn choose(&self, schema: &TableSchema, restrictions: &[&Restriction]) -> Option<IndexedRestrictions> {
        let mut answered = vec![];
        for restriction in restrictions {
            let found = self.indexes.iter().filter_map(|index| {
                let at = supports(schema, index, restriction)?;
                Some(Answered { terms: Arc::new(index.clone()), at, restriction: (*restriction).clone() })
            });
            let found: Vec<Answered> = found.collect();
            let is_attached = |one: &Answered| one.terms.index().kind == IndexKind::StorageAttached;
            let has_attached = found.iter().any(is_attached);
            answered.extend(found.into_iter().filter(|one| !has_attached || is_attached(one)));
        }
        let refusal = restrictions.iter().find_map(|restriction| match &restriction.test {
            Test::Slice(_) if restriction.columns.len() > 1 => {
                Some("Multi-column slice restrictions cannot be used for filtering.")
            }
            Test::In(_) if restriction.columns.len() > 1 => {
                Some("IN restrictions are not supported on indexed columns")
            }
            _ => None,
        });
        (!answered.is_empty()).then_some(IndexedRestrictions { answered, refusal })
    }
}

impl IndexedRestrictions {
    /// How the values of a restriction are changed before they are compared.
    pub fn analysis(&self, restriction: &Restriction) -> TermAnalysis {
        let is_it = |one: &&Answered| {
            one.restriction.columns == restriction.columns
                && std::mem::discriminant(&one.restriction.test) == std::mem::discriminant(&restriction.test)
        };
        self.answered.iter().find(is_it).map_or(TermAnalysis::NONE, |one| one.terms.index().analysis)
    }

    /// Evaluates the clauses of an execution; `None` if no clause excludes any row.
    ///
    /// # Errors
    /// A value is null, unset, or longer than 64 KiB, or a restriction of several columns has to be tested
    /// row by row, which Cassandra does not do beside an index.
    pub fn query(&self, schema: &TableSchema, env: &Env<'_>) -> Result<Option<Arc<IndexQuery>>, CqlError> {
        if let Some(refusal) = self.refusal {
            return invalid!("{refusal}");
        }
        let mut clauses = Vec::with_capacity(self.answered.len());
        for one in &self.answered {
            clauses.extend(one.clause(schema, env)?);
        }
        Ok((!clauses.is_empty()).then(|| Arc::new(IndexQuery { clauses })))
    }
}

impl Answered {
    fn clause(&self, schema: &TableSchema, env: &Env<'_>) -> Result<Option<IndexClause>, CqlError> {
        let Self { terms, at, restriction } = self;
        let id = terms.index().id;
        let names: Vec<&str> = restriction.columns.iter().map(|column| column.name(schema)).collect();
        let name = names[*at];
        let value = |of: &Terms| {
            let values = of.evaluate(env, &names[..of.len()])?;
            match values.get(*at) {
                Some(value) => term(terms, value).map(Some),
                None => Ok::<_, CqlError>(None),
            }
        };
        Ok(match &restriction.test {
            Test::Eq(of) => value(of)?.map(|term| IndexClause::equal(id, term)),
            Test::Contains(expr) | Test::ContainsKey(expr) => {
                let value = required(expr, env, name)?;
                Some(IndexClause::equal(id, term(terms, &value)?))
            }
            Test::Entry { key, value } => {
                let (key, value) = (required(key, env, name)?, required(value, env, name)?);
                check_length(&key)?;
                check_length(&value)?;
                Some(IndexClause::equal(id, terms.entry(&key, &value)))
            }
            Test::Slice(Slice { start, end }) => {
                // Of several columns, the first alone bounds the index: a later one restarts with each value
                // of the first.
                if *at > 0 {
                    return Ok(None);
                }
                let bound = |bound: &Option<Bound>| -> Result<TermBound<Vec<u8>>, CqlError> {
                    let Some(bound) = bound else { return Ok(TermBound::Unbounded) };
                    let is_inclusive = bound.inclusive || bound.terms.len() > 1;
                    Ok(match value(&bound.terms)? {
                        Some(term) if is_inclusive => TermBound::Included(term),
                        Some(term) => TermBound::Excluded(term),
                        None => TermBound::Unbounded,
                    })
                };
                Some(IndexClause { index: id, lower: bound(start)?, upper: bound(end)? })
            }
            Test::In(_) | Test::Like(_) => None,
        })
    }
}

fn term(terms: &IndexTerms, value: &[u8]) -> Result<Vec<u8>, CqlError> {
    check_length(value)?;
    Ok(terms.term(value))
}

fn check_length(value: &[u8]) -> Result<(), CqlError> {
    if value.len() > VALUE_BYTES_MAX {
        return invalid!("Index expression values may not be larger than 64K");
    }
    Ok(())
}

/// Whether the indexes of a group test a restriction, so that no filter is needed for it. Several of
/// CONTAINS, CONTAINS KEY and entries on one column count as one restriction, of which the first kind of
/// index tests only one part.
fn is_enough(
    schema: &TableSchema,
    group: &[&IndexTerms],
    restriction: &Restriction,
    all: &[&Restriction],
) -> bool {
    let in_collection =
        |one: &Restriction| matches!(one.test, Test::Contains(_) | Test::ContainsKey(_) | Test::Entry { .. });
    let parts: Vec<&Restriction> = match in_collection(restriction) {
        true => {
            let same = |one: &&&Restriction| in_collection(one) && one.columns == restriction.columns;
            all.iter().filter(same).copied().collect()
        }
        false => vec![restriction],
    };
    group.iter().any(|index| {
        let tests_several = index.index().kind == IndexKind::StorageAttached;
        (parts.len() == 1 || tests_several)
            && parts.iter().any(|part| supports(schema, index, part).is_some())
    })
}

/// Whether the index answers the restriction: returns the position of the index's column in it.
fn supports(schema: &TableSchema, index: &IndexTerms, restriction: &Restriction) -> Option<usize> {
    let definition = index.index();
    if definition.is_of_vectors(index.term_type()) {
        return None;
    }
    let column = |column: &ColumnRef| column.name(schema) == definition.column;
    let at = restriction.columns.iter().position(column)?;
    let ty = restriction.columns[at].ty(schema);
    let is_collection = ty.is_multi_cell() && ty.is_collection();
    let part = definition.part;
    let is_answered = match (&restriction.test, definition.kind) {
        (Test::In(_) | Test::Like(_), _) => false,
        (Test::Eq(_), _) => !is_collection,
        (Test::Contains(_), _) => is_collection && part == IndexPart::Values,
        (Test::ContainsKey(_), _) => is_collection && part == IndexPart::Keys,
        (Test::Entry { .. }, _) => is_collection && part == IndexPart::Entries,
        (Test::Slice(_), IndexKind::StorageAttached) => part == IndexPart::Value && has_ranges(ty),
        (Test::Slice(_), IndexKind::Secondary | IndexKind::Local) => false,
    };
    is_answered.then_some(at)
}

/// Whether storage-attached indexes answer ranges of this type.
fn has_ranges(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::BigInt
            | CqlType::Date
            | CqlType::Decimal
            | CqlType::Double
            | CqlType::Float
            | CqlType::Inet
            | CqlType::Int
            | CqlType::SmallInt
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::TimeUuid
            | CqlType::TinyInt
            | CqlType::Varint
    )
}
