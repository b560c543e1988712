//! SELECT: a plan that is made once, and what carrying it out gives.
//!
//! | question | file |
//! |---|---|
//! | what is done with each row | `selection.rs`; literals with columns in them `selection/literals.rs` |
//! | rows of the result in the making | `rows.rs` |
//! | values and times out of cells | `value.rs` |
//! | which order, which limits | `ordering.rs`, `limit.rs` |
//! | which rows are one by GROUP BY | `group.rs` |
//! | what one partition has given | `given.rs` |
//! | reading page by page | `execute.rs`; of groups `grouped.rs`; of sorted partitions `sorted.rs` |
//! | where the next page begins, as bytes | `paging.rs` |
//!
//! A plan is immutable and knows no execution: all shards share one. A plan is as old as its schema; when the table
//! changes, the statement is prepared again.

mod execute;
mod given;
mod group;
mod grouped;
mod limit;
mod ordering;
mod paging;
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
use ordering::Order;
pub use selection::Selection;

use crate::CqlError;
use crate::error::invalid;
use crate::protocol::{self, ColumnSpec, ResultMetadata};
use crate::restriction::{ColumnRef, Restrictions, Rules, StatementKind};
use crate::syntax::Select;
use crate::term::{Env, Expr, Planner, Value};

/// A prepared SELECT.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    schema: Arc<TableSchema>,
    selection: Selection,
    restrictions: Restrictions,
    order: Order,
    grouping: Option<Grouping>,
    is_distinct: bool,
    limit: Option<Expr>,
    partition_limit: Option<Expr>,
    bypass_cache: bool,
    timeout: Option<Expr>,
    service_level: Option<String>,
    markers: Vec<ColumnSpec>,
    partition_key_markers: Vec<u16>,
    metadata: Arc<ResultMetadata>,
}

/// Plans a SELECT; the planner is made for the statement's keyspace and table and the number of its markers.
///
/// # Errors
/// The table does not exist, a column or function is unknown, types do not fit, the peers' rules forbid it.
pub fn prepare(mut planner: Planner<'_>, select: &Select) -> Result<SelectPlan, CqlError> {
    let planner_ref = &mut planner;
    let Some(schema) = planner_ref.catalog.schema(&planner_ref.keyspace, &planner_ref.table).cloned() else {
        if planner_ref.catalog.keyspace(&planner_ref.keyspace).is_none() {
            return invalid!("keyspace {} does not exist", planner_ref.keyspace);
        }
        return invalid!("table {} does not exist", planner_ref.table);
    };
    let selection = Selection::prepare(planner_ref, &schema, &select.selection)?;
    let selection = if select.json { selection.into_json(planner_ref) } else { selection };
    let restrictions = Restrictions::prepare(
        planner_ref,
        &schema,
        &select.relations,
        Rules {
            statement: StatementKind::Select,
            allow_filtering: select.allow_filtering,
            only_static: selection.is_only_static(),
        },
    )?;
    if select.distinct {
        check_distinct(&schema, &selection, &restrictions)?;
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
    let order = Order::prepare(&schema, &select.order_by, &restrictions, is_one_row)?;
    let partition_limit =
        limit::prepare(planner_ref, select.per_partition_limit.as_ref(), &limit::PER_PARTITION)?;
    let limit = limit::prepare(planner_ref, select.limit.as_ref(), &limit::OF_ALL)?;
    let timeout = match &select.using.timeout {
        Some(term) => Some(planner_ref.term(term, "[timeout]", &model::CqlType::Duration)?),
        None => None,
    };
    let metadata = Arc::new(ResultMetadata::new(&selection.columns));
    Ok(SelectPlan {
        partition_key_markers: restrictions.partition.markers(),
        schema,
        selection,
        restrictions,
        order,
        grouping,
        is_distinct: select.distinct,
        limit,
        partition_limit,
        bypass_cache: select.bypass_cache,
        timeout,
        service_level: select.using.service_level.as_ref().map(|level| level.text.clone()),
        markers: planner.markers.finish()?,
        metadata,
    })
}

fn check_distinct(
    schema: &TableSchema,
    selection: &Selection,
    restrictions: &Restrictions,
) -> Result<(), CqlError> {
    if restrictions.restricts_clustering()
        || restrictions.filters.any(|column| matches!(column, ColumnRef::Regular(_)))
    {
        return invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        );
    }
    let reads = selection.reads();
    for column in &reads {
        if !matches!(column, ColumnRef::PartitionKey(_) | ColumnRef::Static(_)) {
            return invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                column.name(schema)
            );
        }
    }
    // In a range of the ring nothing else tells the partitions apart.
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
    /// Aggregates of all rows together.
    fn is_one_row(&self) -> bool {
        self.selection.is_aggregate() && self.grouping.is_none()
    }

    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub fn table(&self) -> TableId {
        self.schema.id
    }

    /// What clients are told of the result.
    pub fn metadata(&self) -> &Arc<ResultMetadata> {
        &self.metadata
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.selection.columns
    }

    /// What clients are told of each bind marker.
    pub fn markers(&self) -> &[ColumnSpec] {
        &self.markers
    }

    /// For each column of the partition key the marker that gives it; empty if not all come from markers.
    pub fn partition_key_markers(&self) -> &[u16] {
        &self.partition_key_markers
    }

    /// One partition at most is read.
    pub fn is_single_partition(&self) -> bool {
        self.restrictions.partition.is_single()
    }

    /// The partition that is read, if it [`Self::is_single_partition`]: for whoever sends the request to its shard.
    ///
    /// # Errors
    /// The values make no key; carrying out the plan says the same.
    pub fn partition_key(&self, bound: &[protocol::Value<'_>]) -> Result<Option<PartitionKey>, CqlError> {
        if !self.is_single_partition() {
            return Ok(None);
        }
        let env = Env { bound, inputs: &[], now_us: 0, random: &|| 0 };
        self.restrictions.partition.key(&self.schema, &env).map(Some)
    }

    /// Whether USING TIMEOUT is there.
    #[inline]
    pub fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// What clients are told besides: that rows of many partitions are put together. The words are Cassandra's.
    pub fn warning(&self) -> Option<&'static str> {
        if !self.selection.is_aggregate() && self.grouping.is_none() {
            return None;
        }
        let partition = &self.restrictions.partition;
        match (partition.has_keys() || partition.has_token(), partition.is_in()) {
            (false, _) => Some("Aggregation query used without partition key"),
            (true, true) => Some("Aggregation query used on multiple partition keys (IN restriction)"),
            (true, false) => None,
        }
    }

    /// USING SERVICE LEVEL.
    pub fn service_level(&self) -> Option<&str> {
        self.service_level.as_deref()
    }

    /// USING TIMEOUT in microseconds.
    ///
    /// # Errors
    /// It is null, negative, or has months or days in it.
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
