//! The table of options. Each row is one place in a [`Config`], with its names, its type and its help.
//!
//! The name is Cassandra's of 4.1 and later where Cassandra has the option, else ScyllaDB's, else Messina's.
//! `also` are the other spellings, each with the unit of a bare number (`commitlog_segment_size_in_mb: 32`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use log::LevelFilter;

use super::Config;
use super::units::{self, DefaultUnit};
use crate::log_levels;

/// One option.
pub struct OptionDef {
    pub name: &'static str,
    pub also: &'static [(&'static str, DefaultUnit)],
    pub target: for<'a> fn(&'a mut Config) -> Target<'a>,
    /// Help text, for the documentation.
    pub what: &'static str,
}

/// The place of a value, by its type. `Auto…` values may be unset, written `auto` or `-1`, as Cassandra and
/// ScyllaDB write it.
pub enum Target<'a> {
    Text(&'a mut String),
    AutoText(&'a mut Option<String>),
    Path(&'a mut PathBuf),
    AutoPath(&'a mut Option<PathBuf>),
    /// `data_file_directories`: `<data_dir>/data`.
    DataDirectories(&'a mut PathBuf),
    Bool(&'a mut bool),
    Port(&'a mut u16),
    AutoPort(&'a mut Option<u16>),
    /// Names separated by commas; `auto`: none.
    AutoNames(&'a mut Vec<String>),
    Number(&'a mut u64),
    AutoNumber(&'a mut Option<u64>, RangeInclusive<u64>),
    Millis(&'a mut u64, RangeInclusive<u64>),
    Micros(&'a mut u64, RangeInclusive<u64>),
    Bytes(&'a mut u64),
    AutoBytes(&'a mut Option<u64>, RangeInclusive<u64>),
    /// Bytes per second: `64MiB/s`; 0: no limit.
    Rate(&'a mut u64),
    Choice(&'a mut dyn EnumOption),
    /// `compaction=debug:cql=warn`, as in ScyllaDB, or a section of such names and values; `auto`: none.
    LoggerLevels(&'a mut LoggerLevels),
    /// From 0 to 1.
    Part(&'a mut f64),
}

/// Levels by the names of loggers.
pub type LoggerLevels = BTreeMap<&'static str, LogLevel>;

/// An enumeration whose values are set by name.
pub trait EnumOption {
    fn names(&self) -> Vec<&'static str>;
    fn name(&self) -> &'static str;
    /// Sets the value; false if there is no such name.
    fn set_by_name(&mut self, name: &str) -> bool;
}

/// The class name without a package of Cassandra or ScyllaDB. A class of any other package is another class.
pub fn without_package(name: &str) -> &str {
    const PACKAGES: [&str; 2] = ["org.apache.cassandra.auth.", "com.scylladb.auth."];
    PACKAGES.iter().find_map(|package| name.strip_prefix(package)).unwrap_or(name)
}

macro_rules! choice {
    ($(#[$meta:meta])* $type:ident { $($(#[$variant_meta:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_meta])* $variant),+ }

        impl EnumOption for $type {
            fn names(&self) -> Vec<&'static str> {
                vec![$($name),+]
            }

            fn name(&self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            fn set_by_name(&mut self, name: &str) -> bool {
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
    /// What a start does with a commit log that has lost durable writes.
    OnDamagedCommitlog { Refuse = "refuse", Skip = "skip" }
}
choice! {
    /// The format of new SSTables.
    SSTableFormat { Me = "me", Nb = "nb" }
}
choice! {
    /// The kernel interface for I/O.
    IoBackend { Auto = "auto", IoUring = "io_uring", LinuxAio = "linux_aio", Threads = "threads" }
}
choice! {
    /// The least severe level that is logged.
    #[derive(Default)]
    LogLevel { Error = "error", Warn = "warn", #[default] Info = "info", Debug = "debug", Trace = "trace" }
}

impl LogLevel {
    pub fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::Error,
            Self::Warn => LevelFilter::Warn,
            Self::Info => LevelFilter::Info,
            Self::Debug => LevelFilter::Debug,
            Self::Trace => LevelFilter::Trace,
        }
    }
}

choice! {
    /// How clients log in.
    Authenticator { AllowAll = "AllowAllAuthenticator", Password = "PasswordAuthenticator" }
}
choice! {
    /// What logged-in clients may do.
    Authorizer { AllowAll = "AllowAllAuthorizer", Cassandra = "CassandraAuthorizer" }
}

const fn option(
    name: &'static str,
    also: &'static [(&'static str, DefaultUnit)],
    target: for<'a> fn(&'a mut Config) -> Target<'a>,
    what: &'static str,
) -> OptionDef {
    OptionDef { name, also, target, what }
}

const MS: DefaultUnit = DefaultUnit::Milliseconds;
const NONE: DefaultUnit = DefaultUnit::Refused;
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
    option("cluster_name", &[], |c| Target::Text(&mut c.identity.cluster_name), "The name that drivers and `nodetool` show."),
    option("dc", &[], |c| Target::Text(&mut c.identity.data_center), "The node's data center, as in Cassandra's `cassandra-rackdc.properties`: the one that `NetworkTopologyStrategy` may name, and that drivers look for."),
    option("rack", &[], |c| Target::Text(&mut c.identity.rack), "The node's rack, as in `cassandra-rackdc.properties`."),
    option("node_counts_as_all_replicas", &[], |c| Target::Bool(&mut c.identity.counts_as_all_replicas), "Count this node as every replica, in all data centers: `QUORUM`, `ALL`, `SERIAL` and conditions are answered in keyspaces with several replicas, and `NetworkTopologyStrategy` may name any data center. There is still one copy of the data. For tests with a schema from production."),
    option("data_dir", &[("workdir", NONE)], |c| Target::Path(&mut c.place.data_dir), "The directory that holds all data."),
    option("data_file_directories", &[("data_file_directory", NONE)], |c| Target::DataDirectories(&mut c.place.data_dir), "Cassandra's form of `data_dir`: one directory called `data`; `data_dir` is its parent directory."),
    option("in_memory", &[], |c| Target::Bool(&mut c.place.in_memory), "Keep data in a directory in memory that is removed at the end. For tests."),
    option("memory", &[], |c| Target::AutoBytes(&mut c.machine.memory_bytes, MEMORY), "Limit of the memory of all shards, not reserved in advance. Memtables use up to half of it, memtables and caches together up to three quarters. `auto`: an eighth of the machine's memory, at most 2GiB."),
    option("smp", &[], |c| Target::AutoNumber(&mut c.machine.smp, SHARDS), "The number of shards, each one thread. `auto`: one for each core that the process may use. The number may change from one start to the next."),
    option("pin_shards", &[], |c| Target::Bool(&mut c.machine.pin_shards), "Pin each shard to a core."),
    option("io_backend", &[("reactor_backend", NONE)], |c| Target::Choice(&mut c.machine.io_backend), "The kernel interface for I/O. `auto`: the first of the others that the machine allows."),
    option("io_properties_file", &[], |c| Target::AutoPath(&mut c.machine.io_properties_file), "The rates of the disk, in ScyllaDB's `io_properties.yaml`. `auto`: unknown; requests wait only when too many are in flight."),
    option("io_latency_goal", &[("io_latency_goal_ms", MS)], |c| Target::Micros(&mut c.machine.io_latency_goal_us, LATENCY_GOAL), "The work that the disk may have in flight, all classes together, as the time that it takes. A read waits that long for requests that were started before it. A lower goal makes reads faster during compactions, and compactions slower on disks that need many requests in flight."),
    option("stream_io_throughput", &[("stream_io_throughput_mb_per_sec", DefaultUnit::MiB), ("maintenance_io_throughput_mb_per_sec", DefaultUnit::MiB)], |c| Target::Rate(&mut c.machine.stream_io_throughput_bytes_s), "Limit in bytes per second of reads and writes by maintenance (repair, scrub, start-up), of all shards; 0: no limit, maintenance uses the disk time that other classes leave."),
    option("commitlog_sync", &[], |c| Target::Choice(&mut c.commitlog.sync), "When a write is acknowledged: with `batch` and `group` after it is synced to disk, with `periodic` after it is written to the operating system."),
    option("commitlog_sync_period", &[("commitlog_sync_period_in_ms", MS)], |c| Target::Millis(&mut c.commitlog.sync_period_ms, SYNC), "With `periodic`: the interval between syncs of the commit log. A power failure can lose the writes of that time."),
    option("commitlog_sync_group_window", &[("commitlog_sync_group_window_in_ms", MS), ("commitlog_sync_batch_window_in_ms", MS)], |c| Target::Millis(&mut c.commitlog.sync_group_window_ms, SYNC), "With `group`: the time for which a sync waits for more writes."),
    option("commitlog_segment_size", &[("commitlog_segment_size_in_mb", DefaultUnit::MiB)], |c| Target::AutoBytes(&mut c.commitlog.segment_bytes, SEGMENT), "Size of a segment of the commit log; a mutation may be half as large. `auto`: 32MiB, or 8MiB with `in_memory`."),
    option("commitlog_total_space", &[("commitlog_total_space_in_mb", DefaultUnit::MiB)], |c| Target::AutoBytes(&mut c.commitlog.total_bytes, LOG), "Limit of the disk space of the commit log; tables are flushed to stay below it. `auto`: 1GiB, or four segments for each shard if that is more."),
    option("on_damaged_commitlog", &[], |c| Target::Choice(&mut c.commitlog.on_damaged), "The action if durable writes cannot be read at the start, because a segment of the commit log is damaged, cut or missing: refuse to start, or start without these writes."),
    option("compaction_throughput", &[("compaction_throughput_mb_per_sec", DefaultUnit::MiB)], |c| Target::Rate(&mut c.compaction.throughput_bytes_per_s), "Limit in bytes per second of the reads by compactions, of all shards together; 0: no limit, compactions use the disk time that requests leave."),
    option("concurrent_compactors", &[], |c| Target::AutoNumber(&mut c.compaction.concurrent_compactors, 1..=1024), "Limit of concurrent compactions on a shard. `auto`: one of each size class."),
    option("compaction_enforce_min_threshold", &[], |c| Target::Bool(&mut c.compaction.enforce_min_threshold), "Never merge fewer SSTables than a table's `min_threshold`, even if no other job runs."),
    option("compaction_static_shares", &[], |c| Target::Number(&mut c.compaction.static_shares), "CPU shares of compactions; 0: computed from the backlog."),
    option("compaction_max_shares", &[], |c| Target::Number(&mut c.compaction.max_shares), "Limit of the CPU shares of compactions; less than 100 counts as 100."),
    option("disk_budget", &[], |c| Target::AutoBytes(&mut c.compaction.disk_budget_bytes, MEMORY), "Limit of the disk space of SSTables, including running compactions. Only IncrementalCompactionStrategy observes it. `auto`: the whole disk."),
    option("compaction_large_partition_warning_threshold", &[("compaction_large_partition_warning_threshold_mb", DefaultUnit::MiB)], |c| Target::Bytes(&mut c.large_data.partition_bytes), "A partition with more bytes in a new SSTable is logged and shown in `system.large_partitions`."),
    option("compaction_rows_count_warning_threshold", &[], |c| Target::Number(&mut c.large_data.partition_rows), "A partition with more rows in a new SSTable is logged and shown in `system.large_partitions`."),
    option("compaction_large_row_warning_threshold", &[("compaction_large_row_warning_threshold_mb", DefaultUnit::MiB)], |c| Target::Bytes(&mut c.large_data.row_bytes), "A larger row is logged and shown in `system.large_rows`."),
    option("compaction_large_cell_warning_threshold", &[("compaction_large_cell_warning_threshold_mb", DefaultUnit::MiB)], |c| Target::Bytes(&mut c.large_data.cell_bytes), "A larger cell or collection is logged and shown in `system.large_cells`."),
    option("compaction_collection_elements_count_warning_threshold", &[], |c| Target::Number(&mut c.large_data.collection_elements), "A collection with more elements is logged and shown in `system.large_cells`."),
    option("compaction_large_data_records_per_sstable", &[], |c| Target::Number(&mut c.large_data.records_per_sstable), "Limit of the partitions, rows and cells of an SSTable in these tables; those that exceed the thresholds most are shown."),
    option("sstable_format", &[], |c| Target::Choice(&mut c.sstables.format), "The format of new SSTables: Cassandra from 3.11 and ScyllaDB read `me`, Cassandra from 4.0 reads `nb`."),
    option("backup_target", &[], |c| Target::AutoText(&mut c.backup.target), "Where backups are kept: a directory (a path or `file:///…`), or object storage (`s3://bucket/prefix`, `gs://…`, `az://…`) in builds that have it. `auto`: none. See docs/backup.md."),
    option("backup_interval", &[], |c| Target::Millis(&mut c.backup.interval_ms, 0..=u64::MAX), "The time from the begin of one backup of the schedule to that of the next; the first begins one interval after the start of the node. It needs `backup_target`; 0: no schedule."),
    option("backup_keep", &[], |c| Target::Number(&mut c.backup.keep), "After a backup of the schedule, older backups in the target than this many are removed, with the objects that no other one needs; 0: none is removed."),
    option("backup_archive_interval", &[], |c| Target::Millis(&mut c.backup.archive_interval_ms, 0..=u64::MAX), "The commit log is archived to `backup_target` at this interval, so that `messina backup restore --to TIME` restores any second after a backup: a loss of the node's directory loses at most the writes of one interval and of the pass that was running. Segments are not reused then; 0: no archive."),
    option("backup_io_throughput", &[("backup_io_throughput_mb_per_sec", DefaultUnit::MiB)], |c| Target::Rate(&mut c.backup.io_throughput_bytes_s), "Limit in bytes per second of the reads by backups of this node, which also have the I/O class of maintenance; 0: no limit."),
    option("sstable_summary_ratio", &[], |c| Target::Part(&mut c.sstables.summary_ratio), "Bytes of an SSTable's summary, which is kept in memory, for each byte of rows before compression. With a larger summary, lookups of partitions read less of Index.db. The table's `min_index_interval` and `max_index_interval` bound the number of partitions between two entries."),
    option("auto_snapshot", &[], |c| Target::Bool(&mut c.sstables.auto_snapshot), "Make a snapshot of a table before TRUNCATE and DROP; both are refused if the disk has no space for it. The table option `allow_auto_snapshot` overrides this."),
    option("listen_address", &[], |c| Target::Text(&mut c.listen.listen_address), "The address for CQL clients, unless `rpc_address` is set."),
    option("rpc_address", &[("native_transport_address", NONE)], |c| Target::AutoText(&mut c.listen.rpc_address), "The address for CQL clients. `auto`: `listen_address`."),
    option("broadcast_rpc_address", &[("broadcast_native_address", NONE)], |c| Target::AutoText(&mut c.identity.broadcast_rpc_address), "The address that clients get from system tables and events. `auto`: the address for CQL clients."),
    option("native_transport_port", &[], |c| Target::Port(&mut c.listen.port), "Port for CQL."),
    option("native_transport_port_ssl", &[], |c| Target::AutoPort(&mut c.listen.port_ssl), "Port for CQL with TLS, instead of `native_transport_port`, or in addition to it if TLS is `optional`. `auto`, 0: `client_encryption_options` apply to `native_transport_port` itself."),
    option("native_shard_aware_transport_port", &[], |c| Target::Port(&mut c.listen.shard_aware_port), "Port for drivers that select the shard by their source port; 0: none."),
    option("native_shard_aware_transport_port_ssl", &[], |c| Target::AutoPort(&mut c.listen.shard_aware_port_ssl), "The same for `native_shard_aware_transport_port`."),
    option("native_transport_max_frame_size", &[("native_transport_max_frame_size_in_mb", DefaultUnit::MiB)], |c| Target::Bytes(&mut c.requests.frame_bytes_max), "Longer requests are refused."),
    option("native_transport_max_concurrent_connections", &[], |c| Target::AutoNumber(&mut c.requests.connections_max, 1..=u64::MAX), "Limit of connections; further ones are refused. `auto`: only the system's limit."),
    option("native_transport_max_concurrent_requests_in_bytes", &[], |c| Target::AutoBytes(&mut c.requests.in_flight_bytes_max, 1 << 20..=1 << 40), "Limit of the bytes of requests in flight on a shard. Beyond it, interactive requests are refused and others wait in their sockets. `auto`: 64MiB."),
    option("max_concurrent_requests_per_shard", &[], |c| Target::AutoNumber(&mut c.requests.in_flight_max, 1..=u32::MAX as u64), "Limit of requests in flight on a shard; further ones are refused. `auto`: no limit."),
    option("native_transport_idle_timeout", &[("native_transport_idle_timeout_in_ms", MS)], |c| Target::Millis(&mut c.requests.idle_timeout_ms, 0..=u64::MAX), "Connections without traffic for this time are closed, unless requests are in flight and the client takes its answers; 0: never."),
    option("client_encryption_options.enabled", &[], |c| Target::Bool(&mut c.security.client_encryption.enabled), "TLS for clients: no port serves plain text, unless `optional`. See docs/security.md."),
    option("client_encryption_options.optional", &[], |c| Target::Bool(&mut c.security.client_encryption.optional), "Serve clients without TLS on the same port, too."),
    option("client_encryption_options.certificate", &[], |c| Target::AutoPath(&mut c.security.client_encryption.certificate), "The server's certificate chain, PEM."),
    option("client_encryption_options.keyfile", &[], |c| Target::AutoPath(&mut c.security.client_encryption.keyfile), "Its private key, PEM."),
    option("client_encryption_options.truststore", &[], |c| Target::AutoPath(&mut c.security.client_encryption.truststore), "Authorities that must have issued the clients' certificates, PEM."),
    option("client_encryption_options.certificate_revocation_list", &[("client_encryption_options.certficate_revocation_list", NONE)], |c| Target::AutoPath(&mut c.security.client_encryption.revocation_list), "Revoked certificates of clients: X509 CRLs, PEM."),
    option("client_encryption_options.require_client_auth", &[], |c| Target::Choice(&mut c.security.client_encryption.client_auth), "Clients must present a valid certificate; `optional`: a certificate that a client presents must be valid."),
    option("client_encryption_options.accepted_protocols", &[], |c| Target::AutoNames(&mut c.security.client_encryption.accepted_protocols), "TLS versions: TLSv1.2, TLSv1.3. `auto`: both."),
    option("client_encryption_options.cipher_suites", &[], |c| Target::AutoNames(&mut c.security.client_encryption.cipher_suites), "Cipher suites, by their names in Java. `auto`: all that rustls supports."),
    option("authenticator", &[], |c| Target::Choice(&mut c.security.authenticator), "Authentication of clients: none, or roles with passwords. The first start with `PasswordAuthenticator` creates the superuser `cassandra` with the password `cassandra`."),
    option("authorizer", &[], |c| Target::Choice(&mut c.security.authorizer), "Authorization of clients: every role may do everything, or only what `GRANT` has allowed it. `CassandraAuthorizer` needs `authenticator: PasswordAuthenticator`."),
    option("dynamic_data_masking_enabled", &[], |c| Target::Bool(&mut c.security.dynamic_data_masking), "Columns may be masked (`MASKED WITH`): users without the permission `UNMASK` see masks in place of values. While it is off, masks are kept and do not act. Everybody has `UNMASK` with `authorizer: AllowAllAuthorizer`."),
    option("audit_logging_options.enabled", &[], |c| Target::Bool(&mut c.security.audit.enabled), "Write an audit log: who did what, and when. `nodetool enableauditlog` switches it on while the node runs. See docs/security.md."),
    option("audit_logging_options.audit_logs_dir", &[], |c| Target::AutoPath(&mut c.security.audit.dir), "Directory of its files. `auto`: `audit` in the data directory."),
    option("audit_logging_options.included_keyspaces", &[], |c| Target::AutoNames(&mut c.security.audit.included_keyspaces), "Only statements on these keyspaces are logged. `auto`: all."),
    option("audit_logging_options.excluded_keyspaces", &[], |c| Target::AutoNames(&mut c.security.audit.excluded_keyspaces), "Statements on these keyspaces are not logged. `auto`: none is excluded."),
    option("audit_logging_options.included_categories", &[], |c| Target::AutoNames(&mut c.security.audit.included_categories), "Only entries of these categories are logged: QUERY, DML, DDL, DCL, OTHER, AUTH, ERROR, PREPARE. `auto`: all."),
    option("audit_logging_options.excluded_categories", &[], |c| Target::AutoNames(&mut c.security.audit.excluded_categories), "Entries of these categories are not logged. `auto`: none is excluded."),
    option("audit_logging_options.included_users", &[], |c| Target::AutoNames(&mut c.security.audit.included_users), "Only requests of these users are logged. `auto`: all."),
    option("audit_logging_options.excluded_users", &[], |c| Target::AutoNames(&mut c.security.audit.excluded_users), "Requests of these users are not logged. `auto`: none is excluded."),
    option("audit_logging_options.roll_cycle", &[], |c| Target::Choice(&mut c.security.audit.roll_cycle), "When a new file is begun, by the clock in UTC."),
    option("audit_logging_options.block", &[], |c| Target::Bool(&mut c.security.audit.block), "Requests wait while the entries in memory are at their limit. `false`: further entries are dropped, and counted."),
    option("audit_logging_options.max_queue_weight", &[], |c| Target::Bytes(&mut c.security.audit.queue_bytes_max), "Limit of the entries in memory, of all shards together."),
    option("audit_logging_options.max_log_size", &[], |c| Target::Bytes(&mut c.security.audit.log_bytes_max), "Limit of all files together. When a file begins, the oldest beyond the limit are removed."),
    option("read_request_timeout", &[("read_request_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.read_ms, TIMEOUT), "Timeout of a read of single partitions, from its arrival."),
    option("range_request_timeout", &[("range_request_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.range_ms, TIMEOUT), "Timeout of a page of a scan."),
    option("write_request_timeout", &[("write_request_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.write_ms, TIMEOUT), "Timeout of a write."),
    option("counter_write_request_timeout", &[("counter_write_request_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.counter_write_ms, TIMEOUT), "Timeout of a counter update."),
    option("cas_contention_timeout", &[("cas_contention_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.cas_contention_ms, TIMEOUT), "Time that a conditional statement has in addition to `write_request_timeout`, because it waits for other statements on its partition."),
    option("truncate_request_timeout", &[("truncate_request_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.truncate_ms, TIMEOUT), "Timeout of TRUNCATE."),
    option("slow_query_log_timeout", &[("slow_query_log_timeout_in_ms", MS)], |c| Target::Millis(&mut c.timeouts.slow_query_ms, 0..=u64::MAX), "Statements that take longer are logged, by the logger `slow_query`, with their number and times; 0: none."),
    option("tombstone_warn_threshold", &[], |c| Target::Number(&mut c.results.tombstone_warn_threshold), "A page that reads past more tombstones is logged, and its client gets a warning; 0: no warning."),
    option("tombstone_failure_threshold", &[], |c| Target::Number(&mut c.reads.tombstone_failure_threshold), "A read that reads past more tombstones in one page, or in an unpaged result, is refused; 0: no limit."),
    option("query_tombstone_page_limit", &[], |c| Target::Number(&mut c.results.tombstone_page_limit), "A page ends after this number of tombstones, even without a row; 0: no limit."),
    option("batch_size_warn_threshold", &[("batch_size_warn_threshold_in_kb", DefaultUnit::KiB)], |c| Target::Bytes(&mut c.batches.warn_bytes), "A larger batch over several partitions is logged, and its client gets a warning."),
    option("batch_size_fail_threshold", &[("batch_size_fail_threshold_in_kb", DefaultUnit::KiB)], |c| Target::Bytes(&mut c.batches.fail_bytes), "A larger batch over several partitions is refused with `Batch too large`, and logged as an error."),
    option("unlogged_batch_across_partitions_warn_threshold", &[], |c| Target::Number(&mut c.batches.unlogged_partitions_warn), "An unlogged or counter batch over more partitions is logged at most once a minute, and its client gets a warning."),
    option("compact_tables_enabled", &[], |c| Target::Bool(&mut c.schema.compact_tables_enabled), "Allow CREATE TABLE WITH COMPACT STORAGE."),
    option("drop_compact_storage_enabled", &[("enable_drop_compact_storage", DefaultUnit::Refused)], |c| Target::Bool(&mut c.schema.drop_compact_storage_enabled), "Allow ALTER TABLE … DROP COMPACT STORAGE."),
    option("materialized_views_enabled", &[("enable_materialized_views", DefaultUnit::Refused)], |c| Target::Bool(&mut c.schema.materialized_views_enabled), "Allow CREATE MATERIALIZED VIEW. Existing views are maintained in any case."),
    option("user_defined_functions_enabled", &[("enable_user_defined_functions", DefaultUnit::Refused)], |c| Target::Bool(&mut c.schema.functions.is_enabled), "Allow user-defined functions and aggregates in Lua, and calls of them. See docs/functions.md."),
    option("user_defined_function_time_limit_ms", &[], |c| Target::Number(&mut c.schema.functions.time_ms), "Limit of the CPU time of one call of a function, in milliseconds. Its shard does nothing else in that time. 0: such a call fails at once."),
    option("user_defined_function_allocation_limit_bytes", &[], |c| Target::Bytes(&mut c.schema.functions.memory_bytes), "Limit of the memory of one call of a function."),
    option("max_memory_for_unlimited_query_soft_limit", &[], |c| Target::Bytes(&mut c.results.unpaged_soft_bytes), "An unpaged read that takes more memory is logged. A bare number counts bytes."),
    option("max_memory_for_unlimited_query_hard_limit", &[("max_memory_for_unlimited_query", DefaultUnit::Bytes)], |c| Target::Bytes(&mut c.results.unpaged_hard_bytes), "An unpaged read that takes more memory is refused. A bare number counts bytes."),
    option("query_page_size_in_bytes", &[], |c| Target::Bytes(&mut c.results.page_bytes), "A page of results ends when it takes more memory. A bare number counts bytes."),
    option("reader_concurrency_semaphore_serialize_limit_multiplier", &[], |c| Target::Number(&mut c.reads.serialize_limit_multiplier), "When reads of a shard hold more than this multiple of the memory that they are admitted for, only one read at a time gets more; 0: no such limit."),
    option("reader_concurrency_semaphore_kill_limit_multiplier", &[], |c| Target::Number(&mut c.reads.kill_limit_multiplier), "When reads of a shard hold more than this multiple of that memory, reads that request more are refused; 0: no such limit."),
    option("enable_cache", &[], |c| Target::Bool(&mut c.reads.enable_cache), "Cache rows that reads of single partitions have read, for all tables unless their `caching` option turns it off."),
    option("cache_index_pages", &[], |c| Target::Bool(&mut c.reads.cache_index_pages), "Cache pages of SSTables' indexes. Without it, each read of a large partition searches the index on disk."),
    option("api_address", &[], |c| Target::Text(&mut c.http.api_address), "The address of the admin API, which `nodetool` uses."),
    option("api_port", &[], |c| Target::Port(&mut c.http.api_port), "Port of the admin API."),
    option("api_page", &[], |c| Target::Bool(&mut c.http.api_page), "Serve the page of the node, for browsers, at the address of the admin API."),
    option("api_page_console", &[], |c| Target::Bool(&mut c.http.api_page_console), "The page of the node has a console that runs CQL statements: all with api_password_file, only SELECT and DESCRIBE without."),
    option("prometheus_address", &[], |c| Target::Text(&mut c.http.prometheus_address), "The address of the metrics."),
    option("prometheus_port", &[], |c| Target::Port(&mut c.http.prometheus_port), "Port of the metrics; 0: none."),
    option("api_password_file", &[], |c| Target::AutoPath(&mut c.http.protection.password_file), "Names and passwords for the admin API and the metrics: `name:password` on each line, readable only by its owner. `auto`: no password is required."),
    option("api_allow_anonymous", &[], |c| Target::Bool(&mut c.http.protection.api_allow_anonymous), "Allow access to the admin API without a password, beyond the loopback too."),
    option("prometheus_allow_anonymous", &[], |c| Target::Bool(&mut c.http.protection.prometheus_allow_anonymous), "Allow access to the metrics without a password, at any address."),
    option("blocked_reactor_notify", &[("blocked_reactor_notify_ms", MS)], |c| Target::Millis(&mut c.machine.blocked_reactor_notify_ms, TIMEOUT), "A task that runs longer without a yield is counted as a stall; some stalls are logged."),
    option("blocked_reactor_reports_per_minute", &[], |c| Target::Number(&mut c.machine.blocked_reactor_reports_per_minute), "Limit of the stalls that a shard logs in a minute."),
    option("log_level", &[("default_log_level", NONE)], |c| Target::Choice(&mut c.log.level), "The least severe level that is logged to standard error. `nodetool setlogginglevel` changes it while the node runs."),
    option(LOGGER_LEVELS, &[], |c| Target::LoggerLevels(&mut c.log.loggers), "Levels of single loggers, whose names are in each line of the log: `compaction=debug:cql=warn`, or a section with a line for each. `auto`: `log_level` applies to all."),
];

/// The option that may be a section, whose names are not options.
pub const LOGGER_LEVELS: &str = "logger_log_level";

/// Options whose bare numbers count bytes under their own name too, as in ScyllaDB.
const DEFAULT_BYTES: &[&str] = &[
    "max_memory_for_unlimited_query_soft_limit",
    "max_memory_for_unlimited_query_hard_limit",
    "query_page_size_in_bytes",
];

/// The option with this name or other spelling, and the unit of a bare number there.
pub fn find(name: &str) -> Option<(&'static OptionDef, DefaultUnit)> {
    OPTIONS.iter().find_map(|option| {
        if option.name == name {
            let default_unit =
                if DEFAULT_BYTES.contains(&name) { DefaultUnit::Bytes } else { DefaultUnit::Refused };
            return Some((option, default_unit));
        }
        let (_, default_unit) = option.also.iter().find(|(other, _)| *other == name)?;
        Some((option, *default_unit))
    })
}

impl Target<'_> {
    /// Sets the value.
    ///
    /// # Errors
    /// The allowed values.
    pub fn set(self, text: &str, default_unit: DefaultUnit) -> Result<(), String> {
        let text = text.trim();
        let is_auto = text == "auto" || text == "-1";
        match self {
            Self::Text(target) => {
                if text.is_empty() {
                    return Err("a text that is not empty".into());
                }
                *target = text.into();
            }
            Self::AutoText(target) => *target = (!is_auto && !text.is_empty()).then(|| text.into()),
            Self::Path(target) => {
                if text.is_empty() {
                    return Err("a path".into());
                }
                *target = text.into();
            }
            Self::AutoPath(target) => *target = (!is_auto && !text.is_empty()).then(|| text.into()),
            Self::DataDirectories(target) => {
                let path = Path::new(text);
                match (path.file_name(), path.parent()) {
                    (Some(last), Some(above)) if last == "data" => {
                        *target = if above.as_os_str().is_empty() { ".".into() } else { above.into() };
                    }
                    _ => return Err("a directory called `data`; or use data_dir".into()),
                }
            }
            Self::Bool(target) => {
                *target = match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" | "1" => true,
                    "false" | "no" | "off" | "0" => false,
                    _ => return Err("true or false".into()),
                }
            }
            Self::Port(target) => *target = text.parse().map_err(|_| "a port, 0 to 65535".to_string())?,
            Self::AutoPort(target) if is_auto => *target = None,
            Self::AutoPort(target) => {
                *target = Some(text.parse().map_err(|_| "auto or a port, 0 to 65535".to_string())?);
            }
            Self::AutoNames(target) if is_auto => target.clear(),
            Self::AutoNames(target) => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                *target = names.map(str::to_string).collect();
            }
            Self::Number(target) => {
                *target = text.parse().map_err(|_| "a whole number, 0 or more".to_string())?
            }
            Self::AutoNumber(target, range) => {
                let allowed = || format!("auto or a whole number{}", within(&range, |n| n.to_string()));
                *target = if is_auto { None } else { Some(in_range(text.parse().ok(), &range, allowed)?) };
            }
            Self::Millis(target, range) => {
                let allowed = || units::DURATION_FORM.to_string() + &within(&range, units::show_millis);
                *target = in_range(units::parse_millis(text, default_unit), &range, allowed)?;
            }
            Self::Micros(target, range) => {
                let allowed = || units::DURATION_FORM.to_string() + &within(&range, units::show_micros);
                *target = in_range(units::parse_micros(text, default_unit), &range, allowed)?;
            }
            Self::Bytes(target) => {
                *target = units::parse_bytes(text, default_unit).ok_or(units::SIZE_FORM)?
            }
            Self::Rate(target) => {
                let bytes = units::parse_bytes(text.strip_suffix("/s").unwrap_or(text), default_unit);
                *target = bytes.ok_or("a size per second: 64MiB/s")?;
            }
            Self::AutoBytes(target, range) => {
                let allowed = || format!("auto or {}{}", units::SIZE_FORM, within(&range, units::show_bytes));
                *target = if is_auto {
                    None
                } else {
                    Some(in_range(units::parse_bytes(text, default_unit), &range, allowed)?)
                };
            }
            Self::Part(target) => {
                let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
                *target = part.ok_or("a number from 0 to 1")?;
            }
            Self::Choice(target) => {
                if !target.set_by_name(text) {
                    return Err(target.names().join(" or "));
                }
            }
            Self::LoggerLevels(target) => {
                *target = if is_auto { LoggerLevels::new() } else { logger_levels(text)? }
            }
        }
        Ok(())
    }

    /// The value as text, in the form that [`Self::set`] accepts.
    pub fn show(self) -> String {
        let auto = || "auto".to_string();
        match self {
            Self::Text(target) => target.clone(),
            Self::AutoText(target) => target.clone().unwrap_or_else(auto),
            Self::Path(target) => target.display().to_string(),
            Self::AutoPath(target) => target.as_ref().map_or_else(auto, |path| path.display().to_string()),
            Self::DataDirectories(target) => target.join("data").display().to_string(),
            Self::Bool(target) => target.to_string(),
            Self::Port(target) => target.to_string(),
            Self::AutoPort(target) => target.map_or_else(auto, |port| port.to_string()),
            Self::AutoNames(target) if target.is_empty() => auto(),
            Self::AutoNames(target) => target.join(","),
            Self::Number(target) => target.to_string(),
            Self::AutoNumber(target, _) => target.map_or_else(auto, |number| number.to_string()),
            Self::Millis(target, _) => units::show_millis(*target),
            Self::Micros(target, _) => units::show_micros(*target),
            Self::Bytes(target) => units::show_bytes(*target),
            Self::AutoBytes(target, _) => target.map_or_else(auto, units::show_bytes),
            Self::Rate(target) => units::show_bytes(*target) + "/s",
            Self::Part(target) => target.to_string(),
            Self::Choice(target) => target.name().to_string(),
            Self::LoggerLevels(target) if target.is_empty() => auto(),
            Self::LoggerLevels(target) => {
                let shown: Vec<String> =
                    target.iter().map(|(logger, level)| format!("{logger}={}", level.name())).collect();
                shown.join(":")
            }
        }
    }

    /// The type as text, for the documentation.
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
            Self::Choice(target) => target.names().join(", "),
            Self::LoggerLevels(_) => "levels by logger".into(),
        }
    }
}

/// The levels of `compaction=debug:cql=warn`.
fn logger_levels(text: &str) -> Result<LoggerLevels, String> {
    let mut levels = LoggerLevels::new();
    for part in text.split(':') {
        let (logger, name) = part.split_once('=').ok_or("LOGGER=LEVEL:LOGGER=LEVEL")?;
        let mut level = LogLevel::default();
        if !level.set_by_name(name.trim()) {
            return Err(format!("a level of {} after {logger}=", level.names().join(" or ")));
        }
        let logger = log_levels::logger(logger.trim())
            .map_err(|error| format!("LOGGER=LEVEL:LOGGER=LEVEL with known loggers: {error}"))?;
        levels.insert(logger, level);
    }
    Ok(levels)
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
