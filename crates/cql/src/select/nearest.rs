//! `ORDER BY column ANN OF vector LIMIT n`: the n rows whose vectors are most similar to a vector.
//!
//! The search is exact: it reads the rows that WHERE selects, computes the similarity of each, and keeps the
//! best `n`. Deleted, overwritten and expired vectors are never seen, because only live rows are read. Memory
//! is that of `n` rows and one page of storage; the time grows with the number of rows that are read.
//!
//! Rows without a vector are not part of the result. Of rows with the same similarity, those that were read
//! first come first. Rules and error messages are those of Cassandra 5.0
//! (`cql3/statements/SelectStatement.java`, `cql3/restrictions/StatementRestrictions.java`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use model::{ClusteringRow, CqlType, IndexDefinition, IndexKind, PartitionKey, Row, TableSchema};
use protocol::CqlError;
use syntax::{OrderBy, Relation, Term};

use super::execute::{READ_ROWS, Reading, key_values};
use super::masked::names_of;
use super::rows::RowsBuilder;
use super::value::RowView;
use super::{SelectPlan, limit};
use crate::coordinator::{Host, Storage};
use crate::error::invalid;
use crate::function::Similarity;
use crate::outcome::Execution;
use crate::restriction::ColumnRef;
use crate::term::{Env, Expr, Planner, Value};

/// Largest LIMIT, as in Cassandra.
pub const LIMIT_MAX: u64 = 1000;

/// A prepared ORDER BY … ANN OF.
#[derive(Clone, Debug)]
pub struct Nearest {
    column: ColumnRef,
    dimension: u32,
    similarity: Similarity,
    to: Expr,
}

impl Nearest {
    /// Prepares ORDER BY if it is one of nearest neighbours; `None` if it is another.
    ///
    /// # Errors
    /// There is another order besides, or the column has no vector index.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &TableSchema,
        order_by: &[OrderBy],
    ) -> Result<Option<Self>, CqlError> {
        let mut nearest = order_by.iter().filter_map(|item| Some((item, item.ann_of.as_ref()?)));
        let Some((item, to)) = nearest.next() else { return Ok(None) };
        if nearest.next().is_some() {
            return invalid!("Cannot specify more than one ANN ordering");
        }
        if order_by.len() > 1 {
            return invalid!("ANN ordering does not support any other ordering");
        }
        if item.ordering == syntax::Ordering::Descending {
            return invalid!("Descending ANN ordering is not supported");
        }
        let column = ColumnRef::named(schema, item.column.as_str())?;
        Self::of(planner, schema, column, to).map(Some)
    }

    fn of(
        planner: &mut Planner<'_>,
        schema: &TableSchema,
        column: ColumnRef,
        to: &Term,
    ) -> Result<Self, CqlError> {
        let ty = column.ty(schema).without_reversed().clone();
        let dimension = match &ty {
            CqlType::Vector { element, dimension } if **element == CqlType::Float => *dimension,
            _ => return invalid!("ANN ordering is only supported on float vector indexes"),
        };
        let name = column.name(schema).to_string();
        let index = schema
            .indexes
            .iter()
            .find(|index| index.kind == IndexKind::StorageAttached && index.column == name);
        let Some(index) = index else {
            return invalid!("ANN ordering by vector requires the column to be indexed");
        };
        let similarity = Similarity::of_index(index);
        let to = planner.term(to, &name, &ty)?;
        Ok(Self { column, dimension, similarity, to })
    }

    pub fn column(&self) -> ColumnRef {
        self.column
    }

    fn target(&self, env: &Env<'_>) -> Result<Vec<f32>, CqlError> {
        let bytes = match self.to.evaluate(env)? {
            Value::Bytes(bytes) => bytes,
            Value::Null | Value::Unset => return invalid!("Invalid null value for the vector of ANN OF"),
        };
        let vector = crate::function::floats_of(&bytes, self.dimension)?;
        self.similarity.check(&vector)?;
        Ok(vector)
    }

    /// The similarity of a stored vector. `None` if it cannot be compared: such a vector was written before
    /// the index was created, and Cassandra does not index it either.
    fn score(&self, bytes: &[u8], to: &[f32]) -> Option<f32> {
        let vector = crate::function::floats_of(bytes, self.dimension).ok()?;
        self.similarity.check(&vector).ok()?;
        let score = self.similarity.of(&vector, to).ok()?;
        (!score.is_nan()).then_some(score)
    }
}

/// Checks LIMIT and the clauses that cannot be combined with the order.
///
/// # Errors
/// As Cassandra.
pub fn check_limits(limit_rows: u64, partition_limit: u64) -> Result<(), CqlError> {
    if limit_rows == u64::MAX {
        return invalid!(
            "Top-K queries must have a limit specified and the limit must be less than the query page size"
        );
    }
    if partition_limit != u64::MAX {
        return invalid!("Top-K queries do not support per-partition limits");
    }
    if limit_rows > LIMIT_MAX {
        return invalid!(
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {LIMIT_MAX}. LIMIT was {limit_rows}"
        );
    }
    Ok(())
}

/// Refuses a restriction of a column with a vector index, which only answers searches of nearest vectors.
///
/// # Errors
/// As Cassandra.
pub fn check_restrictions(schema: &TableSchema, relations: &[Relation]) -> Result<(), CqlError> {
    for name in relations.iter().flat_map(names_of) {
        let Ok(column) = ColumnRef::named(schema, name) else { continue };
        let is_of_vectors =
            |index: &IndexDefinition| index.column == name && index.is_of_vectors(column.ty(schema));
        if !column.is_key() && schema.indexes.iter().any(|index| is_of_vectors(index)) {
            return invalid!("Vector indexes only support ANN queries");
        }
    }
    Ok(())
}

impl SelectPlan {
    /// Warning for a client whose page is smaller than the LIMIT of a search, which has one page. The text is
    /// Cassandra's.
    pub fn page_warning(&self, bound: &[protocol::Value<'_>], execution: &Execution<'_>) -> Option<String> {
        let page_rows = execution.page_rows.map(u64::from).filter(|_| self.nearest.is_some())?;
        let env = Env { bound, inputs: &[], now_us: execution.now_us, random: &|| 0 };
        // An error is returned by the execution.
        let limit = limit::evaluate(self.limit.as_ref(), &env).ok()?;
        (page_rows > 0 && page_rows < limit && limit <= LIMIT_MAX).then(|| {
            format!(
                "Top-K queries do not support paging and the page size is set to {page_rows}, which is less than LIMIT {limit}. The page size has been set to {limit} to match the LIMIT."
            )
        })
    }
}

/// A row that may belong to the result.
struct Candidate {
    score: f32,
    /// Position among all rows that were read.
    number: u64,
    key: PartitionKey,
    static_row: Row,
    /// `None` if the partition has only static content.
    row: Option<ClusteringRow>,
}

impl Candidate {
    fn memory_bytes(&self) -> u64 {
        let row_bytes = self.row.as_ref().map_or(0, ClusteringRow::heap_bytes);
        let bytes = size_of::<Self>() + self.key.bytes().len() + self.static_row.heap_bytes() + row_bytes;
        bytes as u64
    }
}

/// A binary heap returns its greatest element: the candidate that is given up first.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

impl Reading<'_, '_> {
    /// Reads all rows that WHERE selects, and adds the nearest to the result.
    pub(super) async fn nearest<C: Storage + Host>(
        &mut self,
        coordinator: &C,
        nearest: &Nearest,
        rows: &mut RowsBuilder<'_>,
        size_logged: &mut bool,
    ) -> Result<(), CqlError> {
        let schema = self.plan.schema.clone();
        let to = nearest.target(rows.env())?;
        let wanted = usize::try_from(self.limit_rows).unwrap_or(usize::MAX);
        let mut best: BinaryHeap<Candidate> = BinaryHeap::new();
        let (mut number, mut memory_bytes) = (0, 0);
        let wants_static = self.plan.restrictions.wants_static_only_partitions();
        while let Some(command) = self.command(READ_ROWS) {
            let page = coordinator.read(command).await?;
            for partition in page.partitions {
                let key_values = key_values(&schema, &partition.key)?;
                let is_static = partition.rows.is_empty() && wants_static;
                let static_only = is_static.then_some(None);
                for row in partition.rows.into_iter().map(Some).chain(static_only) {
                    self.maybe_yield(coordinator).await;
                    number += 1;
                    let view = RowView {
                        partition_key: &key_values,
                        static_row: &partition.static_row,
                        row: row.as_ref(),
                    };
                    if !self.passes(&view) {
                        continue;
                    }
                    let score =
                        view.value(&schema, nearest.column)?.and_then(|bytes| nearest.score(&bytes, &to));
                    let Some(score) = score else { continue };
                    let is_full = best.len() >= wanted;
                    if is_full && best.peek().is_none_or(|worst| worst.score >= score) {
                        continue;
                    }
                    let candidate = Candidate {
                        score,
                        number,
                        key: partition.key.clone(),
                        static_row: partition.static_row.clone(),
                        row,
                    };
                    memory_bytes += candidate.memory_bytes();
                    best.push(candidate);
                    if is_full && let Some(worst) = best.pop() {
                        memory_bytes -= worst.memory_bytes();
                    }
                }
            }
            self.check_memory(coordinator, &mut rows.rows, memory_bytes, size_logged)?;
            if !self.advance(page.next) {
                break;
            }
        }
        for candidate in best.into_sorted_vec() {
            let key_values = key_values(&schema, &candidate.key)?;
            let view = RowView {
                partition_key: &key_values,
                static_row: &candidate.static_row,
                row: candidate.row.as_ref(),
            };
            rows.add(&view)?;
        }
        Ok(())
    }
}
