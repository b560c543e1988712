//! WHERE: which partitions, which rows of them, and what is to be tested on every row.
//!
//! | question | file |
//! |---|---|
//! | a column by its name | `column.rs` |
//! | what is tested against what, from the text | `relation.rs` |
//! | the values it is tested against | `terms.rs` |
//! | which partitions | `partition.rs` |
//! | which rows of a partition | `clustering.rs` |
//! | what has to be tested row by row | `filter.rs`; LIKE: `like.rs` |
//! | keys from values | `key.rs` |
//!
//! Preparing says what the statement's rules forbid; an execution gives values and gets keys and ranges.
//! Source of the rules and of the texts of errors: Cassandra 4.1 `cql3/restrictions/StatementRestrictions.java`.

mod clustering;
mod column;
mod filter;
pub mod key;
mod like;
mod partition;
mod relation;
mod terms;

use std::sync::Arc;

use model::{ClusteringKey, ClusteringRange, TableSchema};
use smallvec::SmallVec;

pub use clustering::ClusteringRestriction;
pub use column::ColumnRef;
pub use filter::{BoundFilters, Filters, contains, contains_key};
pub use like::LikePattern;
pub use partition::{PartitionRestriction, Partitions};
use relation::{Restriction, Test, Tests};

use crate::CqlError;
use crate::error::invalid;
use crate::syntax::{CompareOp, Relation};
use crate::term::{Env, Planner};

/// Keys or rows that the INs of a statement may name together.
pub const IN_PRODUCT_MAX: usize = 65_536;

/// What the peers say when a statement would have to test rows one by one.
pub const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// Whose WHERE it is.
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

/// What the statement is, as far as its WHERE is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub statement: StatementKind,
    pub allow_filtering: bool,
    /// Nothing but static columns is selected, changed or deleted.
    pub only_static: bool,
}

/// A prepared WHERE.
#[derive(Clone, Debug)]
pub struct Restrictions {
    schema: Arc<TableSchema>,
    pub partition: PartitionRestriction,
    pub clustering: ClusteringRestriction,
    pub filters: Filters,
}

impl Restrictions {
    /// # Errors
    /// What the statement does not allow, an unknown column, a term of the wrong type.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &Arc<TableSchema>,
        relations: &[Relation],
        rules: Rules,
    ) -> Result<Self, CqlError> {
        // Not even with ALLOW FILTERING.
        let is_not_eq =
            |relation: &&Relation| matches!(relation, Relation::Compare { op: CompareOp::NotEq, .. });
        if let Some(relation) = relations.iter().find(is_not_eq) {
            return invalid!("Unsupported \"!=\" relation: {relation}");
        }
        let Tests { restrictions, token } = Tests::prepare(planner, schema, relations)?;
        let (mut partition, mut clustering, mut filters) = (vec![], vec![], vec![]);
        for restriction in restrictions {
            if !rules.allow_filtering && matches!(restriction.test, Test::Like(_)) {
                return invalid!(
                    "LIKE restriction is only supported on properly indexed columns. {} LIKE is not valid.",
                    restriction.columns[0].name(schema)
                );
            }
            match restriction.columns[0] {
                ColumnRef::PartitionKey(_) => partition.push(restriction),
                ColumnRef::Clustering(_) => clustering.push(restriction),
                ColumnRef::Static(_) | ColumnRef::Regular(_) => filters.push(restriction),
            }
        }
        if rules.statement != StatementKind::Select {
            check_modification(schema, rules, &partition, &filters, token.is_some())?;
        }
        let (keys, rest) = partition_keys(schema, partition);
        let mut needs_filtering = !rest.is_empty() || !filters.is_empty();
        filters.extend(rest);

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
        if !rules.allow_filtering || rules.statement != StatementKind::Select {
            check_prefix(schema, &ranges, &rest)?;
        }
        needs_filtering |= !rest.is_empty();
        filters.extend(rest);
        let partition = PartitionRestriction::new(keys, token);
        // Rows of all partitions cannot be found by their clustering key alone.
        needs_filtering |= !partition.has_keys() && !ranges.is_empty();
        if needs_filtering && !rules.allow_filtering {
            return invalid!("{NEEDS_FILTERING}");
        }
        let clustering = ClusteringRestriction::new(ranges);
        if rules.statement == StatementKind::Update
            && !rules.only_static
            && (clustering.has_slice() || clustering.fixed_columns() < schema.clustering.len())
        {
            if clustering.has_slice() {
                return invalid!(
                    "Slice restrictions are not supported on the clustering columns in UPDATE statements"
                );
            }
            let missing: Vec<&str> = schema.clustering[clustering.fixed_columns()..]
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return invalid!("Some clustering keys are missing: {}", missing.join(", "));
        }
        let filters = Filters::new(filters);
        Ok(Self { schema: Arc::clone(schema), partition, clustering, filters })
    }

    /// The wanted partitions.
    ///
    /// # Errors
    /// Null or unset values, or none that a key can be made of.
    pub fn partitions<'a>(&'a self, env: &Env<'a>) -> Result<Partitions, CqlError> {
        self.partition.partitions(&self.schema, env)
    }

    /// The wanted rows of each partition: disjoint, rising ranges.
    ///
    /// # Errors
    /// As [`Self::partitions`].
    pub fn ranges<'a>(&'a self, env: &Env<'a>) -> Result<SmallVec<[ClusteringRange; 1]>, CqlError> {
        self.clustering.ranges(&self.schema, env)
    }

    /// The wanted rows, where every clustering column has = or IN, as UPDATE demands.
    ///
    /// # Errors
    /// As [`Self::partitions`].
    pub fn row_keys<'a>(&'a self, env: &Env<'a>) -> Result<Vec<ClusteringKey>, CqlError> {
        self.clustering.keys(&self.schema, env)
    }

    /// A column of the primary key has one value.
    pub fn has_eq(&self, column: ColumnRef) -> bool {
        match column {
            ColumnRef::PartitionKey(at) => self.partition.has_eq(at),
            ColumnRef::Clustering(at) => self.clustering.has_eq(at),
            ColumnRef::Static(_) | ColumnRef::Regular(_) => false,
        }
    }

    /// A clustering column is restricted, by key or by filter.
    pub fn restricts_clustering(&self) -> bool {
        !self.clustering.is_everything()
            || self.filters.any(|column| matches!(column, ColumnRef::Clustering(_)))
    }

    /// A partition that has nothing but static content is an answer.
    pub fn wants_static_only_partitions(&self) -> bool {
        !self.restricts_clustering() && !self.filters.any(|column| matches!(column, ColumnRef::Regular(_)))
    }
}

/// What changes and deletions must say of the partition, and may not say of other columns.
fn check_modification(
    schema: &TableSchema,
    rules: Rules,
    partition: &[Restriction],
    filters: &[Restriction],
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
    if !filters.is_empty() {
        let names: Vec<&str> = filters.iter().map(|filter| filter.columns[0].name(schema)).collect();
        return invalid!("Non PRIMARY KEY columns found in where clause: {} ", names.join(", "));
    }
    Ok(())
}

/// The tests that name whole keys, and those that can only filter.
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

/// Without filtering, the restricted clustering columns are the first ones, and a slice comes last.
fn check_prefix(schema: &TableSchema, ranges: &[Restriction], rest: &[Restriction]) -> Result<(), CqlError> {
    let Some(first) = rest.first() else { return Ok(()) };
    let name = first.columns[0].name(schema);
    if !matches!(first.test, Test::Eq(_) | Test::In(_) | Test::Slice(_)) {
        return invalid!(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
        );
    }
    if let Some(Restriction { columns, test: Test::Slice(_) }) = ranges.last() {
        return invalid!(
            "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            columns[0].name(schema)
        );
    }
    let restricted: usize = ranges.iter().map(|restriction| restriction.columns.len()).sum();
    invalid!(
        "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
        schema.clustering[restricted].name
    )
}
