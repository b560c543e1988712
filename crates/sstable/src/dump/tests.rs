//! Cases that the samples of `read/tests/samples.rs` do not cover: texts of times, and the table of a header.

use std::rc::Rc;

use model::types::CqlType;
use model::{
    Cell, ClusteringPrefix, Liveness, PartitionKey, Position, RangeTombstoneChange, Row, TableSchema,
    Tombstone,
};
use reader::{Fragment, RowFragment};

use super::*;
use crate::component::statistics::{DeltaBases, HeaderColumn, SerializationHeader};

#[test]
fn a_partition_is_printed_with_times_as_text() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("p", CqlType::Text)
        .partition_key("q", CqlType::Int)
        .clustering("c", CqlType::reversed(CqlType::Int))
        .regular("Value", CqlType::Text)
        .build()
        .unwrap();
    let key = PartitionKey::new(model::key::composite_key([&b"a:\"b"[..], &[0, 0, 0, 7]]));
    let mut row = Row::new();
    row.liveness = Liveness::expiring(1_700_000_000_000_105, 60, 1_700_000_000);
    let value = schema.column_named("Value").unwrap();
    row.set(value, Cell::tombstone(1_700_000_000_000_105, 1_700_000_000));
    let one = ClusteringPrefix::new([&[0, 0, 0, 1][..]]);
    let change = |position, tombstone| Fragment::Change(RangeTombstoneChange { position, tombstone });
    let fragments = [
        Fragment::PartitionStart { key, tombstone: Tombstone::LIVE },
        change(Position::START, Tombstone::new(1_600_000_000_000_000, 1_600_000_000)),
        Fragment::Row(RowFragment { key: one.clone(), row: Rc::new(row) }),
        change(Position::before(one), Tombstone::LIVE),
        Fragment::PartitionEnd,
        Fragment::PartitionStart {
            key: PartitionKey::new(model::key::composite_key([&b""[..], b""])),
            tombstone: Tombstone::new(1_600_000_000_000_000, 1_600_000_000),
        },
        Fragment::PartitionEnd,
    ];
    let mut dump = JsonDump::new(schema, DumpOptions { raw_times: false, now_s: 1_700_000_061 });
    fragments.iter().for_each(|fragment| dump.push(fragment));
    let expected = r#"[
  {
    "partition" : {
      "key" : [ "a:\"b", "7" ]
    },
    "rows" : [
      {
        "type" : "range_tombstone_bound",
        "start" : {
          "type" : "inclusive",
          "deletion_info" : { "marked_deleted" : "2020-09-13T12:26:40Z", "local_delete_time" : "2020-09-13T12:26:40Z" }
        }
      },
      {
        "type" : "row",
        "clustering" : [ 1 ],
        "liveness_info" : { "tstamp" : "2023-11-14T22:13:20.000105Z", "ttl" : 60, "expires_at" : "2023-11-14T22:14:20Z", "expired" : true },
        "cells" : [
          { "name" : "\"Value\"", "deletion_info" : { "local_delete_time" : "2023-11-14T22:13:20Z" }
          }
        ]
      },
      {
        "type" : "range_tombstone_bound",
        "end" : {
          "type" : "exclusive",
          "clustering" : [ 1 ],
          "deletion_info" : { "marked_deleted" : "2020-09-13T12:26:40Z", "local_delete_time" : "2020-09-13T12:26:40Z" }
        }
      }
    ]
  },
  {
    "partition" : {
      "key" : [ "", "" ],
      "deletion_info" : { "marked_deleted" : "2020-09-13T12:26:40Z", "local_delete_time" : "2020-09-13T12:26:40Z" }
    },
    "rows" : [ ]
  }
]"#;
    assert_eq!(dump.finish(), expected);
}

#[test]
fn a_header_is_a_table() {
    let column =
        |name: &[u8], ty: CqlType| HeaderColumn { name: name.to_vec(), type_name: ty.to_java_name() };
    let mut header = SerializationHeader {
        bases: DeltaBases::NONE,
        key_type: CqlType::composite([CqlType::Int, CqlType::Text]).to_java_name(),
        clustering_types: vec![CqlType::reversed(CqlType::Int).to_java_name()],
        static_columns: vec![column(b"s", CqlType::Int)],
        regular_columns: vec![column(b"(clustering 0)", CqlType::Text)],
    };
    let schema = schema_of_header(&header).unwrap();
    assert_eq!((schema.partition_key.len(), schema.clustering.len(), schema.columns().len()), (2, 1, 2));
    assert!(schema.clustering[0].ty.is_reversed());
    header.regular_columns[0].name = vec![0xff];
    assert_eq!(schema_of_header(&header).unwrap_err().to_string(), r"a column's name is not UTF-8: \xff");
    header.regular_columns[0] = column(b"v", CqlType::Text);
    header.regular_columns[0].type_name = "org.example.MyType".into();
    assert!(schema_of_header(&header).unwrap_err().to_string().contains("org.example.MyType"));
}
