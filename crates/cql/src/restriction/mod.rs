//! WHERE: the selected partitions, the selected rows in them, and the filters that are tested on every row.
//!
//! | question | file |
//! |---|---|
//! | a column by its name | `column.rs` |
//! | columns, operators and terms of a relation | `relation.rs` |
//! | values of the terms | `terms.rs` |
//! | selected partitions | `partition.rs` |
//! | selected rows of a partition | `clustering.rs` |
//! | filters that are tested row by row | `filter.rs`; LIKE: `like.rs` |
//! | restrictions that secondary indexes answer | `indexed.rs` |
//! | the WHERE of a materialized view | `view.rs` |
//!
//! Preparing a WHERE checks the rules of the statement. An execution supplies values and receives keys and
//! ranges.
//!
//! Source of the rules and of the error messages: Cassandra 4.1
//! `cql3/restrictions/StatementRestrictions.java`.

mod clustering;
mod column;
mod filter;
mod indexed;
mod like;
mod partition;
mod relation;
mod terms;
mod view;

use std::sync::Arc;

use indexed::{IndexedRestrictions, Indexes};
use model::{ClusteringKey, ClusteringRange, TableSchema};
use reader::IndexQuery;
use smallvec::SmallVec;

pub use clustering::ClusteringRestriction;
pub use column::ColumnRef;
use filter::CheckedValues;
pub use filter::{BoundFilters, Filters, contains, contains_key};
pub use like::LikePattern;
pub use partition::{PartitionRestriction, Partitions};
use relation::{Restriction, Test, Tests};
pub use view::view_conditions;

use crate::error::invalid;
use crate::term::{Env, Planner, of_relation};
use protocol::CqlError;
use syntax::{CompareOp, Relation};

/// Largest number of combinations that the INs of the partition key, or those of the clustering key, may
/// have.
pub const IN_PRODUCT_MAX: usize = 65_536;

/// Error of Cassandra and ScyllaDB for a statement that has to test rows one by one without ALLOW FILTERING.
pub const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// The statement that contains the WHERE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Select,
    Update,
    Delete,
}

impl StatementKind {
    fn name(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Properties of a statement that decide which relations its WHERE may have.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub statement: StatementKind,
    pub allow_filtering: bool,
    /// The statement selects, changes or deletes only static columns.
    pub only_static: bool,
}

/// A prepared WHERE.
#[derive(Clone, Debug)]
pub struct Restrictions {
    schema: Arc<TableSchema>,
    pub partition: PartitionRestriction,
    pub clustering: ClusteringRestriction,
    pub filters: Filters,
    /// The statement uses secondary indexes, at least one of which answers a restriction.
    indexed: Option<IndexedRestrictions>,
    /// Whether Cassandra uses an index, also if it answers none of the restrictions that are tested.
    excludes_order: bool,
    /// Whether there are restrictions that neither keys, ranges of rows nor one group of indexes test.
    filters_rows: bool,
    needs_filtering: bool,
    /// Whether rows are named by the first clustering columns alone: UPDATE of a dense table.
    pub names_partial_keys: bool,
}

impl Restrictions {
    /// Prepares the relations of a WHERE.
    ///
    /// # Errors
    /// The statement does not allow a relation, a column is unknown, or a term has the wrong type.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        rules: Rules,
    ) -> Result<Self, CqlError> {
        let mut tests = Tests::default();
        for relation in relations {
            let before = tests.clustering();
            let Relation::Compare { op, .. } = relation else {
                tests.add(planner, schema, relation)?;
                check_slices(schema, rules, &before, Tests::clustering_of(schema, relation))?;
                continue;
            };
            match op {
                // Refused even with ALLOW FILTERING.
                CompareOp::NotEq => {
                    return invalid!("Unsupported \"!=\" relation: {}", of_relation(relation));
                }
                CompareOp::Contains | CompareOp::ContainsKey if rules.statement != StatementKind::Select => {
                    return invalid!("Cannot use {} with {op}", rules.statement.name());
                }
                _ => {}
            }
            tests.add(planner, schema, relation)?;
            if *op == CompareOp::Like && !rules.allow_filtering {
                return invalid!(
                    "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
                    of_relation(relation)
                );
            }
            check_slices(schema, rules, &before, Tests::clustering_of(schema, relation))?;
        }
        let Tests { restrictions, token } = tests;
        let (mut partition, mut clustering, mut filters) = (vec![], vec![], vec![]);
        for restriction in restrictions {
            match restriction.columns[0] {
                ColumnRef::PartitionKey(_) => partition.push(restriction),
                ColumnRef::Clustering(_) => clustering.push(restriction),
                ColumnRef::Static(_) | ColumnRef::Regular(_) => filters.push(restriction),
            }
        }
        if rules.statement != StatementKind::Select {
            check_modification(schema, rules, &partition, token.is_some())?;
        }
        let is_select = rules.statement == StatementKind::Select;
        let with_token = token.is_some();
        let names_partition = is_select && names_one_partition(schema, &partition);
        let indexes = if is_select { Indexes::of(schema, names_partition) } else { Indexes::none() };
        let has_clustering_index = indexes.answer_any(schema, &clustering);
        let has_index = has_clustering_index
            || indexes.answer_any(schema, &filters)
            || indexes.answer_any(schema, &partition);
        let is_without_keys = partition.is_empty() && !with_token;
        let (keys, rest) = partition_keys(schema, partition);
        if !rest.is_empty() && !has_index && !rules.allow_filtering {
            return invalid!("{NEEDS_FILTERING}");
        }
        // As in Cassandra, an index is used if keys alone do not select the partitions, or rows remain to be
        // tested. The restrictions that indexes and filters test are collected in `tested`.
        let mut uses_index = has_index && (is_without_keys || !rest.is_empty());
        let is_key_range = is_without_keys || with_token || !rest.is_empty();
        let filters_by_in = rest.iter().any(|restriction| matches!(restriction.test, Test::In(_)));
        let mut tested = rest.clone();
        let others = std::mem::replace(&mut filters, rest);

        if rules.only_static && !clustering.is_empty() {
            return match rules.statement {
                StatementKind::Select => {
                    invalid!("Cannot restrict clustering columns when selecting only static columns")
                }
                other => invalid!(
                    "Invalid restrictions on clustering columns since the {} statement modifies only static columns",
                    other.name()
                ),
            };
        }
        let (ranges, rest) = clustering::split(clustering);
        if rules.statement == StatementKind::Update && !rest.is_empty() && !schema.is_dense() {
            let given: Vec<ColumnRef> =
                ranges.iter().chain(&rest).flat_map(|one| one.columns.clone()).collect();
            let missing = schema.clustering.iter().enumerate().filter_map(|(at, column)| {
                (!given.contains(&ColumnRef::Clustering(at))).then_some(column.name.as_str())
            });
            let missing: Vec<&str> = missing.collect();
            if !missing.is_empty() {
                return invalid!("Some clustering keys are missing: {}", missing.join(", "));
            }
        }
        if !rules.allow_filtering || !is_select {
            let is_answered = |one: &&Restriction| indexes.answer(schema, one);
            match rest.first().filter(|_| has_index) {
                None => check_prefix(schema, &ranges, &rest)?,
                Some(first) if !is_answered(&first) => check_after_slice(schema, &ranges, first)?,
                Some(_) => {}
            }
        }
        uses_index |= has_index && !rest.is_empty() || has_clustering_index && is_key_range;
        // As in Cassandra, the values of ranges that an index answers, too, are checked as those of filters.
        let mut checked = CheckedValues { before_filter: filters.len(), restrictions: vec![] };
        if uses_index || !rest.is_empty() {
            tested.extend(ranges.iter().chain(&rest).cloned());
            let is_answered = |one: &&Restriction| indexes.answer(schema, one);
            checked.restrictions.extend(ranges.iter().filter(is_answered).cloned());
        }
        filters.extend(rest);
        let outside_key: Vec<&str> = match is_select {
            true => vec![],
            false => others.iter().map(|other| other.columns[0].name(schema)).collect(),
        };
        if is_select && !others.is_empty() && !has_index && !rules.allow_filtering {
            return invalid!("{NEEDS_FILTERING}");
        }
        uses_index |= has_index && !others.is_empty();
        tested.extend(others.iter().cloned());
        filters.extend(others);

        let partition = PartitionRestriction::new(keys, token);
        if uses_index && (partition.is_in() || filters_by_in) {
            return invalid!(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
            );
        }
        let tested: Vec<&Restriction> = tested.iter().collect();
        let needs_filtering = (is_key_range || uses_index)
            && (!tested.is_empty() && indexes.need_filtering(schema, &tested)
                // Storage cannot find rows of all partitions by their clustering key alone.
                || tested.is_empty() && !ranges.is_empty());
        let is_sliced = !ranges.is_empty();
        // In a known partition storage finds the ranges of rows without an index.
        let is_found = |one: &Restriction| {
            !is_key_range && ranges.iter().any(|range: &Restriction| range.columns == one.columns)
        };
        let others: Vec<&Restriction> = tested.iter().filter(|one| !is_found(one)).copied().collect();
        let indexed = if uses_index { indexes.choose(schema, &tested) } else { None };
        let clustering = ClusteringRestriction::new(ranges, is_select);
        let is_incomplete = rules.statement == StatementKind::Update
            && !rules.only_static
            && (clustering.has_slice() || clustering.fixed_columns() < schema.clustering.len());
        let mut names_partial_keys = false;
        if is_incomplete {
            if clustering.has_slice() {
                return invalid!(
                    "Slice restrictions are not supported on the clustering columns in UPDATE statements"
                );
            }
            names_partial_keys = schema.is_dense() && clustering.fixed_columns() > 0;
        }
        if is_incomplete && !names_partial_keys {
            let missing: Vec<&str> = schema.clustering[clustering.fixed_columns()..]
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return invalid!("Some clustering keys are missing: {}", missing.join(", "));
        }
        if !outside_key.is_empty() {
            return invalid!("Non PRIMARY KEY columns found in where clause: {} ", outside_key.join(", "));
        }
        let filters = Filters::new(filters, checked, indexed.as_ref());
        let filters_rows = is_key_range && tested.is_empty() && is_sliced
            || !others.is_empty() && indexes.need_filtering(schema, &others);
        let needs_filtering = needs_filtering && !rules.allow_filtering;
        Ok(Self {
            schema: Arc::clone(schema),
            partition,
            clustering,
            filters,
            indexed,
            excludes_order: uses_index,
            filters_rows,
            needs_filtering,
            names_partial_keys,
        })
    }

    /// Checks that the statement has ALLOW FILTERING if it needs filtering. Cassandra checks ORDER BY before.
    ///
    /// # Errors
    /// The statement tests rows one by one and does not allow filtering.
    pub fn check_filtering(&self) -> Result<(), CqlError> {
        if self.needs_filtering {
            return invalid!("{NEEDS_FILTERING}");
        }
        Ok(())
    }

    /// Whether restrictions are tested that neither keys nor indexes answer.
    pub fn filters_rows(&self) -> bool {
        self.filters_rows
    }

    /// Whether ORDER BY is refused, because Cassandra would use a secondary index.
    pub fn excludes_order(&self) -> bool {
        self.excludes_order
    }

    /// Whether the statement uses a secondary index.
    pub fn uses_index(&self) -> bool {
        self.indexed.is_some()
    }

    /// Returns the query of secondary indexes; `None` if no index excludes rows.
    ///
    /// # Errors
    /// A value is null, unset, or too long for an index.
    pub fn index_query(&self, env: &Env<'_>) -> Result<Option<Arc<IndexQuery>>, CqlError> {
        match &self.indexed {
            Some(indexed) => indexed.query(&self.schema, env),
            None => Ok(None),
        }
    }

    /// Returns the selected partitions. One of the keys may be empty: [`Partitions::check_not_empty`].
    ///
    /// # Errors
    /// A value is null or unset, or does not form a valid key.
    pub fn partitions<'a>(&'a self, env: &Env<'a>) -> Result<Partitions, CqlError> {
        self.partition.partitions(&self.schema, env)
    }

    /// Returns the selected rows of each partition as disjoint ranges in ascending order.
    ///
    /// # Errors
    /// As [`Self::partitions`].
    pub fn ranges<'a>(&'a self, env: &Env<'a>) -> Result<SmallVec<[ClusteringRange; 1]>, CqlError> {
        self.clustering.ranges(&self.schema, env)
    }

    /// Returns the keys of the selected rows if every clustering column has = or IN, as UPDATE requires.
    ///
    /// # Errors
    /// As [`Self::partitions`].
    pub fn row_keys<'a>(&'a self, env: &Env<'a>) -> Result<Vec<ClusteringKey>, CqlError> {
        self.clustering.keys(&self.schema, env)
    }

    /// Whether the WHERE gives the column of the primary key a single value.
    pub fn has_eq(&self, column: ColumnRef) -> bool {
        match column {
            ColumnRef::PartitionKey(at) => self.partition.has_eq(at),
            ColumnRef::Clustering(at) => self.clustering.has_eq(at),
            ColumnRef::Static(_) | ColumnRef::Regular(_) => false,
        }
    }

    /// Whether a clustering column is restricted, by a range or by a filter.
    pub fn restricts_clustering(&self) -> bool {
        !self.clustering.is_everything()
            || self.filters.any(|column| matches!(column, ColumnRef::Clustering(_)))
    }

    /// Whether a partition with only static content is part of the result.
    pub fn wants_static_only_partitions(&self) -> bool {
        !self.restricts_clustering() && !self.filters.any(|column| matches!(column, ColumnRef::Regular(_)))
    }
}

/// Checks that a modification restricts all partition key columns.
fn check_modification(
    schema: &TableSchema,
    rules: Rules,
    partition: &[Restriction],
    has_token: bool,
) -> Result<(), CqlError> {
    let statement = rules.statement.name();
    if has_token {
        return invalid!("The token function cannot be used in WHERE clauses for {statement} statements");
    }
    let missing: Vec<&str> = schema
        .partition_key
        .iter()
        .enumerate()
        .filter(|(at, _)| !partition.iter().any(|test| test.columns[0] == ColumnRef::PartitionKey(*at)))
        .map(|(_, column)| column.name.as_str())
        .collect();
    if !missing.is_empty() {
        return invalid!("Some partition key parts are missing: {}", missing.join(", "));
    }
    if partition.iter().any(|restriction| !matches!(restriction.test, Test::Eq(_) | Test::In(_))) {
        return invalid!(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {statement} statements"
        );
    }
    Ok(())
}

/// Checks, without filtering, that no restriction of clustering columns follows a slice of a column before
/// its own. The restrictions are given by their first column, and whether they are slices: those of the
/// relations before, and the new one.
fn check_slices(
    schema: &TableSchema,
    rules: Rules,
    before: &[(usize, bool)],
    new: Option<(usize, bool)>,
) -> Result<(), CqlError> {
    let (Some((last, last_is_slice)), Some((new, new_is_slice))) = (before.last().copied(), new) else {
        return Ok(());
    };
    let name = |at: usize| schema.clustering[at].name.as_str();
    let has_index = schema.indexes.iter().any(|index| index.column == name(new));
    if rules.allow_filtering || has_index {
        return Ok(());
    }
    if last_is_slice && new > last {
        return invalid!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(new),
            name(last)
        );
    }
    if new_is_slice && new < last {
        let next = before.iter().map(|(at, _)| *at).find(|at| *at > new).unwrap_or(last);
        return invalid!(
            "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(next),
            name(new)
        );
    }
    Ok(())
}

/// Whether each column of the partition key has a single value.
fn names_one_partition(schema: &TableSchema, partition: &[Restriction]) -> bool {
    let has_value = |at: usize| {
        let is_eq = |one: &&Restriction| matches!(one.test, Test::Eq(_));
        partition.iter().filter(is_eq).any(|one| one.columns[0] == ColumnRef::PartitionKey(at))
    };
    (0..schema.partition_key.len()).all(has_value)
}

/// Splits the tests into those that give whole partition keys and those that can only filter.
fn partition_keys(schema: &TableSchema, partition: Vec<Restriction>) -> (Vec<Test>, Vec<Restriction>) {
    let names_key = |restriction: &Restriction| matches!(restriction.test, Test::Eq(_) | Test::In(_));
    let (mut keys, rest): (Vec<_>, Vec<_>) = partition.into_iter().partition(names_key);
    if keys.len() < schema.partition_key.len() {
        keys.extend(rest);
        return (vec![], keys);
    }
    keys.sort_by_key(|restriction| restriction.columns[0]);
    (keys.into_iter().map(|restriction| restriction.test).collect(), rest)
}

/// Checks the rules that hold without filtering: the restricted clustering columns are the first ones, and
/// only the last of them may have a slice.
fn check_prefix(schema: &TableSchema, ranges: &[Restriction], rest: &[Restriction]) -> Result<(), CqlError> {
    let Some(first) = rest.first() else { return Ok(()) };
    let name = first.columns[0].name(schema);
    if !matches!(first.test, Test::Eq(_) | Test::In(_) | Test::Slice(_)) {
        return invalid!(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
        );
    }
    check_after_slice(schema, ranges, first)?;
    let restricted: usize = ranges.iter().map(|restriction| restriction.columns.len()).sum();
    invalid!(
        "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
        schema.clustering[restricted].name
    )
}

/// Checks that a restriction of a clustering column that forms no range does not follow a slice.
fn check_after_slice(
    schema: &TableSchema,
    ranges: &[Restriction],
    first: &Restriction,
) -> Result<(), CqlError> {
    let forms_ranges = matches!(first.test, Test::Eq(_) | Test::In(_) | Test::Slice(_));
    if let Some(Restriction { columns, test: Test::Slice(_) }) = ranges.last()
        && forms_ranges
    {
        return invalid!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            first.columns[0].name(schema),
            columns[0].name(schema)
        );
    }
    Ok(())
}
