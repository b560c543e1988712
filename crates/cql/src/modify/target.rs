//! Partitions and rows of a write, from the key columns of VALUES or from WHERE.

use std::borrow::Cow;

use model::{ClusteringKey, ClusteringPrefix, ClusteringRange, KeyColumn, PartitionKey, TableSchema};
use protocol::CqlError;
use smallvec::SmallVec;

use crate::error::invalid;
use crate::key;
use crate::restriction::{Partitions, Restrictions};
use crate::term::{Env, Expr, Value};

/// The partitions and rows that a statement writes.
#[derive(Clone, Debug)]
pub enum Target {
    /// INSERT: a term for each key column. `row` is `None` if only static columns are written.
    Values {
        partition: Vec<Expr>,
        row: Option<Vec<Expr>>,
    },
    Where(Box<Restrictions>),
}

/// How a statement identifies its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The statement names no clustering column, although the table has some.
    Nothing,
    /// Complete keys. A table without clustering columns has a single row.
    Keys,
    Ranges,
}

/// The rows of an execution.
#[derive(Clone, Debug)]
pub enum Rows {
    Unnamed,
    Keys(SmallVec<[ClusteringKey; 1]>),
    Ranges(SmallVec<[ClusteringRange; 1]>),
}

impl Rows {
    /// Whether the statement names rows, but no row at all: an empty IN, or slices that select nothing.
    pub fn are_none(&self) -> bool {
        match self {
            Self::Unnamed => false,
            Self::Keys(keys) => keys.is_empty(),
            Self::Ranges(ranges) => ranges.is_empty(),
        }
    }
}

impl Target {
    /// Returns how the statement identifies the rows of a table with this schema.
    pub fn named(&self, schema: &TableSchema) -> Named {
        match self {
            Self::Values { row: Some(_), .. } => Named::Keys,
            Self::Values { row: None, .. } => Named::Nothing,
            Self::Where(_) if schema.clustering.is_empty() => Named::Keys,
            Self::Where(restrictions) => {
                let clustering = &restrictions.clustering;
                let fixed = clustering.fixed_columns();
                if clustering.is_everything() {
                    Named::Nothing
                } else if !clustering.has_slice()
                    && (fixed == schema.clustering.len() || restrictions.names_partial_keys)
                {
                    Named::Keys
                } else {
                    Named::Ranges
                }
            }
        }
    }

    /// Whether the partitions and the rows are given by IN.
    pub fn has_in(&self) -> (bool, bool) {
        match self {
            Self::Values { .. } => (false, false),
            Self::Where(restrictions) => (restrictions.partition.is_in(), restrictions.clustering.has_in()),
        }
    }

    /// Returns the partition of a target with equalities for all partition key columns.
    #[inline]
    pub fn partition(&self, schema: &TableSchema, env: &Env<'_>) -> Result<PartitionKey, CqlError> {
        match self {
            Self::Values { partition, .. } => {
                key::partition_key(schema, &values(partition, &schema.partition_key, env)?)
            }
            Self::Where(restrictions) => restrictions.partition.key(schema, env),
        }
    }

    /// Returns all partitions, without duplicates.
    pub fn partitions(
        &self,
        schema: &TableSchema,
        env: &Env<'_>,
    ) -> Result<SmallVec<[PartitionKey; 1]>, CqlError> {
        match self {
            Self::Values { .. } => Ok(SmallVec::from_elem(self.partition(schema, env)?, 1)),
            Self::Where(restrictions) => {
                let partitions = restrictions.partitions(env)?;
                partitions.check_not_empty()?;
                match partitions {
                    Partitions::Keys(keys) => Ok(keys),
                    Partitions::Range(_) => invalid!("a write names its partitions"),
                }
            }
        }
    }

    /// Returns the rows to write in each partition.
    #[inline]
    pub fn rows(&self, schema: &TableSchema, env: &Env<'_>) -> Result<Rows, CqlError> {
        Ok(match (self, self.named(schema)) {
            (_, Named::Nothing) => Rows::Unnamed,
            (Self::Values { row, .. }, _) => {
                let values = values(row.as_deref().unwrap_or_default(), &schema.clustering, env)?;
                Rows::Keys(SmallVec::from_elem(row_key(schema, &values)?, 1))
            }
            (Self::Where(_), Named::Keys) if schema.clustering.is_empty() => {
                Rows::Keys(SmallVec::from_elem(ClusteringPrefix::EMPTY, 1))
            }
            (Self::Where(restrictions), Named::Keys) => {
                let keys: SmallVec<[ClusteringKey; 1]> = restrictions.row_keys(env)?.into();
                keys.iter().try_for_each(|key| check_dense(schema, key))?;
                Rows::Keys(keys)
            }
            (Self::Where(restrictions), Named::Ranges) => Rows::Ranges(restrictions.ranges(env)?),
        })
    }
}

fn row_key(schema: &TableSchema, values: &[Cow<'_, [u8]>]) -> Result<ClusteringKey, CqlError> {
    match values {
        [] => Ok(ClusteringPrefix::EMPTY),
        values => {
            let key = key::clustering_prefix(schema, values)?.padded(schema.clustering.len());
            check_dense(schema, &key)?;
            Ok(key)
        }
    }
}

/// Cassandra's rule for tables with COMPACT STORAGE and one clustering column.
fn check_dense(schema: &TableSchema, key: &ClusteringKey) -> Result<(), CqlError> {
    if schema.is_dense() && schema.clustering.len() == 1 && key.values().all(<[u8]>::is_empty) {
        return invalid!("Invalid empty or null value for column {}", schema.clustering[0].name);
    }
    Ok(())
}

#[inline]
fn values<'a>(
    exprs: &'a [Expr],
    columns: &[KeyColumn],
    env: &Env<'a>,
) -> Result<SmallVec<[Cow<'a, [u8]>; 4]>, CqlError> {
    let value = |(expr, column): (&'a Expr, &KeyColumn)| match expr.evaluate(env)? {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Null => invalid!("Invalid null value in condition for column {}", column.name),
        Value::Unset => invalid!("Invalid unset value for column {}", column.name),
    };
    exprs.iter().zip(columns).map(value).collect()
}
