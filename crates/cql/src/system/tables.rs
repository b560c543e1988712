//! The rows of the computed tables.

use std::sync::Arc;

use catalog::virtual_tables::{Content, content_of, is_virtual_keyspace};
use catalog::{Catalog, mutations_for};
use model::types::CqlValue;
use model::{ColumnKind, KeyColumn, Mutation, TableSchema};

use super::introspection;
use super::large_data;
use super::node_info::NodeInfo;
use super::rows::{Rows, bigint, inet, int, text, uuid};
use super::{scylla, traces, views};

/// Returns the content of a computed table as mutations; `None` for a stored table.
///
/// `catalog` is the catalog with virtual tables, as clients see it.
pub fn virtual_partitions(
    table: &Arc<TableSchema>,
    info: &NodeInfo,
    catalog: &Catalog,
) -> Option<Vec<Mutation>> {
    let mut rows = Rows::new(table);
    match content_of(&table.keyspace, &table.name)? {
        Content::Nothing => {}
        Content::Schema => return Some(schema_rows(table, catalog)),
        Content::Local => local(&mut rows, info, catalog),
        Content::SizeEstimates => estimates(&mut rows, info, catalog, &[]),
        Content::TableEstimates => {
            ["primary", "local_primary"]
                .iter()
                .for_each(|kind| estimates(&mut rows, info, catalog, &[*kind]));
        }
        Content::LargePartitions => large_data::partitions(&mut rows, info),
        Content::LargeRows => large_data::rows(&mut rows, info),
        Content::LargeCells => large_data::cells(&mut rows, info),
        Content::ReaderSemaphores => introspection::semaphores(&mut rows, info),
        Content::ReaderPermits => introspection::permits(&mut rows, info),
        Content::Memory => introspection::memory(&mut rows, info),
        Content::Versions => scylla::versions(&mut rows, info),
        Content::RuntimeInfo => scylla::runtime_info(&mut rows, info),
        Content::TokenRing => scylla::token_ring(&mut rows, info, catalog),
        Content::Config => scylla::config(&mut rows, info),
        Content::TraceSessions => traces::sessions(&mut rows, info),
        Content::TraceEvents => traces::events(&mut rows, info),
        Content::PreparedStatements => views::prepared_statements(&mut rows, info),
        Content::ClientsOfViews => clients(&mut rows, info, true),
        Content::Clients => clients(&mut rows, info, false),
        Content::DiskUsage => views::sizes(&mut rows, info, |table| table.disk_bytes),
        Content::MaxPartitionSize => {
            views::sizes(&mut rows, info, |table| table.largest_partition_bytes);
        }
        Content::MaxSSTableSize => {
            views::sizes(&mut rows, info, |table| table.largest_sstable_bytes);
        }
        Content::LocalReadLatency => views::latencies(&mut rows, info, |table| &table.reads),
        Content::LocalWriteLatency => views::latencies(&mut rows, info, |table| &table.writes),
        Content::SSTableTasks => views::sstable_tasks(&mut rows, info),
        Content::Caches => views::caches(&mut rows, info),
        Content::ThreadPools => views::thread_pools(&mut rows, info),
        Content::CqlMetrics => views::cql_metrics(&mut rows, info),
        Content::SystemProperties => views::system_properties(&mut rows),
        Content::Snapshots => views::snapshots(&mut rows, info),
        Content::BuiltIndexes => views::built_indexes(&mut rows, info, catalog),
        Content::BuiltViews => views::built_views(&mut rows, info, catalog),
        Content::ViewBuilds => views::view_builds(&mut rows, info, catalog),
        Content::AttachedIndexes => views::attached_indexes(&mut rows, info, catalog),
        Content::Settings => {
            for (name, setting) in &info.settings {
                rows.push(vec![text(name)], [("value", Some(text(&setting.value)))]);
            }
        }
        Content::VirtualKeyspaces => {
            for keyspace in catalog.keyspaces().filter(|keyspace| is_virtual_keyspace(&keyspace.name)) {
                rows.push(vec![text(&keyspace.name)], []);
            }
        }
        Content::VirtualTables => virtual_schemas(catalog).for_each(|schema| {
            let key = vec![text(&schema.keyspace), text(&schema.name)];
            rows.push(key, [("comment", Some(text(&schema.options.comment)))]);
        }),
        Content::VirtualColumns => {
            virtual_schemas(catalog).for_each(|schema| columns(&mut rows, schema));
        }
    }
    Some(rows.finish())
}

/// Returns the rows of a `system_schema` table for all keyspaces except the virtual ones. They include the
/// computed tables of these keyspaces.
fn schema_rows(table: &TableSchema, catalog: &Catalog) -> Vec<Mutation> {
    let mut mutations = mutations_for(&Catalog::empty(), catalog, 0, 0);
    mutations.retain(|mutation| {
        let keyspace = std::str::from_utf8(mutation.key.bytes()).unwrap_or_default();
        mutation.schema.id == table.id && !is_virtual_keyspace(keyspace)
    });
    mutations
}

fn virtual_schemas(catalog: &Catalog) -> impl Iterator<Item = &TableSchema> {
    catalog.all_tables().map(|table| &*table.schema).filter(|schema| is_virtual_keyspace(&schema.keyspace))
}

fn local(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog) {
    let tokens = info.tokens.iter().map(|token| text(token.to_string())).collect();
    rows.push(
        vec![text("local")],
        [
            ("bootstrapped", Some(text("COMPLETED"))),
            ("broadcast_address", Some(inet(info.broadcast_address))),
            ("broadcast_port", Some(int(info.broadcast_port))),
            ("cluster_name", Some(text(&info.cluster_name))),
            ("cql_version", Some(text(&info.cql_version))),
            ("data_center", Some(text(&info.data_center))),
            ("gossip_generation", Some(int(info.generation_s))),
            ("host_id", Some(uuid(info.host_id))),
            ("listen_address", Some(inet(info.listen_address))),
            ("listen_port", Some(int(info.listen_port))),
            ("native_protocol_version", Some(text(&info.native_protocol_version))),
            ("partitioner", Some(text(&info.partitioner))),
            ("rack", Some(text(&info.rack))),
            ("release_version", Some(text(&info.release_version))),
            ("rpc_address", Some(inet(info.rpc_address))),
            ("rpc_port", Some(int(info.rpc_port))),
            ("schema_version", Some(uuid(catalog.schema_version()))),
            ("tokens", Some(CqlValue::Set(tokens))),
        ],
    );
}

/// Adds a row for each token range of the node. Partitions are assumed to be spread evenly. `kind` is the
/// part of the key between the table and the range.
/// Adds a row for each table and range between two tokens. As in Cassandra, the range around the end of the
/// ring is two ranges, and the smallest token also stands for the end of the ring. Partitions are assumed to
/// be spread evenly.
fn estimates(rows: &mut Rows, info: &NodeInfo, catalog: &Catalog, kind: &[&str]) {
    let ends = [i64::MIN].into_iter().chain(info.tokens.iter().copied()).chain([i64::MIN]);
    let ends: Vec<i64> = ends.collect();
    for (id, estimate) in &info.estimates {
        let Some(table) = catalog.table_by_id(*id) else { continue };
        for (at, pair) in ends.windows(2).enumerate() {
            let [start, end] = [pair[0], pair[1]];
            let last = if at + 2 == ends.len() { i128::from(i64::MAX) + 1 } else { i128::from(end) };
            let width = u128::try_from(last - i128::from(start)).unwrap_or(0);
            let partitions = (u128::from(estimate.partitions) * width + (1 << 63)) >> 64;
            let mut key = vec![text(&table.schema.keyspace), text(&table.schema.name)];
            key.extend(kind.iter().map(|kind| text(*kind)));
            key.extend([text(start.to_string()), text(end.to_string())]);
            rows.push(
                key,
                [
                    ("mean_partition_size", Some(bigint(estimate.mean_partition_bytes))),
                    ("partitions_count", Some(bigint(u64::try_from(partitions).unwrap_or(u64::MAX)))),
                ],
            );
        }
    }
}

/// Cassandra has the keyspace in use and the number of requests; ScyllaDB has the shard.
fn clients(rows: &mut Rows, info: &NodeInfo, is_cassandras: bool) {
    for client in &info.clients {
        let tls = client.tls.as_ref();
        let options = client.options.iter().map(|(name, value)| (text(name), text(value))).collect();
        let own = match is_cassandras {
            true => vec![
                ("keyspace_name", client.keyspace.as_ref().map(text)),
                ("request_count", Some(bigint(client.requests))),
            ],
            false => vec![("shard_id", Some(int(i32::try_from(client.shard).unwrap_or(i32::MAX))))],
        };
        rows.push(
            vec![inet(client.address), int(client.port)],
            own.into_iter().chain([
                ("client_options", Some(CqlValue::Map(options))),
                ("connection_stage", Some(text(client.stage))),
                ("driver_name", client.driver_name.as_ref().map(text)),
                ("driver_version", client.driver_version.as_ref().map(text)),
                ("hostname", Some(text(client.address.to_string()))),
                ("protocol_version", Some(int(client.protocol_version))),
                ("ssl_cipher_suite", tls.map(|(_, suite)| text(suite))),
                ("ssl_enabled", Some(CqlValue::Boolean(tls.is_some()))),
                ("ssl_protocol", tls.map(|(protocol, _)| text(protocol))),
                ("username", Some(text(&client.username))),
            ]),
        );
    }
}

fn columns(rows: &mut Rows, schema: &TableSchema) {
    let mut push = |name: &str, kind: &str, position: i32, order: &str, ty: String| {
        rows.push(
            vec![text(&schema.keyspace), text(&schema.name), text(name)],
            [
                ("clustering_order", Some(text(order))),
                ("column_name_bytes", Some(CqlValue::Blob(name.as_bytes().to_vec()))),
                ("kind", Some(text(kind))),
                ("position", Some(int(position))),
                ("type", Some(text(ty))),
            ],
        );
    };
    for (position, KeyColumn { name, ty }) in (0..).zip(&schema.partition_key) {
        push(name, "partition_key", position, "none", ty.to_cql());
    }
    for (position, KeyColumn { name, ty }) in (0..).zip(&schema.clustering) {
        let order = if ty.is_reversed() { "desc" } else { "asc" };
        push(name, "clustering", position, order, ty.to_cql());
    }
    for column in schema.columns() {
        let kind = if column.kind == ColumnKind::Static { "static" } else { "regular" };
        push(&column.name, kind, -1, "none", column.ty.to_cql());
    }
}
