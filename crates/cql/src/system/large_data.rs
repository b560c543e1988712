//! Rows of `system.large_partitions`, `large_rows` and `large_cells`.

use model::types::CqlValue;
use reports::{LargeItem, LargeKind};

use super::node_info::NodeInfo;
use super::rows::{Rows, bigint, text};

fn key(item: &LargeItem) -> Vec<CqlValue> {
    let LargeItem { keyspace, table, sstable, bytes, partition_key, .. } = item;
    vec![text(keyspace), text(table), text(sstable), bigint(*bytes), text(partition_key)]
}

fn written(item: &LargeItem) -> (&'static str, Option<CqlValue>) {
    ("compaction_time", Some(CqlValue::Timestamp(item.written_ms)))
}

pub(super) fn partitions(rows: &mut Rows, info: &NodeInfo) {
    for item in &info.large_data {
        let LargeKind::Partition { rows: count, dead_rows, range_tombstones } = &item.kind else { continue };
        let cells = [
            written(item),
            ("dead_rows", Some(bigint(*dead_rows))),
            ("range_tombstones", Some(bigint(*range_tombstones))),
            ("rows", Some(bigint(*count))),
        ];
        rows.push(key(item), cells);
    }
}

pub(super) fn rows(rows: &mut Rows, info: &NodeInfo) {
    for item in &info.large_data {
        let LargeKind::Row { clustering_key } = &item.kind else { continue };
        let mut key = key(item);
        key.push(text(clustering_key));
        rows.push(key, [written(item)]);
    }
}

pub(super) fn cells(rows: &mut Rows, info: &NodeInfo) {
    for item in &info.large_data {
        let LargeKind::Cell { clustering_key, column, elements } = &item.kind else { continue };
        let mut key = key(item);
        key.extend([text(clustering_key), text(column)]);
        rows.push(key, [written(item), ("collection_elements", elements.map(bigint))]);
    }
}
