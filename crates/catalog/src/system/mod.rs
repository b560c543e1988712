//! The tables that store the catalog: Cassandra 4.1's `system_schema` with 5.0's masks, its roles and
//! permissions in `system_auth`, ScyllaDB's service levels in `system`, and one table of Messina.
//!
//! Drivers and cqlsh read `system_schema` to learn the schema. Its columns, their types and the ids of its
//! tables are Cassandra's (source: 4.1 `schema/SchemaKeyspace.java`). `system.messina_column_ids` stores
//! further values: the number of each column, the bound from which new numbers start, and the time in
//! microseconds when a column was dropped (`dropped_columns` has milliseconds). The columns `messina_options`
//! of `keyspaces` and `tables` store options that Cassandra 4.1 does not have.
//!
//! [`compaction_history`] is stored too, but is not part of the catalog.
//!
//! Column ids follow the order of the definitions below, not the alphabet: **a new column is added at the end
//! of its list**, otherwise commit logs of older builds are misread.

pub(crate) mod cassandra_tables;
pub(crate) mod definition;
pub(crate) mod virtual_content;
pub mod virtual_tables;

use std::sync::Arc;

use model::TableSchema;

use crate::system::definition::Definition;
use crate::system::virtual_content::DISTRIBUTED;

pub const SYSTEM: &str = "system";
pub const SYSTEM_SCHEMA: &str = "system_schema";
pub const AUTH: &str = "system_auth";

/// Keyspaces of the database. Clients cannot create, alter or drop anything in them.
pub const SYSTEM_KEYSPACES: [&str; 7] = [
    SYSTEM,
    SYSTEM_SCHEMA,
    AUTH,
    "system_distributed",
    "system_traces",
    "system_views",
    "system_virtual_schema",
];

pub const KEYSPACES: &str = "keyspaces";
pub const TABLES: &str = "tables";
pub const COLUMNS: &str = "columns";
pub const COLUMN_MASKS: &str = "column_masks";
pub const DROPPED_COLUMNS: &str = "dropped_columns";
pub const TYPES: &str = "types";
pub const VIEWS: &str = "views";
pub const INDEXES: &str = "indexes";
pub const FUNCTIONS: &str = "functions";
pub const AGGREGATES: &str = "aggregates";
pub const TRIGGERS: &str = "triggers";
/// Tables in `system_auth`.
pub const ROLES: &str = "roles";
pub const ROLE_MEMBERS: &str = "role_members";
pub const ROLE_PERMISSIONS: &str = "role_permissions";
/// Cassandra's spelling.
pub const RESOURCE_ROLES: &str = "resource_role_permissons_index";
/// Tables in `system`.
pub const ROLE_ATTRIBUTES: &str = "role_attributes";
pub const SERVICE_LEVELS: &str = "service_levels_v2";
pub const COLUMN_IDS: &str = "messina_column_ids";
pub const INDEX_IDS: &str = "messina_index_ids";
pub const COMPACTION_HISTORY: &str = "compaction_history";

/// Time after which an entry of the compaction history expires, in seconds.
pub const COMPACTION_HISTORY_TTL_S: u32 = 7 * 24 * 3600;

/// Whether the keyspace is one of [`SYSTEM_KEYSPACES`]; case is ignored.
pub fn is_system_keyspace(keyspace: &str) -> bool {
    SYSTEM_KEYSPACES.iter().any(|name| name.eq_ignore_ascii_case(keyspace))
}

/// All tables that store the catalog. Every call returns the same values.
pub fn system_tables() -> Vec<Arc<TableSchema>> {
    DEFINITIONS.iter().map(Definition::schema).collect()
}

/// `system.compaction_history`, with Cassandra 5.0's columns: the compactions of the last week.
pub fn compaction_history() -> Arc<TableSchema> {
    let mut schema = HISTORY.schema();
    let options = &mut Arc::make_mut(&mut schema).options;
    options.default_ttl_s = COMPACTION_HISTORY_TTL_S;
    // Its data is removed only by expiry, which every node does independently.
    options.gc_grace_s = 0;
    schema
}

/// `system_distributed.cdc_generation_timestamps`, with ScyllaDB's columns: when the streams of change logs
/// changed.
pub fn cdc_generations() -> Arc<TableSchema> {
    CDC_GENERATIONS.schema()
}

/// `system_distributed.cdc_streams_descriptions_v2`, with ScyllaDB's columns: the streams of each generation.
pub fn cdc_streams() -> Arc<TableSchema> {
    CDC_STREAMS.schema()
}

/// All stored tables of the database.
pub fn stored_tables() -> Vec<Arc<TableSchema>> {
    let mut tables = system_tables();
    tables.extend([compaction_history(), cdc_generations(), cdc_streams()]);
    tables
}

/// One of [`system_tables`].
///
/// # Panics
/// If there is no such table.
pub(crate) fn system_table(name: &str) -> Arc<TableSchema> {
    let definition = DEFINITIONS.iter().find(|definition| definition.name == name);
    definition.expect("the name is one of the constants above").schema()
}

const HISTORY: Definition = Definition {
    keyspace: SYSTEM,
    name: COMPACTION_HISTORY,
    comment: "week-long compaction history",
    partition_key: &["id timeuuid"],
    clustering: &[],
    columns: &[
        ("bytes_in", "bigint"),
        ("bytes_out", "bigint"),
        ("columnfamily_name", "text"),
        ("compacted_at", "timestamp"),
        ("keyspace_name", "text"),
        ("rows_merged", "map<int, bigint>"),
        ("compaction_properties", "frozen<map<text, text>>"),
    ],
};

const CDC_GENERATIONS: Definition = Definition {
    keyspace: DISTRIBUTED,
    name: "cdc_generation_timestamps",
    comment: "times at which the streams of change logs change",
    partition_key: &["key"],
    clustering: &["time timestamp desc"],
    columns: &[("expired", "timestamp")],
};

const CDC_STREAMS: Definition = Definition {
    keyspace: DISTRIBUTED,
    name: "cdc_streams_descriptions_v2",
    comment: "streams of change logs",
    partition_key: &["time timestamp"],
    clustering: &["range_end bigint"],
    columns: &[("streams", "frozen<set<blob>>")],
};

const DEFINITIONS: &[Definition] = &[
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: KEYSPACES,
        comment: "keyspace definitions",
        partition_key: &["keyspace_name"],
        clustering: &[],
        columns: &[
            ("durable_writes", "boolean"),
            ("replication", "frozen<map<text, text>>"),
            ("messina_options", "frozen<map<text, text>>"),
        ],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: TABLES,
        comment: "table definitions",
        partition_key: &["keyspace_name"],
        clustering: &["table_name"],
        columns: &[
            ("bloom_filter_fp_chance", "double"),
            ("caching", "frozen<map<text, text>>"),
            ("comment", "text"),
            ("compaction", "frozen<map<text, text>>"),
            ("compression", "frozen<map<text, text>>"),
            ("memtable", "text"),
            ("crc_check_chance", "double"),
            ("dclocal_read_repair_chance", "double"),
            ("default_time_to_live", "int"),
            ("extensions", "frozen<map<text, blob>>"),
            ("flags", "frozen<set<text>>"),
            ("gc_grace_seconds", "int"),
            ("id", "uuid"),
            ("incremental_backups", "boolean"),
            ("max_index_interval", "int"),
            ("memtable_flush_period_in_ms", "int"),
            ("min_index_interval", "int"),
            ("read_repair_chance", "double"),
            ("speculative_retry", "text"),
            ("additional_write_policy", "text"),
            ("allow_auto_snapshot", "boolean"),
            ("cdc", "boolean"),
            ("read_repair", "text"),
            ("messina_options", "frozen<map<text, text>>"),
        ],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: COLUMNS,
        comment: "column definitions",
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
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: DROPPED_COLUMNS,
        comment: "dropped column registry",
        partition_key: &["keyspace_name"],
        clustering: &["table_name", "column_name"],
        columns: &[("dropped_time", "timestamp"), ("kind", "text"), ("type", "text")],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: TRIGGERS,
        comment: "trigger definitions",
        partition_key: &["keyspace_name"],
        clustering: &["table_name", "trigger_name"],
        columns: &[("options", "frozen<map<text, text>>")],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: VIEWS,
        comment: "view definitions",
        partition_key: &["keyspace_name"],
        clustering: &["view_name"],
        columns: &[
            ("base_table_id", "uuid"),
            ("base_table_name", "text"),
            ("where_clause", "text"),
            ("bloom_filter_fp_chance", "double"),
            ("caching", "frozen<map<text, text>>"),
            ("comment", "text"),
            ("compaction", "frozen<map<text, text>>"),
            ("compression", "frozen<map<text, text>>"),
            ("memtable", "text"),
            ("crc_check_chance", "double"),
            ("dclocal_read_repair_chance", "double"),
            ("default_time_to_live", "int"),
            ("extensions", "frozen<map<text, blob>>"),
            ("gc_grace_seconds", "int"),
            ("id", "uuid"),
            ("incremental_backups", "boolean"),
            ("include_all_columns", "boolean"),
            ("max_index_interval", "int"),
            ("memtable_flush_period_in_ms", "int"),
            ("min_index_interval", "int"),
            ("read_repair_chance", "double"),
            ("speculative_retry", "text"),
            ("additional_write_policy", "text"),
            ("allow_auto_snapshot", "boolean"),
            ("cdc", "boolean"),
            ("read_repair", "text"),
            ("messina_options", "frozen<map<text, text>>"),
            ("messina_conditions", "blob"),
        ],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: TYPES,
        comment: "user defined type definitions",
        partition_key: &["keyspace_name"],
        clustering: &["type_name"],
        columns: &[("field_names", "frozen<list<text>>"), ("field_types", "frozen<list<text>>")],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: FUNCTIONS,
        comment: "user defined function definitions",
        partition_key: &["keyspace_name"],
        clustering: &["function_name", "argument_types frozen<list<text>>"],
        columns: &[
            ("argument_names", "frozen<list<text>>"),
            ("body", "text"),
            ("language", "text"),
            ("return_type", "text"),
            ("called_on_null_input", "boolean"),
        ],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: AGGREGATES,
        comment: "user defined aggregate definitions",
        partition_key: &["keyspace_name"],
        clustering: &["aggregate_name", "argument_types frozen<list<text>>"],
        columns: &[
            ("final_func", "text"),
            ("initcond", "text"),
            ("return_type", "text"),
            ("state_func", "text"),
            ("state_type", "text"),
        ],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: INDEXES,
        comment: "secondary index definitions",
        partition_key: &["keyspace_name"],
        clustering: &["table_name", "index_name"],
        columns: &[("kind", "text"), ("options", "frozen<map<text, text>>")],
    },
    Definition {
        keyspace: SYSTEM_SCHEMA,
        name: COLUMN_MASKS,
        comment: "column dynamic data masks",
        partition_key: &["keyspace_name"],
        clustering: &["table_name", "column_name"],
        columns: &[
            ("function_argument_nulls", "frozen<list<boolean>>"),
            ("function_argument_types", "frozen<list<text>>"),
            ("function_argument_values", "frozen<list<text>>"),
            ("function_keyspace", "text"),
            ("function_name", "text"),
            // The values as they are encoded.
            ("messina_argument_bytes", "frozen<list<blob>>"),
        ],
    },
    Definition {
        keyspace: SYSTEM,
        name: COLUMN_IDS,
        comment: "column numbers and exact drop times",
        partition_key: &["keyspace_name", "table_name"],
        clustering: &["column_name"],
        columns: &[("id_bound", "static int"), ("column_id", "int"), ("dropped_time_us", "bigint")],
    },
    Definition {
        keyspace: SYSTEM,
        name: INDEX_IDS,
        comment: "identifiers of secondary indexes",
        partition_key: &["keyspace_name", "table_name"],
        clustering: &["index_name"],
        columns: &[("index_id", "uuid")],
    },
    Definition {
        keyspace: AUTH,
        name: ROLES,
        comment: "role definitions",
        partition_key: &["role"],
        clustering: &[],
        columns: &[
            ("can_login", "boolean"),
            ("is_superuser", "boolean"),
            ("member_of", "set<text>"),
            ("salted_hash", "text"),
        ],
    },
    Definition {
        keyspace: AUTH,
        name: ROLE_MEMBERS,
        comment: "role memberships lookup table",
        partition_key: &["role"],
        clustering: &["member"],
        columns: &[],
    },
    Definition {
        keyspace: AUTH,
        name: ROLE_PERMISSIONS,
        comment: "permissions granted to db roles",
        partition_key: &["role"],
        clustering: &["resource"],
        columns: &[("permissions", "set<text>")],
    },
    Definition {
        keyspace: AUTH,
        name: RESOURCE_ROLES,
        comment: "index of db roles with permissions granted on a resource",
        partition_key: &["resource"],
        clustering: &["role"],
        columns: &[],
    },
    Definition {
        keyspace: SYSTEM,
        name: ROLE_ATTRIBUTES,
        comment: "attributes of roles, their service levels among them",
        partition_key: &["role"],
        clustering: &["name"],
        columns: &[("value", "text")],
    },
    Definition {
        keyspace: SYSTEM,
        name: SERVICE_LEVELS,
        comment: "service levels",
        partition_key: &["service_level"],
        clustering: &[],
        columns: &[("timeout", "duration"), ("workload_type", "text"), ("shares", "int")],
    },
];

#[cfg(test)]
mod tests {
    use model::ColumnId;

    use super::*;
    use crate::system::definition::system_table_id;

    /// Names of directories created by a real Cassandra 4.1.
    #[test]
    fn table_ids_are_cassandras() {
        let id = |table: &str| system_table_id(SYSTEM_SCHEMA, table).simple().to_string();
        for (table, expect) in [
            (KEYSPACES, "abac5682dea631c5b535b3d6cffd0fb6"),
            (TABLES, "afddfb9dbc1e30688056eed6c302ba09"),
            (COLUMNS, "24101c25a2ae3af787c1b40ee1aca33f"),
            (DROPPED_COLUMNS, "5e7583b5f3f43af19a39b7e1d6f5f11f"),
            (TRIGGERS, "4df70b666b05325195a132b54005fd48"),
            (VIEWS, "9786ac1cdd583201a7cdad556410c985"),
            (TYPES, "5a8b1ca866023f77a0459273d308917a"),
            (FUNCTIONS, "96489b7980be3e14a70166a0b9159450"),
            (AGGREGATES, "924c55872e3a345bb10c12f37c1ba895"),
            (INDEXES, "0feb57ac311f382fba6d9024d305702f"),
        ] {
            assert_eq!(id(table), expect, "{table}");
        }
        assert_eq!(system_table_id(SYSTEM, "local").simple().to_string(), "7ad54392bcdd35a684174e047860b377");
    }

    #[test]
    fn ids_of_columns_follow_the_definitions() {
        for (schema, definition) in system_tables().iter().zip(DEFINITIONS) {
            for (id, (name, _)) in (0..).zip(definition.columns) {
                assert_eq!(schema.column_named(name).unwrap().id, ColumnId(id), "{}.{name}", schema.name);
            }
            assert_eq!(schema.options.gc_grace_s, 604_800);
        }
        let tables = system_table(TABLES);
        assert_eq!(tables.column_named("flags").unwrap().ty.to_cql(), "frozen<set<text>>");
        assert_eq!(system_table(FUNCTIONS).clustering[1].ty.to_cql(), "frozen<list<text>>");
        assert!(system_table(COLUMN_IDS).has_static());
    }
}
