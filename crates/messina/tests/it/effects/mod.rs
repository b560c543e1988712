//! Each option that acts is set to a value other than its default in a process of its own, and its effect is
//! observed from outside: on a socket, in files, in the log, in metrics, in an answer.
//!
//! [`ROWS`] has for each option a value and the way in which the effect is observed. A group is a test; it
//! sets the values of its rows and must observe each of them ([`Group::sees`]). An option of the
//! configuration's table without a row fails [`every_option_that_acts_has_a_row`].

mod audit;
mod backups;
mod caches;
mod commitlog;
mod compactions;
mod listeners;
mod machine;
mod places;
mod requests;
mod results;
mod security;
mod sstables;
mod timeouts;
mod tls;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;

use protocol::ProtocolVersion;
use server::config::layers::{Setting, apply};
use server::config::options::{OPTIONS, find};

use crate::process::{Dir, Server, free_ports, http, pause};
use crate::raw_client::Client;

/// An option, its value, and how the effect is observed.
struct Row {
    group: &'static str,
    option: &'static str,
    /// `{port}` stands for a free port.
    value: &'static str,
    seen: &'static str,
}

const fn row(group: &'static str, option: &'static str, value: &'static str, seen: &'static str) -> Row {
    Row { group, option, value, seen }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("places", "cluster_name", "Strait", "system.local"),
    row("places", "dc", "DC1", "system.local; NetworkTopologyStrategy may name it"),
    row("places", "rack", "RAC1", "system.local"),
    row("places", "node_counts_as_all_replicas", "true", "QUORUM and conditions in a keyspace of three replicas"),
    row("places", "data_dir", "elsewhere", "the directory is there"),
    row("places", "data_file_directories", "there/data", "the directory is there"),
    row("places", "in_memory", "true", "no directory is left"),
    row("places", "log_level", "error", "no line of INFO"),
    row("places", "logger_log_level", "engine=warn:config=error", "lines of other loggers alone"),
    row("machine", "memory", "128MiB", "the limit of memtables in nodetool memory"),
    row("machine", "smp", "3", "threads of shards"),
    row("machine", "pin_shards", "true", "the cores that the kernel lets threads use"),
    row("machine", "io_backend", "threads", "what the runtime says it uses"),
    row("machine", "io_properties_file", "io.yaml", "the model that the node reports"),
    row("machine", "io_latency_goal", "1s", "the commit log is written in fewer requests"),
    row("machine", "stream_io_throughput", "1MiB/s", "how long a verify takes"),
    row("machine", "blocked_reactor_notify", "1ms", "stalls that are counted"),
    row("machine", "blocked_reactor_reports_per_minute", "0", "stalls that are not logged"),
    row("commitlog", "commitlog_sync", "batch", "syncs are counted"),
    row("commitlog", "commitlog_sync_period", "20ms", "syncs are counted"),
    row("commitlog", "commitlog_sync_group_window", "400ms", "how long a write takes"),
    row("commitlog", "commitlog_segment_size", "1MiB", "a mutation of more than half of it is refused"),
    row("commitlog", "commitlog_total_space", "8MiB", "bytes of the log after more writes than that"),
    row("commitlog", "on_damaged_commitlog", "skip", "a node starts whose log has lost a segment"),
    row("compactions", "compaction_throughput", "1MiB/s", "how long a major compaction takes"),
    row("compactions", "concurrent_compactors", "3", "nodetool getconcurrentcompactors"),
    row("compactions", "compaction_enforce_min_threshold", "true", "two SSTables stay two"),
    row("compactions", "compaction_static_shares", "333", "shares of the CPU group"),
    row("compactions", "compaction_max_shares", "100", "shares of the CPU group with a large backlog"),
    row("compactions", "disk_budget", "32MiB", "the log says that a merge exceeds it"),
    row("large_data", "compaction_large_partition_warning_threshold", "6KiB", "system.large_partitions"),
    row("large_data", "compaction_rows_count_warning_threshold", "4", "system.large_partitions"),
    row("large_data", "compaction_large_row_warning_threshold", "2KiB", "system.large_rows"),
    row("large_data", "compaction_large_cell_warning_threshold", "1KiB", "system.large_cells"),
    row("large_data", "compaction_collection_elements_count_warning_threshold", "3", "system.large_cells"),
    row("large_data", "compaction_large_data_records_per_sstable", "2", "rows of system.large_cells"),
    row("sstables", "sstable_format", "nb", "names of files"),
    row("sstables", "auto_snapshot", "false", "TRUNCATE leaves no snapshot"),
    row("sstables", "sstable_summary_ratio", "1", "size of Summary.db"),
    row("backups", "backup_target", "kept", "backups are there"),
    row("backups", "backup_interval", "300ms", "backups are made without a request"),
    row("backups", "backup_keep", "2", "the number of backups that are there"),
    row("backups", "backup_archive_interval", "200ms", "passes of the archive"),
    row("backups", "backup_io_throughput", "1MiB/s", "how long a backup takes"),
    row("listeners", "listen_address", "127.0.0.2", "who answers there"),
    row("listeners", "rpc_address", "127.0.0.3", "who answers there"),
    row("listeners", "broadcast_rpc_address", "10.1.2.3", "system.local"),
    row("listeners", "native_transport_port", "{port}", "who answers there"),
    row("listeners", "native_shard_aware_transport_port", "{port}", "who answers there"),
    row("listeners", "api_address", "127.0.0.2", "who answers there"),
    row("listeners", "api_port", "{port}", "who answers there"),
    row("listeners", "api_page", "false", "the page is not there"),
    row("listeners", "api_page_console", "false", "the console is off"),
    row("listeners", "prometheus_address", "127.0.0.2", "who answers there"),
    row("listeners", "prometheus_port", "{port}", "who answers there"),
    row("requests", "native_transport_max_frame_size", "1MiB", "a longer request is refused"),
    row("requests", "native_transport_max_concurrent_connections", "1", "the second connection is closed"),
    row("requests", "native_transport_max_concurrent_requests_in_bytes", "1MiB", "connections wait"),
    row("requests", "max_concurrent_requests_per_shard", "1", "requests that are refused"),
    row("requests", "native_transport_idle_timeout", "300ms", "an idle connection is closed"),
    row("tls", "client_encryption_options.enabled", "true", "plain text is not answered, TLS is"),
    row("tls", "client_encryption_options.optional", "true", "both are answered"),
    row("tls", "client_encryption_options.certificate", "server.pem", "the authority that the client trusts"),
    row("tls", "client_encryption_options.keyfile", "server.key", "another key is refused at the start"),
    row("tls", "client_encryption_options.truststore", "ca.pem", "strangers are refused"),
    row("tls", "client_encryption_options.certificate_revocation_list", "crl.pem", "a revoked certificate is refused"),
    row("tls", "client_encryption_options.require_client_auth", "true", "clients without a certificate are refused"),
    row("tls", "client_encryption_options.accepted_protocols", "TLSv1.2", "the version that is negotiated"),
    row("tls", "client_encryption_options.cipher_suites", "TLS_CHACHA20_POLY1305_SHA256", "the suite that is negotiated"),
    row("tls", "native_transport_port_ssl", "{port}", "TLS is answered there"),
    row("tls", "native_shard_aware_transport_port_ssl", "{port}", "TLS is answered there"),
    row("security", "authenticator", "PasswordAuthenticator", "STARTUP is answered with AUTHENTICATE"),
    row("security", "authorizer", "CassandraAuthorizer", "a role without a permission is refused"),
    row("security", "dynamic_data_masking_enabled", "true", "a user without UNMASK sees a mask"),
    row("security", "api_password_file", "passwords", "the admin API asks for one"),
    row("security", "api_allow_anonymous", "true", "the admin API asks nobody"),
    row("security", "prometheus_allow_anonymous", "true", "the metrics ask nobody"),
    row("audit", "audit_logging_options.enabled", "true", "lines of a file"),
    row("audit", "audit_logging_options.audit_logs_dir", "audited", "the file is there"),
    row("audit", "audit_logging_options.included_keyspaces", "ks", "entries of this keyspace alone"),
    row("audit", "audit_logging_options.excluded_keyspaces", "other", "no entries of this keyspace"),
    row("audit", "audit_logging_options.included_categories", "DML,QUERY", "entries of these categories alone"),
    row("audit", "audit_logging_options.excluded_categories", "QUERY", "no entries of this category"),
    row("audit", "audit_logging_options.included_users", "ann", "no entry of another user"),
    row("audit", "audit_logging_options.excluded_users", "anonymous", "no entry of this user"),
    row("audit", "audit_logging_options.roll_cycle", "DAILY", "the name of the file"),
    row("audit", "audit_logging_options.block", "false", "entries that are dropped"),
    row("audit", "audit_logging_options.max_queue_weight", "1KiB", "entries that are dropped"),
    row("audit", "audit_logging_options.max_log_size", "1KiB", "an old file is removed"),
    row("timeouts", "read_request_timeout", "1ms", "a read times out"),
    row("timeouts", "range_request_timeout", "1ms", "a scan times out"),
    row("timeouts", "write_request_timeout", "50ms", "a write times out"),
    row("timeouts", "counter_write_request_timeout", "50ms", "an update of a counter times out"),
    row("timeouts", "cas_contention_timeout", "50ms", "a conditional statement times out"),
    row("timeouts", "truncate_request_timeout", "1ms", "TRUNCATE times out"),
    row("timeouts", "slow_query_log_timeout", "1ms", "a line of the log"),
    row("results", "tombstone_warn_threshold", "3", "a warning in the answer"),
    row("results", "tombstone_failure_threshold", "10", "a read is refused"),
    row("results", "query_tombstone_page_limit", "5", "a page without rows"),
    row("results", "batch_size_warn_threshold", "1KiB", "a warning in the answer"),
    row("results", "batch_size_fail_threshold", "2KiB", "a batch is refused"),
    row("results", "unlogged_batch_across_partitions_warn_threshold", "2", "a warning in the answer"),
    row("results", "compact_tables_enabled", "false", "CREATE TABLE is refused"),
    row("results", "drop_compact_storage_enabled", "true", "ALTER TABLE is applied"),
    row("results", "materialized_views_enabled", "false", "CREATE MATERIALIZED VIEW is refused"),
    row("results", "user_defined_functions_enabled", "true", "a function is called"),
    row("results", "user_defined_function_time_limit_ms", "0", "a long call fails"),
    row("results", "user_defined_function_allocation_limit_bytes", "20KiB", "a call with large values fails"),
    row("results", "max_memory_for_unlimited_query_soft_limit", "10KiB", "a line of the log"),
    row("results", "max_memory_for_unlimited_query_hard_limit", "20KiB", "a read is refused"),
    row("results", "query_page_size_in_bytes", "10KiB", "rows of a page"),
    row("caches", "enable_cache", "false", "partitions in the row cache"),
    row("caches", "cache_index_pages", "false", "index pages in memory"),
    row("caches", "reader_concurrency_semaphore_serialize_limit_multiplier", "1", "reads that wait for memory"),
    row("caches", "reader_concurrency_semaphore_kill_limit_multiplier", "1", "reads that are refused"),
];

macro_rules! groups {
    ($($name:ident: $see:path),+ $(,)?) => {
        const GROUPS: &[&str] = &[$(stringify!($name)),+];
        $(#[test] fn $name() { run(stringify!($name), $see) })+
    };
}

groups! {
    places: places::see,
    machine: machine::see,
    commitlog: commitlog::see,
    compactions: compactions::see,
    large_data: sstables::see_large_data,
    sstables: sstables::see,
    backups: backups::see,
    listeners: listeners::see,
    requests: requests::see,
    tls: tls::see,
    security: security::see,
    audit: audit::see,
    timeouts: timeouts::see,
    results: results::see,
    caches: caches::see,
}

#[test]
fn every_option_that_acts_has_a_row() {
    let acts = OPTIONS.iter().map(|option| option.name);
    let with_row: BTreeSet<&str> = ROWS.iter().map(|row| row.option).collect();
    assert_eq!(with_row.len(), ROWS.len(), "an option has two rows");
    assert_eq!(acts.collect::<BTreeSet<_>>(), with_row);
    for Row { group, option, value, seen } in ROWS {
        assert!(GROUPS.contains(group) && !seen.is_empty(), "{option}");
        let value = value.replace("{port}", "1234");
        let given = apply(vec![Setting::flag("--set", option, value.clone())]);
        let (option, _) = find(option).unwrap();
        // A refused value prevents the start; an accepted one must differ from the default. Options of a part
        // that is off are noted as without effect.
        if let Ok((mut config, notes)) = given
            && notes.is_empty()
        {
            let mut default = server::config::Config::default();
            assert_ne!(
                (option.target)(&mut config).show(),
                (option.target)(&mut default).show(),
                "{}",
                option.name
            );
        }
    }
}

fn run(name: &'static str, see: fn(&Group)) {
    let group = Group {
        name,
        dir: Dir::new(&format!("effects-{name}")),
        ports: RefCell::default(),
        seen: RefCell::default(),
    };
    see(&group);
    let rows: BTreeSet<&str> = ROWS.iter().filter(|row| row.group == name).map(|row| row.option).collect();
    assert_eq!(*group.seen.borrow(), rows, "what was seen");
}

/// The rows of a group, and the options whose effect has been observed.
struct Group {
    name: &'static str,
    dir: Dir,
    ports: RefCell<BTreeMap<&'static str, u16>>,
    seen: RefCell<BTreeSet<&'static str>>,
}

impl Group {
    fn row(&self, option: &str) -> &'static Row {
        let is_it = |row: &&Row| row.option == option && row.group == self.name;
        ROWS.iter().find(is_it).unwrap_or_else(|| panic!("{} has no row {option}", self.name))
    }

    /// The port that is the value of an option.
    fn port(&self, option: &'static str) -> u16 {
        let any = || {
            let [port] = free_ports();
            port
        };
        *self.ports.borrow_mut().entry(option).or_insert_with(any)
    }

    /// `name=value`, from the table.
    fn setting(&self, option: &'static str) -> String {
        let value = self.row(option).value;
        match value {
            "{port}" => format!("{option}={}", self.port(option)),
            _ => format!("{option}={value}"),
        }
    }

    /// The arguments that set these options to their values in the table.
    fn arguments(&self, options: &[&'static str]) -> Vec<String> {
        options.iter().flat_map(|option| ["--set".to_string(), self.setting(option)]).collect()
    }

    /// A directory of the group.
    fn place(&self, name: &str) -> PathBuf {
        let path = self.dir.0.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Starts a node in a directory of the group, with the table's values of these options and with more
    /// arguments.
    fn start(&self, place: &str, options: &[&'static str], more: &[&str]) -> Server {
        let arguments = self.arguments(options);
        let all: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::start(&self.place(place), &all)
    }

    /// Asserts that the option has its effect.
    #[track_caller]
    fn sees(&self, option: &'static str, is_seen: bool, found: impl Display) {
        let Row { value, seen, .. } = self.row(option);
        assert!(is_seen, "{option}: {value} ({seen}): {found}");
        self.seen.borrow_mut().insert(option);
    }
}

/// A client of the node; creates the keyspace `ks` if it does not exist.
fn client(server: &Server) -> Client {
    let mut client = Client::start(server.cql_port, ProtocolVersion::V5);
    client.run(
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    client
}

/// The sum of the metric's lines with this prefix.
fn metric(server: &Server, begin: &str) -> f64 {
    let (_, text) = http(server.prometheus_port, "GET /metrics", "");
    let of_it = text.lines().filter(|line| line.starts_with(begin));
    of_it.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Waits some seconds for `is` to become true; returns whether it did.
fn becomes(mut is: impl FnMut() -> bool) -> bool {
    (0..300).any(|_| is() || (pause(20), false).1)
}

/// Incompressible bytes as a blob literal of CQL.
fn blob(bytes: usize, seed: u64) -> String {
    let mut rng = base::rng::Rng::new(seed);
    let words = (0..bytes.div_ceil(8)).map(|_| format!("{:016x}", rng.next_u64()));
    format!("0x{}", &words.collect::<String>()[..2 * bytes])
}
