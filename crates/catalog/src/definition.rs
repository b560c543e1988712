//! How the database's own tables are written down.

use std::sync::Arc;

use model::{Column, ColumnId, ColumnKind, Compression, CqlType, KeyColumn, TableOptions, TableSchema};

use crate::system::system_table_id;

const SEVEN_DAYS_S: u32 = 7 * 24 * 3600;
const HOUR_MS: u32 = 3600 * 1000;

/// A table of the database. Its columns have the ids of their places in `columns`.
pub(crate) struct Definition {
    pub(crate) keyspace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) comment: &'static str,
    /// Name and, if it is not text, type; behind the type of a clustering column perhaps ` desc`.
    pub(crate) partition_key: &'static [&'static str],
    pub(crate) clustering: &'static [&'static str],
    /// Name and type in CQL; `static ` before the type.
    pub(crate) columns: &'static [(&'static str, &'static str)],
}

fn cql(text: &str) -> CqlType {
    CqlType::from_cql(text, &|_| None).expect("the types below are Cassandra's own")
}

impl Definition {
    pub(crate) fn schema(&self) -> Arc<TableSchema> {
        let key = |text: &&str| {
            let (name, ty) = text.split_once(' ').unwrap_or((text, "text"));
            let ty = match ty.strip_suffix(" desc") {
                Some(ty) => CqlType::reversed(cql(ty)),
                None => cql(ty),
            };
            KeyColumn { name: name.to_string(), ty }
        };
        let mut builder = TableSchema::builder(self.keyspace, self.name)
            .id(system_table_id(self.keyspace, self.name))
            .options(TableOptions {
                comment: self.comment.to_string(),
                compression: Some(Compression::lz4(16 * 1024)),
                gc_grace_s: SEVEN_DAYS_S,
                memtable_flush_period_ms: HOUR_MS,
                ..TableOptions::default()
            });
        for KeyColumn { name, ty } in self.partition_key.iter().map(key) {
            builder = builder.partition_key(name, ty);
        }
        for KeyColumn { name, ty } in self.clustering.iter().map(key) {
            builder = builder.clustering(name, ty);
        }
        for (id, (name, ty)) in (0..).zip(self.columns) {
            let (kind, ty) = match ty.strip_prefix("static ") {
                Some(ty) => (ColumnKind::Static, ty),
                None => (ColumnKind::Regular, *ty),
            };
            builder = builder.column(Column { id: ColumnId(id), name: name.to_string(), ty: cql(ty), kind });
        }
        builder.build().expect("a definition below is a table")
    }
}
