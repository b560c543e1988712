//! SSTables from elsewhere: loaded into a table in use, and attached in their directory.

use std::collections::BTreeMap;
use std::path::Path;

use engine::{Attachment, EngineError};
use model::{CqlType, TableSchema};

use crate::support::*;

/// SSTables of `ks.t` in the directory of a node that has stopped, and their rows.
fn source(name: &str, shards: u32) -> (std::path::PathBuf, Vec<(String, i32, String)>) {
    let dir = dir(name);
    let engine = open(options(&dir), shards);
    let table = table(&engine);
    for i in 0..200 {
        let row = insert(&table, &format!("key{}", i % 20), i / 20, &format!("from elsewhere {i}"), 10);
        engine.apply(row).wait().unwrap();
        if i == 100 {
            engine.flush(vec![]).unwrap();
        }
    }
    let rows = everything(&engine, &table);
    let sstables = table_dir(&dir, &table);
    engine.close().unwrap();
    (sstables, rows)
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in files(from, "") {
        std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn sstables_of_other_shards_are_taken_in_while_the_table_is_in_use() {
    for (from_shards, to_shards) in [(1, 3), (3, 2), (2, 2)] {
        let (sstables, rows) = source(&format!("loading-source-{from_shards}-{to_shards}"), from_shards);
        let dir = dir(&format!("loading-{from_shards}-{to_shards}"));
        let engine = open(options(&dir), to_shards);
        let table = table(&engine);
        let mut expect: BTreeMap<_, _> = rows.iter().cloned().map(|(p, c, v)| ((p, c), v)).collect();
        // One newer than the loaded rows, one older.
        for (c, timestamp_us) in [(0, 20), (1, 5)] {
            engine.apply(insert(&table, "key0", c, "mine", timestamp_us)).wait().unwrap();
        }
        expect.insert(("key0".into(), 0), "mine".into());
        let found = || -> BTreeMap<_, _> {
            everything(&engine, &table).into_iter().map(|(p, c, v)| ((p, c), v)).collect()
        };

        // A missing upload directory is created and is no error.
        assert_eq!(engine.refresh(table.id).unwrap().sstables, []);
        let upload = table_dir(&dir, &table).join("upload");
        copy_all(&sstables, &upload);
        let count = files(&upload, "-TOC.txt").len();
        let report = engine.refresh(table.id).unwrap();
        assert_eq!(report.sstables.len(), count);
        assert_eq!(files(&upload, ""), Vec::<std::path::PathBuf>::new(), "moved");
        assert_eq!(found(), expect, "{from_shards} to {to_shards}");

        // Loaded again, as copies: nothing changes, and no file is removed.
        let report = engine.import(table.id, &sstables).unwrap();
        assert_eq!(report.sstables.len(), count);
        assert_eq!(files(&sstables, "-TOC.txt").len(), count);
        assert_eq!(found(), expect);
        engine.flush(vec![]).unwrap();
        assert_eq!(found(), expect);
        engine.close().unwrap();

        let engine = open(options(&dir), 2);
        let found: BTreeMap<_, _> =
            everything(&engine, &table).into_iter().map(|(p, c, v)| ((p, c), v)).collect();
        assert_eq!(found, expect, "after a restart");
    }
}

#[test]
fn what_is_damaged_or_of_another_table_is_refused_and_nothing_is_taken() {
    let (sstables, _) = source("loading-refused-source", 1);
    let dir = dir("loading-refused");
    let engine = open(options(&dir), 2);
    let table = table(&engine);
    let upload = table_dir(&dir, &table).join("upload");
    copy_all(&sstables, &upload);
    let data = files(&upload, "-Data.db").pop().unwrap();
    let sound = std::fs::read(&data).unwrap();
    let mut bytes = sound.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&data, &bytes).unwrap();
    let error = engine.refresh(table.id).unwrap_err().to_string();
    assert!(error.contains("is damaged, nothing was loaded") && error.contains("-Data.db"), "{error}");
    std::fs::write(&data, &sound).unwrap();
    let toc = files(&upload, "-TOC.txt").pop().unwrap();
    let listed = std::fs::read_to_string(&toc).unwrap();
    std::fs::write(&toc, format!("{listed}Indez.db\n")).unwrap();
    let error = engine.refresh(table.id).unwrap_err().to_string();
    assert!(error.contains("TOC.txt lists Indez.db") && error.contains("nothing was loaded"), "{error}");
    std::fs::write(&toc, &listed).unwrap();

    let other = TableSchema::builder("ks", "other").partition_key("p", CqlType::Text);
    let other = other.clustering("c", CqlType::BigInt).regular("w", CqlType::Int).build().unwrap();
    let made = other.clone();
    engine.change_schema(move |catalog| catalog.create_table(made, Default::default())).unwrap();
    let error = engine.import(other.id, &upload).unwrap_err().to_string();
    for part in ["its clustering key is (int), that of ks.other (bigint)", "ALTER TABLE ks.other ADD v text"]
    {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(everything(&engine, &table), []);
    assert_eq!(files(&table_dir(&dir, &table), ""), Vec::<std::path::PathBuf>::new());
    assert!(!engine.refresh(table.id).unwrap().sstables.is_empty(), "as it is sound again");
}

/// SSTables of Cassandra 5 keep their version and format.
#[test]
fn sstables_of_cassandra_5_are_taken_in_and_attached() {
    let sample = |version: &str| {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(version);
        let keyspace = samples.join("wide_uncompressed/data/wide_uncompressed");
        let mut tables = std::fs::read_dir(keyspace).unwrap();
        tables.next().unwrap().unwrap().path()
    };
    for (version, prefix) in [("cassandra-5.0-oa", "oa-"), ("cassandra-5.0-da", "da-")] {
        let theirs = sample(version);
        let dir = dir(&format!("loading-{version}"));
        let attachment = Attachment {
            dir: theirs.clone(),
            keyspace: "theirs".to_owned(),
            table: "t".to_owned(),
            schema: None,
        };
        let attached = engine::EngineOptions { attachments: vec![attachment], ..options(&dir) };
        let engine = open(attached, 2);
        let rows = everything(&engine, &engine.table("theirs", "t").unwrap());
        assert!(rows.len() > 300, "{version}: {} rows", rows.len());
        let mine = TableSchema::builder("ks", "wide").partition_key("k", CqlType::Text);
        let mine = mine.clustering("c", CqlType::Int).static_column("s", CqlType::Text);
        let mine = mine.regular("v", CqlType::Text).build().unwrap();
        let made = mine.clone();
        engine.change_schema(|catalog| catalog.create_keyspace(catalog::Keyspace::simple("ks")?)).unwrap();
        engine.change_schema(move |catalog| catalog.create_table(made, Default::default())).unwrap();
        let report = engine.import(mine.id, &theirs).unwrap();
        assert_eq!(report.sstables.len(), files(&theirs, "-TOC.txt").len());
        for (from, to) in &report.sstables {
            let format = |name: &str| name.split('-').nth(2).map(str::to_string);
            assert!(to.starts_with(prefix) && format(to) == format(from), "{from} is now {to}");
        }
        assert_eq!(everything(&engine, &mine), rows, "{version}");
        // Loaded through `upload/`, the same rows are returned.
        let upload = dir.join("data/ks").join(format!("wide-{}", mine.id.simple())).join("upload");
        copy_all(&theirs, &upload);
        assert_eq!(engine.refresh(mine.id).unwrap().sstables.len(), report.sstables.len());
        assert_eq!(everything(&engine, &mine), rows, "{version}");
        let mut expect: BTreeMap<_, _> = rows.into_iter().map(|(p, c, v)| ((p, c), v)).collect();
        let (key, first) = {
            let ((key, c), _) = expect.iter().next().unwrap();
            (key.clone(), *c)
        };
        let newer = 2_000_000_000_000_000;
        engine.apply(insert(&mine, &key, first, "mine", newer)).wait().unwrap();
        expect.insert((key, first), "mine".into());
        engine.flush(vec![]).unwrap();
        engine.close().unwrap();

        let engine = open(options(&dir), 3);
        let found: BTreeMap<_, _> =
            everything(&engine, &mine).into_iter().map(|(p, c, v)| ((p, c), v)).collect();
        assert_eq!(found, expect, "{version}, after a restart");
        engine.close().unwrap();
    }
}

#[test]
fn an_attached_directory_is_read_and_never_written() {
    let (sstables, rows) = source("attached-source", 2);
    let before: Vec<_> =
        files(&sstables, "").iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    let attachment = |keyspace: &str, schema| Attachment {
        dir: sstables.clone(),
        keyspace: keyspace.to_owned(),
        table: "t".to_owned(),
        schema,
    };
    let dir = dir("attached");
    let attached = || {
        let attachments = vec![attachment("theirs", None), attachment("named", Some(test_table()))];
        engine::EngineOptions { attachments, ..options(&dir) }
    };
    for shards in [1, 3] {
        let engine = open(attached(), shards);
        let mine = table(&engine);
        let theirs = engine.table("theirs", "t").unwrap();
        assert_eq!(
            (theirs.partition_key[0].name.as_str(), theirs.clustering[0].name.as_str()),
            ("key", "clustering1")
        );
        let named = engine.table("named", "t").unwrap();
        assert_eq!(named.partition_key[0].name, "p");
        assert_eq!(everything(&engine, &theirs), rows, "{shards} shards");
        assert_eq!(everything(&engine, &named), rows, "{shards} shards");

        let refused = |result: Result<(), EngineError>| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("attached"), "{error}");
        };
        refused(engine.apply(insert(&named, "key1", 1, "no", 50)).wait());
        refused(engine.truncate(theirs.id));
        refused(engine.snapshot(theirs.id, "tag").map(drop));
        refused(engine.refresh(theirs.id).map(drop));
        refused(engine.change_schema(|catalog| catalog.drop_table("theirs", "t")).map(drop));
        refused(engine.change_schema(|catalog| catalog.drop_keyspace("theirs")).map(drop));
        let more = TableSchema::builder("theirs", "more").partition_key("p", CqlType::Text).build().unwrap();
        refused(engine.change_schema(|catalog| catalog.create_table(more, Default::default())).map(drop));
        // Everything else works.
        engine.apply(insert(&mine, "mine", 1, "yes", 50)).wait().unwrap();
        let other = TableSchema::builder("ks", format!("other{shards}"));
        let other = other.partition_key("p", CqlType::Text).build().unwrap();
        engine.change_schema(|catalog| catalog.create_table(other, Default::default())).unwrap();
        engine.flush(vec![]).unwrap();
        assert_eq!(everything(&engine, &mine).len(), 1);
        engine.close().unwrap();
    }
    let after: Vec<_> =
        files(&sstables, "").iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    assert!(before == after, "nothing was written there");
    let engine = open(options(&dir), 2);
    assert!(engine.table("theirs", "t").is_err(), "nothing is left of it");
    assert_eq!(everything(&engine, &table(&engine)).len(), 1);
}
