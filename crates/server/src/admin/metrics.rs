//! Metrics in the Prometheus text format 0.0.4, with the names that dashboards for ScyllaDB use where there
//! is one.
//!
//! Values of a shard have the label `shard`; values of a table have `ks` and `cf`. Counters begin at zero at
//! each start.

use std::fmt::{Display, Write};

use engine::report::{ShardReport, TableReport};
use engine::table::counters::Latencies;
use reader::{SemaphoreLimits, SemaphoreStats};
use reports::MemoryClass;
use runtime::{GroupStats, IoStats};
use sstable::pool::{CacheClass, ClassStats};

use super::{backup_metrics, statement_metrics};
use crate::api::backup_answers::BackupStatus;
use crate::cql_server::{LevelReport, StatementReport};
use crate::managed_node::Mode;
use crate::process_use::ProcessUse;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Values of the process rather than of a shard.
pub struct Process {
    /// CPU, files and address space.
    pub used: ProcessUse,
    /// The option `memory`.
    pub memory_budget_bytes: u64,
    pub uptime_s: f64,
    pub resident_bytes: u64,
    pub connections: u64,
    pub mode: Mode,
    pub backups: BackupStatus,
}

/// Upper bounds of the latency buckets, in microseconds: fine enough for percentiles on a dashboard.
const BUCKETS_US: [u64; 12] =
    [50, 103, 258, 535, 1_109, 2_759, 5_722, 11_864, 29_521, 105_778, 1_131_752, 12_108_970];

/// A page of metrics being written. The samples of a name must be consecutive.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { page: self, name: name.to_string() }
    }
}

pub(super) struct Family<'a> {
    page: &'a mut Page,
    name: String,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) -> &mut Self {
        self.sample_of("", labels, value)
    }

    pub(super) fn sample_of(
        &mut self,
        suffix: &str,
        labels: &[(&str, &dyn Display)],
        value: impl Display,
    ) -> &mut Self {
        let text = &mut self.page.0;
        let _ = write!(text, "{}{suffix}", self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(text, "{}{label}=\"{value}\"", if index == 0 { "{" } else { "," });
        }
        let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
        self
    }

    /// A histogram in microseconds, as ScyllaDB's metrics are.
    pub(super) fn histogram(&mut self, labels: &[(&str, &dyn Display)], latencies: &Latencies) {
        self.buckets(labels, latencies, &latencies.total_us, |us| Box::new(us));
    }

    /// A histogram in seconds, the base unit of Prometheus.
    fn histogram_seconds(&mut self, labels: &[(&str, &dyn Display)], latencies: &Latencies) {
        self.buckets(labels, latencies, &(latencies.total_us as f64 / 1e6), |us| Box::new(us as f64 / 1e6));
    }

    fn buckets(
        &mut self,
        labels: &[(&str, &dyn Display)],
        latencies: &Latencies,
        total: &dyn Display,
        end: fn(u64) -> Box<dyn Display>,
    ) {
        let histogram = &latencies.histogram;
        let up_to = |end_us: u64| {
            let offsets = histogram.offsets().iter().take_while(|offset| **offset <= end_us).count();
            histogram.counts()[..offsets].iter().sum::<u64>()
        };
        for end_us in BUCKETS_US {
            let end = end(end_us);
            let labels: Vec<_> = labels.iter().copied().chain([("le", &*end)]).collect();
            self.sample_of("_bucket", &labels, up_to(end_us));
        }
        let labels_inf: Vec<_> = labels.iter().copied().chain([("le", &"+Inf" as &dyn Display)]).collect();
        self.sample_of("_bucket", &labels_inf, histogram.count());
        self.sample_of("_sum", labels, total);
        self.sample_of("_count", labels, histogram.count());
    }
}

/// The whole page. The slices have an element for each shard.
pub fn text(
    process: &Process,
    shards: &[ShardReport],
    tables: &[Vec<TableReport>],
    levels: &[Vec<LevelReport>],
    statements: &[StatementReport],
    memory: &[Vec<MemoryClass>],
) -> String {
    let mut page = Page::default();
    page.family("messina_build_info", "gauge", "The version, as a label.")
        .sample(&[("version", &crate::VERSION)], 1);
    page.family("scylla_node_operation_mode", "gauge", "3: normal, 6: draining, 7: drained.").sample(
        &[],
        match process.mode {
            Mode::Normal => 3,
            Mode::Draining => 6,
            Mode::Drained => 7,
        },
    );
    page.family("process_resident_memory_bytes", "gauge", "Physical memory of the process.")
        .sample(&[], process.resident_bytes);
    page.family("messina_uptime_seconds", "gauge", "Seconds since the start.")
        .sample(&[], format_args!("{:.3}", process.uptime_s));
    page.family("scylla_transport_current_connections", "gauge", "Client connections.")
        .sample(&[], process.connections);
    statement_metrics::of_process(&mut page, process);
    backup_metrics::of_backups(&mut page, &process.backups);
    statement_metrics::of_statements(&mut page, statements);
    statement_metrics::of_memory(&mut page, process.memory_budget_bytes, memory);
    statement_metrics::of_shards(&mut page, process.memory_budget_bytes, shards, tables);
    of_shards(&mut page, shards);
    of_levels(&mut page, levels);
    of_groups(&mut page, shards);
    of_caches(&mut page, shards);
    of_reads(&mut page, shards);
    of_io(&mut page, shards);
    of_tables(&mut page, tables);
    page.0
}

/// Name, kind, help, value.
type OfLevel = (&'static str, &'static str, &'static str, fn(&LevelReport) -> u64);

const OF_LEVEL: &[OfLevel] = &[
    ("scylla_transport_requests_served", "counter", "Requests started.", |l| l.requests),
    ("scylla_transport_requests_serving", "gauge", "Requests in flight.", |l| u64::from(l.under_way)),
    ("scylla_transport_requests_shed", "counter", "Requests refused because of overload.", |l| l.shed),
    (
        "messina_transport_requests_delayed_total",
        "counter",
        "Times a connection was not read because of overload.",
        |l| l.delayed,
    ),
    ("messina_transport_requests_timed_out_total", "counter", "Requests that timed out.", |l| l.timed_out),
];

fn of_levels(page: &mut Page, levels: &[Vec<LevelReport>]) {
    let all = || levels.iter().enumerate().flat_map(|(shard, levels)| levels.iter().map(move |l| (shard, l)));
    for (name, kind, help, value) in OF_LEVEL {
        let mut family = page.family(name, kind, help);
        for (shard, level) in all() {
            let group = format!("sl:{}", level.level);
            family.sample(
                &[("shard", &shard), ("service_level", &level.level), ("scheduling_group_name", &group)],
                value(level),
            );
        }
    }
    let help = "From a request's arrival to its answer.";
    let mut family = page.family("messina_transport_request_latency_seconds", "histogram", help);
    for (shard, level) in all() {
        family.histogram_seconds(&[("shard", &shard), ("service_level", &level.level)], &level.latency);
    }
}

/// Name, kind, help, value.
type OfShard = (&'static str, &'static str, &'static str, fn(&ShardReport) -> u64);

const OF_SHARD: &[OfShard] = &[
    ("scylla_memory_dirty_bytes", "gauge", "Bytes of memtables.", |s| s.dirty_bytes as u64),
    ("scylla_commitlog_disk_total_bytes", "gauge", "Disk space of the commit log.", |s| s.log_bytes),
    ("scylla_commitlog_bytes_written", "counter", "Bytes of entries written to the commit log.", |s| {
        s.log_appended_bytes
    }),
    ("messina_commitlog_syncs_total", "counter", "Syncs of the commit log to disk.", |s| s.log_syncs),
    ("scylla_sstables_currently_open_for_reading", "gauge", "Open SSTables.", |s| s.sstables as u64),
    ("messina_flushes_total", "counter", "Memtables flushed to SSTables.", |s| s.flushes.flushes),
    ("messina_flush_failures_total", "counter", "Flushes that failed and were retried.", |s| {
        s.flushes.failures
    }),
    ("messina_flush_memtable_bytes_total", "counter", "Bytes of memtables flushed.", |s| {
        s.flushes.memtable_bytes
    }),
    ("messina_flush_uncompressed_bytes_total", "counter", "Bytes flushed before compression.", |s| {
        s.flushes.uncompressed_bytes
    }),
    ("messina_flush_data_bytes_total", "counter", "Bytes of Data.db written by flushes.", |s| {
        s.flushes.data_bytes
    }),
    ("scylla_compaction_manager_compactions", "gauge", "Running compactions.", |s| {
        s.compactions_running as u64
    }),
    ("scylla_compaction_manager_completed_compactions", "counter", "Compactions that succeeded.", |s| {
        s.compactions.completed
    }),
    ("scylla_compaction_manager_failed_compactions", "counter", "Compactions that failed.", |s| {
        s.compactions.failed
    }),
    ("messina_compaction_manager_stopped_total", "counter", "Compactions that were stopped.", |s| {
        s.compactions.stopped
    }),
    ("scylla_compaction_manager_backlog", "gauge", "Bytes that must still be rewritten.", |s| {
        s.compactions.backlog_bytes
    }),
    ("messina_compaction_manager_shares", "gauge", "CPU shares of compactions.", |s| {
        u64::from(s.compactions.shares)
    }),
    ("messina_compaction_manager_read_bytes_total", "counter", "Bytes on disk of inputs.", |s| {
        s.compactions.input_bytes
    }),
    ("messina_compaction_manager_written_bytes_total", "counter", "Bytes on disk of outputs.", |s| {
        s.compactions.output_bytes
    }),
    (
        "messina_compaction_flush_waits_total",
        "counter",
        "Flushes delayed until compactions caught up.",
        |s| s.compactions.flush_waits,
    ),
    ("messina_compaction_kept_young_tombstones_total", "counter", "Tombstones kept: too young.", |s| {
        s.compactions.kept_tombstones.young
    }),
    (
        "messina_compaction_kept_disabled_tombstones_total",
        "counter",
        "Tombstones kept: tombstone_gc is disabled.",
        |s| s.compactions.kept_tombstones.disabled,
    ),
    (
        "messina_compaction_kept_not_repaired_tombstones_total",
        "counter",
        "Tombstones kept: only_purge_repaired_tombstones is set, and an SSTable of the compaction is not repaired.",
        |s| s.compactions.kept_tombstones.not_repaired,
    ),
    ("messina_compaction_samples_total", "counter", "Samples of merges, taken for decisions.", |s| {
        s.compactions.samples
    }),
    (
        "messina_compaction_kept_tombstones_by_memtable_total",
        "counter",
        "Kept: a memtable has the partition.",
        |s| s.compactions.kept_tombstones.memtable,
    ),
    (
        "messina_compaction_kept_tombstones_by_commitlog_total",
        "counter",
        "Kept: the commit log still has entries of the table.",
        |s| s.compactions.kept_tombstones.commit_log,
    ),
    (
        "messina_compaction_kept_tombstones_by_sstable_total",
        "counter",
        "Kept: another SSTable overlaps.",
        |s| s.compactions.kept_tombstones.sstable,
    ),
    ("scylla_reactor_polls", "counter", "Turns of the run loop.", |s| s.runtime.turns),
    ("scylla_reactor_tasks_processed", "counter", "Times a task was run.", |s| s.runtime.polls),
    ("messina_reactor_parks_total", "counter", "Times the shard went to sleep.", |s| s.runtime.parks),
    ("messina_shard_calls_sent_total", "counter", "Calls to other shards.", |s| s.runtime.calls_sent),
    ("messina_shard_calls_received_total", "counter", "Calls from other shards and threads.", |s| {
        s.runtime.calls_received
    }),
    ("scylla_cache_reads", "counter", "Reads of partitions that used the row cache.", |s| s.row_cache.reads),
    (
        "scylla_cache_reads_with_misses",
        "counter",
        "Reads of partitions that also had to read SSTables.",
        |s| s.row_cache.misses,
    ),
    ("scylla_cache_row_hits", "counter", "Rows read from the row cache.", |s| s.row_cache.rows_hit),
    (
        "scylla_cache_row_misses",
        "counter",
        "Rows read from SSTables because the row cache lacked them.",
        |s| s.row_cache.rows_missed,
    ),
    ("scylla_cache_row_insertions", "counter", "Rows, marks and partitions inserted.", |s| {
        s.row_cache.populations
    }),
    ("scylla_cache_row_evictions", "counter", "Rows, marks and partitions evicted.", |s| {
        s.row_cache.evictions
    }),
    (
        "messina_cache_merged_total",
        "counter",
        "Flushed rows and deletions merged into cached partitions.",
        |s| s.row_cache.merged,
    ),
    ("messina_cache_invalidations_total", "counter", "Times a table's cache was emptied.", |s| {
        s.row_cache.invalidations
    }),
    ("scylla_cache_partitions", "gauge", "Partitions in the row cache.", |s| s.row_cache.partitions),
    ("scylla_cache_rows", "gauge", "Rows, absent ones included, and marks in the row cache.", |s| {
        s.row_cache.entries
    }),
    ("scylla_cache_bytes_used", "gauge", "Bytes of the row cache.", |s| s.row_cache.bytes as u64),
];

/// Suffix of the name, kind, help, value.
type OfCache = (&'static str, &'static str, &'static str, fn(&ClassStats) -> u64);

const OF_CACHE: &[OfCache] = &[
    ("hits", "counter", "found in memory", |c| c.hits),
    ("misses", "counter", "not found in memory", |c| c.misses),
    ("blocks", "counter", "that another read was already loading", |c| c.shared_loads),
    ("populations", "counter", "inserted", |c| c.populations),
    ("evictions", "counter", "evicted", |c| c.evictions),
    ("entries", "gauge", "in memory", |c| c.entries),
    ("bytes", "gauge", "in memory, as bytes", |c| c.bytes as u64),
];

/// The classes of items that share the cache memory.
const CACHES: [(&str, &str, CacheClass); 3] = [
    ("messina_chunk_cache", "Chunks of Data.db", CacheClass::Chunks),
    ("scylla_sstables_index_page_cache", "Pages of index files", CacheClass::IndexPages),
    ("scylla_sstables_partition_index_cache", "Parsed pages of partition indexes", CacheClass::IndexEntries),
];

fn of_caches(page: &mut Page, shards: &[ShardReport]) {
    for (prefix, what, class) in CACHES {
        for (suffix, kind, help, value) in OF_CACHE {
            let mut family = page.family(&format!("{prefix}_{suffix}"), kind, &format!("{what} {help}."));
            for (shard, report) in shards.iter().enumerate() {
                family.sample(&[("shard", &shard)], value(report.cache.of(class)));
            }
        }
    }
    let mut family = page.family(
        "messina_cache_budget_bytes",
        "gauge",
        "Limit of all caches together: the memory that memtables leave.",
    );
    for (shard, report) in shards.iter().enumerate() {
        family.sample(&[("shard", &shard)], report.cache.budget_bytes as u64);
    }
}

/// Suffix of the name, kind, help, value.
type OfReads = (&'static str, &'static str, &'static str, fn(&SemaphoreLimits, &SemaphoreStats) -> u64);

const OF_READS: &[OfReads] = &[
    ("active_reads", "gauge", "Reads that were admitted.", |_, s| s.used_count),
    ("queued_reads", "gauge", "Reads that wait for admission or memory.", |_, s| s.queued),
    ("active_reads_memory_consumption", "gauge", "Bytes that reads hold.", |_, s| s.used_bytes),
    ("reads_memory_limit", "gauge", "Bytes of memory above which reads wait.", |l, _| l.memory_bytes),
    ("total_reads", "counter", "Reads that were admitted.", |_, s| s.reads_admitted),
    ("reads_enqueued_for_admission", "counter", "Reads that waited for admission.", |_, s| {
        s.reads_enqueued_for_admission
    }),
    ("reads_enqueued_for_memory", "counter", "Times a read waited for memory.", |_, s| {
        s.reads_enqueued_for_memory
    }),
    ("reads_timed_out", "counter", "Reads that were not admitted in time.", |_, s| s.reads_timed_out),
    ("reads_shed_due_to_overload", "counter", "Reads refused because the queue was full.", |_, s| {
        s.reads_shed_due_to_overload
    }),
    ("reads_killed_due_to_kill_limit", "counter", "Reads refused for lack of memory.", |_, s| {
        s.reads_killed_due_to_kill_limit
    }),
];

fn of_reads(page: &mut Page, shards: &[ShardReport]) {
    for (suffix, kind, help, value) in OF_READS {
        let mut family = page.family(&format!("scylla_database_{suffix}"), kind, help);
        for (shard, report) in shards.iter().enumerate() {
            for (name, limits, stats) in &report.reads {
                family.sample(&[("class", name), ("shard", &shard)], value(limits, stats));
            }
        }
    }
}

type OfShardSeconds = (&'static str, &'static str, &'static str, fn(&ShardReport) -> f64);

/// Times of a shard, in seconds.
const OF_SHARD_S: &[OfShardSeconds] = &[
    ("messina_compaction_flush_wait_seconds_total", "counter", "Time that flushes were delayed.", |s| {
        s.compactions.flush_waited_us as f64 / 1e6
    }),
    ("messina_reactor_idle_spin_seconds_total", "counter", "Time of polling for work.", |s| {
        s.runtime.idle_spin_us as f64 / 1e6
    }),
];

fn of_shards(page: &mut Page, shards: &[ShardReport]) {
    for (name, kind, help, value) in OF_SHARD_S {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(report));
        }
    }
    for (name, kind, help, value) in OF_SHARD {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            family.sample(&[("shard", &shard)], value(report));
        }
    }
}

/// Metrics of each CPU group: name, kind, help, value.
type OfGroup = (&'static str, &'static str, &'static str, fn(&GroupStats) -> u64);

const OF_GROUP: &[OfGroup] = &[
    ("scylla_scheduler_runtime_ms", "counter", "Run time of the group's tasks.", |g| {
        g.counters.ran_ns / 1_000_000
    }),
    (
        "scylla_scheduler_starvetime_ms",
        "counter",
        "Time in which the group was ready while others ran.",
        |g| g.starved_ns / 1_000_000,
    ),
    ("scylla_scheduler_waittime_ms", "counter", "Time in which no task of the group was ready.", |g| {
        g.waited_ns / 1_000_000
    }),
    ("scylla_scheduler_tasks_processed", "counter", "Times a task of the group was run.", |g| {
        g.counters.polls
    }),
    ("scylla_scheduler_queue_length", "gauge", "Tasks that are ready.", |g| g.ready_tasks),
    ("scylla_scheduler_shares", "gauge", "Shares of the CPU.", |g| u64::from(g.shares)),
    (
        "scylla_scheduler_time_spent_on_task_quota_violations_ms",
        "counter",
        "Time of single runs beyond twice the quota.",
        |g| g.counters.overrun_ns / 1_000_000,
    ),
];

/// Upper bounds of the stall buckets, in milliseconds.
const STALL_BUCKETS_MS: [u64; 10] = [1, 2, 5, 10, 25, 50, 100, 250, 1_000, 10_000];

fn of_groups(page: &mut Page, shards: &[ShardReport]) {
    for (name, kind, help, value) in OF_GROUP {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            for group in &report.groups {
                family.sample(&[("group", &group.name), ("shard", &shard)], value(group));
            }
        }
    }
    let help = "Runs of a task without a yield that took too long, in milliseconds.";
    let mut family = page.family("scylla_reactor_stalls", "histogram", help);
    for (shard, report) in shards.iter().enumerate() {
        for group in &report.groups {
            let (offsets, counts) = (group.stalls_us.offsets(), group.stalls_us.counts());
            let labels: [(&str, &dyn Display); 2] = [("group", &group.name), ("shard", &shard)];
            for end_ms in STALL_BUCKETS_MS {
                let below = offsets.partition_point(|offset_us| *offset_us <= end_ms * 1000);
                let labels = [labels[0], labels[1], ("le", &end_ms)];
                family.sample_of("_bucket", &labels, counts[..below].iter().sum::<u64>());
            }
            family.sample_of("_bucket", &[labels[0], labels[1], ("le", &"+Inf")], group.stalls_us.count());
            family.sample_of("_count", &labels, group.stalls_us.count());
        }
    }
    let mut family = page.family("scylla_stall_detector_reported", "counter", "Stalls that were logged.");
    for (shard, report) in shards.iter().enumerate() {
        family.sample(&[("shard", &shard)], report.runtime.stalls_reported);
    }
}

/// Seconds, the unit of ScyllaDB's metrics of this kind.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

type OfClass = (&'static str, &'static str, &'static str, fn(&IoStats) -> f64);

/// Metrics of each I/O class.
const OF_CLASS: &[OfClass] = &[
    ("scylla_io_queue_total_bytes", "counter", "Bytes moved.", |io| {
        (io.counters.read_bytes + io.counters.write_bytes) as f64
    }),
    ("scylla_io_queue_total_operations", "counter", "Requests to the disk.", |io| {
        (io.counters.reads + io.counters.writes) as f64
    }),
    ("scylla_io_queue_delay", "gauge", "How long the last request waited, in seconds.", |io| {
        seconds(io.counters.last_queued_ns)
    }),
    ("scylla_io_queue_total_delay_sec", "counter", "Seconds that requests waited in the queue.", |io| {
        seconds(io.counters.queued_ns)
    }),
    ("scylla_io_queue_total_exec_sec", "counter", "Seconds that requests took on the disk.", |io| {
        seconds(io.counters.executed_ns)
    }),
    (
        "scylla_io_queue_starvation_time_sec",
        "counter",
        "Seconds in which requests waited and none of the class was in flight.",
        |io| seconds(io.counters.starved_ns),
    ),
    ("scylla_io_queue_queue_length", "gauge", "Waiting requests.", |io| io.counters.waiting as f64),
    ("scylla_io_queue_disk_queue_length", "gauge", "Requests in flight.", |io| io.counters.executing as f64),
    ("scylla_io_queue_shares", "gauge", "Shares of the disk.", |io| f64::from(io.shares)),
    (
        "scylla_io_queue_consumption",
        "counter",
        "Seconds of the whole disk, by its model: a rate of 1 is all of it.",
        |io| seconds(io.counters.consumed_ns),
    ),
    ("scylla_io_queue_activations", "counter", "Times the class became active.", |io| {
        io.counters.activations as f64
    }),
];

fn of_io(page: &mut Page, shards: &[ShardReport]) {
    for (name, kind, help, value) in OF_CLASS {
        let mut family = page.family(name, kind, help);
        for (shard, report) in shards.iter().enumerate() {
            for io in &report.io {
                family.sample(&[("class", &io.name), ("shard", &shard)], value(io));
            }
        }
    }
    type OfCounters = (&'static str, &'static str, fn(&runtime::IoCounters) -> u64);
    let families: [OfCounters; 4] = [
        ("scylla_io_queue_total_read_ops", "Reads, by class.", |io| io.reads),
        ("scylla_io_queue_total_read_bytes", "Bytes read, by class.", |io| io.read_bytes),
        ("scylla_io_queue_total_write_ops", "Writes, by class.", |io| io.writes),
        ("scylla_io_queue_total_write_bytes", "Bytes written, by class.", |io| io.write_bytes),
    ];
    for (name, help, value) in families {
        let mut family = page.family(name, "counter", help);
        for (shard, report) in shards.iter().enumerate() {
            for io in &report.io {
                let counters = report.runtime.io_of(io.class);
                family.sample(&[("class", &io.name), ("shard", &shard)], value(&counters));
            }
        }
    }
}

type OfTable = (&'static str, &'static str, &'static str, fn(&TableReport) -> u64);

const OF_TABLE: &[OfTable] = &[
    ("scylla_column_family_live_sstable", "gauge", "SSTables.", |t| t.sstables.len() as u64),
    ("scylla_column_family_live_disk_space", "gauge", "Bytes of Data.db and Index.db.", |t| {
        t.sstables.iter().map(|sstable| sstable.disk_bytes).sum()
    }),
    ("messina_table_unreadable_sstables", "gauge", "SSTables that cannot be opened.", |t| {
        t.unreadable as u64
    }),
    ("messina_table_missing_sstables", "gauge", "SSTables that were missing at the start.", |t| {
        t.missing as u64
    }),
    ("messina_table_memtable_bytes", "gauge", "Bytes of memtables.", |t| t.memtable_bytes as u64),
    ("messina_table_partitions", "gauge", "Sum of the partitions of all SSTables and memtables.", |t| {
        let on_disk: u64 = t.sstables.iter().map(|sstable| sstable.partitions).sum();
        on_disk + t.memtable_partitions as u64
    }),
    ("scylla_column_family_memtable_switch", "counter", "Memtables flushed.", |t| t.flushes),
    ("scylla_column_family_pending_tasks", "gauge", "Memtables waiting for a flush.", |t| {
        t.pending_flushes as u64
    }),
    ("scylla_column_family_pending_compaction", "gauge", "Estimated number of pending compactions.", |t| {
        t.pending_compactions
    }),
    ("messina_table_flushed_bytes_total", "counter", "Bytes on disk that flushes wrote.", |t| {
        t.flushed_bytes
    }),
    ("messina_table_compacted_bytes_total", "counter", "Bytes on disk that compactions wrote.", |t| {
        t.compacted_bytes
    }),
    ("messina_table_point_reads_total", "counter", "Reads of a single partition.", |t| t.point_reads),
    (
        "messina_table_point_read_sstables_total",
        "counter",
        "SSTables opened by reads of a single partition.",
        |t| t.point_read_sstables,
    ),
    (
        "messina_table_sstables_per_read_p99",
        "gauge",
        "SSTables that 99 of 100 reads of a single partition did not exceed, since the start.",
        |t| t.sstables_per_read.percentile(0.99),
    ),
    ("messina_table_disk_read_bytes_total", "counter", "Bytes that clients' reads fetched from disk.", |t| {
        t.fetched_bytes
    }),
    (
        "messina_table_sstables_skipped_by_partition_total",
        "counter",
        "SSTables that reads did not open: filter or tokens ruled out the partition.",
        |t| t.skipped_by_partition,
    ),
    (
        "messina_table_sstables_skipped_by_clustering_total",
        "counter",
        "SSTables that reads did not open: their clustering keys ruled out the rows.",
        |t| t.skipped_by_clustering,
    ),
    ("messina_table_index_reads_total", "counter", "Reads that used a secondary index.", |t| t.index_reads),
    (
        "messina_table_index_scans_total",
        "counter",
        "Reads that named a secondary index and read the table in order.",
        |t| t.index_scans,
    ),
    (
        "messina_table_index_candidates_total",
        "counter",
        "Rows and partitions that secondary indexes named.",
        |t| t.index_candidates,
    ),
    ("messina_table_filter_bytes", "gauge", "Memory of bloom filters.", |t| {
        t.sstables.iter().map(|sstable| sstable.filter_bytes as u64).sum()
    }),
    (
        "messina_table_compression_metadata_bytes",
        "gauge",
        "Memory of the positions of compressed chunks.",
        |t| t.sstables.iter().map(|sstable| sstable.compression_bytes as u64).sum(),
    ),
];

fn of_tables(page: &mut Page, tables: &[Vec<TableReport>]) {
    let mut all: Vec<(usize, &TableReport)> = vec![];
    for (shard, reports) in tables.iter().enumerate() {
        all.extend(reports.iter().map(|table| (shard, table)));
    }
    for (name, kind, help, value) in OF_TABLE {
        let mut family = page.family(name, kind, help);
        for (shard, table) in &all {
            family.sample(&[("cf", &table.name), ("ks", &table.keyspace), ("shard", shard)], value(table));
        }
    }
    // A table whose live bytes are unknown gets no sample.
    let help = "Estimated live bytes on disk; absent if unknown.";
    let known = all.iter().filter_map(|(shard, table)| Some((shard, table, table.live_bytes?)));
    let mut family = page.family("messina_table_live_bytes", "gauge", help);
    for (shard, table, live_bytes) in known {
        family.sample(&[("cf", &table.name), ("ks", &table.keyspace), ("shard", shard)], live_bytes);
    }
    type OfRequests = (&'static str, &'static str, fn(&TableReport) -> &Latencies);
    let families: [OfRequests; 2] = [
        ("scylla_column_family_read_latency", "Pages read, in microseconds.", |t| &t.reads),
        ("scylla_column_family_write_latency", "Writes until durable, in microseconds.", |t| &t.writes),
    ];
    for (name, help, of) in families {
        let mut family = page.family(name, "histogram", help);
        for (shard, table) in &all {
            let labels: [(&str, &dyn Display); 3] =
                [("cf", &table.name), ("ks", &table.keyspace), ("shard", shard)];
            family.histogram(&labels, of(table));
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime::{ClassStats, GroupCounters};

    use super::*;

    #[test]
    fn buckets_are_ends_of_the_histograms_own_buckets() {
        let offsets = Latencies::default().histogram.offsets().to_vec();
        let others: Vec<u64> = BUCKETS_US.into_iter().filter(|end_us| !offsets.contains(end_us)).collect();
        assert_eq!(others, Vec::<u64>::new(), "{offsets:?}");
    }

    #[test]
    fn a_page() {
        let process = Process {
            used: ProcessUse { cpu_s: 0.25, ..ProcessUse::default() },
            memory_budget_bytes: 2000,
            uptime_s: 1.5,
            resident_bytes: 9,
            connections: 2,
            mode: Mode::Normal,
            backups: BackupStatus::default(),
        };
        let memory = vec![vec![MemoryClass::new("memtables", 300, None)], vec![]];
        let mut writes = Latencies { total_us: 60_000_051, ..Latencies::default() };
        writes.histogram.add(51);
        writes.histogram.add(60_000_000);
        let table = TableReport {
            id: uuid::Uuid::nil(),
            keyspace: "ks".into(),
            name: "odd\"name".into(),
            dir: std::path::PathBuf::new(),
            sstables: vec![],
            unreadable: 0,
            missing: 0,
            memtable_bytes: 77,
            memtable_partitions: 3,
            pending_flushes: 0,
            flushes: 4,
            flushed_bytes: 0,
            compacted_bytes: 0,
            disk_bytes: 0,
            live_bytes: Some(5),
            writes,
            ..TableReport::default()
        };
        let mut stalls_us = Latencies::default().histogram;
        stalls_us.add(1_500);
        let group = GroupStats {
            group: runtime::CpuGroup::Compaction,
            name: "compaction".into(),
            shares: 200,
            counters: GroupCounters { ran_ns: 7_000_000, ..GroupCounters::default() },
            starved_ns: 0,
            waited_ns: 0,
            ready_tasks: 0,
            stalls_us,
        };
        let io = IoStats {
            class: runtime::IoClass::MemtableFlush,
            name: "memtable".into(),
            shares: 1000,
            counters: ClassStats { reads: 1, writes: 2, queued_ns: 1_500_000_000, ..ClassStats::default() },
            cap_bytes_s: None,
        };
        let level = LevelReport {
            level: "web".into(),
            requests: 8,
            shed: 3,
            delayed: 0,
            timed_out: 1,
            under_way: 2,
            latency: Latencies::default(),
        };
        let (groups, io) = (vec![group], vec![io]);
        let shard = ShardReport { dirty_bytes: 77, utilization: 0.5, groups, io, ..ShardReport::default() };
        let page = text(
            &process,
            &[ShardReport::default(), shard],
            &[vec![], vec![table]],
            &[vec![level]],
            &[],
            &memory,
        );
        let labels = r#"cf="odd\"name",ks="ks",shard="1""#;
        for line in [
            r#"scylla_transport_requests_shed{shard="0",service_level="web",scheduling_group_name="sl:web"} 3"#.to_string(),
            "process_resident_memory_bytes 9".to_string(),
            "process_cpu_seconds_total 0.25".to_string(),
            "scylla_memory_free_memory{shard=\"0\"} 700".to_string(),
            "scylla_database_total_writes{shard=\"1\"} 2".to_string(),
            "scylla_reactor_utilization{shard=\"1\"} 50".to_string(),
            r#"messina_transport_request_latency_seconds_bucket{shard="0",service_level="web",le="0.00005"} 0"#.to_string(),
            "scylla_memory_dirty_bytes{shard=\"1\"} 77".to_string(),
            "scylla_io_queue_total_read_ops{class=\"memtable\",shard=\"1\"} 0".to_string(),
            "scylla_io_queue_total_operations{class=\"memtable\",shard=\"1\"} 3".to_string(),
            "scylla_io_queue_total_delay_sec{class=\"memtable\",shard=\"1\"} 1.5".to_string(),
            "scylla_scheduler_runtime_ms{group=\"compaction\",shard=\"1\"} 7".to_string(),
            "scylla_scheduler_shares{group=\"compaction\",shard=\"1\"} 200".to_string(),
            "scylla_reactor_stalls_bucket{group=\"compaction\",shard=\"1\",le=\"1\"} 0".to_string(),
            "scylla_reactor_stalls_bucket{group=\"compaction\",shard=\"1\",le=\"2\"} 1".to_string(),
            format!("scylla_column_family_memtable_switch{{{labels}}} 4"),
            format!("scylla_column_family_write_latency_bucket{{{labels},le=\"50\"}} 0"),
            format!("scylla_column_family_write_latency_bucket{{{labels},le=\"103\"}} 1"),
            format!("scylla_column_family_write_latency_bucket{{{labels},le=\"+Inf\"}} 2"),
            format!("scylla_column_family_write_latency_sum{{{labels}}} 60000051"),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        // Each name is declared once.
        let types: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let mut unique = types.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(types.len(), unique.len());
    }
}
