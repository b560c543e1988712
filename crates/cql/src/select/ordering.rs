//! ORDER BY: the table's order or its reverse, and merging of several partitions selected by IN.

use model::{ClusteringKey, TableSchema};
use protocol::CqlError;
use syntax::{OrderBy, Ordering};

use crate::error::invalid;
use crate::restriction::{ColumnRef, Restrictions};

/// A prepared ORDER BY.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Whether the rows of each partition are read from the last to the first.
    pub is_reversed: bool,
    /// Whether the rows of several partitions are merged into one sequence.
    pub is_across_partitions: bool,
    /// Whether ORDER BY is combined with IN on the partition key. Such a statement cannot be paged, even if
    /// the result is a single row.
    pub is_unpaged: bool,
    /// Indexes of the named clustering columns. Rows of several partitions are compared by these columns
    /// only.
    columns: Vec<usize>,
}

impl Order {
    /// Compares rows of different partitions in the order of the result.
    pub fn compare(&self, schema: &TableSchema, a: &ClusteringKey, b: &ClusteringKey) -> std::cmp::Ordering {
        let mut each = self.columns.iter().map(|at| match (a.values().nth(*at), b.values().nth(*at)) {
            (Some(a), Some(b)) => schema.clustering[*at].ty.compare(a, b),
            // Null comes before all values.
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        let order = each.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal);
        if self.is_reversed { order.reverse() } else { order }
    }

    /// Prepares ORDER BY. `is_one_row` is true if the result has one row in any order.
    ///
    /// # Errors
    /// The order is neither that of the table nor its reverse.
    pub fn prepare(
        schema: &TableSchema,
        order_by: &[OrderBy],
        restrictions: &Restrictions,
        is_one_row: bool,
    ) -> Result<Self, CqlError> {
        if order_by.is_empty() {
            return Ok(Self::default());
        }
        if restrictions.excludes_order() {
            return invalid!("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
        }
        if !restrictions.partition.has_keys() {
            return invalid!(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
            );
        }
        let mut is_reversed = None;
        let mut next = 0;
        let mut columns = vec![];
        // A column that is named twice counts at its first position, with its last direction.
        let is_first = |at: &usize| {
            let column = order_by[*at].column.as_str();
            !order_by[..*at].iter().any(|other| other.column.as_str() == column)
        };
        for at in (0..order_by.len()).filter(is_first) {
            let column = order_by[at].column.as_str();
            let item =
                order_by.iter().rfind(|other| other.column.as_str() == column).expect("it is one of them");
            let name = item.column.as_str();
            let ColumnRef::Clustering(at) = ColumnRef::named(schema, name)? else {
                return invalid!(
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
                );
            };
            // Columns restricted to a single value may be left out.
            while next < at && restrictions.clustering.has_eq(next) {
                next += 1;
            }
            if next != at {
                return invalid!(
                    "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
                );
            }
            columns.push(at);
            next += 1;
            let wants_falling = item.ordering == Ordering::Descending;
            let reversed = wants_falling != schema.clustering[at].ty.is_reversed();
            if *is_reversed.get_or_insert(reversed) != reversed {
                return invalid!("Unsupported order by relation");
            }
        }
        Ok(Self {
            is_reversed: is_reversed.unwrap_or(false),
            is_across_partitions: restrictions.partition.is_in() && !is_one_row,
            is_unpaged: restrictions.partition.is_in(),
            columns,
        })
    }
}
