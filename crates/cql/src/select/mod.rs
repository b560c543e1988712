//! SELECT: planning a statement once, and executing the plan.
//!
//! | question | file |
//! |---|---|
//! | computation for each row | `selection.rs`; literals that contain columns `selection/literals.rs` |
//! | columns that selectors name | `named.rs` |
//! | full names of user-defined functions | `qualified.rs` |
//! | building the rows of the result | `rows.rs` |
//! | values and times of cells | `value.rs` |
//! | the selection with masked values | `masked.rs` |
//! | order and limits | `ordering.rs`, `limit.rs`; nearest vectors `nearest.rs` |
//! | rows that GROUP BY puts together | `group.rs` |
//! | rows that the current partition has contributed | `given.rs` |
//! | reading page by page | `execute.rs`; groups `grouped.rs`; merged partitions `sorted.rs` |
//! | the place where the next page starts, as bytes | `paging.rs` |
//!
//! A plan is immutable and holds no state of an execution, so all shards share it. A plan is valid for one
//! version of the table's schema; when the table changes, the statement is prepared again.

mod execute;
mod given;
mod group;
mod grouped;
mod limit;
mod masked;
mod named;
mod nearest;
mod ordering;
mod paging;
mod qualified;
mod rows;
mod selection;
mod sorted;
#[cfg(test)]
pub(crate) mod tests;
mod value;

use std::sync::Arc;

use model::types::Duration;
use model::{PartitionKey, TableId, TableSchema};

pub use execute::execute;
use group::Grouping;
pub use masked::MaskedPlan;
use nearest::Nearest;
use ordering::Order;
pub use selection::Selection;

use crate::error::invalid;
use crate::restriction::{ColumnRef, Restrictions, Rules, StatementKind};
use crate::term::{Env, Expr, Planner, UserCall, Value};
use protocol::{self, ColumnSpec, CqlError, ResultMetadata};
use syntax::Select;
use syntax::ast::{InValues, OrderBy, Relation, RelationTarget};

const DISTINCT_RESTRICTION: &str =
    "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.";

/// A prepared SELECT.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    schema: Arc<TableSchema>,
    selection: Selection,
    restrictions: Restrictions,
    order: Order,
    /// ORDER BY … ANN OF.
    nearest: Option<Nearest>,
    grouping: Option<Grouping>,
    is_distinct: bool,
    limit: Option<Expr>,
    partition_limit: Option<Expr>,
    bypass_cache: bool,
    timeout: Option<Expr>,
    service_level: Option<String>,
    markers: Vec<ColumnSpec>,
    /// The user-defined functions that the statement calls.
    calls: Vec<UserCall>,
    partition_key_markers: Vec<u16>,
    /// Whether WHERE names a column of the partition key, and whether by IN.
    restricts_partitions: bool,
    names_partitions_by_in: bool,
    metadata: Arc<ResultMetadata>,
    /// The variant for users who see masked values; `None` if no column is masked.
    masked: Option<Arc<MaskedPlan>>,
}

/// Whether a relation names a column of the partition key.
fn restricts_partitions(schema: &TableSchema, relation: &Relation) -> bool {
    match relation {
        Relation::Compare { target, .. } | Relation::In { target, .. } => match target {
            RelationTarget::Column(column) => schema.partition_key.iter().any(|key| key.name == column.text),
            RelationTarget::Token { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// Plans a SELECT. The planner must have been created for the statement's keyspace and table and for the
/// number of its bind markers.
///
/// # Errors
/// The table does not exist, a column or function is unknown, types do not fit, or a rule of Cassandra and
/// ScyllaDB forbids the statement.
pub fn prepare(mut planner: Planner<'_>, select: &Select) -> Result<SelectPlan, CqlError> {
    let planner_ref = &mut planner;
    let Some(schema) = planner_ref.catalog.schema(&planner_ref.keyspace, &planner_ref.table).cloned() else {
        if planner_ref.catalog.keyspace(&planner_ref.keyspace).is_none() {
            return invalid!("keyspace {} does not exist", planner_ref.keyspace);
        }
        return invalid!("table {} does not exist", planner_ref.table);
    };
    let table = planner_ref.catalog.table(&planner_ref.keyspace, &planner_ref.table).cloned();
    // As in Cassandra, the selection is prepared after WHERE.
    let only_static = named::is_only_static(&schema, &select.selection)?;
    let is_nearest = select.order_by.iter().any(|item| item.ann_of.is_some());
    nearest::check_restrictions(&schema, &select.relations)?;
    let restrictions = Restrictions::prepare(
        planner_ref,
        &schema,
        &select.relations,
        Rules {
            statement: StatementKind::Select,
            // The search of nearest vectors has its own check, which ALLOW FILTERING does not switch off.
            allow_filtering: select.allow_filtering || is_nearest,
            only_static,
        },
    )?;
    let selection = Selection::prepare(planner_ref, &schema, &select.selection)?;
    let selection = if select.json { selection.into_json(planner_ref) } else { selection };
    if select.distinct {
        check_distinct(&schema, &selection, &restrictions, &select.order_by)?;
    }
    let grouping = Grouping::prepare(planner_ref, &schema, &select.group_by, &restrictions, select.distinct)?;
    let is_one_row = selection.is_aggregate() && grouping.is_none();
    if select.per_partition_limit.is_some() {
        if select.distinct {
            return invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
        }
        if is_one_row {
            return invalid!("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
    }
    let nearest = Nearest::prepare(planner_ref, &schema, &select.order_by)?;
    let order = match &nearest {
        Some(_) if restrictions.filters_rows() => {
            return invalid!("ANN ordering by vector requires all restricted column(s) to be indexed");
        }
        Some(_) if restrictions.partition.is_in() => {
            return invalid!(
                "Select on indexed columns and with IN clause for the PRIMARY KEY are not supported"
            );
        }
        Some(nearest) if select.distinct && !matches!(nearest.column(), ColumnRef::Static(_)) => {
            return invalid!("{DISTINCT_RESTRICTION}");
        }
        Some(_) if is_one_row || grouping.is_some() => {
            return invalid!("Top-K queries can not be run with aggregation");
        }
        Some(_) => Order::default(),
        None => Order::prepare(&schema, &select.order_by, &restrictions, is_one_row)?,
    };
    restrictions.check_filtering()?;
    let partition_limit =
        limit::prepare(planner_ref, select.per_partition_limit.as_ref(), &limit::PER_PARTITION)?;
    let limit = limit::prepare(planner_ref, select.limit.as_ref(), &limit::OF_ALL)?;
    let timeout = match &select.using.timeout {
        Some(term) => Some(planner_ref.term(term, "[timeout]", &model::CqlType::Duration)?),
        None => None,
    };
    let metadata = Arc::new(ResultMetadata::new(&selection.columns));
    // A compact table without clustering columns has one row in a partition, which is its static row.
    let is_distinct = select.distinct || schema.is_static_compact();
    let partition_key_markers = planner.markers.of_partition_key(&schema);
    let markers = planner.markers.finish()?;
    let mut plan = SelectPlan {
        names_partitions_by_in: select.relations.iter().any(|relation| {
            // A single value in the list of IN is an equality.
            let is_one =
                matches!(relation, Relation::In { values: InValues::List(terms), .. } if terms.len() == 1);
            matches!(relation, Relation::In { .. }) && !is_one && restricts_partitions(&schema, relation)
        }),
        restricts_partitions: select.relations.iter().any(|relation| restricts_partitions(&schema, relation)),
        selection,
        restrictions,
        order,
        nearest,
        grouping,
        is_distinct,
        limit,
        partition_limit,
        bypass_cache: select.bypass_cache,
        timeout,
        service_level: select.using.service_level.as_ref().map(|level| level.text.clone()),
        partition_key_markers,
        markers,
        calls: planner.calls,
        metadata,
        masked: None,
        schema,
    };
    plan.masked = table.and_then(|table| MaskedPlan::new(&plan, &table.settings, &select.relations));
    Ok(plan)
}

fn check_distinct(
    schema: &TableSchema,
    selection: &Selection,
    restrictions: &Restrictions,
    order_by: &[OrderBy],
) -> Result<(), CqlError> {
    if restrictions.restricts_clustering()
        || restrictions.filters.any(|column| matches!(column, ColumnRef::Regular(_)))
    {
        return invalid!("{DISTINCT_RESTRICTION}");
    }
    let mut reads = selection.reads();
    // Rows of several partitions are sorted by columns of the result.
    if restrictions.partition.is_in() {
        for item in order_by.iter().filter(|item| item.ann_of.is_none()) {
            reads.push(ColumnRef::named(schema, item.column.as_str())?);
        }
    }
    for column in &reads {
        if !matches!(column, ColumnRef::PartitionKey(_) | ColumnRef::Static(_)) {
            return invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                column.name(schema)
            );
        }
    }
    // In a read of a token range, only the partition key columns distinguish the partitions.
    for (at, column) in schema.partition_key.iter().enumerate() {
        if !restrictions.partition.has_keys() && !reads.contains(&ColumnRef::PartitionKey(at)) {
            return invalid!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                column.name
            );
        }
    }
    Ok(())
}

impl SelectPlan {
    /// Whether the selection aggregates all rows into one.
    fn is_one_row(&self) -> bool {
        self.selection.is_aggregate() && self.grouping.is_none()
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub fn table(&self) -> TableId {
        self.schema.id
    }

    /// The variant for users who see masked values; `None` if no column is masked.
    pub fn masked(&self) -> Option<&MaskedPlan> {
        self.masked.as_deref()
    }

    /// Metadata of the result, for clients.
    pub fn metadata(&self) -> &Arc<ResultMetadata> {
        &self.metadata
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.selection.columns
    }

    /// Metadata of the bind markers, for clients.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    /// The user-defined functions that the statement calls.
    pub fn calls(&self) -> &[UserCall] {
        &self.calls
    }

    /// Index of the bind marker for each partition key column; empty if not all columns are bound to markers.
    pub fn partition_key_markers(&self) -> &[u16] {
        &self.partition_key_markers
    }

    /// Whether the statement reads at most one partition.
    pub fn is_single_partition(&self) -> bool {
        self.restrictions.partition.is_single()
    }

    /// Returns the partition that is read if [`Self::is_single_partition`]. The caller uses the key to find
    /// the partition's shard.
    ///
    /// # Errors
    /// The values do not form a key. Executing the plan returns the same error.
    pub fn partition_key(&self, bound: &[protocol::Value<'_>]) -> Result<Option<PartitionKey>, CqlError> {
        if !self.is_single_partition() {
            return Ok(None);
        }
        let env = Env { bound, inputs: &[], now_us: 0, random: &|| 0 };
        self.restrictions.partition.key(&self.schema, &env).map(Some)
    }

    /// Whether the statement has USING TIMEOUT.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// Warning for the client if the statement aggregates rows of many partitions. The texts are Cassandra's.
    pub fn warning(&self) -> Option<&'static str> {
        if !self.selection.is_aggregate() && self.grouping.is_none() {
            return None;
        }
        let partition = &self.restrictions.partition;
        let has_in = (partition.is_in() || self.names_partitions_by_in) && !partition.has_token();
        match (self.restricts_partitions, has_in) {
            (false, _) => Some("Aggregation query used without partition key"),
            (true, true) => Some("Aggregation query used on multiple partition keys (IN restriction)"),
            (true, false) => None,
        }
    }

    /// The name in USING SERVICE LEVEL.
    pub fn service_level(&self) -> Option<&str> {
        self.service_level.as_deref()
    }

    /// The value of USING TIMEOUT in microseconds.
    ///
    /// # Errors
    /// The duration is null, negative, or has months or days.
    pub fn timeout_us(&self, bound: &[protocol::Value<'_>]) -> Result<Option<i64>, CqlError> {
        let Some(timeout) = &self.timeout else { return Ok(None) };
        let env = Env { bound, inputs: &[], now_us: 0, random: &|| 0 };
        let duration = match timeout.evaluate(&env)? {
            Value::Bytes(bytes) => Duration::from_bytes(&bytes),
            Value::Unset => return Ok(None),
            Value::Null => None,
        };
        match duration {
            Some(Duration { months: 0, days: 0, nanoseconds }) if nanoseconds >= 0 => {
                Ok(Some(nanoseconds / 1_000))
            }
            Some(_) => invalid!("Timeout values must be non-negative and have neither months nor days"),
            None => invalid!("Timeout value cannot be null"),
        }
    }
}
