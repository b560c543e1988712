//! The table of options: each is one place in a [`Config`], with its names, its type and what it does.
//!
//! The name is Cassandra's of 4.1 and later where Cassandra has the option, else ScyllaDB's, else ours. `also` are
//! the other spellings, each with what a bare number counts there (`commitlog_segment_size_in_mb: 32`).

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::Config;
use super::units::{self, Bare};

/// One option.
pub struct OptionDef {
    pub name: &'static str,
    pub also: &'static [(&'static str, Bare)],
    pub at: for<'a> fn(&'a mut Config) -> At<'a>,
    /// For the documentation.
    pub what: &'static str,
}

/// Where a value goes, by its type. `Auto…` may be unset, which is written `auto` or, as the peers do, `-1`.
pub enum At<'a> {
    Text(&'a mut String),
    AutoText(&'a mut Option<String>),
    Path(&'a mut PathBuf),
    AutoPath(&'a mut Option<PathBuf>),
    /// `data_file_directories`: `<data_dir>/data`.
    DataDirectories(&'a mut PathBuf),
    Bool(&'a mut bool),
    Port(&'a mut u16),
    AutoPort(&'a mut Option<u16>),
    /// Names with commas between them; `auto`: none.
    AutoNames(&'a mut Vec<String>),
    Number(&'a mut u64),
    AutoNumber(&'a mut Option<u64>, RangeInclusive<u64>),
    Millis(&'a mut u64, RangeInclusive<u64>),
    Micros(&'a mut u64, RangeInclusive<u64>),
    Bytes(&'a mut u64),
    AutoBytes(&'a mut Option<u64>, RangeInclusive<u64>),
    /// Bytes per second: `64MiB/s`; 0 is no limit.
    Rate(&'a mut u64),
    Choice(&'a mut dyn Choose),
    /// From 0 to 1.
    Part(&'a mut f64),
}

/// A value of an enumeration, by name.
pub trait Choose {
    fn names(&self) -> Vec<&'static str>;
    fn name(&self) -> &'static str;
    /// False if there is no such name.
    fn choose(&mut self, name: &str) -> bool;
}

/// Classes may be named with the package that they have with the peers; a class of another package is another class.
pub fn without_package(name: &str) -> &str {
    const PACKAGES: [&str; 2] = ["org.apache.cassandra.auth.", "com.scylladb.auth."];
    PACKAGES.iter().find_map(|package| name.strip_prefix(package)).unwrap_or(name)
}

macro_rules! choice {
    ($(#[$meta:meta])* $type:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_meta])* $variant),+ }

        impl Choose for $type {
            fn names(&self) -> Vec<&'static str> {
                vec![$($name),+]
            }

            fn name(&self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            fn choose(&mut self, name: &str) -> bool {
                let name = without_package(name);
                match () {
                    $(() if name.eq_ignore_ascii_case($name) => *self = Self::$variant,)+
                    () => return false,
                }
                true
            }
        }
    };
}

choice! {
    /// When a write is acknowledged.
    CommitlogSync { Periodic = "periodic", Batch = "batch", Group = "group" }
}
choice! {
    /// What to do with a commit log that has lost durable writes.
    OnDamagedCommitlog { Refuse = "refuse", Skip = "skip" }
}
choice! {
    /// What SSTables are written as.
    SSTableFormat { Me = "me", Nb = "nb" }
}
choice! {
    /// How I/O is done.
    IoBackend { Auto = "auto", IoUring = "io_uring", LinuxAio = "linux_aio", Threads = "threads" }
}
choice! {
    /// What is logged.
    #[derive(Default)]
    LogLevel { Error = "error", Warn = "warn", #[default] Info = "info", Debug = "debug", Trace = "trace" }
}

choice! {
    /// Who may log in.
    Authenticator { AllowAll = "AllowAllAuthenticator", Password = "PasswordAuthenticator" }
}
choice! {
    /// Who may do what.
    Authorizer { AllowAll = "AllowAllAuthorizer", Cassandra = "CassandraAuthorizer" }
}

const fn option(
    name: &'static str,
    also: &'static [(&'static str, Bare)],
    at: for<'a> fn(&'a mut Config) -> At<'a>,
    what: &'static str,
) -> OptionDef {
    OptionDef { name, also, at, what }
}

const MS: Bare = Bare::Milliseconds;
const NONE: Bare = Bare::Refused;
const SHARDS: RangeInclusive<u64> = 1..=256;
const MEMORY: RangeInclusive<u64> = 32 << 20..=1 << 44;
const SEGMENT: RangeInclusive<u64> = 1 << 20..=1 << 30;
const LOG: RangeInclusive<u64> = 8 << 20..=1 << 44;
const TIMEOUT: RangeInclusive<u64> = 1..=u64::MAX;
const SYNC: RangeInclusive<u64> = 1..=3_600_000;
const LATENCY_GOAL: RangeInclusive<u64> = 50..=1_000_000;

/// All options, in the order of the documentation.
#[rustfmt::skip]
pub const OPTIONS: &[OptionDef] = &[
    option("cluster_name", &[], |c| At::Text(&mut c.identity.cluster_name), "The name that drivers and `nodetool` show."),
    option("dc", &[], |c| At::Text(&mut c.identity.data_center), "The node's data center, as in Cassandra's `cassandra-rackdc.properties`: the one that `NetworkTopologyStrategy` may name, and that drivers look for."),
    option("rack", &[], |c| At::Text(&mut c.identity.rack), "The node's rack, as in `cassandra-rackdc.properties`."),
    option("node_counts_as_all_replicas", &[], |c| At::Bool(&mut c.identity.counts_as_all_replicas), "Count this node as every replica, in all data centers: `QUORUM`, `ALL`, `SERIAL` and conditions are answered in keyspaces with several replicas, and `NetworkTopologyStrategy` may name any data center. There is still one copy of the data. For tests with a schema from production."),
    option("data_dir", &[("workdir", NONE)], |c| At::Path(&mut c.place.data_dir), "Everything is kept below this directory."),
    option("data_file_directories", &[("data_file_directory", NONE)], |c| At::DataDirectories(&mut c.place.data_dir), "Cassandra's way to say `data_dir`: one directory called `data`; `data_dir` is the directory it is in."),
    option("in_memory", &[], |c| At::Bool(&mut c.place.in_memory), "Keep nothing: data live in a directory in memory that is removed at the end. For tests."),
    option("memory", &[], |c| At::AutoBytes(&mut c.machine.memory_bytes, MEMORY), "Limit for the memory of all shards; not taken in advance: memtables have up to half of it, memtables and caches together up to three quarters. `auto`: an eighth of the machine's memory, at most 2GiB."),
    option("smp", &[], |c| At::AutoNumber(&mut c.machine.smp, SHARDS), "Shards, each one thread. `auto`: one for each core that the process may use. May change from one start to the next."),
    option("pin_shards", &[], |c| At::Bool(&mut c.machine.pin_shards), "Tie each shard to a core."),
    option("io_backend", &[("reactor_backend", NONE)], |c| At::Choice(&mut c.machine.io_backend), "How I/O is done. `auto`: the first of the others that the machine allows."),
    option("io_properties_file", &[], |c| At::AutoPath(&mut c.machine.io_properties_file), "What the disk can do, in ScyllaDB's `io_properties.yaml`. `auto`: not known, and requests wait for nothing but too many others."),
    option("io_latency_goal", &[("io_latency_goal_ms", MS)], |c| At::Micros(&mut c.machine.io_latency_goal_us, LATENCY_GOAL), "How much work the disk may have ahead of it, all classes together, which is how long a read waits for what was started before it. Less makes reads beside compactions faster, and compactions slower on disks that need many requests at once."),
    option("stream_io_throughput", &[("stream_io_throughput_mb_per_sec", Bare::MiB), ("maintenance_io_throughput_mb_per_sec", Bare::MiB)], |c| At::Rate(&mut c.machine.stream_io_throughput_bytes_s), "What maintenance (repair, scrub, start-up) may read and write in a second, of all shards; 0: what others leave."),
    option("commitlog_sync", &[], |c| At::Choice(&mut c.commitlog.sync), "When a write is acknowledged: `batch` and `group` after it is synced to disk, `periodic` when the operating system has it."),
    option("commitlog_sync_period", &[("commitlog_sync_period_in_ms", MS)], |c| At::Millis(&mut c.commitlog.sync_period_ms, SYNC), "With `periodic`: how often the commit log is synced, so how much a loss of power can cost."),
    option("commitlog_sync_group_window", &[("commitlog_sync_group_window_in_ms", MS), ("commitlog_sync_batch_window_in_ms", MS)], |c| At::Millis(&mut c.commitlog.sync_group_window_ms, SYNC), "With `group`: how long a sync waits for company."),
    option("commitlog_segment_size", &[("commitlog_segment_size_in_mb", Bare::MiB)], |c| At::AutoBytes(&mut c.commitlog.segment_bytes, SEGMENT), "Size of a commit log file; a mutation may be half as large. `auto`: 32MiB, or 8MiB with `in_memory`."),
    option("commitlog_total_space", &[("commitlog_total_space_in_mb", Bare::MiB)], |c| At::AutoBytes(&mut c.commitlog.total_bytes, LOG), "Disk space of the commit log; tables are flushed to stay below. `auto`: 1GiB, or four segments a shard if that is more."),
    option("on_damaged_commitlog", &[], |c| At::Choice(&mut c.commitlog.on_damaged), "What to do at the start if durable writes cannot be read back (a segment of the commit log is damaged, cut or missing): do not start, or start without them."),
    option("compaction_throughput", &[("compaction_throughput_mb_per_sec", Bare::MiB)], |c| At::Rate(&mut c.compaction.throughput_bytes_per_s), "How fast compactions may read, of all shards together; 0: no limit, they take what requests leave over."),
    option("concurrent_compactors", &[], |c| At::AutoNumber(&mut c.compaction.concurrent_compactors, 1..=1024), "Compactions that run at a time on a shard. `auto`: one of each size class."),
    option("compaction_enforce_min_threshold", &[], |c| At::Bool(&mut c.compaction.enforce_min_threshold), "Never merge fewer SSTables than a table's `min_threshold`, even if there is nothing else to do."),
    option("compaction_static_shares", &[], |c| At::Number(&mut c.compaction.static_shares), "CPU shares of compactions; 0: more when there is more to do."),
    option("compaction_max_shares", &[], |c| At::Number(&mut c.compaction.max_shares), "CPU shares that compactions get at most; less than 100 counts as 100."),
    option("disk_budget", &[], |c| At::AutoBytes(&mut c.compaction.disk_budget_bytes, MEMORY), "What SSTables may take of the disk, with compactions under way, as IncrementalCompactionStrategy plans them; other strategies do not look at it. `auto`: all of it."),
    option("compaction_large_partition_warning_threshold", &[("compaction_large_partition_warning_threshold_mb", Bare::MiB)], |c| At::Bytes(&mut c.large_data.partition_bytes), "A partition of which a new SSTable has more is told to the log and shown in `system.large_partitions`."),
    option("compaction_rows_count_warning_threshold", &[], |c| At::Number(&mut c.large_data.partition_rows), "The same for a partition of which a new SSTable has more rows."),
    option("compaction_large_row_warning_threshold", &[("compaction_large_row_warning_threshold_mb", Bare::MiB)], |c| At::Bytes(&mut c.large_data.row_bytes), "A larger row is told to the log and shown in `system.large_rows`."),
    option("compaction_large_cell_warning_threshold", &[("compaction_large_cell_warning_threshold_mb", Bare::MiB)], |c| At::Bytes(&mut c.large_data.cell_bytes), "A larger cell or collection is told to the log and shown in `system.large_cells`."),
    option("compaction_collection_elements_count_warning_threshold", &[], |c| At::Number(&mut c.large_data.collection_elements), "The same for a collection with more elements."),
    option("compaction_large_data_records_per_sstable", &[], |c| At::Number(&mut c.large_data.records_per_sstable), "So many partitions, rows and cells of an SSTable are shown there, those that are furthest beyond the threshold."),
    option("sstable_format", &[], |c| At::Choice(&mut c.sstables.format), "What new SSTables are written as: `me` is read by Cassandra from 3.11 and by ScyllaDB, `nb` by Cassandra from 4.0."),
    option("sstable_summary_ratio", &[], |c| At::Part(&mut c.sstables.summary_ratio), "Bytes of an SSTable's summary, which stays in memory, for each byte of rows before compression: more make lookups of partitions read less of Index.db. The table's `min_index_interval` and `max_index_interval` bound the partitions between two entries."),
    option("auto_snapshot", &[], |c| At::Bool(&mut c.sstables.auto_snapshot), "Take a snapshot of a table before TRUNCATE and DROP; without room for one they are refused. A table says otherwise with `allow_auto_snapshot`."),
    option("listen_address", &[], |c| At::Text(&mut c.listen.listen_address), "Where CQL is spoken, unless `rpc_address` says otherwise."),
    option("rpc_address", &[("native_transport_address", NONE)], |c| At::AutoText(&mut c.listen.rpc_address), "Where CQL is spoken. `auto`: `listen_address`."),
    option("broadcast_rpc_address", &[("broadcast_native_address", NONE)], |c| At::AutoText(&mut c.identity.broadcast_rpc_address), "The address that clients are told. `auto`: the one where CQL is spoken."),
    option("native_transport_port", &[], |c| At::Port(&mut c.listen.port), "Port for CQL."),
    option("native_transport_port_ssl", &[], |c| At::AutoPort(&mut c.listen.port_ssl), "Port for CQL with TLS, in place of `native_transport_port`, or beside it if TLS is `optional`. `auto`, 0: `client_encryption_options` encrypt `native_transport_port` itself."),
    option("native_shard_aware_transport_port", &[], |c| At::Port(&mut c.listen.shard_aware_port), "Port for drivers that choose the shard by their own port; 0: none."),
    option("native_shard_aware_transport_port_ssl", &[], |c| At::AutoPort(&mut c.listen.shard_aware_port_ssl), "The same for `native_shard_aware_transport_port`."),
    option("native_transport_max_frame_size", &[("native_transport_max_frame_size_in_mb", Bare::MiB)], |c| At::Bytes(&mut c.requests.frame_bytes_max), "Longer requests are refused."),
    option("native_transport_max_concurrent_connections", &[], |c| At::AutoNumber(&mut c.requests.connections_max, 1..=u64::MAX), "More connections are refused. `auto`: no limit but the system's."),
    option("native_transport_max_concurrent_requests_in_bytes", &[], |c| At::AutoBytes(&mut c.requests.in_flight_bytes_max, 1 << 20..=1 << 40), "Bytes of requests under way on a shard; beyond, interactive ones are refused and others wait in their sockets. `auto`: 64MiB."),
    option("max_concurrent_requests_per_shard", &[], |c| At::AutoNumber(&mut c.requests.in_flight_max, 1..=u32::MAX as u64), "Requests under way on a shard; beyond, they are refused. `auto`: no limit."),
    option("native_transport_idle_timeout", &[("native_transport_idle_timeout_in_ms", MS)], |c| At::Millis(&mut c.requests.idle_timeout_ms, 0..=u64::MAX), "Connections on which no bytes came or went for so long are closed, unless requests are in flight and the client takes its answers; 0: never."),
    option("client_encryption_options.enabled", &[], |c| At::Bool(&mut c.security.client_encryption.enabled), "TLS for clients: no port serves plain text, unless `optional`. See docs/security.md."),
    option("client_encryption_options.optional", &[], |c| At::Bool(&mut c.security.client_encryption.optional), "Serve clients without TLS on the same port too."),
    option("client_encryption_options.certificate", &[], |c| At::AutoPath(&mut c.security.client_encryption.certificate), "The server's certificate chain, PEM."),
    option("client_encryption_options.keyfile", &[], |c| At::AutoPath(&mut c.security.client_encryption.keyfile), "Its private key, PEM."),
    option("client_encryption_options.truststore", &[], |c| At::AutoPath(&mut c.security.client_encryption.truststore), "Certificates that clients' certificates must come from, PEM."),
    option("client_encryption_options.certificate_revocation_list", &[("client_encryption_options.certficate_revocation_list", NONE)], |c| At::AutoPath(&mut c.security.client_encryption.revocation_list), "Clients' certificates that are revoked: X509 CRLs, PEM."),
    option("client_encryption_options.require_client_auth", &[], |c| At::Choice(&mut c.security.client_encryption.client_auth), "Clients must have a certificate; `optional`: one that they have must be good."),
    option("client_encryption_options.accepted_protocols", &[], |c| At::AutoNames(&mut c.security.client_encryption.accepted_protocols), "Versions of TLS: TLSv1.2, TLSv1.3. `auto`: both."),
    option("client_encryption_options.cipher_suites", &[], |c| At::AutoNames(&mut c.security.client_encryption.cipher_suites), "Cipher suites by their names in Java. `auto`: all that rustls speaks."),
    option("authenticator", &[], |c| At::Choice(&mut c.security.authenticator), "Who may log in: anybody, or roles with their passwords. The first start with `PasswordAuthenticator` makes the superuser `cassandra` with the password `cassandra`."),
    option("authorizer", &[], |c| At::Choice(&mut c.security.authorizer), "Who may do what: every role everything, or what `GRANT` has allowed it. `CassandraAuthorizer` needs `authenticator: PasswordAuthenticator`."),
    option("dynamic_data_masking_enabled", &[], |c| At::Bool(&mut c.security.dynamic_data_masking), "Columns may be masked (`MASKED WITH`): users without the permission `UNMASK` see masks in place of values. While it is off, masks are kept and do not act. Everybody has `UNMASK` with `authorizer: AllowAllAuthorizer`."),
    option("read_request_timeout", &[("read_request_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.read_ms, TIMEOUT), "How long a read of single partitions may take, counted from its arrival."),
    option("range_request_timeout", &[("range_request_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.range_ms, TIMEOUT), "How long a page of a scan may take."),
    option("write_request_timeout", &[("write_request_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.write_ms, TIMEOUT), "How long a write may take."),
    option("counter_write_request_timeout", &[("counter_write_request_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.counter_write_ms, TIMEOUT), "How long a counter update may take."),
    option("cas_contention_timeout", &[("cas_contention_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.cas_contention_ms, TIMEOUT), "How much longer than `write_request_timeout` a conditional statement may take: it waits for others on the same partition."),
    option("truncate_request_timeout", &[("truncate_request_timeout_in_ms", MS)], |c| At::Millis(&mut c.timeouts.truncate_ms, TIMEOUT), "How long TRUNCATE may take."),
    option("tombstone_warn_threshold", &[], |c| At::Number(&mut c.results.tombstone_warn_threshold), "A page that is read past more tombstones is told to the log, and to the client as a warning; 0: none is."),
    option("tombstone_failure_threshold", &[], |c| At::Number(&mut c.reads.tombstone_failure_threshold), "A read that meets more tombstones on one page, or without pages at all, is refused; 0: none is."),
    option("query_tombstone_page_limit", &[], |c| At::Number(&mut c.results.tombstone_page_limit), "A page ends behind so many tombstones, perhaps without a row; 0: it does not."),
    option("batch_size_warn_threshold", &[("batch_size_warn_threshold_in_kb", Bare::KiB)], |c| At::Bytes(&mut c.batches.warn_bytes), "A larger batch over several partitions is answered with a warning, and logged."),
    option("batch_size_fail_threshold", &[("batch_size_fail_threshold_in_kb", Bare::KiB)], |c| At::Bytes(&mut c.batches.fail_bytes), "A larger batch over several partitions is refused with `Batch too large`, and logged as an error."),
    option("unlogged_batch_across_partitions_warn_threshold", &[], |c| At::Number(&mut c.batches.unlogged_partitions_warn), "An unlogged or counter batch over more partitions is answered with a warning, and logged once a minute."),
    option("max_memory_for_unlimited_query_soft_limit", &[], |c| At::Bytes(&mut c.results.unpaged_soft_bytes), "An unpaged read that takes more memory is logged. A bare number counts bytes."),
    option("max_memory_for_unlimited_query_hard_limit", &[("max_memory_for_unlimited_query", Bare::Bytes)], |c| At::Bytes(&mut c.results.unpaged_hard_bytes), "An unpaged read that takes more memory is refused. A bare number counts bytes."),
    option("query_page_size_in_bytes", &[], |c| At::Bytes(&mut c.results.page_bytes), "A page of results ends when it takes more. A bare number counts bytes."),
    option("reader_concurrency_semaphore_serialize_limit_multiplier", &[], |c| At::Number(&mut c.reads.serialize_limit_multiplier), "When reads of a shard hold more than so many times the memory that they are admitted for, only one at a time gets more; 0: no such limit."),
    option("reader_concurrency_semaphore_kill_limit_multiplier", &[], |c| At::Number(&mut c.reads.kill_limit_multiplier), "When they hold more than so many times that memory, reads that ask for more are refused; 0: no such limit."),
    option("enable_cache", &[], |c| At::Bool(&mut c.reads.enable_cache), "Keep rows in memory that reads of single partitions have found, for all tables whose `caching` does not say otherwise."),
    option("cache_index_pages", &[], |c| At::Bool(&mut c.reads.cache_index_pages), "Keep pages of SSTables' indexes in memory. Without, a read of a large partition searches its index on disk each time."),
    option("api_address", &[], |c| At::Text(&mut c.http.api_address), "Where the admin API and `nodetool` are served."),
    option("api_port", &[], |c| At::Port(&mut c.http.api_port), "Port of the admin API."),
    option("prometheus_address", &[], |c| At::Text(&mut c.http.prometheus_address), "Where metrics are served."),
    option("prometheus_port", &[], |c| At::Port(&mut c.http.prometheus_port), "Port of the metrics; 0: none."),
    option("api_password_file", &[], |c| At::AutoPath(&mut c.http.protection.password_file), "Who may use the admin API and read the metrics: `name:password` on each line, readable by its owner alone. `auto`: nobody is asked."),
    option("api_allow_anonymous", &[], |c| At::Bool(&mut c.http.protection.api_allow_anonymous), "Let the admin API be reached beyond the loopback without a password."),
    option("prometheus_allow_anonymous", &[], |c| At::Bool(&mut c.http.protection.prometheus_allow_anonymous), "Ask nobody who reads the metrics, wherever they are served."),
    option("blocked_reactor_notify", &[("blocked_reactor_notify_ms", MS)], |c| At::Millis(&mut c.machine.blocked_reactor_notify_ms, TIMEOUT), "A task that runs longer without a pause is counted as a stall, and some are logged."),
    option("blocked_reactor_reports_per_minute", &[], |c| At::Number(&mut c.machine.blocked_reactor_reports_per_minute), "How many stalls a shard logs in a minute."),
    option("log_level", &[("default_log_level", NONE)], |c| At::Choice(&mut c.log_level), "What is logged to standard error."),
];

/// Bare numbers of these count bytes also under their own name, as in ScyllaDB.
const BARE_BYTES: &[&str] = &[
    "max_memory_for_unlimited_query_soft_limit",
    "max_memory_for_unlimited_query_hard_limit",
    "query_page_size_in_bytes",
];

/// The option of this name or other spelling, and what a bare number counts there.
pub fn find(name: &str) -> Option<(&'static OptionDef, Bare)> {
    OPTIONS.iter().find_map(|option| {
        if option.name == name {
            let bare = if BARE_BYTES.contains(&name) { Bare::Bytes } else { Bare::Refused };
            return Some((option, bare));
        }
        let (_, bare) = option.also.iter().find(|(other, _)| *other == name)?;
        Some((option, *bare))
    })
}

impl At<'_> {
    /// Sets the value.
    ///
    /// # Errors
    /// What would be allowed.
    pub fn set(self, text: &str, bare: Bare) -> Result<(), String> {
        let text = text.trim();
        let is_auto = text == "auto" || text == "-1";
        match self {
            Self::Text(at) => {
                if text.is_empty() {
                    return Err("a text that is not empty".into());
                }
                *at = text.into();
            }
            Self::AutoText(at) => *at = (!is_auto && !text.is_empty()).then(|| text.into()),
            Self::Path(at) => {
                if text.is_empty() {
                    return Err("a path".into());
                }
                *at = text.into();
            }
            Self::AutoPath(at) => *at = (!is_auto && !text.is_empty()).then(|| text.into()),
            Self::DataDirectories(at) => {
                let path = Path::new(text);
                match (path.file_name(), path.parent()) {
                    (Some(last), Some(above)) if last == "data" => {
                        *at = if above.as_os_str().is_empty() { ".".into() } else { above.into() };
                    }
                    _ => return Err("a directory called `data`; or use data_dir".into()),
                }
            }
            Self::Bool(at) => {
                *at = match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" | "1" => true,
                    "false" | "no" | "off" | "0" => false,
                    _ => return Err("true or false".into()),
                }
            }
            Self::Port(at) => *at = text.parse().map_err(|_| "a port, 0 to 65535".to_string())?,
            Self::AutoPort(at) if is_auto => *at = None,
            Self::AutoPort(at) => {
                *at = Some(text.parse().map_err(|_| "auto or a port, 0 to 65535".to_string())?);
            }
            Self::AutoNames(at) if is_auto => at.clear(),
            Self::AutoNames(at) => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                *at = names.map(str::to_string).collect();
            }
            Self::Number(at) => *at = text.parse().map_err(|_| "a whole number, 0 or more".to_string())?,
            Self::AutoNumber(at, range) => {
                let allowed = || format!("auto or a whole number{}", within(&range, |n| n.to_string()));
                *at = if is_auto { None } else { Some(in_range(text.parse().ok(), &range, allowed)?) };
            }
            Self::Millis(at, range) => {
                let allowed = || units::DURATION_FORM.to_string() + &within(&range, units::show_millis);
                *at = in_range(units::parse_millis(text, bare), &range, allowed)?;
            }
            Self::Micros(at, range) => {
                let allowed = || units::DURATION_FORM.to_string() + &within(&range, units::show_micros);
                *at = in_range(units::parse_micros(text, bare), &range, allowed)?;
            }
            Self::Bytes(at) => *at = units::parse_bytes(text, bare).ok_or(units::SIZE_FORM)?,
            Self::Rate(at) => {
                let bytes = units::parse_bytes(text.strip_suffix("/s").unwrap_or(text), bare);
                *at = bytes.ok_or("a size per second: 64MiB/s")?;
            }
            Self::AutoBytes(at, range) => {
                let allowed = || format!("auto or {}{}", units::SIZE_FORM, within(&range, units::show_bytes));
                *at = if is_auto {
                    None
                } else {
                    Some(in_range(units::parse_bytes(text, bare), &range, allowed)?)
                };
            }
            Self::Part(at) => {
                let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
                *at = part.ok_or("a number from 0 to 1")?;
            }
            Self::Choice(at) => {
                if !at.choose(text) {
                    return Err(at.names().join(" or "));
                }
            }
        }
        Ok(())
    }

    /// The value as it would be written.
    pub fn show(self) -> String {
        let auto = || "auto".to_string();
        match self {
            Self::Text(at) => at.clone(),
            Self::AutoText(at) => at.clone().unwrap_or_else(auto),
            Self::Path(at) => at.display().to_string(),
            Self::AutoPath(at) => at.as_ref().map_or_else(auto, |path| path.display().to_string()),
            Self::DataDirectories(at) => at.join("data").display().to_string(),
            Self::Bool(at) => at.to_string(),
            Self::Port(at) => at.to_string(),
            Self::AutoPort(at) => at.map_or_else(auto, |port| port.to_string()),
            Self::AutoNames(at) if at.is_empty() => auto(),
            Self::AutoNames(at) => at.join(","),
            Self::Number(at) => at.to_string(),
            Self::AutoNumber(at, _) => at.map_or_else(auto, |number| number.to_string()),
            Self::Millis(at, _) => units::show_millis(*at),
            Self::Micros(at, _) => units::show_micros(*at),
            Self::Bytes(at) => units::show_bytes(*at),
            Self::AutoBytes(at, _) => at.map_or_else(auto, units::show_bytes),
            Self::Rate(at) => units::show_bytes(*at) + "/s",
            Self::Part(at) => at.to_string(),
            Self::Choice(at) => at.name().to_string(),
        }
    }

    /// The type in words, for the documentation.
    pub fn kind(&self) -> String {
        match self {
            Self::Text(_) | Self::AutoText(_) => "text".into(),
            Self::Path(_) | Self::AutoPath(_) | Self::DataDirectories(_) => "path".into(),
            Self::Bool(_) => "true, false".into(),
            Self::Port(_) | Self::AutoPort(_) => "port".into(),
            Self::AutoNames(_) => "names".into(),
            Self::Number(_) | Self::AutoNumber(..) => "number".into(),
            Self::Millis(..) | Self::Micros(..) => "duration".into(),
            Self::Bytes(_) | Self::AutoBytes(..) => "size".into(),
            Self::Rate(_) => "size per second".into(),
            Self::Part(_) => "number from 0 to 1".into(),
            Self::Choice(at) => at.names().join(", "),
        }
    }
}

fn in_range(
    value: Option<u64>,
    range: &RangeInclusive<u64>,
    allowed: impl Fn() -> String,
) -> Result<u64, String> {
    value.filter(|value| range.contains(value)).ok_or_else(allowed)
}

fn within(range: &RangeInclusive<u64>, show: impl Fn(u64) -> String) -> String {
    match (*range.start(), *range.end()) {
        (0, u64::MAX) => String::new(),
        (least, u64::MAX) => format!("; at least {}", show(least)),
        (least, most) => format!("; {} to {}", show(least), show(most)),
    }
}
