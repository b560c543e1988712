//! The history of compactions survives a restart.

use std::path::Path;

use engine::node::compaction as compaction_node;
use engine::options::CompactionOptions;
use engine::{Engine, EngineOptions, ReadCommand};
use model::{PartitionRange, TableSchema};
use reports::EndedCompaction;

use crate::support::*;

fn manual_compactions(dir: &Path) -> EngineOptions {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    EngineOptions { compaction, ..options(dir) }
}

fn history(engine: &Engine) -> Vec<EndedCompaction> {
    engine.ask(0, |shard| async move { compaction_node::history(&shard) }).wait().unwrap()
}

/// The jobs of `ks.t`, as text without the parts that differ between runs of the test.
fn of_table(engine: &Engine) -> Vec<String> {
    let mine = history(engine).into_iter().filter(|ended| ended.keyspace == "ks");
    mine.map(|ended| format!("{ended:?}")).collect()
}

fn major(engine: &Engine, table: &TableSchema) {
    let id = table.id;
    engine
        .ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await })
        .wait()
        .unwrap();
}

fn stored_rows(engine: &Engine) -> usize {
    let id = catalog::compaction_history().id;
    let page = engine.read(ReadCommand::new(id, PartitionRange::all())).wait().unwrap();
    page.partitions.len()
}

#[test]
fn compactions_are_remembered_over_restarts() {
    for shards in [1, 2] {
        let dir = dir(&format!("history-{shards}"));
        let engine = open(manual_compactions(&dir), shards);
        let table = table(&engine);
        for round in 0..3 {
            for flush in 0..2 {
                for p in 0..20 {
                    // Half of the partitions are in both SSTables.
                    let p = if flush == 0 { p } else { p + 10 };
                    engine.apply(insert(&table, &format!("k{p}"), round, "v", 10)).wait().unwrap();
                }
                engine.flush(vec![table.id]).unwrap();
            }
            major(&engine, &table);
        }
        let before = of_table(&engine);
        assert_eq!(before.len(), 3 * shards as usize, "{before:#?}");
        if shards == 1 {
            assert!(before[0].contains("merged: [(1, 20), (2, 10)]"), "{}", before[0]);
        }
        // Shard 0 stores them within about a second.
        let mut looks = 0;
        while stored_rows(&engine) < before.len() && looks < 1000 {
            looks += 1;
            let sleep = engine.ask(0, |shard| async move {
                shard.sleep_us(10_000).await;
                Ok(())
            });
            sleep.wait().unwrap();
        }
        assert!(stored_rows(&engine) >= before.len());
        major(&engine, &table);
        let before = of_table(&engine);
        engine.close().unwrap();

        // With another number of shards too; the last jobs were stored at the stop.
        let engine = open(manual_compactions(&dir), 3 - shards);
        let mut after = of_table(&engine);
        after.truncate(before.len());
        assert_eq!(after, before);
        let all = history(&engine);
        assert!(all.is_sorted_by_key(|ended| ended.ended_ms), "the oldest first");
        engine.close().unwrap();
    }
}
