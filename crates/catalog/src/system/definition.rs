//! Definitions of the database's own tables.

use std::sync::Arc;

use md5::{Digest, Md5};
use model::{
    Column, ColumnId, ColumnKind, Compression, CqlType, KeyColumn, TableId, TableOptions, TableSchema,
};
use uuid::Uuid;

const SEVEN_DAYS_S: u32 = 7 * 24 * 3600;
const HOUR_MS: u32 = 3600 * 1000;

/// The id of a system table, the same on every node: the version 3 UUID of the names' bytes, without a
/// namespace. Source: Cassandra `TableId.forSystemTable`, Java `UUID.nameUUIDFromBytes`.
pub(crate) fn system_table_id(keyspace: &str, table: &str) -> TableId {
    name_uuid(&[keyspace.as_bytes(), table.as_bytes()].concat())
}

/// Java's `UUID.nameUUIDFromBytes`.
pub(crate) fn name_uuid(bytes: &[u8]) -> Uuid {
    uuid::Builder::from_md5_bytes(Md5::digest(bytes).into()).into_uuid()
}

/// A table of the database. The id of a column is its index in `columns`.
pub(crate) struct Definition {
    pub(crate) keyspace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) comment: &'static str,
    /// Name, followed by the type if it is not text; the type of a clustering column may be followed by `
    /// desc`.
    pub(crate) partition_key: &'static [&'static str],
    pub(crate) clustering: &'static [&'static str],
    /// Name and CQL type; static columns have `static ` before the type.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

fn cql(text: &str) -> CqlType {
    CqlType::from_cql(text, &|_| None).expect("the types below are Cassandra's own")
}

/// Like [`Definition`], with all columns in one text: `name type; name type`.
pub(crate) struct CompactDefinition {
    pub(crate) keyspace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) comment: &'static str,
    pub(crate) partition_key: &'static [&'static str],
    pub(crate) clustering: &'static [&'static str],
    pub(crate) columns: &'static str,
}

impl CompactDefinition {
    pub(crate) fn schema(&self) -> Arc<TableSchema> {
        let columns = self.columns.split(';').map(str::trim).filter(|column| !column.is_empty());
        let columns = columns.map(|column| column.split_once(' ').expect("a column has a name and a type"));
        schema(self.keyspace, self.name, self.comment, [self.partition_key, self.clustering], columns)
    }
}

impl Definition {
    pub(crate) fn schema(&self) -> Arc<TableSchema> {
        let columns = self.columns.iter().copied();
        schema(self.keyspace, self.name, self.comment, [self.partition_key, self.clustering], columns)
    }
}

fn schema<'d>(
    keyspace: &str,
    name: &str,
    comment: &str,
    [partition_key, clustering]: [&[&str]; 2],
    columns: impl Iterator<Item = (&'d str, &'d str)>,
) -> Arc<TableSchema> {
    let key = |text: &&str| {
        let (name, ty) = text.split_once(' ').unwrap_or((text, "text"));
        let ty = match ty.strip_suffix(" desc") {
            Some(ty) => CqlType::reversed(cql(ty)),
            None => cql(ty),
        };
        KeyColumn { name: name.to_string(), ty }
    };
    let mut builder =
        TableSchema::builder(keyspace, name).id(system_table_id(keyspace, name)).options(TableOptions {
            comment: comment.to_string(),
            compression: Some(Compression::lz4(16 * 1024)),
            gc_grace_s: SEVEN_DAYS_S,
            memtable_flush_period_ms: HOUR_MS,
            ..TableOptions::default()
        });
    for KeyColumn { name, ty } in partition_key.iter().map(key) {
        builder = builder.partition_key(name, ty);
    }
    for KeyColumn { name, ty } in clustering.iter().map(key) {
        builder = builder.clustering(name, ty);
    }
    for (id, (name, ty)) in (0..).zip(columns) {
        let (kind, ty) = match ty.strip_prefix("static ") {
            Some(ty) => (ColumnKind::Static, ty),
            None => (ColumnKind::Regular, ty),
        };
        builder = builder.column(Column { id: ColumnId(id), name: name.to_string(), ty: cql(ty), kind });
    }
    builder.build().expect("a definition below is a table")
}
