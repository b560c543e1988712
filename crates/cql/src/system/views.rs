//! The tables of `system_views`, and `system.prepared_statements`: the activity of the node.
//!
//! Numbers are totals of all shards since the start of the node. `per_second` is the mean over this time,
//! where Cassandra has the mean of the last minute. Values that are not measured are null.

use std::sync::Arc;

use catalog::Catalog;
use catalog::indexes::is_text;
use model::types::CqlValue;
use model::{IndexDefinition, IndexKind, IndexTerms};
use reports::LatencyReport;

use super::node_info::{NodeInfo, TableInfo};
use super::rows::{Rows, bigint, int, text, uuid};

const MEBIBYTE: u64 = 1 << 20;

fn double(value: f64) -> CqlValue {
    CqlValue::Double(value)
}

fn whole(value: u64) -> CqlValue {
    int(i32::try_from(value).unwrap_or(i32::MAX))
}

fn table_key(table: &TableInfo) -> Vec<CqlValue> {
    vec![text(&table.keyspace), text(&table.table)]
}

/// Rows of `disk_usage`, `max_partition_size` and `max_sstable_size`.
pub(super) fn sizes(rows: &mut Rows, info: &NodeInfo, bytes: fn(&TableInfo) -> u64) {
    for table in &info.tables {
        // Rounded up, so that any data takes at least one mebibyte.
        rows.push(table_key(table), [("mebibytes", Some(bigint(bytes(table).div_ceil(MEBIBYTE))))]);
    }
}

/// Rows of `local_read_latency` and similar tables.
pub(super) fn latencies(rows: &mut Rows, info: &NodeInfo, of: fn(&TableInfo) -> &LatencyReport) {
    let ms = |us: u64| Some(double(us as f64 / 1000.0));
    for table in &info.tables {
        let LatencyReport { count, p50_us, p99_us, max_us, .. } = *of(table);
        let uptime_s = info.uptime_s.max(1) as f64;
        rows.push(
            table_key(table),
            [
                ("count", Some(bigint(count))),
                ("max_ms", ms(max_us)),
                ("p50th_ms", ms(p50_us)),
                ("p99th_ms", ms(p99_us)),
                ("per_second", Some(double(count as f64 / uptime_s))),
            ],
        );
    }
}

pub(super) fn sstable_tasks(rows: &mut Rows, info: &NodeInfo) {
    for task in &info.sstable_tasks {
        let ratio = task.read_bytes as f64 / task.total_bytes.max(1) as f64;
        rows.push(
            vec![text(&task.keyspace), text(&task.table), uuid(task.id)],
            [
                ("completion_ratio", Some(double(ratio))),
                ("kind", Some(text(&task.kind))),
                ("progress", Some(bigint(task.read_bytes))),
                ("total", Some(bigint(task.total_bytes))),
                ("unit", Some(text("bytes"))),
            ],
        );
    }
}

pub(super) fn caches(rows: &mut Rows, info: &NodeInfo) {
    for cache in &info.caches {
        rows.push(
            vec![text(&cache.name)],
            [
                ("capacity_bytes", Some(bigint(cache.capacity_bytes))),
                ("entry_count", Some(whole(cache.entries))),
                ("hit_count", Some(bigint(cache.hits))),
                ("hit_ratio", Some(double(cache.hit_rate()))),
                ("request_count", Some(bigint(cache.requests()))),
                ("size_bytes", Some(bigint(cache.bytes))),
            ],
        );
    }
}

pub(super) fn thread_pools(rows: &mut Rows, info: &NodeInfo) {
    for group in &info.groups {
        rows.push(
            vec![text(&group.name)],
            [
                ("active_tasks_limit", Some(whole(group.shards))),
                ("pending_tasks", Some(whole(group.ready_tasks))),
            ],
        );
    }
}

pub(super) fn cql_metrics(rows: &mut Rows, info: &NodeInfo) {
    let count = info.prepared.len() as f64;
    rows.push(vec![text("prepared_statements_count")], [("value", Some(double(count)))]);
}

pub(super) fn system_properties(rows: &mut Rows) {
    for (name, value) in [("os.arch", std::env::consts::ARCH), ("os.name", std::env::consts::OS)] {
        rows.push(vec![text(name)], [("value", Some(text(value)))]);
    }
}

/// Rows of `snapshots`. The creation time of a snapshot is not recorded, so it is null.
pub(super) fn snapshots(rows: &mut Rows, info: &NodeInfo) {
    for snapshot in &info.snapshots {
        rows.push(
            vec![text(&snapshot.tag), text(&snapshot.keyspace), text(&snapshot.table)],
            [
                ("ephemeral", Some(CqlValue::Boolean(false))),
                ("size_on_disk", Some(bigint(snapshot.disk_bytes))),
            ],
        );
    }
}

pub(super) fn prepared_statements(rows: &mut Rows, info: &NodeInfo) {
    for prepared in &info.prepared {
        rows.push(
            vec![CqlValue::Blob(prepared.id.to_vec())],
            [
                ("logged_keyspace", prepared.keyspace.as_deref().map(text)),
                ("query_string", Some(text(&*prepared.text))),
            ],
        );
    }
}

/// Rows of `system."IndexInfo"`: the built indexes of all kinds. Its column `table_name` is the keyspace, as
/// in Cassandra.
pub(super) fn built_indexes(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    for table in catalog.all_tables() {
        for index in table.schema.indexes.iter().filter(|index| !info.unbuilt_indexes.contains(&index.id)) {
            rows.push(vec![text(&table.schema.keyspace), text(&index.name)], []);
        }
    }
}

/// Rows of `system.built_views`.
pub(super) fn built_views(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    let is_built = |id| info.view_builds.iter().all(|build| build.view != id);
    for view in catalog.all_tables().map(|table| &table.schema).filter(|schema| schema.view.is_some()) {
        if is_built(view.id) {
            let replicated = ("status_replicated", Some(CqlValue::Boolean(true)));
            rows.push(vec![text(&view.keyspace), text(&view.name)], [replicated]);
        }
    }
}

/// Rows of `system.view_builds_in_progress`: one for each view, over all tokens.
pub(super) fn view_builds(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    for build in &info.view_builds {
        let Some(view) = catalog.table_by_id(build.view) else { continue };
        let (start, end) = (i64::MIN.to_string(), i64::MAX.to_string());
        rows.push(
            vec![text(&view.schema.keyspace), text(&view.schema.name), text(start), text(end)],
            [
                ("keys_built", Some(CqlValue::BigInt(i64::try_from(build.keys_built).unwrap_or(i64::MAX)))),
                ("last_token", Some(text(build.last_token.to_string()))),
            ],
        );
    }
}

/// Rows of `sai_column_indexes`. An index that is being built answers statements by a scan, so it is always
/// queryable.
pub(super) fn attached_indexes(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    for schema in catalog.all_tables().map(|table| &table.schema) {
        let is_attached = |index: &&Arc<IndexDefinition>| index.kind == IndexKind::StorageAttached;
        for index in schema.indexes.iter().filter(is_attached) {
            let is_string = IndexTerms::new(schema, index).is_ok_and(|terms| is_text(terms.term_type()));
            let analyzer = if index.analysis.is_none() { "NoOpAnalyzer" } else { "NonTokenizingAnalyzer" };
            let is_building = info.unbuilt_indexes.contains(&index.id);
            rows.push(
                vec![text(&schema.keyspace), text(&index.name)],
                [
                    ("analyzer", Some(text(analyzer))),
                    ("column_name", Some(text(&index.column))),
                    ("is_building", Some(CqlValue::Boolean(is_building))),
                    ("is_queryable", Some(CqlValue::Boolean(true))),
                    ("is_string", Some(CqlValue::Boolean(is_string))),
                    ("table_name", Some(text(&schema.name))),
                ],
            );
        }
    }
}
