//! Written data is returned: after restarts, flushes and changes of the number of shards, with pages, in both
//! directions.

use std::collections::{BTreeMap, BTreeSet};

use engine::shard::EngineShard;
use engine::{Engine, EngineError, ReadCommand};
use model::{
    ClusteringRange, CqlType, Liveness, Mutation, PartitionKey, PartitionRange, Position, Tombstone,
};
use reader::{Fragment, ReadSpec, Source, collect};
use runtime::IoClass;
use sstable::read::SSTableSource;

use crate::support::*;

#[test]
fn rows_survive_restarts_with_any_number_of_shards() {
    let dir = dir("restarts");
    let mut expect = BTreeMap::new();
    for (run, shards) in [1, 3, 2, 1].into_iter().enumerate() {
        let engine = open(options(&dir), shards);
        let table = table(&engine);
        let rows = everything(&engine, &table);
        let found: BTreeMap<_, _> = rows.into_iter().map(|(p, c, v)| ((p, c), v)).collect();
        assert_eq!(found, expect, "run {run} with {shards} shards");
        for i in 0..300 {
            let (p, c, v) = (format!("key{}", i % 40), i / 7, format!("run{run} value{i}"));
            engine.apply(insert(&table, &p, c, &v, run as i64 * 1000 + i64::from(i))).wait().unwrap();
            expect.insert((p, c), v);
            if i == 150 {
                engine.flush(vec![table.id]).unwrap();
            }
        }
        // Some runs end without a close.
        if run % 2 == 0 {
            engine.close().unwrap();
        }
    }
}

#[test]
fn pages_resume_exactly_in_both_directions_over_shards_and_sources() {
    let dir = dir("pages");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    for i in 0..400 {
        engine.apply(insert(&table, &format!("key{}", i % 10), i / 10, &format!("{i}"), 1)).wait().unwrap();
        if i % 150 == 149 {
            engine.flush(vec![]).unwrap();
        }
    }
    for reversed in [false, true] {
        let ring = ReadCommand { reversed, ..ReadCommand::new(table.id, PartitionRange::all()) };
        let pages_of = |page_rows| ReadCommand { page_rows, ..ring.clone() };
        let whole = all(&engine, pages_of(10_000));
        assert_eq!(whole.len(), 400);
        for page_rows in [1, 7, 40, 41, 399] {
            assert_eq!(all(&engine, pages_of(page_rows)), whole, "pages of {page_rows}, reversed {reversed}");
        }
        assert_eq!(all(&engine, ReadCommand { page_bytes: 700, ..ring.clone() }), whole);
        assert_eq!(all(&engine, ReadCommand { limit_rows: 95, ..pages_of(20) }), whole[..95]);
        let firsts: Vec<_> = whole.chunks(40).flat_map(|partition| partition[..3].to_vec()).collect();
        assert_eq!(all(&engine, ReadCommand { partition_limit_rows: 3, ..pages_of(4) }), firsts);
        let one = PartitionRange::Key(PartitionKey::new("key3"));
        let one = ReadCommand { reversed, page_rows: 6, ..ReadCommand::new(table.id, one) };
        let expect: Vec<_> = whole.iter().filter(|row| row.0 == "key3").cloned().collect();
        assert_eq!(all(&engine, one), expect);
    }
    engine.close().unwrap();
}

#[test]
fn deletions_hide_what_is_in_sstables() {
    let dir = dir("deletions");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for c in 0..10 {
        engine.apply(insert(&table, "a", c, "x", 10)).wait().unwrap();
        engine.apply(insert(&table, "b", c, "x", 10)).wait().unwrap();
    }
    engine.flush(vec![]).unwrap();
    let deletion = Tombstone::new(11, 1_700_000_000);
    let mut range = Mutation::new(table.clone(), PartitionKey::new("a"));
    let (start, end) = (Position::before(clustering(2)), Position::after(clustering(7)));
    range.delete_range(ClusteringRange { start, end }, deletion);
    engine.apply(range).wait().unwrap();
    let mut partition = Mutation::new(table.clone(), PartitionKey::new("b"));
    partition.partition.tombstone = deletion;
    engine.apply(partition).wait().unwrap();
    let left = || everything(&engine, &table).into_iter().map(|row| row.1).collect::<Vec<_>>();
    assert_eq!(left(), [0, 1, 8, 9]);
    engine.flush(vec![]).unwrap();
    assert_eq!(left(), [0, 1, 8, 9]);
    engine.close().unwrap();
}

#[test]
fn an_sstable_has_nothing_that_it_deletes_itself() {
    let dir = dir("shadowed");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let deletion = Tombstone::new(11, 1_700_000_000);
    for p in ["partition", "range", "row", "none"] {
        for c in 0..10 {
            let timestamp_us = if c == 9 { 12 } else { 10 };
            engine.apply(insert(&table, p, c, "x", timestamp_us)).wait().unwrap();
        }
    }
    let mutation = |key: &str| Mutation::new(table.clone(), PartitionKey::new(key));
    let mut partition = mutation("partition");
    partition.partition.tombstone = deletion;
    let mut range = mutation("range");
    let (start, end) = (Position::before(clustering(2)), Position::END);
    range.delete_range(ClusteringRange { start, end }, deletion);
    let mut row = mutation("row");
    row.row_mut(clustering(3)).deletion = deletion;
    for mutation in [partition, range, row] {
        engine.apply(mutation).wait().unwrap();
    }
    engine.flush(vec![]).unwrap();
    let id = table.id;
    let written = engine.ask(0, move |shard| async move {
        let table = EngineShard::of(&shard)?.table(id)?;
        let source = SSTableSource::new(table.sstables()[0].clone(), IoClass::Statement);
        let all = ReadSpec::new(table.schema(), PartitionRange::all());
        let mut shapes: Vec<(String, u32, u32)> = vec![];
        for fragment in collect(&mut *source.reader(&all)).await.unwrap() {
            match fragment {
                Fragment::PartitionStart { key, .. } => {
                    shapes.push((String::from_utf8_lossy(key.bytes()).to_string(), 0, 0));
                }
                Fragment::Row(row) => {
                    let (_, live, dead) = shapes.last_mut().expect("a row is in a partition");
                    *live += u32::from(!row.row.liveness.is_none());
                    *dead += u32::from(!row.row.deletion.is_live());
                }
                _ => {}
            }
        }
        Ok(shapes.into_iter().collect::<BTreeSet<_>>())
    });
    let expect = [("none", 10, 0), ("partition", 1, 0), ("range", 3, 0), ("row", 9, 1)];
    let expect = expect.map(|(key, live, dead)| (key.to_string(), live, dead));
    assert_eq!(written.wait().unwrap(), expect.into());
    engine.close().unwrap();
}

#[test]
fn truncate_empties_and_stays_empty() {
    let dir = dir("truncate");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    let write = |engine: &Engine, from: i32| {
        for c in from..from + 20 {
            engine.apply(insert(&table, &format!("k{c}"), c, "x", 10)).wait().unwrap();
        }
    };
    write(&engine, 0);
    engine.flush(vec![]).unwrap();
    write(&engine, 20);
    engine.truncate(table.id).unwrap();
    assert_eq!(everything(&engine, &table), []);
    assert_eq!(files(&table_dir(&dir, &table), "Data.db").len(), 0);
    write(&engine, 40);
    assert_eq!(everything(&engine, &table).len(), 20);
    // Without a close the log is replayed, and it has the truncated entries.
    drop(engine);
    let engine = open(options(&dir), 1);
    assert_eq!(everything(&engine, &table).len(), 20);
    engine.close().unwrap();
}

#[test]
fn what_is_written_after_a_truncate_and_a_restart_stays() {
    let dir = dir("truncate-restart");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for c in 0..5 {
        engine.apply(insert(&table, "old", c, "x", 10)).wait().unwrap();
        engine.flush(vec![]).unwrap();
    }
    engine.truncate(table.id).unwrap();
    drop(engine);
    // No SSTable is left from which the used generations could be derived.
    for run in 0..3 {
        let engine = open(options(&dir), 1);
        assert_eq!(everything(&engine, &table).len(), run as usize);
        engine.apply(insert(&table, "new", run, "x", 10)).wait().unwrap();
        engine.close().unwrap();
    }
}

#[test]
fn tables_are_altered_and_dropped_and_a_snapshot_stays() {
    let dir = dir("schema");
    let engine = open(options(&dir), 2);
    let old = table(&engine);
    engine.apply(insert(&old, "a", 1, "one", 5)).wait().unwrap();
    let links = engine.snapshot(old.id, "before").unwrap();
    assert!(links >= 8, "all components of a file: {links}");
    assert!(matches!(engine.snapshot(old.id, "before"), Err(EngineError::Invalid(_))));
    assert!(matches!(engine.snapshot(old.id, "../up"), Err(EngineError::Invalid(_))));
    let new = old.to_builder().drop_column("v", 6).regular("w", CqlType::Int);
    let new = new.build_with_ids_from(old.column_id_bound()).unwrap();
    engine.change_schema(move |catalog| catalog.alter_table(new, catalog::TableSettings::default())).unwrap();
    drop(engine);
    let engine = open(options(&dir), 2);
    let altered = engine.table("ks", "t").unwrap();
    assert!(altered.column_named("v").is_none() && altered.column_named("w").is_some());
    let page = engine.read(ReadCommand::new(altered.id, PartitionRange::all())).wait().unwrap();
    assert_eq!(page.partitions[0].rows[0].row.cells(), [], "the row is there, the dropped cell is not");
    engine.change_schema(|catalog| catalog.drop_table("ks", "t")).unwrap();
    assert!(matches!(engine.apply(insert(&old, "a", 1, "x", 9)).wait(), Err(EngineError::UnknownTable(_))));
    let kept = table_dir(&dir, &old).join("snapshots/before");
    assert_eq!(
        files(&kept, ".db").len() + files(&kept, "32").len() + files(&kept, "TOC.txt").len(),
        links as usize
    );
    assert!(kept.join("manifest.json").exists() && kept.join("schema.cql").exists());
    assert_eq!(files(&table_dir(&dir, &old), "Data.db").len(), 0);
    engine.close().unwrap();
}

#[test]
fn a_write_that_could_not_be_stored_is_refused_before_it_is_logged() {
    let dir = dir("invalid");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    let check = |mutation: Mutation, expect: &str| {
        let error = engine.apply(mutation).wait().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(insert(&table, "", 1, "x", 1), "a partition key of 0 bytes");
    let mut wrong = Mutation::new(table.clone(), PartitionKey::new("k"));
    wrong.row_mut(model::ClusteringPrefix::new([&[1u8, 2, 3][..]])).liveness = Liveness::new(1);
    check(wrong, "a value of 3 bytes for c, which has 4");
    check(insert(&table, "k", 1, &"x".repeat(600_000), 1), "commitlog_segment_size");
    assert_eq!(everything(&engine, &table), []);
    engine.flush(vec![]).unwrap();
    engine.close().unwrap();
}

#[test]
fn memory_stays_bounded_by_flushing() {
    let dir = dir("memory");
    let engine = open(engine::EngineOptions { memory_bytes: 4 << 20, ..options(&dir) }, 1);
    let table = table(&engine);
    let value = "v".repeat(1000);
    let mut writes = vec![];
    for i in 0..8000 {
        writes.push(engine.apply(insert(&table, &format!("k{}", i % 500), i, &value, 1)));
        if writes.len() == 64 {
            writes.drain(..).for_each(|write| write.wait().unwrap());
            let dirty_bytes = engine.report().unwrap()[0].dirty_bytes;
            assert!(dirty_bytes <= (2 << 20) + 200_000, "{dirty_bytes} bytes dirty of 4 MiB");
        }
    }
    writes.drain(..).for_each(|write| write.wait().unwrap());
    let report = &engine.report().unwrap()[0];
    assert!(report.flushes.flushes >= 4 && report.log_bytes <= 17 << 20, "{report:?}");
    assert_eq!(everything(&engine, &table).len(), 8000);
    engine.close().unwrap();
}

#[test]
fn reports_count_what_was_done_and_a_partition_knows_its_sstables() {
    let dir = dir("reports");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    let write = |p: &str| engine.apply(insert(&table, p, 1, "value", 1)).wait().unwrap();
    (0..20).for_each(|i| write(&format!("key{i}")));
    engine.flush(vec![table.id]).unwrap();
    // For the second SSTable of a shard, the bloom filter and the key range may give false positives.
    ["key3", "key4"].into_iter().for_each(write);
    engine.flush(vec![table.id]).unwrap();
    write("key5");
    for i in 0..20 {
        let key = PartitionKey::new(format!("key{i}").as_str());
        assert_eq!(all(&engine, ReadCommand::new(table.id, PartitionRange::Key(key.clone()))).len(), 1);
        let id = table.id;
        let asked =
            engine.ask(0, move |shard| async move { engine::node::sstables_of_key(&shard, id, key).await });
        let files = asked.wait().unwrap();
        assert_eq!(files.len(), if i == 3 || i == 4 { 2 } else { 1 }, "key{i}: {files:?}");
        assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    }
    let asked = engine.ask(0, |shard| async move { engine::node::table_reports(&shard).await });
    let reports = asked.wait().unwrap();
    assert_eq!(reports.len(), 2);
    let mine: Vec<_> = reports.iter().flatten().filter(|report| report.id == table.id).collect();
    let sum = |of: &dyn Fn(&engine::report::TableReport) -> u64| mine.iter().map(|r| of(r)).sum::<u64>();
    assert_eq!((sum(&|r| r.writes.count()), sum(&|r| r.reads.count())), (23, 20));
    assert!(sum(&|r| r.writes.total_us) > 0);
    assert_eq!(sum(&|r| r.flushes), sum(&|r| r.sstables.len() as u64));
    assert_eq!(sum(&|r| r.sstables.iter().map(|sstable| sstable.partitions).sum()), 22);
    assert_eq!(sum(&|r| r.memtable_partitions as u64), 1);
    assert!(mine.iter().all(|report| report.pending_flushes == 0 && report.unreadable == 0));
    engine.close().unwrap();
}

#[test]
fn writes_that_depend_on_what_is_there_do_not_lose_each_other() {
    let dir = dir("read_modify_write");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    let asked: Vec<_> = (0..200u32)
        .map(|i| {
            let table = table.clone();
            // Called on both shards, whichever owns the partition.
            engine.ask(i % 2, move |shard| async move {
                let command = ReadCommand::new(table.id, PartitionRange::Key(PartitionKey::new("sum")));
                let decide = move |_: &runtime::Shard, page: &engine::Page| {
                    let row = page.partitions.first().and_then(|partition| partition.rows.first());
                    let before = row.map_or(0, |row| match row.row.cells() {
                        [(_, model::ColumnData::Simple(cell))] => {
                            std::str::from_utf8(&cell.value).unwrap().parse::<i64>().unwrap()
                        }
                        other => panic!("{other:?}"),
                    });
                    let after = before + 1;
                    Ok::<_, EngineError>(Some(vec![insert(&table, "sum", 1, &after.to_string(), after)]))
                };
                let none = engine::node::Deadline::NONE;
                engine::node::read_modify_write(&shard, command, none, decide).await.map(drop)
            })
        })
        .collect();
    for asked in asked {
        asked.wait().unwrap();
    }
    assert_eq!(everything(&engine, &table), [("sum".to_string(), 1, "200".to_string())]);
    engine.close().unwrap();
}
