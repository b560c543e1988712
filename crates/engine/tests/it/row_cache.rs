//! The row cache in a running engine: the reads that it saves, and the operations that clear it.

use catalog::TableSettings;
use engine::{Engine, ReadCommand, RowCacheStats};
use model::{ClusteringRange, PartitionKey, PartitionRange, TableSchema};

use crate::support::*;

fn read(table: &TableSchema, key: &str) -> ReadCommand {
    ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new(key)))
}

/// The number of rows of `command`, and the cache's counters before and after.
fn counted_read(engine: &Engine, command: ReadCommand) -> (usize, RowCacheStats, RowCacheStats) {
    let stats = || engine.report().unwrap()[0].row_cache;
    let before = stats();
    (all(engine, command).len(), before, stats())
}

#[track_caller]
fn check(engine: &Engine, command: ReadCommand, rows: usize, reads: u64, misses: u64) {
    let (found, before, after) = counted_read(engine, command);
    assert_eq!((found, after.reads - before.reads, after.misses - before.misses), (rows, reads, misses));
}

#[test]
fn it_answers_again_what_was_read_and_forgets_when_it_must() {
    let dir = dir("row-cache");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let write = |from: i32, until: i32| {
        for c in from..until {
            engine.apply(insert(&table, "a", c, "value", i64::from(c))).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    };
    write(0, 100);
    let a = || read(&table, "a");
    check(&engine, ReadCommand { bypass_cache: true, ..a() }, 100, 0, 0);
    check(&engine, a(), 100, 1, 1);
    check(&engine, ReadCommand { reversed: true, ..a() }, 100, 1, 0);
    let one = ReadCommand { ranges: [ClusteringRange::of_prefix(clustering(7))].into(), ..a() };
    check(&engine, one.clone(), 1, 1, 0);
    // Scans bypass the cache.
    check(&engine, ReadCommand::new(table.id, PartitionRange::all()), 100, 0, 0);
    // Flushed rows are merged into cached partitions.
    write(100, 150);
    assert!(engine.report().unwrap()[0].row_cache.merged >= 50);
    check(&engine, a(), 150, 1, 0);

    // ALTER TABLE clears the cache, and so does disabling it.
    let alter = |enabled: &'static str| {
        let (name, id) = (table.name.clone(), table.id);
        engine
            .change_schema(move |catalog| {
                let known = catalog.table_by_id(id).unwrap_or_else(|| panic!("{name} is there"));
                let mut settings = TableSettings::clone(&known.settings);
                settings.caching.insert("enabled".to_string(), enabled.to_string());
                catalog.alter_table(known.schema.clone(), settings)
            })
            .unwrap();
    };
    alter("false");
    check(&engine, a(), 150, 0, 0);
    alter("true");
    check(&engine, a(), 150, 1, 1);
    check(&engine, a(), 150, 1, 0);

    engine.truncate(table.id).unwrap();
    check(&engine, a(), 0, 0, 0);
    write(3, 5);
    check(&engine, a(), 2, 1, 1);
    check(&engine, a(), 2, 1, 0);
    let stats = engine.report().unwrap()[0].row_cache;
    assert!(stats.partitions >= 1 && stats.entries >= 2 && stats.bytes > 0, "{stats:?}");
    engine.close().unwrap();
}
