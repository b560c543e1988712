//! Scrub of a table in use: sound data stays, damaged data is removed and counted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use engine::node::compaction as compaction_node;
use engine::node::scrub::{ScrubOptions, scrub};
use engine::options::CompactionOptions;
use engine::{Engine, EngineError, EngineOptions};
use model::TableId;
use reports::Scrubbed;

use crate::support::*;

fn manual_compactions(dir: &Path) -> EngineOptions {
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    EngineOptions { compaction, ..options(dir) }
}

fn scrubbed(engine: &Engine, id: TableId, options: ScrubOptions) -> Result<Scrubbed, EngineError> {
    engine.ask(0, move |shard| async move { scrub(&shard, id, options).await }).wait()
}

fn major(engine: &Engine, id: TableId) -> Result<(), EngineError> {
    engine.ask(0, move |shard| async move { compaction_node::major(&shard, id, false).await }).wait()
}

/// Two SSTables of 400 partitions with a row each, written by one shard; the second is damaged in its middle.
/// Returns all rows and the damaged file.
fn damaged_table(dir: &Path) -> (Vec<(String, i32, String)>, PathBuf) {
    let engine = open(manual_compactions(dir), 1);
    let table = table(&engine);
    for flush in 0..2 {
        for i in 0..400 {
            // Incompressible, so that the file has many chunks.
            let v: String =
                (0..30).map(|n| ((i * 7919 + n * 104_729 + n * n * i) % 9973).to_string()).collect();
            engine.apply(insert(&table, &format!("key{i}"), flush, &v, 10)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let rows = everything(&engine, &table);
    engine.close().unwrap();
    let file = files(&table_dir(dir, &table), "Data.db").remove(1);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, &bytes).unwrap();
    (rows, file)
}

#[test]
fn what_is_sound_of_a_damaged_sstable_takes_its_place() {
    for shards in [1, 2] {
        let dir = dir(&format!("scrub-{shards}"));
        let (before, damaged) = damaged_table(&dir);
        let engine = open(manual_compactions(&dir), shards);
        let table = table(&engine);
        if shards == 1 {
            let error = major(&engine, table.id).unwrap_err().to_string();
            assert!(error.contains("Data.db"), "{error}");
        }
        let done = scrubbed(&engine, table.id, ScrubOptions::default()).unwrap();
        assert_eq!((done.sstables, done.out_of_order, done.left.len()), (2, 0, 0), "{done:?}");
        assert!(
            done.damaged.len() == 1 && done.damaged[0].starts_with(damaged.to_str().unwrap()),
            "{done:?}"
        );
        let lost = done.lost_partitions + done.damaged_partitions;
        assert!((1..200).contains(&lost), "{done:?}");
        let after = everything(&engine, &table);
        assert_eq!(after.len() as u64, done.rows);
        assert!(after.len() < before.len() && after.len() > before.len() - 200, "{}", after.len());
        let there: BTreeSet<_> = before.iter().collect();
        assert!(after.iter().all(|row| there.contains(row)));
        assert!(after.iter().filter(|(_, c, _)| *c == 0).count() == 400, "the sound one lost nothing");
        assert!(!damaged.exists());
        // The snapshot has what was there, damage included.
        let [snapshot] = &done.snapshots[..] else { panic!("one was made: {done:?}") };
        let (_, tag) = snapshot.split_once(": ").unwrap();
        let kept = table_dir(&dir, &table).join("snapshots").join(tag);
        assert!(kept.join(damaged.file_name().unwrap()).exists());
        // The replacement is an ordinary SSTable.
        major(&engine, table.id).unwrap();
        assert_eq!(files(&table_dir(&dir, &table), "TOC.txt").len(), shards as usize);
        assert_eq!(everything(&engine, &table), after);
        engine.close().unwrap();
        let engine = open(manual_compactions(&dir), shards);
        assert_eq!(everything(&engine, &table), after);
        engine.close().unwrap();
    }
}

#[test]
fn a_sound_table_is_written_anew_and_an_empty_one_left_alone() {
    let dir = dir("scrub-sound");
    let engine = open(manual_compactions(&dir), 2);
    let table = table(&engine);
    let no_snapshot = ScrubOptions { no_snapshot: true, ..ScrubOptions::default() };
    assert_eq!(scrubbed(&engine, table.id, ScrubOptions::default()).unwrap(), Scrubbed::default());
    for i in 0..100 {
        engine.apply(insert(&table, &format!("key{i}"), i, "v", 10)).wait().unwrap();
    }
    let before = everything(&engine, &table);
    let done = scrubbed(&engine, table.id, no_snapshot).unwrap();
    let expect = Scrubbed { sstables: 2, partitions: 100, rows: 100, ..Scrubbed::default() };
    assert_eq!(done, expect);
    assert!(!table_dir(&dir, &table).join("snapshots").exists());
    assert_eq!(everything(&engine, &table), before);
    // System tables too, and twice in a row.
    let system = engine.table("system_schema", "tables").unwrap().id;
    assert!(scrubbed(&engine, system, no_snapshot).unwrap().sstables > 0);
    assert_eq!(scrubbed(&engine, table.id, no_snapshot).unwrap(), expect);
    engine.close().unwrap();
    let engine = open(manual_compactions(&dir), 2);
    assert_eq!(everything(&engine, &table), before);
    engine.close().unwrap();
}

#[test]
fn rows_with_invalid_values_are_dropped_unless_no_validate_is_set() {
    let dir = dir("scrub-values");
    let engine = open(manual_compactions(&dir), 1);
    let table = table(&engine);
    for flush in 0..6 {
        for i in 0..20 {
            let mut row = insert(&table, &format!("key{i}"), flush, "v", 10);
            if i == 7 {
                let v = table.column_named("v").unwrap();
                let no_text = model::Cell::live(10, &[0xff, 0xfe][..]);
                row.row_mut(clustering(flush)).set(v, no_text);
            }
            engine.apply(row).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let options = ScrubOptions { no_snapshot: true, no_validate: true, jobs: Some(3), ..Default::default() };
    let done = scrubbed(&engine, table.id, options).unwrap();
    assert_eq!((done.sstables, done.rows, done.lost_rows, done.damaged.len()), (6, 120, 0, 0), "{done:?}");
    for jobs in [Some(0), None] {
        let options = ScrubOptions { no_validate: false, jobs, ..options };
        let done = scrubbed(&engine, table.id, options).unwrap();
        let lost = if jobs.is_some() { 6 } else { 0 };
        assert_eq!((done.sstables, done.rows, done.lost_rows), (6, 114, lost), "{done:?}");
        assert_eq!(done.damaged.len() as u64, lost, "{done:?}");
        assert!(done.damaged.iter().all(|finding| finding.contains("column v has a value")), "{done:?}");
    }
    let rows = everything(&engine, &table);
    assert!(rows.len() == 114 && rows.iter().all(|(p, _, _)| p != "key7"));
    engine.close().unwrap();
}

#[test]
fn an_sstable_that_cannot_be_opened_is_scrubbed_if_its_data_can_be_read() {
    for (number, (component, is_removed)) in
        [("Index.db", true), ("Index.db", false), ("TOC.txt", false)].into_iter().enumerate()
    {
        for shards in [1, 2] {
            let dir = dir(&format!("scrub-unopened-{number}-{shards}"));
            let (before, damaged) = damaged_table(&dir);
            // Here only SSTables that cannot be opened are damaged.
            let mut bytes = std::fs::read(&damaged).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xff;
            std::fs::write(&damaged, &bytes).unwrap();
            let name = damaged.to_str().unwrap().replace("Data.db", component);
            if is_removed { std::fs::remove_file(&name) } else { std::fs::write(&name, b"") }.unwrap();

            let engine = open(manual_compactions(&dir), shards);
            let table = table(&engine);
            assert_eq!(engine.open_report().unreadable_sstables.len(), 1);
            let read = engine.read(engine::ReadCommand::new(table.id, model::PartitionRange::all())).wait();
            assert!(read.unwrap_err().to_string().contains("scrub"), "{component}");
            let done = scrubbed(&engine, table.id, ScrubOptions::default()).unwrap();
            assert_eq!((done.left.len(), done.damaged.len(), done.lost_partitions), (0, 1, 0), "{done:?}");
            assert!(done.damaged[0].contains(component), "{done:?}");
            assert_eq!(everything(&engine, &table), before);
            let (_, tag) = done.snapshots[0].split_once(": ").unwrap();
            let kept = table_dir(&dir, &table).join("snapshots").join(tag);
            assert!(kept.join(damaged.file_name().unwrap()).exists() && !damaged.exists());
            major(&engine, table.id).unwrap();
            engine.close().unwrap();
            let engine = open(manual_compactions(&dir), shards);
            let report = engine.open_report();
            assert_eq!(
                (report.unreadable_sstables.len(), report.missing_sstables.len()),
                (0, 0),
                "{report:?}"
            );
            assert_eq!(everything(&engine, &table), before);
            engine.close().unwrap();
        }
    }
}

#[test]
fn an_sstable_of_unknown_format_is_kept() {
    for component in ["Statistics.db", "CompressionInfo.db"] {
        let dir = dir(&format!("scrub-left-{component}"));
        let (_, damaged) = damaged_table(&dir);
        std::fs::remove_file(damaged.to_str().unwrap().replace("Data.db", component)).unwrap();
        let engine = open(manual_compactions(&dir), 1);
        let done = scrubbed(&engine, table(&engine).id, ScrubOptions::default()).unwrap();
        assert!(done.left.len() == 1 && done.left[0].contains(component), "{done:?}");
        assert!(damaged.exists());
        engine.close().unwrap();
    }
}
