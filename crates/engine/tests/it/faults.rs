//! Invalid input and faults: each causes a clear error, and no other data is lost.

use engine::options::CompactionOptions;
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
    assert!(error.to_string().contains("stop that process"), "{error}");
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
fn a_missing_cut_or_emptied_segment_is_refused_or_skipped_on_request() {
    use std::path::Path;
    let empty = |path: &Path| std::fs::write(path, vec![0; std::fs::read(path).unwrap().len()]).unwrap();
    let cut = |path: &Path| {
        // Cut after the header and the first chunk: nothing in the rest is torn.
        let bytes = std::fs::read(path).unwrap();
        let payload = u32::from_be_bytes(bytes[64..68].try_into().unwrap()) as usize;
        std::fs::write(path, &bytes[..(64 + 32 + payload).next_multiple_of(64)]).unwrap();
    };
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    type Hurt<'a> = &'a dyn Fn(&Path);
    let hurts: [(&str, &str, Hurt<'_>); 4] = [
        ("missing", ".log", &remove),
        ("was cut", ".log", &cut),
        ("header", ".log", &empty),
        ("some may be missing", "", &remove),
    ];
    for (number, (expected, ending, hurt)) in hurts.into_iter().enumerate() {
        let dir = dir(&format!("hurt-segment-{number}"));
        let engine = open(options(&dir), 2);
        let table = table(&engine);
        for c in 0..200 {
            engine.apply(insert(&table, &format!("k{c}"), c, "value", 1)).wait().unwrap();
        }
        drop(engine);
        let log = dir.join("commitlog");
        let path = files(&log, ending).into_iter().find(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            // Not a spare segment.
            let bytes = std::fs::read(path).unwrap();
            if ending.is_empty() { name.starts_with("manifest-") } else { bytes[64..96] != [0; 32] }
        });
        let path = path.unwrap();
        hurt(&path);
        // Every start is refused, also with fewer shards.
        for shards in [2, 1] {
            let error = Engine::open_with(
                options(&dir),
                engine::ShardOptions { shards, ..engine::ShardOptions::default() },
            );
            let error = error.err().expect("it must not open");
            let text = error.to_string();
            assert!(matches!(error, EngineError::DamagedLog(_)), "{text}");
            assert!(text.contains(path.to_str().unwrap()) && text.contains(expected), "{expected}: {text}");
        }
        let engine = open(EngineOptions { on_damaged_log: OnDamagedLog::Skip, ..options(&dir) }, 1);
        assert!(!engine.open_report().replay.damaged.is_empty());
        let rows = everything(&engine, &table).len();
        assert!(if ending.is_empty() { rows == 200 } else { (50..200).contains(&rows) }, "{rows} rows");
        drop(engine);
        // The damage was reported once.
        let engine = open(options(&dir), 2);
        assert_eq!(engine.open_report().replay.damaged, []);
        assert_eq!(everything(&engine, &table).len(), rows);
        engine.close().unwrap();
        open(options(&dir), 2).close().unwrap();
    }
}

#[test]
fn a_log_of_the_version_without_manifests_is_read() {
    a_log_of_version_is_read(1);
}

#[test]
fn a_log_of_the_version_without_batch_entries_is_read() {
    a_log_of_version_is_read(2);
}

fn a_log_of_version_is_read(version: u32) {
    let dir = dir(&format!("log-of-version-{version}"));
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    for c in 0..200 {
        engine.apply(insert(&table, &format!("k{c}"), c, "value", 1)).wait().unwrap();
    }
    drop(engine);
    for log in [dir.join("commitlog"), dir.join("commitlog/schema")] {
        for path in files(&log, "") {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with("manifest-") && version == 1 {
                std::fs::remove_file(&path).unwrap();
            } else if name.starts_with("CommitLog-") {
                let mut bytes = std::fs::read(&path).unwrap();
                assert_eq!(bytes[4..8], 3u32.to_be_bytes(), "the current version");
                bytes[4..8].copy_from_slice(&version.to_be_bytes());
                let crc = base::crc::crc32(&bytes[..28]);
                bytes[28..32].copy_from_slice(&crc.to_be_bytes());
                std::fs::write(&path, &bytes).unwrap();
            }
        }
    }
    let engine = open(options(&dir), 1);
    assert_eq!(engine.open_report().replay.damaged, []);
    assert_eq!(everything(&engine, &table).len(), 200);
    engine.close().unwrap();
}

#[test]
fn a_linked_table_is_cleaned_up_as_any_other_and_a_lost_id_is_reported() {
    let dir = dir("linked");
    // A compaction would merge the two SSTables.
    let compaction = CompactionOptions { is_automatic: false, ..CompactionOptions::default() };
    let options = || EngineOptions { compaction: compaction.clone(), ..options(&dir) };
    let engine = open(options(), 1);
    assert!(!engine.open_report().lost_host_id);
    let table = table(&engine);
    for c in 0..2 {
        engine.apply(insert(&table, "k", c, "value", 1)).wait().unwrap();
        engine.flush(vec![table.id]).unwrap();
    }
    engine.close().unwrap();
    let away = dir.join("another-disk");
    std::fs::rename(dir.join("data/ks"), &away).unwrap();
    std::os::unix::fs::symlink(&away, dir.join("data/ks")).unwrap();
    // State after a crash during a removal.
    let toc = files(&table_dir(&dir, &table), "TOC.txt").remove(0);
    std::fs::rename(&toc, toc.with_extension("txt.tmp")).unwrap();
    std::fs::remove_file(dir.join("host_id")).unwrap();
    let engine = open(options(), 1);
    let report = engine.open_report();
    assert_eq!((report.removed_sstables.len(), report.lost_host_id), (1, true), "{report:?}");
    assert_eq!(everything(&engine, &table).len(), 1);
    engine.close().unwrap();
}

#[test]
fn a_torn_end_is_no_damage() {
    let dir = dir("torn");
    // Nothing is synced.
    let commitlog_sync = engine::commitlog::SyncMode::Periodic { period_us: 3_600_000_000 };
    let engine = open(EngineOptions { commitlog_sync, ..options(&dir) }, 1);
    let table = table(&engine);
    for c in 0..50 {
        engine.apply(insert(&table, "k", c, "value", 1)).wait().unwrap();
    }
    drop(engine);
    // The last chunk ends in the middle, as after a power failure during an unsynced write.
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
        // Writes are accepted, and the rest of the node works.
        engine.apply(insert(&table, "k", 2, "value", 1)).wait().unwrap();
        engine.change_schema(|catalog| catalog.create_keyspace(catalog::Keyspace::simple("other")?)).unwrap();
        engine.close().unwrap();
        // After the file is restored, all rows are there.
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

    // The SSTable may be damaged, or the result of a loss of power; this is unknown, and it may be the only
    // copy.
    std::fs::remove_file(&toc).unwrap();
    let data = files(&table_dir(&dir, &table), "Data.db").remove(0);
    let mut bytes = std::fs::read(&data).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let was_there = files(&table_dir(&dir, &table), ".db").len();
    let engine = open(options(&dir), 1);
    let report = engine.open_report();
    assert_eq!((report.removed_sstables.len(), report.set_aside.len()), (0, 1), "{report:?}");
    assert_eq!(files(&report.set_aside[0], ".db").len(), was_there);
    assert_eq!(everything(&engine, &table), []);
    assert_eq!(files(&table_dir(&dir, &table), ".db").len(), 0);
    engine.apply(insert(&table, "k", 2, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    // An SSTable left by a crash has TOC.txt under its temporary name.
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
fn a_table_without_its_directory_refuses_reads_until_that_is_acknowledged() {
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
    // A truncate does not need the lost files.
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
fn missing_files_are_reported_once_and_removed_sstables_never() {
    let dir = dir("missing-generation");
    let missing = |engine: &Engine| engine.open_report().missing_sstables.clone();
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    for flush in 0..3 {
        for c in 0..40 {
            engine.apply(insert(&table, &format!("k{c}"), flush, "value", 1)).wait().unwrap();
        }
        engine.flush(vec![table.id]).unwrap();
    }
    let compact = |engine: &Engine| {
        let id = table.id;
        let major = move |shard| async move { engine::node::compaction::major(&shard, id, false).await };
        engine.ask(0, major).wait().unwrap();
    };
    compact(&engine);
    for c in 0..40 {
        engine.apply(insert(&table, &format!("k{c}"), 3, "value", 1)).wait().unwrap();
    }
    engine.flush(vec![table.id]).unwrap();
    // The process is killed, so no manifest is written at the end.
    drop(engine);
    let engine = open(options(&dir), 2);
    assert_eq!(missing(&engine), Vec::<String>::new());
    assert_eq!(everything(&engine, &table).len(), 160);
    // The replayed rows are in several SSTables.
    compact(&engine);
    engine.close().unwrap();

    let of_table = table_dir(&dir, &table);
    let gone = files(&of_table, "Data.db").remove(0);
    let name = gone.file_name().unwrap().to_str().unwrap().trim_end_matches("-Data.db").to_string();
    for path in files(&of_table, "") {
        if path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name}-")) {
            std::fs::remove_file(path).unwrap();
        }
    }
    // With another number of shards too; reported once.
    let engine = open(options(&dir), 1);
    let said = missing(&engine);
    assert!(said.len() == 1 && said[0].contains(&name) && said[0].contains("ks.t"), "{said:?}");
    assert!(said[0].contains(of_table.to_str().unwrap()), "{said:?}");
    assert!((1..160).contains(&everything(&engine, &table).len()));
    compact(&engine);
    engine.close().unwrap();
    let engine = open(options(&dir), 2);
    assert_eq!(missing(&engine), Vec::<String>::new());
    // SSTables removed by a truncate or a drop are not reported.
    engine.truncate(table.id).unwrap();
    drop(engine);
    let engine = open(options(&dir), 2);
    assert_eq!(missing(&engine), Vec::<String>::new());
    engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
    engine.flush(vec![table.id]).unwrap();
    engine.change_schema(|catalog| catalog.drop_table("ks", "t")).unwrap();
    drop(engine);
    let engine = open(options(&dir), 2);
    assert_eq!(missing(&engine), Vec::<String>::new());
    // SSTables are reported even if the whole directory was emptied.
    engine
        .change_schema(|catalog| catalog.create_table(test_table(), catalog::TableSettings::default()))
        .unwrap();
    let table = engine.table("ks", "t").unwrap();
    engine.apply(insert(&table, "k", 1, "value", 1)).wait().unwrap();
    engine.close().unwrap();
    files(&table_dir(&dir, &table), "").into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let engine = open(options(&dir), 2);
    assert_eq!(missing(&engine).len(), 1);
    engine.close().unwrap();
    let manifest = files(&dir.join("sstables"), "").remove(0);
    std::fs::write(&manifest, b"torn").unwrap();
    let engine = open(options(&dir), 2);
    let said = missing(&engine);
    assert!(said.len() == 1 && said[0].contains("cannot be read"), "{said:?}");
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
        let verify = move |shard| async move { engine::node::verify::verify(&shard, id, false).await };
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
