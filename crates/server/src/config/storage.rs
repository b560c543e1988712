//! What the engine gets of a [`Config`].

use engine::commitlog::SyncMode;
use engine::options::CompactionOptions;
use engine::{EngineOptions, LargeDataOptions, OnDamagedLog, ReadOptions, ShardOptions};
use runtime::{BackendChoice, IoClass, StallOptions};
use sstable::version::Version;
use sstable::write::LargeDataLimits;

use super::{CommitlogSync, Config, IoBackend, LogLevel, OnDamagedCommitlog, SstableFormat};
use crate::logging::log;

/// The machine, as far as defaults depend on it.
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
/// A shard writes one segment, has one ready, and flushes what two more hold.
const SEGMENTS_A_SHARD: u64 = 4;
const HOUR_US: u64 = 3_600_000_000;

impl Machine {
    /// Reads `/proc` and the process's cgroup; what cannot be read is taken to be small.
    pub fn look() -> Self {
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

/// Where the limits of the cgroups named in `/proc/self/cgroup` stand, those of the groups above included: a process has
/// the least of them. Inside a container, whose own group is at the top, the names may be of the machine outside.
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

impl Config {
    pub fn shard_count(&self, machine: Machine) -> u64 {
        self.smp.unwrap_or(machine.cores.clamp(1, 256))
    }

    pub fn memory_bytes(&self, machine: Machine) -> u64 {
        self.memory_bytes.unwrap_or((machine.memory_bytes / 8).clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX))
    }

    pub fn engine_options(&self, machine: Machine) -> EngineOptions {
        let default_segment = if self.in_memory { IN_MEMORY_SEGMENT_BYTES } else { SEGMENT_BYTES };
        let segment_bytes = self.commitlog_segment_bytes.unwrap_or(default_segment);
        let least_log_bytes = SEGMENTS_A_SHARD * segment_bytes * self.shard_count(machine);
        let sync = match self.commitlog_sync {
            // Nothing outlives the process: syncing would be in vain.
            _ if self.in_memory => SyncMode::Periodic { period_us: HOUR_US },
            CommitlogSync::Periodic => SyncMode::Periodic { period_us: self.commitlog_sync_period_ms * 1000 },
            CommitlogSync::Batch => SyncMode::Batch,
            CommitlogSync::Group => SyncMode::Group { window_us: self.commitlog_sync_group_window_ms * 1000 },
        };
        EngineOptions {
            data_dir: self.data_dir.clone(),
            memory_bytes: self.memory_bytes(machine),
            commitlog_sync: sync,
            commitlog_segment_bytes: segment_bytes,
            commitlog_total_bytes: self.commitlog_total_bytes.unwrap_or(least_log_bytes.max(LOG_BYTES)),
            on_damaged_log: match self.on_damaged_commitlog {
                OnDamagedCommitlog::Refuse => OnDamagedLog::Refuse,
                OnDamagedCommitlog::Skip => OnDamagedLog::Skip,
            },
            compaction: CompactionOptions {
                throughput_bytes_per_s: self.compaction_throughput_bytes_per_s,
                concurrent_jobs: self.concurrent_compactors.unwrap_or(0) as u32,
                enforce_min_threshold: self.compaction_enforce_min_threshold,
                disk_budget_bytes: self.disk_budget_bytes,
                static_shares: u32::try_from(self.compaction_static_shares).unwrap_or(u32::MAX),
                max_shares: u32::try_from(self.compaction_max_shares).unwrap_or(u32::MAX),
                is_automatic: true,
            },
            reads: ReadOptions {
                timeout_us: self.read_request_timeout_ms.saturating_mul(1000),
                range_timeout_us: self.range_request_timeout_ms.saturating_mul(1000),
                tombstone_failure_threshold: self.tombstone_failure_threshold,
                cache_index_pages: self.cache_index_pages,
                cache_rows: self.enable_cache,
                tell: |shard, text| {
                    log(
                        LogLevel::Info,
                        format_args!("shard {shard}"),
                        "reader_concurrency_semaphore",
                        format_args!("{text}"),
                    );
                },
                ..ReadOptions::default()
            },
            sstable_version: match self.sstable_format {
                SstableFormat::Me => Version::Me,
                SstableFormat::Nb => Version::Nb,
            },
            large_data: LargeDataOptions {
                limits: LargeDataLimits {
                    partition_bytes: self.large_partition_warning_bytes,
                    partition_rows: self.rows_count_warning_threshold,
                    row_bytes: self.large_row_warning_bytes,
                    cell_bytes: self.large_cell_warning_bytes,
                    collection_elements: self.collection_elements_warning_threshold,
                    records_max: usize::try_from(self.large_data_records_per_sstable).unwrap_or(usize::MAX),
                },
                tell: |shard, text| {
                    log(LogLevel::Warn, format_args!("shard {shard}"), "large_data", format_args!("{text}"));
                },
            },
            attachments: vec![],
        }
    }

    pub fn shard_options(&self, machine: Machine) -> ShardOptions {
        ShardOptions {
            shards: self.shard_count(machine) as u32,
            backend: match self.io_backend {
                IoBackend::Auto => BackendChoice::Auto,
                IoBackend::IoUring => BackendChoice::IoUring,
                IoBackend::LinuxAio => BackendChoice::LinuxAio,
                IoBackend::Threads => BackendChoice::Threads,
            },
            pin: self.pin_shards,
            io_caps: match self.stream_io_throughput_bytes_s {
                0 => vec![],
                bytes_s => vec![(IoClass::Maintenance, bytes_s)],
            },
            stalls: StallOptions {
                threshold_us: self.blocked_reactor_notify_ms.saturating_mul(1000),
                reports_per_minute: u32::try_from(self.blocked_reactor_reports_per_minute)
                    .unwrap_or(u32::MAX),
                tell: None,
            },
            ..ShardOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A container has its group at the top.
        assert!(memory_limit_files("0::/\n").contains(&"/sys/fs/cgroup/memory.max".to_string()));
        for odd in ["", "\n", "memory", "::", "1:memory", "0::/../../x:y"] {
            let _ = memory_limit_files(odd);
        }
    }

    #[test]
    fn defaults_follow_the_machine() {
        let config = Config::default();
        let check = |machine: Machine, shards: u32, memory_mib: u64, log_mib: u64| {
            let engine = config.engine_options(machine);
            assert_eq!(config.shard_options(machine).shards, shards);
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
    fn what_is_set_is_taken() {
        let config = Config {
            smp: Some(3),
            memory_bytes: Some(300 << 20),
            commitlog_sync: CommitlogSync::Group,
            commitlog_sync_group_window_ms: 7,
            commitlog_segment_bytes: Some(16 << 20),
            commitlog_total_bytes: Some(100 << 20),
            on_damaged_commitlog: OnDamagedCommitlog::Skip,
            sstable_format: SstableFormat::Nb,
            ..Config::default()
        };
        let engine = config.engine_options(LAPTOP);
        assert_eq!(engine.commitlog_sync, SyncMode::Group { window_us: 7000 });
        assert_eq!((engine.commitlog_segment_bytes, engine.commitlog_total_bytes), (16 << 20, 100 << 20));
        assert_eq!((engine.memory_bytes, engine.on_damaged_log), (300 << 20, OnDamagedLog::Skip));
        assert_eq!(engine.sstable_version, Version::Nb);
        assert_eq!(config.shard_options(LAPTOP).shards, 3);
    }

    #[test]
    fn in_memory_syncs_seldom_and_reserves_little() {
        let config = Config { in_memory: true, commitlog_sync: CommitlogSync::Batch, ..Config::default() };
        let engine = config.engine_options(LAPTOP);
        assert_eq!(engine.commitlog_sync, SyncMode::Periodic { period_us: HOUR_US });
        assert_eq!(engine.commitlog_segment_bytes, 8 << 20);
    }
}
