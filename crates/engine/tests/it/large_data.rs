//! Large items are known as long as their SSTable exists.

use engine::{Engine, node};
use reports::{LargeItem, LargeKind};
use runtime::log_capture::LogCapture;
use sstable::write::LargeDataLimits;

use crate::support::*;

fn large(engine: &Engine) -> Vec<LargeItem> {
    let mut items = engine.ask(0, |shard| async move { node::large_data(&shard).await }).wait().unwrap();
    items.sort_by_key(|item| (item.sstable.clone(), item.bytes));
    items
}

#[test]
fn it_comes_with_an_sstable_and_goes_with_it() {
    let dir = dir("large-data");
    let limits = LargeDataLimits { cell_bytes: 1000, partition_rows: 150, ..LargeDataLimits::default() };
    let log = LogCapture::of_all_threads();
    let mut options = options(&dir);
    options.large_data = limits;
    options.compaction.is_automatic = false;
    let engine = open(options.clone(), 2);
    let table = table(&engine);
    let write = |engine: &Engine, from: i32, until: i32| {
        for c in from..until {
            engine.apply(insert(&table, "ada", c, "x", 1)).wait().unwrap();
        }
        engine.apply(insert(&table, "bob", from, &"x".repeat(1001 + from as usize), 1)).wait().unwrap();
        engine.flush(vec![table.id]).unwrap();
    };
    write(&engine, 0, 80);
    let items = large(&engine);
    let [cell] = &items[..] else { panic!("{items:?}") };
    assert_eq!((&*cell.keyspace, &*cell.table, &*cell.partition_key, cell.bytes), ("ks", "t", "bob", 1001));
    let kind =
        |c: &str| LargeKind::Cell { clustering_key: c.to_string(), column: "v".to_string(), elements: None };
    assert_eq!(cell.kind, kind("0"));
    assert!(cell.sstable.ends_with("-big-Data.db") && cell.written_ms > 1_700_000_000_000, "{cell:?}");
    let lines = log.texts_of("large_data");
    assert!(lines.len() == 1 && lines[0].starts_with("Writing large cell ks/t: v (1001 bytes)"), "{lines:?}");
    engine.close().unwrap();

    // They are known after a start, and each SSTable has its own.
    let engine = open(options.clone(), 2);
    assert_eq!(large(&engine), items);
    write(&engine, 80, 160);
    assert_eq!(large(&engine).len(), 2);

    // A compaction sees the whole partition; the items of its inputs are removed with them.
    let table_id = table.id;
    let operation = move |shard: runtime::Shard| async move {
        engine::node::compaction::major(&shard, table_id, false).await
    };
    engine.ask(0, operation).wait().unwrap();
    let items = large(&engine);
    let partitions: Vec<_> = items.iter().filter(|item| item.partition_key == "ada").collect();
    let [LargeItem { kind: LargeKind::Partition { rows: 160, dead_rows: 0, range_tombstones: 0 }, .. }] =
        partitions[..]
    else {
        panic!("{items:?}")
    };
    let mut cells: Vec<_> = items.iter().filter(|item| item.partition_key == "bob").collect();
    cells.sort_by_key(|item| item.bytes);
    assert_eq!(cells.iter().map(|item| item.bytes).collect::<Vec<_>>(), [1001, 1081]);
    assert_eq!(cells[0].sstable, cells[1].sstable);

    let id = engine.table("ks", "t").unwrap().id;
    engine.truncate(id).unwrap();
    assert_eq!(large(&engine), []);
    engine.close().unwrap();
}
