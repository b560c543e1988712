//! Converts values to rows.

use std::net::IpAddr;
use std::sync::Arc;

use model::key::composite_key;
use model::types::CqlValue;
use model::{Cell, ClusteringPrefix, CqlType, Liveness, Mutation, PartitionKey, TableSchema};
use uuid::Uuid;

/// Computed rows have no write time.
const TIMESTAMP_US: i64 = 0;

/// The rows of a table, as mutations.
pub(super) struct Rows {
    schema: Arc<TableSchema>,
    mutations: Vec<Mutation>,
}

impl Rows {
    pub(super) fn new(schema: &Arc<TableSchema>) -> Self {
        Self { schema: schema.clone(), mutations: vec![] }
    }

    pub(super) fn finish(self) -> Vec<Mutation> {
        self.mutations
    }

    /// Adds a row. `key` has the values of the partition key and the clustering key; `cells` has the other
    /// columns, and `None` is skipped.
    ///
    /// # Panics
    /// The table does not have the column, or the value does not have the column's type.
    pub(super) fn push<'n>(
        &mut self,
        key: Vec<CqlValue>,
        cells: impl IntoIterator<Item = (&'n str, Option<CqlValue>)>,
    ) {
        let schema = &self.schema;
        let columns = schema.partition_key.iter().chain(&schema.clustering);
        let key: Vec<Vec<u8>> = columns.zip(&key).map(|(column, value)| encoded(value, &column.ty)).collect();
        let (partition, clustering) = key.split_at(schema.partition_key.len());
        let partition = match partition {
            [only] => PartitionKey::new(only.as_slice()),
            several => PartitionKey::new(composite_key(several.iter().map(Vec::as_slice))),
        };
        let mut mutation = Mutation::new(schema.clone(), partition);
        let row = mutation.row_mut(ClusteringPrefix::new(clustering.iter().map(Vec::as_slice)));
        row.liveness = Liveness::new(TIMESTAMP_US);
        for (name, value) in cells {
            let Some(value) = value else { continue };
            let column = schema.column_named(name).expect("the table has the column");
            let cell = |bytes: Vec<u8>| Cell::live(TIMESTAMP_US, bytes);
            match (&column.ty, value) {
                (CqlType::Set { element, multi_cell: true }, CqlValue::Set(values)) => {
                    for value in values {
                        row.set_element(schema, column, encoded(&value, element), cell(vec![]));
                    }
                }
                (CqlType::Map { entry, multi_cell: true }, CqlValue::Map(entries)) => {
                    for (key, value) in entries {
                        row.set_element(
                            schema,
                            column,
                            encoded(&key, &entry.0),
                            cell(encoded(&value, &entry.1)),
                        );
                    }
                }
                (ty, value) => row.set(column, cell(encoded(&value, ty))),
            }
        }
        self.mutations.push(mutation);
    }
}

fn encoded(value: &CqlValue, ty: &CqlType) -> Vec<u8> {
    value.encode(ty).expect("the value is of its column's type")
}

pub(super) fn text(value: impl Into<String>) -> CqlValue {
    CqlValue::Text(value.into())
}

pub(super) fn int(value: impl Into<i32>) -> CqlValue {
    CqlValue::Int(value.into())
}

pub(super) fn bigint(value: u64) -> CqlValue {
    CqlValue::BigInt(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn uuid(value: Uuid) -> CqlValue {
    CqlValue::Uuid(value.into_bytes())
}

pub(super) fn inet(value: IpAddr) -> CqlValue {
    CqlValue::Inet(value)
}
