//! ORDER BY: the order of the table or its reverse, and sorting where rows come from several partitions by IN.

use model::TableSchema;

use crate::CqlError;
use crate::error::invalid;
use crate::restriction::{ColumnRef, Restrictions};
use crate::syntax::{OrderBy, Ordering};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The rows of each partition from the last to the first.
    pub is_reversed: bool,
    /// Rows of several partitions are one sequence.
    pub is_across_partitions: bool,
    /// ORDER BY beside IN on the partition key, which cannot be read in pages, even if the result is one row.
    pub is_unpaged: bool,
}

impl Order {
    /// `is_one_row`: the result is one row, whatever the order.
    ///
    /// # Errors
    /// An order that the table does not have in either direction.
    pub fn prepare(
        schema: &TableSchema,
        order_by: &[OrderBy],
        restrictions: &Restrictions,
        is_one_row: bool,
    ) -> Result<Self, CqlError> {
        if order_by.is_empty() {
            return Ok(Self::default());
        }
        if !restrictions.partition.has_keys() {
            return invalid!(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
            );
        }
        let mut is_reversed = None;
        let mut next = 0;
        // A column that is named twice stands where it is first, in the last direction.
        let is_first = |at: &usize| {
            let column = order_by[*at].column.as_str();
            !order_by[..*at].iter().any(|other| other.column.as_str() == column)
        };
        for at in (0..order_by.len()).filter(is_first) {
            let column = order_by[at].column.as_str();
            let item =
                order_by.iter().rfind(|other| other.column.as_str() == column).expect("it is one of them");
            if item.ann_of.is_some() {
                return invalid!("ANN ordering by vector is not supported yet");
            }
            let name = item.column.as_str();
            let ColumnRef::Clustering(at) = ColumnRef::named(schema, name)? else {
                return invalid!(
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
                );
            };
            // Columns of one value may be left out.
            while next < at && restrictions.clustering.has_eq(next) {
                next += 1;
            }
            if next != at {
                return invalid!(
                    "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
                );
            }
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
        })
    }
}
