//! Sub-options of compaction that affect how jobs run: each has a visible effect.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use catalog::TableSettings;
use engine::node::compaction as compaction_node;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{Engine, EngineOptions, ReadCommand};
use model::{Mutation, PartitionKey, PartitionRange, TableSchema, Tombstone};
use runtime::CpuGroup;
use sstable::component::statistics::Statistics;
use sstable::read::SSTable;
use sstable::version::Version;

use crate::support::*;

fn manual_compactions(dir: &Path) -> EngineOptions {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    EngineOptions { compaction, ..options(dir) }
}

fn alter(engine: &Engine, table: &Arc<TableSchema>, options: &[(&str, &str)]) {
    let compaction = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let settings = TableSettings { compaction, ..TableSettings::default() };
    let schema = table.clone();
    engine.change_schema(move |catalog| catalog.alter_table(schema, settings)).unwrap();
}

fn major(engine: &Engine, table: &TableSchema) {
    let id = table.id;
    engine
        .ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await })
        .wait()
        .unwrap();
}

/// The result of `of` for each SSTable, ordered by their newest write, oldest first.
fn of_sstables<T: Send + 'static>(engine: &Engine, table: &TableSchema, of: fn(&SSTable) -> T) -> Vec<T> {
    let id = table.id;
    let asked = engine.ask(0, move |shard| async move {
        let mut sstables = EngineShard::of(&shard)?.table(id)?.sstables().to_vec();
        sstables.sort_by_key(|sstable| sstable.max_timestamp_us());
        Ok(sstables.iter().map(|sstable| of(sstable)).collect())
    });
    asked.wait().unwrap()
}

/// A partition tombstone that is years old.
fn delete_partition(engine: &Engine, table: &Arc<TableSchema>, p: &str, timestamp_us: i64) {
    let mut gone = Mutation::new(table.clone(), PartitionKey::new(p));
    gone.partition.tombstone = Tombstone::new(timestamp_us, 1_700_000_000);
    engine.apply(gone).wait().unwrap();
}

/// Marks SSTables as repaired, as Cassandra's repair does.
fn mark_repaired(dir: &Path, at_ms: i64) {
    for path in files(dir, "Statistics.db") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let version: Version = name.split('-').next().unwrap().parse().unwrap();
        let mut statistics = Statistics::decode(&std::fs::read(&path).unwrap(), version).unwrap();
        statistics.stats.repaired_at_ms = at_ms;
        std::fs::write(&path, statistics.encode(version)).unwrap();
    }
}

#[test]
fn only_repaired_sstables_are_purged_and_they_stay_apart() {
    let dir = dir("sub-options-repaired");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    let class = ("class", "SizeTieredCompactionStrategy");
    alter(&engine, &table, &[class, ("only_purge_repaired_tombstones", "true")]);
    engine.apply(insert(&table, "b", 1, "x", 10)).wait().unwrap();
    delete_partition(&engine, &table, "a", 11);
    engine.flush(vec![table.id]).unwrap();
    engine.close().unwrap();
    // The commit log has no entries that could keep the tombstone.
    let engine = open(manual_compactions(&dir), 1);
    major(&engine, &table);
    assert_eq!(of_sstables(&engine, &table, SSTable::may_have_tombstones), [true]);
    let report = engine.ask(0, |shard| async move { compaction_node::report(&shard).await }).wait().unwrap();
    let kept = &report[0].stats.kept_tombstones;
    assert_eq!((kept.not_repaired, kept.young, kept.commit_log), (1, 0, 0));
    engine.close().unwrap();
    mark_repaired(&table_dir(&dir, &table), 77);
    let engine = open(manual_compactions(&dir), 1);
    engine.apply(insert(&table, "c", 1, "y", 20)).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    major(&engine, &table);
    let repaired_at: fn(&SSTable) -> (bool, i64) = |it| (it.may_have_tombstones(), it.stats().repaired_at_ms);
    assert_eq!(of_sstables(&engine, &table, repaired_at), [(false, 77), (false, 0)]);
    // Without the option they are merged; a merge with unrepaired data is unrepaired.
    alter(&engine, &table, &[class]);
    major(&engine, &table);
    assert_eq!(of_sstables(&engine, &table, repaired_at), [(false, 0)]);
    assert_eq!(everything(&engine, &table).len(), 2);
    engine.close().unwrap();
}

/// Rows, newer values of some of them, and then a recent tombstone: each in an SSTable that is not merged
/// with the others.
#[test]
fn a_merge_leaves_out_what_other_sstables_delete() {
    for (provided, rows) in [("none", 30), ("row", 30), ("cell", 20)] {
        let dir = dir(&format!("sub-options-overlapping-{provided}"));
        let engine = open(manual_compactions(&dir), 1);
        let table = table(&engine);
        let class = ("class", "SizeTieredCompactionStrategy");
        alter(&engine, &table, &[class, ("provide_overlapping_tombstones", provided)]);
        let now_s = engine.ask(0, |shard| async move { Ok(shard.wall_us() / 1_000_000) }).wait().unwrap();
        for c in 0..30 {
            engine.apply(insert(&table, "a", c, "old", 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
        let small = files(&table_dir(&dir, &table), "Data.db");
        for c in 0..10 {
            engine.apply(insert(&table, "a", c, "new", 20)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
        let before = everything(&engine, &table);
        let id = table.id;
        let merge = |files: Vec<std::path::PathBuf>| {
            engine
                .ask(0, move |shard| async move { compaction_node::merge_files(&shard, id, files).await })
                .wait()
                .unwrap();
        };
        merge(small);
        let total_rows: fn(&SSTable) -> u64 = |sstable| sstable.stats().total_rows;
        assert_eq!(of_sstables(&engine, &table, total_rows), [rows, 10], "{provided}");
        assert_eq!(everything(&engine, &table), before);
        // A tombstone that is too young to be dropped, in an SSTable that stays.
        let oldest = files(&table_dir(&dir, &table), "Data.db");
        let mut gone = Mutation::new(table.clone(), PartitionKey::new("a"));
        gone.partition.tombstone = Tombstone::new(30, now_s as u32);
        engine.apply(gone).wait().unwrap();
        engine.flush(vec![table.id]).unwrap();
        merge(oldest);
        let left: u64 = of_sstables(&engine, &table, total_rows).iter().sum();
        assert_eq!(left, if provided == "none" { 30 } else { 0 }, "{provided}");
        assert_eq!(everything(&engine, &table), []);
        engine.close().unwrap();
    }
}

/// The largest number of concurrent jobs that was seen during a major compaction.
fn most_at_once(engine: &Engine, table: &TableSchema) -> usize {
    let id = table.id;
    let compact = engine.ask(0, move |shard| async move {
        let (here, has_ended) = (shard.clone(), Rc::new(Cell::new(false)));
        let ended = has_ended.clone();
        let compacting = shard.spawn(CpuGroup::Maintenance, async move {
            let done = compaction_node::major(&here, id, false).await;
            ended.set(true);
            done
        });
        let mut most = 0;
        while !has_ended.get() {
            most = most.max(EngineShard::of(&shard)?.compactions().report().running.len());
            shard.sleep_us(1000).await;
        }
        compacting.await?;
        Ok(most)
    });
    compact.wait().unwrap()
}

#[test]
fn parts_of_the_ring_are_compacted_at_once_or_one_after_the_other() {
    for (parallel, most) in [("true", 2), ("false", 1)] {
        let dir = dir(&format!("sub-options-parallel-{parallel}"));
        let mut slow = manual_compactions(&dir);
        slow.compaction.throughput_bytes_per_s = 400_000;
        let engine = open(slow, 1);
        let table = table(&engine);
        let class = ("class", "UnifiedCompactionStrategy");
        alter(&engine, &table, &[class, ("parallelize_output_shards", parallel)]);
        // Two halves of the ring, each with two SSTables.
        let keys: Vec<String> = (0..40).map(|key| format!("key{key}")).collect();
        let is_low = |key: &&String| PartitionKey::new(key.as_str()).token() < 0;
        let (low, high): (Vec<&String>, Vec<&String>) = keys.iter().partition(is_low);
        for half in [&low, &high, &low, &high] {
            for key in half {
                engine.apply(insert(&table, key, 1, &"v".repeat(5000), 10)).wait().unwrap();
            }
            engine.flush(vec![table.id]).unwrap();
        }
        let before = everything(&engine, &table);
        assert_eq!(most_at_once(&engine, &table), most, "{parallel}");
        assert_eq!(everything(&engine, &table), before);
        assert_eq!(files(&table_dir(&dir, &table), "TOC.txt").len(), 2);
        engine.close().unwrap();
    }
}

/// The counter used by `cold_reads_to_omit`.
#[test]
fn reads_of_single_partitions_are_counted_for_each_sstable() {
    let dir = dir("sub-options-reads");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    for (p, timestamp_us) in [("a", 10), ("b", 20)] {
        engine.apply(insert(&table, p, 1, "x", timestamp_us)).wait().unwrap();
        engine.flush(vec![table.id]).unwrap();
    }
    for p in ["a", "b", "b"] {
        let key = PartitionRange::Key(PartitionKey::new(p));
        let read = ReadCommand { bypass_cache: true, ..ReadCommand::new(table.id, key) };
        assert_eq!(all(&engine, read).len(), 1);
    }
    assert_eq!(of_sstables(&engine, &table, SSTable::point_reads), [1, 2]);
    engine.close().unwrap();
}

#[test]
fn compactions_of_a_table_are_logged_and_the_file_is_bounded() {
    let dir = dir("sub-options-log");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    let class = ("class", "SizeTieredCompactionStrategy");
    let compact = || {
        for c in 0..2 {
            engine.apply(insert(&table, "a", c, "x", 10)).wait().unwrap();
            engine.flush(vec![table.id]).unwrap();
        }
        major(&engine, &table);
    };
    compact();
    alter(&engine, &table, &[class, ("log_all", "true")]);
    compact();
    alter(&engine, &table, &[class]);
    compact();
    let path = dir.join("compaction.log");
    assert!(!path.with_file_name("compaction-1.log").exists());
    let size_of = |path: &Path| std::fs::metadata(path).unwrap().len();
    let data = files(&table_dir(&dir, &table), "Data.db").remove(0);
    engine.close().unwrap();
    let log = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    let strategy = "\"type\":\"SizeTieredCompactionStrategy\"";
    assert!(
        lines[0].starts_with("{\"type\":\"enable\",\"keyspace\":\"ks\",\"table\":\"t\",\"time\":1"),
        "{log}"
    );
    assert!(lines[0].contains(strategy) && lines[2].contains("\"type\":\"disable\""), "{log}");
    let job = lines[1];
    assert!(job.starts_with("{\"type\":\"compaction\",\"keyspace\":\"ks\",\"table\":\"t\","), "{log}");
    let words = "\"shard\":0,\"kind\":\"Major compaction\",\"strategy\":\"SizeTieredCompactionStrategy\",\"reason\":\"compact\"";
    assert!(job.contains(words) && job.ends_with("]}"), "{log}");
    let (inputs, outputs) = job.split_once("\"output\":").unwrap();
    assert_eq!((inputs.matches("\"generation\"").count(), outputs.matches("\"generation\"").count()), (3, 1));
    assert!(outputs.contains("\"version\":\"me\",\"size\":") && size_of(&data) > 0, "{log}");
    // A full file is renamed.
    let full = std::fs::File::options().write(true).open(&path).unwrap();
    full.set_len(16 << 20).unwrap();
    let engine = open(manual_compactions(&dir), 1);
    alter(&engine, &table, &[class, ("log_all", "true")]);
    engine.close().unwrap();
    assert_eq!(size_of(&path.with_file_name("compaction-1.log")), 16 << 20);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
}
