//! Slices of a time series: SSTables of other times are not opened, even if all their rows have a TTL.

use std::sync::Arc;

use engine::shard::EngineShard;
use engine::{Engine, ReadCommand};
use model::{
    Cell, ClusteringRange, ColumnData, Liveness, Mutation, PartitionKey, PartitionRange, Position,
    TableSchema, Tombstone,
};

use crate::support::*;

const DAYS: i32 = 6;
const ROWS_A_DAY: i32 = 100;
const TTL_S: u32 = 10 * 86_400;

/// A row of a day, with a TTL.
fn point(table: &Arc<TableSchema>, c: i32, now_s: u32) -> Mutation {
    let timestamp_us = i64::from(c) + 1;
    let mut mutation = Mutation::new(table.clone(), PartitionKey::new("sensor"));
    let row = mutation.row_mut(clustering(c));
    row.liveness = Liveness::expiring(timestamp_us, TTL_S, now_s);
    row.push(
        table.column_named("v").unwrap().id,
        ColumnData::Simple(Cell::expiring(timestamp_us, TTL_S, now_s, "x")),
    );
    mutation
}

/// Number of SSTables that a read of this day opens without the row cache.
fn opened(engine: &Engine, table: &TableSchema, day: i32) -> u64 {
    let id = table.id;
    let count = || {
        let asked = engine.ask(0, move |shard| async move {
            Ok(EngineShard::of(&shard)?.table(id)?.counters.sstables.opened.get())
        });
        asked.wait().unwrap()
    };
    let before = count();
    let mut command = ReadCommand::new(id, PartitionRange::Key(PartitionKey::new("sensor")));
    let (start, end) = (day * ROWS_A_DAY, (day + 1) * ROWS_A_DAY);
    let range = ClusteringRange {
        start: Position::before(clustering(start)),
        end: Position::before(clustering(end)),
    };
    command.ranges = Arc::new([range]);
    command.bypass_cache = true;
    assert_eq!(all(engine, command).len(), ROWS_A_DAY as usize);
    count() - before
}

#[test]
fn a_day_of_a_series_with_a_ttl_is_in_one_sstable() {
    let dir = dir("slices");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let now_s = engine.ask(0, |shard| async move { Ok(shard.wall_us() / 1_000_000) }).wait().unwrap() as u32;
    let settings = catalog::TableSettings {
        compaction: [("class", "TimeWindowCompactionStrategy"), ("enabled", "false")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into(),
        ..catalog::TableSettings::default()
    };
    let schema = table.clone();
    engine.change_schema(move |catalog| catalog.alter_table(schema, settings)).unwrap();
    for day in 0..DAYS {
        for c in day * ROWS_A_DAY..(day + 1) * ROWS_A_DAY {
            engine.apply(point(&table, c, now_s)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    assert_eq!(files(&table_dir(&dir, &table), "TOC.txt").len(), DAYS as usize);
    for day in 0..DAYS {
        assert_eq!(opened(&engine, &table, day), 1, "day {day}");
    }
    // An SSTable with a partition tombstone is opened for every day; one with a row tombstone of another day
    // is not.
    let mut row = Mutation::new(table.clone(), PartitionKey::new("sensor"));
    row.row_mut(clustering(1_000_000)).deletion = Tombstone::new(1, now_s);
    engine.apply(row).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    assert_eq!(opened(&engine, &table, 2), 1);
    let mut whole = Mutation::new(table.clone(), PartitionKey::new("sensor"));
    whole.partition.tombstone = Tombstone::new(0, now_s);
    engine.apply(whole).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    assert_eq!(opened(&engine, &table, 2), 2);
    engine.close().unwrap();
}

#[test]
fn reads_are_counted_by_the_sstables_they_open_and_the_bytes_they_fetch() {
    let dir = dir("slices-counted");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let schema = table.clone();
    let settings = catalog::TableSettings {
        compaction: [("class".to_string(), "NullCompactionStrategy".to_string())].into(),
        ..catalog::TableSettings::default()
    };
    engine.change_schema(move |catalog| catalog.alter_table(schema, settings)).unwrap();
    for flush in 0..3 {
        for p in ["one", "other"].iter().take(if flush == 0 { 2 } else { 1 }) {
            engine.apply(insert(&table, p, flush, "v", 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let read = |p: &str| {
        let mut command = ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new(p)));
        command.bypass_cache = true;
        all(&engine, command).len()
    };
    assert_eq!((0..9).map(|_| read("other")).sum::<usize>(), 9);
    assert_eq!(read("one"), 3);
    let id = table.id;
    let reports = engine.ask(0, |shard| async move { engine::node::table_reports(&shard).await });
    let reports = reports.wait().unwrap().concat();
    let report = reports.iter().find(|report| report.id == id).unwrap();
    let per_read = &report.sstables_per_read;
    assert_eq!([0.5, 0.9, 0.99].map(|share| per_read.percentile(share)), [1, 1, 3]);
    assert_eq!((per_read.max(), report.point_reads, report.point_read_sstables), (3, 10, 12));
    assert!(report.fetched_bytes > 0, "nothing of it was in memory");
    assert_eq!(report.dir, table_dir(&dir, &table));
    engine.close().unwrap();
}
