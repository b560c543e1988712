//! The system tables that are not stored but computed when they are read. They describe this node and its
//! peers, and include tables that Cassandra's tools require although they are empty here.
//!
//! Names, columns and types are Cassandra 4.1's (source: `db/SystemKeyspace.java`, `auth/AuthKeyspace.java`,
//! `tracing/TraceKeyspace.java`, `schema/SystemDistributedKeyspace.java`, `db/virtual/*.java`).
//! `system.large_*` is ScyllaDB's (its documentation, "Large Partitions Table"), as are `system.versions`,
//! `runtime_info`, `token_ring` and `config` (its documentation, "System Keyspace Layout"). `system.reader_*`
//! and `system.memory` are Messina's own. The CQL layer computes the contents.

use std::sync::{Arc, LazyLock};

use model::TableSchema;

use crate::system::cassandra_tables::CASSANDRA_TABLES;
use crate::system::definition::Definition;
pub use crate::system::virtual_content::{Content, DISTRIBUTED, VIEWS_KS};
use crate::system::{AUTH, SYSTEM, SYSTEM_SCHEMA};

pub const TRACES: &str = "system_traces";
/// The schema of keyspaces that are not in `system_schema`: [`VIEWS_KS`] and this one.
pub const VIRTUAL_SCHEMA: &str = "system_virtual_schema";

/// All tables that are computed when they are read. Every call returns the same values.
pub fn virtual_tables() -> Vec<Arc<TableSchema>> {
    static TABLES: LazyLock<Vec<Arc<TableSchema>>> = LazyLock::new(|| {
        let peers = CASSANDRA_TABLES.iter().map(|(_, table)| table.schema());
        DEFINITIONS.iter().map(|(_, table)| table.schema()).chain(peers).collect()
    });
    TABLES.clone()
}

/// The content of a computed table: one of [`virtual_tables`] or of `system_schema`.
pub fn content_of(keyspace: &str, name: &str) -> Option<Content> {
    let own = DEFINITIONS.iter().map(|(content, table)| (content, table.keyspace, table.name));
    let peers = CASSANDRA_TABLES.iter().map(|(content, table)| (content, table.keyspace, table.name));
    let found = own.chain(peers).find(|(_, of, known)| *known == name && *of == keyspace);
    found.map(|(content, ..)| *content).or((keyspace == SYSTEM_SCHEMA).then_some(Content::Schema))
}

/// Whether the keyspace is listed in `system_virtual_schema` instead of `system_schema`.
pub fn is_virtual_keyspace(name: &str) -> bool {
    matches!(name, VIEWS_KS | VIRTUAL_SCHEMA)
}

const DEFINITIONS: &[(Content, Definition)] = &[
    (
        Content::Local,
        Definition {
            keyspace: SYSTEM,
            name: "local",
            comment: "information about the local node",
            partition_key: &["key"],
            clustering: &[],
            columns: &[
                ("bootstrapped", "text"),
                ("broadcast_address", "inet"),
                ("broadcast_port", "int"),
                ("cluster_name", "text"),
                ("cql_version", "text"),
                ("data_center", "text"),
                ("gossip_generation", "int"),
                ("host_id", "uuid"),
                ("listen_address", "inet"),
                ("listen_port", "int"),
                ("native_protocol_version", "text"),
                ("partitioner", "text"),
                ("rack", "text"),
                ("release_version", "text"),
                ("rpc_address", "inet"),
                ("rpc_port", "int"),
                ("schema_version", "uuid"),
                ("tokens", "set<text>"),
                ("truncated_at", "map<uuid, blob>"),
            ],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: SYSTEM,
            name: "peers",
            comment: "information about known peers in the cluster",
            partition_key: &["peer inet"],
            clustering: &[],
            columns: &[
                ("data_center", "text"),
                ("host_id", "uuid"),
                ("preferred_ip", "inet"),
                ("rack", "text"),
                ("release_version", "text"),
                ("rpc_address", "inet"),
                ("schema_version", "uuid"),
                ("tokens", "set<text>"),
            ],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: SYSTEM,
            name: "peers_v2",
            comment: "information about known peers in the cluster",
            partition_key: &["peer inet"],
            clustering: &["peer_port int"],
            columns: &[
                ("data_center", "text"),
                ("host_id", "uuid"),
                ("native_address", "inet"),
                ("native_port", "int"),
                ("preferred_ip", "inet"),
                ("preferred_port", "int"),
                ("rack", "text"),
                ("release_version", "text"),
                ("schema_version", "uuid"),
                ("tokens", "set<text>"),
            ],
        },
    ),
    (
        Content::BuiltIndexes,
        Definition {
            keyspace: SYSTEM,
            name: "IndexInfo",
            comment: "built column indexes",
            partition_key: &["table_name"],
            clustering: &["index_name"],
            columns: &[("value", "blob")],
        },
    ),
    (
        Content::BuiltViews,
        Definition {
            keyspace: SYSTEM,
            name: "built_views",
            comment: "built views",
            partition_key: &["keyspace_name"],
            clustering: &["view_name"],
            columns: &[("status_replicated", "boolean")],
        },
    ),
    (
        Content::ViewBuilds,
        Definition {
            keyspace: SYSTEM,
            name: "view_builds_in_progress",
            comment: "views builds current progress",
            partition_key: &["keyspace_name"],
            clustering: &["view_name", "start_token", "end_token"],
            columns: &[("keys_built", "bigint"), ("last_token", "text")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: SYSTEM,
            name: "batches",
            comment: "batches awaiting replay",
            partition_key: &["id timeuuid"],
            clustering: &[],
            columns: &[("mutations", "list<blob>"), ("version", "int")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: SYSTEM,
            name: "paxos",
            comment: "in-progress paxos proposals",
            partition_key: &["row_key blob"],
            clustering: &["cf_id uuid"],
            columns: &[
                ("in_progress_ballot", "timeuuid"),
                ("in_progress_read_ballot", "timeuuid"),
                ("most_recent_commit", "blob"),
                ("most_recent_commit_at", "timeuuid"),
                ("most_recent_commit_version", "int"),
                ("proposal", "blob"),
                ("proposal_ballot", "timeuuid"),
                ("proposal_version", "int"),
            ],
        },
    ),
    (
        Content::SizeEstimates,
        Definition {
            keyspace: SYSTEM,
            name: "size_estimates",
            comment: "per-table primary range size estimates",
            partition_key: &["keyspace_name"],
            clustering: &["table_name", "range_start", "range_end"],
            columns: &[("mean_partition_size", "bigint"), ("partitions_count", "bigint")],
        },
    ),
    (
        Content::TableEstimates,
        Definition {
            keyspace: SYSTEM,
            name: "table_estimates",
            comment: "per-table range size estimates",
            partition_key: &["keyspace_name"],
            clustering: &["table_name", "range_type", "range_start", "range_end"],
            columns: &[("mean_partition_size", "bigint"), ("partitions_count", "bigint")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: SYSTEM,
            name: "available_ranges_v2",
            comment: "available keyspace/ranges during bootstrap/replace that are ready to be served",
            partition_key: &["keyspace_name"],
            clustering: &[],
            columns: &[("full_ranges", "set<blob>"), ("transient_ranges", "set<blob>")],
        },
    ),
    (
        Content::PreparedStatements,
        Definition {
            keyspace: SYSTEM,
            name: "prepared_statements",
            comment: "prepared statements",
            partition_key: &["prepared_id blob"],
            clustering: &[],
            columns: &[("logged_keyspace", "text"), ("query_string", "text")],
        },
    ),
    (
        Content::LargePartitions,
        Definition {
            keyspace: SYSTEM,
            name: "large_partitions",
            comment: "partitions that are larger than the threshold, by SSTable",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &["sstable_name", "partition_size bigint desc", "partition_key"],
            columns: &[
                ("compaction_time", "timestamp"),
                ("dead_rows", "bigint"),
                ("range_tombstones", "bigint"),
                ("rows", "bigint"),
            ],
        },
    ),
    (
        Content::LargeRows,
        Definition {
            keyspace: SYSTEM,
            name: "large_rows",
            comment: "rows that are larger than the threshold, by SSTable",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &["sstable_name", "row_size bigint desc", "partition_key", "clustering_key"],
            columns: &[("compaction_time", "timestamp")],
        },
    ),
    (
        Content::LargeCells,
        Definition {
            keyspace: SYSTEM,
            name: "large_cells",
            comment: "cells and collections that are larger than the threshold, by SSTable",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[
                "sstable_name",
                "cell_size bigint desc",
                "partition_key",
                "clustering_key",
                "column_name",
            ],
            columns: &[("collection_elements", "bigint"), ("compaction_time", "timestamp")],
        },
    ),
    (
        Content::ReaderSemaphores,
        Definition {
            keyspace: SYSTEM,
            name: "reader_semaphores",
            comment: "admitted and waiting reads, their memory and its limits, by shard and semaphore",
            partition_key: &["shard int"],
            clustering: &["semaphore"],
            columns: &[
                ("admitted", "bigint"),
                ("admitted_limit", "bigint"),
                ("memory", "bigint"),
                ("memory_limit", "bigint"),
                ("queued", "bigint"),
                ("stats", "map<text, bigint>"),
            ],
        },
    ),
    (
        Content::ReaderPermits,
        Definition {
            keyspace: SYSTEM,
            name: "reader_permits",
            comment: "running and waiting reads and their memory, by shard",
            partition_key: &["shard int"],
            clustering: &["semaphore", "keyspace_name", "table_name", "operation", "state"],
            columns: &[("admitted", "bigint"), ("memory", "bigint"), ("permits", "bigint")],
        },
    ),
    (
        Content::Memory,
        Definition {
            keyspace: SYSTEM,
            name: "memory",
            comment: "where the memory of each shard is",
            partition_key: &["shard int"],
            clustering: &["class"],
            columns: &[("bytes", "bigint"), ("bytes_limit", "bigint")],
        },
    ),
    (
        Content::Versions,
        Definition {
            keyspace: SYSTEM,
            name: "versions",
            comment: "which program this is",
            partition_key: &["key"],
            clustering: &[],
            columns: &[("build_id", "text"), ("build_mode", "text"), ("version", "text")],
        },
    ),
    (
        Content::RuntimeInfo,
        Definition {
            keyspace: SYSTEM,
            name: "runtime_info",
            comment: "how the node fares: load, memory, caches",
            partition_key: &["group"],
            clustering: &["item"],
            columns: &[("value", "text")],
        },
    ),
    (
        Content::TokenRing,
        Definition {
            keyspace: SYSTEM,
            name: "token_ring",
            comment: "which node has which tokens of a keyspace",
            partition_key: &["keyspace_name"],
            clustering: &["start_token", "endpoint inet"],
            columns: &[("dc", "text"), ("end_token", "text"), ("rack", "text")],
        },
    ),
    (
        Content::Config,
        Definition {
            keyspace: SYSTEM,
            name: "config",
            comment: "the configuration in force",
            partition_key: &["name"],
            clustering: &[],
            columns: &[("source", "text"), ("type", "text"), ("value", "text")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: AUTH,
            name: "network_permissions",
            comment: "user network permissions",
            partition_key: &["role"],
            clustering: &[],
            columns: &[("dcs", "frozen<set<text>>")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: DISTRIBUTED,
            name: "view_build_status",
            comment: "Materialized View build status",
            partition_key: &["keyspace_name", "view_name"],
            clustering: &["host_id uuid"],
            columns: &[("status", "text")],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: DISTRIBUTED,
            name: "repair_history",
            comment: "Repair history",
            partition_key: &["keyspace_name", "columnfamily_name"],
            clustering: &["id timeuuid"],
            columns: &[
                ("coordinator", "inet"),
                ("coordinator_port", "int"),
                ("exception_message", "text"),
                ("exception_stacktrace", "text"),
                ("finished_at", "timestamp"),
                ("parent_id", "timeuuid"),
                ("participants", "set<inet>"),
                ("participants_v2", "set<text>"),
                ("range_begin", "text"),
                ("range_end", "text"),
                ("started_at", "timestamp"),
                ("status", "text"),
            ],
        },
    ),
    (
        Content::Nothing,
        Definition {
            keyspace: DISTRIBUTED,
            name: "parent_repair_history",
            comment: "Repair history",
            partition_key: &["parent_id timeuuid"],
            clustering: &[],
            columns: &[
                ("columnfamily_names", "set<text>"),
                ("exception_message", "text"),
                ("exception_stacktrace", "text"),
                ("finished_at", "timestamp"),
                ("keyspace_name", "text"),
                ("options", "map<text, text>"),
                ("requested_ranges", "set<text>"),
                ("started_at", "timestamp"),
                ("successful_ranges", "set<text>"),
            ],
        },
    ),
    (
        Content::TraceSessions,
        Definition {
            keyspace: TRACES,
            name: "sessions",
            comment: "tracing sessions",
            partition_key: &["session_id uuid"],
            clustering: &[],
            columns: &[
                ("client", "inet"),
                ("command", "text"),
                ("coordinator", "inet"),
                ("coordinator_port", "int"),
                ("duration", "int"),
                ("parameters", "map<text, text>"),
                ("request", "text"),
                ("started_at", "timestamp"),
            ],
        },
    ),
    (
        Content::TraceEvents,
        Definition {
            keyspace: TRACES,
            name: "events",
            comment: "tracing events",
            partition_key: &["session_id uuid"],
            clustering: &["event_id timeuuid"],
            columns: &[
                ("activity", "text"),
                ("source", "inet"),
                ("source_elapsed", "int"),
                ("source_port", "int"),
                ("thread", "text"),
            ],
        },
    ),
    // ScyllaDB's.
    (
        Content::Clients,
        Definition {
            keyspace: SYSTEM,
            name: "clients",
            comment: "currently connected clients, and the shards that serve them",
            partition_key: &["address inet"],
            clustering: &["port int"],
            columns: &[
                ("client_options", "frozen<map<text, text>>"),
                ("connection_stage", "text"),
                ("driver_name", "text"),
                ("driver_version", "text"),
                ("hostname", "text"),
                ("protocol_version", "int"),
                ("shard_id", "int"),
                ("ssl_cipher_suite", "text"),
                ("ssl_enabled", "boolean"),
                ("ssl_protocol", "text"),
                ("username", "text"),
            ],
        },
    ),
    (
        Content::ClientsOfViews,
        Definition {
            keyspace: VIEWS_KS,
            name: "clients",
            comment: "currently connected clients",
            partition_key: &["address inet"],
            clustering: &["port int"],
            columns: &[
                ("client_options", "frozen<map<text, text>>"),
                ("connection_stage", "text"),
                ("driver_name", "text"),
                ("driver_version", "text"),
                ("hostname", "text"),
                ("keyspace_name", "text"),
                ("protocol_version", "int"),
                ("request_count", "bigint"),
                ("ssl_cipher_suite", "text"),
                ("ssl_enabled", "boolean"),
                ("ssl_protocol", "text"),
                ("username", "text"),
            ],
        },
    ),
    (
        Content::Settings,
        Definition {
            keyspace: VIEWS_KS,
            name: "settings",
            comment: "current settings",
            partition_key: &["name"],
            clustering: &[],
            columns: &[("value", "text")],
        },
    ),
    (
        Content::VirtualKeyspaces,
        Definition {
            keyspace: VIRTUAL_SCHEMA,
            name: "keyspaces",
            comment: "virtual keyspace definitions",
            partition_key: &["keyspace_name"],
            clustering: &[],
            columns: &[],
        },
    ),
    (
        Content::VirtualTables,
        Definition {
            keyspace: VIRTUAL_SCHEMA,
            name: "tables",
            comment: "virtual table definitions",
            partition_key: &["keyspace_name"],
            clustering: &["table_name"],
            columns: &[("comment", "text")],
        },
    ),
    (
        Content::VirtualColumns,
        Definition {
            keyspace: VIRTUAL_SCHEMA,
            name: "columns",
            comment: "virtual column definitions",
            partition_key: &["keyspace_name"],
            clustering: &["table_name", "column_name"],
            columns: &[
                ("clustering_order", "text"),
                ("column_name_bytes", "blob"),
                ("kind", "text"),
                ("position", "int"),
                ("type", "text"),
            ],
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, is_system_keyspace};

    /// The properties of columns that drivers compare: position in the key, kind, name, type.
    fn columns(schema: &TableSchema) -> Vec<String> {
        let keys = schema.partition_key.iter().chain(&schema.clustering).map(|key| (&key.name, &key.ty));
        let all = keys.chain(schema.columns().iter().map(|column| (&column.name, &column.ty)));
        all.map(|(name, ty)| format!("{name} {}", ty.to_cql())).collect()
    }

    #[test]
    fn clients_find_them_beside_those_that_are_stored() {
        let catalog = Catalog::empty().with_system_tables();
        let visible = catalog.with_virtual_tables();
        for schema in virtual_tables() {
            assert!(is_system_keyspace(&schema.keyspace), "{}", schema.full_name());
            assert!(catalog.schema(&schema.keyspace, &schema.name).is_none(), "{}", schema.full_name());
            assert_eq!(visible.schema(&schema.keyspace, &schema.name), Some(&schema));
            assert_eq!(visible.table_by_id(schema.id).map(|table| &table.schema), Some(&schema));
        }
        let stored = catalog.all_tables().count();
        assert_eq!(visible.all_tables().count(), stored + virtual_tables().len());
        assert_eq!(catalog.schema_version(), visible.schema_version());
    }

    #[test]
    fn tables_that_drivers_read_have_cassandras_columns() {
        let visible = Catalog::empty().with_virtual_tables();
        let peers = visible.schema(SYSTEM, "peers_v2").unwrap();
        let expect = [
            "peer inet",
            "peer_port int",
            "data_center text",
            "host_id uuid",
            "native_address inet",
            "native_port int",
            "preferred_ip inet",
            "preferred_port int",
            "rack text",
            "release_version text",
            "schema_version uuid",
            "tokens set<text>",
        ];
        assert_eq!(columns(peers), expect);
        let local = visible.schema(SYSTEM, "local").unwrap();
        assert_eq!(local.id.simple().to_string(), "7ad54392bcdd35a684174e047860b377");
        assert_eq!(local.columns().len(), 19);
        let events = visible.schema(TRACES, "events").unwrap();
        assert_eq!(columns(events)[..2], ["session_id uuid", "event_id timeuuid"]);
    }
}
