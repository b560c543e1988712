//! SSTables of other shards are dealt out to their owners, and loaded ones are brought into the strategy's
//! form.

use engine::node::compaction as compaction_node;
use engine::shard::EngineShard;
use engine::{Engine, EngineOptions};
use model::TableSchema;

use crate::support::*;

/// Checks every 10 ms until `is_so`.
fn wait_until(engine: &Engine, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        let sleep = engine.ask(0, |shard| async move {
            shard.sleep_us(10_000).await;
            Ok(())
        });
        sleep.wait().unwrap();
    }
    let report = engine.ask(0, |shard| async move { compaction_node::report(&shard).await }).wait().unwrap();
    panic!("{what}: {report:?}");
}

/// For each shard, the number of its SSTables, and how many of them other shards read too.
fn counts(engine: &Engine, table: &TableSchema, shards: u32) -> Vec<(usize, usize)> {
    let id = table.id;
    let of = |shard| {
        let counted = engine.ask(shard, move |shard| async move {
            let table = EngineShard::of(&shard)?.table(id)?;
            let sstables = table.sstables();
            let shared = sstables.iter().filter(|it| table.is_shared(it, shard.shard_count())).count();
            Ok((sstables.len(), shared))
        });
        counted.wait().unwrap()
    };
    (0..shards).map(of).collect()
}

fn without_merges(dir: &std::path::Path) -> EngineOptions {
    let mut options = options(dir);
    // So that dealt-out SSTables are seen before they are merged.
    options.compaction.enforce_min_threshold = true;
    options
}

#[test]
fn after_a_change_of_the_shard_count_each_shard_gets_sstables_of_its_own() {
    let dir = dir("reshard");
    let engine = open(without_merges(&dir), 2);
    let table = table(&engine);
    for i in 0..900 {
        let (p, v) = (format!("key{}", i % 300), format!("value {i}"));
        engine.apply(insert(&table, &p, i / 300, &v, i64::from(i))).wait().unwrap();
        if i == 600 {
            engine.flush(vec![table.id]).unwrap();
        }
    }
    let before = everything(&engine, &table);
    engine.close().unwrap();
    let files_of = table_dir(&dir, &table);
    for shards in [3, 1, 4] {
        let engine = open(without_merges(&dir), shards);
        assert_eq!(everything(&engine, &table), before, "{shards} shards, at once");
        if shards > 1 {
            wait_until(&engine, "nothing is shared", || {
                counts(&engine, &table, shards).iter().all(|(_, shared)| *shared == 0)
            });
            let owned: usize = counts(&engine, &table, shards).iter().map(|(all, _)| all).sum();
            wait_until(&engine, "inputs are gone", || files(&files_of, "TOC.txt").len() == owned);
            assert_eq!(everything(&engine, &table), before, "{shards} shards");
        }
        engine.close().unwrap();
        assert_eq!(files(&files_of, ".tmp"), Vec::<std::path::PathBuf>::new());
        assert_eq!(files(&files_of, ".log"), Vec::<std::path::PathBuf>::new());
    }
    let engine = open(without_merges(&dir), 4);
    assert_eq!(everything(&engine, &table), before, "after a restart");
    engine.close().unwrap();
}

#[test]
fn what_was_loaded_is_brought_into_form() {
    let source = dir("reshape-source");
    let mut options_of_source = options(&source);
    options_of_source.compaction.is_automatic = false;
    let engine = open(options_of_source, 1);
    let table_of_source = table(&engine);
    for flush in 0..6 {
        for i in 0..50 {
            let row = insert(&table_of_source, &format!("key{i}"), flush, "from elsewhere", 10);
            engine.apply(row).wait().unwrap();
        }
        engine.flush(vec![table_of_source.id]).unwrap();
    }
    let rows = everything(&engine, &table_of_source);
    let from = table_dir(&source, &table_of_source);
    engine.close().unwrap();

    for shards in [1, 3] {
        let dir = dir(&format!("reshape-{shards}"));
        let engine = open(options(&dir), shards);
        let table = table(&engine);
        assert_eq!(engine.import(table.id, &from).unwrap().sstables.len(), 6);
        // While they are dealt out one by one, the strategy already merges SSTables of a shard, so more may
        // remain.
        let most = if shards == 1 { 1 } else { 3 };
        wait_until(&engine, "few SSTables a shard, none of several", || {
            counts(&engine, &table, shards).iter().all(|(count, shared)| *count <= most && *shared == 0)
        });
        assert_eq!(everything(&engine, &table), rows);
        let kinds = |kind: &str| {
            let history = engine.ask(0, |shard| async move { compaction_node::history(&shard) });
            history.wait().unwrap().iter().filter(|ended| ended.kind == kind).count()
        };
        // A job that has replaced its inputs removes files before it ends. While SSTables are dealt out one
        // by one, the strategy may be faster.
        let (resharded, reshaped) = if shards > 1 { (6, 0) } else { (0, 1) };
        wait_until(&engine, "jobs have ended", || {
            kinds("Reshard") == resharded && kinds("Reshape") >= reshaped
        });
        engine.close().unwrap();
    }
}
