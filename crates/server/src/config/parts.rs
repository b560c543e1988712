//! The parts of a [`Config`](super::Config): one for each consumer, small enough to be destructured.
//!
//! Each consumer destructures its part without `..` and denies unused variables. An option that nothing reads
//! therefore does not compile: its field must be named where the part is consumed, and a named field must be
//! used.
//!
//! | part | consumer |
//! |---|---|
//! | all of them | `serve::run` |
//! | [`PlaceConfig`], [`HttpConfig`], [`MachineConfig`], [`LogConfig`], [`BackupConfig`] | `serve.rs` |
//! | [`CommitlogConfig`], [`CompactionConfig`], [`SSTableConfig`], [`LargeDataConfig`], [`ReadConfig`] | `storage.rs` |
//! | [`IdentityConfig`], [`ListenConfig`], [`SecurityConfig`], [`RequestConfig`], [`ResultConfig`], [`BatchConfig`], [`SchemaConfig`] | `cql_server/wiring.rs` |
//! | [`TimeoutConfig`] | `cql_server/wiring.rs`; two of them also limit the engine's queues |

use std::path::PathBuf;

use super::audit::AuditConfig;
use super::encryption::Encryption;
use super::http_protection::HttpProtection;
use super::options::{
    Authenticator, Authorizer, CommitlogSync, IoBackend, LogLevel, LoggerLevels, OnDamagedCommitlog,
    SSTableFormat,
};
use super::ports;
use crate::log_levels::LogLevels;

/// Names and addresses under which clients know the node, and the replicas that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct IdentityConfig {
    pub cluster_name: String,
    /// `None`: the address of the CQL listener.
    pub broadcast_rpc_address: Option<String>,
    pub data_center: String,
    pub rack: String,
    /// The node counts as all replicas of a keyspace.
    pub counts_as_all_replicas: bool,
}

impl Default for IdentityConfig {
    fn default() -> Self {
        Self {
            cluster_name: "Test Cluster".into(),
            broadcast_rpc_address: None,
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            counts_as_all_replicas: false,
        }
    }
}

impl IdentityConfig {
    /// The address reported to clients. `listen` has the address of the CQL listener.
    pub fn address<'a>(&'a self, listen: &'a ListenConfig) -> &'a str {
        self.broadcast_rpc_address.as_deref().unwrap_or(listen.address())
    }
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogConfig {
    pub level: LogLevel,
    /// Of loggers with a level of their own.
    pub loggers: LoggerLevels,
}

impl LogConfig {
    pub fn levels(self) -> LogLevels {
        let Self { level, loggers } = self;
        let of = |(logger, level): (_, LogLevel)| (logger, level.filter());
        LogLevels { root: level.filter(), loggers: loggers.into_iter().map(of).collect() }
    }
}

/// Where the data are.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceConfig {
    pub data_dir: PathBuf,
    pub in_memory: bool,
}

impl Default for PlaceConfig {
    fn default() -> Self {
        Self { data_dir: "messina-data".into(), in_memory: false }
    }
}

/// How much of the machine the node uses.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineConfig {
    pub memory_bytes: Option<u64>,
    pub smp: Option<u64>,
    pub pin_shards: bool,
    pub io_backend: IoBackend,
    pub io_properties_file: Option<PathBuf>,
    pub io_latency_goal_us: u64,
    /// 0: no limit.
    pub stream_io_throughput_bytes_s: u64,
    pub blocked_reactor_notify_ms: u64,
    pub blocked_reactor_reports_per_minute: u64,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            smp: None,
            pin_shards: false,
            io_backend: IoBackend::Auto,
            io_properties_file: None,
            io_latency_goal_us: runtime::LATENCY_GOAL_NS / 1000,
            stream_io_throughput_bytes_s: 0,
            blocked_reactor_notify_ms: 25,
            blocked_reactor_reports_per_minute: 5,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CommitlogConfig {
    pub sync: CommitlogSync,
    pub sync_period_ms: u64,
    pub sync_group_window_ms: u64,
    pub segment_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    pub on_damaged: OnDamagedCommitlog,
}

impl Default for CommitlogConfig {
    fn default() -> Self {
        Self {
            sync: CommitlogSync::Periodic,
            sync_period_ms: 10_000,
            sync_group_window_ms: 10,
            segment_bytes: None,
            total_bytes: None,
            on_damaged: OnDamagedCommitlog::Refuse,
        }
    }
}

/// Backups that the node makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupConfig {
    pub target: Option<String>,
    /// 0: no schedule.
    pub interval_ms: u64,
    /// 0: all.
    pub keep: u64,
    /// 0: no limit.
    pub io_throughput_bytes_s: u64,
    /// 0: the commit log is not archived.
    pub archive_interval_ms: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CompactionConfig {
    /// 0: no limit.
    pub throughput_bytes_per_s: u64,
    /// On each shard.
    pub concurrent_compactors: Option<u64>,
    pub enforce_min_threshold: bool,
    /// 0: computed from the backlog.
    pub static_shares: u64,
    pub max_shares: u64,
    /// Of all shards.
    pub disk_budget_bytes: Option<u64>,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            throughput_bytes_per_s: 0,
            concurrent_compactors: None,
            enforce_min_threshold: false,
            static_shares: 0,
            max_shares: 1000,
            disk_budget_bytes: None,
        }
    }
}

/// How SSTables are written, and snapshots of SSTables that are removed.
#[derive(Clone, Debug, PartialEq)]
pub struct SSTableConfig {
    pub format: SSTableFormat,
    /// Bytes of a summary per byte of rows.
    pub summary_ratio: f64,
    pub auto_snapshot: bool,
}

impl Default for SSTableConfig {
    fn default() -> Self {
        Self {
            format: SSTableFormat::Me,
            summary_ratio: sstable::write::SUMMARY_RATIO_DEFAULT,
            auto_snapshot: true,
        }
    }
}

/// Thresholds from which partitions, rows and cells are reported as large.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeDataConfig {
    pub partition_bytes: u64,
    pub partition_rows: u64,
    pub row_bytes: u64,
    pub cell_bytes: u64,
    pub collection_elements: u64,
    pub records_per_sstable: u64,
}

impl Default for LargeDataConfig {
    fn default() -> Self {
        Self {
            partition_bytes: 1000 << 20,
            partition_rows: 100_000,
            row_bytes: 10 << 20,
            cell_bytes: 1 << 20,
            collection_elements: 10_000,
            records_per_sstable: 10,
        }
    }
}

/// Limits of the engine's reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadConfig {
    /// 0: no limit.
    pub tombstone_failure_threshold: u64,
    pub enable_cache: bool,
    pub cache_index_pages: bool,
    /// 0: no limit.
    pub serialize_limit_multiplier: u64,
    /// 0: no limit.
    pub kill_limit_multiplier: u64,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self {
            tombstone_failure_threshold: 100_000,
            enable_cache: true,
            cache_index_pages: true,
            serialize_limit_multiplier: 2,
            kill_limit_multiplier: 4,
        }
    }
}

/// Addresses and ports for clients; port 0: the port is not opened.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenConfig {
    pub listen_address: String,
    pub rpc_address: Option<String>,
    pub port: u16,
    pub port_ssl: Option<u16>,
    pub shard_aware_port: u16,
    pub shard_aware_port_ssl: Option<u16>,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            listen_address: "127.0.0.1".into(),
            rpc_address: None,
            port: 9042,
            port_ssl: None,
            shard_aware_port: 19042,
            shard_aware_port_ssl: None,
        }
    }
}

impl ListenConfig {
    /// The address of the CQL listener: `rpc_address` if set, else `listen_address`.
    pub fn address(&self) -> &str {
        self.rpc_address.as_deref().unwrap_or(&self.listen_address)
    }

    /// The input of the port plan.
    pub fn wanted(&self, encryption: &Encryption) -> ports::Wanted {
        let Self {
            listen_address: _,
            rpc_address: _,
            port,
            port_ssl,
            shard_aware_port,
            shard_aware_port_ssl,
        } = *self;
        ports::Wanted {
            port,
            port_ssl,
            shard_aware_port,
            shard_aware_port_ssl,
            tls: encryption.enabled,
            optional: encryption.optional,
        }
    }
}

/// Authentication, authorization and TLS of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct SecurityConfig {
    pub client_encryption: Encryption,
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    pub dynamic_data_masking: bool,
    pub audit: AuditConfig,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            client_encryption: Encryption::default(),
            authenticator: Authenticator::AllowAll,
            authorizer: Authorizer::AllowAll,
            dynamic_data_masking: false,
            audit: AuditConfig::default(),
        }
    }
}

/// Limits of clients' requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestConfig {
    pub frame_bytes_max: u64,
    pub connections_max: Option<u64>,
    /// On each shard.
    pub in_flight_bytes_max: Option<u64>,
    /// On each shard.
    pub in_flight_max: Option<u64>,
    /// 0: no timeout.
    pub idle_timeout_ms: u64,
}

impl Default for RequestConfig {
    fn default() -> Self {
        Self {
            frame_bytes_max: 16 << 20,
            connections_max: None,
            in_flight_bytes_max: None,
            in_flight_max: None,
            idle_timeout_ms: 0,
        }
    }
}

/// Timeouts of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeoutConfig {
    pub read_ms: u64,
    pub range_ms: u64,
    pub write_ms: u64,
    pub counter_write_ms: u64,
    pub cas_contention_ms: u64,
    pub truncate_ms: u64,
    /// Statements that take longer are logged; 0: none.
    pub slow_query_ms: u64,
}

impl Default for TimeoutConfig {
    fn default() -> Self {
        Self {
            read_ms: 5_000,
            range_ms: 10_000,
            write_ms: 2_000,
            counter_write_ms: 5_000,
            cas_contention_ms: 1_000,
            truncate_ms: 60_000,
            slow_query_ms: 500,
        }
    }
}

/// Limits of results, and thresholds of warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultConfig {
    pub page_bytes: u64,
    pub unpaged_soft_bytes: u64,
    pub unpaged_hard_bytes: u64,
    /// 0: no warning.
    pub tombstone_warn_threshold: u64,
    /// 0: no limit.
    pub tombstone_page_limit: u64,
}

impl Default for ResultConfig {
    fn default() -> Self {
        Self {
            page_bytes: 1 << 20,
            unpaged_soft_bytes: 1 << 20,
            unpaged_hard_bytes: 100 << 20,
            tombstone_warn_threshold: 1_000,
            tombstone_page_limit: 10_000,
        }
    }
}

/// Thresholds from which batches are warned of or refused.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchConfig {
    pub warn_bytes: u64,
    pub fail_bytes: u64,
    pub unlogged_partitions_warn: u64,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self { warn_bytes: 5 << 10, fail_bytes: 50 << 10, unlogged_partitions_warn: 10 }
    }
}

/// What schema changes may do.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaConfig {
    pub compact_tables_enabled: bool,
    pub drop_compact_storage_enabled: bool,
    pub materialized_views_enabled: bool,
    pub functions: FunctionConfig,
}

impl Default for SchemaConfig {
    fn default() -> Self {
        Self {
            compact_tables_enabled: true,
            drop_compact_storage_enabled: false,
            materialized_views_enabled: true,
            functions: FunctionConfig::default(),
        }
    }
}

/// User-defined functions.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionConfig {
    pub is_enabled: bool,
    /// Limits of one call.
    pub time_ms: u64,
    pub memory_bytes: u64,
}

impl Default for FunctionConfig {
    /// ScyllaDB's limits.
    fn default() -> Self {
        Self { is_enabled: false, time_ms: 10, memory_bytes: 1 << 20 }
    }
}

/// Addresses of the admin API and the metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    pub api_address: String,
    pub api_port: u16,
    /// Whether the page of the node is served.
    pub api_page: bool,
    /// Whether the page has a console.
    pub api_page_console: bool,
    pub prometheus_address: String,
    /// 0: no metrics.
    pub prometheus_port: u16,
    pub protection: HttpProtection,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            api_address: "127.0.0.1".into(),
            api_port: 10_000,
            api_page: true,
            api_page_console: true,
            prometheus_address: "127.0.0.1".into(),
            prometheus_port: 9180,
            protection: HttpProtection::default(),
        }
    }
}
