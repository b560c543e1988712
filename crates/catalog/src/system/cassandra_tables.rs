//! More tables of Cassandra that tools and test suites read, in addition to those of `virtual_tables.rs`.
//! They contain the data that the node has. They have no data on features that the node lacks (repairs,
//! hints, streams, messages between nodes), nor on values that it does not measure per table (scans,
//! tombstones and rows per read, the coordinator's part of a request).
//!
//! Names, columns and types are Cassandra 5.0's, taken from its `system_schema` and `system_virtual_schema`.

use crate::system::definition::CompactDefinition;
use crate::system::virtual_content::{Content, DISTRIBUTED, VIEWS_KS};
use crate::system::{AUTH, SYSTEM};

pub(crate) const CASSANDRA_TABLES: &[(Content, CompactDefinition)] = &[
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "available_ranges",
            comment: "available keyspace/ranges during bootstrap/replace that are ready to be served",
            partition_key: &["keyspace_name"],
            clustering: &[],
            columns: "ranges set<blob>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "paxos_repair_history",
            comment: "paxos repair history",
            partition_key: &["keyspace_name"],
            clustering: &["table_name"],
            columns: "points frozen<list<frozen<tuple<blob, timeuuid>>>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "peer_events",
            comment: "events related to peers",
            partition_key: &["peer inet"],
            clustering: &[],
            columns: "hints_dropped map<timeuuid, int>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "peer_events_v2",
            comment: "events related to peers",
            partition_key: &["peer inet"],
            clustering: &["peer_port int"],
            columns: "hints_dropped map<timeuuid, int>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "repairs",
            comment: "repairs",
            partition_key: &["parent_id timeuuid"],
            clustering: &[],
            columns: "cfids set<uuid>; coordinator inet; coordinator_port int; last_update timestamp; participants \
                  set<inet>; participants_wp set<text>; ranges set<blob>; repaired_at timestamp; started_at \
                  timestamp; state int",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "sstable_activity",
            comment: "historic sstable read rates",
            partition_key: &["keyspace_name", "columnfamily_name", "generation int"],
            clustering: &[],
            columns: "rate_120m double; rate_15m double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "sstable_activity_v2",
            comment: "historic sstable read rates",
            partition_key: &["keyspace_name", "table_name", "id"],
            clustering: &[],
            columns: "rate_120m double; rate_15m double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "top_partitions",
            comment: "top partitions of each table by size and by tombstones",
            partition_key: &["keyspace_name"],
            clustering: &["table_name", "top_type"],
            columns: "last_update timestamp; top frozen<list<frozen<tuple<text, bigint>>>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "transferred_ranges",
            comment: "record of transferred ranges for streaming operations",
            partition_key: &["operation", "keyspace_name"],
            clustering: &["peer inet"],
            columns: "ranges set<blob>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: SYSTEM,
            name: "transferred_ranges_v2",
            comment: "record of transferred ranges for streaming operations",
            partition_key: &["operation", "keyspace_name"],
            clustering: &["peer inet", "peer_port int"],
            columns: "ranges set<blob>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: AUTH,
            name: "cidr_groups",
            comment: "CIDR groups and their ranges",
            partition_key: &["cidr_group"],
            clustering: &[],
            columns: "cidrs frozen<set<frozen<tuple<inet, smallint>>>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: AUTH,
            name: "cidr_permissions",
            comment: "CIDR groups that roles may come from",
            partition_key: &["role"],
            clustering: &[],
            columns: "cidr_groups frozen<set<text>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: AUTH,
            name: "identity_to_role",
            comment: "mTLS authorized identities lookup table",
            partition_key: &["identity"],
            clustering: &[],
            columns: "role text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: DISTRIBUTED,
            name: "partition_denylist",
            comment: "partitions that are not served",
            partition_key: &["ks_name", "table_name"],
            clustering: &["key blob"],
            columns: "",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "batch_metrics",
            comment: "metrics specific to batch statements",
            partition_key: &["name"],
            clustering: &[],
            columns: "max bigint; p50th double; p999th double; p99th double",
        },
    ),
    (
        Content::Caches,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "caches",
            comment: "system caches",
            partition_key: &["name"],
            clustering: &[],
            columns: "capacity_bytes bigint; entry_count int; hit_count bigint; hit_ratio double; \
                  recent_hit_rate_per_second bigint; recent_request_rate_per_second bigint; request_count bigint; \
                  size_bytes bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "cidr_filtering_metrics_counts",
            comment: "counts specific to CIDR filtering",
            partition_key: &["name"],
            clustering: &[],
            columns: "value bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "cidr_filtering_metrics_latencies",
            comment: "latencies specific to CIDR filtering",
            partition_key: &["name"],
            clustering: &[],
            columns: "max double; p50th double; p95th double; p999th double; p99th double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "coordinator_read_latency",
            comment: "latencies of reads",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "coordinator_scan_latency",
            comment: "latencies of scans",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "coordinator_write_latency",
            comment: "latencies of writes",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::CqlMetrics,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "cql_metrics",
            comment: "metrics specific to CQL prepared statement caching",
            partition_key: &["name"],
            clustering: &[],
            columns: "value double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "credentials_cache_keys",
            comment: "keys in the credentials cache",
            partition_key: &["role"],
            clustering: &[],
            columns: "",
        },
    ),
    (
        Content::DiskUsage,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "disk_usage",
            comment: "live bytes of each table",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "mebibytes bigint",
        },
    ),
    (
        Content::AttachedIndexes,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "sai_column_indexes",
            comment: "storage-attached column index metadata",
            partition_key: &["keyspace_name"],
            clustering: &["index_name"],
            columns: "analyzer text; column_name text; is_building boolean; is_queryable boolean; is_string boolean; \
                  table_name text",
        },
    ),
    (
        Content::AttachedIndexes,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "indexes",
            comment: "storage-attached column index metadata, under the name of Cassandra 5.0's documentation",
            partition_key: &["keyspace_name"],
            clustering: &["index_name"],
            columns: "analyzer text; column_name text; is_building boolean; is_queryable boolean; is_string boolean; \
                  table_name text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "gossip_info",
            comment: "gossip information",
            partition_key: &["address inet"],
            clustering: &["port int"],
            columns: "dc text; dc_version int; disk_usage text; disk_usage_version int; generation int; heartbeat \
                  int; host_id text; host_id_version int; hostname text; index_status text; index_status_version \
                  int; internal_address_and_port text; internal_address_and_port_version int; internal_ip text; \
                  internal_ip_version int; load text; load_version int; native_address_and_port text; \
                  native_address_and_port_version int; net_version text; net_version_version int; rack text; \
                  rack_version int; release_version text; release_version_version int; removal_coordinator text; \
                  removal_coordinator_version int; rpc_address text; rpc_address_version int; rpc_ready text; \
                  rpc_ready_version int; schema text; schema_version int; severity text; severity_version int; \
                  sstable_versions text; sstable_versions_version int; status text; status_version int; \
                  status_with_port text; status_with_port_version int; tokens_version int; x1 text; x10 text; \
                  x10_version int; x1_version int; x2 text; x2_version int; x3 text; x3_version int; x4 text; \
                  x4_version int; x5 text; x5_version int; x6 text; x6_version int; x7 text; x7_version int; x8 \
                  text; x8_version int; x9 text; x9_version int; x_11_padding text; x_11_padding_version int",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "internode_inbound",
            comment: "messages from other nodes",
            partition_key: &["address inet", "port int"],
            clustering: &["dc", "rack"],
            columns: "corrupt_frames_recovered bigint; corrupt_frames_unrecovered bigint; error_bytes bigint; \
                  error_count bigint; expired_bytes bigint; expired_count bigint; processed_bytes bigint; \
                  processed_count bigint; received_bytes bigint; received_count bigint; scheduled_bytes bigint; \
                  scheduled_count bigint; throttled_count bigint; throttled_nanos bigint; using_bytes bigint; \
                  using_reserve_bytes bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "internode_outbound",
            comment: "messages to other nodes",
            partition_key: &["address inet", "port int"],
            clustering: &["dc", "rack"],
            columns: "active_connections bigint; connection_attempts bigint; error_bytes bigint; error_count bigint; \
                  expired_bytes bigint; expired_count bigint; overload_bytes bigint; overload_count bigint; \
                  pending_bytes bigint; pending_count bigint; sent_bytes bigint; sent_count bigint; \
                  successful_connection_attempts bigint; using_bytes bigint; using_reserve_bytes bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "jmx_permissions_cache_keys",
            comment: "keys in the JMX permissions cache",
            partition_key: &["role"],
            clustering: &[],
            columns: "",
        },
    ),
    (
        Content::LocalReadLatency,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "local_read_latency",
            comment: "latencies of local reads",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "local_scan_latency",
            comment: "latencies of local scans",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::LocalWriteLatency,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "local_write_latency",
            comment: "latencies of local writes",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max_ms double; p50th_ms double; p99th_ms double; per_second double",
        },
    ),
    (
        Content::MaxPartitionSize,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "max_partition_size",
            comment: "the largest partition of each table",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "mebibytes bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "max_sstable_duration",
            comment: "the longest time that an SSTable of a time window spans",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "max_sstable_duration bigint",
        },
    ),
    (
        Content::MaxSSTableSize,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "max_sstable_size",
            comment: "the largest SSTable of each table",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "mebibytes bigint",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "network_permissions_cache_keys",
            comment: "keys in the network permissions cache",
            partition_key: &["role"],
            clustering: &[],
            columns: "",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "pending_hints",
            comment: "pending hints that this node has for other nodes",
            partition_key: &["host_id uuid"],
            clustering: &[],
            columns: "address inet; dc text; files int; newest timestamp; oldest timestamp; port int; rack text; \
                  status text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "permissions_cache_keys",
            comment: "keys in the permissions cache",
            partition_key: &["role", "resource"],
            clustering: &[],
            columns: "",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "queries",
            comment: "queries that run",
            partition_key: &["thread_id"],
            clustering: &[],
            columns: "queued_micros bigint; running_micros bigint; task text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "repair_jobs",
            comment: "repair jobs",
            partition_key: &["id uuid"],
            clustering: &[],
            columns: "completed boolean; duration_millis bigint; failure_cause text; keyspace_name text; \
                  last_updated_at timestamp; participants frozen<list<text>>; ranges frozen<list<text>>; \
                  repair_id timeuuid; session_id timeuuid; state_failure_timestamp timestamp; \
                  state_init_timestamp timestamp; state_skipped_timestamp timestamp; \
                  state_snapshot_complete_timestamp timestamp; state_snapshot_start_timestamp timestamp; \
                  state_start_timestamp timestamp; state_stream_start_timestamp timestamp; \
                  state_success_timestamp timestamp; state_validation_complete_timestamp timestamp; \
                  state_validation_start_timestamp timestamp; status text; success_message text; table_name text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "repair_participates",
            comment: "repairs this node takes part in",
            partition_key: &["id timeuuid"],
            clustering: &[],
            columns: "completed boolean; duration_millis bigint; failure_cause text; global boolean; incremental \
                  boolean; initiator text; last_updated_at timestamp; preview_kind text; ranges \
                  frozen<list<text>>; repaired_at timestamp; state_failure_timestamp timestamp; \
                  state_init_timestamp timestamp; state_skipped_timestamp timestamp; state_success_timestamp \
                  timestamp; success_message text; tables frozen<set<text>>; validations frozen<set<uuid>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "repair_sessions",
            comment: "repair sessions",
            partition_key: &["id timeuuid"],
            clustering: &[],
            columns: "completed boolean; duration_millis bigint; failure_cause text; jobs frozen<set<uuid>>; \
                  keyspace_name text; last_updated_at timestamp; participants frozen<list<text>>; ranges \
                  frozen<list<text>>; repair_id timeuuid; state_failure_timestamp timestamp; state_init_timestamp \
                  timestamp; state_jobs_start_timestamp timestamp; state_skipped_timestamp timestamp; \
                  state_start_timestamp timestamp; state_success_timestamp timestamp; status text; \
                  success_message text; table_names frozen<list<text>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "repair_validations",
            comment: "validations of repairs",
            partition_key: &["id uuid"],
            clustering: &[],
            columns: "bytes_read bigint; completed boolean; duration_millis bigint; estimated_partitions bigint; \
                  estimated_total_bytes bigint; failure_cause text; initiator text; keyspace_name text; \
                  last_updated_at timestamp; partitions_processed bigint; progress_percentage float; ranges \
                  frozen<list<text>>; repair_id timeuuid; session_id timeuuid; state_accept_timestamp timestamp; \
                  state_failure_timestamp timestamp; state_init_timestamp timestamp; \
                  state_sending_trees_timestamp timestamp; state_skipped_timestamp timestamp; \
                  state_start_timestamp timestamp; state_success_timestamp timestamp; status text; \
                  success_message text; table_name text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "repairs",
            comment: "repairs",
            partition_key: &["id timeuuid"],
            clustering: &[],
            columns: "command_id int; completed boolean; duration_millis bigint; failure_cause text; keyspace_name \
                  text; last_updated_at timestamp; options_column_families frozen<set<text>>; \
                  options_data_centers frozen<set<text>>; options_force_repair boolean; options_hosts \
                  frozen<set<text>>; options_ignore_unreplicated_keyspaces boolean; options_incremental boolean; \
                  options_job_threads int; options_optimise_streams boolean; options_parallelism text; \
                  options_preview_kind text; options_primary_range boolean; options_pull_repair boolean; \
                  options_ranges frozen<set<text>>; options_subrange_repair boolean; options_trace boolean; \
                  participants frozen<list<text>>; ranges frozen<list<frozen<list<text>>>>; sessions \
                  frozen<set<timeuuid>>; state_failure_timestamp timestamp; state_init_timestamp timestamp; \
                  state_prepare_complete_timestamp timestamp; state_prepare_start_timestamp timestamp; \
                  state_repair_complete_timestamp timestamp; state_repair_start_timestamp timestamp; \
                  state_setup_timestamp timestamp; state_skipped_timestamp timestamp; state_start_timestamp \
                  timestamp; state_success_timestamp timestamp; status text; success_message text; table_names \
                  frozen<list<text>>; type text; unfiltered_ranges frozen<list<frozen<list<text>>>>",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "roles_cache_keys",
            comment: "keys in the roles cache",
            partition_key: &["role"],
            clustering: &[],
            columns: "",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "rows_per_read",
            comment: "rows that reads of each table gave",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max double; p50th double; p99th double",
        },
    ),
    (
        Content::Snapshots,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "snapshots",
            comment: "snapshots",
            partition_key: &["name"],
            clustering: &["keyspace_name", "table_name"],
            columns: "created_at timestamp; ephemeral boolean; expires_at timestamp; size_on_disk bigint; true_size \
                  bigint",
        },
    ),
    (
        Content::SSTableTasks,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "sstable_tasks",
            comment: "current sstable tasks",
            partition_key: &["keyspace_name"],
            clustering: &["table_name", "task_id timeuuid"],
            columns: "completion_ratio double; kind text; progress bigint; sstables int; target_directory text; total \
                  bigint; total_compressed bigint; unit text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "streaming",
            comment: "streaming",
            partition_key: &["id timeuuid"],
            clustering: &[],
            columns: "bytes_received bigint; bytes_sent bigint; bytes_to_receive bigint; bytes_to_send bigint; \
                  duration_millis bigint; failure_cause text; files_received bigint; files_sent bigint; \
                  files_to_receive bigint; files_to_send bigint; follower boolean; last_updated_at timestamp; \
                  operation text; peers frozen<list<text>>; progress_percentage float; status text; \
                  status_failure_timestamp timestamp; status_init_timestamp timestamp; status_start_timestamp \
                  timestamp; status_success_timestamp timestamp; success_message text",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "system_logs",
            comment: "the latest lines of the log",
            partition_key: &["timestamp timestamp"],
            clustering: &["order_in_millisecond int"],
            columns: "level text; logger text; message text",
        },
    ),
    (
        Content::SystemProperties,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "system_properties",
            comment: "Cassandra relevant system properties",
            partition_key: &["name"],
            clustering: &[],
            columns: "value text",
        },
    ),
    (
        Content::ThreadPools,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "thread_pools",
            comment: "tasks of each scheduling group",
            partition_key: &["name"],
            clustering: &[],
            columns: "active_tasks int; active_tasks_limit int; blocked_tasks bigint; blocked_tasks_all_time bigint; \
                  completed_tasks bigint; pending_tasks int",
        },
    ),
    (
        Content::Nothing,
        CompactDefinition {
            keyspace: VIEWS_KS,
            name: "tombstones_per_read",
            comment: "tombstones that reads of each table met",
            partition_key: &["keyspace_name", "table_name"],
            clustering: &[],
            columns: "count bigint; max double; p50th double; p99th double",
        },
    ),
];
