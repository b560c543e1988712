//! Builds the options of the engine and the shards from the parts of a [`Config`](super::Config).

#![deny(unused_variables)]

use std::path::PathBuf;
use std::sync::Arc;

use engine::commitlog::SyncMode;
use engine::options::CompactionOptions;
use engine::{Attachment, EngineOptions, OnDamagedLog, ReadOptions, ShardOptions};
use runtime::{BackendChoice, IoClass, StallOptions};
use sstable::version::Version;
use sstable::write::LargeDataLimits;

use super::{
    CommitlogConfig, CommitlogSync, CompactionConfig, IoBackend, LargeDataConfig, MachineConfig,
    OnDamagedCommitlog, ReadConfig, SSTableConfig, SSTableFormat,
};

/// The properties of the machine that defaults depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: u64,
    /// Bytes of memory that the process may use.
    pub memory_bytes: u64,
}

const MEMORY_BYTES_MAX: u64 = 2 << 30;
const MEMORY_BYTES_MIN: u64 = 64 << 20;
const SEGMENT_BYTES: u64 = 32 << 20;
const IN_MEMORY_SEGMENT_BYTES: u64 = 8 << 20;
const LOG_BYTES: u64 = 1 << 30;
/// A shard writes one segment, has one ready, and flushes the memtables that hold two more.
const SEGMENTS_A_SHARD: u64 = 4;
const HOUR_US: u64 = 3_600_000_000;

impl Machine {
    /// Reads `/proc` and the process's cgroup. Unreadable values are assumed to be small.
    pub fn measure() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let meminfo = read("/proc/meminfo");
        let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total_kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        let limit_files = memory_limit_files(&read("/proc/self/cgroup"));
        let limit = limit_files.iter().filter_map(|path| read(path).trim().parse::<u64>().ok()).min();
        let memory_bytes = total_kib.map_or(1 << 30, |kib| kib << 10).min(limit.unwrap_or(u64::MAX));
        Self { cores: std::thread::available_parallelism().map_or(1, usize::from) as u64, memory_bytes }
    }
}

/// The files with the memory limits of the cgroups in `/proc/self/cgroup` and of their parents: the smallest
/// limit applies to the process. In a container the process's group is mounted at the top, while the names
/// may be those of the host.
fn memory_limit_files(self_cgroup: &str) -> Vec<String> {
    let mut files = vec![];
    for line in self_cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (tops, file): (&[&str], _) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        let mut group = group.trim_end_matches('/');
        loop {
            files.extend(tops.iter().map(|top| format!("{top}{group}/{file}")));
            match group.rfind('/') {
                Some(at) => group = &group[..at],
                None => break,
            }
        }
    }
    files
}

/// The resources of the machine that the node uses.
#[derive(Clone, Debug)]
pub struct Resources {
    pub memory_bytes: u64,
    /// Without the disk's model.
    pub shards: ShardOptions,
    pub io_properties_file: Option<PathBuf>,
}

impl MachineConfig {
    pub fn resources(self, machine: Machine) -> Resources {
        let Self {
            memory_bytes,
            smp,
            pin_shards,
            io_backend,
            io_properties_file,
            io_latency_goal_us,
            stream_io_throughput_bytes_s,
            blocked_reactor_notify_ms,
            blocked_reactor_reports_per_minute,
        } = self;
        let default_bytes = (machine.memory_bytes / 8).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        let mut shards = ShardOptions {
            shards: smp.unwrap_or(machine.cores.clamp(1, 256)) as u32,
            backend: match io_backend {
                IoBackend::Auto => BackendChoice::Auto,
                IoBackend::IoUring => BackendChoice::IoUring,
                IoBackend::LinuxAio => BackendChoice::LinuxAio,
                IoBackend::Threads => BackendChoice::Threads,
            },
            pin: pin_shards,
            io_caps: match stream_io_throughput_bytes_s {
                0 => vec![],
                bytes_s => vec![(IoClass::Maintenance, bytes_s)],
            },
            stalls: StallOptions {
                threshold_us: blocked_reactor_notify_ms.saturating_mul(1000),
                reports_per_minute: u32::try_from(blocked_reactor_reports_per_minute).unwrap_or(u32::MAX),
            },
            ..ShardOptions::default()
        };
        shards.disk.latency_goal_ns = io_latency_goal_us.saturating_mul(1000);
        Resources { memory_bytes: memory_bytes.unwrap_or(default_bytes), shards, io_properties_file }
    }
}

/// The parts of a configuration that the engine is opened with, and the values that they depend on.
#[derive(Clone, Debug)]
pub struct EngineParts {
    pub data_dir: PathBuf,
    pub in_memory: bool,
    /// Of all shards.
    pub memory_bytes: u64,
    pub shards: u32,
    pub commitlog: CommitlogConfig,
    /// Segments of the commit log are kept until they are archived.
    pub archives_commitlog: bool,
    pub compaction: CompactionConfig,
    pub sstables: SSTableConfig,
    pub large_data: LargeDataConfig,
    pub reads: ReadConfig,
    /// How long reads of partitions, and of ranges, wait for a permit.
    pub read_timeout_us: u64,
    pub range_timeout_us: u64,
    pub attachments: Vec<Attachment>,
}

impl EngineParts {
    pub fn options(self) -> EngineOptions {
        let Self {
            data_dir,
            in_memory,
            memory_bytes,
            shards,
            commitlog,
            archives_commitlog,
            compaction,
            sstables,
            large_data,
            reads,
            read_timeout_us,
            range_timeout_us,
            attachments,
        } = self;
        let CommitlogConfig {
            sync,
            sync_period_ms,
            sync_group_window_ms,
            segment_bytes,
            total_bytes,
            on_damaged,
        } = commitlog;
        let SSTableConfig { format, summary_ratio, auto_snapshot } = sstables;
        let ReadConfig {
            tombstone_failure_threshold,
            enable_cache,
            cache_index_pages,
            serialize_limit_multiplier,
            kill_limit_multiplier,
        } = reads;
        let default_segment = if in_memory { IN_MEMORY_SEGMENT_BYTES } else { SEGMENT_BYTES };
        let segment_bytes = segment_bytes.unwrap_or(default_segment);
        let least_log_bytes = SEGMENTS_A_SHARD * segment_bytes * u64::from(shards);
        EngineOptions {
            data_dir,
            memory_bytes,
            commitlog_sync: match sync {
                // No data outlive the process, so syncing is useless.
                _ if in_memory => SyncMode::Periodic { period_us: HOUR_US },
                CommitlogSync::Periodic => SyncMode::Periodic { period_us: sync_period_ms * 1000 },
                CommitlogSync::Batch => SyncMode::Batch,
                CommitlogSync::Group => SyncMode::Group { window_us: sync_group_window_ms * 1000 },
            },
            commitlog_segment_bytes: segment_bytes,
            commitlog_total_bytes: total_bytes.unwrap_or(least_log_bytes.max(LOG_BYTES)),
            on_damaged_log: match on_damaged {
                OnDamagedCommitlog::Refuse => OnDamagedLog::Refuse,
                OnDamagedCommitlog::Skip => OnDamagedLog::Skip,
            },
            compaction: compaction.options(),
            reads: ReadOptions {
                timeout_us: read_timeout_us,
                range_timeout_us,
                tombstone_failure_threshold,
                cache_index_pages,
                cache_rows: enable_cache,
                serialize_limit_multiplier,
                kill_limit_multiplier,
                ..ReadOptions::default()
            },
            sstable_version: match format {
                SSTableFormat::Me => Version::Me,
                SSTableFormat::Nb => Version::Nb,
            },
            sstable_summary_ratio: summary_ratio,
            archives_commitlog,
            // No data outlive the process.
            auto_snapshot: auto_snapshot && !in_memory,
            large_data: large_data.limits(),
            attachments,
            progress: Arc::default(),
        }
    }
}

impl CompactionConfig {
    fn options(self) -> CompactionOptions {
        let Self {
            throughput_bytes_per_s,
            concurrent_compactors,
            enforce_min_threshold,
            static_shares,
            max_shares,
            disk_budget_bytes,
        } = self;
        let to_u32 = |number| u32::try_from(number).unwrap_or(u32::MAX);
        CompactionOptions {
            throughput_bytes_per_s,
            concurrent_jobs: to_u32(concurrent_compactors.unwrap_or(0)),
            enforce_min_threshold,
            disk_budget_bytes,
            static_shares: to_u32(static_shares),
            max_shares: to_u32(max_shares),
            is_automatic: true,
        }
    }
}

impl LargeDataConfig {
    fn limits(self) -> LargeDataLimits {
        let Self {
            partition_bytes,
            partition_rows,
            row_bytes,
            cell_bytes,
            collection_elements,
            records_per_sstable,
        } = self;
        LargeDataLimits {
            partition_bytes,
            partition_rows,
            row_bytes,
            cell_bytes,
            collection_elements,
            records_max: usize::try_from(records_per_sstable).unwrap_or(usize::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const LAPTOP: Machine = Machine { cores: 8, memory_bytes: 16 << 30 };

    #[test]
    fn a_process_has_the_limits_of_its_cgroup_and_of_those_above() {
        let unified = memory_limit_files("0::/system.slice/messina.service\n");
        for group in ["/system.slice/messina.service", "/system.slice", ""] {
            assert!(
                unified.contains(&format!("/sys/fs/cgroup{group}/memory.max")),
                "{group:?} in {unified:?}"
            );
        }
        let old = memory_limit_files("5:cpu,cpuacct:/a\n4:memory:/docker/7f\n");
        let group = |group: &str| format!("/sys/fs/cgroup/memory{group}/memory.limit_in_bytes");
        assert_eq!(old, [group("/docker/7f"), group("/docker"), group("")]);
        // In a container, the process's group is at the top.
        assert!(memory_limit_files("0::/\n").contains(&"/sys/fs/cgroup/memory.max".to_string()));
        for odd in ["", "\n", "memory", "::", "1:memory", "0::/../../x:y"] {
            let _ = memory_limit_files(odd);
        }
    }

    /// The engine's options and the number of shards.
    fn opened(config: Config, machine: Machine) -> (EngineOptions, u32) {
        let resources = config.machine.resources(machine);
        let shards = resources.shards.shards;
        let parts = EngineParts {
            data_dir: config.place.data_dir,
            in_memory: config.place.in_memory,
            memory_bytes: resources.memory_bytes,
            shards,
            commitlog: config.commitlog,
            archives_commitlog: false,
            compaction: config.compaction,
            sstables: config.sstables,
            large_data: config.large_data,
            reads: config.reads,
            read_timeout_us: 1,
            range_timeout_us: 1,
            attachments: vec![],
        };
        (parts.options(), shards)
    }

    #[test]
    fn defaults_follow_the_machine() {
        let check = |machine: Machine, shards: u32, memory_mib: u64, log_mib: u64| {
            let (engine, found_shards) = opened(Config::default(), machine);
            assert_eq!(found_shards, shards);
            assert_eq!(
                (engine.memory_bytes, engine.commitlog_total_bytes),
                (memory_mib << 20, log_mib << 20)
            );
        };
        check(LAPTOP, 8, 2048, 1024);
        check(Machine { cores: 1, memory_bytes: 1 << 30 }, 1, 128, 1024);
        check(Machine { cores: 2, memory_bytes: 64 << 20 }, 2, 64, 1024);
        check(Machine { cores: 64, memory_bytes: 1 << 40 }, 64, 2048, 64 * 4 * 32);
    }

    #[test]
    fn in_memory_syncs_seldom_and_reserves_little() {
        let mut config = Config::default();
        config.place.in_memory = true;
        config.commitlog.sync = CommitlogSync::Batch;
        let (engine, _) = opened(config, LAPTOP);
        assert_eq!(engine.commitlog_sync, SyncMode::Periodic { period_us: HOUR_US });
        assert_eq!(engine.commitlog_segment_bytes, 8 << 20);
    }
}
