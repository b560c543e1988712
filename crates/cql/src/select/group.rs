//! GROUP BY: consecutive rows of a partition with the same first clustering columns form one row of the
//! result. A function may be applied to the last column; then its results are compared.
//!
//! Rules and error messages follow Cassandra 4.1 `SelectStatement.getAggregationSpecFactory`.

use model::TableSchema;
use protocol::CqlError;
use syntax::Selector;

use super::named;
use super::selection::Selection;
use super::value::RowView;
use crate::error::invalid;
use crate::function::Aggregate;
use crate::restriction::{ColumnRef, Restrictions};
use crate::term::{Env, Expr, Planner, Value};

/// A prepared GROUP BY.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// Number of clustering columns that are equal in all rows of a group.
    clustering: usize,
    /// A function of the next clustering column, whose result is also equal. The column is its only input.
    by: Option<(Expr, ColumnRef)>,
}

/// The values that the rows of a group share, besides the partition. `None` for a partition without rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey(Option<Vec<Option<Vec<u8>>>>);

impl Grouping {
    /// Prepares GROUP BY; `None` if the statement has none.
    ///
    /// # Errors
    /// The columns are not the first columns of the primary key. Columns restricted to a single value may be
    /// left out.
    pub fn prepare(
        planner: &mut Planner<'_>,
        schema: &std::sync::Arc<TableSchema>,
        group_by: &[Selector],
        restrictions: &Restrictions,
        is_distinct: bool,
    ) -> Result<Option<Self>, CqlError> {
        if group_by.is_empty() {
            return Ok(None);
        }
        let mut keys = (0..schema.partition_key.len())
            .map(ColumnRef::PartitionKey)
            .chain((0..schema.clustering.len()).map(ColumnRef::Clustering))
            .peekable();
        let mut grouping = Self { clustering: 0, by: None };
        for selector in group_by {
            if grouping.by.is_some() {
                return invalid!("Functions are only supported on the last element of the GROUP BY clause");
            }
            let column = match selector {
                Selector::Column(name) => {
                    let column = ColumnRef::named(schema, name.as_str())?;
                    if !column.is_key() {
                        return invalid!(
                            "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                            name.as_str()
                        );
                    }
                    column
                }
                call => {
                    let (expr, column) = function(planner, schema, call)?;
                    grouping.by = Some((expr, column));
                    column
                }
            };
            loop {
                let Some(key) = keys.next() else { return out_of_order() };
                if let ColumnRef::Clustering(at) = key {
                    grouping.clustering = at + 1;
                }
                if key == column {
                    break;
                }
                if !restrictions.has_eq(key) {
                    return out_of_order();
                }
            }
        }
        if matches!(keys.peek(), Some(ColumnRef::PartitionKey(_))) {
            return invalid!("Group by is not supported on only a part of the partition key");
        }
        if grouping.clustering > 0 && is_distinct {
            return invalid!("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
        }
        if grouping.by.is_some() {
            grouping.clustering -= 1;
        }
        Ok(Some(grouping))
    }

    /// Returns the group of a row.
    ///
    /// # Errors
    /// The function rejects the value.
    pub fn key(&self, schema: &TableSchema, view: &RowView<'_>, env: &Env<'_>) -> Result<GroupKey, CqlError> {
        let Some(row) = view.row else { return Ok(GroupKey(None)) };
        // The last values of the key may be null.
        let nulls = std::iter::repeat_with(|| None);
        let values = row.key.values().map(|value| Some(value.to_vec())).chain(nulls).take(self.clustering);
        let mut values: Vec<Option<Vec<u8>>> = values.collect();
        if let Some((expr, column)) = &self.by {
            let inputs = [view.value(schema, *column)?];
            values.push(match expr.evaluate(&Env { inputs: &inputs, ..*env })? {
                Value::Bytes(bytes) => Some(bytes.into_owned()),
                Value::Null | Value::Unset => None,
            });
        }
        Ok(GroupKey(Some(values)))
    }

    /// Whether a row of the same partition belongs to the group. Values that compare as equal belong to the
    /// same group.
    ///
    /// # Errors
    /// The function rejects the value.
    pub fn is_in(
        &self,
        group: &GroupKey,
        schema: &TableSchema,
        view: &RowView<'_>,
        env: &Env<'_>,
    ) -> Result<bool, CqlError> {
        let (Some(row), Some(values)) = (view.row, &group.0) else { return Ok(false) };
        let mut have = row.key.values();
        let mut columns = schema.clustering.iter().zip(values).take(self.clustering);
        let is_same = columns.all(|(column, value)| match (have.next(), value) {
            (Some(have), Some(value)) => column.ty.compare(have, value).is_eq(),
            (have, value) => have.is_none() && value.is_none(),
        });
        Ok(is_same && (self.by.is_none() || self.key(schema, view, env)? == *group))
    }
}

fn out_of_order<T>() -> Result<T, CqlError> {
    invalid!(
        "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"
    )
}

/// Prepares a function of one clustering column.
fn function(
    planner: &mut Planner<'_>,
    schema: &std::sync::Arc<TableSchema>,
    selector: &Selector,
) -> Result<(Expr, ColumnRef), CqlError> {
    match selector {
        Selector::CountRows(_) => {
            return invalid!("Aggregate functions are not supported within the GROUP BY clause, got: count");
        }
        Selector::Call { name, .. } if Aggregate::is_name(&name.name.text) => {
            return invalid!(
                "Aggregate functions are not supported within the GROUP BY clause, got: {}",
                name.name.text
            );
        }
        Selector::Call { .. } => {}
        other => {
            return invalid!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                other.column_name()
            );
        }
    }
    match named::columns(schema, selector)?[..] {
        [column @ ColumnRef::Clustering(_)] => {
            let (expr, _) = Selection::term(planner, schema, selector)?;
            Ok((expr, column))
        }
        [column] => invalid!(
            "Group by functions are only supported on clustering columns, got {}",
            column.name(schema)
        ),
        [] => invalid!("GROUP BY functions must have one clustering column name as parameter"),
        ref columns => {
            let names: Vec<&str> = columns.iter().map(|column| column.name(schema)).collect();
            invalid!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                names.join(",")
            )
        }
    }
}
