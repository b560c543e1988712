//! Compactions: fewer SSTables with the same content, and no files left over.

use std::sync::Arc;

use catalog::TableSettings;
use compaction::{Layout, Plan, Reason, Split};
use engine::node::compaction as compaction_node;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{Engine, EngineOptions, ReadCommand};
use model::{ClusteringRange, Mutation, PartitionKey, PartitionRange, Position, TableSchema, Tombstone};

use crate::support::*;

/// Maximum number of checks, 10 ms apart.
const LOOKS: u32 = 2000;

fn sleep_10_ms(engine: &Engine) {
    let sleep = engine.ask(0, |shard| async move {
        shard.sleep_us(10_000).await;
        Ok(())
    });
    sleep.wait().unwrap();
}

/// Waits until the table has at most this number of SSTables.
fn wait_for(engine: &Engine, dir: &std::path::Path, sstables: usize) {
    for _ in 0..LOOKS {
        if files(dir, "TOC.txt").len() <= sstables {
            return;
        }
        sleep_10_ms(engine);
    }
    panic!("{:?}", files(dir, "TOC.txt"));
}

fn is_clean(dir: &std::path::Path) {
    assert_eq!(files(dir, ".tmp"), Vec::<std::path::PathBuf>::new());
    assert_eq!(files(dir, ".log"), Vec::<std::path::PathBuf>::new());
}

/// Options without automatic compactions.
fn manual_compactions(dir: &std::path::Path) -> EngineOptions {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    EngineOptions { compaction, ..options(dir) }
}

fn major(engine: &Engine, table: &TableSchema) {
    let id = table.id;
    engine
        .ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await })
        .wait()
        .unwrap();
}

/// Merges all SSTables of the only shard into this layout.
fn merge(engine: &Engine, table: &TableSchema, layout: Layout, release_early: bool) {
    let id = table.id;
    let carried_out = engine.ask(0, move |shard| async move {
        let compactions = EngineShard::of(&shard)?.compactions().clone();
        let plan = |_: &mut dyn compaction::Strategy, view: &compaction::TableView<'_>, _: &[_]| {
            vec![Plan {
                inputs: view.free().map(|sstable| sstable.id).collect(),
                expired: vec![],
                layout,
                reason: Reason::Asked("test"),
                release_early,
            }]
        };
        compactions.run_request(id, "Test", plan).await
    });
    carried_out.wait().unwrap();
}

/// All rows, forward and backward.
fn both_ways(engine: &Engine, table: &TableSchema) -> [Vec<(String, i32, String)>; 2] {
    [false, true].map(|reversed| {
        all(
            engine,
            ReadCommand { reversed, page_rows: 97, ..ReadCommand::new(table.id, PartitionRange::all()) },
        )
    })
}

#[test]
fn four_flushes_become_one_by_themselves() {
    let dir = dir("compaction-auto");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for flush in 0..4 {
        for i in 0..200 {
            let (p, v) = (format!("key{}", i % 40), format!("flush{flush} value{i}"));
            engine.apply(insert(&table, &p, i / 7, &v, 1000 * flush + i64::from(i))).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let before = both_ways(&engine, &table);
    let files_of = table_dir(&dir, &table);
    wait_for(&engine, &files_of, 1);
    assert_eq!(both_ways(&engine, &table), before);
    engine.close().unwrap();
    is_clean(&files_of);
    let engine = open(options(&dir), 1);
    assert_eq!(both_ways(&engine, &table), before);
    engine.close().unwrap();
}

/// Three SSTables with a partition larger than a fragment, range tombstones over its middle, and small
/// partitions.
fn large_and_small(engine: &Engine, table: &Arc<TableSchema>) {
    let value = "v".repeat(200);
    for flush in 0..3 {
        for c in 0..600 {
            if c % 3 == flush {
                engine.apply(insert(table, "large", c, &value, 10 + i64::from(flush))).wait().unwrap();
            }
        }
        for p in 0..50 {
            let v = format!("{flush} {value}");
            engine.apply(insert(table, &format!("small{p}"), flush, &v, 10)).wait().unwrap();
        }
        let mut range = Mutation::new(table.clone(), PartitionKey::new("large"));
        let (start, end) = (Position::before(clustering(100)), Position::after(clustering(500)));
        range.delete_range(ClusteringRange { start, end }, Tombstone::new(11, 1_700_000_000 + flush as u32));
        engine.apply(range).wait().unwrap();
        let mut gone = Mutation::new(table.clone(), PartitionKey::new(format!("small{flush}").as_str()));
        gone.partition.tombstone = Tombstone::new(10, 1_700_000_000);
        engine.apply(gone).wait().unwrap();
        engine.flush(vec![table.id]).unwrap();
    }
}

#[test]
fn a_large_partition_is_cut_between_fragments_and_reads_as_one() {
    let dir = dir("compaction-large");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    large_and_small(&engine, &table);
    let before = both_ways(&engine, &table);
    assert!(before[0].len() > 300, "{}", before[0].len());
    let files_of = table_dir(&dir, &table);
    for release_early in [false, true, true] {
        merge(&engine, &table, Layout::run(10_000), release_early);
        assert!(files(&files_of, "TOC.txt").len() > 5, "{:?}", files(&files_of, "TOC.txt"));
        assert_eq!(both_ways(&engine, &table), before);
        for c in [0, 99, 100, 300, 500, 501, 599] {
            let key = PartitionRange::Key(PartitionKey::new("large"));
            let range = ClusteringRange {
                start: Position::before(clustering(c)),
                end: Position::after(clustering(c + 40)),
            };
            for reversed in [false, true] {
                let slice = ReadCommand {
                    reversed,
                    ranges: [range.clone()].into(),
                    ..ReadCommand::new(table.id, key.clone())
                };
                let mut expect: Vec<_> = before[0]
                    .iter()
                    .filter(|row| row.0 == "large" && (c..=c + 40).contains(&row.1))
                    .cloned()
                    .collect();
                if reversed {
                    expect.reverse();
                }
                assert_eq!(all(&engine, slice), expect, "from {c}");
            }
        }
        is_clean(&files_of);
    }
    engine.close().unwrap();
    let engine = open(manual_compactions(&dir), 1);
    assert_eq!(both_ways(&engine, &table), before);
    merge(&engine, &table, Layout { split: Split::Tokens(vec![i64::MIN / 2, 0]), ..Layout::whole() }, false);
    assert_eq!(files(&files_of, "TOC.txt").len(), 3);
    assert_eq!(both_ways(&engine, &table), before);
    major(&engine, &table);
    assert_eq!(files(&files_of, "TOC.txt").len(), 1);
    assert_eq!(both_ways(&engine, &table), before);
    engine.close().unwrap();
}

fn delete_partition(engine: &Engine, table: &Arc<TableSchema>, p: &str, timestamp_us: i64) {
    let mut gone = Mutation::new(table.clone(), PartitionKey::new(p));
    gone.partition.tombstone = Tombstone::new(timestamp_us, 1_700_000_000);
    engine.apply(gone).wait().unwrap();
}

#[test]
fn a_tombstone_stays_until_the_commit_log_cannot_bring_back_what_it_deletes() {
    let dir = dir("compaction-purge");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    engine.apply(insert(&table, "a", 1, "x", 10)).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    delete_partition(&engine, &table, "a", 11);
    major(&engine, &table);
    // The segment with the row still exists: replayed without the tombstone, it would bring the row back.
    let files_of = table_dir(&dir, &table);
    assert_eq!(files(&files_of, "TOC.txt").len(), 1);
    let kept = engine.ask(0, |shard| async move { compaction_node::report(&shard).await }).wait().unwrap();
    assert_eq!((kept[0].stats.kept_tombstones.commit_log, kept[0].stats.kept_tombstones.young), (1, 0));
    drop(engine);
    let engine = open(manual_compactions(&dir), 1);
    assert_eq!(everything(&engine, &table), []);
    major(&engine, &table);
    assert_eq!(files(&files_of, ""), Vec::<std::path::PathBuf>::new(), "nothing is left");
    // Data outside the job keeps a tombstone, and is named in the report.
    engine.apply(insert(&table, "b", 1, "x", 10)).wait().unwrap();
    engine.close().unwrap();
    let engine = open(manual_compactions(&dir), 1);
    delete_partition(&engine, &table, "b", 11);
    engine.flush(vec![table.id]).unwrap();
    let id = table.id;
    let only_the_newest = engine.ask(0, move |shard| async move {
        let compactions = EngineShard::of(&shard)?.compactions().clone();
        let plan = |_: &mut dyn compaction::Strategy, view: &compaction::TableView<'_>, _: &[_]| {
            let newest = view.sstables.iter().max_by_key(|sstable| sstable.min_timestamp_us).unwrap();
            vec![Plan {
                inputs: vec![newest.id],
                expired: vec![],
                layout: Layout::whole(),
                reason: Reason::Asked("test"),
                release_early: false,
            }]
        };
        compactions.run_request(id, "Test", plan).await
    });
    only_the_newest.wait().unwrap();
    let kept = engine.ask(0, |shard| async move { compaction_node::report(&shard).await }).wait().unwrap();
    assert_eq!(kept[0].stats.kept_tombstones.sstable, 1);
    assert_eq!(kept[0].stats.kept_tombstones.sstables.len(), 1);
    assert_eq!(everything(&engine, &table), []);
    engine.close().unwrap();
}

#[test]
fn tombstone_gc_decides_when_tombstones_are_purged() {
    let dir = dir("compaction-tombstone-gc");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    let tombstones = |engine: &Engine| {
        let id = table.id;
        let counted = engine.ask(0, move |shard| async move {
            let sstables = EngineShard::of(&shard)?.table(id)?.sstables();
            Ok(sstables.iter().filter(|sstable| sstable.may_have_tombstones()).count())
        });
        counted.wait().unwrap()
    };
    // Deleted a moment ago by the clock; the log has no entries any more.
    let now = engine.ask(0, |shard| async move { Ok(shard.wall_us() / 1_000_000) }).wait().unwrap();
    let mut gone = Mutation::new(table.clone(), PartitionKey::new("a"));
    gone.partition.tombstone = Tombstone::new(11, now as u32 - 10);
    engine.apply(insert(&table, "b", 1, "x", 10)).wait().unwrap();
    engine.apply(gone).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    engine.close().unwrap();
    let engine = open(manual_compactions(&dir), 1);
    let set = |mode: &str| {
        let mut settings = TableSettings::default();
        settings.others.insert("tombstone_gc".to_string(), format!("{{'mode': '{mode}'}}"));
        let schema = table.clone();
        engine.change_schema(move |catalog| catalog.alter_table(schema, settings)).unwrap();
    };
    for (mode, left) in [("timeout", 1), ("disabled", 1), ("repair", 0)] {
        set(mode);
        major(&engine, &table);
        assert_eq!(tombstones(&engine), left, "{mode}");
    }
    let kept = engine.ask(0, |shard| async move { compaction_node::report(&shard).await }).wait().unwrap();
    let kept = &kept[0].stats.kept_tombstones;
    assert_eq!((kept.young, kept.disabled, kept.commit_log), (1, 1, 0));
    engine.close().unwrap();
}

#[test]
fn another_strategy_takes_over_a_live_table() {
    let dir = dir("compaction-alter");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let alter = |options: &'static [(&'static str, &'static str)]| {
        let schema = table.clone();
        let changed = engine.change_schema(move |catalog| {
            let compaction =
                options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            catalog.alter_table(schema, TableSettings { compaction, ..TableSettings::default() })
        });
        changed.unwrap();
    };
    alter(&[("class", "SizeTieredCompactionStrategy"), ("enabled", "false")]);
    for flush in 0..8 {
        for i in 0..50 {
            let v = format!("{flush} {i}");
            engine.apply(insert(&table, &format!("key{i}"), flush, &v, 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let files_of = table_dir(&dir, &table);
    (0..10).for_each(|_| sleep_10_ms(&engine));
    assert_eq!(files(&files_of, "TOC.txt").len(), 8, "it is switched off");
    let before = both_ways(&engine, &table);
    for (options, sstables) in [
        (&[("class", "SizeTieredCompactionStrategy"), ("min_threshold", "8")][..], 1),
        (&[("class", "LeveledCompactionStrategy"), ("sstable_size_in_mb", "1")], 1),
        (&[("class", "IncrementalCompactionStrategy")], 1),
        (&[("class", "UnifiedCompactionStrategy")], 1),
        (&[("class", "TimeWindowCompactionStrategy")], 1),
    ] {
        alter(options);
        wait_for(&engine, &files_of, sstables);
        major(&engine, &table);
        assert_eq!(both_ways(&engine, &table), before, "{options:?}");
    }
    engine.close().unwrap();
    is_clean(&files_of);
}

#[test]
fn a_stop_and_a_drop_end_a_job_and_leave_nothing() {
    let dir = dir("compaction-stop");
    let mut slow = manual_compactions(&dir);
    slow.compaction.throughput_bytes_per_s = 50_000;
    slow.auto_snapshot = false;
    let engine = open(slow, 1);
    let table = table(&engine);
    let value = "v".repeat(1000);
    for flush in 0..3 {
        for i in 0..500 {
            engine.apply(insert(&table, &format!("key{i}"), flush, &value, 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let before = both_ways(&engine, &table);
    let files_of = table_dir(&dir, &table);
    let id = table.id;
    let running = engine.ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await });
    let mut looks = 0..LOOKS;
    let stopped = loop {
        let stop = engine.ask(0, |shard| async move { compaction_node::stop(&shard, None).await });
        match stop.wait().unwrap() {
            0 => looks.next().map(|_| sleep_10_ms(&engine)).expect("a job begins"),
            jobs => break jobs,
        }
    };
    assert_eq!(stopped, 1);
    assert!(running.wait().unwrap_err().to_string().contains("was stopped"));
    assert_eq!(files(&files_of, "TOC.txt").len(), 3);
    is_clean(&files_of);
    assert_eq!(both_ways(&engine, &table), before);
    let running = engine.ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await });
    engine.change_schema(|catalog| catalog.drop_table("ks", "t")).unwrap();
    assert!(running.wait().is_err());
    assert!(!files_of.exists());
    engine.close().unwrap();
}

#[test]
fn a_damaged_input_is_skipped_and_the_others_are_compacted() {
    let dir = dir("compaction-damaged");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    for flush in 0..3 {
        for i in 0..300 {
            let v = format!("{flush} {}", "v".repeat(i % 90));
            engine.apply(insert(&table, &format!("key{i}"), flush, &v, 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    engine.close().unwrap();
    let files_of = table_dir(&dir, &table);
    let damaged = files(&files_of, "Data.db").remove(1);
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&damaged, &bytes).unwrap();
    let engine = open(manual_compactions(&dir), 1);
    let id = table.id;
    let merge =
        || engine.ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await }).wait();
    let error = merge().unwrap_err().to_string();
    assert!(error.contains(damaged.file_name().unwrap().to_str().unwrap()), "{error}");
    assert_eq!(files(&files_of, "TOC.txt").len(), 3);
    is_clean(&files_of);
    // The next job takes the other SSTables.
    merge().unwrap();
    assert_eq!(files(&files_of, "TOC.txt").len(), 2);
    assert!(damaged.exists());
    is_clean(&files_of);
    engine.close().unwrap();
}
