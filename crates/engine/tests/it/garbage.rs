//! `garbagecollect`: removes data from older SSTables that newer ones delete or overwrite.

use std::path::Path;
use std::sync::Arc;

use engine::compaction::Granularity;
use engine::node::compaction as compaction_node;
use engine::options::CompactionOptions;
use engine::shard::EngineShard;
use engine::{Engine, EngineOptions};
use model::{ClusteringRange, Mutation, PartitionKey, Position, TableSchema, Tombstone};

use crate::support::*;

fn manual_compactions(dir: &Path) -> EngineOptions {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    EngineOptions { compaction, ..options(dir) }
}

/// Rows in each SSTable, oldest first.
fn rows_in_sstables(engine: &Engine, table: &TableSchema) -> Vec<u64> {
    let id = table.id;
    let counted = engine.ask(0, move |shard| async move {
        let sstables = EngineShard::of(&shard)?.table(id)?.sstables();
        let mut rows: Vec<_> =
            sstables.iter().map(|sstable| (sstable.max_timestamp_us(), sstable.stats().total_rows)).collect();
        rows.sort_unstable();
        Ok(rows.into_iter().map(|(_, rows)| rows).collect())
    });
    counted.wait().unwrap()
}

fn collect(engine: &Engine, table: &TableSchema, granularity: Granularity) {
    let id = table.id;
    let collected = engine
        .ask(0, move |shard| async move { compaction_node::garbage_collect(&shard, id, granularity).await });
    collected.wait().unwrap();
}

/// 300 rows of three partitions; then recent tombstones of one partition and of a range in another; then 50
/// rows of the third written again. Each in an SSTable of its own.
fn fill(engine: &Engine) -> Arc<TableSchema> {
    let table = table(engine);
    let now_s = engine.ask(0, |shard| async move { Ok(shard.wall_us() / 1_000_000) }).wait().unwrap() as u32;
    for c in 0..100 {
        for p in ["a", "b", "c"] {
            engine.apply(insert(&table, p, c, &format!("old {c}"), 10)).wait().unwrap();
        }
    }
    engine.flush(vec![table.id]).unwrap();
    let mut gone = Mutation::new(table.clone(), PartitionKey::new("a"));
    gone.partition.tombstone = Tombstone::new(20, now_s);
    engine.apply(gone).wait().unwrap();
    let mut range = Mutation::new(table.clone(), PartitionKey::new("b"));
    let (start, end) = (Position::before(clustering(20)), Position::after(clustering(59)));
    range.delete_range(ClusteringRange { start, end }, Tombstone::new(20, now_s));
    engine.apply(range).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    for c in 0..50 {
        engine.apply(insert(&table, "c", c, &format!("new {c}"), 30)).wait().unwrap();
    }
    engine.flush(vec![table.id]).unwrap();
    table
}

#[test]
fn rows_that_newer_sstables_delete_go_and_then_cells_that_they_overwrite() {
    let dir = dir("garbage");
    let engine = open(manual_compactions(&dir), 1);
    let table = fill(&engine);
    let before = everything(&engine, &table);
    assert_eq!(before.len(), 160);
    assert_eq!(rows_in_sstables(&engine, &table), [300, 0, 50]);
    // Of the 300 rows, a has 100 deleted ones and b 40. The tombstones are too young to be dropped.
    collect(&engine, &table, Granularity::Row);
    assert_eq!(rows_in_sstables(&engine, &table), [160, 0, 50]);
    assert_eq!(everything(&engine, &table), before);
    // Also 50 rows of c are overwritten.
    collect(&engine, &table, Granularity::Cell);
    assert_eq!(rows_in_sstables(&engine, &table), [110, 0, 50]);
    assert_eq!(everything(&engine, &table), before);
    // Nothing more is found.
    collect(&engine, &table, Granularity::Cell);
    assert_eq!(rows_in_sstables(&engine, &table), [110, 0, 50]);
    engine.close().unwrap();
    let engine = open(manual_compactions(&dir), 2);
    let mut after = everything(&engine, &table);
    after.sort();
    let mut expect = before;
    expect.sort();
    assert_eq!(after, expect);
    engine.close().unwrap();
}
