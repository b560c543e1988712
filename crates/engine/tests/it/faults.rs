//! Bad input and faults: each a clear error, and nothing else is lost.

use engine::{Engine, EngineError, EngineOptions, OnDamagedLog};

use crate::support::*;

#[track_caller]
fn refused(options: EngineOptions) -> EngineError {
    Engine::open(options).err().expect("it must not open")
}

#[test]
fn a_second_process_on_the_directory_is_refused() {
    let dir = dir("locked");
    let engine = open(options(&dir), 1);
    let error = refused(options(&dir));
    assert!(matches!(error, EngineError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("stop the other process"), "{error}");
    engine.close().unwrap();
    open(options(&dir), 1).close().unwrap();
}

#[test]
fn a_damaged_log_is_refused_with_its_place_and_opened_on_request() {
    let dir = dir("damaged-log");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for c in 0..200 {
        engine.apply(insert(&table, "k", c, "some value that is worth keeping", 1)).wait().unwrap();
    }
    drop(engine);
    let segment = files(&dir.join("commitlog"), ".log").remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[2000] ^= 0x10;
    std::fs::write(&segment, &bytes).unwrap();

    let error = refused(options(&dir));
    let text = error.to_string();
    assert!(matches!(error, EngineError::DamagedLog(_)), "{text}");
    assert!(text.contains(segment.to_str().unwrap()) && text.contains("at byte "), "{text}");

    let engine = open(EngineOptions { on_damaged_log: OnDamagedLog::Skip, ..options(&dir) }, 1);
    assert_eq!(engine.open_report().replay.damaged.len(), 1);
    let rows = everything(&engine, &table).len();
    assert!((150..200).contains(&rows), "{rows} rows: only what was in the damaged chunk is gone");
    engine.close().unwrap();
}

#[test]
fn a_torn_end_is_no_damage() {
    let dir = dir("torn");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for c in 0..50 {
        engine.apply(insert(&table, "k", c, "value", 1)).wait().unwrap();
    }
    drop(engine);
    // The last chunk ends in the middle: what a power failure does to a write that was not synced.
    let segment = files(&dir.join("commitlog"), ".log").remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 20..=end].fill(0);
    std::fs::write(&segment, &bytes).unwrap();
    let engine = open(options(&dir), 1);
    let replay = &engine.open_report().replay;
    assert_eq!((replay.damaged.len(), replay.truncated.len()), (0, 1), "{replay:?}");
    assert_eq!(everything(&engine, &table).len(), 49);
    engine.close().unwrap();
}

#[test]
fn an_sstable_that_cannot_be_opened_is_named_and_everything_else_works() {
    for missing in ["Index.db", "Data.db", "Statistics.db", "CompressionInfo.db"] {
        let dir = dir(&format!("missing-{missing}"));
        let engine = open(options(&dir), 1);
        let table = table(&engine);
        engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
        engine.close().unwrap();
        let file = files(&table_dir(&dir, &table), missing).remove(0);
        let kept = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let engine = open(options(&dir), 1);
        let reports = &engine.open_report().unreadable_sstables;
        assert!(reports.len() == 1 && reports[0].contains(missing), "{reports:?}");
        let read = || engine.read(engine::ReadCommand::new(table.id, model::PartitionRange::all())).wait();
        let error = read().unwrap_err().to_string();
        assert!(error.contains(missing) && error.contains("ks.t") && error.contains("restart"), "{error}");
        // Writes are taken, and the rest of the node works.
        engine.apply(insert(&table, "k", 2, "value", 1)).wait().unwrap();
        engine.change_schema(|catalog| catalog.create_keyspace(catalog::Keyspace::simple("other")?)).unwrap();
        engine.close().unwrap();
        // Put back, everything is there.
        std::fs::write(&file, kept).unwrap();
        let engine = open(options(&dir), 1);
        assert_eq!(everything(&engine, &table).len(), 2);
        engine.close().unwrap();
    }
}

#[test]
fn wrong_bytes_in_data_are_an_error_that_names_the_file_and_other_partitions_are_read() {
    let dir = dir("wrong-bytes");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for i in 0..200 {
        engine.apply(insert(&table, &format!("k{i}"), 1, &format!("{i:0500}"), 1)).wait().unwrap();
    }
    engine.close().unwrap();
    let data = files(&table_dir(&dir, &table), "Data.db").remove(0);
    let mut bytes = std::fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let engine = open(options(&dir), 1);
    let read = |i: usize| {
        let key = model::PartitionRange::Key(model::PartitionKey::new(format!("k{i}").as_str()));
        engine.read(engine::ReadCommand::new(table.id, key)).wait()
    };
    let (good, bad): (Vec<_>, Vec<_>) = (0..200).map(read).partition(Result::is_ok);
    assert!(!bad.is_empty() && good.len() > 100, "{} good, {} bad", good.len(), bad.len());
    for error in bad {
        let text = error.unwrap_err().to_string();
        assert!(text.contains("Data.db at byte") && text.contains("restore it"), "{text}");
    }
    engine.close().unwrap();
}

#[test]
fn an_sstable_that_lost_its_toc_gets_it_back_and_what_is_not_sound_is_removed() {
    let dir = dir("unsealed");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    let toc = files(&table_dir(&dir, &table), "TOC.txt").remove(0);
    let listed = std::fs::read(&toc).unwrap();
    std::fs::remove_file(&toc).unwrap();
    let engine = open(options(&dir), 1);
    assert_eq!(everything(&engine, &table).len(), 1);
    engine.close().unwrap();
    assert_eq!(files(&table_dir(&dir, &table), "TOC.txt"), std::slice::from_ref(&toc));
    let all = |text: &[u8]| {
        let mut lines: Vec<_> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(all(&std::fs::read(&toc).unwrap()), all(&listed));

    // What a crash leaves: a file is not whole, or the temporary name is there.
    std::fs::remove_file(&toc).unwrap();
    let data = files(&table_dir(&dir, &table), "Data.db").remove(0);
    let mut bytes = std::fs::read(&data).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let engine = open(options(&dir), 1);
    assert_eq!(engine.open_report().removed_sstables.len(), 1);
    assert_eq!(everything(&engine, &table), []);
    assert_eq!(files(&table_dir(&dir, &table), ".db").len(), 0);
    engine.apply(insert(&table, "k", 2, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    let toc = files(&table_dir(&dir, &table), "TOC.txt").remove(0);
    std::fs::rename(&toc, toc.with_extension("txt.tmp")).unwrap();
    let engine = open(options(&dir), 1);
    assert_eq!(engine.open_report().removed_sstables.len(), 1);
    assert_eq!(everything(&engine, &table), []);
    engine.close().unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_with_its_name() {
    let dir = dir("not-a-directory");
    std::fs::write(&dir, b"a file").unwrap();
    let error = refused(options(&dir)).to_string();
    assert!(error.contains("not-a-directory"), "{error}");
    std::fs::remove_file(&dir).unwrap();
}

#[test]
fn a_table_whose_directory_is_gone_refuses_reads_until_somebody_says_to_go_on() {
    let dir = dir("lost-directory");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    let of_table = table_dir(&dir, &table);
    std::fs::remove_dir_all(&of_table).unwrap();
    for start in 0..2 {
        let engine = open(options(&dir), 2);
        let report = engine.open_report();
        assert_eq!((report.lost_dirs.len(), report.unreadable_sstables.len()), (1 - start, 1), "{report:?}");
        let read = engine.read(engine::ReadCommand::new(table.id, model::PartitionRange::all())).wait();
        let error = read.unwrap_err().to_string();
        assert!(error.contains(of_table.to_str().unwrap()) && error.contains("lost"), "{error}");
        engine.apply(insert(&table, "k", 2 + start as i32, "value", 1)).wait().unwrap();
        engine.close().unwrap();
    }
    std::fs::remove_file(of_table.join("lost")).unwrap();
    let engine = open(options(&dir), 2);
    assert_eq!(everything(&engine, &table).len(), 2);
    engine.close().unwrap();
    // A truncate needs nothing of what was lost.
    std::fs::remove_dir_all(&of_table).unwrap();
    let engine = open(options(&dir), 2);
    engine.truncate(table.id).unwrap();
    assert_eq!(everything(&engine, &table), []);
    engine.close().unwrap();
    let engine = open(options(&dir), 2);
    assert_eq!(everything(&engine, &table), []);
    engine.close().unwrap();
}

#[test]
fn without_its_schema_or_its_log_a_node_does_not_start() {
    let dir = dir("lost-schema");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    let away = dir.join("away");
    for lost in ["data", "data/system_schema", "commitlog", "commitlog/schema"] {
        let lost = dir.join(lost);
        std::fs::rename(&lost, &away).unwrap();
        let error = refused(options(&dir)).to_string();
        assert!(error.contains(lost.to_str().unwrap()) && error.contains("missing"), "{error}");
        std::fs::rename(&away, &lost).unwrap();
    }
    std::fs::remove_dir_all(dir.join("commitlog")).unwrap();
    let engine = open(EngineOptions { on_damaged_log: OnDamagedLog::Skip, ..options(&dir) }, 1);
    assert_eq!(engine.open_report().replay.damaged.len(), 2);
    assert_eq!(everything(&engine, &table).len(), 1);
    engine.close().unwrap();
}

#[test]
fn a_filter_that_has_changed_hides_nothing_and_a_verify_finds_it_while_the_node_runs() {
    let dir = dir("changed-filter");
    let engine = open(options(&dir), 1);
    let table = table(&engine);
    for i in 0..200 {
        engine.apply(insert(&table, &format!("k{i}"), 1, "value", 1)).wait().unwrap();
    }
    engine.flush(vec![table.id]).unwrap();
    let verified = |engine: &Engine| {
        let id = table.id;
        let verify = move |shard| async move { engine::compaction::verify::verify(&shard, id, false).await };
        engine.ask(0, verify).wait().unwrap().damaged
    };
    assert_eq!(verified(&engine), Vec::<String>::new());
    let filter = files(&table_dir(&dir, &table), "Filter.db").remove(0);
    let mut bytes = std::fs::read(&filter).unwrap();
    bytes[20..].fill(0);
    std::fs::write(&filter, &bytes).unwrap();
    let damaged = verified(&engine);
    assert!(damaged.len() == 1 && damaged[0].contains("Filter.db"), "{damaged:?}");
    engine.close().unwrap();
    let engine = open(options(&dir), 1);
    let rebuilt = &engine.open_report().rebuilt_components;
    assert!(rebuilt.len() == 1 && rebuilt[0].contains("Filter.db"), "{rebuilt:?}");
    for i in 0..200 {
        let key = model::PartitionRange::Key(model::PartitionKey::new(format!("k{i}").as_str()));
        assert_eq!(all(&engine, engine::ReadCommand::new(table.id, key)).len(), 1);
    }
    engine.close().unwrap();
}
