//! What the server is started with: one typed value out of four layers.
//!
//! Flags count more than the environment (`MESSINA_…`), that more than `messina.yaml`, that more than the defaults.
//!
//! - [`options`]: the table of all options: names in both vendors' spellings, types, limits, what they do;
//! - [`units`]: durations and sizes;
//! - [`layers`]: YAML, environment and flags as settings, and settings into a [`Config`]; errors and warnings;
//! - [`flags`]: each option as a flag;
//! - [`ignored`]: options of the peers that mean nothing on a single node;
//! - [`storage`]: what the engine gets of it.
//!
//! All of it is pure but [`load`], which reads the file and the environment.

pub mod flags;
pub mod ignored;
pub mod layers;
pub mod options;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod units;

use std::path::{Path, PathBuf};

pub use layers::{ConfigErrors, Note, Setting};
pub use options::{CommitlogSync, IoBackend, LogLevel, OnDamagedCommitlog, SstableFormat};

/// The file that is read if no other is named and it is there.
pub const DEFAULT_FILE: &str = "messina.yaml";
/// A configuration is never longer; whatever is, is another file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything that can be configured; what each means is in [`options::OPTIONS`] and `docs/configuration.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub cluster_name: String,
    pub data_dir: PathBuf,
    pub in_memory: bool,
    pub memory_bytes: Option<u64>,
    pub smp: Option<u64>,
    pub pin_shards: bool,
    pub io_backend: IoBackend,
    pub io_properties_file: Option<PathBuf>,
    pub io_latency_goal_us: u64,
    pub stream_io_throughput_bytes_s: u64,
    pub commitlog_sync: CommitlogSync,
    pub commitlog_sync_period_ms: u64,
    pub commitlog_sync_group_window_ms: u64,
    pub commitlog_segment_bytes: Option<u64>,
    pub commitlog_total_bytes: Option<u64>,
    pub on_damaged_commitlog: OnDamagedCommitlog,
    pub sstable_format: SstableFormat,
    pub auto_snapshot: bool,

    pub listen_address: String,
    pub rpc_address: Option<String>,
    pub broadcast_rpc_address: Option<String>,
    pub native_transport_port: u16,
    pub native_transport_port_ssl: u16,
    pub native_shard_aware_transport_port: u16,
    pub native_shard_aware_transport_port_ssl: u16,
    pub native_transport_max_frame_bytes: u64,
    pub native_transport_max_concurrent_connections: Option<u64>,
    pub native_transport_max_concurrent_requests_bytes: Option<u64>,
    pub max_concurrent_requests_per_shard: Option<u64>,
    pub native_transport_idle_timeout_ms: u64,
    pub client_encryption: ClientEncryption,
    pub authenticator: options::Authenticator,
    pub authorizer: options::Authorizer,

    /// 0: no limit.
    pub compaction_throughput_bytes_per_s: u64,
    /// On a shard.
    pub concurrent_compactors: Option<u64>,
    pub compaction_enforce_min_threshold: bool,
    /// 0: by the backlog.
    pub compaction_static_shares: u64,
    pub compaction_max_shares: u64,
    /// Of all shards.
    pub disk_budget_bytes: Option<u64>,

    pub read_request_timeout_ms: u64,
    pub range_request_timeout_ms: u64,
    pub write_request_timeout_ms: u64,
    pub counter_write_request_timeout_ms: u64,
    pub cas_contention_timeout_ms: u64,
    pub truncate_request_timeout_ms: u64,
    pub request_timeout_ms: u64,
    pub tombstone_warn_threshold: u64,
    pub tombstone_failure_threshold: u64,
    pub query_tombstone_page_limit: u64,
    pub large_partition_warning_bytes: u64,
    pub rows_count_warning_threshold: u64,
    pub large_row_warning_bytes: u64,
    pub large_cell_warning_bytes: u64,
    pub collection_elements_warning_threshold: u64,
    pub large_data_records_per_sstable: u64,
    pub batch_size_warn_bytes: u64,
    pub batch_size_fail_bytes: u64,
    pub unlogged_batch_across_partitions_warn_threshold: u64,
    pub max_memory_for_unlimited_query_soft_bytes: u64,
    pub max_memory_for_unlimited_query_hard_bytes: u64,
    pub query_page_bytes: u64,
    pub enable_cache: bool,
    pub cache_index_pages: bool,

    pub api_address: String,
    pub api_port: u16,
    pub prometheus_address: String,
    pub prometheus_port: u16,
    pub blocked_reactor_notify_ms: u64,
    pub blocked_reactor_reports_per_minute: u64,
    pub log_level: LogLevel,
}

/// TLS for clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientEncryption {
    pub enabled: bool,
    /// Clients without TLS are served too, on the same port.
    pub optional: bool,
    /// PEM files.
    pub certificate: Option<PathBuf>,
    pub keyfile: Option<PathBuf>,
    pub truststore: Option<PathBuf>,
    pub require_client_auth: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cluster_name: "Test Cluster".into(),
            data_dir: "messina-data".into(),
            in_memory: false,
            memory_bytes: None,
            smp: None,
            pin_shards: false,
            io_backend: IoBackend::Auto,
            io_properties_file: None,
            io_latency_goal_us: runtime::LATENCY_GOAL_NS / 1000,
            stream_io_throughput_bytes_s: 0,
            commitlog_sync: CommitlogSync::Periodic,
            commitlog_sync_period_ms: 10_000,
            commitlog_sync_group_window_ms: 10,
            commitlog_segment_bytes: None,
            commitlog_total_bytes: None,
            on_damaged_commitlog: OnDamagedCommitlog::Refuse,
            sstable_format: SstableFormat::Me,
            auto_snapshot: true,
            listen_address: "127.0.0.1".into(),
            rpc_address: None,
            broadcast_rpc_address: None,
            native_transport_port: 9042,
            native_transport_port_ssl: 9142,
            native_shard_aware_transport_port: 19042,
            native_shard_aware_transport_port_ssl: 19142,
            native_transport_max_frame_bytes: 16 << 20,
            native_transport_max_concurrent_connections: None,
            native_transport_max_concurrent_requests_bytes: None,
            max_concurrent_requests_per_shard: None,
            native_transport_idle_timeout_ms: 0,
            client_encryption: ClientEncryption::default(),
            authenticator: options::Authenticator::AllowAll,
            authorizer: options::Authorizer::AllowAll,
            compaction_throughput_bytes_per_s: 0,
            concurrent_compactors: None,
            compaction_enforce_min_threshold: false,
            compaction_static_shares: 0,
            compaction_max_shares: 1000,
            disk_budget_bytes: None,
            read_request_timeout_ms: 5_000,
            range_request_timeout_ms: 10_000,
            write_request_timeout_ms: 2_000,
            counter_write_request_timeout_ms: 5_000,
            cas_contention_timeout_ms: 1_000,
            truncate_request_timeout_ms: 60_000,
            request_timeout_ms: 10_000,
            tombstone_warn_threshold: 1_000,
            tombstone_failure_threshold: 100_000,
            query_tombstone_page_limit: 10_000,
            large_partition_warning_bytes: 1000 << 20,
            rows_count_warning_threshold: 100_000,
            large_row_warning_bytes: 10 << 20,
            large_cell_warning_bytes: 1 << 20,
            collection_elements_warning_threshold: 10_000,
            large_data_records_per_sstable: 10,
            batch_size_warn_bytes: 5 << 10,
            batch_size_fail_bytes: 50 << 10,
            unlogged_batch_across_partitions_warn_threshold: 10,
            max_memory_for_unlimited_query_soft_bytes: 1 << 20,
            max_memory_for_unlimited_query_hard_bytes: 100 << 20,
            query_page_bytes: 1 << 20,
            enable_cache: true,
            cache_index_pages: true,
            api_address: "127.0.0.1".into(),
            api_port: 10_000,
            prometheus_address: "127.0.0.1".into(),
            prometheus_port: 9180,
            blocked_reactor_notify_ms: 25,
            blocked_reactor_reports_per_minute: 5,
            log_level: LogLevel::Info,
        }
    }
}

impl Config {
    /// Where CQL is spoken: `rpc_address` if there is one, else `listen_address`.
    pub fn cql_address(&self) -> &str {
        self.rpc_address.as_deref().unwrap_or(&self.listen_address)
    }

    /// The address that clients are told.
    pub fn broadcast_address(&self) -> &str {
        self.broadcast_rpc_address.as_deref().unwrap_or(self.cql_address())
    }
}

/// A configuration, and what is to be said about it once there is a log.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub notes: Vec<Note>,
    /// The file that was read.
    pub file: Option<PathBuf>,
}

/// Reads file and environment and puts the flags on top. `file` is the one that was asked for, if any.
///
/// # Errors
/// Everything that is wrong, not only the first thing.
#[allow(clippy::disallowed_methods, reason = "the door through which the environment comes in")]
pub fn load(file: Option<&Path>, flags: Vec<Setting>) -> Result<Loaded, ConfigErrors> {
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let from_environment = variables.iter().find(|(name, _)| name == "MESSINA_CONFIG");
    let asked = file.map(Path::to_owned).or(from_environment.map(|(_, path)| path.into()));
    let (path, must_be_there) = match asked {
        Some(path) => (path, true),
        None => (DEFAULT_FILE.into(), false),
    };
    let mut settings = vec![];
    let mut read = None;
    match read_file(&path) {
        Ok(text) => {
            settings.extend(layers::from_yaml(&path, &text)?);
            read = Some(path);
        }
        Err(error) if !must_be_there && error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(ConfigErrors::of(format!("cannot read {}: {error}", path.display()))),
    }
    settings.extend(layers::from_environment(&variables));
    settings.extend(flags);
    let (config, notes) = layers::apply(settings)?;
    Ok(Loaded { config, notes, file: read })
}

fn read_file(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is longer than 1 MiB; is it a configuration?"));
    }
    Ok(text)
}
