//! Metrics of statements, memory and the process, under the names that ScyllaDB's monitoring and common
//! alerts query.

use std::fmt::Display;

use cql::Verb;
use engine::report::{ShardReport, TableReport};
use reports::MemoryClass;

use super::metrics::{Page, Process};
use crate::cql_server::{Operation, OperationReport, StatementReport};

/// The prefix of an operation's metrics, its name in help texts, and the operation.
const OPERATIONS: [(&str, &str, Operation); 5] = [
    ("read", "reads of one partition", Operation::Read),
    ("range", "reads of several partitions", Operation::Range),
    ("write", "writes", Operation::Write),
    ("cas_read", "reads with consistency SERIAL", Operation::CasRead),
    ("cas_write", "conditional writes", Operation::CasWrite),
];

const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Metrics of the process.
pub(super) fn of_process(page: &mut Page, process: &Process) {
    let used = &process.used;
    page.family("process_cpu_seconds_total", "counter", "CPU time of all threads, in user and kernel mode.")
        .sample(&[], used.cpu_s);
    page.family("process_start_time_seconds", "gauge", "When the process started, since 1970.")
        .sample(&[], used.started_s);
    page.family("process_virtual_memory_bytes", "gauge", "Address space of the process.")
        .sample(&[], used.virtual_bytes);
    page.family("process_open_fds", "gauge", "Open files and connections.").sample(&[], used.open_files);
    page.family("process_max_fds", "gauge", "Limit of open files and connections.")
        .sample(&[], used.open_files_max);
    page.family("scylla_scylladb_current_version", "gauge", "Always 0; the version is a label.")
        .sample(&[("shard", &""), ("version", &crate::VERSION)], 0);
}

/// Name, kind, help, value.
type OfStatements = (&'static str, &'static str, &'static str, fn(&StatementReport) -> u64);

fn verb(report: &StatementReport, wanted: Verb) -> u64 {
    report.verbs.iter().find(|(verb, _)| *verb == wanted).map_or(0, |(_, count)| *count)
}

const OF_STATEMENTS: &[OfStatements] = &[
    ("scylla_cql_reads", "counter", "SELECT statements that ended.", |s| verb(s, Verb::Select)),
    ("scylla_cql_inserts", "counter", "INSERT statements that ended.", |s| verb(s, Verb::Insert)),
    ("scylla_cql_updates", "counter", "UPDATE statements that ended.", |s| verb(s, Verb::Update)),
    ("scylla_cql_deletes", "counter", "DELETE statements that ended.", |s| verb(s, Verb::Delete)),
    ("scylla_cql_batches", "counter", "Batches that ended.", |s| verb(s, Verb::Batch)),
    ("scylla_cql_statements_in_batches", "counter", "Statements of batches of the protocol.", |s| {
        s.in_batches
    }),
    ("scylla_cql_rows_read", "counter", "Rows that SELECT statements returned.", |s| s.rows_read),
    ("messina_audit_entries_total", "counter", "Entries written to the audit log.", |s| s.audit.entries),
    (
        "messina_audit_dropped_total",
        "counter",
        "Entries of the audit log that were lost: the queue was full, or the file could not be written.",
        |s| s.audit.dropped,
    ),
    ("scylla_cql_prepared_cache_size", "gauge", "Prepared statements; each shard has all.", |s| s.prepared),
    ("scylla_cql_prepared_cache_memory_footprint", "gauge", "Bytes of prepared statements.", |s| {
        s.prepared_bytes
    }),
    ("scylla_transport_cql_requests_total", "counter", "Requests of all kinds that were read.", |s| {
        s.requests
    }),
    ("scylla_transport_cql_errors_total", "counter", "Requests that were answered with an error.", |s| {
        s.errors
    }),
    ("scylla_transport_cql_connections", "counter", "Connections that were accepted.", |s| {
        s.connections_total
    }),
];

/// Metrics of statements. `shards` has an element for each shard.
pub(super) fn of_statements(page: &mut Page, shards: &[StatementReport]) {
    for (name, kind, help, value) in OF_STATEMENTS {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(report));
        }
    }
    for (prefix, what, operation) in OPERATIONS {
        let name = format!("scylla_storage_proxy_coordinator_{prefix}");
        let all = || shards.iter().enumerate().filter_map(|(shard, it)| Some((shard, it.of(operation)?)));
        let help = format!("Latency of {what}, from arrival to answer, in microseconds.");
        let mut family = page.family(&format!("{name}_latency"), "histogram", &help);
        for (shard, report) in all() {
            family.histogram(&[("shard", &shard)], &report.latency);
        }
        let help = format!("Quantiles of the same since the start, in microseconds: latency of {what}.");
        let mut family = page.family(&format!("{name}_latency_summary"), "summary", &help);
        for (shard, report) in all() {
            for quantile in QUANTILES {
                let labels: [(&str, &dyn Display); 2] = [("quantile", &quantile), ("shard", &shard)];
                family.sample(&labels, report.latency.histogram.percentile(quantile));
            }
            family.sample_of("_sum", &[("shard", &shard)], report.latency.total_us);
            family.sample_of("_count", &[("shard", &shard)], report.latency.count());
        }
        type OfOperation = (&'static str, &'static str, fn(&OperationReport) -> u64);
        let counters: [OfOperation; 3] = [
            ("timeouts", "that timed out", |report| report.timeouts),
            ("unavailable", "that needed more replicas than are alive", |report| report.unavailables),
            ("failures", "that failed", |report| report.failures),
        ];
        for (suffix, how, value) in counters {
            let mut family =
                page.family(&format!("{name}_{suffix}"), "counter", &format!("The {what} {how}."));
            for (shard, report) in all() {
                family.sample(&[("shard", &shard)], value(report));
            }
        }
    }
}

/// Memory of each shard: its part of the option `memory`, and what its classes use.
pub(super) fn of_memory(page: &mut Page, budget_bytes: u64, shards: &[Vec<MemoryClass>]) {
    let total = budget_bytes / (shards.len() as u64).max(1);
    let used = |classes: &[MemoryClass]| classes.iter().map(|class| class.bytes).sum::<u64>();
    type OfMemory<'a> = (&'static str, &'static str, &'a dyn Fn(&[MemoryClass]) -> u64);
    let families: [OfMemory<'_>; 3] = [
        ("scylla_memory_total_memory", "Bytes of the option memory, by shard.", &|_| total),
        ("scylla_memory_allocated_memory", "Bytes in use by memtables, caches, reads and requests.", &used),
        ("scylla_memory_free_memory", "Bytes of the option memory that are not in use.", &|classes| {
            total.saturating_sub(used(classes))
        }),
    ];
    for (name, help, value) in families {
        let mut family = page.family(name, "gauge", help);
        for (shard, classes) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(classes));
        }
    }
    let mut family = page.family("messina_memory_class_bytes", "gauge", "Bytes in use, by class.");
    for (shard, classes) in shards.iter().enumerate() {
        for class in classes {
            family.sample(&[("class", &class.class), ("shard", &shard)], class.bytes);
        }
    }
}

/// Sums over the tables of each shard: name, kind, help, value.
type OfTables = (&'static str, &'static str, &'static str, fn(&TableReport) -> u64);

const OF_ALL_TABLES: &[OfTables] = &[
    ("scylla_database_total_writes", "counter", "Writes that became durable.", |t| t.writes.count()),
    ("scylla_sstables_single_partition_reads", "counter", "Reads of one partition.", |t| t.point_reads),
    ("scylla_sstables_bloom_filter_memory_size", "gauge", "Bytes of bloom filters.", |t| {
        t.sstables.iter().map(|sstable| sstable.filter_bytes as u64).sum()
    }),
    (
        "scylla_compaction_manager_pending_compactions",
        "gauge",
        "Estimated number of pending compactions.",
        |t| t.pending_compactions,
    ),
    (
        "messina_bloom_filter_false_positives_total",
        "counter",
        "Reads for which a bloom filter did not rule out an SSTable without the partition.",
        |t| t.false_positives,
    ),
    ("messina_sstable_tombstones", "gauge", "Tombstones and expiring cells in SSTables.", |t| {
        t.sstables.iter().map(|sstable| sstable.tombstones).sum()
    }),
    (
        "messina_sstable_droppable_tombstones",
        "gauge",
        "Tombstones in SSTables that are older than the grace period.",
        |t| t.sstables.iter().map(|sstable| sstable.droppable_tombstones).sum::<f64>() as u64,
    ),
];

/// Metrics that sum over tables, and states of each shard that are no counters. `tables` has a list for each
/// shard.
pub(super) fn of_shards(
    page: &mut Page,
    budget_bytes: u64,
    shards: &[ShardReport],
    tables: &[Vec<TableReport>],
) {
    for (name, kind, help, value) in OF_ALL_TABLES {
        let mut family = page.family(name, kind, help);
        for (shard, tables) in tables.iter().enumerate() {
            family.sample(&[("shard", &shard)], tables.iter().map(value).sum::<u64>());
        }
    }
    let memory = (budget_bytes / (shards.len() as u64).max(1)).max(1) as f64;
    type OfShard<'a> = (&'static str, &'static str, &'static str, &'a dyn Fn(&ShardReport) -> f64);
    let families: [OfShard<'_>; 5] = [
        ("scylla_reactor_utilization", "gauge", "Percent of the last second in which tasks ran.", &|s| {
            s.utilization * 100.0
        }),
        ("scylla_reactor_cpu_busy_ms", "counter", "Milliseconds in which tasks ran.", &|s| {
            s.groups.iter().map(|group| group.counters.ran_ns / 1_000_000).sum::<u64>() as f64
        }),
        (
            "scylla_compaction_manager_normalized_backlog",
            "gauge",
            "Bytes that must still be rewritten, divided by the shard's memory.",
            &|s| s.compactions.backlog_bytes as f64 / memory,
        ),
        ("scylla_cache_partition_hits", "counter", "Reads of partitions that the row cache had.", &|s| {
            (s.row_cache.reads - s.row_cache.misses) as f64
        }),
        (
            "scylla_cache_partition_misses",
            "counter",
            "Reads of partitions that also had to read SSTables.",
            &|s| s.row_cache.misses as f64,
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(report));
        }
    }
    type OfBytes = (&'static str, &'static str, &'static str, fn(&ShardReport) -> u64);
    let families: [OfBytes; 2] = [
        ("scylla_cache_bytes_total", "gauge", "Bytes that all caches may use.", |s| {
            s.cache.budget_bytes as u64
        }),
        ("scylla_commitlog_flush", "counter", "Syncs of the commit log to disk.", |s| s.log_syncs),
    ];
    for (name, kind, help, value) in families {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(report));
        }
    }
}
