//! A workload: a table as distributions, a node, and the phases of a load.
//!
//! - this file: the values of a workload file, with defaults and units;
//! - [`mod@parse`]: from text to a checked workload, with errors that name the line and the nearest name;
//! - [`shipped`]: the workloads that the program contains.

pub mod parse;
pub mod shipped;

use std::collections::BTreeMap;

use iosched::DiskModel;
use serde::{Deserialize, Serialize};

use crate::quantity::{Bytes, Count, Rate, Seconds};

pub use parse::{WorkloadError, parse, with_setting};

/// A workload file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// One line for `lab list`.
    #[serde(default)]
    pub about: String,
    /// Seed of all random numbers; the same seed gives the same result.
    #[serde(default = "one")]
    pub seed: u64,
    #[serde(default)]
    pub table: Table,
    #[serde(default)]
    pub node: Node,
    /// Strategies by the name shown for them. Empty: the documents' four and UCS, with default options.
    #[serde(default)]
    pub strategies: BTreeMap<String, BTreeMap<String, OptionValue>>,
    pub phases: Vec<Phase>,
}

/// An option of a compaction strategy: a YAML scalar as text.
#[derive(Clone, Debug, Serialize)]
pub struct OptionValue(pub String);

/// The table: sizes and lifetimes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Table {
    /// Number of partitions on the node.
    pub partitions: Count,
    /// Rows of a partition; not for `append`, where partitions grow.
    pub rows_per_partition: Count,
    /// Mean size of a row in Data.db before compression, key included.
    pub row_bytes: Bytes,
    /// Standard deviation of the size of a row.
    pub row_bytes_deviation: Bytes,
    /// Size of a tombstone in Data.db before compression, key included.
    pub tombstone_bytes: Bytes,
    /// Bytes on disk, all components together, per byte of Data.db before compression.
    pub disk_ratio: f64,
    /// Compression chunk; reads fetch whole chunks.
    pub chunk_length: Bytes,
    /// False positives of the bloom filter.
    pub bloom_filter_fp_chance: f64,
    pub ttl: Option<Seconds>,
    pub gc_grace: Seconds,
}

/// The node; all figures are of the whole node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Node {
    /// Shards, each with a core, a part of the disk and its own compactions.
    pub shards: u32,
    pub memory: Bytes,
    /// Bytes of rows before compression in one flush of one shard. Default: an eighth of the shard's memory.
    pub flush_bytes: Option<Bytes>,
    /// Limit of the commit log, at which memtables are flushed. Default: the memory.
    pub commitlog_total: Option<Bytes>,
    pub disk: Disk,
    pub cpu: Cpu,
    /// Bytes per second that compactions may read; 0: no limit.
    pub compaction_throughput: Bytes,
    pub compaction_static_shares: u32,
    pub compaction_max_shares: u32,
    /// Jobs of a shard at the same time; 0: one of each weight.
    pub concurrent_compactors: u32,
    pub compaction_enforce_min_threshold: bool,
    /// Longest delay of a flush while the backlog of compaction is too large; 0: never delayed.
    pub flush_wait: Seconds,
    /// Delay flushes when a merge has more runs than this and than `max_threshold`.
    pub runs_to_merge_max: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    pub capacity: Bytes,
    pub read_bandwidth: Bytes,
    pub write_bandwidth: Bytes,
    pub read_iops: Count,
    pub write_iops: Count,
}

/// CPU costs of one core. The defaults were measured on Messina (`bench/results/cql-vs-cassandra.ndjson`,
/// `merge.ndjson`, `engine.ndjson`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cpu {
    pub write_us: f64,
    /// A read from memory.
    pub read_us: f64,
    /// Each SSTable that a read opens, in addition.
    pub read_sstable_us: f64,
    pub flush_ms_per_mb: f64,
    /// Reading and merging, per MB of input before compression.
    pub merge_in_ms_per_mb: f64,
    /// Encoding and compressing, per MB of output before compression.
    pub merge_out_ms_per_mb: f64,
}

/// Which rows writes or reads choose.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// All rows one after the other, then from the beginning.
    Sequential,
    Uniform,
    /// Normally distributed over the partitions, with the mean in the middle.
    Gauss,
    /// The partition of rank r with probability proportional to `r^-exponent`.
    Zipf,
    /// Writes: a new row at the end of a partition. Reads: the last `read_span` of a partition.
    Append,
}

/// A part of the load.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    #[serde(default)]
    pub name: String,
    /// The phase ends after this number of writes of the node …
    pub writes: Option<Count>,
    /// … or after this time.
    pub duration: Option<Seconds>,
    #[serde(default = "no_rate")]
    pub writes_per_s: Rate,
    #[serde(default = "uniform")]
    pub pattern: Pattern,
    /// Exponent of `zipf`.
    pub exponent: Option<f64>,
    /// Standard deviation of `gauss` as a fraction of the partitions.
    pub deviation: Option<f64>,
    /// The fraction of the writes that deletes its row instead.
    #[serde(default)]
    pub deletes: f64,
    /// Of `append`: each row is deleted after this time.
    pub delete_after: Option<Seconds>,
    /// The fraction of the appended rows that arrives late, by a time up to `late_by`.
    #[serde(default)]
    pub late: f64,
    pub late_by: Option<Seconds>,
    #[serde(default)]
    pub reads_per_s: Count,
    /// Which rows are read. Default: as `pattern`, uniform instead of sequential.
    pub read_pattern: Option<Pattern>,
    /// The time span of a read of `append`.
    pub read_span: Option<Seconds>,
    /// The fraction of the reads answered from memory.
    #[serde(default)]
    pub cache_hits: f64,
    /// Run a major compaction at the end.
    #[serde(default)]
    pub major: bool,
    /// Let compaction come to an end after the phase, and begin to count only then.
    #[serde(default)]
    pub warmup: bool,
}

fn one() -> u64 {
    1
}

fn no_rate() -> Rate {
    Rate::PerSecond(0.0)
}

fn uniform() -> Pattern {
    Pattern::Uniform
}

impl Default for Table {
    fn default() -> Self {
        Self {
            partitions: Count(1e6),
            rows_per_partition: Count(1.0),
            row_bytes: Bytes(300.0),
            row_bytes_deviation: Bytes(0.0),
            tombstone_bytes: Bytes(40.0),
            disk_ratio: 1.0,
            chunk_length: Bytes(16_384.0),
            bloom_filter_fp_chance: 0.01,
            ttl: None,
            gc_grace: Seconds(864_000.0),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self {
            shards: 1,
            memory: Bytes(2e9),
            flush_bytes: None,
            commitlog_total: None,
            disk: Disk::default(),
            cpu: Cpu::default(),
            compaction_throughput: Bytes(0.0),
            compaction_static_shares: 0,
            compaction_max_shares: 1000,
            concurrent_compactors: 0,
            compaction_enforce_min_threshold: false,
            flush_wait: Seconds(10.0),
            runs_to_merge_max: 32,
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            capacity: Bytes(1e15),
            read_bandwidth: Bytes(2e9),
            write_bandwidth: Bytes(1e9),
            read_iops: Count(200e3),
            write_iops: Count(100e3),
        }
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self {
            write_us: 11.6,
            read_us: 12.7,
            read_sstable_us: 21.0,
            flush_ms_per_mb: 8.0,
            merge_in_ms_per_mb: 1.9,
            merge_out_ms_per_mb: 3.1,
        }
    }
}

impl Node {
    /// The model of one shard's part of the disk.
    pub fn disk_model(&self) -> DiskModel {
        let rate = |value: f64| (value as u64).max(1);
        DiskModel {
            read_bandwidth_bytes_s: rate(self.disk.read_bandwidth.0),
            write_bandwidth_bytes_s: rate(self.disk.write_bandwidth.0),
            read_iops: rate(self.disk.read_iops.0),
            write_iops: rate(self.disk.write_iops.0),
            ..DiskModel::NOMINAL
        }
        .scaled(1.0 / f64::from(self.shards))
    }

    /// Memory of one shard.
    pub fn shard_memory(&self) -> f64 {
        self.memory.0 / f64::from(self.shards)
    }

    /// Bytes of rows before compression in a flush. A memtable is flushed at a quarter of the shard's
    /// memory; a row takes about twice its bytes there.
    pub fn flushed_bytes(&self) -> f64 {
        self.flush_bytes.map_or(self.shard_memory() / 8.0, |bytes| bytes.0)
    }

    /// Limit of one shard's commit log.
    pub fn shard_commitlog(&self) -> f64 {
        self.commitlog_total.unwrap_or(self.memory).0 / f64::from(self.shards)
    }
}

impl Phase {
    pub fn reads(&self) -> Pattern {
        self.read_pattern.unwrap_or(match self.pattern {
            Pattern::Sequential => Pattern::Uniform,
            pattern => pattern,
        })
    }
}

/// A strategy with the name under which it is shown, and its options as in `compaction = {…}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NamedStrategy {
    pub name: String,
    pub options: BTreeMap<String, String>,
}

/// The strategies that a workload without its own is compared with.
const DEFAULTS: [(&str, &[(&str, &str)]); 5] = [
    ("STCS", &[("class", "SizeTieredCompactionStrategy")]),
    ("LCS", &[("class", "LeveledCompactionStrategy")]),
    ("Hybrid", &[("class", "IncrementalCompactionStrategy")]),
    ("TWCS", &[("class", "TimeWindowCompactionStrategy")]),
    ("UCS", &[("class", "UnifiedCompactionStrategy")]),
];

impl Workload {
    /// The strategies of the file, or the default ones: in the documents' order, others by name.
    pub fn strategies(&self) -> Vec<NamedStrategy> {
        let text = |value: &str| value.to_string();
        if self.strategies.is_empty() {
            let named = DEFAULTS.iter().map(|(name, options)| NamedStrategy {
                name: text(name),
                options: options.iter().map(|(option, value)| (text(option), text(value))).collect(),
            });
            return named.collect();
        }
        let order = |name: &str| DEFAULTS.iter().position(|(known, _)| *known == name).unwrap_or(usize::MAX);
        let mut named: Vec<NamedStrategy> = self
            .strategies
            .iter()
            .map(|(name, options)| NamedStrategy {
                name: name.clone(),
                options: options.iter().map(|(option, value)| (option.clone(), value.0.clone())).collect(),
            })
            .collect();
        named.sort_by_key(|strategy| order(&strategy.name));
        named
    }
}
