//! Formats answers in the layouts of Cassandra's and ScyllaDB's nodetool, because scripts parse them.

use std::fmt::Write;

use reports::{CacheReport, LatencyReport, LoadedSSTables, MemoryClass, Scrubbed};
use server::api::answers::{Info, Logger, Memory, Snapshot, TableStats, Version};

/// The sketches count partitions, not rows: the versions of a partition in two SSTables may overwrite or
/// complement each other.
const UNKNOWN_SPACE: &str = "unknown: partitions of several rows lie in several SSTables";

/// Output of refresh and import.
pub fn loaded(loaded: &LoadedSSTables) -> String {
    if loaded.sstables.is_empty() {
        return format!("No new SSTables were found in {}\n", loaded.dir);
    }
    let lines = loaded.sstables.iter().map(|(from, to)| format!("{}/{from} is now {to}\n", loaded.dir));
    lines.collect()
}

/// The levels of loggers, in Cassandra's layout.
pub fn loggers(loggers: &[Logger]) -> String {
    let mut text = format!("\n{:<50}{:>10}\n", "Logger Name", "Log Level");
    for Logger { name, level } in loggers {
        text.push_str(&format!("{name:<50}{level:>10}\n"));
    }
    text
}

/// What a scrub has kept and lost.
pub fn scrubbed(done: &Scrubbed) -> String {
    let mut text = format!(
        "{} SSTables scrubbed: {} partitions and {} rows kept, {} partitions that were out of order among them\n",
        done.sstables, done.partitions, done.rows, done.out_of_order
    );
    if !done.damaged.is_empty() {
        text.push_str(&format!(
            "Lost: {} partitions, parts of {} more; {} rows, and the unknown content of {} gaps\n",
            done.lost_partitions, done.damaged_partitions, done.lost_rows, done.gaps
        ));
    }
    let mut list = |what: &str, lines: &[String]| {
        lines.iter().for_each(|line| text.push_str(&format!("{what}: {line}\n")));
    };
    list("Damaged", &done.damaged);
    list("Not rewritten", &done.left);
    list("Snapshot before", &done.snapshots);
    text
}

/// A row for each class, the largest first, and a row for the process.
pub fn memory(memory: &Memory) -> String {
    let mut classes: Vec<&MemoryClass> = memory.shards.iter().take(1).flatten().collect();
    let of = |class: &str| -> Vec<&MemoryClass> {
        memory.shards.iter().flatten().filter(|it| it.class == class).collect()
    };
    let bytes = |class: &str| of(class).iter().map(|it| it.bytes).sum::<u64>();
    classes.sort_by_key(|it| std::cmp::Reverse(bytes(&it.class)));
    let mut title = vec!["Class".to_string(), "Used".to_string(), "Limit".to_string()];
    title.extend((0..memory.shards.len()).map(|shard| format!("Shard {shard}")));
    let mut rows = vec![title];
    for class in classes {
        let limit: Option<u64> = of(&class.class).iter().map(|it| it.limit_bytes).sum();
        let mut row =
            vec![class.class.to_string(), size(bytes(&class.class)), limit.map_or("-".to_string(), size)];
        row.extend(of(&class.class).iter().map(|it| size(it.bytes)));
        rows.push(row);
    }
    let all: u64 = memory.shards.iter().flatten().map(|it| it.bytes).sum();
    rows.push(vec!["total".to_string(), size(all)]);
    let (resident, budget) = (size(memory.resident_bytes), size(memory.budget_bytes));
    let foot = format!("\nProcess: {resident} resident; option memory: {budget}\n");
    aligned(&rows, "  ")
        + &foot
        + "Caches (row_cache, index_pages, parsed_index_pages, data_chunks) share their limit.\n"
}

pub fn version(version: &Version) -> String {
    format!("ReleaseVersion: {}\n", version.release_version)
}

/// `1.50 KiB`
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        value /= 1024.0;
        unit = next;
        if value < 1024.0 {
            break;
        }
    }
    format!("{value:.2} {unit}")
}

/// Aligns the rows of a table: each column is as wide as its widest cell.
pub(crate) fn aligned(rows: &[Vec<String>], gap: &str) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join(gap).trim_end());
        text.push('\n');
    }
    text
}

pub fn status(info: &Info) -> String {
    let title = format!("Datacenter: {}", info.data_center);
    let mut text = format!("{title}\n{}\nStatus=Up/Down\n", "=".repeat(title.len()));
    text.push_str("|/ State=Normal/Leaving/Joining/Moving\n");
    // A drained node is up only for its administrator.
    let state = if info.mode == "NORMAL" { "UN" } else { "DN" };
    let row = |cells: [&str; 7]| cells.map(str::to_string).to_vec();
    let rows = [
        row(["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"]),
        row([
            state,
            &info.address,
            &size(info.load_bytes),
            &info.tokens.to_string(),
            "100.0%",
            &info.host_id,
            &info.rack,
        ]),
    ];
    text + &aligned(&rows, "  ")
}

pub fn info(info: &Info) -> String {
    let mib = |bytes: u64| format!("{:.2}", bytes as f64 / f64::from(1 << 20));
    let cache = |cache: &CacheReport| {
        let (requests, hit_rate) = (cache.requests(), cache.hit_rate());
        format!(
            "entries {}, size {}, capacity {}, {} misses, {requests} requests, {hit_rate:.3} recent hit rate",
            cache.entries,
            size(cache.bytes),
            size(cache.capacity_bytes),
            cache.misses,
        )
    };
    let lines = [
        ("ID", info.host_id.clone()),
        ("Gossip active", "false".to_string()),
        ("Native Transport active", info.native_transport.to_string()),
        ("Load", size(info.load_bytes)),
        ("Generation No", info.generation.to_string()),
        ("Uptime (seconds)", info.uptime_s.to_string()),
        ("Resident Memory (MB)", mib(info.resident_bytes)),
        (
            "Memtable Memory (MB)",
            format!("{} / {}", mib(info.memtable_bytes), mib(info.memory_budget_bytes / 2)),
        ),
        ("Commit Log (MB)", mib(info.commitlog_bytes)),
        ("Data Center", info.data_center.clone()),
        ("Rack", info.rack.clone()),
        ("Mode", info.mode.clone()),
        ("Shards", info.shards.to_string()),
        ("Client Connections", info.connections.to_string()),
        ("Row Cache", cache(&info.row_cache)),
        ("Chunk Cache", cache(&info.chunk_cache)),
        ("I/O", info.io_backend.clone()),
        ("Data Directory", info.data_dir.clone()),
    ];
    lines.iter().map(|(name, value)| format!("{name:<23}: {value}\n")).collect()
}

fn mean_ms(requests: &LatencyReport) -> String {
    if requests.count == 0 {
        return "NaN ms".to_string();
    }
    format!("{:.3} ms", requests.total_us as f64 / 1000.0 / requests.count as f64)
}

/// Statistics grouped by keyspace, in the order of the tables.
pub fn table_stats(tables: &[TableStats]) -> String {
    let mut text = format!("Total number of tables: {}\n----------------\n", tables.len());
    for keyspace in tables.chunk_by(|a, b| a.keyspace == b.keyspace) {
        let mut reads = LatencyReport::default();
        let mut writes = LatencyReport::default();
        for table in keyspace {
            reads.count += table.reads.count;
            reads.total_us += table.reads.total_us;
            writes.count += table.writes.count;
            writes.total_us += table.writes.total_us;
        }
        let pending: u64 = keyspace.iter().map(|table| table.pending_flushes).sum();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "Keyspace : {}\n\tRead Count: {}\n\tRead Latency: {}\n\tWrite Count: {}\n\tWrite Latency: {}\n\tPending Flushes: {pending}\n",
            keyspace[0].keyspace,
            reads.count,
            mean_ms(&reads),
            writes.count,
            mean_ms(&writes),
        );
        for table in keyspace {
            text.push_str(&one_table(table));
        }
        text.push_str("----------------\n");
    }
    text
}

fn one_table(table: &TableStats) -> String {
    let percentiles = |requests: &LatencyReport| {
        let ms = |us: u64| us as f64 / 1000.0;
        format!("{:.3} ms, {:.3} ms, {:.3} ms", ms(requests.p50_us), ms(requests.p99_us), ms(requests.max_us))
    };
    let mut lines = vec![
        ("Table", table.table.clone()),
        ("SSTable count", table.sstable_count.to_string()),
        ("Max SSTable size", size(table.max_sstable_bytes)),
        ("Pending compactions", table.pending_compactions.to_string()),
        ("Write amplification", format!("{:.2}", table.write_amplification)),
        (
            "Space amplification",
            table.space_amplification.map_or(UNKNOWN_SPACE.to_string(), |a| format!("{a:.2}")),
        ),
        ("SSTables per read of one partition", format!("{:.2}", table.sstables_per_read)),
        (
            "SSTables per read (99%, max)",
            format!("{}, {}", table.sstables_per_read_p99, table.sstables_per_read_max),
        ),
        ("SSTables skipped by partition", table.sstables_skipped_by_partition.to_string()),
        ("SSTables skipped by clustering", table.sstables_skipped_by_clustering.to_string()),
        ("Bytes read from disk per read", format!("{:.0}", table.disk_bytes_per_read)),
        ("Bytes read from disk", table.disk_read_bytes.to_string()),
        ("Space used (live)", table.space_used_live.to_string()),
        ("Space used (total)", table.space_used_total.to_string()),
        ("Space used by snapshots (total)", table.space_used_by_snapshots.to_string()),
        ("Off heap memory used (total)", (table.sstable_memory_bytes + table.memtable_bytes).to_string()),
        ("SSTable Compression Ratio", format!("{:.5}", table.compression_ratio)),
        ("Number of partitions (estimate)", table.partitions_estimate.to_string()),
        ("Memtable partition count", table.memtable_partitions.to_string()),
        ("Memtable data size", table.memtable_bytes.to_string()),
        ("Memtable switch count", table.memtable_switch_count.to_string()),
        ("Local read count", table.reads.count.to_string()),
        ("Local read latency", mean_ms(&table.reads)),
        ("Local read latency (50%, 99%, max)", percentiles(&table.reads)),
        ("Local write count", table.writes.count.to_string()),
        ("Local write latency", mean_ms(&table.writes)),
        ("Local write latency (50%, 99%, max)", percentiles(&table.writes)),
        ("Local read/write ratio", format!("{:.5}", read_write_ratio(table))),
        ("Pending flushes", table.pending_flushes.to_string()),
        ("Percent repaired", format!("{:.1}", percent_repaired(table))),
        ("Bytes repaired", size(table.repaired_bytes)),
        ("Bytes unrepaired", size(table.unrepaired_bytes)),
        ("Bytes pending repair", size(0)),
        ("Bloom filter false positives", table.bloom_filter_false_positives.to_string()),
        ("Bloom filter false ratio", format!("{:.5}", table.bloom_filter_false_ratio)),
        ("Bloom filter space used", table.bloom_filter_bytes.to_string()),
        ("Bloom filter off heap memory used", table.bloom_filter_bytes.to_string()),
        ("Compression metadata off heap memory used", table.compression_metadata_bytes.to_string()),
        ("Compacted partition minimum bytes", table.partition_min_bytes.to_string()),
        ("Compacted partition maximum bytes", table.partition_max_bytes.to_string()),
        ("Compacted partition mean bytes", table.partition_mean_bytes.to_string()),
        ("Average live cells per slice (last five minutes)", mean(table.live_per_slice_mean)),
        ("Maximum live cells per slice (last five minutes)", table.live_per_slice_max.to_string()),
        ("Average tombstones per slice (last five minutes)", mean(table.tombstones_per_slice_mean)),
        ("Maximum tombstones per slice (last five minutes)", table.tombstones_per_slice_max.to_string()),
        ("Droppable tombstone ratio", format!("{:.5}", table.droppable_tombstone_ratio)),
    ];
    if !table.sstables_in_levels.is_empty() {
        let limits = table.level_limits.iter().map(Some).chain(std::iter::repeat(None));
        let level = |(count, limit): (&u64, Option<&u64>)| match limit {
            Some(limit) => format!("{count}/{limit}"),
            None => count.to_string(),
        };
        let levels: Vec<String> = table.sstables_in_levels.iter().zip(limits).map(level).collect();
        lines.insert(2, ("SSTables in each level", format!("[{}]", levels.join(", "))));
    }
    if table.unreadable_sstables > 0 {
        lines.insert(2, ("Unreadable SSTables", table.unreadable_sstables.to_string()));
    }
    if table.missing_sstables > 0 {
        lines.insert(2, ("Missing SSTables", table.missing_sstables.to_string()));
    }
    lines.iter().map(|(name, value)| format!("\t\t{name}: {value}\n")).collect::<String>() + "\n"
}

/// A mean of a page; NaN without pages.
fn mean(mean: Option<f64>) -> String {
    mean.map_or("NaN".to_string(), |mean| mean.to_string())
}

fn read_write_ratio(table: &TableStats) -> f64 {
    match table.writes.count {
        0 => 0.0,
        writes => table.reads.count as f64 / writes as f64,
    }
}

fn percent_repaired(table: &TableStats) -> f64 {
    match table.repaired_bytes + table.unrepaired_bytes {
        0 => 100.0,
        all => table.repaired_bytes as f64 * 100.0 / all as f64,
    }
}

pub fn snapshots(snapshots: &[Snapshot]) -> String {
    if snapshots.is_empty() {
        return "There are no snapshots\n".to_string();
    }
    let title = ["Snapshot name", "Keyspace name", "Column family name", "True size", "Size on disk"];
    let mut rows = vec![title.map(str::to_string).to_vec()];
    let mut total_bytes = 0;
    for Snapshot { snapshot, true_bytes } in snapshots {
        total_bytes += true_bytes;
        rows.push(vec![
            snapshot.tag.clone(),
            snapshot.keyspace.clone(),
            snapshot.table.clone(),
            size(*true_bytes),
            size(snapshot.disk_bytes),
        ]);
    }
    format!("Snapshot Details:\n{}\nTotal TrueDiskSpaceUsed: {}\n\n", aligned(&rows, "  "), size(total_bytes))
}

#[cfg(test)]
mod tests {
    use reports::SnapshotReport;

    use super::*;

    #[test]
    fn sizes() {
        let check = |bytes: u64, text: &str| assert_eq!(size(bytes), text);
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(1536, "1.50 KiB");
        check(5 << 30, "5.00 GiB");
        check(5000 << 40, "5000.00 TiB");
    }

    const INFO: &str = r#"{"cluster_name":"Test Cluster","release_version":"0.1.0",
        "host_id":"6f2a1d57-54b7-4e0b-b4d6-0c3f6b1e2a11","address":"127.0.0.1","data_center":"datacenter1","rack":"rack1",
        "tokens":1,"mode":"NORMAL","shards":2,"io_backend":"io_uring","data_dir":"data","generation":1790000000,
        "uptime_s":12,"load_bytes":76800,"resident_bytes":33554432,"memory_budget_bytes":2147483648,
        "memtable_bytes":1048576,"commitlog_bytes":67108864,
        "chunk_cache":{"entries":3,"size_bytes":12288,"capacity_bytes":536870912,"hits":3,"misses":1},
        "row_cache":{"entries":7,"size_bytes":2048,"capacity_bytes":536870912,"hits":1,"misses":1},
        "native_transport":false,"connections":0}"#;

    #[test]
    fn the_layout_of_status() {
        let mut answer: Info = serde_json::from_str(INFO).unwrap();
        let expected = "\
Datacenter: datacenter1
=======================
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address    Load       Tokens  Owns (effective)  Host ID                               Rack
UN  127.0.0.1  75.00 KiB  1       100.0%            6f2a1d57-54b7-4e0b-b4d6-0c3f6b1e2a11  rack1
";
        assert_eq!(status(&answer), expected);
        answer.mode = "DRAINED".to_string();
        assert!(status(&answer).contains("\nDN  127.0.0.1"));
    }

    #[test]
    fn the_layout_of_info() {
        let text = info(&serde_json::from_str(INFO).unwrap());
        for line in [
            "ID                     : 6f2a1d57-54b7-4e0b-b4d6-0c3f6b1e2a11",
            "Load                   : 75.00 KiB",
            "Uptime (seconds)       : 12",
            "Memtable Memory (MB)   : 1.00 / 1024.00",
            "Row Cache              : entries 7, size 2.00 KiB, capacity 512.00 MiB, 1 misses, 2 requests, 0.500 recent hit rate",
            "Chunk Cache            : entries 3, size 12.00 KiB, capacity 512.00 MiB, 1 misses, 4 requests, 0.750 recent hit rate",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_layout_of_tablestats() {
        let requests = LatencyReport { count: 4, total_us: 1000, p50_us: 200, p99_us: 420, max_us: 420 };
        let table = |keyspace: &str, name: &str| TableStats {
            keyspace: keyspace.to_string(),
            table: name.to_string(),
            sstable_count: 2,
            space_used_live: 12345,
            compression_ratio: 0.5,
            compression_metadata_bytes: 4711,
            sstables_in_levels: vec![1, 12, 3],
            level_limits: vec![4, 10],
            droppable_tombstone_ratio: 0.25,
            reads: requests,
            ..TableStats::default()
        };
        let text = table_stats(&[table("a", "x"), table("a", "y"), table("b", "z")]);
        let begins = "Total number of tables: 3\n----------------\nKeyspace : a\n\tRead Count: 8\n\tRead Latency: 0.250 ms\n\t\
                      Write Count: 0\n\tWrite Latency: NaN ms\n\tPending Flushes: 0\n\t\tTable: x\n\t\tSSTable count: 2\n\t\tSSTables in each level";
        assert!(text.starts_with(begins), "{text}");
        assert_eq!(text.matches("Keyspace : ").count(), 2);
        for line in [
            "\t\tSpace used (live): 12345",
            "\t\tSSTable Compression Ratio: 0.50000",
            "\t\tLocal read latency (50%, 99%, max): 0.200 ms, 0.420 ms, 0.420 ms",
            "\t\tLocal write latency: NaN ms",
            "\t\tCompression metadata off heap memory used: 4711",
            "\t\tSSTables in each level: [1/4, 12/10, 3]",
            "\t\tAverage live cells per slice (last five minutes): NaN",
            "\t\tDroppable tombstone ratio: 0.25000",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 3, "{line}\n{text}");
        }
        assert!(!text.contains("Unreadable"));
        let broken = TableStats { unreadable_sstables: 1, missing_sstables: 2, ..table("a", "x") };
        assert!(table_stats(&[broken]).contains("\t\tMissing SSTables: 2\n\t\tUnreadable SSTables: 1\n"));
    }

    #[test]
    fn the_layout_of_listsnapshots() {
        let snapshot = SnapshotReport {
            tag: "before".into(),
            keyspace: "ks".into(),
            table: "t".into(),
            disk_bytes: 2048,
            ..SnapshotReport::default()
        };
        let snapshot = Snapshot { snapshot, true_bytes: 0 };
        let expected = "\
Snapshot Details:
Snapshot name  Keyspace name  Column family name  True size  Size on disk
before         ks             t                   0 bytes    2.00 KiB

Total TrueDiskSpaceUsed: 0 bytes

";
        assert_eq!(super::snapshots(&[snapshot]), expected);
        assert_eq!(super::snapshots(&[]), "There are no snapshots\n");
    }
}
